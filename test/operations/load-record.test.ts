import { beforeEach, expect, test, vi } from 'vitest';
import { Failure } from '../../src/failure.ts';
import { LoadRecord } from '../../src/operations/load-record.ts';
import { FakeAuditStore } from '../admin/fake-audit-store.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { FakePlansHistory } from './fake-plans-history.ts';

const NAMES = { settings: 'gateway.yaml', plans: 'plans.yaml' };
const versions = (plans: string, settings = 'S') => ({ settings, plans });

/** What waits, until `timePasses`. */
let waiting: (() => void)[] = [];
const timePasses = async () => {
  await eventually(() => expect(waiting).not.toEqual([]));
  for (const go of waiting.splice(0)) go();
};
const pause = (_ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    waiting.push(resolve);
    signal.addEventListener('abort', () => resolve());
  });
beforeEach(() => {
  waiting = [];
});

/** A gateway whose plans.yaml changes as the test says. */
function gatewayOn(store: FakeAuditStore, inForce = versions('A'), history = new FakePlansHistory()) {
  const [lost, refusedByStore, plansAdded] = [vi.fn(), vi.fn(), vi.fn()];
  let [before, nowMs] = [inForce.plans, 0];
  const ofPlans = { history, plansText: () => `text of ${before}`, nowMs: () => ++nowMs };
  const options = { store, ...ofPlans, keep: () => 1_000, names: NAMES, versions: inForce, pause };
  const record = new LoadRecord({
    ...options,
    onLost: lost,
    onRefusedByStore: refusedByStore,
    onPlansAdded: plansAdded,
  });
  atEnd(() => record.close());
  return {
    lost,
    refusedByStore,
    takes: (version: string, changes: readonly string[] = []) => {
      const was = before;
      before = version;
      record.taken([{ file: 'plans', before: was, version, changes }], versions(version));
    },
    refuses: (version: string, fault = 'plans.yaml:1:1: bad') =>
      record.refused([{ file: 'plans', version, faults: [fault] }], versions(before)),
    findsTheSame: () => record.taken([], versions(before)),
  };
}

/** What the store has of the loads: the version before, and the one that was taken, or refused with `!`. */
function stepsIn({ kept }: FakeAuditStore): string[] {
  return kept.map(({ text }) => {
    const { outcome, before, after } = JSON.parse(text);
    return `${before.version} ${outcome === 'refused' ? '!' : ''}${after.version}`;
  });
}

const settled = (store: FakeAuditStore, state: string) =>
  eventually(() => expect(store.loads.get('plans')?.at(-1)).toBe(state));

test('a file that many gateways take is one entry, and a version that comes back is another one', async () => {
  const store = new FakeAuditStore();
  const gateways = [1, 2, 3].map(() => gatewayOn(store));
  for (const version of ['B', 'A', 'B']) {
    for (const gateway of gateways) gateway.takes(version, ['starter minute 10 → 6']);
    await settled(store, version);
  }
  expect(stepsIn(store)).toEqual(['A B', 'B A', 'A B']);
  expect(JSON.parse(store.kept[0]!.text)).toEqual({
    action: 'plans.load',
    actor: { kind: 'file', name: 'plans.yaml' },
    ...{ outcome: 'done', code: null, target: null, requestId: null, clientAddress: null },
    ...{ before: { version: 'A' }, after: { version: 'B', changes: ['starter minute 10 → 6'] } },
  });
});

test('a first start records nothing, a later one what has changed while no gateway ran, once', async () => {
  const store = new FakeAuditStore();
  gatewayOn(store);
  await settled(store, 'A');
  expect(store.kept).toEqual([]);
  const later = [gatewayOn(store, versions('C')), gatewayOn(store, versions('C'))];
  await settled(store, 'C');
  for (const gateway of later) gateway.takes('D');
  await settled(store, 'D');
  expect(stepsIn(store)).toEqual(['A C', 'C D']);
});

