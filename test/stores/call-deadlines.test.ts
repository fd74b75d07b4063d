import { describe, expect, test } from 'vitest';
import { CallDeadlines, Late } from '../../src/stores/redis/circuit.ts';
import { holdTime } from '../support/hold-time.ts';

const never = new Promise<never>(() => {});

/** What has become of each call by now. */
function watch(calls: Readonly<Record<string, Promise<unknown>>>): Record<string, unknown> {
  const ends: Record<string, unknown> = {};
  for (const [name, call] of Object.entries(calls)) {
    call.then(
      (value) => (ends[name] = value),
      (error) => (ends[name] = error instanceof Late ? error.message : error),
    );
  }
  return ends;
}

describe('the deadlines of calls', () => {
  test('run out each at its own time, whichever began first', async () => {
    const pass = holdTime();
    const deadlines = new CallDeadlines();
    const ends = watch({ long: deadlines.within(never, 50, 50), short: deadlines.within(never, 20, 30) });
    await pass(10);
    const later = watch({ later: deadlines.within(never, 50, 50) });
    await pass(9);
    expect(ends).toEqual({});
    await pass(1);
    expect(ends).toEqual({ short: 'Redis did not answer within 30 ms.' });
    await pass(29);
    expect(ends).not.toHaveProperty('long');
    await pass(1);
    expect(ends).toHaveProperty('long', 'Redis did not answer within 50 ms.');
    expect(later).toEqual({});
    await pass(10);
    expect(later).toEqual({ later: 'Redis did not answer within 50 ms.' });
  });

  test('leave alone what is answered, and what is answered late', async () => {
    const pass = holdTime();
    const deadlines = new CallDeadlines();
    const answers = Array.from({ length: 3 }, () => Promise.withResolvers<string>());
    const [inTime, refused, late] = answers.map(({ promise }) => deadlines.within(promise, 20, 20));
    const ends = watch({ inTime: inTime!, refused: refused!, late: late! });
    await pass(19);
    answers[0]!.resolve('yes');
    answers[1]!.reject('no');
    await pass(1);
    answers[2]!.resolve('too late');
    await pass(100);
    expect(ends).toEqual({ inTime: 'yes', refused: 'no', late: 'Redis did not answer within 20 ms.' });
  });
});
