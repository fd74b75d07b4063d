import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { type Stand, startStand } from '../../../tools/console/stand.ts';
import { paced, ROOM } from '../../support/room.ts';
import { launchBrowser, type Visit, visit } from './console-visit.ts';

// The screen Keys with a million keys in the store.

const KEYS = 1_000_000;
const AT_ONCE = 50_000;
const SHOWN_WITHIN_MS = paced(5_000);
/** For a busy machine: the gateway answers a part of a search after a second at most. */
const PATIENCE = { timeout: 15_000 * ROOM };

let browser: Browser;
let stand: Stand;
let admin: Visit;

beforeAll(async () => {
  [browser, stand] = await Promise.all([launchBrowser(), startStand({ keepsData: false })]);
  await seed(stand);
  admin = await visit(browser, stand.gateways[0].admin, stand.tokens.admin);
});
afterAll(async () => {
  await browser?.close();
  await stand?.close();
});

test('a page of the list appears within 5 s, and so does the next', async () => {
  const { page } = admin;
  const beganAt = performance.now();
  await page.goto('/console/keys');
  await page.getByText('50 keys shown.').waitFor();
  const firstMs = performance.now() - beganAt;
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('100 keys shown.').waitFor();
  expect(firstMs).toBeLessThan(SHOWN_WITHIN_MS);
  expect(performance.now() - beganAt).toBeLessThan(2 * SHOWN_WITHIN_MS);
});

test('a search without a match shows how far it is, can be stopped, and goes on from there', async () => {
  const { page } = admin;
  await page.getByRole('searchbox', { name: 'Search' }).fill('nobody-has-this');
  const status = page.getByRole('status').filter({ hasText: /searched/i });
  await page.getByText(/^Searched [\d,]+ keys…$/).waitFor({ timeout: SHOWN_WITHIN_MS });
  const [first] = /[\d,]+/.exec(await status.innerText())!;
  await expect.poll(async () => /[\d,]+/.exec(await status.innerText())![0], PATIENCE).not.toBe(first);
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText(/^0 keys shown, [\d,]+ searched\.$/).waitFor();
  expect(await page.getByRole('button', { name: 'Stop' }).count()).toBe(0);
  await page.getByRole('button', { name: 'Search on' }).click();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Search on' }).waitFor();
});

test('a whole secret finds its key at once among a million', async () => {
  const { page } = admin;
  const beganAt = performance.now();
  await page.getByRole('searchbox', { name: 'Search' }).fill(stand.keys.fine.key);
  await page.getByRole('link', { name: 'Zoo of the North' }).waitFor();
  expect(performance.now() - beganAt).toBeLessThan(SHOWN_WITHIN_MS);
});

test('the last key by its age is found by a part of its name', async () => {
  const { page } = admin;
  await page.getByRole('searchbox', { name: 'Search' }).fill('The very last of all');
  await page.getByRole('link', { name: 'The very last of all' }).waitFor({ timeout: 60_000 * ROOM });
});

/**
 * Copies a key of the stand within Redis, a million times under other ids, names and digests: as `RedisKeys` writes them,
 * but without a round trip for each.
 */
async function seed({ redis: { port }, keys }: Stand): Promise<void> {
  const redis = new Redis({ port, host: '127.0.0.1' });
  try {
    const text = (await redis.get(keyspace.apiKey(keys.fine.id)))!;
    const { createdAtMs, secrets } = JSON.parse(text) as {
      createdAtMs: number;
      secrets: readonly { digest: string }[];
    };
    const script = `
      for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
        local number = string.format('%08d', i)
        local id = ARGV[3] .. number
        local digest = ARGV[4] .. number
        local record = ARGV[5] .. id .. ARGV[6] .. number .. ARGV[7] .. digest .. ARGV[8]
        redis.call('SET', ARGV[9] .. id .. ARGV[10], record)
        redis.call('SET', ARGV[11] .. digest, id)
        redis.call('ZADD', KEYS[1], tonumber(ARGV[12]) + i, id)
      end`;
    const idStart = `key_${randomBytes(4).toString('hex')}`;
    const digest = secrets[0]!.digest;
    const [beforeId, afterId] = text.split(keys.fine.id) as [string, string];
    const [beforeName, afterName] = afterId.split('Zoo of the North') as [string, string];
    const [beforeDigest, afterDigest] = afterName.split(digest) as [string, string];
    const [keyStart, keyEnd] = keyspace.apiKey('\0').split('\0') as [string, string];
    for (let from = 0; from < KEYS; from += AT_ONCE) {
      await redis.eval(
        script,
        1,
        keyspace.apiKeys,
        from,
        from + AT_ONCE - 1,
        idStart,
        digest.slice(0, -8),
        beforeId,
        `${beforeName}Shop `,
        beforeDigest,
        afterDigest,
        keyStart,
        keyEnd,
        keyspace.digest(''),
        createdAtMs + 1_000,
      );
    }
    const last = `${idStart}${String(KEYS - 1).padStart(8, '0')}`;
    const name = keyspace.apiKey(last);
    await redis.set(name, (await redis.get(name))!.replace(/Shop \d{8}/, 'The very last of all'));
    expect(await redis.zcard(keyspace.apiKeys)).toBeGreaterThan(KEYS);
  } finally {
    redis.disconnect();
  }
}
