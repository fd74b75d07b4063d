import { describe, expect, test } from 'vitest';
import { plainAllowance } from '../../../src/admit/allowance.ts';
import { planRoutesOf, warningsWithRoutes } from '../../../src/config/plans-and-routes.ts';
import { parsePlans } from '../../../src/config/plans-schema.ts';
import type { Plans } from '../../../src/model/plan.ts';
import type { StoredCustomer, StoredKey } from '../../../src/model/record.ts';
import { affectedBy, MAX_NAMED, ReachedCallers, reachesOf } from '../../../src/operations/plans/affected.ts';
import { changesBetween, changeText } from '../../../src/operations/plans/plan-changes.ts';
import { warningsOfUsers } from '../../../src/operations/plans/warnings.ts';
import { countLiveKeys, faultsOfLostPlans, type PlanUserStores } from '../../../src/operations/plans-in-use.ts';
import type { Route } from '../../../src/routing/route.ts';

const NOW_MS = 1_790_000_000_000;

function parsed(text: string) {
  const read = parsePlans(text, 'plans.yaml');
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read;
}

function plansIn(text: string): Plans {
  return parsed(text).value;
}

/** Stores that return these records one a page. */
function storesWith(
  customers: readonly Partial<StoredCustomer>[],
  keys: readonly Partial<StoredKey>[],
): PlanUserStores {
  const page = <T extends object>(records: readonly Partial<T>[], cursor: string | null, rest: Partial<T>) => {
    const at = Number(cursor ?? 0);
    return {
      records: records.slice(at, at + 1).map((one) => ({ limits: {}, expiresAtMs: null, ...rest, ...one }) as T),
      cursor: at + 1 < records.length ? String(at + 1) : null,
    };
  };
  return {
    customers: {
      list: async ({ cursor }) => {
        const { records, ...rest } = page<StoredCustomer>(customers, cursor, {});
        return { records, ...rest };
      },
    },
    keys: {
      list: async ({ cursor }) => {
        const { records, ...rest } = page<StoredKey>(keys, cursor, { revokedAtMs: null });
        return { records, ...rest };
      },
    },
  };
}

const STORES = storesWith(
  [
    { id: 'cus_a', plan: 'team' },
    { id: 'cus_b', plan: 'team', limits: { minute: 900 } },
    { id: 'cus_late', plan: 'team', expiresAtMs: NOW_MS },
    { id: 'cus_tokens', plan: 'gone' },
  ],
  [
    { plan: 'team' },
    { plan: 'team', limits: { minute: 7 } },
    // What a key's own record says of its plan does not count for a key of a customer.
    { plan: 'free', customer: 'cus_a' },
    { plan: 'free', customer: 'cus_a', limits: { minute: 5 } },
    { plan: 'free', customer: 'cus_b' },
    { plan: 'team', customer: 'cus_late' },
    { plan: 'team', customer: 'cus_deleted' },
    { plan: 'team', customer: 'cus_a', revokedAtMs: 1 },
  ],
);
const counted = (keysRead = { at: 0 }) =>
  countLiveKeys(STORES, NOW_MS, {
    onPage: (read) => {
      keysRead.at = read;
      return true;
    },
  });

const OLD = `
plans:
  team: { limits: { minute: 600 }, each-key: { minute: 300, in-flight: 5 }, groups: { old: { routes: [/old], limits: { day: 1 } }, search: { routes: [/a, /b], limits: { minute: 10, hour: 60 } } } }
  gone: { limits: { minute: 1 } }
`;
const NEW = `
plans:
  team:
    limits: { minute: 500 }
    each-key: { minute: { limit: 200, window: sliding }, day: 900 }
    groups:
      search: { routes: [/b, "POST /c"], limits: { minute: { limit: 20, window: sliding }, day: 90 }, instead: true }
      reports: { routes: [/v1/reports/**], limits: { day: 5 } }
    in-flight: 20
    bans: { of: customer }
`;

