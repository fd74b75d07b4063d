import { expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { admitterOn, kindOf } from './admitter.ts';
import type { FakeLedger } from './fake-ledger.ts';

const plan = allowance({ minute: 100 });

test('requests of one key in one turn are one ask, and all asks of a turn one call', async () => {
  const { admitter, ledger } = admitterOn();
  const answers = [];
  for (let i = 0; i < 90; i++) answers.push(admitter.admit(`key${i % 3}`, plan, i % 9 === 0 ? 5 : 1));
  const admissions = await Promise.all(answers);
  expect(ledger.calls).toHaveLength(1);
  expect(ledger.calls[0]!.map(({ consumerId, cost, n }) => `${consumerId} ${cost} ${n}`).toSorted()).toEqual([
    'key0 1 20',
    'key0 5 10',
    'key1 1 30',
    'key2 1 30',
  ]);
  expect(new Set(admissions.map(kindOf))).toEqual(new Set(['admitted']));
});

test('each of a turn is told its own place: the remaining requests go down one by one, in the order of arrival', async () => {
  const { burst } = admitterOn();
  const admissions = await burst('a', allowance({ minute: 5 }), 8);
  const told = admissions.map((result) =>
    result.kind === 'decided' ? [result.verdict.kind, result.verdict.binding?.remaining] : [],
  );
  expect(told).toEqual([
    ...[4, 3, 2, 1, 0].map((remaining) => ['admitted', remaining]),
    ...[0, 0, 0].map((remaining) => ['refused', remaining]),
  ]);
});

test('the next turn is the next call, also while the one before is under way', async () => {
  const { admitter, ledger } = admitterOn();
  const arrive = holdCalls(ledger);
  const first = admitter.admit('a', plan, 1);
  await new Promise(setImmediate);
  const second = [admitter.admit('b', plan, 1), admitter.admit('c', plan, 1)];
  await new Promise(setImmediate);
  expect(ledger.calls.map((asks) => asks.length)).toEqual([1, 2]);
  arrive();
  expect((await Promise.all([first, ...second])).map(kindOf)).toEqual(['admitted', 'admitted', 'admitted']);
});

test('of one key there is one call under way at a time: what comes meanwhile travels together, in its order', async () => {
  const { admitter, ledger } = admitterOn();
  const five = allowance({ minute: 5 });
  const arrive = holdCalls(ledger);
  const answers = [admitter.admit('a', five, 1)];
  for (let turn = 0; turn < 3; turn++) {
    await new Promise(setImmediate);
    answers.push(admitter.admit('a', five, 1), admitter.admit('a', five, 1));
  }
  await new Promise(setImmediate);
  expect(ledger.calls).toHaveLength(1);
  arrive();
  const told = (await Promise.all(answers)).map((it) => (it.kind === 'decided' ? it.verdict.binding?.remaining : null));
  expect(told).toEqual([4, 3, 2, 1, 0, 0, 0]);
  expect(ledger.calls.map((asks) => asks.map(({ n }) => n))).toEqual([[1], [6]]);
});

test('what waited for a call goes with what came in the turn of its answer, before it in order', async () => {
  const { admitter, ledger } = admitterOn();
  const five = allowance({ minute: 5 });
  const arrive = holdCalls(ledger);
  const answers = [admitter.admit('a', five, 1)];
  await new Promise(setImmediate);
  answers.push(admitter.admit('a', five, 1));
  await new Promise(setImmediate);
  // In the turn in which the answer is read, one request comes before it and one behind it.
  await new Promise<void>((resolve) => {
    setTimeout(() => {
      answers.push(admitter.admit('a', five, 1));
      arrive();
      // After the microtasks in which the answer is told.
      afterMicrotasks(20, () => {
        answers.push(admitter.admit('a', five, 1));
        resolve();
      });
    });
  });
  await new Promise(setImmediate);
  const told = (await Promise.all(answers)).map((it) => (it.kind === 'decided' ? it.verdict.binding?.remaining : null));
  expect(told).toEqual([4, 3, 2, 1]);
  expect(ledger.calls.map((asks) => asks.map(({ n }) => n))).toEqual([[1], [3]]);
});

test('a reload in the middle of a turn: each request is decided by the plan that it came under', async () => {
  const { admitter, ledger } = admitterOn();
  const [older, newer] = [allowance({ minute: 2 }), allowance({ minute: 5 })];
  const answers = [older, newer, older, newer, newer, older, newer].map((each) => admitter.admit('a', each, 1));
  const admissions = await Promise.all(answers);
  const limits = admissions.map((it) => (it.kind === 'decided' ? it.verdict.binding?.limit : null));
  expect(limits).toEqual([2, 5, 2, 5, 5, 2, 5]);
  expect(admissions.filter((it) => kindOf(it) === 'admitted')).toHaveLength(5);
  expect(ledger.calls[0]!.map(({ n }) => n)).toEqual([3, 4]);
});

test('consumers whose names look like a cost or like one another are kept apart (reliability 141)', async () => {
  const { admitter, ledger } = admitterOn();
  const names = ['a', '1 a', 'a 1', 'a 2', '1', '', ' ', '__proto__', 'a\0'];
  const [older, newer] = [allowance({ minute: 2 }), allowance({ minute: 2 })];
  const answers = names.flatMap((name) => [older, newer].map((each) => admitter.admit(name, each, 1)));
  expect((await Promise.all(answers)).map(kindOf)).toEqual(answers.map(() => 'admitted'));
  expect(ledger.calls[0]!.map(({ consumerId }) => consumerId)).toEqual(names.flatMap((name) => [name, name]));
});

/** So many microtasks later, in the same turn. */
function afterMicrotasks(count: number, then: () => void): void {
  if (count === 0) then();
  else queueMicrotask(() => afterMicrotasks(count - 1, then));
}

/** Holds all calls on their way until what is returned is called. */
function holdCalls(ledger: FakeLedger): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  ledger.onTheWay = () => promise;
  return resolve;
}
