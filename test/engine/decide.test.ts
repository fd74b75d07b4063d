import { expect, test } from 'vitest';
import { decide } from '../../src/admit/decision.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { lift } from '../../src/engine/operator-changes.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { allowance } from '../support/allowance.ts';

const T0 = 1_800_000_000_000;
const minute5 = allowance({ minute: 5, day: 100 });

/** Sends single requests at the given times and tells each verdict's kind. */
function history(plan: ReturnType<typeof allowance>, times: readonly number[], cost = 1) {
  let state: AccountState = UNSEEN;
  const kinds = times.map((atMs) => {
    const decision = decide([state], plan, T0 + atMs, cost, 1);
    state = decision.accounts[0];
    return verdictOf(decision, plan, 0).kind;
  });
  return { kinds, state };
}

const many = (n: number, atMs: number) => Array.from({ length: n }, () => atMs);

test('a window admits exactly its limit, and the next one opens with the first request after it (reliability 131)', () => {
  const { kinds } = history(minute5, [...many(5, 0), 59_999, 60_000]);
  expect(kinds).toEqual([...Array(5).fill('admitted'), 'refused', 'admitted']);
});

test('a window opens with the first request counted in it, not on the clock (reliability 131, 142)', () => {
  const { state } = history(minute5, [12_345]);
  expect(state.windows.minute).toEqual({ used: 1, endsAtMs: T0 + 12_345 + 60_000 });
});

test('a refused request is counted in no window (reliability 129, 130)', () => {
  const { state } = history(minute5, [...many(5, 0), ...many(3, 10)]);
  expect(state.windows.minute?.used).toBe(5);
  expect(state.windows.day?.used).toBe(5);
});

test('the after-th strike is the ban, and the ladder doubles (reliability 134)', () => {
  const { kinds, state } = history(minute5, [...many(5, 0), ...many(10, 1)]);
  expect(kinds.slice(5)).toEqual([...Array(9).fill('refused'), 'banned']);
  expect(state.ban).toEqual({ number: 1, untilMs: T0 + 1 + 60_000, window: 'minute' });
  const again = history(minute5, [...many(5, 0), ...many(10, 1), ...many(5, 60_001), ...many(10, 60_002)]);
  expect(again.kinds.slice(15)).toEqual([...Array(5).fill('admitted'), ...Array(9).fill('refused'), 'banned']);
  expect(again.state.ban).toEqual({ number: 2, untilMs: T0 + 60_002 + 120_000, window: 'minute' });
});

test('the ladder climbs rung by rung to the longest ban and stays there (reliability 134)', () => {
  const plan = allowance({ minute: 1 }, { firstMs: 60_000, factor: 2, longestMs: 200_000 });
  const lengths = [1, 2, 3, 4].map((bans) => {
    const times = Array.from({ length: bans }, (_, rung) => [rung * 300_000, ...many(10, rung * 300_000 + 1)]).flat();
    const begunMs = T0 + (bans - 1) * 300_000 + 1;
    return (history(plan, times).state.ban?.untilMs ?? 0) - begunMs;
  });
  expect(lengths).toEqual([60_000, 120_000, 200_000, 200_000]);
});

test('strikes start from 0 when the window that refused ends', () => {
  const { kinds } = history(minute5, [...many(5, 0), ...many(9, 59_000), ...many(5, 60_000), ...many(9, 60_001)]);
  expect(kinds).not.toContain('banned');
});

test('strikes start from 0 when `within` has passed since the first of them', () => {
  const plan = allowance({ hour: 1 }, { withinMs: 60_000 });
  const { kinds } = history(plan, [0, ...many(9, 1_000), ...many(9, 61_000)]);
  expect(kinds).not.toContain('banned');
});

test('requests during a ban do not lengthen it', () => {
  const { state } = history(minute5, [...many(5, 0), ...many(10, 1), ...many(50, 30_000)]);
  expect(state.ban?.untilMs).toBe(T0 + 60_001);
});

test('the ladder starts at the bottom when `forget` has passed since the end of the last ban', () => {
  const plan = allowance({ minute: 1 }, { forgetMs: 1_000_000 });
  const hammer = (atMs: number) => [atMs, ...many(10, atMs + 1)];
  const justBefore = history(plan, [...hammer(0), ...hammer(60_001 + 999_990)]);
  expect(justBefore.state.ban?.number).toBe(2);
  const after = history(plan, [...hammer(0), ...hammer(60_001 + 1_000_000)]);
  expect(after.state.ban?.number).toBe(1);
});

test('a limit of 0 and a cost above the limit refuse without a strike (reliability 140)', () => {
  expect(history(allowance({ minute: 0 }), many(50, 0)).kinds).not.toContain('banned');
  const costly = history(allowance({ minute: 3, day: 100 }), many(50, 0), 4);
  expect(new Set(costly.kinds)).toEqual(new Set(['refused']));
  const plan = allowance({ minute: 3, day: 100 });
  const verdict = verdictOf(decide([UNSEEN], plan, T0, 4, 1), plan, 0);
  expect(verdict).toMatchObject({ kind: 'refused', retryAtMs: null, binding: { window: 'minute' } });
});

test('the verdict tells the window with the fewest requests left, of equals the one that resets last', () => {
  const plan = allowance({ minute: 10, day: 10 });
  const verdict = verdictOf(decide([UNSEEN], plan, T0, 1, 1), plan, 0);
  expect(verdict.binding).toMatchObject({ window: 'day', remaining: 9 });
});

