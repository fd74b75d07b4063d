import { partsOfAccount, shadowIdOf } from '../admit/account-id.ts';
import type { Allowance } from '../admit/allowance.ts';
import { banInForce, decide } from '../admit/decision.ts';
import type { Step } from '../admit/history.ts';
import { type HistoryReport, historyIn, historyReport, readHistories } from '../admit/history-report.ts';
import type { HistoryStore, ReadHistory } from '../admit/history-store.ts';
import type { Ledger } from '../admit/ledger.ts';
import { type UsageReport, usageReport } from '../admit/usage-report.ts';
import { type Verdict, verdictOf, verdictOnBudgets } from '../admit/verdict.ts';
import type { Decision } from '../engine/types.ts';
import { type UnreadableIdentity, unreadable } from '../identify/record-store.ts';
import { ReplyDeadlines } from '../io/deadlines.ts';
import { RecentlyUsed } from '../io/recently-used.ts';
import { UnreadableRecord } from '../model/record.ts';

/** The response to `GET /usage`: its body, and the verdict for its rate-limit fields. */
export interface UsageBody {
  readonly report: UsageReport | HistoryReport;
  readonly verdict: Verdict;
}

interface UsageOptions {
  readonly ledger: Pick<Ledger, 'present'>;
  readonly history: Pick<HistoryStore, 'of'>;
  /** How long one request may wait for the store in total. By default only the ledger's own deadline applies. */
  readonly timeoutMs?: number;
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs: () => number;
  /** Maximum number of callers whose last reading is kept. */
  readonly remembered?: number;
  /** Called with the store's error, once for each failed call. */
  readonly onStoreFailure?: (error: unknown) => void;
}

/** The state that the store returned, and when (monotonic milliseconds). Null if the store failed. */
type Answer =
  | { readonly decision: Decision; readonly shadow: Decision | null; readonly answeredAtMs: number }
  | UnreadableIdentity
  | null;

/** The histories of a caller and its shadow. Null if the store failed. */
type Histories = readonly (ReadHistory | null)[] | UnreadableIdentity | null;

/** Null if the store does not answer; `unreadable` if the store answers and cannot read the account of the caller. */
type FoundUsage = UsageBody | UnreadableIdentity | null;

/** One reading of the store for one caller. */
interface Reading<A> {
  readonly askedAtMs: number;
  readonly answer: Promise<A>;
  /** The result of the promise; undefined until it is fulfilled. */
  result: A | undefined;
}

/** The gateway reads the store for a caller at most once in this time, even if a reading fails, and each of its histories once as well. */
const READ_EVERY_MS = 1_000;

/**
 * Reports to callers how much of their quota is left (contract section 4). It counts nothing and reads the store at
 * most once per caller and second. In between it computes the present state from the last reading.
 *
 * Attack: a caller requests its usage all the time, because that costs nothing.
 */
export class Usage {
  readonly #options: UsageOptions;
  readonly #reads: RecentlyUsed<Reading<Answer>>;
  readonly #histories: RecentlyUsed<Reading<Histories>>;
  readonly #deadlines = new ReplyDeadlines();

  constructor(options: UsageOptions) {
    this.#options = options;
    const max = options.remembered ?? 10_000;
    this.#reads = new RecentlyUsed(max);
    this.#histories = new RecentlyUsed(max);
  }

