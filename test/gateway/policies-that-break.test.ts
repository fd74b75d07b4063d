import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { startUpstream } from '../support/upstream.ts';

// A policy that does what it likes: its request gets 500 or its result counts, and the gateway serves on.

const THROW = (message: string) => `() => { throw new Error('${message}'); }`;
const HOSTILE_PROXY = `new Proxy({}, { get: ${THROW('get')}, getPrototypeOf: ${THROW('getPrototypeOf')} })`;
const ERROR_WITH = (member: string) =>
  `Object.defineProperty(new Error('x'), '${member}', { get: ${THROW('getter')} })`;

/** What a policy does, the status that its request gets, and how many errors of it no request waits for. */
type Form = readonly [what: string, code: string, status: number, strays?: number];

const FORMS: readonly Form[] = [
  // What it begins and does not wait for.
  ['a promise that rejects and is not returned', `Promise.reject(new Error('s')); return {};`, 200, 1],
  ['such a promise, with a value that is no error', `Promise.reject(5); return {};`, 200, 1],
  ['such a promise, with a hostile proxy', `Promise.reject(${HOSTILE_PROXY}); return {};`, 200, 1],
  ['such a promise, with a huge error', `Promise.reject(new Error('x'.repeat(5e6))); return {};`, 200, 1],
  ['a request without a catch', `fetch('http://127.0.0.1:1/'); return {};`, 200, 1],
  ['an exception in a timer', `setTimeout(${THROW('s')}, 5); return {};`, 200, 1],
  ['an exception in setImmediate', `setImmediate(${THROW('s')}); return {};`, 200, 1],
  ['an exception in nextTick', `process.nextTick(${THROW('s')}); return {};`, 200, 1],
  ['an exception in a microtask', `queueMicrotask(${THROW('s')}); return {};`, 200, 1],
  [
    'an exception in an interval',
    `let n = 0; const i = setInterval(() => { if (++n === 3) clearInterval(i); throw new Error('s'); }, 1); return {};`,
    ...[200, 3],
  ] as unknown as Form,
  [
    'an event `error` without a listener',
    `setTimeout(() => new EventEmitter().emit('error', 5), 1); return {};`,
    200,
    1,
  ],
  ['a socket without a listener', `connect(1, '127.0.0.1'); return {};`, 200, 1],
  ['a worker that throws', `new Worker('throw new Error()', { eval: true }); return {};`, 200, 1],
  [
    'an error with a hostile message, in a timer',
    `setTimeout(() => { throw ${ERROR_WITH('message')}; }, 1); return {};`,
    200,
    1,
  ],
  [
    'an error with a hostile stack, in a timer',
    `setTimeout(() => { throw ${ERROR_WITH('stack')}; }, 1); return {};`,
    200,
    1,
  ],
  ['a `then` that throws later', `return { then(done) { setTimeout(${THROW('s')}, 1); done({}); } };`, 200, 1],
  [
    'an exception after an await, in a promise that is not returned',
    `(async () => { await null; throw new Error('s'); })(); return {};`,
    200,
    1,
  ],
  ['an exception in an interval that its module has begun', `wanted = true; return {};`, 200, 1],
  // Odd promises.
  [
    'a promise whose `constructor` throws',
    `return Object.defineProperty(Promise.resolve({}), 'constructor', { get: ${THROW('c')} });`,
    500,
  ],
  [
    'a promise whose `then` throws',
    `return Object.defineProperty(Promise.resolve({}), 'then', { value: ${THROW('t')} });`,
    500,
  ],
  [
    'a `then` that is a function once',
    `let n = 0; return { get then() { if (n++ === 0) return () => {}; throw new Error('t'); } };`,
    500,
  ],
  ['a `then` that throws', `return { then() { throw new Error('t'); } };`, 500],
  [
    'a `then` that answers several times',
    `return { then(a, b) { a({}); a({ refuse: { status: 403, code: 'x', message: 'm' } }); b(new Error('y')); } };`,
    200,
  ],
  ['a promise that never settles', `return new Promise(() => {});`, 500],
  [
    'a promise that rejects too late',
    `return new Promise((_, reject) => setTimeout(reject, 10_000, new Error('late')));`,
    500,
  ],
  ['a promise that rejects with a hostile proxy', `return Promise.reject(${HOSTILE_PROXY});`, 500],
  // Odd errors.
  ['a symbol as its exception', `throw Symbol('s');`, 500],
  ['null as its exception', `throw null;`, 500],
  ['a hostile proxy as its exception', `throw ${HOSTILE_PROXY};`, 500],
  ['an exception without a text', `throw { toString() { throw 1; } };`, 500],
  ['an error whose message throws', `throw ${ERROR_WITH('message')};`, 500],
  ['an error whose stack throws', `throw ${ERROR_WITH('stack')};`, 500],
  ['an error whose name throws', `throw ${ERROR_WITH('name')};`, 500],
  ['an error whose cause throws', `throw ${ERROR_WITH('cause')};`, 500],
  ['an error with itself as its cause', `const e = new Error('x'); e.cause = e; throw e;`, 500],
  ['an error that contains itself', `const e = new Error('x'); e.self = { e: [e, 1n] }; throw e;`, 500],
  ['a frozen error', `throw Object.freeze(new Error('x'));`, 500],
  ['an error whose toJSON throws', `throw Object.assign(new Error('x'), { more: { toJSON: ${THROW('j')} } });`, 500],
  ['a huge error', `throw new Error('x'.repeat(5e6));`, 500],
  ['an error with a huge member', `throw Object.assign(new Error('x'), { body: 'x'.repeat(5e6) });`, 500],
  // Odd results.
  ['a proxy whose names throw', `return new Proxy({}, { ownKeys: ${THROW('o')} });`, 500],
  ['a proxy whose members are numbers', `return new Proxy({}, { get: () => 7, ownKeys: () => [] });`, 500],
  ['a cost that is read once', `let n = 0; return { get cost() { return n++ === 0 ? 1 : NaN; } };`, 200],
  ['a cost of nothing', `return { cost: 0 };`, 500],
  ['a cost that is no number', `return { cost: NaN };`, 500],
  ['a number', `return 5;`, 500],
  ['a list', `return [];`, 500],
  ['null', `return null;`, 500],
  ['an instance of a class', `return new (class { cost = 5; })();`, 500],
  ['a status that is no whole number', `return { refuse: { status: 418.5, code: 'a', message: 'b' } };`, 500],
  ['a message with line breaks', `return { refuse: { status: 418, code: 'a', message: 'b\\r\\nX: \\u2028' } };`, 418],
  // Values of the client.
  ['metadata with a line break', `return { metadata: { team: 'a\\r\\nX-Evil: 1' } };`, 500],
  ['metadata beyond ASCII', `return { metadata: { team: 'ü☃' } };`, 500],
  ['a field with a line break', `return { headers: { 'X-A': 'a\\r\\nb: c' } };`, 500],
  ['a field of the framing', `return { headers: { 'Transfer-Encoding': 'chunked' } };`, 500],
  ['a field of the gateway', `return { headers: { 'x-consumer-id': 'a' } };`, 500],
  ['X-Forwarded-For', `return { headers: { 'X-Forwarded-For': 'a' } };`, 500],
  ['Connection', `return { headers: { Connection: 'X-Consumer-Id' } };`, 500],
  [
    'groups that no plan can have',
    `return { budgets: { groups: ['send_mail', 'sendMail', 'files.read', 'file:///etc/passwd', 'x'.repeat(200), '', '__proto__'] } };`,
    200,
  ],
  ['a group that is no text', `return { budgets: { groups: [5] } };`, 500],
  // What it does to others.
  [
    'changes of what it sees',
    `for (const change of [() => { request.headers.x = 1; }, () => caller.scopes.push('admin'), () => { caller.metadata.team = 'evil'; }, () => { request.route.names.x = 1; }]) try { change(); } catch {} return {};`,
    200,
  ],
  ['200 ms of the thread', `for (const end = performance.now() + 200; performance.now() < end; ); return {};`, 200],
  [
    '200 ms of the thread, in a promise that is there then',
    `return (async () => { for (const end = performance.now() + 200; performance.now() < end; ); return {}; })();`,
    200,
  ],
];

