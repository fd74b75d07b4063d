import { type GivenLimits, limitFrom } from '../admin/limit-words.ts';
import { MAX_LIMIT, WINDOWS } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import type { Words } from './command.ts';

/**
 * Reads `--limit WINDOW=NUMBER`, given as often as there are windows.
 * @param withDefault whether `WINDOW=default` is allowed: back to the plan's own number
 * @throws Failure `bad_usage`
 */
export function readLimits({ options }: Words, withDefault: boolean): GivenLimits {
  const limits: GivenLimits = {};
  for (const text of (options.limit ?? []) as readonly string[]) {
    const given = limitFrom(text);
    if (given === null || (given.limit === null && !withDefault)) throw wrong(text, withDefault);
    if (given.window in limits) throw new Failure('bad_usage', `--limit is given twice for ${given.window}.`);
    limits[given.window] = given.limit;
  }
  return limits;
}

function wrong(text: string, withDefault: boolean): Failure {
  const words = withDefault ? '`unlimited` or `default`' : '`unlimited`';
  return new Failure(
    'bad_usage',
    `--limit is '${text}'; it must be WINDOW=NUMBER, such as minute=500: the window one of ${WINDOWS.join(', ')}, the number whole from 0 to ${MAX_LIMIT}, or ${words}.`,
  );
}
