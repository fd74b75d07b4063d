import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { ask, openWithAdmin, STORES } from './operator.ts';

const PLANS = `
plans:
  model:
    limits: { minute: 100 }
    units: { tokens: { minute: 1000, month: 100000 } }
    each-key: { units: { tokens: { month: 60000 } } }
    groups:
      chat: { routes: [/v1/chat], limits: { day: 50 }, units: { tokens: { day: { limit: 5000, window: sliding } } } }
bans: off
`;
const ROUTES = `
  - { path: /v1/chat, methods: [GET], upstream: store, cost: { tokens: { reserve: { header: X-Max, default: 300 } } } }
`;

describe.each(Object.keys(STORES))('operators see and change what is counted in units, on %s', (name) => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES[name]!(), { plans: PLANS, routes: ROUTES });
  });
  afterAll(() => gateway.process.stop());

  const chat = (key: string, tokens: number, requestId = 'r') =>
    gateway.get('/v1/chat', key, { headers: { 'X-Max': String(tokens), 'X-Request-Id': requestId } });
  const usageOf = async (path: string) => (await ask(gateway, 'GET', `${path}/usage`)).body.windows;
  const created = async (path: string, more: object = {}) =>
    (await ask(gateway, 'POST', path, { plan: 'model', ...more })).body;

  test('the limits of a key by name, its history by unit, and an error that names the units', async () => {
    const { id, key } = await created('/admin/keys');
    expect((await chat(key, 400)).status).toBe(200);
    const windows = await usageOf(`/admin/keys/${id}`);
    expect(Object.keys(windows)).toEqual(['minute', 'chat-day', 'tokens-minute', 'tokens-month', 'chat-tokens-day']);
    expect(windows.minute).not.toHaveProperty('unit');
    expect(windows['tokens-month']).toMatchObject({ unit: 'tokens', limit: 100_000, used: 400, form: 'calendar, UTC' });
    expect(windows['chat-tokens-day']).toMatchObject({ unit: 'tokens', used: 400, form: 'sliding, 12 slices' });
    await eventually(async () => {
      expect((await gateway.command('usage', id)).stdout).toMatch(/^tokens-minute\t1000\t400\t600\t/m);
    });
    const history = await ask(gateway, 'GET', `/admin/keys/${id}/history?step=day&unit=tokens`);
    expect(history.body).toMatchObject({ unit: 'tokens', buckets: [{ admitted: 400, refused: 0 }] });
    expect(await ask(gateway, 'GET', `/admin/keys/${id}/history?unit=rows`)).toMatchObject({
      status: 400,
      body: { message: 'unit must be one of: requests, tokens.' },
    });
  });

  test('a refusal by a unit is explained with what the request took in advance, and listed while another like it would be refused', async () => {
    const { id, key } = await created('/admin/keys', { name: 'Model shop' });
    expect((await chat(key, 820)).status).toBe(200);
    expect((await chat(key, 500, `big-${id}`)).status).toBe(429);
    const { body } = await ask(gateway, 'GET', `/admin/refusals/big-${id}`);
    expect(body.refusals).toMatchObject([
      {
        window: 'tokens-minute',
        cost: 1,
        sentence:
          'The key had used 820 of 1000 tokens a minute when this request came. The request takes 500 in advance.',
        advice: 'Wait until the time shown below, or top up the tokens of the minute.',
      },
    ]);
    const limits = Object.fromEntries(body.refusals[0].limits.map((of: { window: string }) => [of.window, of]));
    expect(limits['tokens-minute']).toMatchObject({ unit: 'tokens', needed: 500, used: 820, remaining: 180 });
    expect(limits['chat-tokens-day']).toMatchObject({ unit: 'tokens', needed: 500 });
    expect(limits.minute).not.toHaveProperty('unit');
    // There are tokens left, but not as many as it takes.
    await eventually(async () => {
      const { consumers } = (await ask(gateway, 'GET', '/admin/now')).body;
      expect(consumers).toContainEqual(expect.objectContaining({ id, state: 'refused', window: 'tokens-minute' }));
    });
    await ask(gateway, 'POST', `/admin/keys/${id}/topups`, { window: 'tokens-minute', amount: 400 });
    const { consumers } = (await ask(gateway, 'GET', '/admin/now')).body;
    expect(consumers.map((one: { id: string }) => one.id)).not.toContain(id);
  });

  test('a key near a limit of a unit is listed with it', async () => {
    const { id, key } = await created('/admin/keys');
    await chat(key, 950);
    await eventually(async () => {
      const { keys } = (await ask(gateway, 'GET', '/admin/near')).body;
      expect(keys).toContainEqual(expect.objectContaining({ id, window: 'tokens-minute', used: 950, remaining: 50 }));
    });
  });

  test('a key of a customer near a limit is listed with its customer', async () => {
    const customer = (await created('/admin/customers')).id;
    const { id, key } = (await ask(gateway, 'POST', '/admin/keys', { customer })).body;
    await chat(key, 950);
    await eventually(async () => {
      const { keys } = (await ask(gateway, 'GET', '/admin/near')).body;
      expect(keys).toContainEqual(expect.objectContaining({ id, customer: expect.objectContaining({ id: customer }) }));
    });
  });

  test('a limit of a unit is topped up and reset by its name, of a key and of a customer', async () => {
    const { id, key } = await created('/admin/keys');
    const customer = (await created('/admin/customers')).id;
    const ofCustomer = (await ask(gateway, 'POST', '/admin/keys', { customer })).body;
    for (const one of [key, ofCustomer.key]) expect((await chat(one, 900)).status).toBe(200);
    expect(await gateway.command('keys', 'topup', id, '--window', 'tokens-minute', '--amount', '5000')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`The tokens-minute limit of ${id} is 6000; the top-up ends `),
    });
    await eventually(async () => {
      expect((await usageOf(`/admin/keys/${id}`))['tokens-minute']).toMatchObject({ limit: 6000, used: 900 });
    });
    expect((await chat(key, 700)).status).toBe(200);
    const reset = await ask(gateway, 'POST', `/admin/keys/${id}/usage/reset`, { windows: ['chat-tokens-day'] });
    expect(reset.body).toMatchObject({ windows: ['chat-tokens-day'] });
    const after = await usageOf(`/admin/keys/${id}`);
    expect([after['chat-tokens-day'].used, after['tokens-minute'].used]).toEqual([0, 1600]);
    // With or without the word that its keys know it by.
    for (const [window, limit] of [
      ['customer-tokens-month', 100_005],
      ['tokens-month', 100_010],
    ] as const) {
      const { status, body } = await ask(gateway, 'POST', `/admin/customers/${customer}/topups`, { window, amount: 5 });
      expect([status, body]).toMatchObject([200, { window, limit }]);
    }
    const shared = `/admin/customers/${customer}`;
    expect((await usageOf(shared))['tokens-month']).toMatchObject({ limit: 100_010, used: 900, unit: 'tokens' });
    await ask(gateway, 'POST', `${shared}/usage/reset`, { windows: ['customer-tokens-month'] });
    const windows = await usageOf(`/admin/keys/${ofCustomer.id}`);
    expect(windows['customer-tokens-month']).toMatchObject({ used: 0, limit: 100_010 });
    expect(windows['tokens-month']).toMatchObject({ used: 900, limit: 60_000 });
    const refused = await ask(gateway, 'POST', `/admin/keys/${id}/topups`, { window: 'rows-minute', amount: 1 });
    expect(refused).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('minute, chat-day, tokens-minute, tokens-month, chat-tokens-day.') },
    });
  });
});
