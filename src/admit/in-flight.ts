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
/** How often an account with running requests is reported; the store forgets it after ten seconds without a report. */
const REPORT_EVERY_MS = 3_000;

const NONE: readonly number[] = Object.freeze([]);

interface Held {
  count: number;
  reportedAtMs: number;
  /** Whether the store has a larger number. */
  isStale: boolean;
}

/**
 * How many requests of each account are in flight in this process, of accounts that may have a bounded number (contract
 * section 3). The store adds up what all processes report. Each report, alone or with a decision, has the whole number of this
 * process, so a lost one is mended by the next; and what a killed process had ends ten seconds after its last report.
 */
export class InFlightCounts {
  readonly #options: InFlightOptions;
  readonly #held = new Map<string, Held>();
  #timer: NodeJS.Timeout | null = null;
  #wakesAtMs = Number.POSITIVE_INFINITY;

  constructor(options: InFlightOptions) {
    this.#options = options;
  }

  /** How many are in flight in each account of an allowance, which are not reported. Empty if it bounds none. */
  heldOf({ boundsInFlight }: Allowance, accountIds: readonly string[]): readonly number[] {
    return boundsInFlight ? accountIds.map((id) => this.#held.get(id)?.count ?? 0) : NONE;
  }

  /** How many are in flight in each of these accounts. The caller reports them to the store. */
  reported(accountIds: readonly string[]): readonly number[] {
    const nowMs = this.#options.monotonicMs();
    return accountIds.map((id) => {
      const held = this.#held.get(id);
      if (held === undefined) return 0;
      held.reportedAtMs = nowMs;
      held.isStale = false;
      if (held.count === 0) this.#held.delete(id);
      return held.count;
    });
  }

  /** `admitted` requests have begun. Each ends with `end`. */
  began(allowance: Allowance, accountIds: readonly string[], admitted: number): void {
    if (!allowance.boundsInFlight || admitted === 0) return;
    const reportedAtMs = this.#options.monotonicMs();
    for (const id of boundedIn(allowance, accountIds)) {
      const held = this.#held.get(id);
      if (held === undefined) this.#held.set(id, { count: admitted, reportedAtMs, isStale: false });
      else held.count += admitted;
    }
    this.#reportIn(REPORT_EVERY_MS);
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
      if (!held.isStale && nowMs - held.reportedAtMs < REPORT_EVERY_MS) continue;
      if (this.#options.isBeingDecided(accountId)) isWaiting = true;
      else due.push({ accountId, count: held.count });
    }
    this.reported(due.map(({ accountId }) => accountId));
    if (isWaiting) this.#reportIn(REPORT_WITHIN_MS);
    else if (this.#held.size > 0) this.#reportIn(REPORT_EVERY_MS);
    if (due.length > 0) await this.#options.reports.reportInFlight(due).catch(() => this.#failed(due));
  }

  /** The store has not answered: it may not know what has ended. */
  #failed(due: readonly { readonly accountId: string }[]): void {
    for (const { accountId } of due) {
      const held = this.#held.get(accountId) ?? { count: 0, reportedAtMs: 0, isStale: true };
      held.isStale = true;
      this.#held.set(accountId, held);
    }
    this.#reportIn(REPORT_EVERY_MS);
  }
}

/** The accounts of an allowance that bound the requests in flight. */
function boundedIn({ inFlight, further = [] }: Allowance, accountIds: readonly string[]): readonly string[] {
  return accountIds.filter((_, i) => (i === 0 ? inFlight : further[i - 1]!.inFlight) !== undefined);
}
