import { spawnSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ask, TOKEN } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import { startGateway, startReplica, type TestGateway } from '../../support/gateway.ts';
import { startProcess, TOLLGATE } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;

async function gatewayThat(onFailure: 'local' | 'closed' | 'open'): Promise<TestGateway> {
  const upstream = await startUpstream();
  const env = { ADMIN_TOKEN: TOKEN };
  return startGateway({ upstream: upstream.origin, more: `redis: { onFailure: ${onFailure} }`, env });
}

/** How long a file may become that the process writes: with 0 bytes it is as on a full disk, and nobody need be root. */
function limitFiles({ process }: TestGateway, bytes: '0' | 'unlimited'): void {
  expect(spawnSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:`]).status).toBe(0);
}

const readyz = async ({ adminPort }: TestGateway) => {
  const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`);
  return { http: response.status, ...((await response.json()) as { store: string; outage?: { reason: string } }) };
};

const until = (gateway: TestGateway, store: string) =>
  eventually(async () => expect((await readyz(gateway)).store).toBe(store));

async function statuses(gateway: TestGateway, key: string, n: number): Promise<number[]> {
  const answers = await Promise.all(Array.from({ length: n }, () => gateway.get('/v1/pets', key)));
  return answers.map(({ status }) => status);
}

const linesOf = ({ process }: TestGateway, msg: string) =>
  process.stdout.split('\n').filter((line) => line.endsWith(`"msg":"${msg}"}`));

// Attack: the disk is full. The gateway seems to be well; then it is killed, and all that was counted since is forgotten.
test.skipIf(!hasPrlimit)(
  'a full disk is told everywhere, takes no change to a key, and costs no count when there is room again (reliability 159)',
  async () => {
    const gateway = await gatewayThat('local');
    const { key } = await gateway.createKey('free');
    expect(await statuses(gateway, key, 5)).toEqual(Array(5).fill(200));
    expect(await readyz(gateway)).toMatchObject({ http: 200, store: 'embedded' });
    limitFiles(gateway, '0');
    expect(await statuses(gateway, key, 5)).toEqual(Array(5).fill(200));
    await until(gateway, 'away');
    expect(await statuses(gateway, key, 10)).toEqual(Array(10).fill(200));

    const reason = expect.stringMatching(/^The embedded store does not do what was asked: .*\.$/);
    expect(await readyz(gateway)).toMatchObject({ http: 200, outage: { reason, lastsMs: expect.any(Number) } });
    expect(await metricOf(gateway.adminPort, 'tollgate_store_up')).toBe(0);
    expect(await metricOf(gateway.adminPort, 'tollgate_store_failures_total')).toBeGreaterThan(0);
    expect(await metricOf(gateway.adminPort, 'tollgate_store_owing')).toBe(1);
    // At least those 10; of the 5 before, those that came after the first write that failed.
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_local_decisions_total\{count="owed"\} 1[0-5]$/m);
    expect(metrics).toMatch(/^tollgate_requests_total\{.*source="local"\} 1[0-5]$/m);

    const created = await ask(gateway, 'POST', '/admin/keys', { plan: 'free' });
    expect({ status: created.status, code: created.body.code }).toEqual({ status: 503, code: 'store_unavailable' });
    const words = [...TOLLGATE, 'keys', 'create', '--plan', 'free'];
    const command = startProcess('sh', ['-c', 'ulimit -S -f 0; exec "$@"', 'sh', ...words], { env: gateway.env });
    expect((await command.exit).code).toBe(1);
    expect(command.stderr).toContain('The embedded store does not do what was asked');
    expect(command.stdout).toBe('');

    limitFiles(gateway, 'unlimited');
    await until(gateway, 'embedded');
    expect(await metricOf(gateway.adminPort, 'tollgate_store_up')).toBe(1);
    expect(await metricOf(gateway.adminPort, 'tollgate_store_owing')).toBe(0);
    expect((await ask(gateway, 'GET', '/admin/keys')).body.keys).toHaveLength(1);
    await gateway.process.until(/"the store is back"/);
    expect(linesOf(gateway, 'the store is away')).toEqual([expect.stringContaining('"onFailure":"local"')]);
    expect(linesOf(gateway, 'the store is back')).toHaveLength(1);
    expect(linesOf(gateway, 'the store failed')).toEqual([]);

    gateway.process.signal('SIGKILL');
    await gateway.process.exit;
    const next = await startReplica(gateway);
    expect((await next.get('/v1/pets', key)).headers.get('X-RateLimit-Remaining')).toBe(String(60 - 20 - 1));
  },
);

test.skipIf(!hasPrlimit).each([
  ['closed', [503, 503, 503, 503, 503, 503], 503],
  ['open', [200, 200, 200, 200, 200, 200], 200],
] as const)(
  'what a full disk cannot keep is decided as onFailure %s says, and counting goes on from where it was (reliability 159)',
  async (onFailure, meanwhile, readiness) => {
    const gateway = await gatewayThat(onFailure);
    const { key } = await gateway.createKey('gentle');
    limitFiles(gateway, '0');
    // Nothing has been written yet, so nothing has failed.
    expect(await statuses(gateway, key, 1)).toEqual([200]);
    await until(gateway, 'away');
    expect(await statuses(gateway, key, 6)).toEqual(meanwhile);
    expect((await readyz(gateway)).http).toBe(readiness);
    limitFiles(gateway, 'unlimited');
    await until(gateway, 'embedded');
    expect((await statuses(gateway, key, 3)).toSorted()).toEqual([200, 200, 429]);
  },
);

test('a data folder that is deleted under the gateway is told within a second, with what to do (reliability 159)', async () => {
  const gateway = await gatewayThat('local');
  // SQLite may make a file of its own between the two.
  rmSync(gateway.env.TOLLGATE_DATA!, { recursive: true, maxRetries: 10 });
  await until(gateway, 'away');
  expect((await readyz(gateway)).outage?.reason).toMatch(/has been deleted or replaced .* restore a copy/);
});

// Attack: the folder is moved, and the operator is told that a key is revoked in files that no later start will find.
test('a change to a key in a data folder that was moved is refused, and has not been made (reliability 159)', async () => {
  const gateway = await gatewayThat('local');
  const { id } = await gateway.createKey('free');
  await ask(gateway, 'GET', `/admin/keys/${id}`);
  const data = gateway.env.TOLLGATE_DATA!;
  renameSync(data, `${data}.moved`);
  // At once, before the gateway looks by itself, and again when it knows.
  for (const looks of [() => {}, () => until(gateway, 'away')]) {
    await looks();
    const answers = [
      await ask(gateway, 'DELETE', `/admin/keys/${id}`),
      await ask(gateway, 'POST', '/admin/keys', { plan: 'free' }),
    ];
    expect(answers.map(({ status, body }) => [status, body.code])).toEqual(Array(2).fill([503, 'store_unavailable']));
  }
  renameSync(`${data}.moved`, data);
  await until(gateway, 'embedded');
  const { keys } = (await ask(gateway, 'GET', '/admin/keys')).body;
  expect(keys).toEqual([expect.objectContaining({ id, revokedAt: null })]);
});
