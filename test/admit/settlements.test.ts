import { expect, test } from 'vitest';
import { type Allowance, allowanceOf, bitOfUnit, withBudgets } from '../../src/admit/allowance.ts';
import type { Settlement, SettlementOutcome } from '../../src/admit/ledger.ts';
import { Settlements } from '../../src/admit/settlements.ts';
import type { Reservation } from '../../src/admit/verdict.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import type { Plan } from '../../src/model/plan.ts';
import { holdTime } from '../support/hold-time.ts';

const PLAN: Plan = {
  name: 'model',
  limits: { day: 100 },
  bans: null,
  enforce: true,
  shadow: {},
  units: [{ name: 'tokens', limits: { second: 100, day: 1_000 } }],
};
const ALLOWANCE = withBudgets(allowanceOf(PLAN, {}, true, { limits: {} }) as Allowance, bitOfUnit(0));
const [, , TOKENS] = ALLOWANCE.budgets;
const HOUR_MS = 3_600_000;

/** A reservation of 10 tokens whose windows end at these times. */
function reservation(endsAtMs: number, isCertain = true): Reservation {
  const windows = TOKENS!.limits.map((of) => ({ of, placeMs: of.window === 'second' ? endsAtMs : 9 * HOUR_MS }));
  return { amounts: { tokens: 10 }, windows: [[], [], windows], isCertain };
}

/** @param outcomes of each attempt to send; then everything is settled */
const settlements = (...outcomes: SettlementOutcome[]) => settlementsOf(100, ALLOWANCE, ...outcomes);

/** @param most how many may wait */
function settlementsOf(most: number, allowance: Allowance, ...outcomes: SettlementOutcome[]) {
  const sent: Settlement[][] = [];
  const told: string[] = [];
  const made = new Settlements({
    sink: {
      settle: async (all) => {
        sent.push([...all]);
        const outcome = outcomes.shift() ?? 'settled';
        return all.map(() => outcome);
      },
    },
    most,
    onSettled: (outcome, requests) => told.push(`${requests} ${outcome}`),
  });
  const add = (used: number, of = reservation(1_000), consumerId = 'cus_1/key_a', nowMs = 10) =>
    made.add({ consumerId, allowance, reservation: of, nowMs }, [{ unit: 'tokens', settled: used }]);
  return { made, add, sent, told };
}

const shownOf = (all: readonly Settlement[] | undefined) =>
  all?.map(({ accountId, delta, windows, histories, hour }) => {
    return `${accountId} ${delta} at ${windows[0]?.placeMs} for ${histories.join('+')} in ${hour}`;
  });

const OF_A = 'cus_1/key_a%tokens+cus_1%tokens';

test('what was counted in one place is settled as one; what differs in place, hour, key or sign is not', async () => {
  const { made, add, sent, told } = settlements();
  add(4);
  add(7);
  add(10);
  add(1, reservation(2_000));
  add(15);
  add(2, reservation(1_000), 'cus_1/key_b');
  add(3, reservation(1_000), 'cus_1/key_a', HOUR_MS + 1);
  await made.flush();
  expect(shownOf(sent[0])).toEqual([
    `cus_1%tokens -9 at 1000 for ${OF_A} in 0`,
    `cus_1%tokens -9 at 2000 for ${OF_A} in 0`,
    `cus_1%tokens 5 at 1000 for ${OF_A} in 0`,
    'cus_1%tokens -8 at 1000 for cus_1/key_b%tokens+cus_1%tokens in 0',
    `cus_1%tokens -7 at 1000 for ${OF_A} in 1`,
  ]);
  expect(told).toEqual(['2 settled', '1 settled', '1 settled', '1 settled', '1 settled']);
});

test('nothing is given back that the store may not have counted, and what was used besides is added', async () => {
  const { made, add, sent } = settlements();
  add(4, reservation(1_000, false));
  add(12, reservation(1_000, false));
  await made.flush();
  expect(shownOf(sent[0])).toEqual([`cus_1%tokens 2 at 1000 for ${OF_A} in 0`]);
});

