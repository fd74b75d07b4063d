import { describe, expect, test } from 'vitest';
import { accountIdsOf } from '../../src/admit/account-id.ts';
import type { AdmitterOptions } from '../../src/admit/admit.ts';
import { budgetOf } from '../../src/admit/allowance.ts';
import { type DeferredUsage, NothingDone, type ReconciledUsage } from '../../src/admit/ledger.ts';
import { UsageBacklog } from '../../src/admit/usage-backlog.ts';
import type { AdmissionResult } from '../../src/admit/verdict.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { hourOf } from '../../src/engine/history-form.ts';
import { Failure } from '../../src/failure.ts';
import { allowance, alsoCharging } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { holdTime } from '../support/hold-time.ts';
import { admitterOn, kindOf } from './admitter.ts';
import { FakeLedger } from './fake-ledger.ts';

const plan = allowance({ minute: 10 }, null);

/** A store that can be away in both ways: certainly untouched, or silent; and that keeps what it is brought. */
class Store extends FakeLedger {
  readonly brought: DeferredUsage[] = [];
  silent = false;
  /** What it does with the next debts that it is brought, while it is there. */
  answer: ReconciledUsage['kind'] = 'added';

  override async decide(asks: Parameters<FakeLedger['decide']>[0]) {
    if (this.away) throw new NothingDone('away');
    if (this.silent) throw new Failure('store_unavailable', 'late');
    return super.decide(asks);
  }

  async reconcile(debts: readonly DeferredUsage[]): Promise<readonly ReconciledUsage[]> {
    const answer = this.away ? 'refused' : this.silent ? 'lost' : this.answer;
    if (answer !== 'refused') this.brought.push(...debts.filter(({ windows }) => windows.length > 0));
    return debts.map(({ windows }) =>
      answer === 'added' ? { kind: answer, added: windows.map(({ window }) => window) } : { kind: answer },
    );
  }
}

function outageOn(store = new Store(), options: Partial<AdmitterOptions> = {}) {
  const counts: Record<string, number> = {};
  const count = (what: string, n: number) => {
    counts[what] = (counts[what] ?? 0) + n;
  };
  const made = admitterOn(store, {
    reconciler: store,
    onLocalDecision: count,
    onReturned: (window, outcome, spent) => count(`${window} ${outcome}`, spent),
    ...options,
  });
  return { ...made, store, counts };
}

const spentOf = (debts: readonly DeferredUsage[]) =>
  debts.map(({ consumerId, windows }) => `${consumerId} ${windows.map(({ window, spent }) => `${window} ${spent}`)}`);

