import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway, startReplica, type TestGateway } from '../../support/gateway.ts';
import { startTollgate } from '../../support/processes.ts';
import { redisCommand, testRedis } from '../../support/redis.ts';
import { LATE_MS } from '../../support/room.ts';
import { stopwatch } from '../../support/stopwatch.ts';
import { startUpstream } from '../../support/upstream.ts';
import { createKey, jsonOf } from './command.ts';
import { PEPPER } from './fleet.ts';

const STORES = {
  'the embedded store': async () => ({}),
  Redis: async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { REDIS_URL: url, KEY_PEPPER: PEPPER };
  },
};

async function gatewayOn(store: keyof typeof STORES): Promise<TestGateway> {
  const { origin } = await startUpstream();
  // A busy machine must not make this a test of the outage policy.
  return startGateway({ upstream: origin, env: await STORES[store](), more: 'redis: { timeout: 5s }' });
}

async function kill({ process }: TestGateway): Promise<void> {
  process.signal('SIGKILL');
  expect(await process.exit).toEqual({ code: null, signal: 'SIGKILL' });
}

/** Sends `n` requests one after the other; tells the last answer's body, and what all of them left. */
async function send(gateway: TestGateway, key: string, n: number) {
  let remaining = Number.NaN;
  let body: { code?: string; details?: { bannedUntil: number; ban: number } } = {};
  for (let i = 0; i < n; i++) {
    const response = await gateway.get('/v1/pets', key);
    remaining = Number(response.headers.get('X-RateLimit-Remaining'));
    body = (await response.json()) as typeof body;
  }
  return { remaining, body };
}

/** 3 are admitted, 9 refused, the 13th is banned. */
const UNTIL_BANNED = 3 + 10;

const usageOf = ({ env }: TestGateway, id: string) => jsonOf(env, 'usage', id);

describe.each(Object.keys(STORES) as (keyof typeof STORES)[])('on %s', (store) => {
  test('a stop in order loses nothing: counts, strikes and bans are there at the next start (reliability 134)', async () => {
    const first = await gatewayOn(store);
    const [counted, struck, banned] = await Promise.all(
      ['free', 'small', 'small'].map((plan) => createKey(first.env, plan)),
    );
    await Promise.all([send(first, counted!.key, 17), send(first, struck!.key, 5)]);
    const { body } = await send(first, banned!.key, UNTIL_BANNED);
    expect(body).toMatchObject({ code: 'api_key_banned', details: { ban: 1 } });
    expect(await first.process.stop()).toEqual({ code: 0, signal: null });

    const second = await startReplica(first);
    expect((await send(second, counted!.key, 1)).remaining).toBe(60 - 17 - 1);
    expect((await usageOf(second, struck!.id)).strikes).toBe(2);
    expect((await send(second, banned!.key, 1)).body.details).toEqual(body.details);
  });

  test('a lift by a command is obeyed within a second by the gateway that runs, also if that is killed after it', async () => {
    const gateway = await gatewayOn(store);
    const { id, key } = await createKey(gateway.env, 'small');
    expect((await send(gateway, key, UNTIL_BANNED + 1)).body.code).toBe('api_key_banned');
    await eventually(async () => (await usageOf(gateway, id)).ban !== null, { withinMs: 5_000 });
    const all = store === 'Redis' ? [gateway, await startReplica(gateway)] : [gateway];
    for (const each of all) expect((await send(each, key, 1)).body.code).toBe('api_key_banned');

    expect(await gateway.command('bans', 'lift', id)).toMatchObject({ code: 0, stderr: '' });
    const isObeyed = async (each: TestGateway) => (await send(each, key, 1)).body.code === 'rate_limit_exceeded';
    await Promise.all(all.map((each) => eventually(() => isObeyed(each), { withinMs: 1_000 })));
    // The strike of each is on the disk: the snapshot after the lift has been written, without the ban.
    await eventually(async () => (await usageOf(gateway, id)).strikes === all.length, { withinMs: 5_000 });
    expect((await usageOf(gateway, id)).ban).toBeNull();
    expect((await send(gateway, key, 1)).body.code).toBe('rate_limit_exceeded');

    await kill(gateway);
    const next = await startReplica(gateway);
    expect((await send(next, key, 1)).body.code).toBe('rate_limit_exceeded');
  });
});

describe('on the embedded store', () => {
  test('kill -9 costs at most what the last second counted, no ban, and leaves no lock behind', async () => {
    const first = await gatewayOn('the embedded store');
    const [counted, banned] = await Promise.all(['free', 'small'].map((plan) => createKey(first.env, plan)));
    await send(first, counted!.key, 20);
    const { body } = await send(first, banned!.key, UNTIL_BANNED);
    // Whatever is a second old is on the disk. A command would ask the gateway.
    const stop = stopwatch();
    const db = new DatabaseSync(join(first.env.TOLLGATE_DATA!, 'tollgate.db'), { readOnly: true });
    const kept = (id: string) => {
      const row = db.prepare('SELECT state FROM accounts WHERE consumer_id = ?').get(id);
      return row === undefined ? null : JSON.parse(String(row.state));
    };
    await eventually(() => kept(counted!.id)?.windows.minute.used === 20 && kept(banned!.id)?.ban != null);
    db.close();
    expect(stop()).toBeLessThan(1_000 + LATE_MS);
    await send(first, counted!.key, 5);
    await kill(first);

    const second = await startReplica(first);
    const used = 60 - (await send(second, counted!.key, 1)).remaining - 1;
    expect(used).toBeGreaterThanOrEqual(20);
    expect(used).toBeLessThanOrEqual(25);
    expect((await send(second, banned!.key, 1)).body.details).toEqual(body.details);
  });

  test('a second gateway is refused with a sentence, and the first goes on', async () => {
    const first = await gatewayOn('the embedded store');
    const { key } = await createKey(first.env, 'free');
    const second = await startTollgate(['serve'], { env: first.env });
    expect(await second.exit).toEqual({ code: 1, signal: null });
    expect(second.stderr).toMatch(/^Another gateway owns the embedded store in \S+\. Stop it, .*TOLLGATE_DATA.*\n$/);
    expect(second.stdout).not.toContain('serving');
    expect((await first.get('/v1/pets', key)).status).toBe(200);
  });
});
