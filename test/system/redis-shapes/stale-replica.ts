import { expect, test } from 'vitest';
import type { Durability } from '../../../src/admit/ledger.ts';
import { revoked } from '../../../src/operations/key-changes.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { someKey } from '../../identify/some-key.ts';
import { gatewayOn } from '../../stores/redis-connections.ts';
import { eventually } from '../../support/conditions.ts';
import { type PrivateRedis, redisCommand } from '../../support/redis.ts';
import { privateCluster, type Shard } from '../../support/redis-cluster.ts';
import { privateSentinels } from '../../support/redis-sentinel.ts';
import { asOperator } from '../../support/redis-user.ts';
import { ROOM } from '../../support/room.ts';

const KEYS = 200;
/** A dozen servers, and a failover that Redis times. */
export const PATIENCE_MS = 120_000 * ROOM;
export const WITHIN = { withinMs: 30_000, everyMs: 50 };

/** What loses a replica, and later its primary. */
interface Stand {
  readonly url: string;
  readonly primary: PrivateRedis;
  readonly replica: PrivateRedis;
  /** What else is on the host of the replica. */
  readonly beside: PrivateRedis;
  /** Until those who promote replicas know that the replica is away. */
  untilKnownAway(): Promise<void>;
  promote(): Promise<void>;
  /** Makes them forget the replica. */
  remove(): Promise<void>;
}

export const infoOf = async ({ url }: PrivateRedis) => String(await redisCommand(url, 'INFO', 'replication'));

export async function behindSentinels() {
  const { url, sentinels, servers } = await privateSentinels();
  const [primary, replica] = servers as [PrivateRedis, PrivateRedis];
  const asked = sentinels[0]!;
  const stateOf = async () => String(await redisCommand(asked.url, 'SENTINEL', 'REPLICAS', 'main'));
  return {
    url,
    sentinels,
    primary,
    replica,
    beside: sentinels[2]!,
    // Twice the time after which they take it for down: it would be long gone for whoever counts the time.
    untilKnownAway: async () =>
      void (await eventually(async () => Number(/,s-down-time,(\d+)/.exec(await stateOf())?.[1]) > 1_000, WITHIN)),
    promote: async () => {},
    remove: async () => {
      for (const sentinel of sentinels) await redisCommand(asOperator(sentinel.url), 'SENTINEL', 'RESET', 'main');
    },
  };
}

/** The first shard, with the primary of the second on the host of its replica. */
export async function inCluster(): Promise<Stand> {
  const { url, nodes, shards } = await privateCluster();
  const [{ primary, replica }, { primary: beside }, { primary: other }] = shards as [Shard, Shard, Shard];
  const id = String(await redisCommand(replica.url, 'CLUSTER', 'MYID'));
  const lineOf = async () => {
    const lines = String(await redisCommand(primary.url, 'CLUSTER', 'NODES')).split('\n');
    return lines.find((line) => line.startsWith(id)) ?? '';
  };
  return {
    url,
    primary,
    replica,
    beside,
    untilKnownAway: async () => void (await eventually(async () => /\bfail\b(?!\?)/.test(await lineOf()), WITHIN)),
    // As an operator does where the cluster does not: it does not trust a replica that does not know how old its data are. Again
    // until the others know it, because a node that has just been started may not have heard of them.
    promote: async () => {
      const isPromoted = async () => {
        await redisCommand(asOperator(replica.url), 'CLUSTER', 'FAILOVER', 'TAKEOVER').catch(() => {});
        const lines = String(await redisCommand(other.url, 'CLUSTER', 'NODES')).split('\n');
        return / master - .* connected \d+-\d+/.test(lines.find((line) => line.startsWith(id)) ?? '');
      };
      await eventually(isPromoted, { ...WITHIN, everyMs: 500 });
    },
    remove: async () => {
      for (const node of nodes) if (node !== replica) await redisCommand(asOperator(node.url), 'CLUSTER', 'FORGET', id);
    },
  };
}

interface Fault {
  leave(stand: Stand): Promise<void>;
  comeBack(stand: Stand): Promise<void>;
}

