import type { Exchange } from '../gateway/exchange.ts';
import { BackgroundWrites } from '../io/background-writes.ts';
import { wideNetworkOf } from '../io/networks.ts';
import { RecentlyUsed } from '../io/recently-used.ts';
import type { KeyNetworkStore } from '../operations/key-network-store.ts';
import { MAX_SEEN, OTHERS, periodOf, type Seen, withCounted } from '../operations/key-networks.ts';

const FLUSH_MS = 500;
/** Keys that one flush writes, so that it holds the event loop for a few milliseconds at most. */
const MAX_AT_ONCE = 25;
/** Counts of a key wait for this long, so that a busy key costs two small calls of the store in that time. */
const WAIT_S = 10;
/** Attack: many keys, or one key from many networks, to fill the memory. It has a few MB at most; further ones are not counted. */
const MAX_KEYS = 10_000;
const MAX_NETWORKS = 20_000;
const ADDRESSES = 10_000;
/** Gateways write the same key at the same moment. Each attempt that fails means that another one has written. */
const MAX_ATTEMPTS = 5;

interface NetworkCounterOptions {
  readonly store: Pick<KeyNetworkStore, 'read' | 'swap'>;
  /** Whether there is a key with this id, which may be revoked. Rejects if the store does not answer. */
  readonly isKey: (id: string) => Promise<boolean>;
  /** The clock of the store, Unix milliseconds. */
  readonly nowMs: () => number;
}

/** Calls from one network, or with one ended secret, that wait. */
interface Calls {
  /** Unix seconds. */
  readonly first: number;
  last: number;
  count: number;
  /** The network of the last attempt with an ended secret. */
  from?: string;
}

/** What waits of one key. */
interface Counted {
  readonly keyId: string;
  /** Unix seconds. */
  readonly sinceS: number;
  readonly networks: Map<string, Calls>;
  readonly ended: Map<string, Calls>;
}

/**
 * Counts in memory from which networks keys are called, and attempts with their ended secrets, and adds that to the store in the
 * background. A request costs two looks into tables.
 */
export class NetworkCounter {
  readonly #options: NetworkCounterOptions;
  /** By address. */
  readonly #networkOf = new RecentlyUsed<string>(ADDRESSES);
  /** By key, the one that waits longest first. */
  readonly #waiting = new Map<string, Counted>();
  #networks = 0;
  /** Calls that were not counted, because of too many keys. */
  uncounted = 0;
  readonly writes = new BackgroundWrites(FLUSH_MS, (all) => this.#writeDue(all));

  constructor(options: NetworkCounterOptions) {
    this.#options = options;
  }

  count({ consumerId, endedSecret = null, clientAddress }: Called): void {
    if (endedSecret !== null) {
      const network = this.#of(clientAddress);
      const calls = this.#add(endedSecret.keyId, 'ended', endedSecret.last4);
      if (calls !== null) calls.from = network;
    } else if (consumerId?.startsWith('key_')) this.#add(consumerId, 'networks', this.#of(clientAddress));
  }

  /** The network of an address, with a cache: to parse an address would be the most expensive step. */
  #of(clientAddress: string): string {
    let network = this.#networkOf.get(clientAddress);
    if (network === undefined) {
      network = wideNetworkOf(clientAddress);
      this.#networkOf.set(clientAddress, network);
    }
    return network;
  }

  #add(keyId: string, what: 'networks' | 'ended', name: string): Calls | null {
    const nowS = Math.floor(this.#options.nowMs() / 1_000);
    let key = this.#waiting.get(keyId);
    if (key === undefined) {
      if (this.#waiting.size >= MAX_KEYS) {
        this.uncounted++;
        return null;
      }
      key = { keyId, sinceS: nowS, networks: new Map(), ended: new Map() };
      this.#waiting.set(keyId, key);
    }
    const calls = key[what].get(name) ?? this.#begin(key[what], name, nowS);
    calls.last = nowS;
    calls.count++;
    return calls;
  }

  #begin(all: Map<string, Calls>, name: string, nowS: number): Calls {
    const hasRoom = all.size < MAX_SEEN && this.#networks < MAX_NETWORKS;
    const known = hasRoom ? undefined : all.get(OTHERS);
    if (known !== undefined) return known;
    const calls: Calls = { first: nowS, last: nowS, count: 0 };
    all.set(hasRoom ? name : OTHERS, calls);
    this.#networks++;
    return calls;
  }

  async #writeDue(all: boolean): Promise<void> {
    const dueS = all ? Number.POSITIVE_INFINITY : Math.floor(this.#options.nowMs() / 1_000) - WAIT_S;
    do {
      const due: Counted[] = [];
      for (const counted of this.#waiting.values()) {
        if (due.length === MAX_AT_ONCE || counted.sinceS > dueS) break;
        due.push(counted);
      }
      if (due.length === 0) return;
      for (const counted of due) this.#take(counted);
      const left = await this.#write(due);
      for (const counted of left) this.#putBack(counted);
      if (left.length > 0) return;
    } while (all);
  }

  /** Never rejects. @returns what the store has not accepted; of what it was sent as it broke off, some may be counted twice */
  async #write(due: readonly Counted[]): Promise<readonly Counted[]> {
    const { store, isKey, nowMs } = this.#options;
    let left = due;
    try {
      for (let attempt = 0; attempt < MAX_ATTEMPTS && left.length > 0; attempt++) {
        const found = await store.read(left.map(({ keyId }) => keyId));
        // Nothing is kept of a deleted key, although its last requests are counted only now.
        const isGone = await Promise.all(left.map(async ({ keyId }, i) => found[i] === null && !(await isKey(keyId))));
        const records = found.filter((_, i) => !isGone[i]);
        left = left.filter((_, i) => !isGone[i]);
        const swaps = left.map(({ keyId, networks, ended }, i) => {
          const before = records[i] ?? null;
          const counted = { networks: seenOf(networks), ended: seenOf(ended) };
          return { keyId, before, after: withCounted(before, counted, Math.floor(nowMs() / 1_000)) };
        });
        const written = await store.swap(swaps);
        left = left.filter((_, i) => !written[i]);
      }
    } catch {
      // They wait again.
    }
    return left;
  }

  #take(counted: Counted): void {
    this.#waiting.delete(counted.keyId);
    this.#networks -= counted.networks.size + counted.ended.size;
  }

  #putBack(earlier: Counted): void {
    const later = this.#waiting.get(earlier.keyId);
    if (later === undefined && this.#waiting.size >= MAX_KEYS) {
      for (const { count } of [...earlier.networks.values(), ...earlier.ended.values()]) this.uncounted += count;
      return;
    }
    if (later !== undefined) {
      this.#take(later);
      for (const what of ['networks', 'ended'] as const) {
        for (const [name, calls] of later[what]) {
          const before = earlier[what].get(name);
          if (before !== undefined) calls.count += before.count;
          earlier[what].set(name, before === undefined ? calls : { ...calls, first: before.first });
        }
      }
    }
    this.#waiting.set(earlier.keyId, earlier);
    this.#networks += earlier.networks.size + earlier.ended.size;
  }
}

function seenOf(all: ReadonlyMap<string, Calls>): Map<string, Seen> {
  return new Map(
    [...all].map(([name, { first, last, count, from }]) => [
      name,
      { first, last, calls: { [periodOf(last)]: count }, from },
    ]),
  );
}

type Called = Pick<Exchange, 'consumerId' | 'endedSecret' | 'clientAddress'>;
