import { expect, test } from 'vitest';
import type { SettlementOutcome } from '../../src/admit/ledger.ts';
import { type Allowance, allowanceOf, bitOfUnit, type Plan, withBudgets } from '../../src/admit/plan.ts';
import type { Admitted } from '../../src/admit/verdict.ts';
import { holdTime } from '../support/hold-time.ts';
import { admitterOn } from './admitter.ts';
import { FakeLedger } from './fake-ledger.ts';

const PLAN: Plan = {
  name: 'model',
  limits: { day: 1_000_000 },
  bans: null,
  enforce: true,
  shadow: {},
  units: [{ name: 'tokens', limits: { minute: 1_000 } }],
};
const ALLOWANCE = withBudgets(allowanceOf(PLAN, {}, true) as Allowance, bitOfUnit(0));

/** A gateway before a store that keeps in which order it was asked to settle and to decide. */
function gateway() {
  const pass = holdTime();
  const asked: string[] = [];
  /** Of the next attempts to settle. */
  const outcomes: SettlementOutcome[] = [];
  const ledger = new (class extends FakeLedger {
    override async settle(settlements: Parameters<FakeLedger['settle']>[0]) {
      asked.push(`settle ${settlements.map(({ delta }) => delta).join()}`);
      const outcome = outcomes.shift() ?? 'settled';
      return settlements.map(() => outcome);
    }
    override async decide(asks: Parameters<FakeLedger['decide']>[0]) {
      asked.push('decide');
      return super.decide(asks);
    }
  })();
  const { admitter } = admitterOn(ledger);
  /** A request that takes so many tokens. */
  const request = async (tokens: number, consumerId = 'key_1') => {
    const admission = await admitter.admit(consumerId, ALLOWANCE, 1, 0, { tokens });
    return (admission as { readonly verdict: Admitted }).verdict;
  };
  const settle = (verdict: Admitted, settled: number, hasOthers: boolean) =>
    admitter.settle('key_1', verdict, [{ unit: 'tokens', settled }], hasOthers);
  return { asked, outcomes, request, settle, pass };
}

test('what a caller that waits for each answer did not use is in its next decision', async () => {
  const { asked, request, settle } = gateway();
  settle(await request(100), 10, false);
  await request(1, 'key_2');
  await request(1, 'key_2');
  await request(100);
  expect(asked).toEqual(['decide', 'decide', 'decide', 'settle -90', 'decide']);
});

test('what a caller with other requests did not use is settled together with others within 20 ms', async () => {
  const { asked, request, settle, pass } = gateway();
  settle(await request(100), 10, true);
  await pass(10);
  settle(await request(100), 20, true);
  await pass(9);
  expect(asked).toEqual(['decide', 'decide']);
  await pass(1);
  expect(asked).toEqual(['decide', 'decide', 'settle -170']);
});

test('if a decision would leave less than half of a limit, it comes first, so that nobody is refused because of the wait', async () => {
  const { asked, request, settle } = gateway();
  const all = await Promise.all(Array.from({ length: 10 }, () => request(100)));
  for (const one of all.slice(0, 5)) settle(one, 0, true);
  await request(100);
  expect(asked).toEqual(['decide', 'settle -500', 'decide']);
});

test('also if its request takes more than those before, and if the gateway knows of nothing since 20 ms', async () => {
  const { asked, request, settle, pass } = gateway();
  settle(await request(400), 1, true);
  await request(200);
  expect(asked.slice(1)).toEqual(['settle -399', 'decide']);
  const long = await request(1);
  await pass(21);
  settle(long, 0, true);
  await request(1);
  expect(asked.slice(4)).toEqual(['settle -1', 'decide']);
});

test('what the store has certainly not settled comes before the next decision', async () => {
  const { asked, request, settle, outcomes } = gateway();
  outcomes.push('unsent');
  settle(await request(100), 0, false);
  await request(100);
  await request(100);
  expect(asked).toEqual(['decide', 'settle -100', 'decide', 'settle -100', 'decide']);
});
