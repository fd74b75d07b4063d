import { LRUCache } from 'lru-cache';
import { decide, type Outcome } from '../admit/decide.ts';
import type { Ledger } from '../admit/ledger.ts';
import { type Allowance, shadowIdOf } from '../admit/plan.ts';
import { type UsageReport, usageReport } from '../admit/usage-report.ts';
import { standingVerdict, type Verdict, verdictOf } from '../admit/verdict.ts';

/** What a caller is told of itself: the body, and what the rate-limit fields say. */
export interface ToldUsage {
  readonly report: UsageReport;
  readonly verdict: Verdict;
}

export interface UsageOptions {
  readonly ledger: Pick<Ledger, 'present'>;
  /** No request waits for the store longer than this in total. Left out: the ledger's own deadline is the only one. */
  readonly timeoutMs?: number;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Callers whose last answer is kept at most. */
  readonly remembered?: number;
  /** Called once per failed call with the store's complaint. */
  readonly onStoreFailure?: (error: unknown) => void;
}

/** What the store said, and when (monotonic milliseconds). Null where it did not say. */
type Answer = { readonly outcome: Outcome; readonly shadow: Outcome | null; readonly answeredAtMs: number } | null;

interface Read {
  readonly askedAtMs: number;
  readonly answer: Promise<Answer>;
  /** The answer as soon as it is there; undefined until then. */
  settled: Answer | undefined;
}

/** The store is read once in this time for each caller, whatever comes of it. */
const READ_EVERY_MS = 1_000;

/**
 * Tells callers where they stand (contract section 4). It counts nothing and asks the store once per caller and second;
 * in between the last answer is told, brought forward to the present.
 *
 * The attack: a caller who asks all the time, because asking is free.
 */
export class Usage {
  readonly #options: UsageOptions;
  readonly #reads: LRUCache<string, Read>;

  constructor(options: UsageOptions) {
    this.#options = options;
    this.#reads = new LRUCache({ max: options.remembered ?? 10_000 });
  }

  /**
   * At once where the store was read within the last second. Never rejects.
   * @param waitedMs how long this request has waited for the store before
   * @returns null where the store does not answer
   */
  of(id: string, allowance: Allowance, waitedMs: number): ToldUsage | null | Promise<ToldUsage | null> {
    const read = this.#read(id, allowance);
    if (read.settled !== undefined) return this.#told(id, allowance, read.settled);
    const { timeoutMs } = this.#options;
    const answer = timeoutMs === undefined ? read.answer : within(read.answer, timeoutMs - waitedMs);
    return answer.then((it) => this.#told(id, allowance, it));
  }

  #read(id: string, allowance: Allowance): Read {
    const before = this.#reads.get(id);
    const nowMs = this.#options.monotonicMs();
    const isLate = before?.settled !== undefined && nowMs - before.askedAtMs >= READ_EVERY_MS;
    if (before !== undefined && !isLate) return before;
    const read: Read = { askedAtMs: nowMs, answer: this.#ask(id, allowance), settled: undefined };
    void read.answer.then((answer) => {
      read.settled = answer;
    });
    this.#reads.set(id, read);
    return read;
  }

  async #ask(id: string, allowance: Allowance): Promise<Answer> {
    const { ledger, monotonicMs, onStoreFailure } = this.#options;
    try {
      const [outcome, shadow] = await Promise.all([
        ledger.present(id, allowance),
        allowance.shadow === undefined ? null : ledger.present(shadowIdOf(id), allowance.shadow),
      ]);
      return outcome === null ? null : { outcome, shadow, answeredAtMs: monotonicMs() };
    } catch (error) {
      onStoreFailure?.(error);
      return null;
    }
  }

  /** An answer of a moment ago as it is now: what has ended since then is gone from it. */
  #told(id: string, allowance: Allowance, answer: Answer): ToldUsage | null {
    if (answer === null) return null;
    const { nowMs, state } = answer.outcome;
    const sinceMs = Math.floor(this.#options.monotonicMs() - answer.answeredAtMs);
    const present = decide(state, allowance, nowMs + sinceMs, 1, 0);
    // Asked under another allowance, a reload ago or for a token of another plan, it may know of a shadow that is no more.
    const shadow = allowance.shadow === undefined ? null : answer.shadow;
    const watched = shadow && decide(shadow.state, allowance.shadow!, shadow.nowMs + sinceMs, 1, 0);
    return { report: usageReport(id, allowance, present, watched), verdict: verdictNow(allowance, present) };
  }
}

/** Under a ban the fields describe the window whose refusal made it (contract section 4), also where nothing is asked for. */
function verdictNow(allowance: Allowance, outcome: Outcome): Verdict {
  const { state, nowMs } = outcome;
  const isBanned = state.ban !== null && nowMs < state.ban.untilMs;
  return isBanned ? verdictOf(outcome, allowance, 0) : standingVerdict(state, allowance, nowMs, 0);
}

function within<T>(promise: Promise<T>, leftMs: number): Promise<T | null> {
  return new Promise((resolve) => {
    // One turn more: an answer that has arrived while this process was busy is read before it is called late.
    const timer = setTimeout(() => setImmediate(resolve, null), Math.max(leftMs, 0));
    void promise.then((value) => {
      clearTimeout(timer);
      resolve(value);
    });
  });
}
