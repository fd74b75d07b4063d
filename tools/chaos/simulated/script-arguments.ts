import type { Calendar } from '../../../src/admit/calendar.ts';
import type { SettledWindow } from '../../../src/admit/decision.ts';
import { type Allowance, type Budget, charging } from '../../../src/admit/plan.ts';
import type { WindowLimit } from '../../../src/admit/windows.ts';
import { WINDOW_MS } from '../../../src/engine/counting.ts';
import type { Amounts, LeaseTerms } from '../../../src/engine/types.ts';
import type { BanRule } from '../../../src/model/plan.ts';
import { WINDOWS, type WindowName } from '../../../src/model/values.ts';
import { ACCOUNT_PREFIX, accountIdIn, keyspace } from '../../../src/stores/redis/keyspace.ts';

/*
 * The arguments of the scripts, as decide.lua and reconcile-usage.lua describe them, in words.
 */

/** A rule of decide.lua: an allowance whose calendar windows are instants. */
export interface Rule {
  readonly bans: BanRule | null;
  /** How many histories are kept: of the consumer, and of its customer. */
  readonly histories: number;
  /** The name of the process, if requests in flight are bounded. */
  readonly holder: string;
  /** The account that has the strikes and bans. */
  readonly bansIn: 0 | 1;
  readonly isBounded: boolean;
  readonly budgets: readonly RuleBudget[];
}

interface RuleBudget {
  readonly name: string;
  /** The number of its unit; 0 if it counts requests. */
  readonly unit: number;
  /** How many requests may be in flight; -1 for any number. */
  readonly inFlight: number;
  /** The numbers of its windows. */
  readonly windows: readonly number[];
}

/** What a call of decide.lua asks about one consumer. */
export interface DecisionPart {
  readonly rule: Rule;
  readonly n: number;
  readonly cost: number;
  /** In the order of the budgets. */
  readonly accountIds: readonly string[];
  /** The accounts whose histories are kept. */
  readonly historyIds: readonly string[];
  /** How many requests the process has in flight in each account; null if the rule bounds none. */
  readonly held: readonly number[] | null;
  /** What each request takes of units, by `unitName`; absent if the rule has none. */
  readonly amounts?: Amounts;
  /** What the gateway says about leases; absent if nothing. */
  readonly leaseTerms?: LeaseTerms;
}

/** @param names the KEYS of the script @param texts its ARGV */
export function decisionParts(names: readonly string[], [runs, ...texts]: readonly string[]): readonly DecisionPart[] {
  const rules = texts.map(ruleIn);
  const numbers = numbersIn(runs!);
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
    const held = rule.isBounded ? numbers.slice(at, at + rule.budgets.length) : null;
    at += held?.length ?? 0;
    const size = Math.max(...rule.budgets.map(({ unit }) => unit));
    const taken = numbers.slice(at, at + size);
    at += size;
    const ofUnits =
      size === 0 ? {} : { amounts: Object.fromEntries(taken.map((amount, i) => [unitName(i + 1), amount])) };
    const kept = rule.histories * (1 + size);
    for (let i = 0; i < consumers; i++) {
      const historiesAt = next + rule.budgets.length;
      const accountIds = names.slice(next, historiesAt).map(accountIn);
      next = historiesAt + kept;
      const historyIds = names.slice(historiesAt, next).map(historyIn);
      parts.push({ rule, n, cost, accountIds, historyIds, held, ...ofUnits, ...ofLeases });
    }
  }
  return parts;
}

/** What a gateway says about leases. @returns that, and how many numbers it takes */
function leaseTermsIn(numbers: readonly number[], { budgets }: Rule): { leaseTerms: LeaseTerms; size: number } {
  const [units, id, isFinal, returnedId, unused] = numbers as [number, number, number, number, number];
  let size = 5;
  const places = budgets.map(({ windows }) => {
    const from = size;
    if (returnedId > 0 && unused > 0) size += windowsIn(windows);
    return numbers.slice(from, size);
  });
  const leaseTerms = {
    ...(units === 0 ? {} : { borrows: { id, units } }),
    ...(returnedId === 0 ? {} : { returned: { id: returnedId, unused, places } }),
    ...(isFinal === 1 ? { isFinal: true as const } : {}),
  };
  return { leaseTerms, size };
}

