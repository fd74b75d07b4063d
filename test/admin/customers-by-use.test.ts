import { describe, expect, test } from 'vitest';
import { ask, openWithAdmin, STORES } from './operator.ts';

const PLANS = `plans:
  pro: { limits: { minute: 100, month: 1000 } }
  daily: { limits: { day: 10 } }
  open: { limits: { minute: unlimited } }
`;

describe.each(Object.entries(STORES))('customers by use on %s', (_, emptyStore) => {
  test('those with the largest share of a limit come first, with trend, keys and when nothing is left', async () => {
    const gateway = await openWithAdmin(await emptyStore(), { plans: PLANS });
    const admin = (method: string, path: string, body?: unknown) => ask(gateway, method, `/admin${path}`, body);
    const named = async (name: string, plan: string, calls: number, keys = 1) => {
      const { id } = (await admin('POST', '/customers', { plan, name })).body;
      const made = [];
      for (let i = 0; i < keys; i++) made.push((await admin('POST', '/keys', { customer: id })).body);
      for (let i = 0; i < calls; i++) await gateway.get('/v1/pets', made[0].key);
      return { id, keys: made };
    };
    await named('little', 'pro', 1);
    const half = await named('half', 'daily', 5, 3);
    await named('much', 'pro', 40);
    await named('open', 'open', 2);
    await admin('DELETE', `/keys/${half.keys[2].id}`);

    const { body } = await admin('GET', '/usage/customers');
    expect(body.customers.map(({ name }: { name: string }) => name)).toEqual(['half', 'much', 'little', 'open']);
    expect(body).toMatchObject({ matching: 4, searched: 4, isWhole: true, unreadable: [] });
    const [first, second, , last] = body.customers;
    expect(first).toMatchObject({
      use: { window: 'day', used: 5, limit: 10, share: 0.5, runsOutAt: null },
      trend: { last7Days: 5, before: 0 },
      keys: 2,
    });
    // 40 in a week leave 960 for more than a month.
    expect(second.use).toMatchObject({ window: 'month', used: 40, limit: 1000, share: 0.04, runsOutAt: null });
    expect(last.use).toMatchObject({ window: 'minute', limit: 'unlimited', share: null });

    const ofMonth = (await admin('GET', '/usage/customers?window=month&above=4')).body;
    expect(ofMonth.customers.map(({ name }: { name: string }) => name)).toEqual(['much']);
    expect((await admin('GET', '/usage/customers?top=1')).body).toMatchObject({ customers: [{}], matching: 4 });
    expect((await admin('GET', '/usage/customers?above=0')).status).toBe(400);
  });
});
