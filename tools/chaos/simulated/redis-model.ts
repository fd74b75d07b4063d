import type { Calendar } from '../../../src/admit/calendar.ts';
import { type AccountState, decide, lift, type Outcome, stateAfter, UNSEEN } from '../../../src/admit/decide.ts';
import type { Allowance } from '../../../src/admit/plan.ts';
import {
  countIn,
  presentCount,
  WINDOW_MS,
  WINDOWS,
  type WindowCount,
  type WindowLimit,
  type WindowName,
} from '../../../src/admit/windows.ts';

/** What one script call has done to one consumer. */
export type Executed = ExecutedDecision | ExecutedAddition;

/** A part of a call of decide.lua. */
export interface ExecutedDecision {
  readonly kind: 'decision';
  readonly consumerId: string;
  readonly outcome: Outcome;
  /** The store had nothing of this consumer before. */
  readonly isFirst: boolean;
  readonly stored: AccountState;
}

/** A call of reconcile-usage.lua. */
export interface ExecutedAddition {
  readonly kind: 'addition';
  readonly consumerId: string;
  readonly nowMs: number;
  readonly windows: readonly AddedWindow[];
  readonly stored: AccountState;
}

export interface AddedWindow {
  readonly window: WindowName;
  readonly slices: number;
  readonly isCalendar: boolean;
  readonly spent: number;
  /** By the store's clock, Unix milliseconds. */
  readonly endsAtMs: number;
  /** False: the window had ended. */
  readonly isAdded: boolean;
}

/**
 * A model of Redis as the gateways use it: it takes the arguments of the scripts, decides with `decide`, which is the twin of
 * decide.lua, and gives their replies. test/tools/chaos/redis-model.test.ts compares it with a real Redis.
 */
export class RedisModel {
  readonly #nowMs: () => number;
  #accounts: ReadonlyMap<string, AccountState> = new Map();
  /** The accounts before each of the last writes, the oldest first. */
  #before: ReadonlyMap<string, AccountState>[] = [];

  /** @param nowMs the store's clock, whole Unix milliseconds */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** The stored state, with what has ended; undefined if there is none. */
  account(consumerId: string): AccountState | undefined {
    return this.#accounts.get(consumerId);
  }

  /** Undoes the last writes, as a restart or a failover does that loses them. */
  lose(writes: number): void {
    for (let i = 0; i < writes; i++) this.#accounts = this.#before.pop() ?? this.#accounts;
  }

  /** decide.lua. @returns the reply, and what was done */
  decide(consumerIds: readonly string[], [runs, ...rules]: readonly string[]): { reply: string; executed: Executed[] } {
    const nowMs = this.#nowMs();
    const allowances = rules.map((rule) => allowanceIn(numbersIn(rule), nowMs));
    if (allowances.includes(null)) return { reply: `${nowMs}`, executed: [] };
    const executed: Executed[] = [];
    const reply = [nowMs];
    const numbers = numbersIn(runs!);
    let next = 0;
    for (let at = 0; at < numbers.length; at += 4) {
      const [rule, n, cost, keys] = numbers.slice(at, at + 4) as [number, number, number, number];
      const allowance = allowances[rule - 2]!;
      for (let i = 0; i < keys; i++) {
        const consumerId = consumerIds[next++]!;
        const known = this.#accounts.get(consumerId);
        const before = known ?? UNSEEN;
        const outcome = decide(before, allowance, nowMs, cost, n);
        const stored = n > 0 ? stateAfter(before, outcome, allowance) : before;
        if (n > 0) this.#write(consumerId, stored);
        executed.push({ kind: 'decision', consumerId, outcome, isFirst: known === undefined, stored });
        const told = numbersOf(outcome, allowance);
        reply.push(told.length, ...told);
      }
    }
    return { reply: reply.join(' '), executed };
  }