/** How many windows these numbers of a rule describe. */
function windowsIn(numbers: readonly number[]): number {
  let count = 0;
  for (let at = 0; at < numbers.length; at += 2 + Math.floor(numbers[at]! / 1_000)) count++;
  return count;
}

function unitName(number: number): string {
  return `unit-${number}`;
}

/** The allowance of a rule; null if the instants of a calendar window do not include the present. */
export function allowanceIn(rule: Rule, nowMs: number): Allowance | null {
  const budgets: Budget[] = [];
  for (const { name, unit, inFlight, windows } of rule.budgets) {
    const limits = limitsIn(windows, nowMs);
    if (limits === null) return null;
    const bound = inFlight < 0 ? {} : { inFlight };
    const ofUnit = unit === 0 ? {} : { unit: unitName(unit) };
    const parts = { name, prefix: '', scope: 'key', group: null, isWhole: unit === 0 } as const;
    budgets.push({ ...parts, limits, unlimited: [], ...bound, ...ofUnit });
  }
  return charging({ plan: '', bans: rule.bans, bansIn: rule.bansIn }, budgets);
}

/** Usage that reconcile-usage.lua adds to one account. */
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

/** @param args the ARGV of the script */
export function additionIn([ownNowMs, size, ...rest]: readonly number[]): Addition {
  const numbers = rest.slice(0, 5 * size!);
  const windows = chunks(numbers, 5).map(([index, slices, isCalendar, spent, endsAtMs]) => {
    const window = WINDOWS[index! - 1]!;
    return { window, slices: slices!, isCalendar: isCalendar === 1, spent: spent!, endsAtMs: endsAtMs! };
  });
  const hours = chunks(rest.slice(5 * size!), 2).map(([hour, cost]) => ({ hour: hour!, cost: cost! }));
  return { ownNowMs: ownNowMs!, windows, hours };
}

/** A call of settle.lua. */
export interface SettlementCall {
  readonly accountId: string;
  readonly historyIds: readonly string[];
  readonly isRecorded: boolean;
  readonly delta: number;
  /** The windows at an instant, each with where the request was counted; null if their periods do not include that. */
  windowsAt(nowMs: number): readonly SettledWindow[] | null;
}

/** @param names the KEYS of the script @param args its ARGV */
export function settlementIn([account, ...histories]: readonly string[], args: readonly number[]): SettlementCall {
  const [delta, , recorded, ...numbers] = args as [number, number, number, ...number[]];
  const isRecorded = recorded === 1;
  return {
    accountId: accountIn(account!),
    historyIds: histories.slice(0, isRecorded ? (histories.length - 1) / 2 : undefined).map(historyIn),
    isRecorded,
    delta,
    // Where a rule has its limit, a settlement has the place.
    windowsAt: (nowMs) => limitsIn(numbers, nowMs)?.map((of) => ({ of, placeMs: of.limit })) ?? null,
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

function ruleIn(text: string): Rule {
  const words = text.split(' ');
  const names = words.filter((word) => word.startsWith('=')).map((word) => word.slice(1));
  const numbers = words.slice(0, words.length - names.length).map(Number);
  const [kept, after, withinMs, firstMs, factor, longestMs, forgetMs, bansIn] = numbers.splice(0, 8) as RuleNumbers;
  const budgets: RuleBudget[] = [];
  while (numbers.length > 0) {
    const [unit, inFlight, size] = numbers.splice(0, 3) as [number, number, number];
    const name = budgets.length === 0 ? '' : names.shift()!;
    budgets.push({ name, unit, inFlight, windows: numbers.splice(0, size) });
  }
  return {
    bans: after === 0 ? null : { after, withinMs, firstMs, factor, longestMs, forgetMs },
    histories: kept % 10,
    holder: names[0] ?? '',
    bansIn,
    isBounded: budgets.some(({ inFlight }) => inFlight >= 0),
    budgets,
  };
}

type RuleNumbers = [number, number, number, number, number, number, number, 0 | 1];

function limitsIn(numbers: readonly number[], nowMs: number): WindowLimit[] | null {
  const limits: WindowLimit[] = [];
  for (let at = 0; at < numbers.length; ) {
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
  return limits;
}

function chunks(numbers: readonly number[], size: number): number[][] {
  return Array.from({ length: Math.floor(numbers.length / size) }, (_, i) => numbers.slice(i * size, (i + 1) * size));
}

function numbersIn(text: string): number[] {
  return text.trim().split(/\s+/).map(Number);
}
