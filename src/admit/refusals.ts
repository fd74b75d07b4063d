import type { History } from './history.ts';
import type { WindowName } from './windows.ts';

/** What the store keeps of each consumer's use besides its counters. Implemented by stores/embedded and stores/redis. */
export interface HistoryStore {
  /** Null if nothing is kept of the consumer. @throws Failure `store_unavailable` */
  of(consumerId: string): Promise<ReadHistory | null>;
  /**
   * The beginning of the hour in which something of a consumer was counted last, Unix milliseconds, for each of these ids;
   * null if nothing is kept. @throws Failure `store_unavailable`; `refused` if the store can keep no history
   */
  lastUsedMs(consumerIds: readonly string[]): Promise<readonly (number | null)[]>;
  /** The ids that have a history and begin like this, those of shadows too; in no order, and an id may come twice. */
  consumerIds(prefix: string): AsyncIterable<string>;
  /** Adds refusals to the present hour, and notes until when these consumers are refused. @throws Failure `store_unavailable` */
  addRefusals(refusals: readonly Refusals[]): Promise<void>;
  /**
   * The consumers that were refused and, by the Retry-After of their last refusal, would still be. The longest first, at most
   * `MOST_REFUSED`. A limit may have been raised or a ban lifted since. @throws Failure `store_unavailable`
   */
  refusedNow(): Promise<readonly RefusedConsumer[]>;
}

export interface ReadHistory {
  readonly history: History;
  /** The store's clock, Unix milliseconds. */
  readonly nowMs: number;
}

/** The last refusal of a consumer. */
export interface RefusedConsumer {
  readonly consumerId: string;
  readonly plan: string;
  readonly kind: 'refused' | 'banned';
  readonly window: WindowName;
  /** What the refused request would have cost. */
  readonly cost: number;
  /** Unix milliseconds. */
  readonly untilMs: number;
}

/** The refusals of a consumer since the last report. */
export interface Refusals extends RefusedConsumer {
  /** Requests refused for a limit. */
  readonly refused: number;
  /** Requests refused for a ban. */
  readonly banned: number;
}

/** The store keeps so many refused consumers, and a gateway reports so many at a time. Those refused the longest stay. */
export const MOST_REFUSED = 10_000;

const REPORT_MS = 1_000;

/** Counts refusals in memory and reports them to the store once a second. Bounded; no request waits for it. */
export class RefusalCounter {
  readonly #store: Pick<HistoryStore, 'addRefusals'>;
  #counts = new Map<string, { -readonly [K in keyof Refusals]: Refusals[K] }>();
  readonly #timer: NodeJS.Timeout;
  #reporting: Promise<void> = Promise.resolve();

  constructor(store: Pick<HistoryStore, 'addRefusals'>) {
    this.#store = store;
    this.#timer = setInterval(() => void this.report(), REPORT_MS).unref();
  }

  count(refusal: RefusedConsumer): void {
    const known = this.#counts.get(refusal.consumerId);
    if (known !== undefined) {
      known[refusal.kind]++;
      known.kind = refusal.kind;
      known.plan = refusal.plan;
      known.window = refusal.window;
      known.cost = refusal.cost;
      known.untilMs = refusal.untilMs;
    } else if (this.#counts.size < MOST_REFUSED) {
      this.#counts.set(refusal.consumerId, { ...refusal, refused: 0, banned: 0, [refusal.kind]: 1 });
    }
  }

  /** Reports what has been counted; what the store does not accept is reported the next time. Never rejects. */
  report(): Promise<void> {
    this.#reporting = this.#reporting.then(() => this.#reportCounts());
    return this.#reporting;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.report();
  }

  async #reportCounts(): Promise<void> {
    const counts = this.#counts;
    if (counts.size === 0) return;
    this.#counts = new Map();
    try {
      await this.#store.addRefusals([...counts.values()]);
    } catch {
      for (const [id, earlier] of counts) {
        const later = this.#counts.get(id);
        if (later !== undefined) {
          later.refused += earlier.refused;
          later.banned += earlier.banned;
        } else if (this.#counts.size < MOST_REFUSED) this.#counts.set(id, earlier);
      }
    }
  }
}