describe('what was admitted while the store was away', () => {
  test('is brought to it once, before it decides about that key again', async () => {
    const { burst, one, store, admitter, counts } = outageOn();
    await burst('a', plan, 2);
    store.away = true;
    await burst('a', plan, 3);
    await burst('a', plan, 1, 2);
    expect(admitter.backlogSize).toBe(1);
    store.away = false;
    const calls = store.calls.length;
    const order: string[] = [];
    const reconcile = store.reconcile.bind(store);
    store.reconcile = async (debts) => {
      order.push('brought');
      return reconcile(debts);
    };
    store.onTheWay = () => {
      order.push('asked');
    };
    await one('a', plan);
    expect(order.slice(0, 2)).toEqual(['brought', 'asked']);
    expect(store.calls).toHaveLength(calls + 1);
    expect(spentOf(store.brought)).toEqual(['a minute 5']);
    await one('a', plan);
    expect(store.brought).toHaveLength(1);
    expect(admitter.backlogSize).toBe(0);
    expect(counts).toEqual({ owed: 4, 'minute added': 5 });
  });

  test('is brought also for keys that nobody uses any more, a few at a time', async () => {
    const { admitter, store } = outageOn();
    const sizes: number[] = [];
    const reconcile = store.reconcile.bind(store);
    store.reconcile = async (debts) => {
      if (!store.away) sizes.push(debts.length);
      return reconcile(debts);
    };
    store.away = true;
    await Promise.all(Array.from({ length: 300 }, (_, i) => admitter.admit(`k${i}`, plan, 1)));
    expect(admitter.backlogSize).toBe(300);
    store.away = false;
    await eventually(() => expect(admitter.backlogSize).toBe(0));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(64);
    expect(store.brought).toHaveLength(300);
  });

  test('keeps its window apart from the next one', async () => {
    const { burst, store, pass, one } = outageOn();
    store.away = true;
    await burst('a', plan, 3);
    pass(60_001);
    await burst('a', plan, 2);
    store.away = false;
    await one('a', plan);
    expect(spentOf(store.brought)).toEqual(['a minute 2']);
  });

  test('is brought without what has left a sliding window meanwhile', async () => {
    const sliding = allowance({ minute: 10 }, null, { minute: { slices: 12 } });
    const { burst, store, pass, one, counts } = outageOn();
    store.away = true;
    await burst('a', sliding, 3);
    pass(30_000);
    await burst('a', sliding, 2);
    pass(34_999);
    await burst('a', sliding, 1);
    pass(1);
    await burst('a', sliding, 1);
    store.away = false;
    await one('a', sliding);
    expect(spentOf(store.brought)).toEqual(['a minute 4']);
    expect(counts).toMatchObject({ 'minute ended': 3, 'minute added': 4 });
  });

  test('has its cost by the hour for the history: that of one hour is summed, that of the next one is apart', async () => {
    const recorded = { ...plan, history: 'admitted' as const };
    const { burst, one, store, pass } = outageOn();
    const hour = Math.floor(store.nowMs / 3_600_000);
    store.away = true;
    await burst('a', recorded, 3);
    pass(1_000);
    await burst('a', recorded, 1, 2);
    // More than the limit: what is refused is in no history.
    await burst('a', recorded, 9, 1);
    pass(3_600_000);
    await burst('a', recorded, 4);
    store.away = false;
    await one('a', recorded);
    expect(store.brought.map(({ hours }) => hours)).toEqual([
      new Map([
        [hour, 10],
        [hour + 1, 4],
      ]),
    ]);
  });

  test('has the cost of refused requests too where limits refuse nobody, and nothing where no history is kept', async () => {
    const { burst, one, store } = outageOn();
    const hour = Math.floor(store.nowMs / 3_600_000);
    store.away = true;
    await burst('all', { ...plan, history: 'all' }, 12);
    await burst('none', plan, 12);
    store.away = false;
    await one('all', { ...plan, history: 'all' });
    await one('none', plan);
    expect(store.brought.map(({ consumerId, hours }) => [consumerId, hours])).toEqual([
      ['all', new Map([[hour, 12]])],
      ['none', undefined],
    ]);
  });

  test('is not counted where the store refuses what is brought: it is brought again', async () => {
    const { burst, store, one, admitter } = outageOn();
    store.away = true;
    await burst('a', plan, 3);
    store.away = false;
    store.answer = 'refused';
    expect(await one('a', plan)).toMatchObject({ source: 'local', verdict: { kind: 'admitted' } });
    expect(admitter.backlogSize).toBe(1);
    store.answer = 'added';
    await one('a', plan);
    expect(spentOf(store.brought)).toEqual(['a minute 4']);
  });

  test('is never brought twice where the answer to bringing it was lost', async () => {
    const { burst, store, one, counts } = outageOn();
    store.away = true;
    await burst('a', plan, 3);
    store.away = false;
    store.answer = 'lost';
    await one('a', plan);
    store.answer = 'added';
    await eventually(async () => expect(await one('a', plan)).toMatchObject({ source: 'store' }));
    const spent = store.brought.flatMap(({ windows }) => windows.map((window) => window.spent));
    // The three once; and those that were asked about it while it was in doubt.
    expect(spent[0]).toBe(3);
    expect(spent.slice(1).reduce((sum, each) => sum + each, 0)).toBe((counts.owed ?? 0) - 3);
    expect(counts['minute lost']).toBe(3);
  });

  test('is bounded: those that owe for the longest time are let off, and that is told', async () => {
    const { one, store, admitter, counts } = outageOn(new Store(), { remembered: 3 });
    store.away = true;
    for (const id of ['a', 'b', 'c', 'd', 'e']) await one(id, plan);
    expect(admitter.backlogSize).toBe(3);
    expect(counts['minute lost']).toBe(2);
  });

  test('is told with the gateway its own time where it never heard the store’s', async () => {
    const { one, store, pass } = outageOn(new Store());
    store.away = true;
    await one('a', plan);
    pass(5_000);
    store.away = false;
    await one('a', plan);
    expect(store.brought[0]!.ownNowMs).toBe(store.nowMs);
  });
});