  /** reconcile-usage.lua. @returns the reply, and what was done */
  reconcile(consumerId: string, args: readonly number[]): { reply: number[]; executed: Executed[] } {
    const nowMs = this.#nowMs();
    const [ownNowMs, size, ...rest] = args as [number, number, ...number[]];
    const numbers = rest.slice(0, 5 * size);
    const shiftMs = ownNowMs > 0 ? nowMs - ownNowMs : 0;
    const before = this.#accounts.get(consumerId) ?? UNSEEN;
    const windows: Partial<Record<WindowName, WindowCount>> = { ...before.windows };
    const added: AddedWindow[] = [];
    for (let at = 0; at < numbers.length; at += 5) {
      const [index, slices, isCalendar, spent, ends] = numbers.slice(at, at + 5) as [
        number,
        number,
        number,
        number,
        number,
      ];
      const window = WINDOWS[index - 1]!;
      const isFixed = slices === 0 && isCalendar === 0;
      const latestMs = isFixed ? nowMs + WINDOW_MS[window] : Number.POSITIVE_INFINITY;
      const endsAtMs = Math.min(ends + shiftMs, latestMs);
      const isAdded = endsAtMs > nowMs;
      if (isAdded) {
        const limit = windowOf(window, 0, slices, () => ({ startsAtMs: nowMs, endsAtMs }));
        windows[window] = countIn(presentCount(windows[window], limit, nowMs).count, limit, nowMs, spent);
      }
      added.push({ window, slices, isCalendar: isCalendar === 1, spent, endsAtMs, isAdded });
    }
    const stored = { ...before, windows };
    if (added.some(({ isAdded }) => isAdded)) this.#write(consumerId, stored);
    return {
      reply: added.map(({ isAdded }) => (isAdded ? 1 : 0)),
      executed: [{ kind: 'addition', consumerId, nowMs, windows: added, stored }],
    };
  }

  /** lift.lua. @returns whether a ban was in force */
  lift(consumerId: string): boolean {
    const before = this.#accounts.get(consumerId);
    if (before === undefined) return false;
    const after = lift(before, this.#nowMs());
    if (after !== before) this.#write(consumerId, after);
    return after !== before;
  }

  #write(consumerId: string, state: AccountState): void {
    this.#before.push(this.#accounts);
    if (this.#before.length > MAX_LOST) this.#before.shift();
    this.#accounts = new Map(this.#accounts).set(consumerId, state);
  }
}

/** The most writes that a replica may lag behind. */
const MAX_LOST = 16;

function numbersIn(text: string): number[] {
  return text.trim().split(/\s+/).map(Number);
}

/** The allowance that a rule describes; null if the instants of a calendar window do not include the present. */
function allowanceIn(numbers: readonly number[], nowMs: number): Allowance | null {
  // The first number says whether a history is kept: simulated gateways keep none.
  const [, after, withinMs, firstMs, factor, longestMs, forgetMs] = numbers as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const limits: WindowLimit[] = [];
  for (let at = 7; at < numbers.length; ) {
    const [code, limit] = numbers.slice(at, at + 2) as [number, number];
    const [size, slices] = [Math.floor(code / 1_000), Math.floor(code / 10) % 100];
    const instants = numbers.slice(at + 2, at + 2 + size);
    at += 2 + size;
    const window = WINDOWS[(code % 10) - 1]!;
    if (size === 0) {
      limits.push(windowOf(window, limit, slices));
      continue;
    }
    const next = instants.findIndex((instant) => nowMs < instant);
    if (next <= 0) return null;
    limits.push(
      windowOf(window, limit, slices, () => ({ startsAtMs: instants[next - 1]!, endsAtMs: instants[next]! })),
    );
  }
  const bans = after === 0 ? null : { after, withinMs, firstMs, factor, longestMs, forgetMs };
  return { plan: '', limits, unlimited: [], bans };
}

function windowOf(window: WindowName, limit: number, slices: number, periodAt?: Calendar['periodAt']): WindowLimit {
  return {
    window,
    lengthMs: WINDOW_MS[window],
    limit,
    ...(slices === 0 ? {} : { slices }),
    ...(periodAt === undefined ? {} : { calendar: { periodAt } as Calendar }),
  };
}

/** The numbers of decide.lua's reply about one consumer. */
function numbersOf({ admitted, bannedFrom, imposesBan, state }: Outcome, { limits }: Allowance): number[] {
  const numbers = [admitted];
  for (const { window, slices } of limits) {
    const count = state.windows[window];
    if (slices === undefined) numbers.push(count?.used ?? 0, count?.endsAtMs ?? 0);
    else if (count?.slices === undefined) numbers.push(0);
    else numbers.push(count.slices.counts.length, count.slices.startsAtMs, count.slices.first, ...count.slices.counts);
  }
  const { strikes, ban } = state;
  if (strikes.count > 0 || ban !== null) {
    numbers.push(bannedFrom, imposesBan ? 1 : 0, 0, strikes.count, strikes.endsAtMs, ban?.number ?? 0);
    numbers.push(ban?.untilMs ?? 0, ban === null ? 0 : WINDOWS.indexOf(ban.window) + 1);
  }
  return numbers;
}
