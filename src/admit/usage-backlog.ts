import { chargeOf } from '../engine/charging.ts';
import { countIn, presentCount } from '../engine/counting.ts';
import { hourOf } from '../engine/history-form.ts';
import type { AccountState, Decision, Limit } from '../engine/types.ts';
import type { WindowCount } from '../model/account.ts';
import type { WindowName } from '../model/values.ts';
import { type AccountIds, historiesOf, inUnit } from './account-id.ts';
import type { Allowance } from './allowance.ts';
import type { DeferredUsage, DeferredWindow, ReconciledUsage, UsageReconciler } from './ledger.ts';
import { limitAt, type WindowLimit } from './windows.ts';

interface UsageBacklogOptions {
  readonly reconciler: UsageReconciler;
  /** Maximum consumers in the backlog. Beyond that, the backlog drops the oldest usage and reports it as `lost`. */
  readonly most: number;
  /** This gateway's own clock, Unix milliseconds. */
  readonly wallMs: () => number;
  /** True while the gateway asks for a decision about a consumer: the backlog then sends its usage with that, not in the background. */
  readonly isBeingDecided: (consumerId: string) => boolean;
  /** Called with the outcome of each window's usage. @param spent the deferred cost */
  readonly onReturned?: (window: WindowName, outcome: ReconcileOutcome, spent: number) => void;
}

/**
 * `added`: the store has counted it. `ended`: its window was over. `lost`: the store did not answer, or the backlog was
 * full.
 */
export type ReconcileOutcome = 'added' | 'ended' | 'lost';

interface Deferred {
  readonly isOwnClock: boolean;
  readonly windows: Partial<Record<WindowName, DeferredWindow>>;
  /** Admitted cost by hour, for the history. */
  readonly hours: ReadonlyMap<number, number>;
}

const NO_HOURS: ReadonlyMap<number, number> = new Map();

interface InFlightUsage {
  readonly usage: Deferred;
  /** Fulfilled with true if the store has added the usage. */
  readonly isAdded: Promise<boolean>;
}

/** Consumers per call: few, so as not to overload a store that has just come back. */
const BATCH_SIZE = 64;
const RETRY_AFTER_MS = 200;

/**
 * The usage that this gateway has admitted while the store was away and must still add to it (contract section 6). The gateway adds
 * each piece once, and before the store decides about its consumer again. It reconciles consumers without further requests in the
 * background, a few at a time.
 *
 * A consumer is in doubt after a call about it timed out. The gateway then sends no call that counts until the store has answered a
 * call that counts nothing, so that no count is off by more than that one call.
 */
export class UsageBacklog {
  readonly #options: UsageBacklogOptions;
  /** By consumer, oldest first. */
  readonly #deferred = new Map<string, Deferred>();
  /** By consumer, the number of its latest doubt: an answer to an earlier question does not clear it. */
  readonly #inDoubt = new Map<string, number>();
  #doubts = 0;
  readonly #inFlight = new Map<string, InFlightUsage>();
  /** The store's clock minus this gateway's own, milliseconds, when the gateway last deferred usage by the store's clock. */
  #storeAheadMs = 0;
  #background: NodeJS.Timeout | null = null;
  #isBusy = false;

  constructor(options: UsageBacklogOptions) {
    this.#options = options;
  }

  /** Consumers in the backlog. */
  get size(): number {
    return this.#deferred.size + this.#inFlight.size;
  }

  has(consumerId: string): boolean {
    return this.#deferred.has(consumerId) || this.#inFlight.has(consumerId);
  }

