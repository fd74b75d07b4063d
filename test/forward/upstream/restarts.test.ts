import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';

// The service is restarted while requests run: deployed, or crashed and brought back. Requests in the gap get 502, none
// hangs, and when it is back nothing of the gap is left: no dead connection is used, no place in the queue is lost.
test('an upstream that restarts under load: only 502s in the gap, and all is well behind it (reliability 87)', async () => {
  let upstream = await startUpstream();
  const { port } = upstream;
  const gateway = await startGateway({ upstream: upstream.origin, upstreamSettings: { maxConnections: 8 } });
  const { key } = await gateway.createKey('enterprise', '--limit', 'minute=1000000', '--limit', 'day=1000000');
  let running = true;
  let served = 0;
  const statuses = new Map<number, number>();
  const worker = async () => {
    while (running) {
      const answer = await gateway.get('/v1/pets', key);
      await answer.text();
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      if (answer.status === 200) served++;
    }
  };
  const workers = Array.from({ length: 16 }, worker);
  for (let round = 0; round < 3; round++) {
    const before = served;
    await eventually(() => expect(served).toBeGreaterThan(before + 100), { withinMs: 10_000 });
    await upstream.close();
    const refused = statuses.get(502) ?? 0;
    await eventually(() => expect(statuses.get(502) ?? 0).toBeGreaterThan(refused));
    upstream = await startUpstream(undefined, { port });
  }
  const before = served;
  await eventually(() => expect(served).toBeGreaterThan(before + 100), { withinMs: 10_000 });
  running = false;
  await Promise.all(workers);
  expect([...statuses.keys()].sort()).toEqual([200, 502]);
  for (let i = 0; i < 20; i++) expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 0$/m);
  expect(upstream.open).toBeLessThanOrEqual(8);
});
