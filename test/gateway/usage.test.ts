import { beforeAll, describe, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { privateRedis, redisCommand } from '../support/redis.ts';
import { ROOM } from '../support/room.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// GET /usage (contract section 4): where a caller stands, from the gateway itself, free of charge.

const PLANS = `
plans:
  free: { limits: { minute: 60, day: 1000 } }
  small: { limits: { minute: 2, day: 1000 } }
  strict: { limits: { minute: 1 }, bans: { after: 2, within: 1m, first: 10m } }
  open: { limits: { minute: 5, day: unlimited } }
failed-authentication: { minute: 1000 }
`;

let upstream: Upstream;
let gateway: TestGateway;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    plans: PLANS,
    // A pattern that covers /usage, for callers with a key and without.
    routes: `
  - { path: /v1/pets, methods: [GET, POST], upstream: store }
  - { path: '/{name}', methods: [GET, POST, DELETE], upstream: store, websocket: true }
  - { path: '/**', methods: [GET], upstream: store, auth: none, limits: { minute: 5 } }
`,
    more: "cors: { origins: ['https://app.example.com'] }",
  });
});

const usageOf = async (key: string) => {
  const answer = await gateway.get('/usage', key);
  expect(answer.status).toBe(200);
  return { answer, usage: (await answer.json()) as Record<string, unknown> };
};

test('a query of /usage that is longer than it has use for is refused before it is read (reliability 219)', async () => {
  const { key } = await gateway.createKey('free');
  const long = await gateway.get(`/usage?history&step=day&${'a&'.repeat(300)}`, key);
  expect(long.status).toBe(400);
  expect(await long.json()).toMatchObject({ code: 'invalid_request', message: expect.stringContaining('/usage') });
  expect((await gateway.get(`/usage?_=${'1'.repeat(400)}`, key)).status).toBe(200);
});

describe('a caller with a key', () => {
  test('is told each window, its strikes and its ban, in the promised shape and with the usual fields', async () => {
    const { key, id } = await gateway.createKey('free');
    for (let i = 0; i < 3; i++) await gateway.get('/v1/pets', key);
    const { answer, usage } = await usageOf(key);
    expect(Object.keys(usage)).toEqual(['id', 'plan', 'windows', 'strikes', 'ban']);
    expect(usage).toEqual({
      id,
      plan: 'free',
      windows: {
        minute: { limit: 60, used: 3, remaining: 57, resetAt: expect.any(Number) },
        day: { limit: 1000, used: 3, remaining: 997, resetAt: expect.any(Number) },
      },
      strikes: 0,
      ban: null,
    });
    expect(answer.headers.get('content-type')).toBe('application/json');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('x-ratelimit-limit')).toBe('60');
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('57');
    expect(answer.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60, "day";q=1000;w=86400');
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
    const { resetAt } = (usage.windows as Record<string, { resetAt: number }>).minute!;
    expect(answer.headers.get('x-ratelimit-reset')).toBe(String(resetAt));
  });

  test('is told by `?history` what it used by hour or by day, at no cost, with the usual fields', async () => {
    const { key } = await gateway.createKey('free');
    for (let i = 0; i < 3; i++) await gateway.get('/v1/pets', key);
    const answer = await gateway.get('/usage?history', key);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('57');
    const body = (await answer.json()) as { step: string; buckets: { at: string; admitted: number }[] };
    expect(body.step).toBe('hour');
    expect(body.buckets[0]!.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:00:00Z$/);
    // The test may run across the end of an hour.
    expect(body.buckets.reduce((sum, { admitted }) => sum + admitted, 0)).toBe(3);
    const days = await (await gateway.get('/usage?history&step=day', key)).json();
    expect(days).toMatchObject({ step: 'day', buckets: [{ admitted: expect.any(Number), refused: 0, banned: 0 }] });
  });

  test('is told with 400 that a history has no other step, and only its own history is told', async () => {
    const [one, other] = [await gateway.createKey('free'), await gateway.createKey('free')];
    await gateway.get('/v1/pets', one.key);
    const wrong = await gateway.get('/usage?history&step=week', one.key);
    expect([wrong.status, (await wrong.json()) as object]).toMatchObject([
      400,
      { message: 'step must be hour or day.' },
    ]);
    expect(await (await gateway.get('/usage?history', other.key)).json()).toEqual({ step: 'hour', buckets: [] });
    expect((await gateway.get('/usage?history')).status).toBe(401);
  });

  test('spends nothing by asking, opens no window, and the service behind never hears of it', async () => {
    const { key } = await gateway.createKey('small');
    const seen = upstream.requests.length;
    for (let i = 0; i < 20; i++) await usageOf(key);
    expect(upstream.requests).toHaveLength(seen);
    expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining')).toBe('1');
  });

  test('may ask when its quota is used up, and while it is banned', async () => {
    const { key } = await gateway.createKey('strict');
    for (let i = 0; i < 3; i++) await gateway.get('/v1/pets', key);
    expect((await gateway.get('/v1/pets', key)).status).toBe(429);
    const { answer, usage } = await usageOf(key);
    expect(usage).toMatchObject({ strikes: 0, ban: { number: 1, until: expect.any(Number) } });
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
    expect(Number(answer.headers.get('x-ratelimit-reset'))).toBeGreaterThan(Date.now() / 1000 + 500);
    expect(answer.headers.has('retry-after')).toBe(false);
  });

  test('is told the head alone by HEAD', async () => {
    const { key } = await gateway.createKey('free');
    const { responses } = await rawExchange(
      gateway.port,
      `HEAD /usage HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`,
      { methods: ['HEAD'] },
    );
    expect(responses[0]?.status).toBe(200);
    expect(Number(responses[0]?.header('content-length'))).toBeGreaterThan(50);
    expect(responses[0]?.body).toHaveLength(0);
  });

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])(
    'is told with 405 that %s is none of its methods',
    async (method) => {
      const { key } = await gateway.createKey('free');
      const answer = await gateway.get('/usage', key, { method });
      expect(answer.status).toBe(405);
      expect(answer.headers.get('allow')).toBe('GET, HEAD');
      expect(await answer.json()).toMatchObject({ code: 'method_not_allowed' });
      expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining')).toBe('59');
    },
  );

  test('is refused with a body: 400, and the connection is closed', async () => {
    const { key } = await gateway.createKey('free');
    const bytes = `GET /usage HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 2\r\n\r\n{}`;
    const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([400]);
    expect(closed).toBe(true);
  });

  test('gets nothing else for it: a query is no matter, a path that goes on is another', async () => {
    const { key } = await gateway.createKey('free');
    expect((await gateway.get('/usage?key=1', key)).headers.get('cache-control')).toBe('no-store');
    expect((await gateway.get('/usage/', key)).headers.get('cache-control')).toBeNull();
    expect((await gateway.get('/Usage', key)).headers.get('cache-control')).toBeNull();
  });

  test('gets no WebSocket of it, whatever a pattern of the settings allows', async () => {
    const { key } = await gateway.createKey('free');
    const fields =
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
    const bytes = `GET /usage HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`;
    const { responses } = await rawExchange(gateway.port, bytes);
    expect(responses[0]?.json()).toMatchObject({ plan: 'free' });
  });

  test('may be a page of another origin', async () => {
    const origin = { Origin: 'https://app.example.com' };
    const preflight = await gateway.get('/usage', undefined, {
      method: 'OPTIONS',
      headers: { ...origin, 'Access-Control-Request-Method': 'GET' },
    });
    expect(preflight.headers.get('access-control-allow-methods')).toBe('GET, HEAD');
    const { key } = await gateway.createKey('free');
    const answer = await gateway.get('/usage', key, { headers: origin });
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://app.example.com');
  });

  test('stands in log and metrics as one who asked for its usage, not as one who was admitted', async () => {
    const { key, id } = await gateway.createKey('free');
    await gateway.get('/usage', key, { headers: { 'X-Request-Id': 'asked-for-usage' } });
    const [line] = await gateway.process.until(/^.*"requestId":"asked-for-usage".*$/m);
    expect(JSON.parse(line)).toMatchObject({
      route: '/usage',
      consumerId: id,
      judgement: 'usage',
      cost: 0,
      status: 200,
    });
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(
      /^tollgate_requests_total\{route="\/usage",plan="free",judgement="usage",status="2xx".*\} \d+$/m,
    );
  });
});

