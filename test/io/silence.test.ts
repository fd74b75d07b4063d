import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Silence } from '../../src/io/silence.ts';

/** Looks at a thread that counted `turns` at each of the times. @returns the silence at the last look */
function silenceAfter(looks: readonly (readonly [turns: number, nowMs: number, reads?: number])[]): number {
  const silence = new Silence(100);
  let silentMs = 0;
  for (const look of looks) silentMs = silence.look(...look);
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

// Fault: the loop reads what thousands of connections have sent, and no timer runs meanwhile.
test('time in which the thread reads counts for a sixth (reliability 319)', () => {
  expect(
    silenceAfter([
      [7, 0, 1],
      [7, 100, 9],
      [7, 160, 15],
    ]),
  ).toBeCloseTo(160 / 6);
  expect(
    silenceAfter([
      [7, 0, 1],
      [7, 60, 9],
      [7, 160, 9],
    ]),
  ).toBe(110);
});

test.runIf(process.platform === 'linux')('reads are counted where the system does so', () => {
  const before = Silence.readsOf(process.pid);
  readFileSync('/dev/null');
  expect(Silence.readsOf(process.pid)).toBeGreaterThan(before);
  expect(Silence.readsOf(2 ** 30)).toBe(0);
});
