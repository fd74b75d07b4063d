import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway } from '../../support/gateway.ts';
import { startTollgate } from '../../support/processes.ts';
import { LATE_MS } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';

// Attack: somewhere a callback throws or a promise is rejected, and nobody catches it. Going on means to serve with a
// state that nobody knows; ending at once means that one such request cuts off everybody else's.

const NODE_OPTIONS = `--import ${join(import.meta.dirname, 'throws-later.ts')}`;

async function startDefective(defect: string, listen = {}) {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => held.push(response));
  const gateway = await startGateway({
    upstream: upstream.origin,
    listen: { drainTimeout: '5s', ...listen },
    env: { NODE_OPTIONS, DEFECT: defect },
  });
  const { key } = await gateway.createKey('free');
  return { gateway, key, held };
}

test.each(['exception', 'rejection'])(
  'an uncaught exception (%s) is logged, the gateway is unready, finishes what runs and ends with a failure (reliability 122)',
  async (defect) => {
    const { gateway, key, held } = await startDefective(defect);
    const idle = createConnection(gateway.port, '127.0.0.1');
    await once(idle, 'connect');
    const running = gateway.get('/v1/pets', key);
    await eventually(() => expect(held).toHaveLength(1));
    gateway.process.signal('SIGUSR2');
    await once(idle.resume(), 'end');
    const readiness = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`);
    expect([readiness.status, await readiness.json()]).toMatchObject([503, { draining: true }]);
    await expect(gateway.get('/v1/pets', key)).rejects.toThrow();
    held[0]?.end('{"late":true}');
    expect(await (await running).json()).toEqual({ late: true });
    expect(await gateway.process.exit).toEqual({ code: 1, signal: null });
    const lines = gateway.process.stdout.split('\n').filter((line) => line.includes('uncaught exception'));
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ level: 60, err: expect.objectContaining({ message: `planted ${defect}` }) }),
    ]);
    expect(lines[0]).toContain('throws-later.ts');
  },
);

test('a defect while it drains is logged too, lets the drain go on, and makes the exit a failure (reliability 122)', async () => {
  const { gateway, key, held } = await startDefective('exception');
  const running = gateway.get('/v1/pets', key);
  await eventually(() => expect(held).toHaveLength(1));
  gateway.process.signal('SIGTERM');
  await eventually(async () => expect((await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`)).status).toBe(503));
  gateway.process.signal('SIGUSR2');
  gateway.process.signal('SIGUSR2');
  await gateway.process.until(/planted exception/);
  held[0]?.end('{}');
  expect((await running).status).toBe(200);
  expect(await gateway.process.exit).toEqual({ code: 1, signal: null });
});

test('a request that never ends holds a broken gateway no longer than drainTimeout (reliability 122, 120)', async () => {
  const { gateway, key, held } = await startDefective('exception', { drainTimeout: '500ms' });
  const running = gateway.get('/v1/pets', key).catch(() => 'cut');
  await eventually(() => expect(held).toHaveLength(1));
  const beganAtMs = performance.now();
  gateway.process.signal('SIGUSR2');
  expect(await gateway.process.exit).toEqual({ code: 1, signal: null });
  expect(performance.now() - beganAtMs).toBeGreaterThan(480);
  expect(performance.now() - beganAtMs).toBeLessThan(500 + LATE_MS);
  expect(await running).toBe('cut');
});

test('a defect before anything is served ends the start, with its stack and a failure (reliability 122)', async () => {
  const broken = `data:text/javascript,process.nextTick(()=>{throw new Error('planted before')})`;
  const running = await startTollgate(['serve'], { env: { NODE_OPTIONS: `--import ${encodeURI(broken)}` } });
  expect((await running.exit).code).not.toBe(0);
  expect(running.stderr).toContain('planted before');
});
