import { describe, expect, test } from 'vitest';
import type { Allowance } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import type { DeferredUsage, ReconciledUsage } from '../../src/admit/ledger.ts';
import { UsageBacklog } from '../../src/admit/usage-backlog.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { allowance } from '../support/allowance.ts';
import { holdTime } from '../support/hold-time.ts';

const T0 = 1_800_000_000_000;
const minute = allowance({ minute: 10 }, null);
const sliding = allowance({ minute: 10 }, null, { minute: { slices: 4 } });

/** A backlog whose own clock is `aheadMs` behind the store's, before a store that answers as the test says. */
function backlogOf({ aheadMs = 0, most = 10 } = {}) {
  const clock = { storeMs: T0 };
  const calls: (readonly DeferredUsage[])[] = [];
  const returned: string[] = [];
  const store = { kind: 'added' as ReconciledUsage['kind'] };
  const deciding = new Set<string>();
  const backlog = new UsageBacklog({
    most,
    wallMs: () => clock.storeMs - aheadMs,
    isBeingDecided: (id) => deciding.has(id),
    onReturned: (window, outcome, spent) => returned.push(`${window} ${outcome} ${spent}`),
    reconciler: {
      reconcile: async (usage) => {
        calls.push(usage);
        return usage.map(
          ({ windows }): ReconciledUsage =>
            store.kind === 'added'
              ? { kind: 'added', added: windows.map(({ window }) => window) }
              : { kind: store.kind },
        );
      },
    },
  });
  /** Usage that was admitted locally at `atMs` of the clock that is meant. */
  const defer = (id: string, n: number, atMs: number, of: Allowance = minute, isOwnClock = false, state = UNSEEN) => {
    const decision = decide([state], of, atMs, 1, n);
    backlog.defer([id], decision, of, isOwnClock);
    return decision.accounts[0];
  };
  const windowsSent = () => calls.flat().map(({ windows }) => windows);
  return { backlog, defer, calls, returned, store, deciding, clock, windowsSent };
}

describe('usage of one window', () => {
  test('whose end the store has moved is one sum, with the earlier end', async () => {
    const { backlog, defer, windowsSent } = backlogOf();
    defer('a', 2, T0 + 5);
    defer('a', 3, T0);
    await backlog.reconcile(['a']);
    expect(windowsSent()).toEqual([[{ window: 'minute', lengthMs: 60_000, spent: 5, endsAtMs: T0 + 60_000 }]]);
  });

  test('a whole length earlier has ended', async () => {
    const { backlog, defer, windowsSent, returned } = backlogOf();
    defer('a', 2, T0 + 60_000);
    defer('a', 3, T0);
    expect(returned).toEqual(['minute ended 3']);
    await backlog.reconcile(['a']);
    expect(windowsSent()).toEqual([[{ window: 'minute', lengthMs: 60_000, spent: 2, endsAtMs: T0 + 120_000 }]]);
    expect(returned).toEqual(['minute ended 3', 'minute added 2']);
  });

  test('in slices is merged into the later one', async () => {
    const { backlog, defer, windowsSent } = backlogOf();
    defer('a', 1, T0 + 20_000, sliding);
    defer('a', 2, T0, sliding);
    await backlog.reconcile(['a']);
    const [owed] = windowsSent()[0]!;
    expect(owed).toMatchObject({
      spent: 3,
      slices: 4,
      endsAtMs: T0 + 90_000,
      parts: { startsAtMs: T0, counts: [2, 1] },
    });
  });

  test('has the calendar of its window', async () => {
    const { backlog, defer, windowsSent } = backlogOf();
    const month = allowance({ month: 10 }, null);
    defer('a', 1, T0, month);
    await backlog.reconcile(['a']);
    expect(windowsSent()[0]).toEqual([
      expect.objectContaining({ window: 'month', calendar: month.limits[0]!.calendar }),
    ]);
  });

  test('is nothing if nothing was admitted', () => {
    const { backlog, defer } = backlogOf();
    const full = { ...UNSEEN, windows: { minute: { used: 10, endsAtMs: T0 + 9 } } };
    defer('a', 3, T0, minute, false, full);
    defer('a', 3, T0, sliding, false, full);
    defer('a', 3, T0, allowance({}, null));
    expect([backlog.size, backlog.has('a')]).toEqual([0, false]);
    // The cost of refused requests is in the history of limits that only watch.
    defer('a', 3, T0, { ...minute, history: 'all' }, false, full);
    expect(backlog.has('a')).toBe(true);
  });
});

