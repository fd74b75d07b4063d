import { z } from 'zod';
import { refusePastEnd, type TopUpTerms } from '../admit/account-changes.ts';
import type { Allowance } from '../admit/allowance.ts';
import { calendarOf } from '../admit/calendar.ts';
import type { Durability } from '../admit/ledger.ts';
import type { UsageReport } from '../admit/usage-report.ts';
import type { WindowLimit } from '../admit/windows.ts';
import { momentOf } from '../config/setting-values.ts';
import { WINDOW_MS } from '../engine/counting.ts';
import { Failure } from '../failure.ts';
import { isCustomerId } from '../model/record.ts';
import { count, type DeepReadonly, isLimitName, type LimitName, limitName } from '../model/values.ts';
import { standingBan, topUpId, unixSeconds } from './operation-values.ts';
import { insistOnReason } from './suspensions.ts';

// Top-ups and resets of what a key has counted, and which quota is spent when a ban is lifted.

/** A top-up as an operator asks for it. */
export interface NewTopUp {
  /** The name of the limit: `minute`, or of a group of routes or a unit `search-minute`. */
  readonly window: LimitName;
  /** Whole number from 1. */
  readonly amount: number;
  /** `window` (left out: the same), `today`, or a date or RFC 3339 time. */
  readonly until?: string | undefined;
  /** The time zone of `today`. */
  readonly zone?: string | undefined;
  readonly reason?: string | null | undefined;
}

/** A longer top-up is a change of the limit. */
const MAX_TOP_UP_DAYS = 366;

/**
 * What an operator says of a top-up, for the store.
 * @throws Failure `refused` for an end that has passed or is too far away, a zone without `today`, and a reason that is no short line
 */
export function termsOf(
  { until = 'window', zone, reason = null }: NewTopUp,
  of: WindowLimit,
  nowMs: number,
): TopUpTerms {
  if (zone !== undefined && until !== 'today') throw new Failure('refused', 'zone is for until "today"; leave it out.');
  insistOnReason(reason);
  const noted = reason === null || reason === '' ? {} : { reason };
  if (until === 'window') return noted;
  const untilMs = until === 'today' ? endOfToday(zone ?? of.calendar?.form.zone ?? 'UTC', nowMs) : endFrom(until)!;
  if (untilMs <= nowMs) refusePastEnd();
  if (untilMs <= nowMs + MAX_TOP_UP_DAYS * WINDOW_MS.day) return { ...noted, untilMs };
  throw new Failure(
    'refused',
    `A top-up lasts at most ${MAX_TOP_UP_DAYS} days. To raise a limit for longer, change the limit itself.`,
  );
}

/**
 * Reads the end of a top-up: a date (midnight UTC), or an RFC 3339 time, whose seconds may be left out.
 * @returns Unix milliseconds; null for any other text
 */
export function endFrom(text: string): number | null {
  return momentOf(text.replace(/(?<=T\d\d:\d\d)(?=Z|[+-])/, ':00'));
}

function endOfToday(zone: string, nowMs: number): number {
  return calendarOf({ unit: 'day', zone, anchor: 1 }).periodAt(nowMs).endsAtMs;
}

/** The result of a change that is made once for each id. */
export type UsageChange<T> =
  | MadeUsageChange<T>
  /** Another change was made under this id. */
  | { readonly kind: 'reused' };

export interface MadeUsageChange<T = unknown> {
  readonly kind: 'made' | 'repeated';
  readonly durability: Durability;
  readonly report: T;
  readonly states: States;
}

/** The states for the record of changes; null if nothing was changed. */
interface States {
  readonly before: object | null;
  readonly after: object | null;
}

/** A top-up as commands and the admin API show it. */
export const topUpReport = z
  .strictObject({
    id: z.string(),
    window: limitName,
    amount: count.min(1),
    limit: count.describe('The limit of the window with all that was added to it.'),
    until: z.int().nullable().describe('Unix seconds; null if the top-up has ended or was undone.'),
    topUp: topUpId,
    reason: z.string().nullable(),
  })
  .meta({
    id: 'TopUp',
    examples: [
      {
        id: 'key_UxYtRgTgI9u8kkw8',
        window: 'day',
        amount: 500,
        limit: 1500,
        until: 1795322533,
        topUp: 'top_5C0Yl1Qf8bW2eXaZ',
        reason: 'TICKET-12',
      },
    ],
  });
