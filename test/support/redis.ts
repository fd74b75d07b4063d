import { expect, inject } from 'vitest';
import { redisCommand } from './redis-command.ts';

export { type PrivateRedis, privateRedis } from './private-redis.ts';
export { redisCommand } from './redis-command.ts';

/**
 * The Redis that all tests share, with a database of its own for the running worker: emptied once for each test file,
 * at the first call, and the same at each further call in that file. A test that wants it empty sends `FLUSHDB`.
 * What is the server's and not a database's (scripts, CONFIG, CLIENT PAUSE, FLUSHALL, pub/sub channels) is shared with
 * tests that run at the same time: use `privateRedis` to change it.
 *
 * The address is the product's, with the user of `config/redis.acl`; `redisCommand` takes it without.
 *
 * @throws Error that says what to install where no Redis was found
 */
export async function testRedis(): Promise<{ readonly url: string }> {
  const shared = inject('sharedRedis');
  if (shared.kind === 'none') throw new Error(`Redis for the tests: ${shared.reason}`);
  const database = Number(process.env.VITEST_POOL_ID ?? 1);
  const url = new URL(shared.url);
  url.pathname = `/${database}`;
  // Which file has the database is kept in the server itself, in database 0, which is nobody's.
  const owner = `${expect.getState().testPath} ${process.pid}`;
  const base = new URL(shared.url);
  base.pathname = '/0';
  const book = `tollgate:test:database:${database}`;
  const before = await redisCommand(base.href, 'GET', book);
  if (before !== owner) {
    // Before it is entered in the book, or the next call would take the data for ours.
    if (before === null && shared.kind === 'url') await refuseForeignData(url.href);
    await redisCommand(base.href, 'SET', book, owner);
    await redisCommand(url.href, 'FLUSHDB');
  }
  const forProduct = new URL(shared.productUrl);
  forProduct.pathname = url.pathname;
  return { url: forProduct.href };
}

async function refuseForeignData(url: string): Promise<void> {
  if ((await redisCommand(url, 'DBSIZE')) === 0) return;
  throw new Error(
    `Database ${url.slice(url.lastIndexOf('/') + 1)} of TEST_REDIS holds data that no test wrote, and tests empty it. ` +
      'Give them a Redis of their own.',
  );
}
