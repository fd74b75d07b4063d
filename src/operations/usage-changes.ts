import { z } from 'zod';
import type { Durability } from '../admit/ledger.ts';
import type { Allowance } from '../admit/plan.ts';
import type { UsageReport } from '../admit/usage-report.ts';
import { isLimitName, type LimitName, type WindowLimit } from '../admit/windows.ts';
import { Failure } from '../failure.ts';
import { isCustomerId } from '../identify/customer-store.ts';
import { count, type DeepReadonly, limitName, standingBan, unixSeconds } from './values.ts';

// Top-ups and resets of what a key has counted, and which quota is spent when a ban is lifted.

/** A top-up as an operator asks for it. */
export interface NewTopUp {
  /** The name of the limit: `minute`, or of a group of routes or a unit `search-minute`. */
  readonly window: LimitName;
  /** Whole number from 1. */
  readonly amount: number;
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
    until: z.int().nullable().describe('Unix seconds; null if the top-up has ended.'),
  })
  .meta({
    id: 'TopUp',
    examples: [{ id: 'key_UxYtRgTgI9u8kkw8', window: 'day', amount: 500, limit: 1500, until: 1795322533 }],
  });
export type TopUpReport = Readonly<z.output<typeof topUpReport>>;

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
  { plan, unlimited }: Pick<Allowance, 'plan' | 'unlimited'>,
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
