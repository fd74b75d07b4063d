import { describe, expect, test } from 'vitest';
import { createAuthority } from '../../support/certificates.ts';
import { eventually } from '../../support/conditions.ts';
import { freePort } from '../../support/free-port.ts';
import { startGateway, startReplica, type TestGateway } from '../../support/gateway.ts';
import { runTollgate, temporaryFolder } from '../../support/processes.ts';
import { type PrivateRedis, privateRedis, redisCommand } from '../../support/redis.ts';
import { privateCluster } from '../../support/redis-cluster.ts';
import { privateSentinels } from '../../support/redis-sentinel.ts';
import { rulesIn } from '../../support/redis-user.ts';
import { ROOM } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';

const KEY_PEPPER = 'a pepper that only the tests use';
/** A dozen processes are started, of Redis and of ours. */
const PATIENCE_MS = 60_000 * ROOM;

/** Two gateways on the store that `env` names. */
async function gatewaysOn(env: Readonly<Record<string, string>>): Promise<[TestGateway, TestGateway]> {
  const { origin } = await startUpstream();
  const one = await startGateway({ upstream: origin, env: { KEY_PEPPER, ...env } });
  return [one, await startReplica(one)];
}

/** One quota and one ban over both gateways, a lift, a top-up, a reset, a revocation, and every list: the whole way through a store. */
async function expectOneTruth([one, other]: [TestGateway, TestGateway]): Promise<void> {
  const made = await one.command('keys', 'create', '--plan', 'small', '--json');
  expect(made.stderr).toBe('');
  const { id, key } = JSON.parse(made.stdout) as { id: string; key: string };
  const codeOf = async (answer: Response) => ((await answer.json()) as { code: string }).code;
  const statuses: number[] = [];
  for (let i = 0; i < 6; i++) statuses.push((await (i % 2 ? one : other).get('/v1/pets', key)).status);
  expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
  for (let i = 0; i < 8; i++) await (i % 2 ? one : other).get('/v1/pets', key);
  expect(await codeOf(await one.get('/v1/pets', key))).toBe('api_key_banned');
  const bans = await other.command('bans', 'list', '--json');
  expect(JSON.parse(bans.stdout).bans).toHaveLength(1);
  expect((await other.command('bans', 'lift', id)).code).toBe(0);
  await eventually(async () => (await codeOf(await one.get('/v1/pets', key))) === 'rate_limit_exceeded', {
    withinMs: 1_000,
  });
  expect((await other.command('keys', 'topup', id, '--window', 'minute', '--amount', '1')).code).toBe(0);
  await eventually(async () => (await one.get('/v1/pets', key)).status === 200, { withinMs: 1_000 });
  expect((await other.command('usage', 'reset', id)).code).toBe(0);
  await eventually(async () => (await one.get('/v1/pets', key)).status === 200, { withinMs: 1_000 });
  const keys = await other.command('keys', 'list', '--json');
  expect(JSON.parse(keys.stdout).keys).toMatchObject([{ id }]);
  expect((await other.command('keys', 'revoke', id)).code).toBe(0);
  await eventually(async () => (await one.get('/v1/pets', key)).status === 401, { withinMs: 1_000 });
}

/** Also what the gateway could do without: a refusal is an entry in a list that operators watch for break-ins. */
async function expectNothingRefused(servers: readonly PrivateRedis[]): Promise<void> {
  for (const { url } of servers) expect(await redisCommand(url, 'ACL', 'LOG')).toEqual([]);
}

describe('two gateways are one truth', () => {
  test(
    'on a single server with TLS and a user of its own',
    async () => {
      const ca = await createAuthority(await temporaryFolder());
      const { cert, key } = await ca.issue('redis');
      const port = String(await freePort());
      const server = await privateRedis({
        asProcess: true,
        configArgs: [
          ...['--tls-port', port, '--tls-ca-cert-file', ca.cert, '--tls-cert-file', cert, '--tls-key-file', key],
          ...['--tls-auth-clients', 'no'],
        ],
      });
      await redisCommand(server.url, 'ACL', 'SETUSER', 'gate', 'on', '>p@ss', ...rulesIn('redis.acl'));
      const REDIS_URL = `rediss://gate:p%40ss@localhost:${port}/1`;
      await expectOneTruth(await gatewaysOn({ REDIS_URL, NODE_EXTRA_CA_CERTS: ca.cert }));
      await expectNothingRefused([server]);
      const { stderr } = await runTollgate(['keys', 'list'], { env: { REDIS_URL, KEY_PEPPER } });
      expect(stderr).toMatch(/its certificate is not trusted .* NODE_EXTRA_CA_CERTS/);
    },
    PATIENCE_MS,
  );

  test(
    'on a Redis Cluster with TLS and a user of its own',
    async () => {
      const ca = await createAuthority(await temporaryFolder());
      const cluster = await privateCluster({ tls: { ca: ca.cert, ...(await ca.issue('cluster')) } });
      for (const { url } of cluster.nodes) {
        await redisCommand(url, 'ACL', 'SETUSER', 'gate', 'on', '>p@ss', ...rulesIn('redis.acl'));
      }
      const REDIS_URL = cluster.url.replace(cluster.nodes[0]!.userInfo, 'gate:p%40ss@');
      await expectOneTruth(await gatewaysOn({ REDIS_URL, NODE_EXTRA_CA_CERTS: ca.cert }));
      await expectNothingRefused(cluster.nodes);
      const { stderr } = await runTollgate(['keys', 'list'], { env: { REDIS_URL, KEY_PEPPER } });
      expect(stderr).toMatch(/its certificate is not trusted .* NODE_EXTRA_CA_CERTS/);
    },
    PATIENCE_MS,
  );

  test(
    'behind Sentinels',
    async () => {
      const sentinels = await privateSentinels();
      await expectOneTruth(await gatewaysOn({ REDIS_URL: sentinels.url }));
      await expectNothingRefused([...sentinels.sentinels, ...sentinels.servers]);
    },
    PATIENCE_MS,
  );
});
