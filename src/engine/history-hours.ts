import { DAYS_KEPT, dayOf, HOURS_KEPT } from './history-form.ts';

/* Which hours a history has. Settlements need this, and not how it moves. */

/** Late cost: which hour the history must reach, and what the cost is added to. */
interface LateCost {
  readonly reaches: number;
  /** The hour, with its day; undefined: the cost counts for `day` alone. */
  readonly hour?: number;
  /** Undefined: the history no longer has it. */
  readonly day?: number;
}

/** Whether a history has an hour. If it does not and the hour is an earlier one, the clock was set back, and a new history begins. */
export function hasHour(last: number, hour: number): boolean {
  return last >= hour && last - hour < HOURS_KEPT;
}

/**
 * Where cost counts that comes late, or that is taken back. What is older than the hours that are kept counts for its day alone: it
 * must not move the history back and so empty it.
 * @param cost negative to take back, if the history still has that hour
 * @param present the hour of the store
 * @param last the last hour of the history; undefined if there is none, or if the cost is not negative
 * @returns undefined: nowhere
 */
export function lateCost(hour: number, cost: number, present: number, last: number | undefined): LateCost | undefined {
  if (hour > present - HOURS_KEPT) {
    const at = Math.min(hour, present);
    if (cost < 0 && (last === undefined || !hasHour(last, at))) return undefined;
    return { reaches: at, hour: at };
  }
  if (cost < 0 && last === undefined) return undefined;
  const day = dayOf(hour);
  // The history may have reached two more days than the store's clock.
  return day > dayOf(present) + 2 - DAYS_KEPT ? { reaches: present, day } : { reaches: present };
}
