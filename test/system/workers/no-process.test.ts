import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import type { Configuration } from '../../../src/config/settings.ts';
import { type WorkerEvents, WorkerProcess } from '../../../src/serve/workers/worker-pool.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { startUpstream } from '../../support/upstream.ts';
import { linesOf, pidsOf, runs, startWorkers, untilServing } from './fleet.ts';

// Attack: connections have used up what the system gives a gateway, or all of a machine, in the moment when a worker is
// lost. There is no process for the one that takes its place, and what was never started never ends.

test('a worker that no descriptor is left for is tried again, and the others serve', async () => {
  const { origin } = await startUpstream();
  const gateway = await startWorkers(2, { upstream: origin });
  const { key } = await gateway.createKey('endless');
  const [doomed, other] = await untilServing(gateway, 2);
  const { pid } = gateway.process;
  const limit = (files: number) => execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${files}:4096`]);
  limit(3);
  process.kill(doomed!, 'SIGKILL');
  const failed = () => linesOf(gateway, 'a worker cannot start');
  await eventually(() => expect(failed().length).toBeGreaterThan(1), { withinMs: 5_000 });
  expect(failed()[0]).toMatchObject({
    worker: 1,
    why: expect.stringMatching(/no process.*\(EMFILE\).*raise the limits/),
  });
  limit(4096);
  expect(await untilServing(gateway, 2)).toContain(other);
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  const pids = await pidsOf(gateway);
  expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
  expect(pids.filter(runs)).toEqual([]);
});

/** What is told of a worker, in this order, until it has ended. */
async function told(env: NodeJS.ProcessEnv): Promise<string[]> {
  const heard: string[] = [];
  const over = Promise.withResolvers<void>();
  const events = {
    onFailed: (_, { message }) => heard.push(message),
    onSilent: () => heard.push('silent'),
    onEnd: (_, end) => {
      heard.push(JSON.stringify(end));
      over.resolve();
    },
  } satisfies Partial<WorkerEvents> as unknown as WorkerEvents;
  const setup = {
    worker: 1,
    workers: 2,
    forTerminal: false,
    isObserved: false,
    configuration: {} as Configuration,
    env,
  };
  const worker = new WorkerProcess(setup, events);
  expect(worker.pid).toBeNull();
  const silent = once(worker.output.resume(), 'end');
  worker.drain();
  worker.signal('SIGKILL');
  expect(await worker.ask('readiness', 100)).toBeNull();
  await over.promise;
  await silent;
  return heard;
}

test.each([
  ['an event', 'ENOENT'],
  ['an exception', 'E2BIG'],
])('that there is none is told once, and that it has ended, where Node.js tells it with %s', async (_, code) => {
  const { execPath } = process;
  atEnd(() => {
    process.execPath = execPath;
  });
  if (code === 'ENOENT') process.execPath = '/nowhere/node';
  const env = code === 'E2BIG' ? { LARGE: 'x'.repeat(4 * 1024 * 1024) } : {};
  expect(await told(env)).toEqual([expect.stringContaining(`(${code})`), 'silent', '{"code":null,"signal":null}']);
});
