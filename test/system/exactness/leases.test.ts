import { writeFile } from 'node:fs/promises';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { runCommand } from '../../support/run-command.ts';
import { createKey, jsonOf } from './command.ts';
import { type Answer, expectCountdown, type Fleet, PEPPER, repeat, shuffled, startFleet } from './fleet.ts';

// Busy keys, whose gateways borrow units: three real gateways on one real Redis, and callers that do not wait.

const LIMITS = [600, 3_000] as const;

let env: Record<string, string>;
beforeAll(async () => {
  env = { REDIS_URL: (await privateRedis()).url, KEY_PEPPER: PEPPER };
});

const admitted = (answers: readonly Answer[], { key }: { key: string }) =>
  answers.filter((answer) => answer.key === key && answer.status === 200);

/** How many requests the gateways have admitted from leases, by their logs. */
function fromLeases({ gateways }: Fleet): number {
  return gateways.reduce((sum, { process }) => sum + process.stdout.split('"source":"lease"').length - 1, 0);
}

test('busy keys get exactly their limit from three gateways in windows of each kind, while settings are reloaded and a key is revoked (reliability 301)', async () => {
  // In one of the two zones the hour has half an hour left.
  const isLate = Number(((await redisCommand(env.REDIS_URL!, 'TIME')) as [string])[0]) % 3_600 >= 1_800;
  const zone = isLate ? 'Asia/Kolkata' : 'UTC';
  const forms = { fixed: 'window: fixed', slides: 'window: sliding', calendar: `align: calendar, zone: ${zone}` };
  const names = Object.keys(forms).flatMap((form) => LIMITS.map((limit) => [form, limit] as const));
  const plansWith = (more: number) =>
    `plans:\n${names
      .map(([form, limit]) => {
        const hour = `{ limit: ${limit}, ${forms[form as keyof typeof forms]} }`;
        return `  ${form}-${limit}: { limits: { hour: ${hour}, month: ${1_000_000 + more} }, bans: off }\n`;
      })
      .join('')}`;
  const fleet = await startFleet(3, { connections: 48, plans: plansWith(0), env, more: 'redis: { timeout: 5s }' });
  const [first] = fleet.gateways;
  const keys = await Promise.all(names.map(([form, limit]) => createKey(first!.env, `${form}-${limit}`)));
  const revoked = await createKey(first!.env, 'fixed-3000');
  const wishes = keys.flatMap(({ key }, i) => repeat(2 * names[i]![1], { key, path: '/v1/pets' }));
  const withRevoked = shuffled([...wishes, ...repeat(2_000, { key: revoked.key, path: '/v1/pets' })], 20261126);
  const third = Math.floor(withRevoked.length / 3);
  const answers: Answer[] = [];
  for (const [round, from] of [0, third, 2 * third].entries()) {
    const before = fleet.reached(revoked.id);
    const sent = fleet.send(withRevoked.slice(from, round === 2 ? undefined : from + third));
    // In the middle of the load.
    if (round < 2) await eventually(() => expect(fleet.reached(revoked.id)).toBeGreaterThan(before));
    if (round === 0) await writeFile(first!.env.TOLLGATE_PLANS!, plansWith(1));
    else if (round === 1) await runCommand(first!.env, 'keys', 'revoke', revoked.id);
    answers.push(...(await sent));
  }
  for (const [i, { id, key }] of keys.entries()) {
    const limit = names[i]![1];
    const passed = admitted(answers, { key });
    expect([names[i], passed.length]).toEqual([names[i], limit]);
    expect(fleet.reached(id)).toBe(limit);
    expectCountdown(
      passed.map(({ remaining }) => remaining),
      limit,
    );
    const { windows } = await jsonOf(first!.env, 'usage', id);
    expect(windows.hour.used).toBe(limit);
    expect(windows.month.used).toBe(limit);
    const history = await jsonOf(first!.env, 'usage', id, '--hours', '2');
    expect(totalOf(history)).toBe(limit);
  }
  const ofRevoked = answers.filter(({ key }) => key === revoked.key);
  expect([...new Set(ofRevoked.map(({ code }) => code))]).toContain('invalid_api_key');
  expect(ofRevoked.slice(-500).every(({ status }) => status !== 200)).toBe(true);
  expect(fleet.reached(revoked.id)).toBe(admitted(answers, revoked).length);
  expect(fromLeases(fleet)).toBeGreaterThan(500);
}, 300_000);

function totalOf({ buckets }: { buckets: readonly { admitted: number }[] }): number {
  return buckets.reduce((sum, { admitted: cost }) => sum + cost, 0);
}