export type TopUpReport = Readonly<z.output<typeof topUpReport>>;

/** A top-up that was undone, as commands and the admin API show it. */
export const undoneReport = z
  .strictObject({
    id: z.string(),
    window: limitName,
    amount: count.min(1).describe('What was taken back.'),
    limit: count.describe('The limit of the window with what is still added to it.'),
    until: z.int().nullable().describe('When the top-ups that stay end, Unix seconds; null if none stays.'),
  })
  .meta({
    id: 'UndoneTopUp',
    examples: [{ id: 'key_UxYtRgTgI9u8kkw8', window: 'day', amount: 500, limit: 1000, until: null }],
  });
export type UndoneTopUpReport = Readonly<z.output<typeof undoneReport>>;

/** A reset as commands and the admin API show it. */
export const resetReport = z
  .strictObject({
    id: z.string(),
    windows: z
      .array(limitName)
      .describe('The windows that were reset, shortest first; those of groups of routes and of units come last.'),
    ban: standingBan,
  })
  .meta({ id: 'Reset', examples: [{ id: 'key_UxYtRgTgI9u8kkw8', windows: ['minute', 'day'], ban: null }] });
export type ResetReport = DeepReadonly<z.output<typeof resetReport>>;

export const spentReport = z
  .array(z.strictObject({ window: limitName, resetAt: unixSeconds }))
  .nullable()
  .describe(
    'The windows with nothing left, which still refuse. Null if they are not known, as of a caller with tokens.',
  )
  .meta({ id: 'Spent' });
/** A window with nothing left. */
export type SpentWindow = Readonly<NonNullable<z.output<typeof spentReport>>[number]>;

/** The windows that leave no room for another request, in the order of the report. */
export function spentWindows({ windows }: UsageReport): readonly SpentWindow[] {
  return Object.entries(windows).flatMap(([window, { remaining, resetAt }]) =>
    remaining === 0 && isLimitName(window) ? [{ window, resetAt }] : [],
  );
}

/** A limit that is counted for an id. */
export interface CountedLimit {
  readonly name: LimitName;
  readonly of: WindowLimit;
  readonly accountId: string;
  /** The customer to whom it belongs; null for a limit of the id itself. */
  readonly customerId: string | null;
}

/**
 * The limits that an operator names, of those that are counted for a key or a customer.
 * @param named null: all but those that belong to the customer of a key
 * @throws Failure `refused` if a limit is not counted, or belongs to the customer of the key
 */
export function countedLimits(
  id: string,
  limits: readonly CountedLimit[],
  { plan, budgets: [{ unlimited }] }: Pick<Allowance, 'plan' | 'budgets'>,
  named: readonly LimitName[] | null,
) {
  const own = limits.filter(({ customerId }) => customerId === null);
  // Callers know the limits of a customer with this word in front, so operators read them that way.
  const isOwn = (name: string) => own.some((limit) => limit.name === name);
  const short = (name: LimitName) => name.replace(/^customer-/, '') as LimitName;
  const given =
    named?.map((name) => (isCustomerId(id) && !isOwn(name) && isOwn(short(name)) ? short(name) : name)) ?? null;
  const who = `${isCustomerId(id) ? 'Customer' : 'Key'} ${id}`;
  const list = own.length === 0 ? 'none' : own.map(({ name }) => name).join(', ');
  for (const name of given ?? []) {
    const limit = limits.find((one) => one.name === name);
    if (limit?.customerId === null) continue;
    if (limit !== undefined) {
      const message = `The limit ${name} is that of customer ${limit.customerId}, which all its keys share. Give the id of the customer and ${name.replace(/^customer-/, '')}.`;
      throw new Failure('refused', message);
    }
    const why = unlimited.some(({ window }) => window === name)
      ? `has no limit for the ${name}`
      : `does not count the ${name}`;
    throw new Failure('refused', `${who} ${why} (plan ${plan}). The windows that it counts: ${list}.`);
  }
  if (own.length === 0) throw new Failure('refused', `${who} counts no window (plan ${plan}).`);
  return own.filter(({ name }) => given === null || given.includes(name)) as [CountedLimit, ...CountedLimit[]];
}
