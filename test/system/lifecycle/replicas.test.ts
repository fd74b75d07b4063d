import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { freePort } from '../../support/free-port.ts';
import { PLANS, startGateway, startReplica } from '../../support/gateway.ts';
import { isLasting } from '../../support/lasting-entries.ts';
import { startTollgate } from '../../support/processes.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';

const LIMIT = 400;
const PEPPER = 'a pepper that only the tests use';

const ask = (port: number, key: string) =>
  fetch(`http://127.0.0.1:${port}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });

async function startFirst(env: Readonly<Record<string, string>> = {}, answerAfterMs = 0) {
  const upstream = await startUpstream(async (_request, response) => {
    await delay(answerAfterMs);
    response.end('{}');
  });
  const redis = await privateRedis();
  const first = await startGateway({
    upstream: upstream.origin,
    plans: PLANS.replace('plans:', `plans:\n  edge: { limits: { minute: ${LIMIT}, day: 100000 } }`),
    env: { REDIS_URL: redis.url, KEY_PEPPER: PEPPER, ...env },
  });
  return { first, redis: redis.url, upstream };
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

// Attack: none but our own: every new version stops each gateway once. Callers must not notice, if they do what every
// client of an idempotent request may do: send it again, elsewhere.
test('gateways that are restarted one after the other under load cost a client that retries elsewhere nothing (reliability 121)', async () => {
  const ports = [await freePort(), await freePort()] as const;
  const { first, upstream } = await startFirst({ PORT: String(ports[0]) }, 20);
  const { key } = await first.createKey('endless');
  const startOn = async (port: number) => {
    const running = await startTollgate(['serve'], { env: { ...first.env, PORT: String(port) } });
    await running.until(/"msg":"serving"/);
    return running;
  };
  const processes = [first.process, await startOn(ports[1])];
  let stop = false;
  let served = 0;
  let retried = 0;
  const failed: unknown[] = [];
  const client = async (turn: number) => {
    for (let i = turn; !stop; i++) {
      const answer = await ask(ports[i % 2]!, key).catch(() => {
        retried++;
        return ask(ports[(i + 1) % 2]!, key);
      });
      await answer.arrayBuffer();
      if (answer.status === 200) served++;
      else failed.push(answer.status);
    }
  };
  const clients = Promise.all([0, 1, 0, 1].map((turn) => client(turn).catch((error: unknown) => failed.push(error))));
  for (const i of [0, 1]) {
    const before = served;
    await eventually(() => expect(served).toBeGreaterThan(before + 50), { withinMs: 5_000 });
    processes[i]?.signal('SIGTERM');
    expect(await processes[i]?.exit).toEqual({ code: 0, signal: null });
    const alone = served;
    await eventually(() => expect(served).toBeGreaterThan(alone + 20), { withinMs: 5_000 });
    processes[i] = await startOn(ports[i]!);
  }
  stop = true;
  await clients;
  expect(failed).toEqual([]);
  expect(retried).toBeGreaterThan(0);
  // Nothing was sent again that had begun: what ran at each stop was finished.
  expect(upstream.requests).toHaveLength(served);
  expect(served).toBeGreaterThan(140);
});