const paused: Fault = {
  leave: async ({ primary, replica }) => {
    await replica.pause();
    // Until the primary takes it for gone, by default after a minute, it is a replica that confirms nothing.
    await redisCommand(asOperator(primary.url), 'CONFIG', 'SET', 'repl-timeout', 2);
    await eventually(async () => /connected_slaves:0/.test(await infoOf(primary)), WITHIN);
  },
  comeBack: ({ replica }) => replica.resume(),
};
const restarted: Fault = {
  leave: async ({ replica }) => {
    await redisCommand(asOperator(replica.url), 'SAVE');
    await replica.kill();
  },
  comeBack: ({ replica }) => replica.restart({ keepData: true }),
};
const wholeHost: Fault = {
  leave: async ({ replica, beside }) => {
    await restarted.leave({ replica } as Stand);
    await beside.pause();
  },
  comeBack: async ({ replica, beside }) => {
    await beside.resume();
    await replica.restart({ keepData: true });
  },
};

/** Keys, all of them on the primary of the stand. */
async function keysOn({ primary }: Stand, isInCluster: boolean) {
  const slots = isInCluster ? await slotsOf(primary) : null;
  const made = [];
  while (made.length < KEYS) {
    const { key } = someKey();
    const slot =
      slots === null ? 0 : Number(await redisCommand(primary.url, 'CLUSTER', 'KEYSLOT', keyspace.apiKey(key.id)));
    if (slots === null || (slots.from <= slot && slot <= slots.to)) made.push(key);
  }
  return made;
}

async function slotsOf(node: PrivateRedis): Promise<{ from: number; to: number }> {
  const lines = String(await redisCommand(node.url, 'CLUSTER', 'NODES')).split('\n');
  const [from, to] = / (\d+)-(\d+)$/
    .exec(lines.find((line) => line.includes('myself'))!.trim())!
    .slice(1)
    .map(Number);
  return { from: from!, to: to! };
}

/** What holds of a replica that is away, whoever promotes it. */
export function holdsOfAStaleReplica(start: () => Promise<Stand>, isInCluster: boolean): void {
  test.each([
    { what: 'a replica that was stopped', fault: paused },
    { what: 'a replica that is started again', fault: restarted },
    { what: 'a whole host', fault: wholeHost },
  ])(
    '$what comes back as the primary is lost, and is promoted: no revocation is undone (reliability 231)',
    async ({ fault }) => {
      const stand = await start();
      const { keys } = await gatewayOn(stand.url, { timeoutMs: 1_000, durableWithinMs: 1_500 });
      const made = await keysOn(stand, isInCluster);
      for (const key of made) expect(await keys.create(key)).toEqual({ kind: 'durable' });
      await fault.leave(stand);
      await stand.untilKnownAway();
      const revoke = async (id: string): Promise<Durability> =>
        (await keys.update(id, (key) => revoked(key, Date.now())))!.durability;
      const answers = await Promise.all(made.map(({ id }) => revoke(id)));
      expect(answers.filter(({ kind }) => kind === 'durable')).toEqual([]);
      await stand.primary.kill();
      await fault.comeBack(stand);
      await stand.promote();
      await eventually(async () => /role:master/.test(await infoOf(stand.replica)), WITHIN);
      // It has none of the revocations; the gateway makes them again.
      const isRevoked = async (id: string) => (await keys.get(id))!.revokedAtMs !== null;
      await eventually(async () => (await Promise.all(made.map(({ id }) => isRevoked(id)))).every(Boolean), WITHIN);
    },
    PATIENCE_MS,
  );

  test(
    'a replica that the operator has removed no longer counts, and the changes until then are acknowledged (reliability 235)',
    async () => {
      const stand = await start();
      const { keys } = await gatewayOn(stand.url, { timeoutMs: 1_000, durableWithinMs: 60_000 });
      const [key] = await keysOn(stand, isInCluster);
      expect(await keys.create(key!)).toEqual({ kind: 'durable' });
      await stand.replica.kill();
      await stand.untilKnownAway();
      // Long before the time is over for which an answer is held back: the replica will not be back by then.
      const { durability } = (await keys.update(key!.id, (before) => revoked(before, 5)))!;
      if (durability.kind === 'durable') throw new Error('acknowledged without the replica');
      await stand.remove();
      expect(await durability.final).toBe('durable');
    },
    PATIENCE_MS,
  );
}
