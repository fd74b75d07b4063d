import slotOf from 'cluster-key-slot';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Ledger } from '../../../src/admit/ledger.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { RedisLedger } from '../../../src/stores/redis/ledger.ts';
import { gatewayOn } from '../../stores/redis-connections.ts';
import { allowance } from '../../support/allowance.ts';
import { redisCommand } from '../../support/redis.ts';
import { type PrivateCluster, privateCluster, type Shard } from '../../support/redis-cluster.ts';
import { LATE_MS, paced } from '../../support/room.ts';
import { askSteadily, expectExactness, type SteadyAsks, usedBy } from './steady-asks.ts';

const LIMIT = 400;
/** Longer than by default: the machine is busy with six servers and more. */
const TIMEOUT_MS = paced(300);
const plan = allowance({ day: LIMIT }, null);
const consumerIds = Array.from({ length: 12 }, (_, i) => `consumer${i}`);

let cluster: PrivateCluster;
beforeAll(async () => {
  cluster = await privateCluster();
});

async function gateways(timeoutMs: number): Promise<Ledger[]> {
  await cluster.empty();
  const opened = await Promise.all([1, 2].map(() => gatewayOn(cluster.url, { timeoutMs })));
  return opened.map((gateway) => new RedisLedger({ ...gateway, publish: async () => {} }));
}

function givenUpIn({ tallies }: SteadyAsks): number {
  return [...tallies.values()].reduce((sum, { givenUp }) => sum + givenUp, 0);
}

describe('while gateways ask all the time, no consumer is admitted more than its limit, and each its whole limit', () => {
  test('when slots move from one primary to another, and no ask fails (reliability 102)', async () => {
    const ledgers = await gateways(2_000);
    const asks = askSteadily(ledgers, consumerIds, plan);
    await asks.answered(5);
    for (const id of consumerIds.slice(0, 4)) {
      const slot = slotOf(keyspace.account(id));
      const owner = await cluster.ownerOf(slot);
      const to = cluster.shards.find(({ primary }) => primary.port !== owner.port)!.primary;
      await cluster.moveSlot(slot, to, () => asks.answered(3));
      expect((await cluster.ownerOf(slot)).port).toBe(to.port);
    }
    await expectExactness(asks, ledgers[0]!, LIMIT);
    expect(givenUpIn(asks)).toBe(0);
  });

  test('when a replica takes over from its primary in agreement (reliability 103)', async () => {
    const ledgers = await gateways(TIMEOUT_MS);
    const asks = askSteadily(ledgers, consumerIds, plan);
    await asks.answered(5);
    await cluster.handOver(cluster.shards[0]!);
    await asks.answered(20);
    await expectExactness(asks, ledgers[0]!, LIMIT);
  });
});

test('scripts that all nodes have forgotten are given to them again', async () => {
  const [ledger] = await gateways(2_000);
  const asks = consumerIds.map((consumerId) => ({ consumerId, allowance: plan, cost: 1, n: 1 }));
  await ledger!.decide(asks);
  for (const { url } of cluster.nodes) await redisCommand(url, 'SCRIPT', 'FLUSH');
  await ledger!.decide(asks);
  for (const id of consumerIds) expect(await usedBy(ledger!, id, plan)).toBe(2);
});

/** The consumers whose accounts a node has. */
async function consumersOn(port: number): Promise<readonly string[]> {
  const owners = await Promise.all(consumerIds.map((id) => cluster.ownerOf(slotOf(keyspace.account(id)))));
  return consumerIds.filter((_, i) => owners[i]!.port === port);
}

describe('a primary that costs its own consumers a few seconds and nobody else anything', () => {
  const watch = async (ledgers: readonly Ledger[], shard: Shard, fail: () => Promise<void>) => {
    const victims = await consumersOn(shard.primary.port);
    expect(victims.length).toBeGreaterThan(0);
    const asks = askSteadily(ledgers, consumerIds, plan);
    await asks.answered(10);
    const long = asks.admittedOf(victims);
    await asks.answered(10);
    await fail();
    const short = asks.admittedOf(victims);
    await asks.answered(10);
    const [withinTheLag, spared] = [short - long, consumerIds.filter((id) => !victims.includes(id))];
    for (const id of spared) expect(asks.tallies.get(id)?.givenUp, id).toBe(0);
    await expectExactness(asks, ledgers[0]!, LIMIT, withinTheLag + victims.length * ledgers.length);
    expect(asks.longestMs()).toBeLessThan(TIMEOUT_MS + LATE_MS);
  };

  test('is killed (reliability 102, 103)', async () => {
    const shard = cluster.shards[1]!;
    await watch(await gateways(TIMEOUT_MS), shard, () => shard.primary.kill());
  });

  test('falls silent, and comes back when another has taken its place', async () => {
    const shard = cluster.shards[2]!;
    const ledgers = await gateways(TIMEOUT_MS);
    await watch(ledgers, shard, () => shard.primary.pause());
    await shard.primary.resume();
    const asks = askSteadily(ledgers, consumerIds, plan);
    await asks.answered(20);
    expect(givenUpIn(asks)).toBe(0);
  });
});
