import { describe, expect, test } from 'vitest';
import { budgetOf } from '../../src/admit/allowance.ts';
import { InFlightCounts } from '../../src/admit/in-flight.ts';
import { allowance, alsoCharging, withOwn } from '../support/allowance.ts';
import { holdTime } from '../support/hold-time.ts';

const plan = withOwn(allowance({ minute: 100 }), { inFlight: 5 });

/** Counts before a store that answers reports only while it is not away, and what it was told. */
function counts() {
  const pass = holdTime();
  const store = { isAway: false, told: [] as string[] };
  const reportInFlight = async (all: readonly { readonly accountId: string; readonly count: number }[]) => {
    if (store.isAway) throw new Error('away');
    for (const { accountId, count } of all) store.told.push(`${accountId} ${count}`);
  };
  const inFlight = new InFlightCounts({
    reports: { reportInFlight },
    monotonicMs: () => performance.now(),
    isBeingDecided: () => false,
  });
  return { inFlight, pass, store };
}

describe('what is in flight is reported again', () => {
  test('within a second after a decision that the store did not answer', async () => {
    const { inFlight, pass, store } = counts();
    inFlight.reported(plan, ['a']);
    inFlight.answered(plan, ['a'], 2);
    // Without that, each of these would put the report off.
    for (let i = 0; i < 4; i++) {
      await pass(1_900);
      inFlight.reported(plan, ['a']);
      inFlight.unanswered(plan, ['a'], false);
    }
    expect(store.told.length).toBeGreaterThan(2);
    expect(new Set(store.told)).toEqual(new Set(['a 2']));
  });

  test('also if nothing is, after a decision that may have counted, and after an end that a decision failed to report', async () => {
    const { inFlight, pass, store } = counts();
    inFlight.reported(plan, ['a']);
    inFlight.unanswered(plan, ['a'], true);
    inFlight.reported(plan, ['b']);
    inFlight.answered(plan, ['b'], 1);
    inFlight.end(plan, ['b']);
    inFlight.reported(plan, ['b']);
    inFlight.unanswered(plan, ['b'], false);
    await pass(1_000);
    expect(store.told.toSorted()).toEqual(['a 0', 'b 0']);
  });

  test('at once if the store has decided what the gateway had decided without it', async () => {
    const { inFlight, pass, store } = counts();
    inFlight.reported(plan, ['a']);
    inFlight.answeredLate(plan, ['a']);
    await pass(20);
    expect(store.told).toEqual(['a 0']);
  });

  test('when the store is back, which does not know what was admitted without it', async () => {
    const { inFlight, pass, store } = counts();
    store.isAway = true;
    await pass(1_000);
    inFlight.began(plan, ['a'], 2);
    await pass(4_000);
    store.isAway = false;
    await pass(1_000);
    expect(store.told).toEqual(['a 2']);
  });
});

test('a decision that does not bound an account does not count as a report of it', async () => {
  const { inFlight, pass, store } = counts();
  const ofKey = alsoCharging(plan, [budgetOf({ scope: 'customer', limits: [] })]);
  const ofCustomer = alsoCharging(plan, [budgetOf({ scope: 'customer', limits: [], inFlight: 9 })]);
  inFlight.reported(ofCustomer, ['cus_1/a', 'cus_1']);
  inFlight.answered(ofCustomer, ['cus_1/a', 'cus_1'], 1);
  await pass(1_900);
  inFlight.reported(ofKey, ['cus_1/a', 'cus_1']);
  inFlight.answered(ofKey, ['cus_1/a', 'cus_1'], 0);
  await pass(1_000);
  expect(store.told).toEqual(['cus_1 1']);
});
