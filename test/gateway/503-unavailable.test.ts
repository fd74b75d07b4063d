import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { mint } from '../../src/identify/api-key.ts';
import { eventually } from '../support/conditions.ts';
import { freePort } from '../support/free-port.ts';
import { openGateway } from '../support/gateway.ts';
import { LATE_MS, paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startUpstream } from '../support/upstream.ts';

// Attack: four keys have a quarter each, of connections and queue, so that requests of all others got this 503 and were counted.
test('keys of one customer have one share, and those of others are served beside them (reliability 360)', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((request, response) => {
    if (request.url?.includes('hold')) held.push(response);
    else response.end('{}');
  });
  const gateway = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: { maxConnections: 8, maxQueue: 8 },
  });
  const { stdout } = await gateway.command('customers', 'create', '--plan', 'endless', '--json');
  const { id } = JSON.parse(stdout) as { id: string };
  const create = async () => {
    const made = await gateway.command('keys', 'create', '--customer', id, '--json');
    return (JSON.parse(made.stdout) as { key: string }).key;
  };
  const keys = [await create(), await create()];
  const statuses: number[] = [];
  for (const key of [...keys, ...keys, ...keys])
    gateway.get('/v1/pets?hold', key).then(({ status }) => statuses.push(status));
  // A quarter of both: two at the service, two in the queue.
  await eventually(() => expect([held.length, statuses]).toEqual([2, [429, 429]]));
  const { key: other } = await gateway.createKey('free');
  expect((await gateway.get('/v1/pets', other)).status).toBe(200);
  await eventually(() => {
    for (const response of held.splice(0)) response.end('{}');
    expect(statuses).toEqual([429, 429, 200, 200, 200, 200]);
  });
});

// Attack: keys of a dozen customers hold all that an upstream has, and the request of another one was counted and got 503.
test('a caller that finds every place taken by others is not charged for its 503 (reliability 395)', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((request, response) => {
    if (request.url?.includes('hold')) held.push(response);
    else response.end('{}');
  });
  const gateway = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: { maxConnections: 4, maxQueue: 2 },
  });
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) {
    const { key } = await gateway.createKey('endless');
    gateway.get('/v1/pets?hold', key).then(({ status }) => statuses.push(status));
    await eventually(async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
      expect(metrics).toContain(`tollgate_upstream_in_flight{upstream="store"} ${i + 1}\n`);
    });
  }
  const { key: other } = await gateway.createKey('free');
  const refused = await gateway.get('/v1/pets', other);
  expect([refused.status, refused.headers.get('retry-after'), await refused.json()]).toEqual([
    503,
    '1',
    expect.objectContaining({ code: 'overloaded' }),
  ]);
  // Those who held the places lose nothing, and the next request of the caller that was refused is served.
  await eventually(() => {
    for (const response of held.splice(0)) response.end('{}');
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200]);
  });
  const served = await gateway.get('/v1/pets', other);
  expect([served.status, served.headers.get('x-ratelimit-remaining')]).toEqual([200, '59']);
});

// Attack: while others hold all of an upstream, the requests of a key beyond its limit got an uncounted 503, and it was never banned.
test('a key that is known to be beyond its limit gets its strikes at a full upstream too (reliability 370)', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((request, response) => {
    if (request.url?.includes('hold')) held.push(response);
    else response.end('{}');
  });
  const gateway = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: { maxConnections: 1, maxQueue: 1, fairShare: 1 },
    plans: `
plans:
  tiny: { limits: { hour: 2 }, bans: { after: 3, within: 1h, first: 1h } }
  endless: { limits: { hour: unlimited } }
bans: off
`,
  });
  const [{ key }, { key: within }] = [await gateway.createKey('tiny'), await gateway.createKey('tiny')];
  for (const own of [key, key, within]) expect((await gateway.get('/v1/pets', own)).status).toBe(200);
  const { key: other } = await gateway.createKey('endless');
  const holding = [gateway.get('/v1/pets?hold', other), gateway.get('/v1/pets?hold', other)];
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toContain('tollgate_upstream_in_flight{upstream="store"} 2\n');
  });
  const codes = async (own: string, n: number) => {
    const found: unknown[] = [];
    for (let i = 0; i < n; i++)
      found.push(((await (await gateway.get('/v1/pets', own)).json()) as { code: string }).code);
    return found;
  };
  expect(await codes(key, 4)).toEqual([
    ...new Array(2).fill('rate_limit_exceeded'),
    ...new Array(2).fill('api_key_banned'),
  ]);
  // One that has something left is not counted, and gets no strike.
  expect(await codes(within, 4)).toEqual(new Array(4).fill('overloaded'));
  await eventually(() => {
    for (const response of held.splice(0)) response.end('{}');
    expect(upstream.requests).toHaveLength(5);
  });
  for (const { status } of await Promise.all(holding)) expect(status).toBe(200);
  expect((await gateway.get('/v1/pets', within)).headers.get('x-ratelimit-remaining')).toBe('0');
});

