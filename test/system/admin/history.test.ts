import { beforeEach, describe, expect, test } from 'vitest';
import { ask, openWithAdmin, STORES } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import type { TestGateway } from '../../support/gateway.ts';

const PLANS = `
plans:
  small: { limits: { minute: 3 }, bans: off }
  strict: { limits: { hour: 1 }, bans: { after: 2, within: 1m, first: 10m } }
  watched: { limits: { minute: 2 }, enforce: false, bans: off }
  open: { limits: { day: unlimited } }
failed-authentication: { minute: 1000 }
`;
const ROUTES = `
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: /v1/reports, methods: [GET], upstream: store, cost: 2 }
`;
/** The index and the counts of refusals are right within this. */
const SOON = { withinMs: 3_000 };

interface Bucket {
  readonly at: string;
  readonly admitted: number;
  readonly refused: number;
  readonly banned: number;
}

/** The sum of all buckets: the test may run across the end of an hour. */
function sumOf(buckets: readonly Bucket[]) {
  const sum = (of: 'admitted' | 'refused' | 'banned') => buckets.reduce((all, bucket) => all + bucket[of], 0);
  return { admitted: sum('admitted'), refused: sum('refused'), banned: sum('banned') };
}

describe.each(Object.keys(STORES))('on %s', (store) => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await openWithAdmin(await STORES[store]!(), { plans: PLANS, routes: ROUTES });
  });

  const made = async (plan: string, more: object = {}) =>
    (await ask(gateway, 'POST', '/admin/keys', { plan, ...more })).body as { id: string; key: string };
  const call = async (key: string, times: number, path = '/v1/pets') => {
    for (let i = 0; i < times; i++) await gateway.get(path, key);
  };
  const bucketsOf = async (id: string, query = '') =>
    (await ask(gateway, 'GET', `/admin/keys/${id}/history${query}`)).body.buckets as Bucket[];
  const refusedNow = async (query = '') => (await ask(gateway, 'GET', `/admin/now${query}`)).body;

  test('the history of a key has the cost that was admitted at once, and refusals within seconds', async () => {
    const { id, key } = await made('small');
    expect((await ask(gateway, 'GET', `/admin/keys/${id}/history`)).body).toEqual({
      step: 'hour',
      buckets: [],
      isKept: true,
    });
    await call(key, 1);
    await call(key, 1, '/v1/reports');
    await call(key, 4);
    expect(sumOf(await bucketsOf(id))).toMatchObject({ admitted: 3 });
    await eventually(
      async () => expect(sumOf(await bucketsOf(id, '?step=day'))).toEqual({ admitted: 3, refused: 4, banned: 0 }),
      SOON,
    );
    const [hour] = await bucketsOf(id);
    expect(hour!.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:00:00Z$/);
    expect(Math.abs(Date.now() - Date.parse(hour!.at))).toBeLessThan(2 * 3_600_000);
    expect((await bucketsOf(id, '?step=day'))[0]!.at).toMatch(/^\d{4}-\d\d-\d\dT00:00:00Z$/);
  });

  test('a plan without limits, and one that is not enforced, are recorded as well: every request', async () => {
    const [open, watched] = [await made('open'), await made('watched')];
    await call(open.key, 5);
    await call(watched.key, 7);
    await eventually(async () => expect(sumOf(await bucketsOf(open.id))).toMatchObject({ admitted: 5 }), SOON);
    await eventually(async () => expect(sumOf(await bucketsOf(watched.id))).toMatchObject({ admitted: 7 }), SOON);
  });

  test('a span is answered with the hours or days that it overlaps', async () => {
    const { id, key } = await made('open');
    await call(key, 1);
    const { at } = (await bucketsOf(id))[0]!;
    const next = new Date(Date.parse(at) + 1_800_000).toISOString();
    expect(await bucketsOf(id, `?from=${at}&to=${next}`)).toHaveLength(1);
    expect(await bucketsOf(id, `?to=${at}`)).toHaveLength(0);
    expect((await bucketsOf(id, '?from=48h')).length).toBeGreaterThan(0);
    expect((await bucketsOf(id, '?from=92d&step=day')).length).toBeGreaterThan(0);
  });

  test('a span that is not kept, or is none, is refused with a sentence', async () => {
    const { id } = await made('small');
    const cases: [string, RegExp][] = [
      ['from=49h', /^from is too early: hours are kept for the last 48\. .*step day/],
      ['from=93d&step=day', /^from is too early: days are kept for the last 92\./],
      ['from=1h&to=2h', /^from is later than to\.$/],
      ['from=2100-01-01', /^from is in the future\.$/],
      ['from=soon', /^from must be a duration before now/],
      ['to=soon', /^to must be a duration before now/],
      ['step=week', /^step must be hour or day\.$/],
      ['step=day&step=day', /^step is given more than once\.$/],
      ['days=3', /^There is no parameter "days"; there are from, to, step, unit\.$/],
    ];
    for (const [query, message] of cases) {
      const { status, body } = await ask(gateway, 'GET', `/admin/keys/${id}/history?${query}`);
      expect([query, status, body.code]).toEqual([query, 400, 'invalid_request']);
      expect(body.message).toMatch(message);
    }
  });

  test('a revoked key keeps its history, a deleted one has none', async () => {
    const { id, key } = await made('open');
    await call(key, 2);
    await ask(gateway, 'DELETE', `/admin/keys/${id}`);
    expect(sumOf(await bucketsOf(id))).toMatchObject({ admitted: 2 });
    await ask(gateway, 'POST', `/admin/keys/${id}/delete`);
    expect((await ask(gateway, 'GET', `/admin/keys/${id}/history`)).status).toBe(404);
    const { stdout } = await gateway.command('usage', 'export', '--from', '1d', '--to', '2100-01-01');
    expect(stdout).toBe('');
  });

  test('who is refused and who is banned is listed within seconds, with its key', async () => {
    const [refused, banned, good] = [
      await made('small', { name: 'shop', owner: 'Jo' }),
      await made('strict'),
      await made('small'),
    ];
    expect(await refusedNow()).toEqual({ consumers: [], cursor: null });
    await call(refused.key, 4);
    await call(banned.key, 3);
    await call(good.key, 2);
    await eventually(async () => expect((await refusedNow()).consumers).toHaveLength(2), SOON);
    const { consumers } = await refusedNow();
    expect(consumers).toContainEqual({
      id: refused.id,
      name: 'shop',
      owner: 'Jo',
      plan: 'small',
      state: 'refused',
      window: 'minute',
      until: expect.any(Number),
      ban: null,
    });
    expect(consumers).toContainEqual({
      id: banned.id,
      name: null,
      owner: null,
      plan: 'strict',
      state: 'banned',
      window: 'hour',
      until: expect.any(Number),
      ban: 1,
    });
    for (const { until } of consumers) expect(until).toBeGreaterThanOrEqual(Math.floor(Date.now() / 1_000));
  });

  test('a key leaves the list at once when its limit is raised, its ban is lifted or it is revoked', async () => {
    const [raised, lifted, revoked] = [await made('small'), await made('strict'), await made('small')];
    for (const { key } of [raised, lifted, revoked]) await call(key, 4);
    await eventually(async () => expect((await refusedNow()).consumers).toHaveLength(3), SOON);
    await ask(gateway, 'PATCH', `/admin/keys/${raised.id}`, { limits: { minute: 100 } });
    await ask(gateway, 'DELETE', `/admin/keys/${revoked.id}`);
    expect((await refusedNow()).consumers).toMatchObject([{ id: lifted.id, state: 'banned' }]);
    await ask(gateway, 'DELETE', `/admin/bans/${lifted.id}`);
    // Its hour is still spent.
    expect((await refusedNow()).consumers).toMatchObject([{ id: lifted.id, state: 'refused', window: 'hour' }]);
  });

  test('a request that costs more than is left makes its caller one who is refused', async () => {
    const { id, key } = await made('small');
    await call(key, 1, '/v1/reports');
    await call(key, 1, '/v1/reports');
    await eventually(async () => expect((await refusedNow()).consumers).toMatchObject([{ id }]), SOON);
  });

  test('is turned page by page', async () => {
    const keys = [await made('strict'), await made('strict'), await made('strict')];
    for (const { key } of keys) await call(key, 3);
    await eventually(async () => expect((await refusedNow()).consumers).toHaveLength(3), SOON);
    const first = await refusedNow('?limit=2');
    const second = await refusedNow(`?limit=2&cursor=${first.cursor}`);
    expect([...first.consumers, ...second.consumers].map(({ id }: { id: string }) => id)).toEqual(
      keys.map(({ id }) => id).sort(),
    );
    expect(second.cursor).toBeNull();
  });
});
