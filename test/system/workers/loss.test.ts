import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startUpstream } from '../../support/upstream.ts';
import { caller, callers, keepAsking } from './callers.ts';
import { connectionsOf, linesOf, metricOf, pidsOf, readyOf, runs, startWorkers, untilServing } from './fleet.ts';

// Attack: the kernel ends the process that uses the most memory, or a request finds a defect. One worker's callers pay for
// that, once; nobody else notices, and what was counted stays counted.

/** What comes true by work, not by a deadline, may take a busy machine this long. */
const BUSY_MS = 10_000;

const PLANTED = join(import.meta.dirname, '..', 'lifecycle', 'throws-later.ts');

test('kill -9 of a worker under load breaks its own connections once and no other, and another takes its place', async () => {
  const upstream = await startUpstream();
  const gateway = await startWorkers(3, { upstream: upstream.origin });
  const { key } = await gateway.createKey('endless');
  const load = keepAsking(await callers(gateway, key, 9));
  await eventually(() => expect(load.answered).toBeGreaterThan(100), { withinMs: BUSY_MS });
  expect(await connectionsOf(gateway)).toEqual([3, 3, 3]);
  const [doomed] = await pidsOf(gateway);
  const counted = await metricOf(gateway, 'tollgate_requests_total');
  process.kill(doomed!, 'SIGKILL');
  const served = load.answered;
  await eventually(() => expect(load.answered).toBeGreaterThan(served + 200), { withinMs: BUSY_MS });
  const pids = await untilServing(gateway, 3);
  expect(pids).not.toContain(doomed);
  const heard = await load.stop();
  const broken = heard.map((mine) => mine.filter(({ status }) => status !== 200));
  // One whose connection was idle in that moment has not even noticed.
  expect([1, 2, 3]).toContain(broken.filter(({ length }) => length > 0).length);
  expect(Math.max(...broken.map(({ length }) => length))).toBe(1);
  expect(new Set(broken.flat().map(({ status }) => status))).toEqual(new Set([0]));
  const [line] = linesOf(gateway, 'a worker ended, another takes its place');
  expect(line).toMatchObject({ level: 50, worker: 1, pid: doomed, code: null, signal: 'SIGKILL', pauseMs: 100 });
  expect(await metricOf(gateway, 'tollgate_workers_lost_total')).toBe(1);
  expect(await metricOf(gateway, 'tollgate_workers')).toBe(3);
  // Whoever adds up counters takes one that fell for a new start.
  // What the dead one had told is in it, and all that the others have served since. On each of its three connections an
  // answer of its own, which it could tell nobody any more, may still have been on its way.
  const since = load.answered - served - 3;
  await eventually(
    async () => expect(await metricOf(gateway, 'tollgate_requests_total')).toBeGreaterThanOrEqual(counted + since),
    { withinMs: BUSY_MS },
  );
});

test('with all workers gone at once nobody is turned away: who connects waits for those that take their places', async () => {
  const upstream = await startUpstream();
  const gateway = await startWorkers(2, { upstream: upstream.origin });
  const { key } = await gateway.createKey('endless');
  for (const pid of await pidsOf(gateway)) process.kill(pid, 'SIGKILL');
  await eventually(async () => expect((await readyOf(gateway)).status).toBe(503));
  const heard = await Promise.all(Array.from({ length: 6 }, () => caller(gateway, key).ask()));
  expect(heard.map(({ status }) => status)).toEqual(Array(6).fill(200));
});

test('a worker with a defect finishes what it runs and is replaced at once; the gateway stays ready, and sums do not fall', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream(async (request, response, { whole }) => {
    if (request.url?.includes('hold')) held.push(response);
    else if (await whole) response.end('{}');
  });
  const gateway = await startWorkers(2, {
    upstream: upstream.origin,
    env: { NODE_OPTIONS: `--import ${PLANTED}`, DEFECT: 'exception' },
  });
  const { key } = await gateway.createKey('endless');
  const before = await pidsOf(gateway);
  await Promise.all([caller(gateway, key).ask(), caller(gateway, key).ask()]);
  const running = [caller(gateway, key).ask('/v1/pets?hold'), caller(gateway, key).ask('/v1/pets?hold')];
  await eventually(() => expect(held).toHaveLength(2));
  process.kill(before[0]!, 'SIGUSR2');
  const after = await untilServing(gateway, 2).then(() =>
    eventually(async () => {
      const pids = await untilServing(gateway, 2);
      expect(pids).not.toContain(before[0]);
      return pids;
    }),
  );
  expect(after).toContain(before[1]);
  for (const response of held) response.end('{"late":true}');
  expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await caller(gateway, key).ask()).status).toBe(200);
  await eventually(() => expect(runs(before[0]!)).toBe(false), { withinMs: 5_000 });
  await eventually(() => expect(linesOf(gateway, 'uncaught exception')).toHaveLength(1));
  expect(linesOf(gateway, 'a worker stops by itself, another takes its place')).toHaveLength(1);
  // The last one is counted when its access line is written, which is a moment after its answer.
  await eventually(async () => expect(await metricOf(gateway, 'tollgate_requests_total')).toBe(5));
  expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
});
