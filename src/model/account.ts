import { z } from 'zod';
import { count, type DeepReadonly, LAST_MS, WINDOWS } from './values.ts';

/*
 * What is counted for one account. The embedded store keeps it as JSON; how Redis does is in src/stores/redis/shell/stored-account.ts,
 * rare-fields.ts and top-up-fields.ts.
 */

/** Unix milliseconds by the store's clock. */
export const moment = z.number().min(0).max(LAST_MS);
const window = z.enum(WINDOWS);
const added = z.int().min(1);

/** The counts of a sliding window, in the slices of a grid. */
export type SliceCounts = DeepReadonly<z.output<typeof slices>>;
const slices = z
  .object({
    /** Slices per length. */
    per: z.int().min(1).max(30),
    /** The beginning of slice 0. Slice `i` begins `floor(i * length / per)` after it. */
    startsAtMs: moment,
    /** The number of the first slice in `counts`, from 0 to `per - 1`. */
    first: count,
    /** One count for each slice, the oldest first. The first and the last are not 0. */
    counts: z.array(count).min(1).max(31),
  })
  .refine(({ per, first }) => first < per);

/** What has been counted in an open window. */
export type WindowCount = DeepReadonly<z.output<typeof windowCount>>;
const windowCount = z.object({
  used: count,
  /** When no part of it counts any more. */
  endsAtMs: moment,
  /** The parts of `used`, if it was counted as a sliding window. */
  slices: slices.exactOptional(),
});

/** The last ban, in force until `untilMs`. It is kept after that, because the next one has `number + 1`. */
export type Ban = DeepReadonly<z.output<typeof ban>>;
export const ban = z.object({
  number: added,
  untilMs: moment,
  /** The window whose refusal led to the ban. */
  window,
  /** The name of the budget that the window belongs to; left out for the consumer's own. */
  budget: z.string().exactOptional(),
});

/** An amount that an operator has added to the limit of one consumer's window. */
export type TopUp = DeepReadonly<z.output<typeof topUp>>;
const topUp = z.object({ amount: added, untilMs: moment });

/** One of the top-ups that make up the sum of a window: for reports, and to undo it. Decisions do not read it. */
export type TopUpNote = DeepReadonly<z.output<typeof topUpNote>>;
const topUpNote = z.object({
  id: z.string(),
  window,
  amount: added,
  /** That of the sum: all top-ups of a window end together. */
  untilMs: moment,
  /** Whether an operator named the end, of this one or of one that was in force; it is that of the window otherwise. */
  hasOwnEnd: z.boolean(),
  /** When it was made. */
  atMs: moment,
  /** Empty without one. */
  reason: z.string(),
});

/** One account as the embedded store keeps it (`AccountState` of the engine). Windows that are not open are absent. */
export type StoredAccount = DeepReadonly<z.output<typeof account>>;
export const account = z.object({
  windows: z.partialRecord(window, windowCount),
  /** 0 if there are none. */
  strikes: z.object({ count, endsAtMs: moment }),
  ban: ban.nullable(),
  /** What operators have added to limits; left out if nothing is in force. */
  topUps: z.partialRecord(window, topUp).exactOptional(),
  /** What those sums are made of, for operators. */
  topUpNotes: z.array(topUpNote).exactOptional(),
});