test('503 overloaded: connections and queue are full; told at once, with Retry-After, and not counted (reliability 68)', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => held.push(response));
  const gateway = await openGateway({
    upstream: upstream.origin,
    // One key is to fill all of it.
    upstreamSettings: { maxConnections: 1, maxQueue: 1, fairShare: 1 },
  });
  const { key } = await gateway.createKey('free');
  const first = gateway.get('/v1/pets?first', key);
  await eventually(() => expect(upstream.requests).toHaveLength(1));
  const second = gateway.get('/v1/pets?second', key);
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 2$/m);
  });
  const beganAtMs = performance.now();
  const third = await gateway.get('/v1/pets?third', key);
  // A place in the queue would be waited for as long as an answer, which is 30 s.
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  expect(third.status).toBe(503);
  expect(await third.json()).toEqual({ code: 'overloaded', message: expect.any(String), status: 503 });
  expect(third.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  expect(third.headers.get('x-ratelimit-remaining')).toBe('58');

  // The one in the queue is served as soon as the connection is free, and its place is available again.
  held.shift()?.end('{}');
  expect((await first).status).toBe(200);
  await eventually(() => expect(upstream.requests.map(({ url }) => url)).toContain('/v1/pets?second'));
  const fourth = gateway.get('/v1/pets?fourth', key);
  held.shift()?.end('{}');
  expect((await second).status).toBe(200);
  await eventually(() => expect(upstream.requests.at(-1)?.url).toBe('/v1/pets?fourth'));
  held.shift()?.end('{}');
  expect((await fourth).status).toBe(200);
  expect(upstream.connections).toBe(1);
});

test('503 overloaded: a place in the queue is waited for no longer than an answer would be', async () => {
  // The one connection is busy with an answer that is begun and takes its time.
  const upstream = await startUpstream((_request, response) => response.writeHead(200).write('begun'));
  const gateway = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: { maxConnections: 1, responseTimeout: `${paced(500)}ms` },
  });
  const { key } = await gateway.createKey('free');
  const first = await gateway.get('/v1/pets', key);
  const stop = stopwatch();
  const second = await gateway.get('/v1/pets', key);
  const took = stop();
  expect(second.status).toBe(503);
  expect(await second.json()).toMatchObject({ code: 'overloaded' });
  expect(took).toBeGreaterThan(paced(500) - 20);
  expect(took).toBeLessThan(paced(500) + LATE_MS);
  await first.body?.cancel();
});

test('503 store_unavailable: a key that was never seen is not called wrong while the store is away', async () => {
  const upstream = await startUpstream();
  const gateway = await openGateway({
    upstream: upstream.origin,
    env: { REDIS_URL: `redis://127.0.0.1:${await freePort()}`, KEY_PEPPER: 'a pepper that is long enough to be one' },
  });
  const beganAtMs = performance.now();
  const answer = await gateway.get('/v1/pets', mint(randomBytes));
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  expect(answer.status).toBe(503);
  expect(await answer.json()).toEqual({ code: 'store_unavailable', message: expect.any(String), status: 503 });
  expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  expect(answer.headers.get('ratelimit-policy')).toContain('failed-authentication');
  // It cost the address nothing.
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('30');
  // What can be told without the store still is.
  expect((await gateway.get('/v1/pets', 'malformed')).status).toBe(401);
  expect(upstream.requests).toHaveLength(0);
});