  /** True if the gateway may send nothing that counts about a consumer. The call then starts a check in the background. */
  isInDoubt(consumerId: string): boolean {
    if (!this.#inDoubt.has(consumerId)) return false;
    this.#reconcileLater(0);
    return true;
  }

  /** Marks a consumer as in doubt, because the gateway gave up a call that may have counted. */
  doubt(consumerId: string): void {
    this.#inDoubt.set(consumerId, ++this.#doubts);
    if (this.#inDoubt.size > this.#options.most) this.#inDoubt.delete(this.#inDoubt.keys().next().value!);
    this.#reconcileLater(0);
  }

  /**
   * Adds the usage that a local decision admitted, to the account of each budget, and for the history to that of its customer too.
   * @param isOwnClock true if the times in `decision` are by this gateway's own clock
   */
  defer(ids: AccountIds, decision: Decision, { budgets, history }: Allowance, isOwnClock: boolean): void {
    const { admitted, n, cost, amounts = {}, accounts, nowMs } = decision;
    if (!isOwnClock) this.#storeAheadMs = nowMs - this.#options.wallMs();
    const recorded = history === undefined ? 0 : history === 'all' ? n : admitted;
    const hoursOf = (spent: number) => (spent === 0 ? NO_HOURS : new Map([[hourOf(nowMs), spent]]));
    for (const [i, budget] of budgets.entries()) {
      const spent = admitted * chargeOf(budget, cost, amounts);
      const windows = deferredWindows(accounts[i]!, budget.limits, nowMs, spent);
      this.#deferOne(ids[i]!, windows, budget.isWhole ? hoursOf(recorded * cost) : NO_HOURS, isOwnClock);
    }
    for (const [unit, amount] of Object.entries(amounts)) {
      for (const id of historiesOf(ids[0]))
        this.#deferOne(inUnit(id, unit), [], hoursOf(recorded * amount), isOwnClock);
    }
  }

  #deferOne(
    accountId: string,
    windows: readonly DeferredWindow[],
    hours: ReadonlyMap<number, number>,
    isOwnClock: boolean,
  ): void {
    if (windows.length > 0 || hours.size > 0) this.#add(accountId, windows, hours, isOwnClock);
  }

  /**
   * The accounts of a consumer in the store at `nowMs`, with their usage in the backlog added. Usage on its way to the store may be
   * in both. This counts it twice, so that the gateway admits nothing a second time.
   * @returns null if the backlog has no usage of these accounts
   */
  withBacklog(ids: AccountIds, accounts: readonly AccountState[], nowMs: number): readonly AccountState[] | null {
    if (this.#deferred.size === 0 && this.#inFlight.size === 0) return null;
    const wholes = accounts.map((state, i) => this.#withBacklogOfOne(ids[i]!, state, nowMs));
    if (wholes.every((whole) => whole === null)) return null;
    return accounts.map((state, i) => wholes[i] ?? state);
  }

  #withBacklogOfOne(accountId: string, state: AccountState, nowMs: number): AccountState | null {
    const backlog = [this.#deferred.get(accountId), this.#inFlight.get(accountId)?.usage].filter(
      (usage) => usage !== undefined,
    );
    if (backlog.length === 0) return null;
    const windows = { ...state.windows };
    for (const { isOwnClock, windows: deferred } of backlog) {
      const shiftMs = isOwnClock ? nowMs - this.#options.wallMs() : 0;
      for (const owed of Object.values(deferred)) {
        const { window, spent, endsAtMs } = owed;
        const open = windows[window];
        const endMs = Math.min(endsAtMs + shiftMs, owed.slices === undefined && open ? open.endsAtMs : Infinity);
        if (endMs <= nowMs) continue;
        if (owed.slices === undefined) windows[window] = { used: (open?.used ?? 0) + spent, endsAtMs: endMs };
        else
          windows[window] = countIn(
            presentCount(open, asLimit(owed, nowMs), nowMs).count,
            asLimit(owed, nowMs),
            nowMs,
            spent,
          );
      }
    }
    return { ...state, windows };
  }

  /**
   * Adds the usage of these consumers to the store, before the store decides about them.
   * @returns the consumers with nothing left in the backlog: the store may decide about them
   */
  async reconcile(consumerIds: Iterable<string>): Promise<ReadonlySet<string>> {
    const ids = [...new Set(consumerIds)];
    const due = ids.filter((id) => !this.#inFlight.has(id) && this.#deferred.has(id));
    if (due.length > 0) void this.#reconcile(due);
    const added = await Promise.all(ids.map(async (id) => (await this.#inFlight.get(id)?.isAdded) !== false));
    return new Set(ids.filter((id, i) => added[i] && !this.has(id)));
  }

  /** @returns true if the store has added any of it */
  async #reconcile(ids: readonly string[]): Promise<boolean> {
    const ownNowMs = this.#options.wallMs();
    const taken = ids.map((consumerId) => {
      const usage = this.#deferred.get(consumerId) ?? { isOwnClock: false, windows: {}, hours: NO_HOURS };
      this.#deferred.delete(consumerId);
      const windows = Object.values(usage.windows);
      const hours = usage.hours.size === 0 ? {} : { hours: usage.hours };
      return { usage, message: { consumerId, windows, ...hours, ownNowMs: usage.isOwnClock ? ownNowMs : null } };
    });
    const sent = this.#send(taken.map(({ message }) => message)).then((results) => {
      for (const [i, { usage, message }] of taken.entries()) {
        this.#inFlight.delete(message.consumerId);
        this.#noteResult(message.consumerId, usage, results[i]!);
      }
      return results.map(({ kind }) => kind === 'added');
    });
    for (const [i, id] of ids.entries()) {
      this.#inFlight.set(id, { usage: taken[i]!.usage, isAdded: sent.then((added) => added[i]!) });
    }
    return (await sent).some((isAdded) => isAdded);
  }

  /** Sends an empty call first for consumers in doubt, and their usage only if the store answers it. */
  async #send(deferred: readonly DeferredUsage[]): Promise<readonly ReconciledUsage[]> {
    const doubtful = deferred.filter(({ consumerId }) => this.#inDoubt.has(consumerId));
    if (doubtful.length > 0) {
      const doubts = doubtful.map(({ consumerId }) => this.#inDoubt.get(consumerId));
      const answers = await this.#options.reconciler.reconcile(
        doubtful.map(({ consumerId, ownNowMs }) => ({ consumerId, ownNowMs, windows: [] })),
      );
      for (const [i, { kind }] of answers.entries()) {
        // A consumer is still in doubt if a later call about it was given up.
        const { consumerId } = doubtful[i]!;
        if (kind === 'added' && this.#inDoubt.get(consumerId) === doubts[i]) this.#inDoubt.delete(consumerId);
      }
    }
    const clear = deferred.filter(({ consumerId }) => !this.#inDoubt.has(consumerId));
    const sent = clear.filter(({ windows, hours }) => windows.length > 0 || hours !== undefined);
    const results = sent.length === 0 ? [] : await this.#options.reconciler.reconcile(sent);
    return deferred.map((usage) => {
      if (!clear.includes(usage)) return { kind: 'refused' };
      return results[sent.indexOf(usage)] ?? { kind: 'added', added: [] };
    });
  }

  #noteResult(consumerId: string, usage: Deferred, result: ReconciledUsage): void {
    const windows = Object.values(usage.windows);
    if (result.kind === 'lost') this.doubt(consumerId);
    if (result.kind !== 'refused') for (const window of windows) this.#report(window, result);
    else if (windows.length > 0 || usage.hours.size > 0) this.#add(consumerId, windows, usage.hours, usage.isOwnClock);
  }

  #report({ window, spent }: DeferredWindow, result: Exclude<ReconciledUsage, { kind: 'refused' }>): void {
    const isAdded = result.kind === 'added' && result.added.includes(window);
    this.#options.onReturned?.(window, result.kind === 'lost' ? 'lost' : isAdded ? 'added' : 'ended', spent);
  }

  #add(
    consumerId: string,
    more: readonly DeferredWindow[],
    hours: ReadonlyMap<number, number>,
    isOwnClock: boolean,
  ): void {
    const before = this.#deferred.get(consumerId) ?? { isOwnClock, windows: {}, hours: NO_HOURS };
    // If one of them is by this gateway's own clock, both get the store's, which has become known meanwhile.
    const isMixed = before.isOwnClock !== isOwnClock;
    const inStoreTime = (owed: DeferredWindow) => later(owed, this.#storeAheadMs);
    const windows: Deferred['windows'] = {};
    for (const known of Object.values(before.windows)) {
      windows[known.window] = isMixed && before.isOwnClock ? inStoreTime(known) : known;
    }
    for (const one of more) {
      const added = isMixed && isOwnClock ? inStoreTime(one) : one;
      const known = windows[added.window];
      windows[added.window] = known === undefined ? added : this.#merge(known, added);
    }
    const allHours = new Map(before.hours);
    for (const [hour, cost] of hours) allHours.set(hour, (allHours.get(hour) ?? 0) + cost);
    this.#deferred.set(consumerId, { windows, hours: allHours, isOwnClock: isOwnClock && before.isOwnClock });
    if (this.#deferred.size > this.#options.most) this.#dropOldest();
    this.#reconcileLater(RETRY_AFTER_MS);
  }

  /** Adds up usage of the same window. Of two windows it takes the later one: the earlier has ended. */
  #merge(known: DeferredWindow, added: DeferredWindow): DeferredWindow {
    if (added.parts !== undefined) return this.#mergeSlices(known, added);
    const laterByMs = added.endsAtMs - known.endsAtMs;
    // Two windows are at least one length apart. Ends closer than that are of one window whose end the store has moved.
    if (Math.abs(laterByMs) < added.lengthMs) return joined(known, added);
    const [ended, next] = laterByMs > 0 ? [known, added] : [added, known];
    this.#report(ended, { kind: 'added', added: [] });
    return next;
  }

  /** The later usage, with the slices of the earlier one that still count. */
  #mergeSlices(known: DeferredWindow, added: DeferredWindow): DeferredWindow {
    const [earlier, later] = known.endsAtMs <= added.endsAtMs ? [known, added] : [added, known];
    const atMs = lastBeganAtMs(later);
    const limit = asLimit(later, atMs);
    const { count } = presentCount(asCount(earlier), limit, atMs);
    const gone = earlier.spent - (count?.used ?? 0);
    if (gone > 0) this.#report({ ...earlier, spent: gone }, { kind: 'added', added: [] });
    return deferredSlices(later, countIn(count, limit, atMs, later.spent));
  }

  #dropOldest(): void {
    const oldest = this.#deferred.keys().next().value!;
    for (const window of Object.values(this.#deferred.get(oldest)!.windows)) this.#report(window, { kind: 'lost' });
    this.#deferred.delete(oldest);
  }

  #reconcileLater(afterMs: number): void {
    if (this.#background !== null || this.#isBusy) return;
    this.#background = setTimeout(() => void this.#reconcileSome(), afterMs);
    this.#background.unref();
  }

  /** Sends a few. While the store is away this is cheap: the reconciler sends nothing that is certain to fail. */
  async #reconcileSome(): Promise<void> {
    this.#background = null;
    this.#isBusy = true;
    const ids = [...this.#inDoubt.keys()].slice(0, BATCH_SIZE);
    for (const id of this.#deferred.keys()) {
      if (ids.length >= BATCH_SIZE) break;
      if (!this.#inDoubt.has(id) && !this.#options.isBeingDecided(id)) ids.push(id);
    }
    const hasAdded = await this.#reconcile(ids.filter((id) => !this.#inFlight.has(id)));
    this.#isBusy = false;
    if (this.#deferred.size > 0 || this.#inDoubt.size > 0) this.#reconcileLater(hasAdded ? 0 : RETRY_AFTER_MS);
  }
}

/** The usage in each window of an account; none if the decision admitted nothing. */
function deferredWindows(
  { windows: counts }: AccountState,
  limits: readonly WindowLimit[],
  nowMs: number,
  spent: number,
): DeferredWindow[] {
  const windows: DeferredWindow[] = [];
  if (spent === 0) return windows;
  for (const limit of limits) {
    const open = counts[limit.window];
    if (open === undefined) continue;
    const { window, lengthMs, slices, calendar } = limit;
    const own = { window, lengthMs, ...(calendar === undefined ? {} : { calendar }) };
    if (slices === undefined) windows.push({ ...own, spent, endsAtMs: open.endsAtMs });
    else windows.push(deferredSlices(limit, countIn(undefined, limitAt(limit, nowMs), nowMs, spent)));
  }
  return windows;
}

/** The window of some deferred usage, as the engine counts it. */
function asLimit({ window, lengthMs, slices, calendar }: DeferredWindow, nowMs: number): Limit {
  const limit = { window, lengthMs, limit: 0, ...(slices === undefined ? {} : { slices }) };
  return limitAt(calendar === undefined ? limit : { ...limit, calendar }, nowMs);
}

function asCount({ spent, endsAtMs, parts }: DeferredWindow): WindowCount {
  return { used: spent, endsAtMs, ...(parts === undefined ? {} : { slices: parts }) };
}

function deferredSlices(
  { window, lengthMs, slices }: Omit<WindowLimit, 'limit'>,
  { used, endsAtMs, slices: parts }: WindowCount,
) {
  return { window, lengthMs, slices: slices!, spent: used, endsAtMs, parts: parts! };
}

/** The same usage by a clock that is `aheadMs` ahead. */
function later(owed: DeferredWindow, aheadMs: number): DeferredWindow {
  const { endsAtMs, parts } = owed;
  const moved = parts === undefined ? {} : { parts: { ...parts, startsAtMs: parts.startsAtMs + aheadMs } };
  return { ...owed, endsAtMs: endsAtMs + aheadMs, ...moved };
}

/** The beginning of the last slice with usage. */
function lastBeganAtMs({ lengthMs, endsAtMs, slices }: DeferredWindow): number {
  return endsAtMs - lengthMs - Math.ceil(lengthMs / slices!);
}

/** The sum of two, which ends with the earlier of them, as in the store (engine/reconcile.ts). */
function joined(a: DeferredWindow, b: DeferredWindow): DeferredWindow {
  return { ...a, spent: a.spent + b.spent, endsAtMs: Math.min(a.endsAtMs, b.endsAtMs) };
}
