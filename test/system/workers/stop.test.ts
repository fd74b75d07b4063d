import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createConnection } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { type GatewaySetup, startGateway } from '../../support/gateway.ts';
import { LATE_MS } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';
import { relaunch } from '../lifecycle/relaunch.ts';
import { callers } from './callers.ts';
import { pidsOf, readyOf, runs, startWorkers, workersOf } from './fleet.ts';

// How a gateway of several processes stops (contract section 7): as one of one does, and with all of its processes.
//
// Attack: none but our own stops. A worker that is left behind serves by old settings, unseen, and one that ends before its
// connections are handed over shows callers a reset.

/** Two workers, and with each of them a request that is held. */
async function start(listen: NonNullable<GatewaySetup['listen']> = {}) {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream(async (request, response, { whole }) => {
    if (request.url?.includes('hold')) held.push(response);
    else if (await whole) response.end('{}');
  });
  const gateway = await startWorkers(2, { upstream: upstream.origin, listen });
  const { key } = await gateway.createKey('endless');
  const pids = await pidsOf(gateway);
  const running = (await callers(gateway, key, 2)).map((one) => one.ask('/v1/pets?hold'));
  await eventually(() => expect(held).toHaveLength(2));
  return { gateway, key, held, running, pids };
}

const statuses = async (running: readonly Promise<{ status: number }>[]) =>
  (await Promise.all(running)).map(({ status }) => status);

const refuses = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = createConnection(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', () => resolve(true));
  });

test.each([
  ['SIGTERM to the supervisor', (pid: number) => process.kill(pid, 'SIGTERM')],
  ['SIGINT to the whole group, as a terminal sends it', (pid: number) => process.kill(-pid, 'SIGINT')],
])(
  '%s: not ready, nothing new; what runs in any worker is finished; exit 0, and no process is left',
  async (_, send) => {
    const { gateway, held, running, pids } = await start();
    send(gateway.process.pid);
    await eventually(async () => expect(await readyOf(gateway)).toMatchObject({ status: 503, draining: true }));
    await eventually(async () => expect(await refuses(gateway.port)).toBe(true));
    for (const response of held) response.end('{"late":true}');
    expect(await statuses(running)).toEqual([200, 200]);
    expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
    expect(pids.filter(runs)).toEqual([]);
  },
);

test('a request that is stuck is cut when drainTimeout is over, in any worker, and the exit is 0 all the same', async () => {
  const { gateway, running, pids } = await start({ drainTimeout: '600ms' });
  const signalledAtMs = performance.now();
  gateway.process.signal('SIGTERM');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(performance.now() - signalledAtMs).toBeGreaterThan(580);
  expect(performance.now() - signalledAtMs).toBeLessThan(600 + LATE_MS);
  expect(await statuses(running)).toEqual([0, 0]);
  expect(pids.filter(runs)).toEqual([]);
});

test('a second signal, more than a second after the first, ends all of it at once', async () => {
  const { gateway, running, pids } = await start();
  const signalledAtMs = performance.now();
  gateway.process.signal('SIGTERM');
  await eventually(() => performance.now() - signalledAtMs > 1_100);
  const again = performance.now();
  gateway.process.signal('SIGTERM');
  expect(await gateway.process.exit).toEqual({ code: 128 + 15, signal: null });
  expect(performance.now() - again).toBeLessThan(LATE_MS);
  expect(await statuses(running)).toEqual([0, 0]);
  await eventually(() => expect(pids.filter(runs)).toEqual([]));
});

// Attack: the supervisor alone is killed. Workers that went on would hold connections and quota caches of a gateway that
// nobody can stop any more, beside the one that is started in its place.
test('kill -9 of the supervisor: the port is free at once, its workers finish what runs and end by themselves', async () => {
  const { gateway, held, running, pids } = await start();
  gateway.process.signal('SIGKILL');
  await eventually(async () => expect(await refuses(gateway.port)).toBe(true));
  const next = await startGateway({
    upstream: 'http://127.0.0.1:9',
    env: { ...(await workersOf(1)), PORT: String(gateway.port), ADMIN_PORT: String(gateway.adminPort) },
  });
  expect(next.port).toBe(gateway.port);
  expect(pids.filter(runs)).toEqual(pids);
  for (const response of held) response.end('{"late":true}');
  expect(await statuses(running)).toEqual([200, 200]);
  await eventually(() => expect(pids.filter(runs)).toEqual([]), { withinMs: 5_000 });
});

/** Makes a process the first of a namespace, as a container does, without root. */
const UNSHARE = ['-Urpf', '--kill-child', '--mount-proc'];
const canUnshare = spawnSync('unshare', [...UNSHARE, 'true']).status === 0;

test.skipIf(!canUnshare)('as process 1 of a container it drains at SIGTERM and exits with 0', async () => {
  const upstream = await startUpstream();
  const gateway = await relaunch(
    { upstream: upstream.origin, env: await workersOf(1) },
    `exec unshare ${UNSHARE.join(' ')} "$@"`,
    { WORKERS: '2' },
  );
  const { pid } = gateway.process;
  const first = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
  expect(readFileSync(`/proc/${first}/status`, 'utf8')).toMatch(/^NSpid:.*\t1$/m);
  expect((await gateway.get('/v1/pets')).status).toBe(200);
  expect((await readyOf(gateway)).workers).toHaveLength(2);
  process.kill(first, 'SIGTERM');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
});
