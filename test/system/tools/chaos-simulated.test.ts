import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Allowance, allowanceOf } from '../../../src/admit/allowance.ts';
import { type History, historyOf } from '../../../tools/chaos/simulated/history.ts';
import { GOOD_LINK } from '../../../tools/chaos/simulated/link.ts';
import { play } from '../../../tools/chaos/simulated/play.ts';
import { shrink } from '../../../tools/chaos/simulated/shrink.ts';
import { simulate } from '../../../tools/chaos/simulated/simulate.ts';
import { allowance } from '../../support/allowance.ts';
import { ROOT, startProcess } from '../../support/processes.ts';
import { SEED, tries } from '../../support/sample.ts';

const HISTORIES = tries(300, 2_000);

test('a fleet of gateways keeps the written bounds in random histories (reliability 495)', async () => {
  const { played, answers, broken } = await simulate({ seed: SEED, histories: HISTORIES });
  // As the message, because CI shows only the beginning of a value.
  expect(broken, broken ?? '').toBe(null);
  expect(played).toBe(HISTORIES);
  // Each way to answer was used, or nothing could have broken.
  for (const count of Object.values(answers)) expect(count).toBeGreaterThan(HISTORIES);
});

test('every other history has groups of routes, usage histories and requests in flight, and most of these have customers', () => {
  const histories = Array.from({ length: 200 }, (_, seed) => historyOf(seed));
  const several = histories.filter(({ seed }) => seed % 2 === 1);
  expect(several.every(({ plans }) => plans.some(({ history }) => history === 'admitted'))).toBe(true);
  const share = (is: (history: History) => boolean) => several.filter(is).length / several.length;
  expect(share(({ customers }) => customers !== undefined)).toBeGreaterThan(0.6);
  const has = (is: (plan: Allowance) => unknown) => share(({ plans }) => plans.some(is));
  expect(has(({ groups }) => groups?.some(({ instead }) => instead))).toBeGreaterThan(0.4);
  expect(has(({ boundsInFlight }) => boundsInFlight)).toBeGreaterThan(0.7);
  expect(has(({ bansIn }) => bansIn === 1)).toBeGreaterThan(0.3);
});

test.each([
  [1_074_879, 'a request that waited for two calls was answered twice'],
  [20_267_795, 'a gateway alone took an older clock for one of several accounts'],
  [1_015_119, 'requests waited for units that their windows had not counted'],
  [1_795_016_352, 'the store admitted a request while the gateway admitted others of the same key alone'],
  [1_905_055_894, 'requests waited for a lease of another plan, which ended later than one that was lent after it'],
  [1_907_052_070, 'the clock was set back and a plan without the second was read before one that has it'],
  [445_168_525, 'a command that was lost arrived after later ones when its connection was cut'],
  [22_841_211, 'the store let a request wait that costs more than a limit, and the gateway refused it from memory'],
])('history %i holds, in which %s', async (seed) => {
  expect((await play(historyOf(seed))).broken).toBeNull();
});

test('the judge expects nothing to be given back to slices that the store has lost', async () => {
  const tokens = { name: 'tokens', limits: { hour: 4 }, forms: { hour: { slices: 5 } } } as const;
  const plan = { name: 'pro', limits: { week: 100 }, bans: null, enforce: true, shadow: {}, units: [tokens] } as const;
  const asks = { kind: 'ask', gateway: 0, consumer: 0, cost: 1, n: 1, waitedMs: 0, isSameTurn: false } as const;
  const history: History = {
    seed: 1,
    plans: [allowanceOf(plan, {}, true, null) as Allowance],
    wallOffsetsMs: [1_800_000_000_000],
    consumers: 1,
    startsAtMs: 1_800_000_000_000,
    steps: [
      { ...asks, lastsMs: 2_000, amount: 3, used: 2 },
      { kind: 'pass', ms: 20 },
      { kind: 'replace', lost: 1, clockMs: 0, forMs: 0 },
      { kind: 'pass', ms: 5 },
      { ...asks, lastsMs: 1, amount: 4, used: 4 },
      { kind: 'pass', ms: 20_000 },
      { ...asks, lastsMs: 1, amount: 0, used: 0 },
    ],
  };
  expect((await play(history)).broken).toBeNull();
});

test('the same seed gives the same history, and the same history the same result', async () => {
  for (const seed of [3, 4, 7, 11, 18, 19]) {
    expect(historyOf(seed)).toEqual(historyOf(seed));
    expect(await play(historyOf(seed))).toEqual(await play(historyOf(seed)));
  }
});

test('the timers and clocks of the process are its own again afterwards', async () => {
  const before = [setTimeout, clearTimeout, setImmediate, performance.now, Date.now];
  await play(historyOf(5));
  expect([setTimeout, clearTimeout, setImmediate, performance.now, Date.now]).toEqual(before);
});

describe('a history that breaks a bound', () => {
  // The judge knows the ends of days in a few zones only; in any other zone it takes each end for wrong.
  const inTokyo = { day: { calendar: { unit: 'day', zone: 'Asia/Tokyo', anchor: 1 } } } as const;
  const broken: History = {
    seed: 1,
    plans: [allowance({ day: 5 }, null, inTokyo)],
    wallOffsetsMs: [1_800_000_000_000],
    consumers: 2,
    startsAtMs: 1_800_000_000_000,
    steps: [
      { kind: 'pass', ms: 5 },
      { kind: 'link', gateway: 0, mode: GOOD_LINK },
      { kind: 'ask', gateway: 0, consumer: 1, cost: 1, n: 2, waitedMs: 0, isSameTurn: false },
      { kind: 'reload', gateway: 0, plan: 0 },
      { kind: 'pass', ms: 400 },
      { kind: 'lift', consumer: 0, heardAfterMs: 1 },
    ],
  };

  test('is shrunk to the steps that matter', async () => {
    expect((await play(broken)).broken).toMatch(/^The store counts 2 until /);
    expect((await shrink(broken)).steps).toEqual([broken.steps[2]]);
  });

  test('is shrunk as well if the bound is that of a customer', async () => {
    const plan = { name: 'pro', limits: { day: 5 }, forms: inTokyo, bans: null, enforce: true, shadow: {} } as const;
    const ofCustomer = allowanceOf(plan, {}, true, { limits: {} }) as Allowance;
    const history = { ...broken, plans: [ofCustomer], customers: 1 };
    expect((await play(history)).broken).toMatch(/^The store counts 2 until .* Account cus_0\. Consumer cus_0\/c1: /);
    expect((await shrink(history)).steps).toEqual([broken.steps[2]]);
  });
});

test('`npm run chaos -- --simulated` plays as many histories as it is asked for, and tells the seed', async () => {
  const main = join(ROOT, 'tools', 'chaos', 'main.ts');
  const running = startProcess(process.execPath, [main, '--simulated', '--histories', '20', '--seed', '5', '--json']);
  expect(await running.exit).toEqual({ code: 0, signal: null });
  expect(running.stderr).toContain('Seed 5.');
  expect(JSON.parse(running.stdout)).toMatchObject({ ok: true, seed: 5, played: 20, broken: null });
});
