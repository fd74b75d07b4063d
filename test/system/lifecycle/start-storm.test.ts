import { expect, test } from 'vitest';
import { startGateway, startReplica, type TestGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { LATE_MS, paced } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from './relaunch.ts';

const STORM = 200;
/** Long enough for a Redis that waits for a processor, and too short for 200 requests that each pay for a cold start. */
const REDIS_TIMEOUT_MS = paced(100);

interface AccessLine {
  readonly msg: string;
  readonly status: number;
  readonly source: string;
  readonly storeMs: number;
}

// Attack: a gateway comes back into a load balancer, and everything that had piled up is sent to it at once, when it is
// coldest: no code is compiled, no key is known, and Redis has never seen its script. If the first requests pay for all
// that, they are late, the store is called away, and each gateway counts alone.
test('the first 200 requests, all at once, at a Redis that does not know the script, are all decided by it in time (reliability 125)', async () => {
  const upstream = await startUpstream();
  const redis = await privateRedis();
  const first = await startGateway({
    upstream: upstream.origin,
    env: { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper that only the tests use' },
    more: `redis: { timeout: ${REDIS_TIMEOUT_MS}ms }`,
  });
  const keys = await Promise.all(Array.from({ length: 4 }, () => first.createKey('endless')));
  await first.process.stop();
  const it = await storm(first, redis.url, keys);

  expect(new Set(it.statuses)).toEqual(new Set([200]));
  expect(it.failures).toBe(0);
  expect(it.lines).toHaveLength(STORM);
  expect(it.lines.filter(({ source }) => source === 'local')).toEqual([]);
  expect(Math.max(...it.lines.map(({ storeMs }) => storeMs))).toBeLessThan(REDIS_TIMEOUT_MS + LATE_MS);
});

/** 200 requests at once at a gateway that has just started. */
async function storm(first: TestGateway, redisUrl: string, keys: readonly { readonly key: string }[]) {
  await redisCommand(redisUrl, 'SCRIPT', 'FLUSH');
  const gateway = await startReplica(first);
  const bytes = (i: number) =>
    `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys[i % keys.length]?.key}\r\n\r\n`;
  const exchanges = Array.from({ length: STORM }, (_, i) => rawExchange(gateway.port, bytes(i), { withinMs: 10_000 }));
  const statuses = (await Promise.all(exchanges)).map(({ responses }) => responses[0]?.status);
  const failures = await metricOf(gateway.adminPort, 'tollgate_store_failures_total');
  await gateway.process.stop();
  const lines = gateway.process.stdout
    .split('\n')
    .filter((line) => line.includes('"msg":"request"'))
    .map((line) => JSON.parse(line) as AccessLine);
  return { statuses, failures, lines };
}
