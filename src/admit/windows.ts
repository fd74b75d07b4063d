import { WINDOW_MS } from '../engine/counting.ts';
import type { Limit, TopUps } from '../engine/types.ts';
import type { TopUp } from '../model/account.ts';
import { type WindowForm, wholeForm } from '../model/plan.ts';
import type { LimitName, WindowName } from '../model/values.ts';
import { type Calendar, calendarOf } from './calendar.ts';

/** One window of an allowance that is counted: a `Limit` of the engine, whose instants are still to be taken from its calendar. */
export interface WindowLimit extends Omit<Limit, 'slices' | 'instants' | 'calendar' | 'topUp'> {
  /** Its name in an allowance, if it belongs to a budget with a name: `customer-minute`, `search-minute`. Left out: `window`. */
  readonly name?: LimitName;
  readonly slices?: number;
  readonly calendar?: Calendar;
}

/** The window with a limit. */
export function windowLimit(window: WindowName, limit: number, form?: WindowForm): WindowLimit {
  const { calendar, ...whole } = wholeForm(window, form);
  const counted = { window, lengthMs: WINDOW_MS[window], limit, ...whole };
  return calendar === undefined ? counted : { ...counted, calendar: calendarOf(calendar) };
}

/** The kind of a counted window, as plans.yaml gives it. */
export function formOf({ slices, calendar }: WindowLimit): WindowForm {
  return {
    ...(slices === undefined ? {} : { slices }),
    ...(calendar === undefined ? {} : { calendar: calendar.form }),
  };
}

/** The limit as the engine counts it at `nowMs`: with the end of the period of its calendar. */
export function limitAt(of: ToppedUpLimit, nowMs: number): Limit {
  const { window, lengthMs, limit, slices, topUp, calendar } = of;
  if (calendar === undefined) return of as ToppedUpLimit & { readonly calendar?: never };
  return { window, lengthMs, limit, slices, topUp, instants: [calendar.periodAt(nowMs).endsAtMs] };
}

/** A limit with what an operator has added to it at present. */
export interface ToppedUpLimit extends WindowLimit {
  readonly topUp?: TopUp;
}

/** The limits at `nowMs`: the same array if no top-up is in force. */
export function withTopUps(limits: readonly WindowLimit[], topUps: TopUps | undefined, nowMs: number) {
  if (topUps === undefined) return limits as readonly ToppedUpLimit[];
  return limits.map((one): ToppedUpLimit => {
    const topUp = topUps[one.window];
    if (topUp === undefined || nowMs >= topUp.untilMs) return one;
    return { ...one, limit: one.limit + topUp.amount, topUp };
  });
}
