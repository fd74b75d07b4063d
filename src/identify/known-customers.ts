import { isDeepStrictEqual } from 'node:util';
import { RecentlyUsed } from '../io/recently-used.ts';
import type { Attributes, Meta } from '../model/attributes.ts';
import type { Limits } from '../model/plan.ts';
import { isSuspended, type StoredCustomer, type Suspension, UnreadableRecord } from '../model/record.ts';
import type { CustomerStore } from './record-store.ts';

/** The customer of a caller. Frozen, and the same object for all its callers while the customer does not change. */
export interface Customer {
  readonly id: string;
  readonly name: string | null;
  readonly owner: string | null;
  readonly plan: string;
  /** The customer's own limits, which replace those that its plan has for all its keys together. */
  readonly limits: Limits;
  /** What all its callers may do, beside their own scopes. */
  readonly scopes: readonly string[];
  /** Where the requests of all its callers must come from; null if from anywhere. It holds beside what a caller's own record says. */
  readonly onlyFrom: OnlyFrom | null;
  /** A caller's own pair stands in place of one of the same name. */
  readonly meta: Meta;
}

/** A customer as the store had it. */
export interface KnownCustomer {
  readonly customer: Customer;
  /** Undefined for most customers. One whose end has passed has no effect. */
  readonly suspension: Suspension | undefined;
  /** Unix milliseconds; Infinity: never. */
  readonly expiresAtMs: number;
}

/** The knowledge about an id: its customer, that no customer has it or that it has ended, or that the store does not answer. */
export type CustomerFound = Customer | SuspendedCustomer | 'unknown' | 'expired' | 'unavailable' | UnreadableRecord;

/** An operator has suspended the customer: its callers may do nothing. */
interface SuspendedCustomer {
  readonly suspended: Customer;
}

interface KnownCustomersOptions {
  readonly store: Pick<CustomerStore, 'get'>;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** A known customer stays in use for this long after the store last confirmed it. */
  readonly staleMs: number;
  /** Maximum customers in memory. */
  readonly most?: number;
  /** Called once per failed look-up with the store's error. */
  readonly onStoreFailure?: (error: unknown) => void;
}

interface Entry {
  /** Null: the store has no such customer. */
  readonly known: KnownCustomer | null;
  /** When the store was asked, monotonic milliseconds. */
  readonly askedAtMs: number;
  /** Until then it is used without a look-up. */
  freshUntilMs: number;
  /** The epoch in which the store confirmed it. In a later one the store is asked first. */
  readonly epoch: number;
}

const MOST = 50_000;
/** A known customer is looked up again in the background after this long, in case a notification of a change was lost. */
const CONFIRM_AFTER_MS = 10_000;
/** How long an unknown id is refused from memory, and the pause after a failed look-up. */
const PAUSE_MS = 500;

/** The customers of the callers of a gateway. Those of keys are read with the key, and those that tokens name when they come. */
export class KnownCustomers {
  readonly #options: KnownCustomersOptions;
  readonly #entries: RecentlyUsed<Entry>;
  readonly #lookUps = new Map<string, Promise<Entry>>();
  #epoch = 0;
  /** Counts the calls of `forget`: an answer to a look-up that began before one may be older than the change. */
  #changes = 0;

  constructor(options: KnownCustomersOptions) {
    this.#options = options;
    this.#entries = new RecentlyUsed(options.most ?? MOST);
  }

