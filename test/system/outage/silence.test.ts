import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { LATE_MS, paced } from '../../support/room.ts';
import {
  admittedOf,
  changesTold,
  expectCounted,
  expectExpiries,
  GIVEN_UP,
  LIMIT,
  longestOf,
  type Stand,
  startStand,
  statusesOf,
  TIMEOUT_MS,
} from './stand.ts';

/** How a Redis falls silent, or is made to refuse, and is well again. */
interface Trouble {
  begin(stand: Stand): Promise<unknown> | unknown;
  end(stand: Stand): Promise<unknown> | unknown;
}

const TROUBLES: Record<string, Trouble> = {
  'is paused by CLIENT PAUSE': {
    // Longer than it takes to ask and to see that it is away: a paused server takes no command that ends its pause.
    begin: ({ redisSays }) => redisSays('CLIENT', 'PAUSE', paced(8_000), 'ALL'),
    end: () => {},
  },
  'is stopped by SIGSTOP': {
    begin: ({ redis }) => redis.pause(),
    end: ({ redis }) => redis.resume(),
  },
  'is cut off': {
    begin: ({ link }) => link.become('cut'),
    end: ({ link }) => link.become('passes'),
  },
  'is beyond a network that swallows everything': {
    begin: ({ link }) => link.become('hangs'),
    end: ({ link }) => link.become('passes'),
  },
  'is beyond a network that swallows its replies': {
    begin: ({ link }) => link.become('mute'),
    end: ({ link }) => link.become('passes'),
  },
  'answers later than a request may wait': {
    begin: ({ link }) => {
      link.delayMs = 2 * TIMEOUT_MS;
    },
    end: ({ link }) => {
      link.delayMs = 0;
    },
  },
  'is full (OOM)': {
    begin: ({ redisSays }) => redisSays('CONFIG', 'SET', 'maxmemory', 1),
    end: ({ redisSays }) => redisSays('CONFIG', 'SET', 'maxmemory', 0),
  },
  'has become a replica (READONLY)': {
    begin: ({ redisSays }) => redisSays('REPLICAOF', '127.0.0.1', 1),
    end: ({ redisSays }) => redisSays('REPLICAOF', 'NO', 'ONE'),
  },
};

let stand: Stand;

beforeAll(async () => {
  stand = await startStand();
});

describe('a Redis that', () => {
  test.each(Object.keys(TROUBLES))(
    '%s holds nobody up, loses no ban, admits within the bound, and has every count when it is well (reliability 98, 100, 101, 104)',
    async (name) => {
      const { begin, end } = TROUBLES[name]!;
      const [first] = stand.gateways;
      const { id, key } = await first!.createKey('plain');
      const banned = await first!.createKey('strict');
      const before = await stand.ask(key, 5);
      expect(admittedOf(before)).toBe(10);
      await stand.ask(banned.key, 5);
      const givenUp = await stand.metric(GIVEN_UP);
      const told = changesTold(stand);

      await begin(stand);
      const during = await stand.ask(key, LIMIT);
      expect(longestOf(during)).toBeLessThan(TIMEOUT_MS + LATE_MS);
      expect(statusesOf(during)).toEqual([200, 429]);
      // Each gateway goes on from what it knew last.
      expect(admittedOf(during)).toBeLessThanOrEqual(2 * (LIMIT - 5));
      expect(statusesOf(await stand.ask(banned.key, 2))).toEqual([429]);
      await stand.until('away');
      // By now nobody waits at all.
      expect(longestOf(await stand.ask(key, 10))).toBeLessThan(LATE_MS);

      await end(stand);
      await stand.until('present');
      await expectCounted(stand, id, admittedOf(before) + admittedOf(during), givenUp);
      expect(statusesOf(await stand.ask(key, 10))).toEqual([429]);
      expect(statusesOf(await stand.ask(banned.key, 2))).toEqual([429]);
      await expectExpiries(stand);
      const once = told.map(({ away, back }) => ({ away: away + 1, back: back + 1 }));
      await eventually(() => expect(changesTold(stand)).toEqual(once));
    },
  );
});

test('a Redis that has forgotten its scripts is told them again, and nobody notices (reliability 105)', async () => {
  const { id, key } = await stand.gateways[0]!.createKey('plain');
  expect(admittedOf(await stand.ask(key, 5))).toBe(10);
  const alone = await stand.metric('tollgate_local_decisions_total');
  await stand.redisSays('SCRIPT', 'FLUSH');
  expect(admittedOf(await stand.ask(key, LIMIT))).toBe(LIMIT - 10);
  expect(await stand.counted(id)).toBe(LIMIT);
  expect(await stand.metric('tollgate_local_decisions_total')).toBe(alone);
  await expectExpiries(stand);
});
