import { z } from 'zod';
import { WINDOWS, type WindowName } from './windows.ts';

export { WINDOWS, type WindowName };

// The small values of which those that cross borders are made, and the names of limits.

export const count = z.int().min(0);

/** The last moment that a date can be, Unix milliseconds. */
export const LAST_MS = 8.64e15;

export function wholeNumber(least: number, most: number) {
  const message = `must be a whole number from ${least} to ${most}`;
  return z.int(message).min(least, message).max(most, message);
}

const ISO_TIME = z.iso.datetime();
/** An RFC 3339 time. */
export const time = z
  .string()
  .refine((text) => ISO_TIME.safeParse(text).success, 'must be an RFC 3339 time')
  .meta({ format: 'date-time' });

/** The name of a window in an allowance: `minute`, or with the budget that it belongs to, `customer-search-minute`. */
export type LimitName = WindowName | `${string}-${WindowName}`;

/** Whether a text may be the name of a window in an allowance. */
export function isLimitName(text: string): text is LimitName {
  return /^(?:[a-z0-9-]{1,80}-)?(?:second|minute|hour|day|week|month)$/.test(text);
}

/** The window that a name is of. */
export function windowOf(name: LimitName): WindowName {
  return name.slice(name.lastIndexOf('-') + 1) as WindowName;
}

/** What precedes the window in its name; null for a window of the consumer's own. */
export function budgetOf(name: LimitName): string | null {
  const at = name.lastIndexOf('-');
  return at < 0 ? null : name.slice(0, at);
}

/** A record of what `of` gives for each window. */
export function eachWindow<V>(of: (window: WindowName) => V): Record<WindowName, V> {
  return Object.fromEntries(WINDOWS.map((window) => [window, of(window)])) as Record<WindowName, V>;
}

export const windowName = z.enum(WINDOWS, `must be one of ${WINDOWS.join(', ')}`).meta({ id: 'Window' });
const limitNameRule = `must be one of ${WINDOWS.join(', ')}, or that of a group of routes or a unit, such as search-minute`;
/** The name of a limit: a window of the key, or one of another budget. */
export const limitName = z
  .union([windowName, z.templateLiteral([z.string(), '-', z.enum(WINDOWS)])], limitNameRule)
  .describe(
    'A window of the key, such as `minute`, or of another budget that its requests charge, such as `customer-minute` or `search-minute`.',
  )
  .meta({ id: 'LimitName' });

/** The type of a value that nothing changes. */
export type DeepReadonly<T> = T extends readonly (infer One)[]
  ? readonly DeepReadonly<One>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T;