const MODULE = `import { EventEmitter } from 'node:events';
import { connect } from 'node:net';
import { Worker } from 'node:worker_threads';
let wanted = false;
setInterval(() => { if (wanted) { wanted = false; throw new Error('begun at its import'); } }, 5);
const forms = [
${FORMS.map(([, code]) => `(request, caller) => { ${code} },`).join('\n')}
];
export default (request, caller) => forms[Number(request.query)](request, caller);
`;

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly policy?: string;
  readonly count?: number;
}

let gateway: TestGateway;
let policy: string;
let key: string;

beforeAll(async () => {
  policy = join(await temporaryFolder(), 'break.mjs');
  await writeFile(policy, MODULE);
  const upstream = await startUpstream();
  gateway = await startGateway({
    upstream: upstream.origin,
    routes: `
  - { path: /breaks, methods: [GET], upstream: store, headers: { request: { set: { X-Team: '{consumer.meta.team}' } } }, policies: ['${policy}'] }
  - { path: /without, methods: [GET], upstream: store }
`,
  });
  ({ key } = await gateway.createKey('endless'));
});

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(name) && one.includes(`policy="${policy}"`));
  return Number(line?.split(' ').at(-1));
}

const strays = () => metric('tollgate_policy_stray_errors_total');

const linesOf = (message: RegExp) =>
  gateway.process.stdout
    .split('\n')
    .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Line] : []))
    .filter(({ msg }) => message.test(msg));

const counted = (message: string) => linesOf(new RegExp(`^${message}$`)).reduce((sum, { count }) => sum + count!, 0);

test.each(FORMS.map(([what, , status, added = 0], i) => [what, i, status, added] as const))(
  'a policy with %s leaves the gateway as it was (reliability 351)',
  async (_what, form, status, added) => {
    const before = await strays();
    const answer = await gateway.get(`/breaks?${form}`, key);
    const body = await answer.text();
    expect(answer.status, body).toBe(status);
    if (status === 500) expect(JSON.parse(body)).toMatchObject({ code: 'policy_failed' });
    await eventually(async () => expect(await strays()).toBe(before + added));
    expect((await gateway.get('/without', key)).status).toBe(200);
  },
);

test('the lines about a policy name it, count what has happened, and are short (reliability 352)', async () => {
  const failures = FORMS.filter(([, , status]) => status === 500).length;
  await eventually(async () => {
    expect(counted('a policy failed')).toBe(failures);
    expect(counted('a policy failed outside of its requests')).toBe(await strays());
    expect(counted('a policy keeps the thread')).toBeGreaterThanOrEqual(2);
  });
  const lines = linesOf(/^a policy/);
  expect(new Set(lines.map((line) => line.policy))).toEqual(new Set([policy]));
  expect(Math.max(...lines.map((line) => JSON.stringify(line).length))).toBeLessThan(40_000);
  expect(linesOf(/^uncaught/)).toEqual([]);
});
