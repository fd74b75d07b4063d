import { expect, test } from 'vitest';
import { type Allowance, allowanceOf, bitOfUnit, withBudgets } from '../../src/admit/allowance.ts';
import type { SettlementOutcome } from '../../src/admit/ledger.ts';
import type { Admitted } from '../../src/admit/verdict.ts';
import type { Plan } from '../../src/model/plan.ts';
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
    const result = await admitter.admit(consumerId, ALLOWANCE, 1, 0, { tokens });
    return (result as { readonly verdict: Admitted }).verdict;
  };
  const settle = (verdict: Admitted, settled: number) =>
    admitter.settle('key_1', verdict, [{ unit: 'tokens', settled }]);
  return { asked, outcomes, request, settle, pass, stop: () => admitter.flush() };
}

test('what a request did not use comes before the next decision about units of its key, and of no other', async () => {
  const { asked, request, settle } = gateway();
  settle(await request(100), 10);
  await request(1, 'key_2');
  await Promise.all([request(1, 'key_2'), request(100)]);
  expect(asked).toEqual(['decide', 'decide', 'settle -90', 'decide']);
});

test('without one, it is settled with what others used within 20 ms', async () => {
  const { asked, request, settle, pass } = gateway();
  const [one, other] = await Promise.all([request(100), request(100)]);
  settle(one, 10);
  await pass(10);
  settle(other, 20);
  await pass(9);
  expect(asked).toEqual(['decide']);
  await pass(1);
  expect(asked).toEqual(['decide', 'settle -170']);
});

test('what the store has certainly not settled comes before the next decision, or with what ends next', async () => {
  const { asked, request, settle, outcomes, pass } = gateway();
  const [one, other] = await Promise.all([request(100), request(100)]);
  outcomes.push('unsent', 'unsent');
  settle(one, 0);
  await request(100);
  await request(100);
  expect(asked).toEqual(['decide', 'settle -100', 'decide', 'settle -100', 'decide']);
  settle(other, 50);
  await pass(20);
  expect(asked.slice(5)).toEqual(['settle -150']);
});

test('a gateway that stops sends what waits, and what comes back unsent meanwhile', async () => {
  const { asked, request, settle, outcomes, stop } = gateway();
  outcomes.push('unsent');
  settle(await request(100), 0);
  await request(1);
  settle(await request(100), 130);
  await stop();
  expect(asked.at(-1)).toBe('settle 30');
  expect(asked.filter((one) => one === 'settle -100')).toHaveLength(2);
});
