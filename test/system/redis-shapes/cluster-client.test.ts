import slotOf from 'cluster-key-slot';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { StoreChange } from '../../../src/identify/record-store.ts';
import type { ClusterClient } from '../../../src/stores/redis/cluster.ts';
import { connectRedis } from '../../../src/stores/redis/connection.ts';
import { RedisAttemptCounter } from '../../../src/stores/redis/failed-attempts.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { RedisLedger } from '../../../src/stores/redis/ledger.ts';
import { someKey } from '../../identify/some-key.ts';
import { gatewayOn } from '../../stores/redis-connections.ts';
import { allowance } from '../../support/allowance.ts';
import { eventually } from '../../support/conditions.ts';
import { freePort } from '../../support/free-port.ts';
import type { PrivateRedis } from '../../support/private-redis.ts';
import { redisCommand } from '../../support/redis.ts';
import { type PrivateCluster, privateCluster } from '../../support/redis-cluster.ts';

let cluster: PrivateCluster;
beforeAll(async () => {
  cluster = await privateCluster();
});

test('slots are those of the cluster, whatever is in the braces', async () => {
  const names = [
    '',
    'a',
    'tg:keys',
    'tg:a:{key_1}',
    '{}x',
    '{x',
    'x}',
    '{a}{b}',
    '{{a}}',
    'tg:a:{https://ü.example|🐟}',
  ];
  for (const name of names) {
    expect(slotOf(name), name).toBe(await redisCommand(cluster.nodes[0]!.url, 'CLUSTER', 'KEYSLOT', name));
  }
});

test('a change is told to gateways that listen on any node, also after that node is gone', async () => {
  const [hearer, teller] = await Promise.all([gatewayOn(cluster.url), gatewayOn(cluster.url)]);
  const heard: StoreChange[] = [];
  hearer.changes.subscribe((change) => heard.push(change));
  /** The nodes that somebody listens on. */
  const listened = async () => {
    const counts = await Promise.all(
      cluster.nodes.map(({ url }) => redisCommand(url, 'PUBSUB', 'NUMSUB', keyspace.changesChannel(0))),
    );
    return cluster.nodes.filter((_, i) => (counts as [string, number][])[i]![1] > 0);
  };
  for (let round = 0; round < 2; round++) {
    await eventually(async () => (await listened()).length === 1, { withinMs: 5_000 });
    const { key } = someKey();
    await teller.keys.create(key);
    await eventually(() => expect(heard).toContainEqual({ kind: 'key', keyId: key.id }), { withinMs: 1_000 });
    const [node] = await listened();
    await redisCommand(node!.url, 'CLIENT', 'KILL', 'TYPE', 'pubsub');
  }
});

test('a cluster whose nodes all have new addresses is found again by those of REDIS_URL (reliability 255)', async () => {
  const announce = (portOf: (i: number) => number) =>
    Promise.all(
      cluster.nodes.map(({ url }, i) => redisCommand(url, 'CONFIG', 'SET', 'cluster-announce-port', portOf(i))),
    );
  const closed = await Promise.all(cluster.nodes.map(() => freePort()));
  const isClosed = (port: number) => closed.includes(port);
  await announce((i) => closed[i]!);
  onTestFinished(() => announce(() => 0).then(() => {}));
  const namedBy = async ({ url }: PrivateRedis) =>
    ((await redisCommand(url, 'CLUSTER', 'SLOTS')) as [number, number, ...[string, number][]][]).flatMap(
      ([, , ...places]) => places.map(([, port]) => port),
    );
  await eventually(
    async () => expect((await Promise.all(cluster.nodes.map(namedBy))).flat().every(isClosed)).toBe(true),
    { withinMs: 10_000 },
  );
  const redis = connectRedis({ url: cluster.url, connectTimeoutMs: 500 }) as ClusterClient;
  onTestFinished(() => redis.disconnect());
  const known = () => redis.slots.flat().map((address) => Number(address.split(':')[1]));
  await eventually(() => known().length > 0 && known().every(isClosed), { withinMs: 10_000 });
  await announce(() => 0);
  await eventually(() => redis.isWhole, { withinMs: 15_000 });
});

test('failed attempts of one address are counted over all gateways', async () => {
  const [one, other] = await Promise.all([gatewayOn(cluster.url), gatewayOn(cluster.url)]);
  const counters = [new RedisAttemptCounter(one), new RedisAttemptCounter(other)];
  const counts = [];
  for (let i = 0; i < 6; i++) counts.push((await counters[i % 2]!.add('192.0.2.7')).count);
  expect(counts).toEqual([1, 2, 3, 4, 5, 6]);
});

describe('a batch of asks', () => {
  test('is one write for each primary, whatever the number of consumers', async () => {
    const gateway = await gatewayOn(cluster.url);
    const { redis } = gateway;
    const ledger = new RedisLedger({ ...gateway, publish: async () => {} });
    const asks = Array.from({ length: 90 }, (_, i) => ({
      consumerId: `w${i}`,
      allowance: allowance({ minute: 5 }),
      cost: 1,
      n: 1,
    }));
    const slots = new Set(asks.map(({ consumerId }) => slotOf(keyspace.account(consumerId))));
    expect(slots.size).toBeGreaterThan(80);
    await ledger.decide(asks);
    let writes = 0;
    const nodes = 'nodes' in redis ? redis.nodes('master') : [];
    for (const { stream } of nodes) {
      const socket = stream as unknown as Record<'_write' | '_writev', (...words: unknown[]) => unknown>;
      for (const name of ['_write', '_writev'] as const) {
        const original = socket[name].bind(socket);
        socket[name] = (...words) => {
          writes++;
          return original(...words);
        };
      }
    }
    const decisions = await ledger.decide(asks);
    expect(decisions.map((decision) => decision?.accounts[0].windows.minute?.used)).toEqual(asks.map(() => 2));
    expect(writes).toBe(3);
  });
});

test('a key whose creation or change was cut short between two slots is repaired by doing it again', async () => {
  const { keys } = await gatewayOn(cluster.url);
  const { key, digest } = someKey();
  const at = async (name: string) => (await cluster.ownerOf(slotOf(name))).url;
  await redisCommand(await at(keyspace.digest(digest)), 'SET', keyspace.digest(digest), key.id);
  expect(await keys.findByDigest(digest)).toBeNull();
  await keys.create(key);
  expect(await keys.findByDigest(digest)).toEqual(key);
  // Revoked, and cut before anybody was told: the record alone decides.
  const revoked = { ...key, revokedAtMs: 7 };
  const name = keyspace.apiKey(key.id);
  await redisCommand(await at(name), 'SET', name, JSON.stringify(revoked));
  expect(await keys.findByDigest(digest)).toEqual(revoked);
});
