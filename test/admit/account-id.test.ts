import { expect, test } from 'vitest';
import { accountIdsOf, accountsUnder, lengthOfOwner } from '../../src/admit/account-id.ts';
import { type Allowance, allowanceOf, groupNamesIn, type Plan, withAllGroups } from '../../src/admit/plan.ts';

const plan: Plan = {
  name: 'pro',
  limits: { day: 5 },
  bans: null,
  enforce: true,
  shadow: { day: 3 },
  groups: [{ name: 'search', routes: [], limits: { minute: 10 }, instead: false }],
};

test('whatever a plan counts for a key or a customer is removed with it', () => {
  const groups = groupNamesIn({ plans: new Map([['pro', plan]]), removed: [], failedAuthenticationPerMinute: 60 });
  const ofKey = withAllGroups(allowanceOf(plan, {}) as Allowance);
  expect(accountsUnder('key_1', groups)).toEqual(expect.arrayContaining([...accountIdsOf('key_1', ofKey)]));
  const ofCustomer = withAllGroups(allowanceOf(plan, {}, false, { limits: {} }) as Allowance);
  const shadows = accountIdsOf('cus_1/key_1~shadow', ofCustomer);
  const [own, ...shared] = accountIdsOf('cus_1/key_1', ofCustomer);
  expect(accountsUnder('cus_1', groups)).toEqual(expect.arrayContaining([...shared, ...shadows.slice(1)]));
  expect(accountsUnder('cus_1/key_1', groups)).toEqual(expect.arrayContaining([own, shadows[0]]));
  // All of them are in one slot.
  for (const id of accountsUnder('cus_1', groups)) expect(id.slice(0, lengthOfOwner(id))).toBe('cus_1');
});
