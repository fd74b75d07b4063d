import { type Limit, MAX_LIMIT, WINDOWS, type WindowName } from '../admit/plan.ts';

/** Limits as they were asked for; null: back to the plan's own number. */
export type GivenLimits = Partial<Record<WindowName, Limit | null>>;

/** Reads one `WINDOW=NUMBER`; null where it is none. `WINDOW=default` is back to the plan's own number. */
export function limitFrom(text: string): { readonly window: WindowName; readonly limit: Limit | null } | null {
  const [window = '', value = '', ...more] = text.split('=');
  const limit = value === 'default' ? null : numberFrom(value);
  return isWindow(window) && limit !== undefined && more.length === 0 ? { window, limit } : null;
}

export function isWindow(text: string): text is WindowName {
  return (WINDOWS as readonly string[]).includes(text);
}

function numberFrom(value: string): Limit | undefined {
  if (value === 'unlimited') return value;
  return /^(0|[1-9][0-9]{0,14})$/.test(value) && Number(value) <= MAX_LIMIT ? Number(value) : undefined;
}
