import { Redis } from 'ioredis';
import { Pool } from 'undici';
import { expect, test } from 'vitest';
import { bucketsOf } from '../../../src/admit/history.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { startGateways, type TestGateway } from '../../support/gateway.ts';
import { privateRedis } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';
import { jsonOf } from './command.ts';
import { PEPPER } from './fleet.ts';

/**
 * Tokens that are known after the answer (contract section 3): four real gateways on one real Redis, one customer with three keys, and
 * answers of random cost.
 */
const LIMIT = 30_000;
const PLANS = `
plans:
  model:
    limits: { hour: 100000 }
    units: { tokens: { hour: { limit: ${LIMIT}, window: sliding }, day: ${LIMIT}, month: 10000000 } }
    bans: off
`;
const ROUTES = `
  - path: /v1/chat
    methods: [GET]
    upstream: store
    cost: { tokens: { reserve: { header: X-Reserve, default: 50 }, from: { json: /usage } } }
`;

const RESERVE = 60;
/** What the request of this number costs: from 0 to three times what it takes in advance. */
const costOf = (number: number) => (number * 7919) % (3 * RESERVE);

interface Sent {
  readonly number: number;
  readonly gateway: number;
  /** Null if it broke off. */
  readonly status: number | null;
}

async function setUp(more = 'redis: { timeout: 5s }') {
  const server = await privateRedis({
    asProcess: true,
    configArgs: ['--appendonly', 'yes', '--appendfsync', 'always'],
  });
  const redis = new Redis(server.url);
  atEnd(() => redis.disconnect());
  const upstream = await startUpstream((request, response) => {
    const number = Number(request.url!.split('=')[1]);
    response.setHeader('content-type', 'application/json').end(`{"usage":${costOf(number)}}`);
  });
  const gateways = await startGateways(4, {
    upstream: upstream.origin,
    plans: PLANS,
    routes: ROUTES,
    env: { REDIS_URL: server.url, KEY_PEPPER: PEPPER },
    more,
  });
  const [first] = gateways;
  const { id } = await jsonOf(first.env, 'customers', 'create', '--plan', 'model');
  const keys: string[] = [];
  for (let i = 0; i < 3; i++) keys.push((await jsonOf(first.env, 'keys', 'create', '--customer', id)).key);
  const historyOf = async () => {
    const history = await redis.getBuffer(keyspace.history(`${id}%tokens`));
    return history === null
      ? 0
      : bucketsOf(history, 'day', Date.now()).reduce((sum, { admitted }) => sum + admitted, 0);
  };
  const windows = async () =>
    (await jsonOf(first.env, 'usage', id)).windows as Readonly<Record<string, { readonly used: number }>>;
  return { server, gateways, keys, historyOf, windows };
}

/** Sends so many requests over all gateways, eight at a time at each. @param onSent called with each one's number */
async function send(
  gateways: readonly TestGateway[],
  keys: readonly string[],
  many: number,
  onSent: (number: number) => void = () => {},
): Promise<readonly Sent[]> {
  const pools = gateways.map(({ origin }) => new Pool(origin, { connections: 8, pipelining: 1 }));
  atEnd(() => Promise.all(pools.map((pool) => pool.destroy())));
  const ask = async (number: number): Promise<Sent> => {
    const gateway = number % pools.length;
    const headers = { authorization: `Bearer ${keys[number % keys.length]}`, 'x-reserve': String(RESERVE) };
    try {
      const answer = await pools[gateway]!.request({ method: 'GET', path: `/v1/chat?number=${number}`, headers });
      await answer.body.text();
      onSent(number);
      return { number, gateway, status: answer.statusCode };
    } catch {
      return { number, gateway, status: null };
    }
  };
  return Promise.all(Array.from({ length: many }, (_, number) => ask(number)));
}

const sumOf = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);

