import type { InFlightReports } from './ledger.ts';
import type { Allowance } from './plan.ts';

interface InFlightOptions {
  readonly reports: InFlightReports;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Whether a decision that counts requests of this account is asked for at present. */
  readonly isBeingDecided: (accountId: string) => boolean;
}

/** How soon the store learns that a request has ended, if no decision about its account reports it before. */
const REPORT_WITHIN_MS = 20;
/**
 * How often an account with running requests is reported at least; the store forgets it after ten seconds without a report, and
 * after a failover that lost one it knows too few until the next.
 */
const REPORT_EVERY_MS = 3_000;
/** How often this process looks which accounts to report. */
const LOOK_EVERY_MS = 1_000;

const NONE: readonly number[] = Object.freeze([]);

interface InFlightCount {
  count: number;
  reportedAtMs: number;
  /** Whether the store may have another number. */
  isStale: boolean;
}

/**
 * How many requests of each account are in flight in this process, of accounts that may have a bounded number (contract
 * section 3). The store adds up what all processes report. Each report, alone or with a decision, has the whole number of this
 * process, so a lost one is mended by the next; and what a killed process had ends ten seconds after its last report.
 */
export class InFlightCounts {
  readonly #options: InFlightOptions;
  readonly #held = new Map<string, InFlightCount>();
  #timer: NodeJS.Timeout | null = null;
  #wakesAtMs = Number.POSITIVE_INFINITY;

  constructor(options: InFlightOptions) {
    this.#options = options;
  }

  /** How many are in flight in each account of an allowance, which are not reported. Empty if it bounds none. */
  heldOf({ boundsInFlight }: Allowance, accountIds: readonly string[]): readonly number[] {
    return boundsInFlight ? accountIds.map((id) => this.#held.get(id)?.count ?? 0) : NONE;
  }

  /** The same, for a decision that reports them to the store. `answered` or `unanswered` follows. */
  reported(allowance: Allowance, accountIds: readonly string[]): readonly number[] {
    this.#noteReported(boundedIn(allowance, accountIds));
    return this.heldOf(allowance, accountIds);
  }

  /** The store has decided, and has admitted some. Each of them ends with `end`. */
  answered(allowance: Allowance, accountIds: readonly string[], admitted: number): void {
    const ids = boundedIn(allowance, accountIds);
    if (admitted > 0) this.#add(ids, admitted, false);
    this.#dropEnded(ids);
  }

  /** The store has decided, but the gateway had decided without it: the store counts what it admitted, until the next report. */
  answeredLate(allowance: Allowance, accountIds: readonly string[]): void {
    this.#unreported(boundedIn(allowance, accountIds), REPORT_WITHIN_MS);
  }

  /** @param mayHaveCounted whether the store may count requests as in flight that are not */
  unanswered(allowance: Allowance, accountIds: readonly string[], mayHaveCounted: boolean): void {
    const ids = boundedIn(allowance, accountIds);
    this.#unreported(mayHaveCounted ? ids : ids.filter((id) => this.#held.has(id)), LOOK_EVERY_MS);
  }

  /** The gateway has admitted some without the store. Each of them ends with `end`. */
  began(allowance: Allowance, accountIds: readonly string[], admitted: number): void {
    if (allowance.boundsInFlight && admitted > 0) this.#add(boundedIn(allowance, accountIds), admitted, true);
  }

  #add(accountIds: readonly string[], admitted: number, isStale: boolean): void {
    const reportedAtMs = this.#options.monotonicMs();
    for (const id of accountIds) {
      const held = this.#held.get(id);
      if (held === undefined) this.#held.set(id, { count: admitted, reportedAtMs, isStale });
      else {
        held.count += admitted;
        held.isStale ||= isStale;
      }
    }
    this.#reportIn(LOOK_EVERY_MS);
  }

  /** A request has ended. */
  end(allowance: Allowance, accountIds: readonly string[]): void {
    for (const id of boundedIn(allowance, accountIds)) {
      const held = this.#held.get(id);
      if (held === undefined) continue;
      held.count--;
      held.isStale = true;
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
   * Reports what has changed, and what the store would forget. An account that is being decided waits: the report would lack
   * the requests that the store is about to admit.
   */
  async #report(): Promise<void> {
    this.#wakesAtMs = Number.POSITIVE_INFINITY;
    this.#timer = null;
    const nowMs = this.#options.monotonicMs();
    const due: { accountId: string; count: number }[] = [];
    let isWaiting = false;
    for (const [accountId, held] of this.#held) {
      if (!held.isStale && nowMs - held.reportedAtMs + LOOK_EVERY_MS < REPORT_EVERY_MS) continue;
      if (this.#options.isBeingDecided(accountId)) isWaiting = true;
      else due.push({ accountId, count: held.count });
    }
    const ids = due.map(({ accountId }) => accountId);
    this.#noteReported(ids);
    if (isWaiting) this.#reportIn(REPORT_WITHIN_MS);
    else if (this.#held.size > 0) this.#reportIn(LOOK_EVERY_MS);
    if (due.length === 0) return;
    await this.#options.reports.reportInFlight(due).then(
      () => this.#dropEnded(ids),
      () => this.#unreported(ids, LOOK_EVERY_MS),
    );
  }

  #noteReported(accountIds: readonly string[]): void {
    const reportedAtMs = this.#options.monotonicMs();
    for (const id of accountIds) {
      const held = this.#held.get(id);
      if (held !== undefined) Object.assign(held, { reportedAtMs, isStale: false });
    }
  }

  /** Forgets the accounts of which nothing is in flight, as the store knows. */
  #dropEnded(accountIds: readonly string[]): void {
    for (const id of accountIds) {
      const held = this.#held.get(id);
      if (held?.count === 0 && !held.isStale) this.#held.delete(id);
    }
  }

  /** Has these accounts reported again. */
  #unreported(accountIds: readonly string[], withinMs: number): void {
    if (accountIds.length === 0) return;
    for (const id of accountIds) {
      const held = this.#held.get(id);
      if (held === undefined) this.#held.set(id, { count: 0, reportedAtMs: 0, isStale: true });
      else held.isStale = true;
    }
    this.#reportIn(withinMs);
  }
}

/** The accounts of an allowance that bound the requests in flight. */
function boundedIn({ budgets }: Allowance, accountIds: readonly string[]): readonly string[] {
  return accountIds.filter((_, i) => budgets[i]!.inFlight !== undefined);
}
