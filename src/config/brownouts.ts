import { z } from 'zod';
import type { Brownout } from '../annotate/brownout.ts';
import { instant } from './values.ts';

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;
const TIME_OF_DAY = /^(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00)$/;
const DATE = 'must be a date or a time such as 2030-11-05T09:00:00Z; with `days`, a time of day in UTC such as 09:30';

/** One brownout of a deprecated route: `{ from, to }` once, or `{ days, from, to }` each week. */
export const brownout = z
  .strictObject({
    days: z
      .array(z.enum(DAYS, `must be one of ${DAYS.join(', ')}`))
      .min(1, 'must be a list of at least one day')
      .optional()
      .describe('The days of each week, in UTC; left out, it happens once.'),
    from: z.string(DATE).describe('When it begins: a time; with `days`, a time of day in UTC.'),
    to: z
      .string(DATE)
      .describe('When it ends: a time; with `days`, a time of day in UTC, 24:00 for the end of the day.'),
  })
  .transform(({ days, from, to }, context): Brownout => {
    const read = days === undefined ? momentOf : minuteOf;
    const [begins, ends] = [read(from), read(to)];
    const fault = (path: 'from' | 'to', message: string) => context.addIssue({ code: 'custom', path: [path], message });
    const allowed =
      days === undefined ? 'a date or a time such as 2030-11-05T09:00:00Z' : 'a time of day such as 09:30';
    if (begins === null) fault('from', `must be ${allowed}`);
    if (ends === null) fault('to', `must be ${allowed}`);
    if (begins === null || ends === null) return z.NEVER;
    const overMidnight = days === undefined ? '' : '; over midnight it is two, one to 24:00 and one from 00:00';
    if (ends <= begins) fault('to', `must be later than \`from\`${overMidnight}`);
    if (days === undefined) return { kind: 'once', fromMs: begins, toMs: ends };
    return { kind: 'weekly', days: days.map((day) => DAYS.indexOf(day)), fromMinute: begins, toMinute: ends };
  });

function momentOf(text: string): number | null {
  const read = instant().safeParse(text);
  return read.success ? read.data : null;
}

function minuteOf(text: string): number | null {
  return TIME_OF_DAY.test(text) ? Number(text.slice(0, 2)) * 60 + Number(text.slice(3)) : null;
}
