import type { Allowance } from './allowance.ts';
import type { InFlightReports } from './ledger.ts';

interface InFlightOptions {
  readonly reports: InFlightReports;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** True while the gateway asks for a decision that counts requests of this account. */
  readonly isBeingDecided: (accountId: string) => boolean;
}

/** The store learns within this time that a request has ended, if no decision about its account reports it before. */
const REPORT_WITHIN_MS = 20;
/**
 * The process reports an account with running requests at least this often. The store forgets an account after ten seconds without
 * a report, and after a failover that lost a report it counts too few until the next one.
 */
const REPORT_EVERY_MS = 3_000;
/** The process looks this often for accounts to report. */
const LOOK_EVERY_MS = 1_000;

const NONE: readonly number[] = Object.freeze([]);

interface InFlightCount {
  count: number;
  reportedAtMs: number;
  /** True if the store may have another number. */
  isStale: boolean;
}

/**
 * Counts the requests in flight in this process, for each account that may have a limit on them (contract section 3). The store
 * adds up the numbers of all processes. Each report, alone or with a decision, has the whole number of this process, so the next
 * report repairs a lost one. The store drops the number of a killed process ten seconds after its last report.
 */
export class InFlightCounts {
  readonly #options: InFlightOptions;
  readonly #counts = new Map<string, InFlightCount>();
  #timer: NodeJS.Timeout | null = null;
  #wakesAtMs = Number.POSITIVE_INFINITY;

  constructor(options: InFlightOptions) {
    this.#options = options;
  }

  /** The numbers of requests in flight in each account of an allowance, without reporting them. Empty if it has no limit on them. */
  countsOf({ boundsInFlight }: Allowance, accountIds: readonly string[]): readonly number[] {
    return boundsInFlight ? accountIds.map((id) => this.#counts.get(id)?.count ?? 0) : NONE;
  }

  /** The same numbers, for a decision that reports them to the store. The caller then calls `answered` or `unanswered`. */
  reported(allowance: Allowance, accountIds: readonly string[]): readonly number[] {
    this.#noteReported(boundedIn(allowance, accountIds));
    return this.countsOf(allowance, accountIds);
  }

  /** Adds the requests that the store has admitted. The caller ends each of them with `end`. */
  answered(allowance: Allowance, accountIds: readonly string[], admitted: number): void {
    const ids = boundedIn(allowance, accountIds);
    if (admitted > 0) this.#add(ids, admitted, false);
    this.#dropEnded(ids);
  }

  /** Notes that the store decided after the gateway had decided without it: until the next report the store counts what it admitted. */
  answeredLate(allowance: Allowance, accountIds: readonly string[]): void {
    this.#unreported(boundedIn(allowance, accountIds), REPORT_WITHIN_MS);
  }

  /**
   * Notes that the store did not decide.
   * @param mayHaveCounted true if the store may count requests as in flight that are not
   */
  unanswered(allowance: Allowance, accountIds: readonly string[], mayHaveCounted: boolean): void {
    const ids = boundedIn(allowance, accountIds);
    this.#unreported(mayHaveCounted ? ids : ids.filter((id) => this.#counts.has(id)), LOOK_EVERY_MS);
  }

  /** Adds requests that the gateway admitted without the store. The caller ends each of them with `end`. */
  began(allowance: Allowance, accountIds: readonly string[], admitted: number): void {
    if (allowance.boundsInFlight && admitted > 0) this.#add(boundedIn(allowance, accountIds), admitted, true);
  }

  #add(accountIds: readonly string[], admitted: number, isStale: boolean): void {
    const reportedAtMs = this.#options.monotonicMs();
    for (const id of accountIds) {
      const known = this.#counts.get(id);
      if (known === undefined) this.#counts.set(id, { count: admitted, reportedAtMs, isStale });
      else {
        known.count += admitted;
        known.isStale ||= isStale;
      }
    }
    this.#reportIn(LOOK_EVERY_MS);
  }

  /** Notes that a request has ended. */
  end(allowance: Allowance, accountIds: readonly string[]): void {
    for (const id of boundedIn(allowance, accountIds)) {
      const known = this.#counts.get(id);
      if (known === undefined) continue;
      known.count--;
      known.isStale = true;
    }
    this.#reportIn(REPORT_WITHIN_MS);
  }

  #reportIn(ms: number): void {
    const atMs = this.#options.monotonicMs() + ms;
    if (atMs >= this.#wakesAtMs) return;
    this.#wakesAtMs = atMs;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#report(), ms);
    this.#timer.unref();
  }

  /**
   * Reports changed accounts, and those that the store would soon forget. An account waits while the store decides about it: the
   * report would lack the requests that the store is about to admit.
   */
  async #report(): Promise<void> {
    this.#wakesAtMs = Number.POSITIVE_INFINITY;
    this.#timer = null;
    const nowMs = this.#options.monotonicMs();
    const due: { accountId: string; count: number }[] = [];
    let isWaiting = false;
    for (const [accountId, known] of this.#counts) {
      if (!known.isStale && nowMs - known.reportedAtMs + LOOK_EVERY_MS < REPORT_EVERY_MS) continue;
      if (this.#options.isBeingDecided(accountId)) isWaiting = true;
      else due.push({ accountId, count: known.count });
    }
    const ids = due.map(({ accountId }) => accountId);
    this.#noteReported(ids);
    if (isWaiting) this.#reportIn(REPORT_WITHIN_MS);
    else if (this.#counts.size > 0) this.#reportIn(LOOK_EVERY_MS);
    if (due.length === 0) return;
    await this.#options.reports.reportInFlight(due).then(
      () => this.#dropEnded(ids),
      () => this.#unreported(ids, LOOK_EVERY_MS),
    );
  }

  #noteReported(accountIds: readonly string[]): void {
    const reportedAtMs = this.#options.monotonicMs();
    for (const id of accountIds) {
      const known = this.#counts.get(id);
      if (known !== undefined) Object.assign(known, { reportedAtMs, isStale: false });
    }
  }

  /** Forgets the accounts without a request in flight, once the store knows it. */
  #dropEnded(accountIds: readonly string[]): void {
    for (const id of accountIds) {
      const known = this.#counts.get(id);
      if (known?.count === 0 && !known.isStale) this.#counts.delete(id);
    }
  }

  /** Lets the next report include these accounts. */
  #unreported(accountIds: readonly string[], withinMs: number): void {
    if (accountIds.length === 0) return;
    for (const id of accountIds) {
      const known = this.#counts.get(id);
      if (known === undefined) this.#counts.set(id, { count: 0, reportedAtMs: 0, isStale: true });
      else known.isStale = true;
    }
    this.#reportIn(withinMs);
  }
}

/** The accounts of an allowance with a limit on requests in flight. */
function boundedIn({ budgets }: Allowance, accountIds: readonly string[]): readonly string[] {
  return accountIds.filter((_, i) => budgets[i]!.inFlight !== undefined);
}