describe('the state with the backlog', () => {
  test('adds to what is open, and opens what is not', () => {
    const { backlog, defer } = backlogOf();
    expect(backlog.withBacklog(['a'], [UNSEEN], T0)).toBeNull();
    defer('a', 2, T0);
    expect(backlog.withBacklog(['a'], [UNSEEN], T0 + 1)?.[0]?.windows).toEqual({
      minute: { used: 2, endsAtMs: T0 + 60_000 },
    });
    const open = (endsInMs: number): AccountState => ({
      ...UNSEEN,
      windows: { minute: { used: 4, endsAtMs: T0 + endsInMs } },
    });
    expect(backlog.withBacklog(['a'], [open(50_000)], T0 + 1)?.[0]?.windows).toEqual({
      minute: { used: 6, endsAtMs: T0 + 50_000 },
    });
    expect(backlog.withBacklog(['a'], [open(70_000)], T0 + 1)?.[0]?.windows).toEqual({
      minute: { used: 6, endsAtMs: T0 + 60_000 },
    });
    // What has ended is not added.
    expect(backlog.withBacklog(['a'], [open(70_000)], T0 + 60_000)?.[0]?.windows).toEqual(open(70_000).windows);
    expect(backlog.withBacklog(['a'], [UNSEEN], T0 + 59_999)?.[0]?.windows).not.toEqual({});
  });

  test('counts slices at present', () => {
    const { backlog, defer } = backlogOf();
    const state = defer('a', 2, T0, sliding);
    expect(backlog.withBacklog(['a'], [state], T0 + 20_000)?.[0]?.windows.minute).toMatchObject({
      used: 4,
      slices: { counts: [2, 2] },
    });
    expect(backlog.withBacklog(['a'], [UNSEEN], T0 + 20_000)?.[0]?.windows.minute).toMatchObject({
      used: 2,
      endsAtMs: T0 + 95_000,
    });
    expect(backlog.withBacklog(['a'], [UNSEEN], T0 + 75_000)?.[0]?.windows).toEqual({});
  });

  test('takes usage by the own clock at the store’s', () => {
    const { backlog, defer } = backlogOf({ aheadMs: 7_000 });
    defer('a', 2, T0 - 7_000, minute, true);
    expect(backlog.withBacklog(['a'], [UNSEEN], T0)?.[0]?.windows).toEqual({
      minute: { used: 2, endsAtMs: T0 + 60_000 },
    });
  });
});

test('usage by both clocks is sent by the store’s, in whatever order it came, slices too', async () => {
  for (const first of ['own', 'store']) {
    for (const of of [minute, sliding]) {
      const { backlog, defer, calls } = backlogOf({ aheadMs: 7_000 });
      if (first === 'own') defer('a', 2, T0 - 7_000, of, true);
      defer('a', 1, T0, of);
      if (first === 'store') defer('a', 2, T0 - 7_000, of, true);
      await backlog.reconcile(['a']);
      const [{ ownNowMs, windows }] = calls[0] as [DeferredUsage];
      expect(ownNowMs).toBeNull();
      expect(windows).toMatchObject([{ spent: 3, endsAtMs: T0 + (of === minute ? 60_000 : 75_000) }]);
    }
  }
});

test('usage by the own clock alone is sent with the own time, and what is refused stays so', async () => {
  const { backlog, defer, calls, store } = backlogOf({ aheadMs: 7_000 });
  defer('a', 2, T0 - 7_000, minute, true);
  store.kind = 'refused';
  expect(await backlog.reconcile(['a', 'a', 'b'])).toEqual(new Set(['b']));
  store.kind = 'added';
  expect(await backlog.reconcile(['a'])).toEqual(new Set(['a']));
  expect(calls.map(([usage]) => [usage!.ownNowMs, usage!.windows[0]!.endsAtMs])).toEqual([
    ...[T0 - 7_000, T0 - 7_000].map((ownMs) => [ownMs, T0 - 7_000 + 60_000]),
  ]);
});

describe('a consumer in doubt', () => {
  test('is asked about without usage first, in the background, until the store answers', async () => {
    const pass = holdTime();
    const { backlog, calls, store } = backlogOf();
    store.kind = 'refused';
    backlog.doubt('a');
    await pass(0);
    expect([calls.length, backlog.isInDoubt('a')]).toEqual([1, true]);
    await pass(199);
    expect(calls).toHaveLength(1);
    store.kind = 'added';
    await pass(1);
    expect(calls).toEqual(Array(2).fill([{ consumerId: 'a', ownNowMs: null, windows: [] }]));
    expect(backlog.isInDoubt('a')).toBe(false);
    await pass(1_000);
    expect(calls).toHaveLength(2);
  });

  test('whose usage was lost is in doubt again', async () => {
    const { backlog, defer, store, returned } = backlogOf();
    defer('a', 2, T0);
    store.kind = 'lost';
    expect(await backlog.reconcile(['a'])).toEqual(new Set());
    expect([backlog.isInDoubt('a'), backlog.has('a'), returned]).toEqual([true, false, ['minute lost 2']]);
  });

  test('is one of so many at most: those that are longest in doubt are let off', () => {
    const { backlog } = backlogOf({ most: 2 });
    for (const id of ['a', 'b', 'c']) backlog.doubt(id);
    expect(['a', 'b', 'c'].map((id) => backlog.isInDoubt(id))).toEqual([false, true, true]);
  });
});

test('in the background nothing is sent of a consumer about whom is being decided', async () => {
  const pass = holdTime();
  const { backlog, defer, deciding, calls } = backlogOf();
  deciding.add('a');
  defer('a', 1, T0);
  defer('b', 1, T0);
  await pass(200);
  expect(calls.flat().map(({ consumerId }) => consumerId)).toEqual(['b']);
  deciding.clear();
  await pass(200);
  expect([calls.length, backlog.size]).toEqual([2, 0]);
});
