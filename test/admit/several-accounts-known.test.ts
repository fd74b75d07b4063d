import { expect, test } from 'vitest';
import { AccountCache } from '../../src/admit/account-cache.ts';
import { accountIdsOf } from '../../src/admit/account-id.ts';
import { type Allowance, allowanceOf, withBudgets } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import type { Plan } from '../../src/model/plan.ts';

const T0 = 1_800_000_000_000;

const plan: Plan = {
  name: 'pro',
  limits: { hour: 5 },
  bans: null,
  enforce: true,
  shadow: {},
  groups: [{ name: 'search', routes: [], limits: { minute: 10 }, instead: true }],
};
const ofKey = allowanceOf(plan, {}) as Allowance;
const ofCustomer = allowanceOf(plan, {}, false, { limits: {} }) as Allowance;

function cacheOn(wallMs = T0) {
  const clock = { ms: 1_000 };
  return { clock, cache: new AccountCache({ remembered: 10, monotonicMs: () => clock.ms, wallMs: () => wallMs }) };
}

/** What the store has decided about `n` requests, given to the cache. */
function decided(cache: AccountCache, id: string, charged: Allowance, n: number, nowMs = T0) {
  const ids = accountIdsOf(id, charged);
  const before = charged.budgets.length === 1 ? cache.known(ids).accounts : [];
  cache.rememberDecision(ids, charged, decide(before, charged, nowMs, 1, n), 1_000, cache.generation);
}

test('a decision about a group that is there instead of the plan leaves what is known of the plan', () => {
  const { cache } = cacheOn();
  decided(cache, 'a', ofKey, 5);
  decided(cache, 'a', withBudgets(ofKey, 1), 1);
  expect(cache.known(['a']).accounts[0]!.windows).toMatchObject({ hour: { used: 5 } });
  expect(cache.refusal('a', ofKey, 1)).toMatchObject({ kind: 'refused' });
});

test('what it leaves refuses nothing from memory that was known before an operator changed something', () => {
  const { cache } = cacheOn();
  decided(cache, 'a', ofKey, 5);
  cache.forget();
  decided(cache, 'a', withBudgets(ofKey, 1), 1);
  expect(cache.known(['a']).accounts[0]!.windows).toMatchObject({ hour: { used: 5 } });
  expect(cache.refusal('a', ofKey, 1)).toBe(null);
});

test('accounts that were decided before the store ever answered count when it has answered about another key', () => {
  const { cache } = cacheOn(T0 - 7_200_000);
  const idsOfA = accountIdsOf('cus_1/a', ofCustomer);
  const known = cache.known(idsOfA);
  cache.rememberLocal(idsOfA, decide(known.accounts, ofCustomer, known.nowMs, 1, 5).accounts, known);
  // A key without a customer: the store's clock becomes known, and nothing else.
  decided(cache, 'c', ofKey, 1);
  const { nowMs, isOwnClock, accounts } = cache.known(accountIdsOf('cus_1/b', ofCustomer));
  expect({ nowMs, isOwnClock }).toEqual({ nowMs: T0, isOwnClock: false });
  expect(accounts[1]!.windows).toEqual({ hour: { used: 5, endsAtMs: T0 + 3_600_000 } });
  expect(decide(accounts, ofCustomer, nowMs, 1, 1).admitted).toBe(0);
});
