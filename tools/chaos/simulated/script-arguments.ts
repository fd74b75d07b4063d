import { type Allowance, type Budget, charging } from '../../../src/admit/allowance.ts';
import type { Calendar } from '../../../src/admit/calendar.ts';
import type { SettledWindow } from '../../../src/admit/decision.ts';
import type { WindowLimit } from '../../../src/admit/windows.ts';
import { WINDOW_MS } from '../../../src/engine/counting.ts';
import type { Amounts, LeaseTerms, Limit } from '../../../src/engine/types.ts';
import type { WindowName } from '../../../src/model/values.ts';
import { ACCOUNT_PREFIX, accountIdIn, keyspace } from '../../../src/stores/redis/keyspace.ts';
import type { StoredRule } from '../../../src/stores/redis/shell/decision-script.ts';
import type { StoredUsage } from '../../../src/stores/redis/shell/reconcile-script.ts';
import type { StoredSettlement } from '../../../src/stores/redis/shell/settlement-script.ts';

/*
 * The arguments of the scripts, as shell/ describes them, in words.
 */

/** What a call of the decision script asks about one consumer. */
export interface DecisionPart {
  readonly rule: StoredRule;
  readonly n: number;
  readonly cost: number;
  /** In the order of the budgets. */
  readonly accountIds: readonly string[];
  /** The accounts whose histories are kept. */
  readonly historyIds: readonly string[];
  /** How many requests the process has in flight in each account; null if the rule bounds none. */
  readonly inFlight: readonly number[] | null;
  /** What each request takes of units; absent if the rule has none. */
  readonly amounts?: Amounts;
  /** What the gateway says about leases; absent if nothing. */
  readonly leaseTerms?: LeaseTerms;
}

/** @param names the KEYS of the script @param texts its ARGV */
export function decisionParts(names: readonly string[], [runs, ...texts]: readonly string[]): readonly DecisionPart[] {
  const rules: readonly StoredRule[] = texts.filter((text) => !text.startsWith('@')).map((text) => JSON.parse(text));
  const numbers: readonly number[] = JSON.parse(runs!);
  const parts: DecisionPart[] = [];
  let next = 0;
  for (let at = 0; at < numbers.length; ) {
    const [ruleNumber, n, cost, many] = numbers.slice(at, at + 4) as [number, number, number, number];
    at += 4;
    const rule = rules[ruleNumber - 2]!;
    const consumers = Math.max(many, 1);
    const terms = many > 0 ? null : leaseTermsIn(numbers.slice(at), rule);
    at += terms?.size ?? 0;
    const ofLeases = terms === null ? {} : { leaseTerms: terms.leaseTerms };
    const inFlight = rule.isBounded ? numbers.slice(at, at + rule.budgets.length) : null;
    at += inFlight?.length ?? 0;
    const size = rule.units.length;
    const taken = numbers.slice(at, at + size);
    at += size;
    const ofUnits =
      size === 0 ? {} : { amounts: Object.fromEntries(taken.map((amount, i) => [rule.units[i]!, amount])) };
    const kept = rule.histories * (1 + size);
    for (let i = 0; i < consumers; i++) {
      const historiesAt = next + rule.budgets.length;
      const accountIds = names.slice(next, historiesAt).map(accountIn);
      next = historiesAt + kept;
      const historyIds = names.slice(historiesAt, next).map(historyIn);
      parts.push({ rule, n, cost, accountIds, historyIds, inFlight, ...ofUnits, ...ofLeases });
    }
  }
  return parts;
}

/** What a gateway says about leases. @returns that, and how many numbers it takes */
function leaseTermsIn(numbers: readonly number[], { budgets }: StoredRule): { leaseTerms: LeaseTerms; size: number } {
  const [units, id, forMs, isFinal, returnedId, unused] = numbers as [number, number, number, number, number, number];
  let size = 6;
  const places = budgets.map(({ limits }) => {
    const from = size;
    if (returnedId > 0 && unused > 0) size += limits.length;
    return numbers.slice(from, size);
  });
  const leaseTerms = {
    ...(units === 0 ? {} : { borrows: { id, units, forMs } }),
    ...(returnedId === 0 ? {} : { returned: { id: returnedId, unused, places } }),
    ...(isFinal === 1 ? { isFinal: true as const } : {}),
  };
  return { leaseTerms, size };
}

