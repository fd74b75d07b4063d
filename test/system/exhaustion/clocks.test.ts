import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway } from '../../support/gateway.ts';
import { ROOT } from '../../support/processes.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { privateRedis } from '../../support/redis.ts';
import { LATE_MS, paced } from '../../support/room.ts';
import { stopwatch } from '../../support/stopwatch.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

const HEAD_MS = paced(1_000);
const BODY_MS = paced(1_500);
const ANSWER_MS = paced(1_200);
const STALL_MS = 1_500;

// Attack: somebody sets the clock, or a time server does. A deadline that is reckoned with it is over at once, and every
// request under way is cut; or, set back, it is not over for an hour, and slow clients hold their connections that long.
test.each([1, -1])(
  'a clock that is set by %i h while requests run ends none of them early and none of them late (reliability 71)',
  async (hours) => {
    const upstream = await startUpstream(() => {});
    const gateway = await startGateway({
      upstream: upstream.origin,
      listen: { headersTimeout: `${HEAD_MS}ms`, requestTimeout: `${BODY_MS}ms` },
      upstreamSettings: { responseTimeout: `${ANSWER_MS}ms` },
      env: { NODE_OPTIONS: `--import ${join(import.meta.dirname, 'moved-clock.ts')}`, MOVE: String(hours) },
    });
    const { key } = await gateway.createKey('endless');
    const own = `Host: a\r\nAuthorization: Bearer ${key}\r\n`;
    const timed = async (bytes: string) => {
      const stop = stopwatch();
      const { responses } = await rawExchange(gateway.port, bytes, { withinMs: 6_000 });
      return { status: responses[0]?.status, took: stop() };
    };
    const running = [
      timed('GET /v1/pets HTTP/1.1\r\nX-'),
      timed(`POST /v1/pets HTTP/1.1\r\n${own}Content-Length: 9\r\n\r\nhalf`),
      timed(`GET /v1/pets HTTP/1.1\r\n${own}\r\n`),
    ];
    await eventually(async () => {
      expect(upstream.requests).toHaveLength(2);
      expect(await metricOf(gateway.adminPort, 'tollgate_connections')).toBe(3);
    });
    gateway.process.signal('SIGUSR2');
    await gateway.process.until(/the clock was moved/);
    const ended = await Promise.all(running);
    expect(ended.map(({ status }) => status)).toEqual([408, 408, 504]);
    for (const [i, ms] of [HEAD_MS, BODY_MS, ANSWER_MS].entries()) {
      expect(ended[i]?.took).toBeGreaterThan(ms - 50);
      expect(ended[i]?.took).toBeLessThan(ms + LATE_MS);
    }
  },
);

// Attack: the clock is set back by 12 h during a first ban of a minute, whose end is then 12 h and a minute away.
test('a clock that is set back during a ban leaves no more than a minute of it on the embedded store (reliability 158)', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({
    upstream: upstream.origin,
    env: { NODE_OPTIONS: `--import ${join(import.meta.dirname, 'moved-clock.ts')}`, MOVE: '-12' },
  });
  const { id, key } = await gateway.createKey('small');
  for (let i = 0; i < 3 + 10; i++) await gateway.get('/v1/pets', key);
  gateway.process.signal('SIGUSR2');
  await gateway.process.until(/the clock was moved/);
  const usage = async () => (await (await gateway.get('/usage', key)).json()) as { ban: { until: number } };
  // The next request that the store decides shortens it; what is shown of it does not, and memory refuses until an account changes.
  await gateway.command('keys', 'topup', id, '--window', 'day', '--amount', '1');
  await eventually(async () => {
    expect((await gateway.get('/v1/pets', key)).status).toBe(429);
    expect((await usage()).ban.until).toBeLessThan(Date.now() / 1_000 - 43_000);
  });
  expect((await usage()).ban.until).toBeLessThanOrEqual((Date.now() - 43_200_000 + 60_000) / 1_000 + 1);
});

test('no step of a request reads the wall clock by itself (reliability 71)', async () => {
  const files = await Array.fromAsync(
    glob('src/{listen,gateway,identify,admit,forward,telemetry,stores}/**/*.ts', { cwd: ROOT }),
  );
  expect(files.length).toBeGreaterThan(30);
  const readers = files.filter((file) =>
    /\bDate\.now\(|new Date\(\)\.getTime|\bCLOCKS\b/.test(readFileSync(join(ROOT, file), 'utf8')),
  );
  expect(readers).toEqual([]);
});

// Attack: the one thread is busy for longer than Redis is waited for (a collection of garbage, a huge answer of somebody
// else's). The replies lie in the socket meanwhile; if they are called late, the store is called away for no fault of its
// own. And the operator must be able to see that it was us.
test.each([
  ['decision', 'evalsha'],
  ['look-up of a key', 'mget'],
])(
  'a stall during a %s longer than redis.timeout calls no reply late, is seen in the metrics, costs no request, and no request is decided without Redis (reliability 71, 437)',
  async (_of, command) => {
    const upstream = await startUpstream();
    const redis = await privateRedis();
    const gateway = await startGateway({
      upstream: upstream.origin,
      more: 'redis: { timeout: 300ms }',
      env: {
        REDIS_URL: redis.url,
        KEY_PEPPER: 'a pepper that only the tests use',
        NODE_OPTIONS: `--import ${join(import.meta.dirname, 'stalls.ts')}`,
        STALL_MS: String(STALL_MS),
        STALL_AT: command,
      },
    });
    const [{ key }, { key: unknown }] = [await gateway.createKey('endless'), await gateway.createKey('endless')];
    expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    const seen = await metricOf(gateway.adminPort, 'nodejs_eventloop_lag_max_seconds');
    gateway.process.signal('SIGUSR2');
    await gateway.process.until(/armed/);
    const asked = Array.from({ length: 40 }, (_, i) => gateway.get('/v1/pets', i % 2 === 0 ? key : unknown));
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200]));
    await gateway.process.until(/stalled/);
    expect(seen).toBeLessThan((STALL_MS - 100) / 1_000);
    expect(await metricOf(gateway.adminPort, 'nodejs_eventloop_lag_max_seconds')).toBeGreaterThan(
      (STALL_MS - 100) / 1_000,
    );
    expect(await metricOf(gateway.adminPort, 'tollgate_store_failures_total')).toBe(0);
    expect(await metricOf(gateway.adminPort, 'tollgate_store_up')).toBe(1);
    await gateway.process.stop();
    const lines = gateway.process.stdout.split('\n').filter((line) => line.includes('"msg":"request"'));
    expect(lines).toHaveLength(41);
    expect(lines.filter((line) => line.includes('"source":"local"'))).toEqual([]);
  },
);
