import { describe, expect, test } from 'vitest';
import { someKey } from '../../identify/some-key.ts';
import { gatewayOn } from '../../stores/redis-connections.ts';
import { eventually } from '../../support/conditions.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { asOperator } from '../../support/redis-user.ts';
import { behindSentinels, holdsOfAStaleReplica, infoOf, PATIENCE_MS, WITHIN } from './stale-replica.ts';

describe('behind Sentinels', () => holdsOfAStaleReplica(behindSentinels, false));

test(
  'a replica that nobody may list neither takes the place of one that is away, nor is forgotten when it is (reliability 234)',
  async () => {
    const { url, primary, replica, sentinels } = await behindSentinels();
    const follows = ['--replicaof', `127.0.0.1 ${primary.port}`, '--repl-diskless-sync-delay', '0'];
    const hidden = await privateRedis({ asProcess: true, configArgs: [...follows, '--replica-announced', 'no'] });
    await eventually(async () => /(state=online[\s\S]*){2}/.test(await infoOf(primary)), WITHIN);
    const { keys } = await gatewayOn(url, { timeoutMs: 1_000, durableWithinMs: 1_500 });
    const { key } = someKey();
    expect(await keys.create(key)).toEqual({ kind: 'durable' });
    const change = async (plan: string) => (await keys.update(key.id, (before) => ({ ...before, plan })))!.durability;
    await replica.kill();
    await eventually(async () => /connected_slaves:1/.test(await infoOf(primary)), WITHIN);
    expect((await change('without the listed one')).kind).toBe('unknown');
    await replica.restart({ keepData: true });
    await eventually(async () => /(state=online[\s\S]*){2}/.test(await infoOf(primary)), WITHIN);
    // The Sentinels ask the primary for its replicas every ten seconds.
    const known = async () => String(await redisCommand(asOperator(sentinels[0]!.url), 'SENTINEL', 'MASTER', 'main'));
    await eventually(async () => /num-slaves,2,/.test(await known()), WITHIN);
    await eventually(async () => (await change('with both')).kind === 'durable', WITHIN);
    await hidden.kill();
    await eventually(async () => /connected_slaves:1/.test(await infoOf(primary)), WITHIN);
    expect((await change('without the hidden one')).kind).toBe('unknown');
  },
  PATIENCE_MS,
);
