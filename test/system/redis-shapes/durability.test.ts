import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Durability } from '../../../src/admit/ledger.ts';
import { revoked } from '../../../src/operations/key-changes.ts';
import { someKey } from '../../identify/some-key.ts';
import { gatewayOn } from '../../stores/redis-connections.ts';
import { eventually } from '../../support/conditions.ts';
import { redisCommand } from '../../support/redis.ts';
import { privateSentinels } from '../../support/redis-sentinel.ts';
import { paced } from '../../support/room.ts';

test('no revocation that was acknowledged during a planned failover is undone by it, and the others are made again (reliability 155)', async () => {
  const sentinels = await privateSentinels();
  const { keys } = await gatewayOn(sentinels.url, { timeoutMs: paced(500), durableWithinMs: paced(1_500) });
  const made = Array.from({ length: 200 }, () => someKey().key);
  for (const created of await Promise.all(made.map((key) => keys.create(key)))) expect(created.kind).toBe('durable');
  const before = await sentinels.primary();
  await redisCommand(sentinels.sentinels[0]!.url, 'SENTINEL', 'FAILOVER', 'main');
  const answers: Promise<Durability | null>[] = [];
  let after = 0;
  for (const { id } of made) {
    const answer = keys.update(id, (key) => revoked(key, Date.now())).then((updated) => updated!.durability);
    answers.push(answer.catch(() => null));
    // The pace of an operator's script, until another server has been the primary for a while. The former one takes writes as well.
    await delay(80);
    if ((await sentinels.primary()).url !== before.url && ++after === 15) break;
  }
  const durabilities = await Promise.all(answers);
  const isFollower = async () => /role:slave/.test(String(await redisCommand(before.url, 'INFO', 'replication')));
  await eventually(isFollower, { withinMs: 15_000, everyMs: 50 });
  for (const durability of durabilities) {
    if (durability?.kind === 'unknown') expect(await durability.final).toBe('durable');
  }
  const { url } = await sentinels.primary();
  expect(url).not.toBe(before.url);
  const there = await gatewayOn(url);
  const revocations = made.slice(0, answers.length);
  const worksAgain = await Promise.all(
    revocations.map(async ({ id }) => (await there.keys.get(id))!.revokedAtMs === null),
  );
  const undone = durabilities.filter((durability, i) => durability !== null && worksAgain[i]);
  expect({ undone, answered: durabilities.some((one) => one?.kind === 'durable') }).toEqual({
    undone: [],
    answered: true,
  });
});
