import ipaddr from 'ipaddr.js';
import { ReplyDeadlines } from '../io/deadlines.ts';
import { RecentlyUsed } from '../io/recently-used.ts';

/** The failed-authentication budget of a client address. */
export interface Budget {
  readonly limit: number;
  readonly remaining: number;
  /** Unix milliseconds; the present time if nothing has been spent. */
  readonly resetAtMs: number;
  /** After `fail`: whether this failure was still within the budget. After `peek`: whether one more would be. */
  readonly allowed: boolean;
}

/**
 * Counts failures in windows of a minute that open with the first failure. Implemented with rate-limiter-flexible: by
 * stores/redis for all gateways together, by memory-attempts.ts for one process.
 */
export interface AttemptCounter {
  /** Adds one failure. Rejects only if the counter in the process's own memory fails too. */
  add(address: string): Promise<{ readonly count: number; readonly endsInMs: number }>;
  /** Drops the process's own record of an address. */
  forget(address: string): void;
}

interface FailedAttemptsOptions {
  readonly counter: AttemptCounter;
  /** Failures per minute and address; called for each request, since plans.yaml may change. */
  readonly limit: () => number;
  /** No request waits for the store longer than this, its earlier waits included. Left out: no bound. */
  readonly timeoutMs?: number;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Maximum addresses that are remembered. */
  readonly addresses?: number;
  /** Whose budget an address uses. Left out: that of its network. */
  readonly keyOf?: (address: string) => string;
}

interface FailureCount {
  readonly count: number;
  /** Monotonic milliseconds. */
  readonly endsAtMs: number;
}

const MINUTE_MS = 60_000;
/** Of two readings of a clock that differ by less, the first stays: the difference is that of the readings, not of the clock. */
const SAME_MS = 1_000;

/**
 * The failed-authentication budgets of client addresses (contract section 4). A failed authentication counts against no
 * key's quota, and a good key passes even if its address has spent the budget. So an attacker cannot lock out a customer
 * behind the same address.
 *
 * The table in front of the counter is bounded. An address that the table evicts is dropped from the counter's memory as
 * well, so that is bounded too. For an address that has spent its budget, the table alone is consulted.
 */
export class FailedAttempts {
  readonly #options: FailedAttemptsOptions;
  readonly #counts: RecentlyUsed<FailureCount>;
  readonly #keyOf: (address: string) => string;
  readonly #deadlines = new ReplyDeadlines();
  /** The wall clock minus the monotonic one, so that the end of a minute is the same moment in each answer. */
  #offsetMs = Number.NaN;

  constructor(options: FailedAttemptsOptions) {
    this.#options = options;
    const max = options.addresses ?? 10_000;
    const networks = new ClientNetworks(max);
    this.#keyOf = options.keyOf ?? ((address) => networks.of(address));
    this.#counts = new RecentlyUsed(max, (_count, address, reason) => {
      if (reason === 'evict') options.counter.forget(address);
    });
  }

  /**
   * Counts one failed authentication from this address. Never rejects.
   * @param waitedMs how long this request has already waited for the store
   */
  fail(clientAddress: string, waitedMs = 0): Budget | Promise<Budget> {
    const limit = this.#options.limit();
    const nowMs = this.#options.monotonicMs();
    // A limit of 0 allows nothing, so there is nothing to count (contract section 2).
    if (limit === 0) return this.#budget(0, { count: 1, endsAtMs: nowMs + MINUTE_MS }, nowMs);
    const address = this.#keyOf(clientAddress);
    const current = this.#present(address, nowMs);
    if (current !== null && current.count >= limit) {
      return this.#budget(limit, { ...current, count: limit + 1 }, nowMs);
    }
    return this.#count(address, waitedMs);
  }

  /** The budget of an address as far as this gateway knows. Costs nothing. */
  peek(clientAddress: string): Budget {
    const limit = this.#options.limit();
    const nowMs = this.#options.monotonicMs();
    const current = this.#present(this.#keyOf(clientAddress), nowMs) ?? { count: 0, endsAtMs: nowMs };
    return { ...this.#budget(limit, current, nowMs), allowed: current.count < limit };
  }

  /** The client network whose budget an address uses. */
  networkOf(clientAddress: string): string {
    return this.#keyOf(clientAddress);
  }

  async #count(address: string, waitedMs: number): Promise<Budget> {
    let current: FailureCount;
    try {
      const { count, endsInMs } = await this.#within(this.#options.counter.add(address), waitedMs);
      // If the counter's clock was set back, its minute would last for hours.
      const endsAtMs = this.#options.monotonicMs() + Math.min(endsInMs, MINUTE_MS);
      const before = this.#counts.get(address);
      // The counter says how long its minute lasts still, and its answer took some time.
      const isSame = before !== undefined && Math.abs(before.endsAtMs - endsAtMs) < SAME_MS;
      current = { count, endsAtMs: isSame ? before.endsAtMs : endsAtMs };
    } catch {
      const nowMs = this.#options.monotonicMs();
      const before = this.#present(address, nowMs) ?? { count: 0, endsAtMs: nowMs + MINUTE_MS };
      current = { ...before, count: before.count + 1 };
    }
    this.#counts.set(address, current);
    return this.#budget(this.#options.limit(), current, this.#options.monotonicMs());
  }

  /** Rejects when the time of the request is up. */
  #within<T>(counted: Promise<T>, waitedMs: number): Promise<T> {
    const { timeoutMs } = this.#options;
    if (timeoutMs === undefined || waitedMs <= 0) return counted;
    return this.#deadlines.within(counted, timeoutMs - waitedMs, () => Promise.reject());
  }

  #present(address: string, nowMs: number): FailureCount | null {
    const current = this.#counts.get(address);
    return current === undefined || nowMs >= current.endsAtMs ? null : current;
  }

  #budget(limit: number, { count, endsAtMs }: FailureCount, nowMs: number): Budget {
    const remaining = Math.max(limit - count, 0);
    const resetAtMs = Math.ceil(this.#offset(nowMs) + Math.max(endsAtMs, nowMs));
    return { limit, remaining, resetAtMs, allowed: count <= limit };
  }

  #offset(nowMs: number): number {
    const offsetMs = this.#options.wallMs() - nowMs;
    if (!(Math.abs(offsetMs - this.#offsetMs) < SAME_MS)) this.#offsetMs = offsetMs;
    return this.#offsetMs;
  }
}

/** `networkOf` with a cache: parsing the address is the most expensive step of refusing a request for its key. */
export class ClientNetworks {
  readonly #known: RecentlyUsed<string>;

  /** @param addresses how many addresses are remembered at most */
  constructor(addresses: number) {
    this.#known = new RecentlyUsed(addresses);
  }

  of(clientAddress: string): string {
    let network = this.#known.get(clientAddress);
    if (network === undefined) {
      network = networkOf(clientAddress);
      this.#known.set(clientAddress, network);
    }
    return network;
  }
}

/**
 * The client network whose budget an address uses. An IPv6 client controls a whole /64 and could use as many addresses as
 * it likes, so the /64 has one budget. An IPv4-mapped address is the IPv4 address.
 */
export function networkOf(clientAddress: string): string {
  if (!ipaddr.isValid(clientAddress)) return 'unknown';
  const address = ipaddr.process(clientAddress);
  if (address.kind() === 'ipv4') return address.toString();
  const [a, b, c, d] = (address as ipaddr.IPv6).parts;
  return `${[a, b, c, d].map((part) => part!.toString(16)).join(':')}::/64`;
}
