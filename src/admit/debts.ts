import type { AccountState, Outcome } from './decide.ts';
import type { Debt, OwedWindow, Returned, Returns } from './ledger.ts';
import type { Allowance, WindowName } from './plan.ts';

export interface DebtsOptions {
  readonly returns: Returns;
  /** Consumers that may owe at the same time; of more, those that owe for the longest time are let off. */
  readonly most: number;
  /** Unix milliseconds: what this gateway takes for the present. */
  readonly wallMs: () => number;
  readonly onReturned?: (window: WindowName, outcome: ReturnOutcome, spent: number) => void;
}

/**
 * `added`: it counts in the store. `ended`: its window was over. `lost`: sent and not answered, or more owed than can be
 * remembered.
 */
export type ReturnOutcome = 'added' | 'ended' | 'lost';

interface Owed {
  readonly isOwnClock: boolean;
  readonly windows: Partial<Record<WindowName, OwedWindow>>;
}

interface UnderWay {
  readonly owed: Owed;
  /** Whether the store has taken it. */
  readonly isTaken: Promise<boolean>;
}

/** So many are brought in one go: a store that has just come back is not run down. */
const AT_ONCE = 64;
const AGAIN_AFTER_MS = 200;

/**
 * What this gateway has admitted while the store was away and has still to add to it (contract section 6), once, and for
 * each consumer before the store decides about it again. Whoever is not asked about is settled in the background, a
 * few at a time.
 *
 * A consumer is in doubt when a call about it was given up: nothing that counts is sent until the store has answered
 * something harmless, so that no count is off by more than that one call.
 */
export class Debts {
  readonly #options: DebtsOptions;
  /** In the order in which they were made. */
  readonly #owed = new Map<string, Owed>();
  readonly #inDoubt = new Set<string>();
  readonly #underWay = new Map<string, UnderWay>();
  #background: NodeJS.Timeout | null = null;
  #isBusy = false;

  constructor(options: DebtsOptions) {
    this.#options = options;
  }

  /** Consumers that owe. */
  get size(): number {
    return this.#owed.size + this.#underWay.size;
  }

  has(consumerId: string): boolean {
    return this.#owed.has(consumerId) || this.#underWay.has(consumerId);
  }