/** The allowance of a rule; null if the instants of a calendar window do not include the present. */
export function allowanceIn(rule: StoredRule, nowMs: number): Allowance | null {
  const budgets: Budget[] = [];
  for (const { name, unit, inFlight, limits: stored } of rule.budgets) {
    const limits = limitsIn(stored, nowMs);
    if (limits === null) return null;
    const bound = inFlight === undefined ? {} : { inFlight };
    const ofUnit = unit === undefined ? {} : { unit };
    const parts = { name, prefix: '', scope: 'key', group: null, isWhole: unit === undefined } as const;
    budgets.push({ ...parts, limits, unlimited: [], ...bound, ...ofUnit });
  }
  return charging({ plan: '', bans: rule.bans ?? null, bansIn: rule.bansIn as 0 | 1 }, budgets);
}

/** The period of some instants that includes the present; null if none does. */
function periodIn(instants: readonly number[], nowMs: number): Calendar['periodAt'] | null {
  const next = instants.findIndex((instant) => nowMs < instant);
  if (next <= 0) return null;
  return () => ({ startsAtMs: instants[next - 1]!, endsAtMs: instants[next]! });
}

/** Usage that the script for late usage adds to one account. */
export interface Addition {
  /** The present by the clock of the gateway; 0 if the ends are by the store's clock. */
  readonly ownNowMs: number;
  readonly windows: readonly {
    readonly window: WindowName;
    readonly slices: number;
    readonly isCalendar: boolean;
    readonly spent: number;
    readonly endsAtMs: number;
  }[];
  /** What is added to the history, by hour since 1970. */
  readonly hours: readonly { readonly hour: number; readonly cost: number }[];
}

/** @param text the first ARGV of the script */
export function additionIn(text: string): Addition {
  const { ownNowMs, windows, hours } = JSON.parse(text) as StoredUsage;
  return {
    ownNowMs,
    windows: windows.map((one) => ({ ...one, slices: one.slices ?? 0 })),
    hours: hours.map(([hour, cost]) => ({ hour, cost })),
  };
}

/** A call of the script that settles. */
export interface SettlementCall {
  readonly accountId: string;
  readonly historyIds: readonly string[];
  readonly isRecorded: boolean;
  readonly delta: number;
  /** The windows at an instant, each with where the request was counted; null if their periods do not include that. */
  windowsAt(nowMs: number): readonly SettledWindow[] | null;
}

/** @param names the KEYS of the script @param text its first ARGV */
export function settlementIn([account, ...histories]: readonly string[], text: string): SettlementCall {
  const { delta, isRecorded, limits, places } = JSON.parse(text) as StoredSettlement;
  return {
    accountId: accountIn(account!),
    historyIds: histories.slice(0, isRecorded ? (histories.length - 1) / 2 : undefined).map(historyIn),
    isRecorded,
    delta,
    windowsAt: (nowMs) => limitsIn(limits, nowMs)?.map((of, i) => ({ of, placeMs: places[i]! })) ?? null,
  };
}

/** A limit in the form that the scripts know. */
export function windowOf(
  window: WindowName,
  limit: number,
  slices: number,
  periodAt?: Calendar['periodAt'],
): WindowLimit {
  return {
    window,
    lengthMs: WINDOW_MS[window],
    limit,
    ...(slices === 0 ? {} : { slices }),
    ...(periodAt === undefined ? {} : { calendar: { periodAt } as Calendar }),
  };
}

/** The account whose hash has this name. */
export function accountIn(name: string): string {
  return accountIdIn(name, ACCOUNT_PREFIX);
}

function historyIn(name: string): string {
  return accountIdIn(name, HISTORY_PREFIX);
}

const HISTORY_PREFIX = keyspace.history('').slice(0, -2);

/** The limits at an instant; null if the instants of a calendar window do not include it. */
function limitsIn(stored: readonly Limit[], nowMs: number): WindowLimit[] | null {
  const limits: WindowLimit[] = [];
  for (const { window, limit, slices = 0, instants } of stored) {
    const periodAt = instants === undefined ? undefined : periodIn(instants, nowMs);
    if (periodAt === null) return null;
    limits.push(windowOf(window, limit, slices, periodAt));
  }
  return limits;
}
