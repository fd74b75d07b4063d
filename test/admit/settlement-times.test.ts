import { expect, test } from 'vitest';
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
  const ledger = new (class extends FakeLedger {
    override async settle(settlements: Parameters<FakeLedger['settle']>[0]) {
      asked.push(`settle ${settlements.map(({ delta }) => delta).join()}`);
      return super.settle(settlements);
    }
    override async decide(asks: Parameters<FakeLedger['decide']>[0]) {
      asked.push('decide');
      return super.decide(asks);
    }
  })();
  const { admitter } = admitterOn(ledger);
  /** A request that takes so many tokens. */
  const request = async (tokens: number) => {
    const admission = await admitter.admit('key_1', ALLOWANCE, 1, 0, { tokens });
    return (admission as { readonly verdict: Admitted }).verdict;
  };
  const settle = (verdict: Admitted, settled: number, hasOthers: boolean) =>
    admitter.settle('key_1', verdict, [{ unit: 'tokens', settled }], hasOthers);
  return { asked, request, settle, pass };
}

test('what a caller that waits for each answer did not use is in its next decision', async () => {
  const { asked, request, settle } = gateway();
  settle(await request(100), 10, false);
  await request(100);
  expect(asked).toEqual(['decide', 'settle -90', 'decide']);
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

test('if less than half of a limit was left, it is in the next decision, so that nobody is refused because of the wait', async () => {
  const { asked, request, settle } = gateway();
  const [one, other] = [await request(500), await request(1)];
  settle(one, 10, true);
  await request(1);
  expect(asked).toEqual(['decide', 'decide', 'decide']);
  settle(other, 0, true);
  await request(1);
  expect(asked.slice(3)).toEqual(['settle -491', 'decide']);
});