  /** Whether nothing may be sent about a consumer for the time being; it is then soon found out whether that is over. */
  isInDoubt(consumerId: string): boolean {
    if (!this.#inDoubt.has(consumerId)) return false;
    this.#settleLater(0);
    return true;
  }

  /** A call that may have counted was given up. */
  doubt(consumerId: string): void {
    this.#inDoubt.add(consumerId);
    if (this.#inDoubt.size > this.#options.most) this.#inDoubt.delete(this.#inDoubt.values().next().value!);
    this.#settleLater(0);
  }

  /** Notes what `outcome` admitted here alone. */
  owe(consumerId: string, { admitted, cost, state }: Outcome, { limits }: Allowance, isOwnClock: boolean): void {
    const owed: OwedWindow[] = [];
    for (const { window, lengthMs } of limits) {
      const open = state.windows[window];
      if (open !== undefined) owed.push({ window, lengthMs, spent: admitted * cost, endsAtMs: open.endsAtMs });
    }
    if (admitted > 0 && owed.length > 0) this.#add(consumerId, owed, isOwnClock);
  }

  /**
   * What the store said of a consumer at `nowMs`, and what it has yet to be told laid over it. What is just being brought may
   * be in both: it is then counted once more, so that nothing is admitted for a second time.
   * @returns null where the store had been told everything
   */
  laidOver(consumerId: string, state: AccountState, nowMs: number): AccountState | null {
    const all = [this.#owed.get(consumerId), this.#underWay.get(consumerId)?.owed].filter((owed) => owed !== undefined);
    if (all.length === 0) return null;
    const windows = { ...state.windows };
    for (const { isOwnClock, windows: owed } of all) {
      const shiftMs = isOwnClock ? nowMs - this.#options.wallMs() : 0;
      for (const { window, spent, endsAtMs } of Object.values(owed)) {
        const open = windows[window];
        const endMs = Math.min(endsAtMs + shiftMs, open?.endsAtMs ?? Number.POSITIVE_INFINITY);
        if (endMs > nowMs) windows[window] = { used: (open?.used ?? 0) + spent, endsAtMs: endMs };
      }
    }
    return { ...state, windows };
  }

  /**
   * Brings what these consumers owe.
   * @returns those that owe nothing any more: the store may decide about them
   */
  async settle(consumerIds: Iterable<string>): Promise<ReadonlySet<string>> {
    const ids = [...new Set(consumerIds)];
    const due = ids.filter((id) => !this.#underWay.has(id) && this.#owed.has(id));
    if (due.length > 0) void this.#bring(due);
    const settled = await Promise.all(ids.map(async (id) => (await this.#underWay.get(id)?.isTaken) !== false));
    return new Set(ids.filter((id, i) => settled[i] && !this.has(id)));
  }

  /** @returns whether the store has taken any of it */
  async #bring(ids: readonly string[]): Promise<boolean> {
    const ownNowMs = this.#options.wallMs();
    const taken = ids.map((consumerId) => {
      const owed = this.#owed.get(consumerId) ?? { isOwnClock: false, windows: {} };
      this.#owed.delete(consumerId);
      const windows = Object.values(owed.windows);
      return { owed, debt: { consumerId, windows, ownNowMs: owed.isOwnClock ? ownNowMs : null } };
    });
    const sent = this.#send(taken.map(({ debt }) => debt)).then((returned) => {
      for (const [i, { owed, debt }] of taken.entries()) {
        this.#underWay.delete(debt.consumerId);
        this.#account(debt.consumerId, owed, returned[i]!);
      }
      return returned.map(({ kind }) => kind === 'added');
    });
    for (const [i, id] of ids.entries()) {
      this.#underWay.set(id, { owed: taken[i]!.owed, isTaken: sent.then((added) => added[i]!) });
    }
    return (await sent).some((isAdded) => isAdded);
  }

  /** Of those in doubt nothing is brought before the store has answered. */
  async #send(debts: readonly Debt[]): Promise<readonly Returned[]> {
    const doubtful = debts.filter(({ consumerId }) => this.#inDoubt.has(consumerId));
    if (doubtful.length > 0) {
      const answers = await this.#options.returns.giveBack(doubtful.map((debt) => ({ ...debt, windows: [] })));
      for (const [i, { kind }] of answers.entries()) {
        if (kind === 'added') this.#inDoubt.delete(doubtful[i]!.consumerId);
      }
    }
    const clear = debts.filter(({ consumerId }) => !this.#inDoubt.has(consumerId));
    const brought = clear.filter(({ windows }) => windows.length > 0);
    const returned = brought.length === 0 ? [] : await this.#options.returns.giveBack(brought);
    return debts.map((debt) => {
      if (!clear.includes(debt)) return { kind: 'refused' };
      return returned[brought.indexOf(debt)] ?? { kind: 'added', added: [] };
    });
  }

  #account(consumerId: string, { windows, isOwnClock }: Owed, returned: Returned): void {
    const each = Object.values(windows);
    if (returned.kind === 'lost') this.doubt(consumerId);
    if (returned.kind !== 'refused') for (const owed of each) this.#tell(owed, returned);
    else if (each.length > 0) this.#add(consumerId, each, isOwnClock);
  }

  #tell({ window, spent }: OwedWindow, returned: Exclude<Returned, { kind: 'refused' }>): void {
    const isAdded = returned.kind === 'added' && returned.added.includes(window);
    this.#options.onReturned?.(window, returned.kind === 'lost' ? 'lost' : isAdded ? 'added' : 'ended', spent);
  }

  #add(consumerId: string, more: readonly OwedWindow[], isOwnClock: boolean): void {
    const before = this.#owed.get(consumerId);
    // Two clocks cannot be added up: the later word stands.
    const windows = before?.isOwnClock === isOwnClock ? { ...before.windows } : {};
    for (const one of more) {
      const known = windows[one.window];
      windows[one.window] = known === undefined ? one : this.#together(known, one);
    }
    this.#owed.set(consumerId, { windows, isOwnClock });
    if (this.#owed.size > this.#options.most) this.#letOff();
    this.#settleLater(AGAIN_AFTER_MS);
  }

  /** What is owed in one window; or, of two windows, in the later one: the other has ended. */
  #together(known: OwedWindow, one: OwedWindow): OwedWindow {
    const laterByMs = one.endsAtMs - known.endsAtMs;
    // The next window opens when the one before has ended. What is less apart is one whose end the store has moved.
    if (Math.abs(laterByMs) < one.lengthMs) return joined(known, one);
    const [ended, next] = laterByMs > 0 ? [known, one] : [one, known];
    this.#tell(ended, { kind: 'added', added: [] });
    return next;
  }

  #letOff(): void {
    const oldest = this.#owed.keys().next().value!;
    for (const owed of Object.values(this.#owed.get(oldest)!.windows)) this.#tell(owed, { kind: 'lost' });
    this.#owed.delete(oldest);
  }

  #settleLater(afterMs: number): void {
    if (this.#background !== null || this.#isBusy) return;
    this.#background = setTimeout(() => void this.#settleSome(), afterMs);
    this.#background.unref();
  }

  /** While the store is away this costs next to nothing: what is certain to fail is not sent. */
  async #settleSome(): Promise<void> {
    this.#background = null;
    this.#isBusy = true;
    const ids = [...this.#inDoubt].slice(0, AT_ONCE);
    for (const id of this.#owed.keys()) {
      if (ids.length >= AT_ONCE) break;
      if (!this.#inDoubt.has(id)) ids.push(id);
    }
    const goesWell = await this.#bring(ids.filter((id) => !this.#underWay.has(id)));
    this.#isBusy = false;
    if (this.#owed.size > 0 || this.#inDoubt.size > 0) this.#settleLater(goesWell ? 0 : AGAIN_AFTER_MS);
  }
}

/** As where the store joins two: they end with the first of them. */
function joined(a: OwedWindow, b: OwedWindow): OwedWindow {
  return { ...a, spent: a.spent + b.spent, endsAtMs: Math.min(a.endsAtMs, b.endsAtMs) };
}
