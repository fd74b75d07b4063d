import { writeFile } from 'node:fs/promises';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { privateRedis } from '../../support/redis.ts';
import { jsonOf } from './command.ts';
import { type Answer, type Fleet, PEPPER, repeat, shuffled, startFleet } from './fleet.ts';

/**
 * One quota for the five keys of a customer (contract section 3): four real gateways on one real Redis, and callers that pay no
 * heed to Retry-After.
 */
const LIMIT = 400;
const EACH_KEY = 150;
const PLANS = `
plans:
  fixed: &plan
    limits: { hour: ${LIMIT} }
    each-key: { hour: ${EACH_KEY} }
    groups: { search: { routes: [/v1/search], limits: { hour: 60 } } }
    bans: off
  sliding: { <<: *plan, limits: { hour: { limit: ${LIMIT}, window: sliding } } }
  calendar: { <<: *plan, limits: { day: { limit: ${LIMIT}, align: calendar, zone: Europe/Berlin } } }
  struck: { limits: { hour: 20 }, bans: { after: 5, first: 1h, longest: 1h, of: customer } }
`
  .replace(
    /<<: \*plan, /g,
    `each-key: { hour: ${EACH_KEY} }, groups: { search: { routes: [/v1/search], limits: { hour: 60 } } }, bans: off, `,
  )
  .replace('&plan', '');

interface Key {
  readonly id: string;
  readonly key: string;
}

let fleet: Fleet;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  const redis = await privateRedis();
  const setup = { plans: PLANS, env: { REDIS_URL: redis.url, KEY_PEPPER: PEPPER }, more: 'redis: { timeout: 5s }' };
  fleet = await startFleet(4, { connections: 80, ...setup });
  env = fleet.gateways[0]!.env;
});

async function customerOf(plan: string, keys: number) {
  const { id } = await jsonOf(env, 'customers', 'create', '--plan', plan);
  const made: Key[] = [];
  for (let i = 0; i < keys; i++) made.push(await jsonOf(env, 'keys', 'create', '--customer', id));
  return { id: String(id), keys: made };
}

const admitted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200);
const used = async (id: string) => (await jsonOf(env, 'usage', id)).windows;
const sumOf = async (id: string) => {
  const { buckets } = await jsonOf(env, 'usage', id, '--hours', '2');
  return buckets.reduce((sum: number, { admitted: one }: { admitted: number }) => sum + one, 0);
};

test.each(['fixed', 'sliding', 'calendar'])(
  'five keys of a customer get exactly its limit from four gateways, none more than its own, in %s windows, over a reload (reliability 283)',
  async (plan) => {
    const { id, keys } = await customerOf(plan, 5);
    const wishes = shuffled(
      keys.flatMap(({ key }) => [
        ...repeat(140, { key, path: '/v1/pets' }),
        ...repeat(20, { key, path: '/v1/search' }),
      ]),
      20261124,
    );
    const sent = fleet.send(wishes);
    // A comment is a change of the file, and the limits stay.
    await writeFile(env.TOLLGATE_PLANS!, `${PLANS}\n# ${plan}\n`);
    const answers = await sent;
    expect(new Set(answers.map(({ code }) => code))).toEqual(new Set([null, 'rate_limit_exceeded']));
    const window = plan === 'calendar' ? 'day' : 'hour';
    expect(admitted(answers)).toHaveLength(LIMIT);
    for (const { id: keyId, key } of keys) {
      expect(admitted(answers.filter((answer) => answer.key === key)).length).toBeLessThanOrEqual(EACH_KEY);
      expect(fleet.reached(keyId)).toBe(admitted(answers.filter((answer) => answer.key === key)).length);
    }
    const searches = admitted(answers.filter((_, i) => wishes[i]!.path === '/v1/search'));
    expect(searches.length).toBeLessThanOrEqual(60);
    // Nothing was spent by a refusal, in any budget.
    const windows = await used(id);
    expect(windows[window]).toMatchObject({ limit: LIMIT, used: LIMIT });
    expect(windows['search-hour'].used).toBe(searches.length);
    const ofKeys = await Promise.all(keys.map(async ({ id: keyId }) => (await used(keyId)).hour.used));
    expect(ofKeys.reduce((a, b) => a + b)).toBe(LIMIT);
    expect(await sumOf(id)).toBe(LIMIT);
    const sums = await Promise.all(keys.map(({ id: keyId }) => sumOf(keyId)));
    expect(sums.reduce((a, b) => a + b)).toBe(LIMIT);
  },
);

test('a key that is moved under load takes nothing along but its ban, and neither customer exceeds its limit (reliability 284)', async () => {
  const [from, to] = [await customerOf('fixed', 5), await customerOf('fixed', 1)];
  const moving = from.keys[0]!;
  const wishes = shuffled(
    [...from.keys, ...to.keys].flatMap(({ key }) => repeat(200, { key, path: '/v1/pets' })),
    20261125,
  );
  const sent = fleet.send(wishes);
  await jsonOf(env, 'keys', 'move', moving.id, '--customer', to.id);
  await sent;
  const again = await fleet.send(repeat(400, { key: moving.key, path: '/v1/pets' }));
  expect(admitted(again).length).toBeLessThanOrEqual(EACH_KEY);
  for (const { id } of [from, to]) {
    const total = (await used(id)).hour.used;
    expect(total).toBeLessThanOrEqual(LIMIT);
    expect(await sumOf(id)).toBe(total);
  }
});

test('with `of: customer` the strikes of all keys count together, and the ban is for all of them (reliability 285)', async () => {
  const { id, keys } = await customerOf('struck', 3);
  const answers = await fleet.send(repeat(90, null).map((_, i) => ({ key: keys[i % 3]!.key, path: '/v1/pets' })));
  expect(admitted(answers)).toHaveLength(20);
  expect(answers.filter(({ code }) => code === 'rate_limit_exceeded')).toHaveLength(4);
  expect(answers.filter(({ code }) => code === 'api_key_banned')).toHaveLength(66);
  expect((await jsonOf(env, 'bans', 'list')).bans.map((ban: { id: string }) => ban.id)).toEqual([id]);
  await jsonOf(env, 'bans', 'lift', id);
  await jsonOf(env, 'usage', 'reset', id);
  await eventually(async () => {
    const [answer] = await fleet.send([{ key: keys[1]!.key, path: '/v1/pets' }]);
    expect(answer!.status).toBe(200);
  });
});
