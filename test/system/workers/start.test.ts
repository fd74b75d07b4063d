import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { RestartPauses } from '../../../src/serve/workers/worker-pool.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listening.ts';
import { startTollgate, temporaryFolder } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';
import { linesOf, metricOf, readyOf, startWorkers, workersOf } from './fleet.ts';

const LOST = 'a worker ended, another takes its place';
const doom = (workers: string) => ({
  NODE_OPTIONS: `--import ${join(import.meta.dirname, 'dies-at-once.ts')}`,
  DOOMED: workers,
});

/** The processes that a process has started and that run. */
const childrenOf = (pid: number) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();

/** Files of a gateway that starts, and the environment that goes with them. */
async function files(gatewayYaml = ''): Promise<Record<string, string>> {
  const folder = await temporaryFolder();
  const [settings, plans] = [join(folder, 'gateway.yaml'), join(folder, 'plans.yaml')];
  const routes = 'routes:\n  - { path: /v1/pets, methods: [GET], upstream: store }\n';
  await writeFile(settings, `upstreams: { store: { targets: ['http://127.0.0.1:9'] } }\n${routes}${gatewayYaml}`);
  await writeFile(plans, 'plans:\n  free: { limits: { minute: 60 } }\n');
  const own = { TOLLGATE_CONFIG: settings, TOLLGATE_PLANS: plans, PORT: '0', ADMIN_PORT: '0' };
  return { ...(await workersOf(2)), ...own };
}

async function takenPort(): Promise<string> {
  const server = createServer();
  atEnd(() => server.close());
  return String((await listen(server)).port);
}

test('WORKERS=1 is one process and no other', async () => {
  const { origin } = await startUpstream();
  const gateway = await startWorkers(1, { upstream: origin });
  expect(childrenOf(gateway.process.pid)).toBe('');
  expect(await readyOf(gateway)).not.toHaveProperty('workers');
  expect(await metricOf(gateway, 'tollgate_workers')).toBe(1);
});

test('WORKERS=auto is a worker for each core', async () => {
  const { origin } = await startUpstream();
  const gateway = await startWorkers('auto', { upstream: origin });
  expect(await metricOf(gateway, 'tollgate_workers')).toBe(availableParallelism());
});

// Attack: the embedded store counts in the memory of one process; a second one would admit the limit once more.
test('with the embedded store one process runs, and the log says so', async () => {
  const { origin } = await startUpstream();
  const gateway = await startGateway({ upstream: origin, env: { WORKERS: '3' } });
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  expect(childrenOf(gateway.process.pid)).toBe('');
  const [line] = gateway.process.stdout.split('\n').filter((text) => text.includes('WORKERS'));
  expect(JSON.parse(line ?? '{}')).toMatchObject({ level: 40, msg: expect.stringMatching(/embedded.*set REDIS_URL/) });
});

test.each(['PORT', 'ADMIN_PORT'])(
  'with %s in use it ends with the sentence that one process ends with, and a failure',
  async (name) => {
    const port = await takenPort();
    const running = await startTollgate(['serve'], { env: { ...(await files()), [name]: port } });
    expect(await running.exit).toEqual({ code: 1, signal: null });
    expect(running.stderr).toMatch(
      new RegExp(`^Cannot listen on 127\\.0\\.0\\.1:${port}: it is in use; [^\n]* in ${name}\\.\n$`),
    );
    expect(running.stdout).not.toContain('"serving"');
  },
);

// What only a worker reads is found out by the workers, all at once: it is said once.
test('what a worker cannot start with ends it with one sentence and a failure', async () => {
  const folder = await temporaryFolder();
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  const env = await files(`listen: { tls: { cert: ${cert}, key: ${key} } }\n`);
  const running = await startTollgate(['serve'], { env });
  expect(await running.exit).toEqual({ code: 1, signal: null });
  expect(running.stderr).toBe(
    `listen.tls: ${cert} cannot be read (ENOENT); name a file in PEM form that this user may read.\n`,
  );
  expect(running.stdout).not.toContain('"serving"');
});

test('when every worker ends before it serves, the whole ends with a failure', async () => {
  const running = await startTollgate(['serve'], { env: { ...(await files()), ...doom('1,2') } });
  expect(await running.exit).toEqual({ code: 1, signal: null });
  expect(running.stderr).toMatch(/^No worker could be started: [^\n]*\n$/);
});

// Attack: something that only one worker meets ends it at every start. Started again without a pause, it would take the
// core from those that serve.
test('a worker that dies at once again and again is started after pauses that grow, and the others serve', async () => {
  const { origin } = await startUpstream();
  const gateway = await startWorkers(2, { upstream: origin, env: doom('2') });
  const { key } = await gateway.createKey('free');
  await eventually(() => expect(linesOf(gateway, LOST).length).toBeGreaterThan(3), { withinMs: 10_000 });
  const lost = linesOf(gateway, LOST);
  expect(lost.slice(0, 4).map(({ pauseMs }) => pauseMs)).toEqual([100, 200, 400, 800]);
  for (const [i, line] of lost.entries()) {
    expect(line).toMatchObject({ worker: 2, code: 7 });
    const before = lost[i - 1];
    if (before === undefined) continue;
    const sinceMs = Date.parse(String(line.time)) - Date.parse(String(before.time));
    expect(sinceMs).toBeGreaterThanOrEqual(Number(before.pauseMs));
  }
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  const { status, workers } = await readyOf(gateway);
  expect([status, workers[0]?.state]).toEqual([200, 'serving']);
  expect(['replaced', 'starting']).toContain(workers[1]?.state);
});

test('the pause doubles to half a minute, and is short again behind a worker that has lived', () => {
  const pauses = new RestartPauses();
  expect(Array.from({ length: 11 }, () => pauses.after(0))).toEqual([
    100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
  ]);
  expect(pauses.after(9_999)).toBe(30_000);
  expect([pauses.after(10_000), pauses.after(0)]).toEqual([100, 200]);
});
