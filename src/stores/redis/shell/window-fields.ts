import { WINDOW_MS } from '../../../engine/counting.ts';
import type { Limit } from '../../../engine/types.ts';
import type { WindowName } from '../../../model/windows.ts';

/* The fields of all windows that an account may have. Changes of operators need them, because no rule comes with these. */

const FIELDS: Readonly<Record<WindowName, readonly [string, string]>> = {
  second: ['s', 'S'],
  minute: ['m', 'M'],
  hour: ['h', 'H'],
  day: ['d', 'D'],
  week: ['k', 'K'],
  month: ['n', 'N'],
};

/** The fields of some windows: two for each, its count and its end (stored-account.ts). */
export function windowFields(windows: readonly WindowName[]): string[] {
  const fields: string[] = [];
  for (const window of windows) {
    fields.push(FIELDS[window][0]);
    fields.push(FIELDS[window][1]);
  }
  return fields;
}

/** Limits of 0 for these windows, as fixed ones: enough to read and write their counts. */
export function unlimited(windows: readonly WindowName[]): Limit[] {
  const limits: Limit[] = [];
  for (const window of windows) limits.push({ window, lengthMs: WINDOW_MS[window], limit: 0 });
  return limits;
}
