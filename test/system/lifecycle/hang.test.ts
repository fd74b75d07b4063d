import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway } from '../../support/gateway.ts';
import { ROOT, startProcess } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';
import { linesOf, pidsOf, runs, startWorkers } from '../workers/fleet.ts';
import { relaunch } from './relaunch.ts';

// Fault: one request finds a defect that keeps the main thread for ever. The process answers nobody, obeys no SIGTERM, and
// looks alive to the service manager.

const LIMIT_MS = 2_000;
const HANGS = `--import ${join(ROOT, 'test', 'support', 'hangs.ts')}`;
const WATCHED = { more: `watchdog: ${LIMIT_MS / 1_000}s\nredis: { timeout: 5s }`, env: { NODE_OPTIONS: HANGS } };
const MESSAGE = 'the main thread no longer turns: this process ends itself';

async function start(more: Readonly<Record<string, string>> = {}, settings = WATCHED.more) {
  const { origin } = await startUpstream();
  return startGateway({ upstream: origin, more: settings, env: { ...WATCHED.env, ...more } });
}

test('a gateway of one process that hangs logs it and ends as by a crash (reliability 212)', async () => {
  const gateway = await start();
  gateway.process.signal('SIGUSR2');
  expect(await gateway.process.exit).toEqual({ code: null, signal: 'SIGKILL' });
  const [line] = linesOf(gateway, MESSAGE);
  expect(line).toMatchObject({ level: 60, pid: gateway.process.pid });
  expect(line!.silentMs).toBeGreaterThanOrEqual(LIMIT_MS);
});

test('a supervisor that hangs ends too, and its workers with it (reliability 212)', async () => {
  const { origin } = await startUpstream();
  const gateway = await startWorkers(2, { upstream: origin, ...WATCHED });
  const workers = await pidsOf(gateway);
  gateway.process.signal('SIGUSR2');
  expect(await gateway.process.exit).toEqual({ code: null, signal: 'SIGKILL' });
  expect(linesOf(gateway, MESSAGE)).toHaveLength(1);
  await eventually(() => expect(workers.filter(runs)).toEqual([]));
});

const UNSHARE = ['-Urpf', '--kill-child', '--mount-proc'];
const canUnshare = spawnSync('unshare', [...UNSHARE, 'true']).status === 0;

// Fault: the kernel protects the first process of a container from signals of its own, SIGKILL included.
test.skipIf(!canUnshare)('as process 1 of a container it ends as well, with a failure (reliability 212)', async () => {
  const { origin } = await startUpstream();
  const gateway = await relaunch({ upstream: origin, ...WATCHED }, `exec unshare ${UNSHARE.join(' ')} "$@"`);
  const { pid } = gateway.process;
  const first = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
  process.kill(first, 'SIGUSR2');
  const { code, signal } = await gateway.process.exit;
  expect([code, signal]).not.toEqual([0, null]);
  expect(linesOf(gateway, MESSAGE)).toMatchObject([{ pid: 1 }]);
});

// Fault: a breakpoint stops the main thread, and the process is killed under the eyes of the person who looks for a defect.
test.each([
  ['while a debugger is open', { NODE_OPTIONS: `${HANGS} --inspect=127.0.0.1:0` }, WATCHED.more],
  ['with `watchdog: off`', {}, 'watchdog: off'],
] as const)('%s a process is left alone (reliability 215)', async (_, env, settings) => {
  const gateway = await start({ HANGS_FOR_MS: String(2 * LIMIT_MS), ...env }, settings);
  gateway.process.signal('SIGUSR2');
  await gateway.process.until(/^hangs$/m);
  const hangsFromMs = performance.now();
  expect((await gateway.get('/nowhere')).status).toBe(401);
  expect(performance.now() - hangsFromMs).toBeGreaterThan(LIMIT_MS);
  expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
  expect(linesOf(gateway, MESSAGE)).toEqual([]);
});

// Fault: a laptop sleeps, a virtual machine is moved, a container is frozen: every clock has run on meanwhile.
test('all processes of a gateway stand still for longer, and none is killed (reliability 215)', async () => {
  const { origin } = await startUpstream();
  const gateway = await startWorkers(2, { upstream: origin, ...WATCHED });
  const workers = await pidsOf(gateway);
  process.kill(-gateway.process.pid, 'SIGSTOP');
  await delay(2 * LIMIT_MS);
  process.kill(-gateway.process.pid, 'SIGCONT');
  // A watcher that had counted this time would kill at its first look.
  await delay(LIMIT_MS);
  await eventually(async () => expect(await pidsOf(gateway)).toEqual(workers));
  expect(gateway.process.stdout).not.toMatch(/no longer turns|a worker ended/);
});

test('a gateway in the process of another program never ends that (reliability 215)', async () => {
  const gateway = { listen: {}, upstreams: { a: { targets: ['http://127.0.0.1:9'] } }, watchdog: '2s' };
  const routes = [{ path: '/', methods: ['GET'], upstream: 'a' }];
  const program = `
    import { createGateway } from '${join(ROOT, 'src', 'library.ts')}';
    const settings = ${JSON.stringify({ ...gateway, routes })};
    const gateway = await createGateway({ gateway: settings, plans: { plans: { free: { limits: { minute: 1 } } } } });
    const fromMs = performance.now();
    while (performance.now() - fromMs < ${2 * LIMIT_MS});
    await gateway.close();
    console.log('closed');
  `;
  const running = startProcess(process.execPath, ['--input-type=module', '--eval', program]);
  expect(await running.exit).toEqual({ code: 0, signal: null });
  expect(running.stdout).toBe('closed\n');
});

// Fault: each of many connections has something to read, and Node runs all their callbacks before the next timer.
test('a process that runs many short callbacks for longer than the limit, and no timer, is not killed (reliability 319)', async () => {
  const connections = 96;
  // libuv reads 32 times from each, and each callback takes a millisecond.
  const atLeastMs = connections * 32;
  const program = `
    import { createServer, connect } from 'node:net';
    import { startWatchdog } from '${join(ROOT, 'src', 'io', 'watchdog.ts')}';
    let read = 0;
    const callback = () => {
      read++;
      for (const fromMs = performance.now(); performance.now() - fromMs < 1; );
      return true;
    };
    const server = createServer((socket) => socket.write('x'.repeat(32 * 1024))).listen(0, '127.0.0.1', async () => {
      const onread = { buffer: Buffer.alloc(1024), callback };
      const clients = [];
      while (clients.length < ${connections}) {
        const { promise, resolve } = Promise.withResolvers();
        clients.push(connect({ port: server.address().port, host: '127.0.0.1', onread }, resolve).pause());
        await promise;
      }
      startWatchdog({ limitMs: ${LIMIT_MS}, line: 'sentence' });
      let longestMs = 0;
      let lastMs = performance.now();
      setInterval(() => {
        longestMs = Math.max(longestMs, performance.now() - lastMs);
        lastMs = performance.now();
        if (read < ${connections} * 32) return;
        console.log(longestMs);
        process.exit();
      });
      setTimeout(() => clients.forEach((client) => client.resume()), 500);
    });
  `;
  const running = startProcess(process.execPath, ['--input-type=module', '--eval', program]);
  expect(await running.exit).toEqual({ code: 0, signal: null });
  expect(Number(running.stdout)).toBeGreaterThan(Math.max(LIMIT_MS, atLeastMs));
});