test('no token is lost or counted twice over four gateways, and no limit exceeded but by what answers cost beyond their reserve (reliability 286)', async () => {
  const { gateways, keys, historyOf, windows } = await setUp();
  const sent = await send(gateways, keys, 600);
  expect(new Set(sent.map(({ status }) => status))).toEqual(new Set([200, 429]));
  const paid = sent.filter(({ status }) => status === 200).map(({ number }) => costOf(number));
  // Settlements are under way for at most 20 ms.
  await eventually(async () => expect(await historyOf()).toBe(sumOf(paid)));
  const counted = await windows();
  for (const window of ['tokens-hour', 'tokens-day', 'tokens-month']) {
    const name = Object.keys(counted).find((one) => one.endsWith(window));
    expect(counted[name!]?.used).toBe(sumOf(paid));
  }
  const overruns = paid.map((cost) => Math.max(cost - RESERVE, 0));
  expect(sumOf(paid)).toBeLessThanOrEqual(LIMIT + sumOf(overruns));
  // Refused only once what was counted and under way had filled the limit.
  const underWay = 4 * 8 * 3 * RESERVE;
  expect(sumOf(paid)).toBeGreaterThan(LIMIT - underWay);
});

test('a killed gateway leaves the reserve of what it had not settled, and nothing else differs (reliability 287)', async () => {
  const { gateways, keys, historyOf, windows } = await setUp();
  let answered = 0;
  const sent = await send(gateways, keys, 240, () => {
    if (++answered === 120) gateways[1]!.process.signal('SIGKILL');
  });
  const others = sent.filter(({ gateway, status }) => gateway !== 1 && status === 200);
  expect(others).toHaveLength(180);
  const ofKilled = sent.filter(({ gateway }) => gateway === 1);
  expect(ofKilled.some(({ status }) => status === null)).toBe(true);
  const exact = sumOf(others.map(({ number }) => costOf(number)));
  // What an admitted request of the killed one has in the history: what it cost, or what it took in advance.
  const [least, most] = [Math.min, Math.max].map((of) =>
    sumOf(ofKilled.filter(({ status }) => status === 200).map(({ number }) => of(costOf(number), RESERVE))),
  );
  const unknown = sumOf(
    ofKilled.filter(({ status }) => status === null).map(({ number }) => Math.max(costOf(number), RESERVE)),
  );
  let total = -1;
  await eventually(async () => {
    total = await historyOf();
    const counted = await windows();
    const month = Object.entries(counted).find(([name]) => name.endsWith('tokens-month'))![1];
    expect(month.used).toBe(total);
    expect(total).toBeGreaterThanOrEqual(exact + least!);
    expect(total).toBeLessThanOrEqual(exact + most! + unknown);
  });
});

test('over a kill of Redis a lost settlement leaves the reserve, and windows and history agree', async () => {
  const { server, gateways, keys, historyOf, windows } = await setUp('redis: { timeout: 300ms, onFailure: closed }');
  let answered = 0;
  let restarted: Promise<void> | null = null;
  const sent = await send(gateways, keys, 200, () => {
    if (++answered === 60) restarted = server.kill().then(() => server.restart({ keepData: true }));
  });
  await restarted;
  const monthOf = (counted: Awaited<ReturnType<typeof windows>>) =>
    Object.entries(counted).find(([name]) => name.endsWith('tokens-month'))?.[1].used ?? 0;
  const admitted = sent.filter(({ status }) => status === 200).map(({ number }) => costOf(number));
  const undecided = sent.filter(({ status }) => status !== 200 && status !== 429);
  const [least, most] = [Math.min, Math.max].map((of) => sumOf(admitted.map((cost) => of(cost, RESERVE))));
  // `/usage` costs nothing.
  for (const gateway of gateways)
    await eventually(async () => expect((await gateway.get('/usage', keys[0])).status).toBe(200));
  const later = await send(gateways, keys, 60);
  expect(new Set(later.map(({ status }) => status))).toEqual(new Set([200]));
  const exact = sumOf(later.map(({ number }) => costOf(number)));
  await eventually(async () => {
    const total = await historyOf();
    expect(monthOf(await windows())).toBe(total);
    expect(total).toBeGreaterThanOrEqual(exact + least!);
    // The store may have counted requests whose decision it could not tell.
    expect(total).toBeLessThanOrEqual(exact + most! + undecided.length * RESERVE);
  });
});