  /** Reads a customer from the store; null if the store has no such customer. @throws Failure `store_unavailable`, `store_corrupt` */
  async read(id: string): Promise<KnownCustomer | null> {
    return (await this.#lookUp(id)).known;
  }

  /** The customer, synchronously if memory suffices, else when the store has answered. Never rejects. */
  of(id: string): CustomerFound | Promise<CustomerFound> {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.epoch !== this.#epoch) return this.#askFirst(id);
    const nowMs = this.#options.monotonicMs();
    if (nowMs >= entry.freshUntilMs) {
      if (entry.known === null || nowMs - entry.askedAtMs >= this.#options.staleMs) return this.#askFirst(id);
      entry.freshUntilMs = nowMs + PAUSE_MS;
      void this.#lookUp(id).catch((error) => this.#options.onStoreFailure?.(error));
    }
    return this.#found(entry);
  }

  /** A customer may have changed: the store is asked before it is used again. @param id null: any may have changed */
  forget(id: string | null): void {
    this.#changes++;
    this.#lookUps.clear();
    if (id === null) this.#epoch++;
    else {
      const entry = this.#entries.peek(id);
      if (entry !== undefined) this.#entries.set(id, { ...entry, epoch: CHANGED });
    }
  }

  async #askFirst(id: string): Promise<CustomerFound> {
    try {
      return this.#found(await this.#lookUp(id));
    } catch (error) {
      this.#options.onStoreFailure?.(error);
      const found = this.#withoutStore(id);
      return found === 'unavailable' && error instanceof UnreadableRecord ? error : found;
    }
  }

  /** While the store is away, a known customer stays in use for `staleMs`. */
  #withoutStore(id: string): CustomerFound {
    const entry = this.#entries.peek(id);
    const nowMs = this.#options.monotonicMs();
    if (entry === undefined || entry.known === null) return 'unavailable';
    return nowMs - entry.askedAtMs < this.#options.staleMs ? this.#found(entry) : 'unavailable';
  }

  #found({ known }: Entry): CustomerFound {
    if (known === null) return 'unknown';
    const { customer, suspension, expiresAtMs } = known;
    if (this.#options.wallMs() >= expiresAtMs) return 'expired';
    return isSuspended(suspension, this.#options.wallMs()) ? { suspended: customer } : customer;
  }

  /** Look-ups of one customer at the same time are one. */
  #lookUp(id: string): Promise<Entry> {
    const underWay = this.#lookUps.get(id);
    if (underWay !== undefined) return underWay;
    const lookUp = this.#ask(id);
    this.#lookUps.set(id, lookUp);
    return lookUp;
  }

  async #ask(id: string): Promise<Entry> {
    const [changes, epoch, askedAtMs] = [this.#changes, this.#epoch, this.#options.monotonicMs()];
    try {
      const stored = await this.#options.store.get(id);
      const isCurrent = changes === this.#changes;
      const before = this.#entries.peek(id);
      const entry: Entry = {
        known: stored === null ? null : knownOf(stored, before?.known?.customer ?? null),
        askedAtMs,
        freshUntilMs: askedAtMs + (stored === null ? PAUSE_MS : CONFIRM_AFTER_MS),
        epoch: isCurrent ? epoch : CHANGED,
      };
      // A look-up that began before a change may end after one that began later: see `Identifier.#ask`.
      if (isCurrent || before === undefined || before.askedAtMs < askedAtMs) this.#entries.set(id, entry);
      return entry;
    } finally {
      // `forget` has removed this look-up, and a later one may be in its place.
      if (changes === this.#changes) this.#lookUps.delete(id);
    }
  }
}

/** An epoch that is never the present one. */
const CHANGED = -1;

/** @param before the customer of the previous look-up; reused if nothing has changed */
function knownOf(
  { id, name, owner, plan, limits, scopes = [], addresses, origins, meta = {}, suspended, expiresAtMs }: StoredCustomer,
  before: Customer | null,
): KnownCustomer {
  const of = { id, name, owner, plan, limits: Object.freeze({ ...limits }) };
  const current: Customer = { ...of, scopes, onlyFrom: onlyFromOf({ addresses, origins }), meta };
  const customer = before !== null && isDeepStrictEqual(before, current) ? before : Object.freeze(current);
  return { customer, suspension: suspended, expiresAtMs: expiresAtMs ?? Number.POSITIVE_INFINITY };
}

/** Where the requests of a caller must come from. Each member is absent where any place will do. */
export type OnlyFrom = { readonly [A in 'addresses' | 'origins' | 'boundTo']?: NonNullable<Attributes[A]> };

/** @returns null if requests may come from anywhere */
export function onlyFromOf(members: { readonly [A in keyof OnlyFrom]: OnlyFrom[A] | undefined }): OnlyFrom | null {
  const present = Object.entries(members).filter(([, value]) => value !== undefined);
  return present.length === 0 ? null : Object.fromEntries(present);
}
