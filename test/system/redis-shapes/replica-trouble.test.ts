import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { privateSentinels } from '../../support/redis-sentinel.ts';
import { ROOM } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';

const ENV = {
  KEY_PEPPER: 'a pepper that only the tests use',
  ADMIN_TOKEN: 'admin-token-of-the-tests-0123456789',
  WORKERS: '2',
};
const PATIENCE_MS = 120_000 * ROOM;
const WITHIN = { withinMs: 30_000, everyMs: 100 };

const readiness = async ({ adminPort }: TestGateway) =>
  (await (await fetch(`http://127.0.0.1:${adminPort}/readyz`)).json()) as { status: string; replicas?: string[] };
const metricOf = async ({ adminPort }: TestGateway, name: string) => {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
};
const admin = async ({ adminPort }: TestGateway, method: string, path: string, body?: object) => {
  const response = await fetch(`http://127.0.0.1:${adminPort}/admin${path}`, {
    method,
    headers: { Authorization: `Bearer ${ENV.ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

test(
  'a replica that is gone is told with the command that removes it, by /readyz, log, metric and doctor, until it is back (reliability 235)',
  async () => {
    const { url, servers, sentinels } = await privateSentinels();
    const replica = servers[1]!;
    const { origin } = await startUpstream();
    const gateway = await startGateway({ upstream: origin, env: { ...ENV, REDIS_URL: url } });
    const [first, second] = [await gateway.createKey('free'), await gateway.createKey('free')];
    expect(await readiness(gateway)).not.toHaveProperty('replicas');
    await replica.kill();
    const told = await eventually(async () => (await readiness(gateway)).replicas ?? false, WITHIN);
    const command = `redis-cli -h 127.0.0.1 -p ${sentinels[0]!.port} SENTINEL RESET main`;
    expect(told).toEqual([expect.stringContaining(`The replica 127.0.0.1:${replica.port} is not connected`)]);
    expect(told[0]).toContain(command);
    expect((await readiness(gateway)).status).toBe('ready');
    expect(await metricOf(gateway, 'tollgate_replicas_away')).toBe(1);
    await gateway.process.until(/"msg":"a replica is away"/);
    const { stdout } = await gateway.command('doctor', '--json');
    const { findings } = JSON.parse(stdout) as { findings: { check: string; state: string; message: string }[] };
    expect(findings.filter(({ check }) => check === 'replicas')).toEqual([
      { check: 'replicas', state: 'warn', message: told[0] },
    ]);
    const revoked = await gateway.command('keys', 'revoke', first.id);
    expect([revoked.code, revoked.stderr]).toEqual([1, expect.stringContaining('`tollgate doctor` names the replica')]);
    const answer = await admin(gateway, 'DELETE', `/keys/${second.id}`);
    expect([answer.status, answer.body.durability]).toEqual([202, 'unknown']);
    await replica.restart({ keepData: false });
    await eventually(async () => (await readiness(gateway)).replicas === undefined, WITHIN);
    await gateway.process.until(/"msg":"every replica is in sync again"/);
    expect(await metricOf(gateway, 'tollgate_replicas_away')).toBe(0);
    await eventually(async () => (await admin(gateway, 'DELETE', `/keys/${second.id}`)).status === 200, WITHIN);
  },
  PATIENCE_MS,
);

test(
  'a number of changes below what was acknowledged is an error line and a metric (reliability 233)',
  async () => {
    const server = await privateRedis();
    const { origin } = await startUpstream();
    const gateway = await startGateway({ upstream: origin, env: { ...ENV, REDIS_URL: server.url } });
    expect((await admin(gateway, 'POST', '/keys', { plan: 'free' })).status).toBe(201);
    expect(await metricOf(gateway, 'tollgate_changes_lost_total')).toBe(0);
    await redisCommand(server.url, 'SET', 'tg:changes', 0);
    const [line] = await gateway.process.until(/^.*"msg":"the store has lost acknowledged changes".*$/m);
    expect(JSON.parse(line)).toMatchObject({ level: 50, count: 0, acknowledged: 1 });
    await eventually(async () => (await metricOf(gateway, 'tollgate_changes_lost_total')) === 1, WITHIN);
  },
  PATIENCE_MS,
);
