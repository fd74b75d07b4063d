import { beforeAll, expect, test } from 'vitest';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { startUpstream, type Upstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;
let most = 0;
let running = 0;

beforeAll(async () => {
  upstream = await startUpstream(async (_request, response, { whole }) => {
    running++;
    most = Math.max(most, running);
    await whole;
    running--;
    response.end('{}');
  });
  gateway = await startGateway({ upstream: upstream.origin, listen: { maxBodyBytes: '16MiB' } });
  ({ key } = await gateway.createKey('endless'));
});

const cpuOf = (it: TestGateway) => metricOf(it.adminPort, 'process_cpu_seconds_total');

const CHUNK = `40\r\n${'a'.repeat(64)}\r\n`;

/** Processor seconds of the gateway for a body of so many of the smallest chunks of which a body may have any number. */
async function cpuFor(chunks: number): Promise<number> {
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const before = await cpuOf(gateway);
  const { responses } = await rawExchange(gateway.port, `${head}${CHUNK.repeat(chunks)}0\r\n\r\n`, {
    withinMs: 15_000,
  });
  expect(responses[0]?.status).toBe(200);
  expect(upstream.requests.at(-1)?.body).toHaveLength(64 * chunks);
  return (await cpuOf(gateway)) - before;
}

// Attack: a body in small chunks. Who keeps the pieces and joins them again at every one
// works for the square of their number; a megabyte then occupies the process for minutes.
test('a body in small chunks costs in proportion to its length (reliability 67)', async () => {
  await cpuFor(5_000);
  const small = await cpuFor(12_500);
  const large = await cpuFor(100_000);
  // Eight times as long; the square of that would be 64 times.
  expect(large).toBeLessThan(Math.max(small, 0.05) * 24);
});

// Attack: a thousand requests in one packet. If they are all begun at once, one connection is a thousand at the upstream,
// and what is kept for it has no bound.
test('of a thousand requests on one connection one is served at a time (reliability 67)', async () => {
  const before = upstream.requests.length;
  most = 0;
  const many = 1_000;
  const one = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, one.repeat(many), { until: many, withinMs: 30_000 });
  expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: many }, () => 200));
  expect(upstream.requests.length - before).toBe(many);
  expect(most).toBe(1);
});
