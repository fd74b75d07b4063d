import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, openReplica } from '../support/gateway.ts';
import { testRedis } from '../support/redis.ts';
import { entriesOf } from '../support/run-command.ts';
import { startUpstream } from '../support/upstream.ts';

const day = (offset: number) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);
const inAnHour = new Date(Math.floor(Date.now() / 1_000) * 1_000 + 3_600_000);
const anHourAgo = new Date(inAnHour.getTime() - 7_200_000);
const text = (date: Date) => date.toISOString().replace('.000Z', 'Z');

const ROUTES = `
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: '/v1/old/{id}', methods: [GET], upstream: store, deprecated: { since: 2025-01-01, sunset: ${day(10)}, successor: /v1/pets } }
  - path: /v1/dim
    methods: [GET]
    upstream: store
    deprecated: { since: 2025-01-01, sunset: 2035-01-01, successor: /v1/pets, brownouts: [{ from: ${text(anHourAgo)}, to: ${text(inAnHour)} }] }
`;

interface Report {
  readonly route: string;
  readonly sunset: string;
  readonly calls: number;
  readonly callers: readonly { id: string; name: string | null; plan: string; calls: number; lastDay: string }[];
}

const stores = {
  'the embedded store': async () => ({}),
  Redis: async () => ({ REDIS_URL: (await testRedis()).url, KEY_PEPPER: 'a pepper for this test alone' }),
};

for (const [store, env] of Object.entries(stores)) {
  test(`with ${store}, who still calls a deprecated route is counted by key and day, whatever path they use and whichever gateway they ask`, async () => {
    const upstream = await startUpstream((_request, response) => response.end('{}'));
    const gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES, env: await env() });
    const other = store === 'Redis' ? await openReplica(gateway) : gateway;
    const often = await gateway.createKey('free', '--name', 'often');
    const once = await gateway.createKey('free');
    const never = await gateway.createKey('free');
    for (let i = 0; i < 3; i++) await (i === 1 ? other : gateway).get(`/v1/old/${i}`, often.key);
    await gateway.get('/v1/old/7', once.key);
    await gateway.get('/v1/pets', never.key);
    await gateway.get('/v1/old/7', `tg_live_${'0'.repeat(38)}`);

    const report = async () => entriesOf((await gateway.command('deprecations', '--json')).stdout) as Report[];
    const old = await eventually(
      async () => {
        const found = (await report()).find(({ route }) => route === '/v1/old/{id}')!;
        expect(found.calls).toBe(4);
        return found;
      },
      { withinMs: 5_000, everyMs: 100 },
    );
    expect(old.sunset).toBe(`${day(10)}T00:00:00.000Z`);
    expect(old.callers).toEqual([
      { id: often.id, name: 'often', owner: null, plan: 'free', calls: 3, lastDay: day(0) },
      { id: once.id, name: null, owner: null, plan: 'free', calls: 1, lastDay: day(0) },
    ]);
    const table = (await gateway.command('deprecations')).stdout;
    expect(table).toContain(often.id);
    expect(table).toMatch(/^\/v1\/dim\t.*\tnobody\t/m);
  });
}

test('in a brownout a route is 410 with the moment until which it is away and its successor, and counts as a call', async () => {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  const gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
  const { key } = await gateway.createKey('free');
  const answer = await gateway.get('/v1/dim', key);
  expect(answer.status).toBe(410);
  expect(await answer.json()).toMatchObject({ code: 'endpoint_removed', status: 410 });
  const seconds = Number(answer.headers.get('retry-after'));
  expect(Date.now() + seconds * 1_000).toBeGreaterThanOrEqual(inAnHour.getTime());
  expect(Date.now() + (seconds - 2) * 1_000).toBeLessThan(inAnHour.getTime());
  expect(answer.headers.get('link')).toBe('</v1/pets>; rel="successor-version"');
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('59');
  expect(upstream.requests).toHaveLength(0);
});

test('a sunset that is near is spoken of in the log when the gateway starts', async () => {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  const gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
  await gateway.process.stop();
  const warnings = gateway.process.stdout.split('\n').filter((line) => line.includes('a route will be removed soon'));
  expect(warnings).toHaveLength(1);
  expect(JSON.parse(warnings[0]!)).toMatchObject({ level: 40, route: '/v1/old/{id}', days: 10 });
});