test('a refused file is one entry with its faults, again if it comes again; mending it is an entry, putting it back is none', async () => {
  const store = new FakeAuditStore();
  const gateways = [gatewayOn(store), gatewayOn(store)];
  for (const gateway of gateways) gateway.refuses('X');
  await settled(store, 'A !X');
  for (const gateway of gateways) gateway.findsTheSame();
  await settled(store, 'A');
  for (const gateway of gateways) gateway.refuses('X');
  await settled(store, 'A !X');
  for (const gateway of gateways) gateway.takes('B');
  await settled(store, 'B');
  expect(stepsIn(store)).toEqual(['A !X', 'A !X', 'A B']);
  const { action, outcome, code, after } = JSON.parse(store.kept[0]!.text);
  expect([action, outcome, code]).toEqual(['plans.load', 'refused', 'bad_settings']);
  expect(after).toEqual({ version: 'X', faults: ['plans.yaml:1:1: bad'] });
});

test('what the console has written is not recorded a second time', async () => {
  const store = new FakeAuditStore();
  const gateways = [gatewayOn(store), gatewayOn(store)];
  await settled(store, 'A');
  await store.exchangeLoad('plans', { from: null, to: 'B', since: null });
  for (const gateway of gateways) gateway.takes('B');
  for (const gateway of gateways) gateway.takes('C');
  await settled(store, 'C');
  expect(stepsIn(store)).toEqual(['B C']);
});

test('while the store is away loads wait in their order, and each is there once, also if only the answer was lost', async () => {
  const store = new FakeAuditStore();
  const gateway = gatewayOn(store);
  await settled(store, 'A');
  store.fails = () => true;
  gateway.takes('B');
  gateway.takes('A');
  await timePasses();
  await eventually(() => expect(waiting).not.toEqual([]));
  expect(store.kept).toEqual([]);
  // The next exchange is made, and its record fails.
  let calls = 0;
  store.fails = () => ++calls === 2;
  await timePasses();
  await timePasses();
  await eventually(() => expect(stepsIn(store)).toEqual(['A B', 'B A']));
  expect(gateway.lost).not.toHaveBeenCalled();
});

test('a gateway that is behind records nothing backwards, and in the end what no other one does', async () => {
  const store = new FakeAuditStore();
  const [quick, slow] = [gatewayOn(store), gatewayOn(store)];
  quick.takes('B');
  quick.takes('C');
  await settled(store, 'C');
  slow.takes('B');
  slow.takes('C');
  slow.takes('D');
  await settled(store, 'D');
  expect(stepsIn(store)).toEqual(['A B', 'B C', 'C D']);
  // Another file than that of the others.
  gatewayOn(store, versions('X')).takes('Y');
  await timePasses();
  await settled(store, 'Y');
  expect(stepsIn(store).slice(3)).toEqual(['X Y']);
});

// Fault: gateways that were cut off together replayed their steps over each other's, each time that the state came round again.
test('gateways that were cut off together record each step once', async () => {
  const store = new FakeAuditStore();
  const gateways = [1, 2, 3].map(() => gatewayOn(store));
  await settled(store, 'A');
  store.fails = () => true;
  for (const version of ['B', 'A', 'B', 'A']) for (const gateway of gateways) gateway.takes(version);
  await eventually(() => expect(waiting).toHaveLength(3));
  store.fails = () => false;
  await timePasses();
  await eventually(() => expect(store.loads.get('plans')).toEqual(['A', 'B', 'A', 'B', 'A']));
  expect(stepsIn(store)).toEqual(['A B', 'B A', 'A B', 'B A']);
});

test('a gateway that was cut off alone adds nothing to what the others have recorded, but what it alone has seen', async () => {
  const store = new FakeAuditStore();
  const [other, alone] = [gatewayOn(store), gatewayOn(store)];
  await settled(store, 'A');
  for (const version of ['B', 'A', 'B']) other.takes(version);
  await settled(store, 'B');
  for (const version of ['B', 'A', 'B', 'C']) alone.takes(version);
  await settled(store, 'C');
  expect(stepsIn(store)).toEqual(['A B', 'B A', 'A B', 'B C']);
});