test('usage by the gateway its own clock is kept when the store’s clock becomes known before it is brought', async () => {
  const store = new Store();
  const aheadMs = 7_200_000;
  const { admitter, one } = outageOn(store, { timeoutMs: 120, wallMs: () => store.nowMs - aheadMs });
  const slow = Promise.withResolvers<void>();
  store.onTheWay = () => slow.promise;
  const first = admitter.admit('a', plan, 1);
  await new Promise(setImmediate);
  await Promise.all([admitter.admit('a', plan, 1, 120), admitter.admit('a', plan, 1, 120)]);
  store.answer = 'refused';
  slow.resolve();
  await first;
  await one('a', plan);
  store.answer = 'added';
  await eventually(() => expect(admitter.backlogSize).toBe(0));
  expect(spentOf(store.brought)).toEqual(['a minute 3']);
  const [{ ownNowMs, windows } = { ownNowMs: 0, windows: [] }] = store.brought;
  expect(ownNowMs).toBe(null);
  expect(windows[0]!.endsAtMs).toBe(store.nowMs + 60_000);
});

describe('a call that was given up', () => {
  test('counts as applied: of a silent store one call is in the open for each key, all the rest is brought', async () => {
    const { burst, store, counts, admitter } = outageOn();
    await burst('a', plan, 1);
    store.silent = true;
    await burst('a', plan, 2);
    expect(counts).toEqual({ sent: 2 });
    await burst('a', plan, 3);
    await burst('a', plan, 1);
    expect(counts).toEqual({ sent: 2, owed: 4 });
    expect(store.brought).toEqual([]);
    store.silent = false;
    await eventually(() => expect(admitter.backlogSize).toBe(0));
    expect(spentOf(store.brought)).toEqual(['a minute 4']);
  });

  test('leaves the requests that came behind it unsent', async () => {
    const { admitter, store, counts } = outageOn();
    let give = () => {};
    const decide = store.decide.bind(store);
    store.decide = async (asks) => {
      await new Promise<void>((resolve) => (give = resolve));
      return decide(asks);
    };
    store.silent = true;
    const first = admitter.admit('a', plan, 1);
    await new Promise(setImmediate);
    const behind = [admitter.admit('a', plan, 1), admitter.admit('a', plan, 1)];
    await new Promise(setImmediate);
    give();
    expect((await Promise.all([first, ...behind])).map(kindOf)).toEqual(['admitted', 'admitted', 'admitted']);
    expect(counts).toEqual({ sent: 1, owed: 2 });
  });
});

