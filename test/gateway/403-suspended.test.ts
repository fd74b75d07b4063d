import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: `
  - { path: /v1/pets, methods: [GET, POST], upstream: store }
  - { path: /v1/open, methods: [GET], upstream: store, auth: none, limits: { minute: 60 } }`,
  });
});

const used = async (id: string) => JSON.parse((await gateway.command('usage', id, '--json')).stdout);
const codeOf = async (answer: Response) => [answer.status, ((await answer.json()) as { code: string }).code];

test('403 suspended: not counted, no strike and no failed attempt, and not a word of by whom or why (reliability 265)', async () => {
  const { id, key } = await gateway.createKey('small');
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  const budget = async () => Number((await gateway.get('/v1/pets')).headers.get('x-ratelimit-remaining'));
  const before = await budget();
  const { stdout } = await gateway.command('keys', 'suspend', id, '--reason', 'unpaid-bills');
  expect(stdout).toBe(`${id} is suspended until it is resumed.\n`);
  // Looks at /usage cost nothing of the three a minute.
  await eventually(async () => expect((await gateway.get('/usage', key)).status).toBe(403), { withinMs: 1_000 });
  const forwarded = upstream.requests.length;
  for (let i = 0; i < 10; i++) {
    const answer = await gateway.get('/v1/pets', key, { method: i % 2 === 0 ? 'GET' : 'POST' });
    expect([answer.status, answer.headers.get('x-ratelimit-limit')]).toEqual([403, '3']);
    expect(await answer.json()).toEqual({
      code: 'suspended',
      message: 'This API key is suspended. Ask its operator.',
      status: 403,
    });
    const fields = JSON.stringify([...answer.headers]);
    expect(fields).not.toMatch(/unpaid|retry-after|www-authenticate/);
  }
  expect(await codeOf(await gateway.get('/usage', key))).toEqual([403, 'suspended']);
  expect(await codeOf(await gateway.get('/v1/none', key))).toEqual([403, 'suspended']);
  expect(upstream.requests).toHaveLength(forwarded);
  expect(await budget()).toBe(before - 1);
  expect((await gateway.get('/v1/open', key)).status).toBe(200);
  expect((await gateway.command('keys', 'resume', id)).stdout).toBe(`${id} is resumed.\n`);
  await eventually(async () => expect((await gateway.get('/usage', key)).status).toBe(200), { withinMs: 1_000 });
  const served = await gateway.get('/v1/pets', key);
  expect([served.status, served.headers.get('x-ratelimit-remaining')]).toEqual([200, '1']);
  // The embedded store writes what the gateway has counted within a second.
  await eventually(async () =>
    expect(await used(id)).toMatchObject({ windows: { minute: { used: 2 } }, strikes: 0, ban: null }),
  );
  expect((await gateway.command('keys', 'resume', id)).stdout).toBe(`${id} was not suspended.\n`);
  const [line] = await gateway.process.until(/^.*"code":"suspended".*"msg":"refusals".*$/m);
  expect(JSON.parse(line)).toMatchObject({ consumerId: id, judgement: 'forbidden', source: 'memory', cost: 0 });
  expect(line).not.toContain('unpaid');
});

test('403 suspended: ends by itself at its end, and the same key works again', async () => {
  const { id, key } = await gateway.createKey('free');
  await gateway.command('keys', 'suspend', id, '--until', '3s');
  const endsBeforeMs = Date.now() + 3_000;
  await eventually(async () => expect((await gateway.get('/v1/pets', key)).status).toBe(403));
  await eventually(async () => expect((await gateway.get('/v1/pets', key)).status).toBe(200), {
    withinMs: endsBeforeMs - Date.now() + 1_000,
  });
});