describe('a caller without a good key', () => {
  test.each([
    ['no key', undefined, 'missing_api_key'],
    ['a wrong key', 'tg_live_00000000000000000000000000000000000000', 'invalid_api_key'],
  ])('is refused with %s, and it costs the address a failed authentication', async (_what, key, code) => {
    const first = await gateway.get('/usage', key);
    expect([first.status, await first.json()]).toMatchObject([401, { code }]);
    const second = await gateway.get('/usage', key);
    const left = ({ headers }: Response) => Number(headers.get('x-ratelimit-remaining'));
    expect(left(second)).toBe(left(first) - 1);
  });
});

describe('on Redis', () => {
  test('however often a key asks, the store is read once a second; 503 while it is away', async () => {
    const redis = await privateRedis();
    const onRedis = await openGateway({
      upstream: upstream.origin,
      plans: PLANS,
      env: { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper that only the tests use' },
    });
    const { key } = await onRedis.createKey('free');
    await onRedis.get('/v1/pets', key);
    const scripts = async () => {
      const info = (await redisCommand(redis.url, 'INFO', 'commandstats')) as string;
      return [...info.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
    };
    const before = await scripts();
    const beganAtMs = performance.now();
    for (let i = 0; i < 100; i++) expect((await onRedis.get('/usage', key)).status).toBe(200);
    const seconds = Math.ceil((performance.now() - beganAtMs) / 1000);
    expect((await scripts()) - before).toBeLessThanOrEqual(seconds + 1);
    await redis.kill();
    await expect.poll(async () => (await onRedis.get('/usage', key)).status, { timeout: 5_000 * ROOM }).toBe(503);
    const answer = await onRedis.get('/usage', key);
    expect(await answer.json()).toMatchObject({ code: 'store_unavailable' });
    expect(answer.headers.get('retry-after')).toBe('1');
    // Known keys go on being served meanwhile.
    expect((await onRedis.get('/v1/pets', key)).status).toBe(200);
  });
});
