import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import {
  certificateDigestsOf,
  type Deleted,
  indexedOf,
  type KeyPage,
  type KeyScan,
  type KeyStore,
  readStoredKey,
  type StoredKey,
  type Updated,
} from '../../identify/key-store.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import type { EmbeddedChanges } from './changes.ts';
import { answering, isOfStore } from './database.ts';
import { type Condition, RecordTable } from './record-table.ts';

interface EmbeddedKeysOptions {
  readonly db: DatabaseSync;
  readonly changes: EmbeddedChanges;
  /** The store's clock: Unix milliseconds. Date.now by default. */
  readonly wallMs?: () => number;
  /** Called with the error of each change that could not be written. Such a change has not been made. */
  readonly onFailedWrite?: (error: unknown) => void;
}

/** The customer of a key, by which its index is made. */
const CUSTOMER = "CASE WHEN json_valid(record) THEN json_extract(record, '$.customer') END";

/** Whether a record is certainly not one: no JSON, or without its id. Any customer may have had the key. */
const IS_FOREIGN = "CASE WHEN json_valid(record) THEN json_extract(record, '$.id') END IS NOT id";

/** API keys in the embedded store. Each change is one transaction: record, digests and the row for other processes. */
export class EmbeddedKeys implements KeyStore {
  readonly #db: DatabaseSync;
  readonly #writes: AcknowledgedWrites;
  readonly #changes: EmbeddedChanges;
  readonly #wallMs: () => number;
  readonly #onFailedWrite: EmbeddedKeysOptions['onFailedWrite'];
  readonly #byDigest: StatementSync;
  readonly #table: RecordTable<StoredKey>;

