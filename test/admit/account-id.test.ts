import { expect, test } from 'vitest';
import {
  accountIdsOf,
  accountsOf,
  accountsUnder,
  historiesOf,
  historyBehind,
  isOfCustomer,
  isShadowId,
  lengthOfOwner,
  ownerIdOf,
  partsOfAccount,
} from '../../src/admit/account-id.ts';
import { type Allowance, allowanceOf, budgetOf, withAllBudgets } from '../../src/admit/allowance.ts';
import type { Plan } from '../../src/model/plan.ts';

const plan: Plan = {
  name: 'pro',
  limits: { day: 5 },
  bans: null,
  enforce: true,
  shadow: { day: 3 },
  groups: [
    {
      name: 'search',
      routes: [],
      limits: { minute: 10 },
      instead: false,
      units: [{ name: 'rows', limits: { day: 9 } }],
    },
  ],
  units: [{ name: 'tokens', limits: { month: 100 } }],
  eachKey: { limits: {}, forms: {}, units: [{ name: 'tokens', limits: { day: 9 } }] },
};

test('whatever a plan counts for a key or a customer is removed with it', () => {
  const plans = { plans: new Map([['pro', plan]]), removed: [], failedAuthenticationPerMinute: 60 };
  const ofKey = withAllBudgets(allowanceOf(plan, {}) as Allowance);
  expect(accountsUnder('key_1', plans)).toEqual(expect.arrayContaining([...accountIdsOf('key_1', ofKey)]));
  const ofCustomer = withAllBudgets(allowanceOf(plan, {}, false, { limits: {} }) as Allowance);
  const ids = ['cus_1/key_1', 'cus_1/key_1~shadow'].flatMap((id) => [...accountIdsOf(id, ofCustomer)]);
  const isOfKey = (id: string) => id.startsWith('cus_1/');
  const removed = ['cus_1', 'cus_1/key_1'].map((id) => accountsUnder(id, plans));
  expect(removed[0]).toEqual(expect.arrayContaining(ids.filter((id) => !isOfKey(id))));
  expect(removed[1]).toEqual(expect.arrayContaining(ids.filter(isOfKey)));
  // All of them are in one slot.
  for (const id of accountsUnder('cus_1', plans)) expect(id.slice(0, lengthOfOwner(id))).toBe('cus_1');
});

const parts = (consumerId: string | null, customerId: string | null, group: string | null, unit: string | null) => ({
  ...{ consumerId, customerId, group, unit },
});

test.each([
  ['key_1', parts('key_1', null, null, null), 'key_1', ['key_1']],
  ['key_1~shadow', parts('key_1', null, null, null), 'key_1~shadow', ['key_1~shadow']],
  ['key_1#search', parts('key_1', null, 'search', null), 'key_1', ['key_1#search']],
  ['key_1~shadow%rows', parts('key_1', null, null, 'rows'), 'key_1~shadow', ['key_1~shadow%rows']],
  ['cus_1', parts(null, 'cus_1', null, null), 'cus_1', ['cus_1']],
  ['cus_1~shadow#search%rows', parts(null, 'cus_1', 'search', 'rows'), 'cus_1', ['cus_1~shadow#search%rows']],
  ['cus_1/key_1', parts('key_1', 'cus_1', null, null), 'cus_1', ['cus_1/key_1', 'cus_1']],
  ['cus_1/key_1~shadow#a', parts('key_1', 'cus_1', 'a', null), 'cus_1', ['cus_1/key_1~shadow#a', 'cus_1']],
])(
  'the account %s has the parts %o, its slot by %s, and is counted in the histories %j',
  (id, of, owner, histories) => {
    expect(partsOfAccount(id)).toEqual(of);
    expect(ownerIdOf(id)).toBe(owner);
    expect(historiesOf(id)).toEqual(histories);
    expect(isShadowId(id)).toBe(id.includes('~shadow'));
    expect(isOfCustomer(id, 'cus_1')).toBe(of.consumerId !== null && of.customerId === 'cus_1');
  },
);

test.each([
  ['key_1', 'key_1'],
  ['key_1%rows', 'key_1'],
  ['key_1~shadow#search%rows', 'key_1~shadow'],
  ['cus_1#search', 'cus_1'],
  ['cus_1~shadow#search%rows', 'cus_1'],
  ['cus_1/key_1%rows', 'cus_1/key_1'],
  ['cus_1/key_1~shadow#search', 'cus_1/key_1~shadow'],
])('requests that charge the account %s are in the history %s', (id, history) => {
  expect(historyBehind(id)).toBe(history);
});

test('a key has its present account and those from before it was moved, and several in a decision if it has budgets', () => {
  expect(accountsOf({ id: 'key_1' })).toEqual(['key_1']);
  expect(accountsOf({ id: 'key_1', customer: 'cus_2', formerAccounts: ['key_1', 'cus_1/key_1'] })).toEqual([
    ...['cus_2/key_1', 'key_1', 'cus_1/key_1'],
  ]);
  const [own, search] = [budgetOf({ limits: [] }), budgetOf({ group: 'search', limits: [] })];
  expect(accountIdsOf('key_1', { budgets: [own] })).toEqual(['key_1']);
  expect(accountIdsOf('key_1', { budgets: [own, search] })).toEqual(['key_1', 'key_1#search']);
});
