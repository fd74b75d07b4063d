import { expect, test } from 'vitest';
import type { SettlementOutcome, UnitSettlement } from '../../src/admit/ledger.ts';
import { type Allowance, allowanceOf, bitOfUnit, type Plan, withBudgets } from '../../src/admit/plan.ts';
import { Settlements } from '../../src/admit/settlements.ts';
import type { Reservation } from '../../src/admit/verdict.ts';

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
function settlements(...outcomes: SettlementOutcome[]) {
  const sent: UnitSettlement[][] = [];
  const told: string[] = [];
  const made = new Settlements({
    sink: {
      settle: async (all) => {
        sent.push([...all]);
        const outcome = outcomes.shift() ?? 'settled';
        return all.map(() => outcome);
      },
    },
    most: 100,
    onSettled: (outcome, requests) => told.push(`${requests} ${outcome}`),
  });
  const add = (used: number, of = reservation(1_000), consumerId = 'cus_1/key_a', nowMs = 10) =>
    made.add({ consumerId, allowance: ALLOWANCE, reservation: of, nowMs }, [{ unit: 'tokens', settled: used }]);
  return { made, add, sent, told };
}

const shownOf = (all: readonly UnitSettlement[] | undefined) =>
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
