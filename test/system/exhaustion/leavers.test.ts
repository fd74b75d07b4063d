import { readdirSync } from 'node:fs';
import { Agent, type ClientRequest, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

const MIB = 1024 * 1024;
const ROUND = 750;

const files = ({ process }: TestGateway) => readdirSync(`/proc/${process.pid}/fd`).length;

/** A round of requests, sixteen at a time, of which every tenth client leaves before its answer. */
async function round(gateway: TestGateway, key: string): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  let left = ROUND;
  const one = async () => {
    while (left > 0) {
      const leaves = left-- % 10 === 0;
      const asked = request({
        agent,
        port: gateway.port,
        path: '/v1/pets',
        headers: { Authorization: `Bearer ${key}` },
      });
      await (leaves ? leave(asked) : finish(asked));
    }
  };
  await Promise.all(Array.from({ length: 16 }, one));
  agent.destroy();
}

function finish(asked: ClientRequest): Promise<void> {
  return new Promise((resolve, reject) => {
    asked
      .once('response', (answer) => answer.resume().once('end', resolve))
      .once('error', reject)
      .end();
  });
}

function leave(asked: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    asked.on('error', () => {}).once('close', resolve);
    asked.end(() => asked.destroy());
  });
}

// Attack: nothing more than time. Each client that leaves in the middle may leave something behind: a connection to the
// upstream, a place in a queue, a timer, a line of memory. It takes a day to show, or a few thousand requests and a count.
test('thousands of requests, of which every tenth client leaves, leave no file open and no memory taken (reliability 70)', async () => {
  const upstream = await startUpstream(async (_request, response, { whole }) => {
    if (!(await whole)) return;
    await delay(1);
    response.end('x'.repeat(2_000));
  });
  const gateway = await startGateway({ upstream: upstream.origin, env: { NODE_OPTIONS: '--max-old-space-size=96' } });
  const { key } = await gateway.createKey('endless');
  const settled = async () => {
    const gauges = ['tollgate_in_flight', 'tollgate_connections'];
    await eventually(
      async () => {
        for (const gauge of gauges) expect(await metricOf(gateway.adminPort, gauge)).toBe(0);
      },
      { withinMs: 10_000, everyMs: 100 },
    );
    // Idle connections to the upstream are kept for the next requests.
    return {
      files: files(gateway) - upstream.open,
      rss: await metricOf(gateway.adminPort, 'process_resident_memory_bytes'),
    };
  };
  await round(gateway, key);
  await round(gateway, key);
  const before = await settled();
  for (let i = 0; i < 3; i++) await round(gateway, key);
  const after = await settled();
  expect(after.files).toBeLessThanOrEqual(before.files + 2);
  expect(after.rss - before.rss).toBeLessThan(32 * MIB);
});
