import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { PolicyChain, type PolicyDecision, type PolicyObserver } from '../../src/policies/chain.ts';
import { runningPolicy } from '../../src/policies/context.ts';
import type { Policy, PolicyCaller, PolicyRequest } from '../../src/policies/policy.ts';
import { holdTime } from '../support/hold-time.ts';

const REQUEST = {} as PolicyRequest;
const CALLER = {} as PolicyCaller;
const REFUSE = { refuse: { status: 403, code: 'no', message: 'No.' } };

/** A chain of policies, with what its observer was told. */
function chainOf(...policies: readonly unknown[]) {
  const told: string[] = [];
  const observer: PolicyObserver = {
    ran: (policy, outcome) => told.push(`${policy} ${outcome}`),
    failed: (policy, reason) => told.push(`${policy}: ${reason}`),
    wasSlow: (policy, ms) => told.push(`${policy} kept the thread for ${ms} ms`),
  };
  let nowMs = 0;
  const named = policies.map((policy, i) => ({ name: `p${i}`, policy: policy as Policy }));
  const chain = new PolicyChain(named, observer, { timeoutMs: 50, monotonicMs: () => nowMs });
  return { run: () => chain.run(REQUEST, CALLER), told, pass: (ms: number) => (nowMs += ms) };
}

test('policies that return no promise are asked at once, without one', () => {
  const { run, told } = chainOf(
    () => undefined,
    () => ({}),
    () => ({ cost: 2 }),
  );
  expect(run()).toMatchObject({ kind: 'allowed', cost: 2, headers: null });
  expect(told).toEqual(['p0 allowed', 'p1 allowed', 'p2 allowed']);
});

test('the first refusal or failure ends the run, whether there was a promise before or not', async () => {
  const never = () => {
    throw new Error('asked in vain');
  };
  for (const first of [() => ({ cost: 2 }), async () => ({ cost: 2 })]) {
    const { run, told } = chainOf(first, () => REFUSE, never);
    expect(await run()).toEqual({ kind: 'refused', policy: 'p1', status: 403, code: 'no', message: 'No.' });
    expect(told).toEqual(['p0 allowed', 'p1 refused']);
  }
});

test('fields of a later policy replace those of an earlier one in any letters', async () => {
  const { run } = chainOf(
    () => ({ headers: { 'X-A': '1', 'X-B': '1' }, cost: 4 }),
    async () => ({ headers: { 'x-a': '2' } }),
    () => ({ headers: { 'X-C': '3' } }),
  );
  expect(await run()).toMatchObject({ kind: 'allowed', cost: 4, headers: { 'X-B': '1', 'x-a': '2', 'X-C': '3' } });
});

const throwing = (message: string) => () => {
  throw new Error(message);
};
const failure = (reason: string): PolicyDecision => ({ kind: 'failed', policy: 'p0', reason });

test.each<[string, unknown, string]>([
  ['an error', () => Promise.reject(new TypeError('a\nb')), 'it threw TypeError: a'],
  ['a value whose text throws', () => Promise.reject(Object.create(null)), 'it threw a value without a text'],
  [
    'a result that throws',
    () => ({
      get cost() {
        throw new Error('g');
      },
    }),
    'its result threw Error: g',
  ],
  [
    'a promise whose `then` throws',
    () => Object.defineProperty({}, 'then', { get: throwing('t') }),
    'it threw Error: t',
  ],
  [
    'a promise of another kind',
    () => Object.fromEntries([['then', (done: (value: unknown) => void) => done({ cost: 0 })]]),
    '`cost` must be a whole number from 1 to 1000000000',
  ],
  [
    'a proxy',
    () =>
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error('p');
          },
        },
      ),
    'its result threw Error: p',
  ],
  [
    'a symbol',
    () => ({ [Symbol('s')]: 1 }),
    'the result has "Symbol(s)"; it may have refuse, cost, scopes, metadata, budgets, headers',
  ],
  ['a scope with a blank', () => ({ scopes: ['a b'] }), '`scopes` has an element at 0 that is no valid name'],
  ['metadata that is no text', () => ({ metadata: { team: 1 } }), 'the value of "team" in `metadata` is no text'],
  ['a name of metadata with a dot', () => ({ metadata: { 'a.b': 'c' } }), '`metadata` has "a.b"'],
  ['budgets without a list', () => ({ budgets: { groups: 'search' } }), '`budgets.groups` must be a list'],
  ['budgets of another kind', () => ({ budgets: { windows: [] } }), '`budgets` has "windows"; it may have groups'],
  [
    'a refusal beside scopes',
    () => ({ refuse: { status: 403, code: 'no', message: 'No.' }, scopes: [] }),
    '`refuse` must be the only member of its result',
  ],
  [
    'a prototype as a field',
    () => JSON.parse('{"headers":{"__proto__":"a\\nb"}}'),
    'the value of "__proto__" in `headers` is empty, longer',
  ],
])('%s fails the request and nothing else', async (_what, policy, reason) => {
  const { run, told } = chainOf(policy);
  const decision = await run();
  expect(decision).toEqual({ ...failure(''), reason: expect.stringContaining(reason) });
  expect(told).toEqual(['p0 failed', expect.stringContaining(reason)]);
});

test('a result that is there counts whatever the clock says, and a policy that keeps the thread is reported (reliability 353)', async () => {
  const looping = chainOf(() => {
    looping.pass(51);
    return { cost: 2 };
  });
  expect(looping.run()).toMatchObject({ kind: 'allowed', cost: 2 });
  const asynchronous = chainOf(async () => {
    asynchronous.pass(51);
    return REFUSE;
  });
  expect(await asynchronous.run()).toMatchObject({ kind: 'refused' });
  const punctual = chainOf(
    () => void punctual.pass(50),
    async () => void punctual.pass(50),
  );
  expect(await punctual.run()).toMatchObject({ kind: 'allowed' });
  expect([looping.told, asynchronous.told, punctual.told]).toEqual([
    ['p0 kept the thread for 51 ms', 'p0 allowed'],
    ['p0 kept the thread for 51 ms', 'p0 refused'],
    ['p0 allowed', 'p1 allowed'],
  ]);
});

test('a result that has reached the process while it stood still is no late one (reliability 353)', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [served] = (await once(server, 'connection')) as [Socket];
  const answer = chainOf(() => {
    const result = once(client, 'data').then(() => ({ cost: 2 }));
    served.write('x');
    answer.pass(51);
    return result;
  });
  expect(await answer.run()).toMatchObject({ kind: 'allowed', cost: 2 });
  client.destroy();
  served.destroy();
  server.close();
});

test('a result that comes after the end of the wait has no effect, and neither has an exception', async () => {
  const pass = holdTime();
  const later = Promise.withResolvers<object>();
  const { run, told } = chainOf(() => later.promise);
  const decision = run();
  await pass(49);
  expect(told).toEqual([]);
  await pass(1);
  expect(await decision).toEqual(failure('it took longer than 50 ms'));
  later.reject(new Error('late'));
  await new Promise(setImmediate);
  expect(told).toEqual(['p0 failed', 'p0: it took longer than 50 ms']);
});

test('code of a policy is known as its own, and what waits for it is not', async () => {
  const seen: unknown[] = [];
  const { run } = chainOf(async () => {
    seen.push(runningPolicy());
    await new Promise(setImmediate);
    seen.push(runningPolicy());
  });
  const decision = run();
  seen.push(runningPolicy());
  await decision;
  expect([...seen, runningPolicy()]).toEqual(['p0', undefined, 'p0', undefined]);
});