  constructor({ db, changes, wallMs = Date.now, onFailedWrite }: EmbeddedKeysOptions) {
    this.#db = db;
    this.#wallMs = wallMs;
    // Not created by a migration, so that an earlier version can still open the file. SQLite keeps the index also while an earlier
    // version writes keys.
    answering(() =>
      db.exec(`
      CREATE TABLE IF NOT EXISTS reserved (
        name TEXT PRIMARY KEY, id TEXT NOT NULL, until_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS keys_by_customer ON keys (${CUSTOMER}, created_at_ms, id) WHERE ${CUSTOMER} IS NOT NULL;
      CREATE INDEX IF NOT EXISTS keys_foreign ON keys (created_at_ms, id) WHERE ${IS_FOREIGN};
    `),
    );
    this.#writes = new AcknowledgedWrites(db);
    this.#changes = changes;
    this.#onFailedWrite = onFailedWrite;
    this.#byDigest = db.prepare(
      'SELECT id, record FROM digests JOIN keys ON keys.id = digests.key_id WHERE digests.digest = ?',
    );
    this.#table = new RecordTable(db, 'keys', readStoredKey);
  }

  async findByDigest(digest: string): Promise<StoredKey | null> {
    const key = await this.ownerOf(digest);
    return key?.secrets.some((secret) => secret.digest === digest) ? key : null;
  }

  async ownerOf(digest: string): Promise<StoredKey | null> {
    return answering(() => {
      const row = this.#byDigest.get(digest);
      return row === undefined ? null : this.#table.read(String(row.id), String(row.record));
    });
  }

  async get(id: string, { evenDeleted } = { evenDeleted: false }): Promise<StoredKey | null> {
    const key = answering(() => this.#table.get(id));
    return key?.deletedAtMs === undefined || evenDeleted ? key : null;
  }

  async list({ customer, ...page }: Parameters<KeyStore['list']>[0]): Promise<KeyPage> {
    const { records, cursor } = answering(() => this.#table.list(page, ofCustomer(customer)));
    return { keys: records, cursor };
  }

  async scan({ most, cursor, mayMatch, customer }: Parameters<KeyStore['scan']>[0]): Promise<KeyScan> {
    const part = answering(() => this.#table.scan(most, cursor, mayMatch, ofCustomer(customer)));
    return { ...part, found: part.found.map(({ record, place }) => ({ key: record, place })) };
  }

  async create(key: StoredKey): Promise<Durability> {
    await this.#change(
      () => {
        this.#insert(key);
        this.#changes.note({ kind: 'key', keyId: key.id });
      },
      () => this.#changes.announce({ kind: 'key', keyId: key.id }),
    );
    return DURABLE;
  }

  async reserve(name: string, id: string, forMs: number): Promise<string> {
    return this.#change(() => {
      const nowMs = this.#wallMs();
      this.#db.prepare('DELETE FROM reserved WHERE until_ms <= ?').run(nowMs);
      this.#db.prepare('INSERT INTO reserved VALUES (?, ?, ?) ON CONFLICT DO NOTHING').run(name, id, nowMs + forMs);
      return String(this.#db.prepare('SELECT id FROM reserved WHERE name = ?').get(name)!.id);
    });
  }

  /** One transaction for all keys: each commit waits for the disk, so thousands of commits would take minutes. */
  async createEach(keys: readonly StoredKey[]): Promise<readonly ('created' | 'taken')[]> {
    return this.#change(() => keys.map((key) => this.#insertIfFree(key)));
  }

  async update(id: string, change: (key: StoredKey) => StoredKey): Promise<Updated | null> {
    const changed = await this.#replace(id, (key) => (key.deletedAtMs === undefined ? change(key) : null));
    return changed === null ? null : { key: changed.next, durability: DURABLE };
  }

  async delete(id: string, bury: (key: StoredKey) => StoredKey): Promise<Deleted | null> {
    const changed = await this.#replace(id, bury);
    return changed === null ? null : { before: changed.key, durability: DURABLE };
  }

  /** @param change returns null to change nothing @returns null if there is no such key or nothing was changed */
  async #replace(id: string, change: (key: StoredKey) => StoredKey | null) {
    return this.#change(
      () => {
        const key = this.#table.get(id);
        const next = key === null ? null : change(key);
        if (key === null || next === null) return null;
        this.#table.replace(next);
        this.#db.prepare('DELETE FROM digests WHERE key_id = ?').run(id);
        this.#point(next);
        this.#changes.note({ kind: 'key', keyId: id });
        return { key, next };
      },
      (changed) => {
        if (changed !== null) this.#changes.announce({ kind: 'key', keyId: id });
      },
    );
  }

  /** @param made called with the commit: the change is in force, also if it cannot be acknowledged */
  async #change<T>(work: () => T, made?: (value: T) => void): Promise<T> {
    try {
      return await this.#writes.write(work, made);
    } catch (error) {
      if (isOfStore(error)) this.#onFailedWrite?.(error);
      throw error;
    }
  }

  #insertIfFree(key: StoredKey): 'created' | 'taken' {
    this.#db.exec('SAVEPOINT one_key');
    try {
      this.#insert(key);
      return 'created';
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'refused') throw error;
      this.#db.exec('ROLLBACK TO one_key');
      return 'taken';
    } finally {
      this.#db.exec('RELEASE one_key');
    }
  }

  #insert(key: StoredKey): void {
    if (this.#table.has(key.id)) throw taken('id');
    this.#table.insert(key);
    this.#point(key);
  }

  #point(key: StoredKey): void {
    // A digest that leads here already is left of a record that was removed because it could not be read.
    const insert = this.#db.prepare(
      'INSERT INTO digests VALUES (?, ?) ON CONFLICT DO UPDATE SET key_id = key_id WHERE key_id = excluded.key_id',
    );
    for (const digest of new Set(indexedOf(key))) {
      if (insert.run(digest, key.id).changes > 0) continue;
      throw taken(certificateDigestsOf(key).includes(digest) ? 'certificate' : 'secret');
    }
  }
}

/** The list of all keys. It changes nothing in the database. */
export function keysIn(db: DatabaseSync): Pick<KeyStore, 'list'> {
  const table = new RecordTable(db, 'keys', readStoredKey);
  return {
    list: async (page) => {
      const { records, cursor } = answering(() => table.list(page, ofCustomer(page.customer)));
      return { keys: records, cursor };
    },
  };
}

/** @param customer undefined: all keys */
function ofCustomer(customer: string | undefined): readonly Condition[] | undefined {
  if (customer === undefined) return undefined;
  return [
    { sql: `${CUSTOMER} IS NOT NULL AND ${CUSTOMER} = ?`, values: [customer] },
    { sql: `${IS_FOREIGN} AND ${CUSTOMER} IS NOT ?`, values: [customer] },
  ];
}

function taken(what: 'id' | 'secret' | 'certificate'): Failure {
  return new Failure('refused', `There is already a key with this ${what}.`);
}
