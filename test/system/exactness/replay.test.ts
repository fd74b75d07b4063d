import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../support/processes.ts';
import { privateRedis } from '../../support/redis.ts';
import { runCommand } from '../../support/run-command.ts';
import { type Answer, type Fleet, PEPPER, repeat, shuffled, startFleet } from './fleet.ts';

/**
 * Real gateways, keys that pay no heed to Retry-After, and their logs: with the plans that were in force the replay comes
 * to every verdict and every ban that the clients saw, one by one.
 */
const PLANS = `
plans:
  brief: { limits: { second: 4 }, bans: { after: 5, first: 1s, factor: 2, longest: 3s, forget: 2s } }
  double: { limits: { second: 7, minute: 20 }, bans: { after: 3, within: 300ms, first: 1s } }
  gentle: { limits: { second: 5, day: 30 }, bans: off }
  custom: { limits: { second: custom, minute: custom } }
  slides:
    limits: { second: { limit: 5, window: sliding }, minute: { limit: 25, window: sliding, slices: 4 } }
    bans: { after: 8, within: 1s, first: 1s }
  calendar: { limits: { hour: { limit: 12, align: calendar, zone: Asia/Kolkata }, week: 20, month: { limit: 30, anchor: 15 } } }
  grouped:
    limits: { second: 6, minute: 60 }
    groups: { costly: { routes: [/v1/costly], limits: { second: 3, minute: 8 } } }
    bans: { after: 4, first: 1s }
  closed: { limits: { second: 0 } }
  watched: { limits: { second: 2 }, enforce: false }
bans: { after: 12, within: 1m, first: 1s, factor: 3, longest: 24h, forget: 24h }
`;
const KEYS: readonly (readonly [plan: string, ...options: string[]])[] = [
  ...repeat(6, ['brief'] as const),
  ...repeat(6, ['double'] as const),
  ...repeat(4, ['gentle'] as const),
  ...repeat(4, ['slides'] as const),
  ...repeat(2, ['calendar'] as const),
  ...repeat(4, ['grouped'] as const),
  ['slides', '--limit', 'second=8', '--limit', 'month=27'],
  ['brief', '--limit', 'second=9'],
  ['double', '--limit', 'minute=unlimited'],
  ['gentle', '--limit', 'hour=12'],
  ['custom', '--limit', 'second=6', '--limit', 'minute=25'],
  ['custom', '--limit', 'second=unlimited', '--limit', 'minute=11'],
  ['closed'],
  ['watched'],
];
const LASTING_MS = 4_500;

interface Made {
  readonly id: string;
  readonly key: string;
}

async function playAndReplay(fleet: Fleet) {
  const keys: Made[] = [];
  for (const [plan, ...options] of KEYS) keys.push(await fleet.gateways[0]!.createKey(plan, ...options));
  const answers: Answer[] = [];
  const untilMs = performance.now() + LASTING_MS;
  // Waves of all keys at once, long enough for windows of a second to end, and bans.
  for (let wave = 1; performance.now() < untilMs; wave++) {
    const wishes = keys.flatMap(({ key }, i) => [
      ...repeat((wave + i) % 4, { key, path: '/v1/pets' }),
      ...repeat((wave * i) % 5 === 0 ? 2 : 0, { key, path: '/v1/costly' }),
    ]);
    answers.push(...(await fleet.send(shuffled(wishes, wave))));
  }
  const folder = await temporaryFolder();
  const logs = await Promise.all(fleet.gateways.map((gateway, i) => logOf(gateway, join(folder, `${i}.log`))));
  const plans = fleet.gateways[0]!.env.TOLLGATE_PLANS!;
  const words = ['--plans', plans, '--from-plans', plans, '--json', ...logs.flatMap((log) => ['--log', log])];
  const { code, stdout, stderr } = await runCommand({}, 'plans', 'simulate', ...words);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return { keys, answers, report: JSON.parse(stdout) };
}

/** What a gateway has written to its end; each second one packed. */
async function logOf({ process }: Fleet['gateways'][0], file: string): Promise<string> {
  await process.stop();
  await writeFile(file, file.endsWith('1.log') ? gzipSync(process.stdout) : process.stdout);
  return file;
}

function judge({ keys, answers, report }: Awaited<ReturnType<typeof playAndReplay>>): void {
  expect(report.differs).toEqual({ verdicts: 0, bans: 0 });
  expect(report.totals.simulated).toEqual(report.totals.recorded);
  expect(report.totals).toMatchObject({ requests: answers.length, newlyRefused: 0, newlyAdmitted: 0, unserved: 0 });
  expect(report.lines).toMatchObject({ local: 0, undecided: 0, broken: 0, sampled: 0 });
  // It was worth replaying: quota, bans, and what was refused under them.
  const { recorded } = report.totals;
  for (const count of [recorded.refused, recorded.banned, recorded.bans]) expect(count).toBeGreaterThan(0);
  for (const { id, key } of keys) {
    const seen = answers.filter((answer) => answer.key === key);
    const count = (code: string | null) => seen.filter((answer) => answer.code === code).length;
    const bans = new Set(
      seen.filter(({ code }) => code === 'api_key_banned').map(({ details }) => details.bannedUntil),
    );
    const told = report.keys.find((one: { id: string }) => one.id === id);
    const refused = count('rate_limit_exceeded') + count('api_key_banned');
    if (refused === 0) continue;
    expect(told, id).toMatchObject({
      simulated: {
        admitted: count(null),
        refused: count('rate_limit_exceeded'),
        banned: count('api_key_banned'),
        bans: bans.size,
      },
    });
  }
}

describe('with the plans that were in force the replay comes to the recorded verdicts', () => {
  test('of a gateway with the embedded store', async () => {
    const fleet = await startFleet(1, { connections: 24, plans: PLANS });
    judge(await playAndReplay(fleet));
  });

  describe('of two gateways', () => {
    let env: Record<string, string>;
    beforeAll(async () => {
      env = { REDIS_URL: (await privateRedis()).url, KEY_PEPPER: PEPPER };
    });

    test('on one Redis', async () => {
      // A busy machine must not make this a test of the outage policy.
      const fleet = await startFleet(2, { connections: 24, plans: PLANS, env, more: 'redis: { timeout: 5s }' });
      judge(await playAndReplay(fleet));
    });
  });
});
