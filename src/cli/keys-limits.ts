import { type Limit, MAX_LIMIT, WINDOWS, type WindowName } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import type { Words } from './command.ts';

/** Limits as `--limit` gave them; null where it said `default`. */
export type GivenLimits = Partial<Record<WindowName, Limit | null>>;

/**
 * Reads `--limit WINDOW=NUMBER`, given as often as there are windows.
 * @param withDefault whether `WINDOW=default` is allowed: back to the plan's own number
 * @throws Failure `bad_usage`
 */
export function readLimits({ options }: Words, withDefault: boolean): GivenLimits {
  const limits: GivenLimits = {};
  for (const text of (options.limit ?? []) as readonly string[]) {
    const [window, value, ...more] = text.split('=');
    const limit = limitOf(value ?? '', withDefault);
    if (!isWindow(window) || limit === undefined || more.length > 0) throw wrong(text, withDefault);
    if (window in limits) throw new Failure('bad_usage', `--limit is given twice for ${window}.`);
    limits[window] = limit;
  }
  return limits;
}

function limitOf(value: string, withDefault: boolean): Limit | null | undefined {
  if (value === 'unlimited') return value;
  if (value === 'default' && withDefault) return null;
  return /^(0|[1-9][0-9]{0,14})$/.test(value) && Number(value) <= MAX_LIMIT ? Number(value) : undefined;
}

function isWindow(text: string | undefined): text is WindowName {
  return (WINDOWS as readonly (string | undefined)[]).includes(text);
}

function wrong(text: string, withDefault: boolean): Failure {
  const words = withDefault ? '`unlimited` or `default`' : '`unlimited`';
  return new Failure(
    'bad_usage',
    `--limit is '${text}'; it must be WINDOW=NUMBER, such as minute=500: the window one of ${WINDOWS.join(', ')}, the number whole from 0 to ${MAX_LIMIT}, or ${words}.`,
  );
}
