import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { addressOf } from '../../../src/forward/upstream/dial.ts';
import { HealthChecks } from '../../../src/forward/upstream/health.ts';
import type { UpstreamTarget } from '../../../src/forward/upstream/target.ts';

/** Checks an address, and resolves with the cause of the first change of its health, or with null after so many checks. */
async function changeWithin(checks: number, origin: string, seen: () => number, meanwhile = () => {}) {
  const change = Promise.withResolvers<string>();
  const target = { address: addressOf(origin), name: origin, checked: () => {} } as unknown as UpstreamTarget;
  const options = { path: '/', intervalMs: 5, timeoutMs: 100, unhealthyAfter: 1, healthyAfter: 1, tls: null };
  const running = new HealthChecks(target, options, { onChange: (_name, _healthy, cause) => change.resolve(cause) });
  meanwhile();
  const all = (async () => {
    while (seen() < checks) await new Promise((resolve) => setTimeout(resolve, 5));
    return null;
  })();
  const result = await Promise.race([change.promise, all]);
  running.close();
  return result;
}

async function serving(answer: boolean) {
  let seen = 0;
  const server = createServer((_request, response) => {
    seen++;
    if (answer) response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { origin, seen: () => seen, [Symbol.dispose]: () => server.close().closeAllConnections() };
}

test('time in which the gateway stands still does not count as silence of a target', async () => {
  using service = await serving(true);
  const standStill = () => {
    const until = performance.now() + 400;
    while (performance.now() < until);
  };
  expect(await changeWithin(3, service.origin, service.seen, standStill)).toBeNull();
});

test('a target that does not answer is left out after the timeout', async () => {
  using service = await serving(false);
  expect(await changeWithin(2, service.origin, service.seen)).toBe('no answer within 100 ms');
});