describe('the users of plans', () => {
  test('are keys under their own plan, keys of customers under that of the customer, and customers without a key', async () => {
    const keysRead = { at: 0 };
    const { byPlan: live } = await counted(keysRead);
    expect(keysRead.at).toBe(8);
    expect([...live.keys()]).toEqual(['team', 'gone']);
    expect(live.get('team')).toMatchObject({
      ...{ keys: 5, own: { minute: 1, day: 0 }, ofCustomers: 3 },
      ...{ limitedByCustomer: { minute: 1 }, ownOfCustomers: { minute: 1 }, customers: 2, customersOwn: { minute: 1 } },
    });
    expect(live.get('gone')).toMatchObject({ keys: 0, customers: 1 });
  });

  test('keep a plan from being removed, also if only customers use it', async () => {
    const [before, after] = [plansIn(OLD), plansIn(NEW)];
    const users = await counted();
    const live = users.byPlan;
    expect(faultsOfLostPlans({ before, after, file: 'plans.yaml' }, users)).toEqual([
      'plans.yaml: plans: lacks `gone`, which 1 customer uses. Keep it; move it (`tollgate customers edit CUSTOMER_ID --plan PLAN`) ' +
        'and send SIGHUP; or name it in `removed`, and it gets 500.',
    ]);
    const others = { ...users, byPlan: new Map([['gone', live.get('team')!]]) };
    expect(faultsOfLostPlans({ before, after, file: 'plans.yaml' }, others)[0]).toContain(
      'which 5 live keys and 2 customers use. Keep it; move them (`tollgate keys update KEY_ID --plan PLAN`, ' +
        '`tollgate customers edit CUSTOMER_ID --plan PLAN`)',
    );
    const gone = changesBetween(before, after, live).find(({ what }) => what === 'plan')!;
    expect(gone).toMatchObject({ plan: 'gone', keys: 0, keysOfCustomers: 0, customers: 1, breaks: true });
  });
});

