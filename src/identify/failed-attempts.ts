import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/** Where a client address stands with the failed authentications that it may make in a minute. */
export interface Budget {
  readonly limit: number;
  readonly remaining: number;
  /** Unix milliseconds; the present time where nothing has been spent. */
  readonly resetAtMs: number;
  /** After `fail`: whether this failure was still within the budget. After `peek`: whether one more would be. */
  readonly allowed: boolean;
}

/**
 * Counts failures in windows of a minute that open with the first. Owned by identify, implemented by stores/embedded and
 * stores/redis with rate-limiter-flexible.
 */
export interface AttemptCounter {
  /** Adds one. Rejects only when not even the process's own memory could count. */
  add(address: string): Promise<{ readonly count: number; readonly endsInMs: number }>;
  /** Drops what the process itself remembers of an address. */
  forget(address: string): void;
}

export interface FailedAttemptsOptions {
  readonly counter: AttemptCounter;
  /** Failures per minute and address; asked each time, since plans.yaml may change. */
  readonly limit: () => number;
  /** No request waits for the counter longer than this, what it has waited before included. Left out: as long as it takes. */
  readonly timeoutMs?: number;
  readonly monotonicMs: () => number;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  /** Addresses remembered at most. */
  readonly addresses?: number;
}

interface Standing {
  readonly count: number;
  /** Monotonic milliseconds. */
  readonly endsAtMs: number;
}

const MINUTE_MS = 60_000;

/**
 * The budget of failed authentications per client address (contract section 4). Failing keys touch no key's quota, and a
 * good key passes whatever its address has spent: nobody can lock out a customer behind the same address.
 *
 * The table in front of the counter is bounded, and so is what the counter keeps in memory, because an address that
 * leaves the table is dropped there too. An address that has spent its budget is answered from the table alone.
 */
export class FailedAttempts {
  readonly #options: FailedAttemptsOptions;
  readonly #standings: LRUCache<string, Standing>;
  readonly #networks: ClientNetworks;

  constructor(options: FailedAttemptsOptions) {
    this.#options = options;
    const max = options.addresses ?? 10_000;
    this.#networks = new ClientNetworks(max);
    this.#standings = new LRUCache({
      max,
      dispose: (_standing, address, reason) => {
        if (reason === 'evict') options.counter.forget(address);
      },
    });
  }

  /**
   * A request from this address failed to authenticate. Costs one. Never rejects.
   * @param waitedMs how long this request has waited for the store before
   */
  fail(clientAddress: string, waitedMs = 0): Budget | Promise<Budget> {
    const limit = this.#options.limit();
    const nowMs = this.#options.monotonicMs();
    // Nothing is counted where nothing is allowed (contract section 2: a limit of 0).
    if (limit === 0) return this.#budget(0, { count: 1, endsAtMs: nowMs + MINUTE_MS }, nowMs);
    const address = this.#networks.of(clientAddress);
    const standing = this.#present(address, nowMs);
    if (standing !== null && standing.count >= limit) {
      return this.#budget(limit, { ...standing, count: limit + 1 }, nowMs);
    }
    return this.#count(address, waitedMs);
  }

  /** Where an address stands as far as this gateway knows. Free. */
  peek(clientAddress: string): Budget {
    const limit = this.#options.limit();
    const nowMs = this.#options.monotonicMs();
    const standing = this.#present(this.#networks.of(clientAddress), nowMs) ?? { count: 0, endsAtMs: nowMs };
    return { ...this.#budget(limit, standing, nowMs), allowed: standing.count < limit };
  }

  async #count(address: string, waitedMs: number): Promise<Budget> {
    let standing: Standing;
    try {
      const { count, endsInMs } = await this.#within(this.#options.counter.add(address), waitedMs);
      // Attack: the counter's clock is set back, and its minute lasts for hours.
      standing = { count, endsAtMs: this.#options.monotonicMs() + Math.min(endsInMs, MINUTE_MS) };
    } catch {
      const nowMs = this.#options.monotonicMs();
      const before = this.#present(address, nowMs) ?? { count: 0, endsAtMs: nowMs + MINUTE_MS };
      standing = { ...before, count: before.count + 1 };
    }
    this.#standings.set(address, standing);
    return this.#budget(this.#options.limit(), standing, this.#options.monotonicMs());
  }

  /** Rejects when the time of the request is up. One turn more: an answer that has arrived is read before. */
  #within<T>(counted: Promise<T>, waitedMs: number): Promise<T> {
    const { timeoutMs } = this.#options;
    if (timeoutMs === undefined || waitedMs <= 0) return counted;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => setImmediate(reject), Math.max(timeoutMs - waitedMs, 0));
      counted.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }

  #present(address: string, nowMs: number): Standing | null {
    const standing = this.#standings.get(address);
    return standing === undefined || nowMs >= standing.endsAtMs ? null : standing;
  }

  #budget(limit: number, { count, endsAtMs }: Standing, nowMs: number): Budget {
    const remaining = Math.max(limit - count, 0);
    const resetAtMs = Math.ceil(this.#options.wallMs() + Math.max(endsAtMs - nowMs, 0));
    return { limit, remaining, resetAtMs, allowed: count <= limit };
  }
}

/** `networkOf` with a memory: to parse an address takes longer than all else about a request that is refused for its key. */
export class ClientNetworks {
  readonly #known: LRUCache<string, string>;

  /** @param addresses remembered at most */
  constructor(addresses: number) {
    this.#known = new LRUCache({ max: addresses });
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
 * Whose budget an address counts against. An IPv6 client commands a whole /64 and would have as many budgets as it
 * likes, so the /64 counts as one; an IPv4-mapped address is the IPv4 address.
 */
export function networkOf(clientAddress: string): string {
  if (!ipaddr.isValid(clientAddress)) return 'unknown';
  const address = ipaddr.process(clientAddress);
  if (address.kind() === 'ipv4') return address.toString();
  const [a, b, c, d] = (address as ipaddr.IPv6).parts;
  return `${[a, b, c, d].map((part) => part!.toString(16)).join(':')}::/64`;
}
