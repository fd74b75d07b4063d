import { describe, expect, test } from 'vitest';
import { StoreClock } from '../../src/serve/store-clock.ts';
import { atEnd } from '../support/endings.ts';

const HOUR_MS = 3_600_000;
const START_MS = 1_800_000_000_000;

/** A clock of a store whose own clock, and this machine's, are those of the test. It is read only when told to. */
function clockOf(servers = 1) {
  const test = {
    monotonicMs: 0,
    ownAheadMs: 0,
    aheadMs: Array.from({ length: servers }, () => 0),
    slowMs: 0,
    isAway: false,
  };
  let jumps = 0;
  const warnings: string[] = [];
  const clock = new StoreClock({
    read: async () => {
      if (test.isAway) throw new Error('away');
      const times = test.aheadMs.map((aheadMs) => START_MS + test.monotonicMs + aheadMs);
      test.monotonicMs += test.slowMs;
      return times;
    },
    wallMs: () => START_MS + test.monotonicMs + test.ownAheadMs,
    monotonicMs: () => test.monotonicMs,
    onJump: () => jumps++,
    onWarning: (sentence) => warnings.push(sentence),
    everyMs: 1_000_000,
  });
  atEnd(() => clock.close());
  const pass = (ms: number) => {
    test.monotonicMs += ms;
  };
  return { clock, test, pass, warnings, jumps: () => jumps };
}

describe('the clock of a store (reliability 249)', () => {
  test('is this machine’s until the store has answered, and then the store’s, carried on', async () => {
    const { clock, test, pass } = clockOf();
    test.aheadMs = [2 * HOUR_MS];
    expect(clock.nowMs).toBe(START_MS);
    await clock.look();
    expect(clock.nowMs).toBe(START_MS + 2 * HOUR_MS);
    pass(700);
    expect(clock.nowMs).toBe(START_MS + 700 + 2 * HOUR_MS);
    test.isAway = true;
    await clock.look();
    expect(clock.nowMs).toBe(START_MS + 700 + 2 * HOUR_MS);
  });

  test.each([
    [-26 * HOUR_MS, 0],
    [0, -26 * HOUR_MS],
    [0, 2_000],
  ])('that is set from %i to %i ms ahead is noticed at the next look, once', async (before, after) => {
    const { clock, test, pass, jumps } = clockOf();
    test.aheadMs = [before];
    await clock.look();
    expect(jumps()).toBe(0);
    pass(500);
    test.aheadMs = [after];
    await clock.look();
    expect(jumps()).toBe(1);
    pass(500);
    await clock.look();
    expect(jumps()).toBe(1);
  });

  test('that drifts, or answers late, was not set', async () => {
    const { clock, test, pass, jumps } = clockOf();
    await clock.look();
    for (let i = 1; i < 20; i++) {
      pass(500);
      test.aheadMs = [i * 50];
      await clock.look();
    }
    test.slowMs = 5_000;
    await clock.look();
    expect(jumps()).toBe(0);
    expect(clock.nowMs).toBeLessThan(START_MS + test.monotonicMs + 1_500);
  });

  test('of which one primary of three is set is noticed, although their clocks differ', async () => {
    const { clock, test, jumps } = clockOf(3);
    test.aheadMs = [0, -5_000, 9_000];
    await clock.look();
    await clock.look();
    expect(jumps()).toBe(0);
    test.aheadMs = [0, 60_000, 9_000];
    await clock.look();
    expect(jumps()).toBe(1);
  });

  test('that differs from this machine’s by more than a minute is warned of once, until it no longer does', async () => {
    const { clock, test, warnings } = clockOf();
    test.ownAheadMs = 2 * HOUR_MS;
    await clock.look();
    await clock.look();
    expect(warnings).toEqual([expect.stringMatching(/120\.0 minutes behind this machine's.*Run NTP/)]);
    expect(clock.differs).toBe(true);
    test.ownAheadMs = 0;
    await clock.look();
    expect(clock.differs).toBe(false);
    test.ownAheadMs = -2 * HOUR_MS;
    await clock.look();
    expect(warnings).toHaveLength(2);
  });
});
