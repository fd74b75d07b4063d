import { describe, expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { admitterOn, kindOf, retryAfterOf } from './admitter.ts';

const strict = allowance({ minute: 2 }, { after: 4 });
const unbanned = allowance({ minute: 10 }, null);

describe('a banned key', () => {
  test('is refused without asking the store until its ban ends, and is told how long that is (reliability 145)', async () => {
    const { burst, one, ledger, pass } = admitterOn();
    expect((await burst('a', strict, 6)).map(kindOf).at(-1)).toBe('banned');
    const asked = ledger.calls.length;
    pass(59_000);
    const [late] = await burst('a', strict, 1_000);
    expect(late).toMatchObject({ kind: 'decided', source: 'memory', verdict: { kind: 'banned', number: 1 } });
    expect(retryAfterOf(late!)).toBe(1);
    pass(998);
    expect(kindOf(await one('a', strict))).toBe('banned');
    expect(ledger.calls).toHaveLength(asked);
    pass(2);
    expect(await one('a', strict)).toMatchObject({ source: 'store', verdict: { kind: 'admitted' } });
    expect(ledger.calls).toHaveLength(asked + 1);
  });

  test('is told of the windows that will still refuse when the ban is over', async () => {
    const { burst, one } = admitterOn();
    const daily = allowance({ minute: 2, day: 2 }, { after: 1 });
    await burst('a', daily, 3);
    expect(retryAfterOf(await one('a', daily))).toBe(86_400);
  });

  test('is asked about again when a ban of its length can no longer be in force', async () => {
    const { burst, one, ledger, pass } = admitterOn();
    await burst('a', allowance({ minute: 2 }, { after: 1, firstMs: 3_600_000 }), 3);
    const shortened = allowance({ minute: 2 }, { after: 1, firstMs: 1_000, longestMs: 60_000 });
    const told = await one('a', shortened);
    expect(retryAfterOf(told)).toBe(60);
    pass(60_000);
    expect(kindOf(await one('a', shortened))).toBe('admitted');
    expect(ledger.calls.length).toBeGreaterThan(1);
  });
});

describe('a key without bans whose window is used up', () => {
  test('is refused without asking the store until the window ends', async () => {
    const { burst, one, ledger, pass } = admitterOn();
    await burst('a', unbanned, 10);
    pass(100);
    expect((await burst('a', unbanned, 500)).map(kindOf)).toEqual(Array(500).fill('refused'));
    pass(59_898);
    const last = await one('a', unbanned);
    expect(last).toMatchObject({ source: 'memory', verdict: { kind: 'refused' } });
    expect(retryAfterOf(last)).toBe(1);
    expect(ledger.calls).toHaveLength(1);
    pass(2);
    expect(kindOf(await one('a', unbanned))).toBe('admitted');
    expect(ledger.calls).toHaveLength(2);
  });

  test('is refused from memory also if the window follows a calendar, which knows whole milliseconds only', async () => {
    let monotonicMs = 5_000;
    const { burst, one, ledger } = admitterOn(undefined, { monotonicMs: () => (monotonicMs += 0.3) });
    const calendar = { unit: 'day', zone: 'Europe/Berlin', anchor: 1 } as const;
    const daily = allowance({ day: 3 }, null, { day: { calendar } });
    await burst('a', daily, 3);
    // The calendar last told of another time, as after it has told a store of the next period.
    daily.limits[0]!.calendar!.periodAt(0);
    expect(await one('a', daily)).toMatchObject({ source: 'memory', verdict: { kind: 'refused' } });
    expect(ledger.calls).toHaveLength(1);
  });

  test('is asked about where a cheaper request may still fit', async () => {
    const { burst, one, ledger } = admitterOn();
    await burst('a', unbanned, 7);
    expect(kindOf(await one('a', unbanned, 5))).toBe('refused');
    expect(ledger.calls).toHaveLength(1);
    expect(kindOf(await one('a', unbanned, 3))).toBe('admitted');
    expect(ledger.calls).toHaveLength(2);
  });
});

test('a strike is never answered from memory: the ban comes at exactly its strike, and costs one call each until then', async () => {
  const { one, ledger } = admitterOn();
  const rule = allowance({ minute: 2 }, { after: 7 });
  const kinds = [];
  for (let i = 0; i < 2 + 7 + 200; i++) kinds.push(kindOf(await one('a', rule)));
  expect(kinds.slice(0, 9)).toEqual(['admitted', 'admitted', ...Array(6).fill('refused'), 'banned']);
  expect(new Set(kinds.slice(9))).toEqual(new Set(['banned']));
  expect(ledger.calls).toHaveLength(2 + 7);
});

test('a request that no waiting helps is asked about once a second, without a strike', async () => {
  const { burst, one, ledger, pass } = admitterOn();
  const closed = allowance({ minute: 0 });
  expect(await one('a', closed)).toMatchObject({ verdict: { kind: 'refused', retryAtMs: null } });
  expect((await burst('a', closed, 100)).map(kindOf)).toEqual(Array(100).fill('refused'));
  expect(ledger.calls).toHaveLength(1);
  pass(1_001);
  expect(retryAfterOf(await one('a', closed))).toBe(null);
  expect(ledger.calls).toHaveLength(2);
});

describe('a refusal from memory ends at once', () => {
  test('with a raised limit, also of a key that is used up under both', async () => {
    const { burst, one, ledger } = admitterOn();
    await burst('a', unbanned, 10);
    expect(kindOf(await one('a', allowance({ minute: 11 }, null)))).toBe('admitted');
    expect(kindOf(await one('a', allowance({ minute: 11 }, null)))).toBe('refused');
    expect(kindOf(await one('a', allowance({ hour: 3 }, null)))).toBe('admitted');
    expect(ledger.calls).toHaveLength(3);
  });

  test('when a ban is lifted', async () => {
    const { admitter, burst, one, ledger } = admitterOn();
    const wide = allowance({ minute: 3 }, { after: 1 });
    await burst('a', allowance({ minute: 2 }, { after: 1 }), 3);
    await ledger.lift('a');
    expect(kindOf(await one('a', wide))).toBe('banned');
    admitter.forget();
    expect(kindOf(await one('a', wide))).toBe('admitted');
  });

  test('also when the lift is heard of while an older answer is still on its way', async () => {
    const { admitter, one, ledger } = admitterOn();
    const rule = allowance({ minute: 1, hour: 2 }, { after: 1 });
    await one('a', rule);
    let arrive = () => {};
    let onItsWay = 0;
    ledger.onTheWay = () => (++onItsWay === 2 ? new Promise((resolve) => (arrive = resolve)) : undefined);
    const banned = one('a', rule);
    await new Promise(setImmediate);
    await ledger.lift('a');
    admitter.forget();
    arrive();
    expect(kindOf(await banned)).toBe('banned');
    const wide = allowance({ minute: 2, hour: 2 }, { after: 1 });
    expect(kindOf(await one('a', wide))).toBe('admitted');
  });
});

test('what is remembered is bounded (reliability 138)', async () => {
  const { one, ledger } = admitterOn(undefined, { remembered: 3 });
  const closed = allowance({ minute: 1 }, { after: 1 });
  for (const id of ['a', 'b', 'c', 'd']) {
    await one(id, closed);
    await one(id, closed);
  }
  const before = ledger.calls.length;
  await one('d', closed);
  expect(ledger.calls).toHaveLength(before);
  await one('a', closed);
  expect(ledger.calls).toHaveLength(before + 1);
});

test('where a caller stands is told without asking the store', async () => {
  const { admitter, burst, ledger, pass } = admitterOn();
  expect(admitter.knownVerdict('a', unbanned)).toMatchObject({ binding: { remaining: 10 } });
  await burst('a', unbanned, 4);
  expect(admitter.knownVerdict('a', unbanned)).toMatchObject({ binding: { remaining: 6 } });
  pass(60_001);
  expect(admitter.knownVerdict('a', unbanned)).toMatchObject({ binding: { remaining: 10 } });
  expect(ledger.calls).toHaveLength(1);
});
