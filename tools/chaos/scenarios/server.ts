import { setTimeout as delay } from 'node:timers/promises';
import { redisCommand } from '../../../test/support/redis-command.ts';
import type { Fault } from '../fault.ts';
import type { Stand } from '../stand/stand.ts';

/** The longest pause between two attempts to connect is a second; the rest is for Redis and a busy machine. */
const BACK_MS = 2_500;
const PASSWORD = 'another one';

/** What may happen to the one Redis that has everything, whether or not it keeps something on disk. */
export const SERVER_FAULTS: readonly Fault[] = [
  {
    name: 'redis killed, started empty',
    about: 'kill -9 of Redis, 1.5 s of nothing, a start without data; keys are put back from a backup.',
    allowed: { alone: true, forgets: true, normalWithinMs: BACK_MS },
    holdMs: 1_500,
    strike: ({ store }) => store.server.kill(),
    heal: async ({ store, keys }) => {
      await store.server.launchAgain({ keepData: false });
      await keys.restore();
    },
  },
  {
    name: 'redis emptied',
    about: 'FLUSHALL under load, by somebody who thought it was another server; keys are put back from a backup.',
    allowed: { forgets: true, normalWithinMs: BACK_MS },
    holdMs: 200,
    strike: async ({ store }) => void (await store.command('FLUSHALL')),
    heal: ({ keys }) => keys.restore(),
  },
  {
    name: 'redis stopped (SIGSTOP)',
    about: 'Redis falls silent for 2 s, with all connections open, and then does what it was asked meanwhile.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 2_000,
    strike: async ({ store }) => store.server.pause(),
    heal: async ({ store }) => store.server.resume(),
  },
  {
    name: 'CLIENT PAUSE',
    about: 'Redis answers nobody for 2 s, by its own command.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 2_000,
    strike: async ({ store }) => void (await store.command('CLIENT', 'PAUSE', 2_000, 'ALL')),
  },
  {
    name: 'READONLY',
    about: 'Redis becomes a replica for 1.5 s: it answers reads, and refuses writes.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 1_500,
    // Of a primary that is not there, so that it keeps what it has.
    strike: async ({ store }) => void (await store.command('REPLICAOF', '127.0.0.1', 1)),
    heal: async ({ store }) => void (await store.command('REPLICAOF', 'NO', 'ONE')),
  },
  {
    name: 'LOADING',
    about: 'Redis is started again in order and takes about 3 s to load its data; it says LOADING meanwhile.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 100,
    strike: stopFull,
    heal: ({ store }) => store.server.launchAgain({ keepData: true }),
  },
  {
    name: 'OOM',
    about: 'Redis has no memory left for 1.5 s and refuses writes (maxmemory, noeviction).',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 1_500,
    strike: async ({ store }) => void (await store.command('CONFIG', 'SET', 'maxmemory', '1')),
    heal: async ({ store }) => void (await store.command('CONFIG', 'SET', 'maxmemory', '0')),
  },
  {
    name: 'NOSCRIPT',
    about: 'SCRIPT FLUSH under load, ten times in 1 s.',
    allowed: { normalWithinMs: BACK_MS },
    holdMs: 0,
    strike: async ({ store }) => {
      for (let i = 0; i < 10; i++) {
        await store.command('SCRIPT', 'FLUSH');
        await delay(100);
      }
    },
  },
  {
    name: 'NOAUTH',
    about:
      'Redis asks for a password that the gateways do not have, and cuts their connections; 1.5 s later it is taken back.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 1_500,
    strike: async ({ store }) => {
      await store.command('CONFIG', 'SET', 'requirepass', PASSWORD);
      const url = withPassword(store.url);
      for (const kind of ['normal', 'pubsub']) await redisCommand(url, 'CLIENT', 'KILL', 'TYPE', kind);
    },
    heal: async ({ store }) => void (await redisCommand(withPassword(store.url), 'CONFIG', 'SET', 'requirepass', '')),
  },
];

/** Only where Redis writes down what it does. */
export const AOF_FAULTS: readonly Fault[] = [
  {
    name: 'redis killed, AOF',
    about: 'kill -9 of Redis with `appendonly yes`, 1.5 s of nothing, a start with what it had written.',
    allowed: { alone: true, normalWithinMs: BACK_MS },
    holdMs: 1_500,
    strike: ({ store }) => store.server.kill(),
    heal: ({ store }) => store.server.launchAgain({ keepData: true }),
  },
];

const BALLAST = 3_000;

/** With so much in it that its next start takes a while. */
async function stopFull({ store: { server, command, url } }: Stand): Promise<void> {
  const fill = `for i = 1, ${BALLAST} do redis.call('SET', 'ballast:' .. i, i, 'EX', 600) end`;
  await command('EVAL', fill, 0);
  await redisCommand(url, 'SHUTDOWN', 'SAVE').catch(() => {});
  await server.stop();
}

function withPassword(url: string): string {
  return url.replace('redis://', `redis://:${encodeURIComponent(PASSWORD)}@`);
}
