import { z } from 'zod';

/** A key, or another holder of requests, that an operator has suspended: its requests are refused until it is resumed. */
export interface Suspension {
  /** When it began, Unix milliseconds. */
  readonly atMs: number;
  /** When it ends by itself, Unix milliseconds; null: only when an operator resumes it. */
  readonly untilMs: number | null;
  /** For operators; the caller never sees it. Absent if none was given. */
  readonly reason?: string;
}

/** How the store holds a suspension. Loose: fields that a later version has added survive a change by this version. */
export const STORED_SUSPENSION = z.looseObject({
  atMs: z.number().int(),
  untilMs: z.number().int().nullable(),
  reason: z.string().optional(),
});

/**
 * Whether a suspension is in force. One whose end has passed stays in the record until the next change of it, and has no effect.
 * @param suspension undefined, as in a record without one: not suspended
 * @param nowMs Unix milliseconds
 */
export function isSuspended(suspension: Suspension | undefined, nowMs: number): suspension is Suspension {
  return suspension !== undefined && (suspension.untilMs === null || nowMs < suspension.untilMs);
}

/** Of two suspensions the one that ends last; undefined if neither record has one. */
export function longerOf(one: Suspension | undefined, other: Suspension | undefined): Suspension | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return (one.untilMs ?? Infinity) >= (other.untilMs ?? Infinity) ? one : other;
}
