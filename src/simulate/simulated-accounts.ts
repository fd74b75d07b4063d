import { accountIdOfBudget } from '../admit/account-id.ts';
import type { Allowance, Budget } from '../admit/allowance.ts';
import type { WindowLimit } from '../admit/windows.ts';
import type { AccountState, Accounts as AccountStates } from '../engine/types.ts';
import type { Ban, SliceCounts, WindowCount } from '../model/account.ts';
import { WINDOWS, type WindowName } from '../model/values.ts';

/**
 * The state of every account, in columns: about 100 bytes for each, where objects would take several hundred and work for
 * the garbage collector. The first accounts are those of the consumers, under their numbers; those of customers and of
 * groups of routes come after them when they are first used.
 */
export class Accounts {
  readonly #windows: Partial<Record<WindowName, WindowColumns>> = {};
  /** The numbers of the other accounts. */
  readonly #others = new Map<string, number>();
  readonly #consumers: number;
  #capacity: number;
  #strikes: Float64Array;
  #strikesEndAtMs: Float64Array;
  #banNumber: Float64Array;
  #banUntilMs: Float64Array;
  /** Index in WINDOWS. */
  #banWindow: Uint8Array;
  /** The budget of the window of a ban, where it is not the account's own. */
  readonly #banBudgets = new Map<number, string>();

  constructor(consumers: number) {
    this.#consumers = consumers;
    this.#capacity = consumers;
    this.#strikes = new Float64Array(consumers);
    this.#strikesEndAtMs = new Float64Array(consumers);
    this.#banNumber = new Float64Array(consumers);
    this.#banUntilMs = new Float64Array(consumers);
    this.#banWindow = new Uint8Array(consumers);
  }

  /** The states for `decide`. As in a store, windows that the allowance does not count are kept unchanged. */
  get(consumer: number, accountId: string, { budgets }: Allowance): AccountStates {
    const states = budgets.map((budget) => this.#get(this.#numberOf(consumer, accountId, budget), budget.limits));
    return states as [AccountState, ...AccountState[]];
  }

  set(consumer: number, accountId: string, { budgets }: Allowance, states: readonly AccountState[]): void {
    for (const [i, budget] of budgets.entries()) {
      this.#set(this.#numberOf(consumer, accountId, budget), budget.limits, states[i]!);
    }
  }

  /** The number of the account of a budget. */
  #numberOf(consumer: number, accountId: string, budget: Budget): number {
    const id = accountIdOfBudget(accountId, budget);
    if (id === accountId) return consumer;
    const known = this.#others.get(id);
    if (known !== undefined) return known;
    const number = this.#consumers + this.#others.size;
    this.#others.set(id, number);
    if (number >= this.#capacity) this.#widen();
    return number;
  }

  #widen(): void {
    this.#capacity = Math.max(2 * this.#capacity, 64);
    const widened = (column: Float64Array) => {
      const wider = new Float64Array(this.#capacity);
      wider.set(column);
      return wider;
    };
    this.#strikes = widened(this.#strikes);
    this.#strikesEndAtMs = widened(this.#strikesEndAtMs);
    this.#banNumber = widened(this.#banNumber);
    this.#banUntilMs = widened(this.#banUntilMs);
    const windows = new Uint8Array(this.#capacity);
    windows.set(this.#banWindow);
    this.#banWindow = windows;
    for (const columns of Object.values(this.#windows)) {
      columns.used = widened(columns.used);
      columns.endsAtMs = widened(columns.endsAtMs);
    }
  }

  #get(account: number, limits: readonly WindowLimit[]): AccountState {
    const windows: Partial<Record<WindowName, WindowCount>> = {};
    for (const { window } of limits) {
      const column = this.#windows[window];
      const endsAtMs = column?.endsAtMs[account] ?? 0;
      if (endsAtMs === 0) continue;
      const slices = column!.slices.get(account);
      windows[window] = { used: column!.used[account]!, endsAtMs, ...(slices === undefined ? {} : { slices }) };
    }
    const count = this.#strikes[account]!;
    const strikes = count === 0 ? undefined : { count, endsAtMs: this.#strikesEndAtMs[account]! };
    return { windows, strikes, ban: this.#banOf(account) };
  }

  #banOf(account: number): Ban | undefined {
    const number = this.#banNumber[account]!;
    if (number === 0) return undefined;
    const ban = { number, untilMs: this.#banUntilMs[account]!, window: WINDOWS[this.#banWindow[account]!]! };
    const budget = this.#banBudgets.get(account);
    return budget === undefined ? ban : { ...ban, budget };
  }

  #set(account: number, limits: readonly WindowLimit[], { windows, strikes, ban }: AccountState): void {
    for (const { window } of limits) {
      this.#windows[window] ??= {
        used: new Float64Array(this.#capacity),
        endsAtMs: new Float64Array(this.#capacity),
        slices: new Map(),
      };
      const open = windows[window];
      if (open?.slices === undefined) this.#windows[window].slices.delete(account);
      else this.#windows[window].slices.set(account, open.slices);
      this.#windows[window].used[account] = open?.used ?? 0;
      this.#windows[window].endsAtMs[account] = open?.endsAtMs ?? 0;
    }
    this.#strikes[account] = strikes?.count ?? 0;
    this.#strikesEndAtMs[account] = strikes?.endsAtMs ?? 0;
    this.#banNumber[account] = ban?.number ?? 0;
    this.#banUntilMs[account] = ban?.untilMs ?? 0;
    if (ban !== undefined) this.#banWindow[account] = WINDOWS.indexOf(ban.window);
    if (ban?.budget === undefined) this.#banBudgets.delete(account);
    else this.#banBudgets.set(account, ban.budget);
  }
}

/** One window of all accounts. */
interface WindowColumns {
  used: Float64Array;
  endsAtMs: Float64Array;
  /** Of sliding windows. */
  readonly slices: Map<number, SliceCounts>;
}
