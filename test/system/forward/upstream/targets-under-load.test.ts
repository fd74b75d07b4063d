import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../../support/conditions.ts';
import { startGateway } from '../../../support/gateway.ts';
import { paced } from '../../../support/room.ts';
import { startUpstream } from '../../../support/upstream.ts';

// Of three targets one is killed, brought back, made to hang and slowed while requests run. What clients see then are
// answers that the contract allows, few of them failures, and everything is as before when the trouble is over.
test('a target that is killed, restarted, hung and slowed under load costs few requests, and those get 502 or 504', async () => {
  let mood: 'well' | 'hung' | 'slow' = 'well';
  const startThird = (port?: number) =>
    startUpstream(
      async (_request, response) => {
        if (mood === 'hung') return;
        if (mood === 'slow') await delay(200);
        response.end('{}');
      },
      port === undefined ? {} : { port },
    );
  const [one, two] = [await startUpstream(), await startUpstream()];
  let third = await startThird();
  const { port } = third;
  const gateway = await startGateway({
    upstream: [one.origin, two.origin, third.origin].join(', '),
    upstreamSettings: { responseTimeout: `${paced(400)}ms`, maxConnections: 64 },
  });
  const { key } = await gateway.createKey('enterprise', '--limit', 'minute=1000000', '--limit', 'day=1000000');
  const statuses = new Map<number, number>();
  let running = true;
  const worker = async () => {
    while (running) {
      const answer = await gateway.get('/v1/pets', key);
      await answer.text();
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
    }
  };
  const workers = Array.from({ length: 8 }, worker);
  const total = () => [...statuses.values()].reduce((sum, count) => sum + count, 0);
  const more = async (count: number) => {
    const before = total();
    await eventually(() => expect(total()).toBeGreaterThan(before + count), { withinMs: 15_000 });
  };
  const isServing = () => third.requests.length;
  await more(500);
  await third.close();
  await more(500);
  third = await startThird(port);
  await eventually(() => expect(isServing()).toBeGreaterThan(20), { withinMs: 10_000 });
  mood = 'hung';
  await more(500);
  mood = 'slow';
  await more(500);
  mood = 'well';
  const before = isServing();
  await eventually(() => expect(isServing()).toBeGreaterThan(before + 50), { withinMs: 15_000 });
  running = false;
  await Promise.all(workers);
  expect([...statuses.keys()].filter((status) => ![200, 502, 504].includes(status))).toEqual([]);
  const failed = total() - (statuses.get(200) ?? 0);
  expect(failed / total()).toBeLessThan(0.02);
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 0$/m);
});
