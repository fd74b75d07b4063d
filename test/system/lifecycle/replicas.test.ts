import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { PLANS, startGateway, startReplica } from '../../support/gateway.ts';
import { isLasting } from '../../support/lasting-entries.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';

const LIMIT = 400;
const PEPPER = 'a pepper that only the tests use';

const ask = (port: number, key: string) =>
  fetch(`http://127.0.0.1:${port}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });

async function startFirst() {
  const upstream = await startUpstream();
  const redis = await privateRedis();
  const first = await startGateway({
    upstream: upstream.origin,
    plans: PLANS.replace('plans:', `plans:\n  edge: { limits: { minute: ${LIMIT}, day: 100000 } }`),
    env: { REDIS_URL: redis.url, KEY_PEPPER: PEPPER },
  });
  return { first, redis: redis.url };
}

// Attack: the machine of one gateway dies in the middle of its work. What it had counted must stay counted, or whoever
// makes it die gets a fresh quota; and whatever it held in the store (a lock, an account without an end) stays for ever.
test('kill -9 of one gateway: the other holds the limit, and nothing of the dead one stays in Redis (reliability 123)', async () => {
  const { first, redis } = await startFirst();
  const second = await startReplica(first);
  const { key } = await first.createKey('edge');
  let admitted = 0;
  let lost = 0;
  const askMany = async (port: number, times: number) => {
    for (let i = 0; i < times; i++) {
      const status = await ask(port, key).then(
        (answer) => answer.status,
        () => 0,
      );
      if (status === 200) admitted++;
      if (status === 0) lost++;
    }
  };
  // Eight at a time at the one that will be killed, and so, when it is, at most eight were counted and not answered.
  const doomed = Promise.all(Array.from({ length: 8 }, () => askMany(first.port, 20)));
  await eventually(() => expect(admitted).toBeGreaterThan(30));
  first.process.signal('SIGKILL');
  await doomed;
  expect(lost).toBeGreaterThan(0);
  await Promise.all(Array.from({ length: 8 }, () => askMany(second.port, LIMIT / 8 + 5)));
  expect(admitted).toBeLessThanOrEqual(LIMIT);
  // What it had borrowed stays counted: at most a sixteenth of the limit.
  expect(admitted).toBeGreaterThanOrEqual(LIMIT - 8 - LIMIT / 16);
  expect((await ask(second.port, key)).status).toBe(429);
  // The caller's account and history, for an hour what was changed of its key, the day of the last use of its secret, which is
  // noted after a while, and for a moment that it is refused. Each minute that ends adds the traffic of all callers.
  await eventually(async () => {
    const accounts: string[] = [];
    for (const name of (await redisCommand(redis, 'KEYS', '*')) as string[]) {
      if (Number(await redisCommand(redis, 'PTTL', name)) > 0) accounts.push(name);
      else expect({ name, lasts: isLasting(name) }).toEqual({ name, lasts: true });
    }
    const ofCaller = accounts.filter((name) => !/^tg:\{(refused|traffic)\}/.test(name));
    expect(ofCaller.map((name) => name.split(':')[1]).toSorted()).toEqual(['a', 'h', 'made', 'used']);
  });
});
