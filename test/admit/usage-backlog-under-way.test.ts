import { expect, test } from 'vitest';
import type { AdmitterOptions } from '../../src/admit/admit.ts';
import { type DeferredUsage, NothingDone, type ReconciledUsage } from '../../src/admit/ledger.ts';
import { allowance } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { holdTime } from '../support/hold-time.ts';
import { admitterOn, kindOf } from './admitter.ts';
import { FakeLedger } from './fake-ledger.ts';

// Attack: a store that is slow, comes, goes, and is told things while others are decided without it.

/** A store that lets each call wait for the test, and can be gone. */
class SlowStore extends FakeLedger {
  readonly brought: DeferredUsage[] = [];
  answer: () => Promise<'added' | 'refused'> = async () => (this.away ? 'refused' : 'added');

  override async decide(asks: Parameters<FakeLedger['decide']>[0]) {
    if (this.away) throw new NothingDone('away');
    return super.decide(asks);
  }

  async reconcile(debts: readonly DeferredUsage[]): Promise<readonly ReconciledUsage[]> {
    const kind = await this.answer();
    if (kind === 'refused') return debts.map(() => ({ kind }));
    this.brought.push(...debts);
    return debts.map(({ windows }) => ({ kind, added: windows.map(({ window }) => window) }));
  }
}

function onSlowStore(options: Partial<AdmitterOptions> = {}) {
  const store = new SlowStore();
  return { store, ...admitterOn(store, { reconciler: store, timeoutMs: 50, ...options }) };
}

test('the late word of the store does not make a gateway forget what it admitted alone: its next outage has the rest', async () => {
  const { store, admitter, burst } = onSlowStore();
  const plan = allowance({ minute: 10 }, null);
  const slow = Promise.withResolvers<void>();
  store.onTheWay = () => slow.promise;
  const first = admitter.admit('a', plan, 1);
  await new Promise(setImmediate);
  // Their key was looked up so slowly that they have hardly any time left.
  const behind = await Promise.all(Array.from({ length: 9 }, () => admitter.admit('a', plan, 1, 49)));
  store.answer = async () => 'refused';
  slow.resolve();
  const admitted = [await first, ...behind].map(kindOf).filter((kind) => kind === 'admitted').length;
  store.away = true;
  const alone = (await burst('a', plan, 20)).map(kindOf).filter((kind) => kind === 'admitted').length;
  expect(admitted).toBe(10);
  expect(alone).toBe(0);
});

test('and nobody is refused from memory for what may not have reached the store', async () => {
  const { store, admitter, one } = onSlowStore();
  const plan = allowance({ minute: 3 }, null);
  const slow = Promise.withResolvers<void>();
  store.onTheWay = () => slow.promise;
  const first = admitter.admit('a', plan, 1);
  await new Promise(setImmediate);
  await Promise.all([admitter.admit('a', plan, 1, 49), admitter.admit('a', plan, 1, 49)]);
  slow.resolve();
  await first;
  await eventually(() => expect(admitter.backlogSize).toBe(0));
  expect(store.brought.flatMap(({ windows }) => windows.map(({ spent }) => spent))).toEqual([2]);
  expect(await one('a', plan)).toMatchObject({ source: 'store' });
});

test('what a store refused so late that the next window had begun does not drag the next one along', async () => {
  const told: string[] = [];
  const { store, admitter, burst, pass } = onSlowStore({
    onReturned: (window, outcome, spent) => told.push(`${window} ${outcome} ${spent}`),
  });
  const plan = allowance({ second: 5 }, null);
  store.away = true;
  await burst('a', plan, 3);
  const refusal = Promise.withResolvers<'refused'>();
  store.answer = () => refusal.promise;
  store.away = false;
  expect(kindOf(await admitter.admit('a', plan, 1))).toBe('admitted');
  pass(1_001);
  expect(kindOf(await admitter.admit('a', plan, 2))).toBe('admitted');
  store.answer = async () => 'added';
  refusal.resolve('refused');
  await eventually(() => expect(admitter.backlogSize).toBe(0));
  const [{ spent, endsAtMs } = { spent: 0, endsAtMs: 0 }] = store.brought.flatMap(({ windows }) => windows);
  expect(spent).toBe(2);
  expect(endsAtMs).toBeGreaterThan(store.nowMs);
  expect(told.sort()).toEqual(['second added 2', 'second ended 1', 'second ended 3']);
});

test('usage is not sent in the background while a decision about its key is in flight: only one call may be lost', async () => {
  const pass = holdTime();
  const { store, admitter } = onSlowStore();
  const plan = allowance({ minute: 10 }, null);
  const slow = Promise.withResolvers<void>();
  store.onTheWay = () => slow.promise;
  const first = admitter.admit('a', plan, 1);
  await pass(0);
  expect(kindOf(await admitter.admit('a', plan, 1, 50))).toBe('admitted');
  await pass(1_000);
  expect(store.brought).toEqual([]);
  slow.resolve();
  await first;
  await pass(1_000);
  expect(store.brought).toHaveLength(1);
});

test('a cost above the limit is asked about: the key may be banned by now, at another gateway', async () => {
  const ledger = new FakeLedger();
  const plan = allowance({ minute: 3 }, { after: 2 });
  const [here, there] = [admitterOn(ledger), admitterOn(ledger)];
  expect(kindOf(await here.one('a', plan, 4))).toBe('refused');
  await there.burst('a', plan, 5);
  expect(kindOf(await here.one('a', plan, 4))).toBe('banned');
});
