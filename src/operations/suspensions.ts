import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Failure } from '../failure.ts';
import { isSuspended, type Suspension } from '../model/record.ts';
import { time } from '../model/values.ts';

// What operators ask of a suspension and see of it, for whatever can be suspended.

const MAX_REASON = 200;

const reasonRule = 'must be text or null';
export const reason = z
  .string(reasonRule)
  .nullable()
  .describe('For operators, one line of up to 200 characters. The caller never sees it.')
  .meta({ maxLength: MAX_REASON });

export const suspension = z
  .strictObject({
    since: time,
    until: time.nullable().describe('When it ends by itself; null: only when it is resumed.'),
    reason: z.string().nullable(),
  })
  .meta({ id: 'Suspension' });

/**
 * The suspension that an operator asks for. One that is in force gets the new end and reason, and keeps its beginning.
 * @param present that of the record
 * @throws Failure `refused` for an end in the past, and for a reason that is too long or has control characters
 */
export function suspensionOf(
  present: Suspension | undefined,
  { untilMs, reason }: { readonly untilMs: number | null; readonly reason: string | null },
  nowMs: number,
): Suspension {
  if (untilMs !== null && untilMs <= nowMs) {
    throw new Failure(
      'refused',
      'The time at which the suspension is to end has already passed; give one in the future.',
    );
  }
  insistOnReason(reason);
  const atMs = isSuspended(present, nowMs) ? present.atMs : nowMs;
  return { atMs, untilMs, ...(reason === null || reason === '' ? {} : { reason }) };
}

/** @throws Failure `refused` for a reason that is too long or has control characters */
export function insistOnReason(reason: string | null): void {
  if (reason === null || ([...reason].length <= MAX_REASON && isOneLine(reason))) return;
  throw new Failure(
    'refused',
    `The reason must be at most ${MAX_REASON} characters in one line, without control characters.`,
  );
}

/** The record of a key or a customer with the suspension that an operator asks for; the same object if nothing differs. */
export function withSuspension<T extends { readonly suspended?: Suspension }>(
  record: T,
  given: Parameters<typeof suspensionOf>[1],
  nowMs: number,
): T {
  const suspended = suspensionOf(record.suspended, given, nowMs);
  return isDeepStrictEqual(record.suspended, suspended) ? record : { ...record, suspended };
}

/** The record without its suspension; the same object if it has none. */
export function withoutSuspension<T extends { readonly suspended?: Suspension }>(record: T): Omit<T, 'suspended'> {
  const { suspended, ...rest } = record;
  return suspended === undefined ? record : rest;
}

function isOneLine(text: string): boolean {
  return text.isWellFormed() && !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text);
}

export function suspensionReport({ atMs, untilMs, reason }: Suspension): z.output<typeof suspension> {
  return {
    since: new Date(atMs).toISOString(),
    until: untilMs === null ? null : new Date(untilMs).toISOString(),
    reason: reason ?? null,
  };
}

/** A member of reports and recorded states; absent where nothing is suspended. */
export function suspendedMember(
  stored: Suspension | undefined,
): { readonly suspended: z.output<typeof suspension> } | Record<never, never> {
  return stored === undefined ? {} : { suspended: suspensionReport(stored) };
}
