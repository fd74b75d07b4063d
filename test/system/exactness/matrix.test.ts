import { beforeAll, describe, expect, test } from 'vitest';
import { type PrivateRedis, privateRedis } from '../../support/redis.ts';
import { sample } from '../../support/sample.ts';
import { type Answer, expectCountdown, type Fleet, PEPPER, repeat, shuffled, startFleet } from './fleet.ts';

/**
 * Gateways × limit × load × keys, with real processes on one real Redis: whatever the mixture, each key is admitted
 * min(demand, limit) times, and is never told more than is left (contract section 3).
 */
const NODES = [1, 2, 4] as const;
const LIMITS = [1, 7, 60, 250] as const;
const LOADS = [0.9, 1, 1.5, 5] as const;
const KEYS = [1, 4] as const;
const CONNECTIONS = 64;

const PLANS = `
plans:
  matrix: { limits: { minute: custom, day: custom }, bans: off }
`;

interface Cell {
  readonly limit: number;
  readonly load: number;
  readonly keys: number;
  readonly seed: number;
}

const CELLS: readonly Cell[] = LIMITS.flatMap((limit) =>
  LOADS.flatMap((load) => KEYS.map((keys) => ({ limit, load, keys, seed: 20260700 + limit * 100 + load * 10 + keys }))),
);

let redis: PrivateRedis;

beforeAll(async () => {
  redis = await privateRedis();
});

describe.each(NODES)('%i gateways on one Redis', (nodes) => {
  let fleet: Fleet;
  beforeAll(async () => {
    const env = { REDIS_URL: redis.url, KEY_PEPPER: PEPPER };
    // A busy machine must not make this a test of the outage policy.
    fleet = await startFleet(nodes, { connections: CONNECTIONS, plans: PLANS, env, more: 'redis: { timeout: 5s }' });
  });

  test.each(sample(CELLS, 8))(
    'limit $limit, $load times as many requests, $keys keys',
    async ({ limit, load, keys, seed }) => {
      const demand = Math.max(1, Math.round(limit * load));
      const made = await Promise.all(Array.from({ length: keys }, () => keyWith(fleet, limit)));
      const wishes = made.flatMap(({ key }) => repeat(demand, { key, path: '/v1/pets' }));
      const answers = await fleet.send(shuffled(wishes, seed));
      for (const { id, key } of made)
        judge(
          answers.filter((answer) => answer.key === key),
          { demand, limit, reached: fleet.reached(id) },
        );
    },
  );
});

function judge(answers: readonly Answer[], told: { demand: number; limit: number; reached: number }): void {
  const { demand, limit, reached } = told;
  const passed = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status !== 200);
  expect(passed).toHaveLength(Math.min(demand, limit));
  expect(reached).toBe(passed.length);
  expectCountdown(
    passed.map(({ remaining }) => remaining),
    limit,
  );
  expect(refused.every(({ code, remaining }) => code === 'rate_limit_exceeded' && remaining === 0)).toBe(true);
  expect(answers.every((answer) => answer.limit === limit)).toBe(true);
}

const keyWith = ({ gateways }: Fleet, limit: number) =>
  gateways[0]!.createKey('matrix', '--limit', `minute=${limit}`, '--limit', 'day=100000');
