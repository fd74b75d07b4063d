import { expect, test } from 'vitest';
import { accountIdsOf, accountsUnder, lengthOfOwner } from '../../src/admit/account-id.ts';
import {
  type Allowance,
  allowanceOf,
  groupNamesIn,
  type Plan,
  unitNamesIn,
  withAllBudgets,
} from '../../src/admit/plan.ts';

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
  const [groups, units] = [groupNamesIn(plans), unitNamesIn(plans)];
  const ofKey = withAllBudgets(allowanceOf(plan, {}) as Allowance);
  expect(accountsUnder('key_1', groups, units)).toEqual(expect.arrayContaining([...accountIdsOf('key_1', ofKey)]));
  const ofCustomer = withAllBudgets(allowanceOf(plan, {}, false, { limits: {} }) as Allowance);
  const ids = ['cus_1/key_1', 'cus_1/key_1~shadow'].flatMap((id) => [...accountIdsOf(id, ofCustomer)]);
  const isOfKey = (id: string) => id.startsWith('cus_1/');
  const removed = ['cus_1', 'cus_1/key_1'].map((id) => accountsUnder(id, groups, units));
  expect(removed[0]).toEqual(expect.arrayContaining(ids.filter((id) => !isOfKey(id))));
  expect(removed[1]).toEqual(expect.arrayContaining(ids.filter(isOfKey)));
  // All of them are in one slot.
  for (const id of accountsUnder('cus_1', groups, units)) expect(id.slice(0, lengthOfOwner(id))).toBe('cus_1');
});