describe('the time that a request may wait', () => {
  /** What each has become so far; undefined as long as it waits. */
  const settledOf = (admissions: readonly (AdmissionResult | Promise<AdmissionResult>)[]) => {
    const settled: (AdmissionResult | undefined)[] = admissions.map(() => undefined);
    for (const [i, it] of admissions.entries()) {
      void Promise.resolve(it).then((result) => {
        settled[i] = result;
      });
    }
    return settled;
  };
  const slow = (options: Partial<AdmitterOptions> = {}) => {
    const made = outageOn(new Store(), { timeoutMs: 120, ...options });
    made.store.onTheWay = () => new Promise((resolve) => setTimeout(resolve, 200));
    return made;
  };

  test('is what is left after it has waited for its key', async () => {
    const pass = holdTime();
    const { admitter, counts } = slow();
    const admissions = settledOf([admitter.admit('a', plan, 1, 90)]);
    await pass(0);
    await pass(29);
    expect(admissions).toEqual([undefined]);
    await pass(1);
    expect(admissions).toMatchObject([{ source: 'local', verdict: { kind: 'admitted' } }]);
    // It was sent.
    expect(counts).toEqual({ sent: 1 });
  });

  test('that is used up is not begun again: nothing is sent', async () => {
    const { admitter, store, counts } = slow();
    expect(admitter.admit('a', plan, 1, 120)).toMatchObject({ source: 'local' });
    expect(store.calls).toEqual([]);
    expect(counts).toEqual({ owed: 1 });
  });

  test('holds for those behind a call under way, and nobody else has less of it', async () => {
    const pass = holdTime();
    const { admitter } = slow();
    const first = admitter.admit('a', plan, 1);
    await pass(0);
    const admissions = settledOf([admitter.admit('b', plan, 1, 100), admitter.admit('a', plan, 1), first]);
    await pass(0);
    await pass(20);
    expect(admissions).toMatchObject([{ source: 'local' }, undefined, undefined]);
    await pass(99);
    expect(admissions).toMatchObject([{ source: 'local' }, undefined, undefined]);
    await pass(1);
    expect(admissions).toMatchObject([{ source: 'local' }, { source: 'local' }, undefined]);
    // The store takes its time twice.
    await pass(280);
    expect(admissions.at(-1)).toMatchObject({ source: 'store' });
  });
});

test('usage of several accounts is owed to each in what it counts, and to the histories of the customer and of units', async () => {
  const T0 = 1_800_000_000_000;
  const sent: DeferredUsage[] = [];
  const reconcile = async (debts: readonly DeferredUsage[]): Promise<readonly ReconciledUsage[]> => {
    sent.push(...debts);
    return debts.map(() => ({ kind: 'added', added: [] }));
  };
  const backlog = new UsageBacklog({
    ...{ reconciler: { reconcile }, most: 100, wallMs: () => T0, isBeingDecided: () => true },
  });
  const scope = 'customer';
  const of = alsoCharging({ ...plan, history: 'admitted', inUnits: ['tokens'] }, [
    budgetOf({ scope, limits: [windowLimit('hour', 50)] }),
    budgetOf({ scope, group: 'search', limits: [windowLimit('minute', 50)] }),
    budgetOf({ scope, unit: 'tokens', limits: [windowLimit('day', 500)] }),
  ]);
  const counted = (window: string, used: number) => ({
    ...UNSEEN,
    windows: { [window]: { used, endsAtMs: T0 + 9_000 } },
  });
  const accounts = [counted('minute', 4), counted('hour', 4), counted('minute', 4), counted('day', 80)] as const;
  const ids = accountIdsOf('cus_1/key_1', of);
  const outcome = { nowMs: T0, cost: 2, n: 3, admitted: 2, bannedFrom: 3, amounts: { tokens: 40 }, accounts };
  backlog.defer(ids, outcome, of, false);
  const whole = backlog.withBacklog(ids, accounts, T0)!;
  expect(whole.map(({ windows }) => Object.values(windows).map(({ used }) => used))).toEqual([
    ...[[8], [8], [8], [160]],
  ]);
  expect(backlog.withBacklog(['key_2', 'key_2#a', 'key_2#b', 'key_2#c'], accounts, T0)).toBeNull();
  const ofOthers = backlog.withBacklog(['cus_1/key_2', ...ids.slice(1)], accounts, T0)!;
  expect(ofOthers[0]).toEqual(accounts[0]);
  await backlog.reconcile([...ids, 'cus_1/key_1%tokens']);
  const hour = hourOf(T0);
  const owed = sent.map(({ consumerId, windows, hours = [] }) => [
    ...[consumerId, windows.map(({ window, spent }) => `${window} ${spent}`).join(), [...hours]],
  ]);
  expect(owed).toEqual([
    ['cus_1/key_1', 'minute 4', [[hour, 4]]],
    ['cus_1', 'hour 4', [[hour, 4]]],
    ['cus_1#search', 'minute 4', []],
    ['cus_1%tokens', 'day 80', [[hour, 80]]],
    ['cus_1/key_1%tokens', '', [[hour, 80]]],
  ]);
});
