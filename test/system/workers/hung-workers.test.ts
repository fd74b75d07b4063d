import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { ROOT } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';
import { callers, keepAsking } from './callers.ts';
import { linesOf, metricOf, pidsOf, runs, startWorkers, untilServing } from './fleet.ts';

// Attack: one request finds a defect that keeps the thread of a worker for ever. As many such requests as there are workers
// end all service, and each worker takes a core until somebody looks.

const LIMIT_MS = 2_000;
const NODE_OPTIONS = `--import ${join(ROOT, 'test', 'support', 'hangs.ts')}`;
/** Loaded machines need longer than the bound to start a worker again. */
const BUSY_MS = 30_000;

async function start(env: Readonly<Record<string, string>> = {}): Promise<TestGateway> {
  const { origin } = await startUpstream();
  const more = `watchdog: ${LIMIT_MS / 1_000}s\nredis: { timeout: 5s }`;
  return startWorkers(2, { upstream: origin, more, env: { NODE_OPTIONS, ...env } });
}

async function liveness({ adminPort }: TestGateway): Promise<unknown> {
  const response = await fetch(`http://127.0.0.1:${adminPort}/livez`);
  return [response.status, ((await response.json()) as { status: string }).status];
}

test.each([
  ['hangs', 'SIGUSR2'],
  ['is stopped', 'SIGSTOP'],
] as const)(
  'a worker that %s is killed, logged, counted and replaced while the other serves (reliability 212)',
  async (_, signal) => {
    const gateway = await start();
    const { key } = await gateway.createKey('endless');
    const load = keepAsking(await callers(gateway, key, 4));
    const [stuck, other] = await pidsOf(gateway);
    process.kill(stuck!, signal);
    await eventually(() => expect(linesOf(gateway, 'a worker no longer turns, and is killed')).toHaveLength(1), {
      withinMs: BUSY_MS,
    });
    const [line] = linesOf(gateway, 'a worker no longer turns, and is killed');
    expect(line).toMatchObject({ level: 50, worker: 1, pid: stuck });
    expect(line!.silentMs).toBeGreaterThanOrEqual(LIMIT_MS);
    const answered = load.answered;
    const pids = await untilServing(gateway, 2);
    expect(pids).toContain(other);
    expect(pids).not.toContain(stuck);
    expect(runs(stuck!)).toBe(false);
    await eventually(() => expect(load.answered).toBeGreaterThan(answered + 20), { withinMs: BUSY_MS });
    const heard = await load.stop();
    // The callers of the other have noticed nothing.
    expect(heard.filter((mine) => mine.every(({ status }) => status === 200)).length).toBeGreaterThanOrEqual(2);
    const [ended] = linesOf(gateway, 'a worker ended, another takes its place');
    expect(ended).toMatchObject({ pid: stuck, signal: 'SIGKILL' });
    expect(await metricOf(gateway, 'tollgate_workers_stuck_total')).toBe(1);
    expect(await metricOf(gateway, 'tollgate_workers_lost_total')).toBe(1);
    expect(await liveness(gateway)).toEqual([200, 'alive']);
  },
);

// Attack: the probe of the orchestrator asks the supervisor, which is well, so the pod is never restarted.
test('/livez is 503 once no worker has turned for that long, and 200 when one serves again (reliability 213)', async () => {
  const gateway = await start();
  const stuck = await pidsOf(gateway);
  expect(await liveness(gateway)).toEqual([200, 'alive']);
  for (const pid of stuck) process.kill(pid, 'SIGUSR2');
  await eventually(async () => expect(await liveness(gateway)).toEqual([503, 'stuck']), { withinMs: BUSY_MS });
  await eventually(async () => expect(await liveness(gateway)).toEqual([200, 'alive']), { withinMs: BUSY_MS });
  const pids = await untilServing(gateway, 2);
  expect(pids.filter((pid) => stuck.includes(pid))).toEqual([]);
  expect((await gateway.get('/nowhere')).status).toBe(401);
  expect(await metricOf(gateway, 'tollgate_workers_stuck_total')).toBe(2);
});

// Fault: a breakpoint stops a worker, and it is killed under the eyes of the person who looks for a defect.
test('a worker whose debugger is open is left alone (reliability 215)', async () => {
  const options = { NODE_OPTIONS: `${NODE_OPTIONS} --inspect=127.0.0.1:0`, HANGS_FOR_MS: String(2 * LIMIT_MS) };
  const gateway = await start(options);
  const pids = await pidsOf(gateway);
  for (const pid of pids) process.kill(pid, 'SIGUSR2');
  await gateway.process.until(/hangs\n(?:.*\n)*hangs\n/);
  const hangsFromMs = performance.now();
  expect((await gateway.get('/nowhere')).status).toBe(401);
  expect(performance.now() - hangsFromMs).toBeGreaterThan(LIMIT_MS);
  expect(await untilServing(gateway, 2)).toEqual(pids);
  expect(await metricOf(gateway, 'tollgate_workers_stuck_total')).toBe(0);
});

// Fault: the supervisor is killed by the kernel while a worker hangs, which cannot see that its channel has closed.
test('a worker that hangs and has lost its supervisor ends by itself (reliability 214)', async () => {
  const gateway = await start();
  const [stuck, other] = await pidsOf(gateway);
  process.kill(stuck!, 'SIGUSR2');
  await gateway.process.until(/^hangs$/m);
  process.kill(gateway.process.pid, 'SIGKILL');
  await eventually(() => expect([stuck, other].filter((pid) => runs(pid!))).toEqual([]), { withinMs: BUSY_MS });
});
