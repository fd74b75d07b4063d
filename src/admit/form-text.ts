import type { Limit } from './plan.ts';
import { type WindowForm, type WindowName, windowLimit } from './windows.ts';

/** The kind of a window in words: `fixed`, `sliding, 12 slices`, `calendar, Europe/Berlin` or `calendar, UTC, from day 15`. */
export function formText(window: WindowName, form: WindowForm | undefined): string {
  const { slices, calendar } = windowLimit(window, 0, form);
  if (slices !== undefined) return `sliding, ${slices} slices`;
  if (calendar === undefined) return 'fixed';
  const { zone, anchor } = calendar.form;
  return anchor === 1 ? `calendar, ${zone}` : `calendar, ${zone}, from day ${anchor}`;
}

/** A limit with the kind of its window, unless that is fixed: `60`, `60 (sliding, 12 slices)`. Empty without a limit. */
export function limitText(window: WindowName, limit: Limit | 'custom' | undefined, form: WindowForm | undefined) {
  if (limit === undefined) return '';
  const text = formText(window, form);
  return text === 'fixed' || limit === 'unlimited' ? String(limit) : `${limit} (${text})`;
}