  /**
   * The usage of a caller, at once if the store was read within the last second. Never rejects.
   * @param waitedMs how long this request has already waited for the store
   */
  of(id: string, allowance: Allowance, waitedMs: number): FoundUsage | Promise<FoundUsage> {
    const read = this.#read(this.#reads, id, () => this.#ask(id, allowance));
    if (read.result !== undefined) return this.#present(id, allowance, read.result);
    const { timeoutMs } = this.#options;
    const answer =
      timeoutMs === undefined ? read.answer : this.#deadlines.within(read.answer, timeoutMs - waitedMs, () => null);
    return answer.then((settled) => this.#present(id, allowance, settled));
  }

  /**
   * The same with what the caller has used by hour or by day. Never rejects.
   * @param unit one of its plan; null for the cost of requests
   */
  async historyOf(
    id: string,
    allowance: Allowance,
    step: Step,
    unit: string | null,
    waitedMs: number,
  ): Promise<FoundUsage> {
    const { timeoutMs } = this.#options;
    const { answer } = this.#read(this.#histories, historyIn(id, unit), () => this.#askHistories(id, unit));
    const [body, histories] = await Promise.all([
      this.of(id, allowance, waitedMs),
      timeoutMs === undefined ? answer : this.#deadlines.within(answer, timeoutMs - waitedMs, () => null),
    ]);
    if (body === null || 'kind' in body) return body;
    if (histories === null || 'kind' in histories) return histories;
    return { report: historyReport(histories, step, undefined, unit), verdict: body.verdict };
  }

  #read<A>(reads: RecentlyUsed<Reading<A>>, id: string, ask: () => Promise<A>): Reading<A> {
    const before = reads.get(id);
    const nowMs = this.#options.monotonicMs();
    const isLate = before?.result !== undefined && nowMs - before.askedAtMs >= READ_EVERY_MS;
    if (before !== undefined && !isLate) return before;
    const read: Reading<A> = { askedAtMs: nowMs, answer: ask(), result: undefined };
    void read.answer.then((answer) => {
      read.result = answer;
    });
    reads.set(id, read);
    return read;
  }

  async #ask(id: string, allowance: Allowance): Promise<Answer> {
    const { ledger, monotonicMs, onStoreFailure } = this.#options;
    try {
      const [decision, shadow] = await Promise.all([
        ledger.present(id, allowance),
        allowance.shadow === undefined ? null : ledger.present(shadowIdOf(id), allowance.shadow),
      ]);
      if (decision === null) {
        const cause = `What was counted for ${id} cannot be read: \`tollgate usage ${id}\` says where it is, and what to do.`;
        return { kind: 'unreadable', cause };
      }
      return { decision, shadow, answeredAtMs: monotonicMs() };
    } catch (error) {
      onStoreFailure?.(error);
      return null;
    }
  }

  async #askHistories(id: string, unit: string | null): Promise<Histories> {
    try {
      return await readHistories(this.#options.history, id, unit);
    } catch (error) {
      if (error instanceof UnreadableRecord) return unreadable(error);
      this.#options.onStoreFailure?.(error);
      return null;
    }
  }

  /** Computes the present usage from an earlier reading: windows and bans that have ended since then are gone. */
  #present(id: string, allowance: Allowance, answer: Answer): FoundUsage {
    if (answer === null || 'kind' in answer) return answer;
    const { nowMs, accounts } = answer.decision;
    const sinceMs = Math.floor(this.#options.monotonicMs() - answer.answeredAtMs);
    const present = decide(accounts, allowance, nowMs + sinceMs, 1, 0, answer.decision.inFlight);
    // The reading may be from another allowance, before a reload or for a token with another plan, and so have a shadow
    // that no longer exists.
    const shadow = allowance.shadow === undefined ? null : answer.shadow;
    const watched = shadow && decide(shadow.accounts, allowance.shadow!, shadow.nowMs + sinceMs, 1, 0);
    return {
      report: usageReport(partsOfAccount(id).consumerId ?? id, allowance, present, watched),
      verdict: verdictNow(allowance, present),
    };
  }
}

/**
 * During a ban the fields describe the window whose refusal caused it (contract section 4), even though no request is
 * counted.
 */
function verdictNow(allowance: Allowance, decision: Decision): Verdict {
  const { accounts, nowMs, inFlight } = decision;
  return banInForce(accounts, nowMs) !== null
    ? verdictOf(decision, allowance, 0)
    : { ...verdictOnBudgets(accounts, allowance, nowMs, 0), inFlight: inFlight ?? null };
}