describe('those whom a change of plans affects', () => {
  const affectedOf = async (stores: PlanUserStores, oldText: string, newText: string) => {
    const [before, after] = [plansIn(oldText), plansIn(newText)];
    const reaches = reachesOf(changesBetween(before, after, null));
    const reached = new ReachedCallers(reaches);
    const { byPlan } = await countLiveKeys(stores, NOW_MS, { onPage: () => true, onUser: reached.add.bind(reached) });
    return affectedBy(reached.byPlan, reaches, { before, after, changes: changesBetween(before, after, byPlan) });
  };
  const SHOP = { id: 'key_shop', name: 'Shop', owner: 'Jo', plan: 'a' };
  const stores = storesWith(
    [
      { id: 'cus_1', name: 'One', owner: null, plan: 'a' },
      { id: 'cus_2', name: 'Two', owner: null, plan: 'a', limits: { minute: 900 } },
    ],
    [
      SHOP,
      { ...SHOP, id: 'key_own', limits: { minute: 7 } },
      { ...SHOP, id: 'key_revoked', revokedAtMs: 1 },
      { ...SHOP, id: 'key_of_customer', customer: 'cus_1' },
      { ...SHOP, id: 'key_elsewhere', plan: 'b' },
    ],
  );
  const plans = (a: string) => `plans: { a: { ${a} }, b: { limits: { minute: 1 } } }`;
  const idsOf = (affected: Awaited<ReturnType<typeof affectedOf>>) =>
    affected.map(({ plan, keys, customers, callers }) => [plan, keys, customers, ...callers.map(({ id }) => id)]);

  test('have no limit of their own in the window, and are named with their limits before and after', async () => {
    const affected = await affectedOf(stores, plans('limits: { minute: 60 }'), plans('limits: { minute: 5, day: 9 }'));
    // The key and the customer with an own limit of the minute have the new limit of the day.
    expect(idsOf(affected)).toEqual([['a', 2, 2, 'cus_1', 'cus_2', 'key_shop', 'key_own']]);
    const { id, name, owner } = SHOP;
    expect(affected[0]!.callers.slice(2)).toEqual([
      {
        id,
        name,
        owner,
        breaks: false,
        limits: [
          { window: 'minute', from: 60, to: 5 },
          { window: 'day', from: null, to: 9 },
        ],
      },
      { id: 'key_own', name, owner, breaks: false, limits: [{ window: 'day', from: null, to: 9 }] },
    ]);
    expect(affected[0]!.keysOfCustomers).toBe(1);
    const lowered = await affectedOf(stores, plans('limits: { minute: 60 }'), plans('limits: { minute: 5 }'));
    expect(idsOf(lowered)).toEqual([['a', 1, 1, 'cus_1', 'key_shop']]);
  });

  test.each([
    ['bans: { after: 3 }', ['a', 2, 2, 'cus_1', 'cus_2', 'key_shop', 'key_own']],
    ['limits: { minute: { limit: 60, window: sliding } }', ['a', 2, 2, 'cus_1', 'cus_2', 'key_shop', 'key_own']],
    ['each-key: { minute: 3 }', ['a', 0, 2, 'cus_1', 'cus_2']],
    ['bans: { of: customer }', ['a', 0, 2, 'cus_1', 'cus_2']],
  ])('by %s are', async (change, expected) => {
    const text = change.startsWith('limits') ? change : `limits: { minute: 60 }, ${change}`;
    const affected = await affectedOf(stores, plans('limits: { minute: 60 }'), plans(text));
    expect(idsOf(affected)).toEqual([expected]);
    expect(affected[0]!.callers.map(({ limits }) => limits)).toEqual(affected[0]!.callers.map(() => []));
  });

  test('by the end of a plan are all who have it; nobody is affected by what changes nothing', async () => {
    const gone = await affectedOf(stores, plans('limits: { minute: 60 }'), 'plans: { b: { limits: { minute: 1 } } }');
    expect(idsOf(gone)).toEqual([['a', 2, 2, 'cus_1', 'cus_2', 'key_shop', 'key_own']]);
    expect(gone[0]!.callers[3]).toMatchObject({ breaks: true, limits: [{ window: 'minute', from: 7, to: null }] });
    const custom = await affectedOf(
      stores,
      plans('limits: { minute: 60 }'),
      plans('limits: { minute: 60, hour: custom }'),
    );
    expect(custom[0]!.callers.map(({ breaks }) => breaks)).toEqual([true, true, true, true]);
    expect(await affectedOf(stores, plans('limits: { minute: 60 }'), plans('limits: { minute: 60 }'))).toEqual([]);
  });

  test('are named up to a bound, and counted beyond it', async () => {
    const many = storesWith(
      [],
      Array.from({ length: MAX_NAMED.ofPlan + 3 }, (_, i) => ({ ...SHOP, id: `key_${i}` })),
    );
    const [affected] = await affectedOf(many, plans('limits: { minute: 60 }'), plans('limits: { minute: 5 }'));
    expect([affected!.keys, affected!.callers.length]).toEqual([MAX_NAMED.ofPlan + 3, MAX_NAMED.ofPlan]);
  });
});

