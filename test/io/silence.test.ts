import { expect, test } from 'vitest';
import { Silence } from '../../src/io/silence.ts';

/** Looks at a thread that counted `turns` at each of the times. @returns the silence at the last look */
function silenceAfter(looks: readonly (readonly [turns: number, nowMs: number])[]): number {
  const silence = new Silence(100);
  let silentMs = 0;
  for (const [turns, nowMs] of looks) silentMs = silence.look(turns, nowMs);
  return silentMs;
}

test('silence is the time in which the turns have not grown', () => {
  expect(silenceAfter([[7, 5_000]])).toBe(0);
  expect(
    silenceAfter([
      [7, 5_000],
      [7, 5_100],
      [7, 5_200],
    ]),
  ).toBe(200);
});

test('one turn ends it, however many there were before', () => {
  expect(
    silenceAfter([
      [7, 0],
      [7, 100],
      [8, 200],
    ]),
  ).toBe(0);
  expect(
    silenceAfter([
      [7, 0],
      [7, 100],
      [8, 200],
      [8, 300],
    ]),
  ).toBe(100);
});

// Fault: a laptop wakes up, or a virtual machine was moved. The watcher finds that an hour has passed without a turn.
test('a look that comes an hour late counts for no more than one in time (reliability 215)', () => {
  expect(
    silenceAfter([
      [7, 0],
      [7, 3_600_000],
    ]),
  ).toBe(100);
});
