import { DURABLE, type Durability } from '../../src/admit/ledger.ts';
import { Failure } from '../../src/failure.ts';
import { Identifier, type IdentifierOptions, type Identity } from '../../src/identify/identify.ts';
import { KnownCustomers } from '../../src/identify/known-customers.ts';
import type { CustomerStore, KeyScan, KeyStore, RecordPage } from '../../src/identify/record-store.ts';
import { indexedOf, type StoredCustomer, type StoredKey } from '../../src/model/record.ts';
import { PEPPER } from './some-key.ts';

/** A store of keys in memory that counts what it is asked, and can be away or slow. */
export class FakeStore implements KeyStore {
  readonly keys = new Map<string, StoredKey>();
  lookUps = 0;
  updates = 0;
  isAway = false;
  /** While set, look-ups wait for it after they have read. */
  gate: Promise<void> | null = null;

  async findByDigest(digest: string): Promise<StoredKey | null> {
    const key = await this.ownerOf(digest);
    return key?.secrets.some((secret) => secret.digest === digest) ? key : null;
  }

  async ownerOf(digest: string): Promise<StoredKey | null> {
    this.lookUps++;
    this.#answer();
    const found = [...this.keys.values()].find((key) => indexedOf(key).includes(digest));
    if (this.gate !== null) await this.gate;
    return found ?? null;
  }

  async get(id: string) {
    return this.keys.get(id) ?? null;
  }

  async list(_page?: { readonly limit: number; readonly cursor: string | null }): Promise<RecordPage<StoredKey>> {
    return { records: [...this.keys.values()], cursor: null };
  }

  async scan({ most, cursor, mayMatch }: Parameters<KeyStore['scan']>[0]): Promise<KeyScan> {
    const page = await this.list({ limit: most, cursor });
    const found = page.records.flatMap((key, i) => (mayMatch(JSON.stringify(key)) ? [{ key, place: i + 1 }] : []));
    return { found, searched: page.records.length, cursor: page.cursor };
  }

  /** Of what is changed. */
  durability: Durability = DURABLE;

  async create(key: StoredKey) {
    this.keys.set(key.id, key);
    return this.durability;
  }

  async reserve(_name: string, id: string) {
    return id;
  }

  async createEach(keys: readonly StoredKey[]) {
    for (const key of keys) await this.create(key);
    return keys.map(() => 'created' as const);
  }

  async update(id: string, change: (key: StoredKey) => StoredKey) {
    this.updates++;
    this.#answer();
    const next = change(this.keys.get(id)!);
    this.keys.set(id, next);
    return { record: next, durability: this.durability };
  }

  async delete(id: string, bury: (key: StoredKey) => StoredKey) {
    const before = this.keys.get(id);
    if (before === undefined) return null;
    this.keys.set(id, bury(before));
    return { before, durability: this.durability };
  }

  #answer() {
    if (this.isAway) throw new Failure('store_unavailable', 'away');
  }
}

/** A store of customers in memory that counts what it is asked, and can be away or slow. */
export class FakeCustomers implements CustomerStore {
  readonly customers = new Map<string, StoredCustomer>();
  lookUps = 0;
  isAway = false;
  /** While set, look-ups wait for it after they have read. */
  gate: Promise<void> | null = null;

  async get(id: string) {
    this.lookUps++;
    if (this.isAway) throw new Failure('store_unavailable', 'away');
    const found = this.customers.get(id) ?? null;
    if (this.gate !== null) await this.gate;
    return found;
  }

  async list() {
    return { records: [...this.customers.values()], cursor: null };
  }

  async create(customer: StoredCustomer) {
    this.customers.set(customer.id, customer);
    return DURABLE;
  }

  async update(id: string, change: (customer: StoredCustomer) => StoredCustomer) {
    const before = this.customers.get(id);
    if (before === undefined) return null;
    const customer = change(before);
    this.customers.set(id, customer);
    return { record: customer, durability: DURABLE };
  }

  async delete(id: string, bury: (customer: StoredCustomer) => StoredCustomer) {
    const before = this.customers.get(id);
    if (before === undefined) return null;
    bury(before);
    this.customers.delete(id);
    return { before, durability: DURABLE };
  }
}

/** An identifier on a fake store, with clocks that the test turns. */
export function identifierOn(store: KeyStore, differently: Partial<IdentifierOptions> = {}) {
  const clock = { monotonicMs: 1_000, wallMs: 1_800_000_000_000 };
  const pass = (ms: number) => {
    clock.monotonicMs += ms;
    clock.wallMs += ms;
  };
  const clocks = { monotonicMs: () => clock.monotonicMs, wallMs: () => clock.wallMs };
  const stored = new FakeCustomers();
  const customers = new KnownCustomers({ store: stored, staleMs: 3_600_000, ...clocks });
  const identifier = new Identifier({
    keyStore: store,
    customers,
    peppers: [PEPPER],
    ...clocks,
    staleKeysMs: 3_600_000,
    ...differently,
  });
  return { identifier, customers, stored, clock, pass };
}

/** What an identity comes down to, for comparison. */
export function told(identity: Identity): string {
  if (identity.kind === 'consumer') return identity.key.id;
  return identity.kind === 'refused' ? identity.code : identity.kind;
}
