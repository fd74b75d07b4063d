import { once } from 'node:events';
import { createConnection } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { caller } from './callers.ts';
import { connectionsOf, metricOf, pidsOf, readyOf, runs, startWorkers } from './fleet.ts';

async function start(workers: number, listen: Readonly<Record<string, number>> = {}) {
  const upstream = await startUpstream();
  const gateway = await startWorkers(workers, { upstream: upstream.origin, listen });
  const { key } = await gateway.createKey('endless');
  return { gateway, key, upstream };
}

/** A connection that sends nothing. */
async function open({ port }: TestGateway) {
  const socket = createConnection(port, '127.0.0.1');
  atEnd(() => socket.destroy());
  const line = { socket, closed: false };
  socket.once('close', () => {
    line.closed = true;
  });
  socket.on('error', () => {}).resume();
  await once(socket, 'connect');
  return line;
}

/** Connections that come one after the other: the next one when it is told where the one before it went. */
async function openMany(gateway: TestGateway, count: number) {
  const sum = async () => (await connectionsOf(gateway)).reduce((total, some) => total + some, 0);
  const before = await sum();
  const lines: Awaited<ReturnType<typeof open>>[] = [];
  for (let i = 1; i <= count; i++) {
    lines.push(await open(gateway));
    await eventually(async () => expect(await sum()).toBe(before + i));
  }
  return lines;
}

// Attack: none. Clients keep few connections and keep them long; where all of them end in one process, the others idle. And
// a bound that each process keeps for itself is no bound, or turns away at one what another has room for.
test('connections are spread evenly, few ones too, and maxConnections bounds all workers together, to the connection', async () => {
  const { gateway, key } = await start(3, { maxConnections: 8 });
  const sorted = async () => (await connectionsOf(gateway)).toSorted();
  const lines = await openMany(gateway, 6);
  expect(await sorted()).toEqual([2, 2, 2]);
  // Two of the same worker: whoever merely takes turns would not make up for them.
  for (const i of [0, 3]) lines[i]?.socket.destroy();
  await eventually(async () => expect(await sorted()).toEqual([0, 2, 2]));
  await openMany(gateway, 2);
  expect(await sorted()).toEqual([2, 2, 2]);
  await openMany(gateway, 2);
  expect(await sorted()).toEqual([2, 3, 3]);
  // Each of them takes the place of the one that has been idle longest at its worker.
  const more = [await open(gateway), await open(gateway)];
  await eventually(async () => {
    expect(await metricOf(gateway, 'tollgate_connections_evicted_total{reason="connections"}')).toBe(2);
    expect(await sorted()).toEqual([2, 3, 3]);
  });
  expect(more.map(({ closed }) => closed)).toEqual([false, false]);
  more[0]?.socket.destroy();
  await eventually(async () => expect((await connectionsOf(gateway)).reduce((sum, some) => sum + some)).toBe(7));
  expect((await caller(gateway, key).ask()).status).toBe(200);
});

// Attack: one request finds something that takes a worker seconds. New clients must not wait behind it, and the one whose
// connection was on its way there is nobody's loss: the worker had not read a byte of it.
test.each([
  ['goes on', 'SIGCONT'],
  ['is killed', 'SIGKILL'],
] as const)(
  'a worker that does not move holds up one new connection and no other; that one is served when it %s',
  async (_, signal) => {
    const { gateway, key, upstream } = await start(2);
    const [stuck] = await pidsOf(gateway);
    process.kill(stuck!, 'SIGSTOP');
    atEnd(() => runs(stuck!) && process.kill(stuck!, 'SIGCONT'));
    const asked = Array.from({ length: 8 }, () => caller(gateway, key).ask());
    await eventually(() => expect(upstream.requests).toHaveLength(7));
    const { status, workers } = await readyOf(gateway);
    expect([status, workers.map(({ state }) => state)]).toEqual([200, ['silent', 'serving']]);
    expect(upstream.requests).toHaveLength(7);
    process.kill(stuck!, signal);
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(upstream.requests).toHaveLength(8);
  },
);