test('an entry that the store did not take is put again, although another gateway has recorded a later step', async () => {
  const store = new FakeAuditStore();
  const [one, other] = [gatewayOn(store), gatewayOn(store)];
  await settled(store, 'A');
  let calls = 0;
  store.fails = () => ++calls === 2;
  one.takes('B');
  await eventually(() => expect(waiting).toHaveLength(1));
  other.takes('B');
  other.takes('C');
  await settled(store, 'C');
  await timePasses();
  await eventually(() => expect(stepsIn(store).toSorted()).toEqual(['A B', 'B C']));
});

test('a store that answers and does not take a load is reported once for it', async () => {
  const store = new FakeAuditStore();
  const gateway = gatewayOn(store);
  await settled(store, 'A');
  store.exchangeLoad = () => Promise.reject(new Failure('store_corrupt', 'Not a hash.'));
  gateway.takes('B');
  for (let i = 0; i < 3; i++) await timePasses();
  expect(gateway.refusedByStore).toHaveBeenCalledTimes(1);
});

test('of loads that wait for the store a hundred are kept, and each further one is reported', async () => {
  const store = new FakeAuditStore();
  store.fails = () => true;
  const gateway = gatewayOn(store);
  for (let i = 0; i < 120; i++) gateway.takes(`v${i}`);
  expect(gateway.lost.mock.calls.length).toBe(21);
  expect(gateway.lost.mock.calls[0]![0]).toMatchObject({ action: 'plans.load', after: { version: 'v0' } });
});

const inHistory = async (history: FakePlansHistory) =>
  (await history.list()).toReversed().map(({ version, sinceMs, by }) => [version, sinceMs, by]);
const FILE = { kind: 'file', name: 'plans.yaml' } as const;

test('each version that came into force is once in the history, also the first, with its text and the time at which it was taken', async () => {
  const [store, history] = [new FakeAuditStore(), new FakePlansHistory()];
  const gateways = [gatewayOn(store, versions('A'), history), gatewayOn(store, versions('A'), history)];
  await settled(store, 'A');
  for (const gateway of gateways) gateway.takes('B');
  await settled(store, 'B');
  store.fails = () => true;
  for (const gateway of gateways) gateway.takes('A');
  for (const gateway of gateways) gateway.takes('C');
  await eventually(() => expect(waiting).toHaveLength(2));
  store.fails = () => false;
  await timePasses();
  await settled(store, 'C');
  const expected = [1, 2, 3, 4].map((at) => [['A', 'B', 'A', 'C'][at - 1], at, FILE]);
  await eventually(async () => expect(await inHistory(history)).toEqual(expected));
  expect(await history.text((await history.list())[0]!.number)).toBe('text of C');
});

test('a refused file, and a start with the version that was in force last, add nothing to the history', async () => {
  const [store, history] = [new FakeAuditStore(), new FakePlansHistory()];
  const gateway = gatewayOn(store, versions('A'), history);
  gateway.refuses('X');
  gateway.findsTheSame();
  await settled(store, 'A');
  gatewayOn(store, versions('A'), history);
  gatewayOn(store, versions('B'), history);
  await settled(store, 'B');
  await eventually(async () => expect((await inHistory(history)).map(([version]) => version)).toEqual(['A', 'B']));
});

test('a version whose entry the store did not take is added by the next gateway, and the writer whom the store knows stays', async () => {
  const [store, history] = [new FakeAuditStore(), new FakePlansHistory()];
  const gateway = gatewayOn(store, versions('A'), history);
  await settled(store, 'A');
  await eventually(async () => expect(await inHistory(history)).toHaveLength(1));
  const { number } = await store.exchangeLoad('plans', { from: null, to: 'B', since: null });
  const by = { kind: 'token', name: 'jo' } as const;
  await history.claim(number, { by, reason: null, changes: null });
  history.fails = true;
  gateway.takes('B');
  await eventually(() => expect(waiting).toHaveLength(1));
  history.fails = false;
  gatewayOn(store, versions('B'), history);
  await eventually(async () => expect((await inHistory(history))[1]).toEqual(['B', 1, by]));
});