test('a settlement that the store has certainly not done is sent again, with later ones; a lost one is not', async () => {
  const { made, add, sent, told } = settlements('unsent', 'lost');
  add(4);
  await made.flush();
  add(9);
  await made.flush();
  await made.flush();
  expect(sent.map((all) => shownOf(all))).toEqual([
    [`cus_1%tokens -6 at 1000 for ${OF_A} in 0`],
    [`cus_1%tokens -7 at 1000 for ${OF_A} in 0`],
  ]);
  expect(told).toEqual(['2 lost']);
});

test('requests of one reservation that used less are settled apart from those that used more', async () => {
  const { made, add, sent, told } = settlements();
  const one = reservation(1_000);
  for (const used of [4, 15, 8, 11]) add(used, one);
  await made.flush();
  expect(sent[0]?.map(({ delta }) => delta)).toEqual([-8, 6]);
  expect(told).toEqual(['2 settled', '2 settled']);
});

test('what was counted in slices is settled apart from what was counted in other slices, or in none', async () => {
  const { made, add, sent } = settlements();
  for (const slices of [undefined, 4, 4, 5]) {
    const of = windowLimit('day', 1_000, slices === undefined ? {} : { slices });
    add(4, { ...reservation(1_000), windows: [[], [], [{ of, placeMs: 1_000 }]] });
  }
  await made.flush();
  expect(sent[0]?.map(({ delta }) => delta)).toEqual([-6, -12, -6]);
});

const withoutHistory = withBudgets(allowanceOf(PLAN, {}, false, { limits: {} }) as Allowance, bitOfUnit(0));

test.each([
  ['the store has them in a history', ALLOWANCE, true, true, 2],
  ['the gateway decided alone', ALLOWANCE, false, false, 2],
  ['no history is kept', withoutHistory, true, false, 0],
])(
  'only what is recorded is settled for a key that is still there: %s (reliability 425)',
  async (_, allowance, isCertain, isRecorded, histories) => {
    const { made, add, sent } = settlementsOf(100, allowance);
    add(12, reservation(1_000, isCertain));
    await made.flush();
    expect(sent[0]).toMatchObject([{ isRecorded, histories: { length: histories } }]);
  },
);

test('no more wait than may: they are sent at once, and what finds no room beside those that came back is lost', async () => {
  const { made, add, sent, told } = settlementsOf(2, ALLOWANCE, 'settled', 'unsent');
  const places = () => sent.map((all) => all.map(({ windows }) => windows[0]!.placeMs));
  for (const endsAtMs of [1_000, 2_000]) add(4, reservation(endsAtMs));
  expect(sent).toHaveLength(0);
  for (const endsAtMs of [3_000, 4_000]) add(4, reservation(endsAtMs));
  expect(places()).toEqual([[1_000, 2_000]]);
  await made.flush();
  add(4, reservation(5_000));
  add(4, reservation(3_000));
  await made.flush();
  expect(places().slice(1)).toEqual([
    [3_000, 4_000],
    [3_000, 4_000],
  ]);
  expect(told).toEqual(['1 settled', '1 settled', '1 lost', '2 settled', '1 settled']);
});

test('what came back unsent is sent again after 200 ms, or 20 ms after what ends next', async () => {
  const pass = holdTime();
  const { add, sent } = settlements('unsent', 'unsent');
  const deltas = () => sent.map((all) => all.map(({ delta }) => delta).join());
  add(4);
  await pass(20);
  await pass(199);
  expect(deltas()).toEqual(['-6']);
  await pass(1);
  expect(deltas()).toEqual(['-6', '-6']);
  await pass(100);
  add(9);
  await pass(19);
  add(9);
  expect(sent).toHaveLength(2);
  await pass(1);
  expect(deltas()).toEqual(['-6', '-6', '-8']);
  await pass(1_000);
  expect(sent).toHaveLength(3);
});