test('a difference names what changes for groups, each key, requests in flight and bans, and how many keys and customers it affects', async () => {
  const changes = changesBetween(plansIn(OLD), plansIn(NEW), (await counted()).byPlan);
  const rows = changes
    .filter(({ plan }) => plan === 'team')
    .map(({ plan: _, breaks: __, ...rest }) => Object.values(rest));
  expect(rows).toEqual([
    ['limits.minute', 'lowered', 600, 500, 3, 2, 1],
    ['groups.old', 'removed', 'day 1 on /old', null, 5, 3, 2],
    ['groups.search.routes', 'removed', '/a', null, 5, 3, 2],
    ['groups.search.routes', 'added', null, 'POST /c', 5, 3, 2],
    ['groups.search.limits.minute', 'raised', 10, 20, 5, 3, 2],
    ['groups.search.limits.hour', 'removed', 60, null, 5, 3, 2],
    ['groups.search.limits.day', 'added', null, 90, 5, 3, 2],
    ['groups.search.limits.minute.window', 'changed', 'fixed', 'sliding', 5, 3, 2],
    ['groups.search.limits.minute.slices', 'added', null, 12, 5, 3, 2],
    ['groups.search.instead', 'changed', 'false', 'true', 5, 3, 2],
    ['groups.reports', 'added', null, 'day 5 on /v1/reports/**', 5, 3, 2],
    ['in-flight', 'added', null, 20, 5, 3, 2],
    ['each-key.minute', 'lowered', 300, 200, 2, 2, 2],
    ['each-key.day', 'added', null, 900, 3, 3, 2],
    ['bans.of', 'changed', 'key', 'customer', 3, 3, 2],
    ['each-key.minute.window', 'changed', 'fixed', 'sliding', 3, 3, 2],
    ['each-key.minute.slices', 'added', null, 12, 3, 3, 2],
    ['each-key.in-flight', 'removed', 5, null, 3, 3, 2],
  ]);
  expect(changes.map(changeText)).toContain('team groups.reports day 5 on /v1/reports/** added');
  expect(changes.map(changeText)).toContain('team groups.search.limits.minute 10 → 20');
});

describe('the warnings of a file', () => {
  const messages = (text: string) => {
    const read = parsed(text);
    return read.warnings.map(({ path, message }) => `${path}: ${message}`);
  };

  test('name limits of groups and of each key that never refuse, because another limit does so first', () => {
    expect(
      messages(`plans:
  a:
    limits: { minute: 60, day: 1000 }
    in-flight: 20
    each-key: { minute: 60, day: 900, in-flight: 20 }
    groups:
      high: { routes: [/a], limits: { minute: 100, hour: 90, day: 999 } }
      instead: { routes: [/b], limits: { minute: 100 }, instead: true }
`),
    ).toEqual([
      'plans.a.each-key.minute: is not below the minute limit of 60 that all keys of a customer share, and so bounds no key.',
      'plans.a.each-key.in-flight: is not below the in-flight limit of 20 that all keys of a customer share, and so bounds no key.',
      'plans.a.groups.high.limits.minute: is not below the minute limit of 60 of the plan, which refuses first; lower it, or set `instead: true`.',
      'plans.a.groups.high.limits.hour: is below the minute limit of 100, which can then never be used up.',
    ]);
  });

  test('name patterns of groups that no route serves, groups below the cost of a route, and customers without a limit', async () => {
    const plans = parsed(`plans:
  team:
    limits: { minute: custom }
    groups:
      search: { routes: [/v1/search/**, "DELETE /v1/pets", "/v1/%70ets", "/v1/public"], limits: { minute: 10 } }
  gone: { limits: { minute: 100 } }
`);
    const route = (path: string, methods: string[], cost = 1, perAddress: Route['perAddress'] = null) => ({
      ...{ path, methods, cost, charges: null, policies: null, perAddress },
    });
    const routes = [
      route('/v1/{kind}/find', ['POST'], 40),
      route('/v1/pets', ['GET', 'HEAD'], 30),
      route('/v1/public', ['GET'], 1, { id: 'public', allowance: plainAllowance('public', []) }),
    ];
    const ofUsers = warningsOfUsers(plans, (await counted()).byPlan, false);
    const warnings = [...ofUsers, ...warningsWithRoutes(plans, planRoutesOf(routes))];
    expect(warnings.map(({ path, message }) => `${path}: ${message}`)).toEqual([
      'plans.team.limits.minute: is `custom`, and 1 live key brings no limit of their own: they could not be served.',
      'plans.team.limits.minute: is `custom`, and 1 customer brings no limit of their own: their keys could not be served.',
      'plans.team.groups.search.limits.minute: is below the cost of /v1/{kind}/find, 40: keys of this plan can never call it.',
      'plans.team.groups.search.limits.minute: is below the cost of /v1/pets, 30: keys of this plan can never call it.',
      'plans.team.groups.search.routes[1]: matches no route of gateway.yaml that needs a key.',
      'plans.team.groups.search.routes[3]: matches no route of gateway.yaml that needs a key.',
    ]);
  });
});