test('Retry-After under a ban waits for the windows that would refuse after it too (reliability 132)', () => {
  const plan = allowance({ day: 5 });
  let state: AccountState = UNSEEN;
  for (let i = 0; i < 15; i++) [state] = decide([state], plan, T0, 1, 1).accounts;
  const verdict = verdictOf(decide([state], plan, T0, 1, 1), plan, 0);
  expect(verdict).toMatchObject({ kind: 'banned', untilMs: T0 + 60_000, retryAtMs: T0 + 86_400_000 });
});

// Attack (reliability 109, 158): the store's clock is set back by 12 h while a key is banned for a minute. The ban's end,
// which is a moment, is then 12 h away.
test.each([
  ['the first', 0, 60_000],
  ['the third', 2, 240_000],
])('a clock set back makes %s ban last at most its own rung from then on', (_, before, lengthMs) => {
  const plan = allowance({ second: 1 }, { after: 1 });
  let state: AccountState = {
    ...UNSEEN,
    ban: before === 0 ? undefined : { number: before, untilMs: T0, window: 'second' },
  };
  [state] = decide([state], plan, T0, 1, 2).accounts;
  expect(state.ban?.untilMs).toBe(T0 + lengthMs);
  const backMs = T0 - 43_200_000;
  const back = decide([state], plan, backMs, 1, 1);
  const [then] = back.accounts;
  expect(back).toMatchObject({ admitted: 0, bannedFrom: 0 });
  expect(then.ban).toEqual({ number: before + 1, untilMs: backMs + lengthMs, window: 'second' });
  expect(decide([then], plan, backMs + lengthMs - 1, 1, 1).admitted).toBe(0);
  expect(decide([then], plan, backMs + lengthMs, 1, 1).admitted).toBe(1);
});

test('a clock set back by less than a ban has lasted lengthens it by no more than that', () => {
  const { state } = history(minute5, [...many(5, 0), ...many(10, 1)]);
  expect(decide([state], minute5, T0 - 3_600_000, 1, 1).accounts[0].ban?.untilMs).toBe(T0 - 3_600_000 + 60_000);
  const [moved] = decide([state], minute5, T0 + 30_000, 1, 1).accounts;
  expect(decide([moved], minute5, T0 + 10_000, 1, 1).accounts[0].ban?.untilMs).toBe(T0 + 60_001);
});

test('a clock set back makes no window last longer than its length from then on, and loses no count', () => {
  const { state } = history(minute5, [...many(4, 0)]);
  const { windows } = decide([state], minute5, T0 - 3_600_000, 1, 1).accounts[0];
  expect(windows.minute).toEqual({ used: 5, endsAtMs: T0 - 3_600_000 + 60_000 });
  expect(windows.day).toEqual({ used: 5, endsAtMs: T0 - 3_600_000 + 86_400_000 });
});

test('after a clock set back, a client that waits for the window that refused is not banned for its strikes before', () => {
  const plan = allowance({ minute: 5 }, { withinMs: 600_000 });
  const { state } = history(plan, [...many(5, 0), ...many(9, 1)]);
  const back = decide([state], plan, T0 - 300_000, 1, 0);
  const retryAtMs = T0 - 300_000 + 60_000;
  expect(back.accounts[0].windows.minute?.endsAtMs).toBe(retryAtMs);
  expect(back.accounts[0].strikes?.endsAtMs).toBeLessThanOrEqual(retryAtMs);
  const again = decide(back.accounts, plan, retryAtMs, 1, 6);
  expect(again).toMatchObject({ admitted: 5, bannedFrom: 6, accounts: [{ strikes: { count: 1 } }] });
  expect(again.accounts[0].ban).toBeUndefined();
});

test('a clock set forth and right again: what it ended has ended, and what it opened lasts its own length', () => {
  const forth = 43_200_000;
  const { state } = history(minute5, [...many(5, 0), ...many(10, 1), ...many(5, forth), ...many(10, forth + 1)]);
  expect(state.ban).toMatchObject({ number: 2, untilMs: T0 + forth + 1 + 120_000 });
  const right = decide([state], minute5, T0 + 1_000, 1, 1).accounts[0];
  expect(right.ban).toMatchObject({ number: 2, untilMs: T0 + 1_000 + 120_000 });
  expect(right.windows.minute).toEqual({ used: 5, endsAtMs: T0 + 1_000 + 60_000 });
});

test('a lifted ban takes back its rung and its strikes', () => {
  const { state } = history(minute5, [...many(5, 0), ...many(10, 1)]);
  const lifted = lift(state, T0 + 500);
  expect(lifted.ban).toBeUndefined();
  expect(lifted.strikes).toBeUndefined();
  const second = history(minute5, [...many(5, 0), ...many(10, 1), ...many(5, 60_001), ...many(10, 60_002)]);
  expect(lift(second.state, T0 + 61_000).ban).toMatchObject({ number: 1, untilMs: T0 + 61_000 });
});

test('a raised limit helps a throttled key at once, and a lowered one never shows less than 0 left (reliability 139)', () => {
  const { state } = history(minute5, [...many(5, 0), 1]);
  const raised = allowance({ minute: 6, day: 100 });
  expect(verdictOf(decide([state], raised, T0 + 2, 1, 1), raised, 0).kind).toBe('admitted');
  const lowered = allowance({ minute: 2, day: 100 });
  const verdict = verdictOf(decide([state], lowered, T0 + 2, 1, 1), lowered, 0);
  expect(verdict).toMatchObject({ kind: 'refused', binding: { remaining: 0, limit: 2 } });
});
