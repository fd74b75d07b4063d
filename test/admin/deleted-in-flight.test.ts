import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { redisCommand } from '../support/redis.ts';
import { startUpstream } from '../support/upstream.ts';
import { ask, openWithAdmin, STORES } from './operator.ts';

const PLANS = `
plans:
  model:
    limits: { minute: 100 }
    units: { tokens: { minute: 1000, month: 100000 } }
    groups: { chat: { routes: [/v1/**], limits: { minute: 50 }, units: { tokens: { hour: 5000 } } } }
  watched: { limits: { minute: 100 }, units: { tokens: { minute: 1000 } }, enforce: false }
bans: off
`;
const routes = (reserve: number) => `
  - path: /v1/chat
    methods: [GET]
    upstream: store
    cost: { tokens: { reserve: ${reserve}, from: { header: X-Tokens } } }
`;

/** What a store has of an id and of what belongs to it: accounts and histories. */
async function leftOf(id: string, env: Readonly<Record<string, string>>): Promise<readonly string[]> {
  if (env.REDIS_URL !== undefined) {
    const names = (await redisCommand(env.REDIS_URL, 'KEYS', '*')) as string[];
    return names.filter((name) => /^tg:[ah]:/.test(name) && name.includes(id));
  }
  const db = new DatabaseSync(join(env.TOLLGATE_DATA!, 'tollgate.db'), { readOnly: true });
  const rows = ['accounts', 'histories'].flatMap((table) => db.prepare(`SELECT consumer_id AS id FROM ${table}`).all());
  db.close();
  return rows.map((row) => String(row.id)).filter((name) => name.includes(id));
}

type Removal = (gateway: TestGateway, id: string, customer: string) => Promise<void>;

const byTheApi: Removal = async (gateway, id) => {
  await ask(gateway, 'DELETE', `/admin/keys/${id}`);
  expect((await ask(gateway, 'POST', `/admin/keys/${id}/delete`)).status).toBe(200);
};
const done = async (gateway: TestGateway, ...words: string[]) =>
  expect(await gateway.command(...words)).toMatchObject({ code: 0 });
const byCommands: Removal = async (gateway, id, customer) => {
  const other = await gateway.createKey('model');
  if (customer === '') await done(gateway, 'keys', 'revoke', id, '--yes');
  else await done(gateway, 'customers', 'delete', customer, '--keys', 'revoke', '--yes');
  await done(gateway, 'keys', 'delete', id, '--yes');
  // The gateway on the embedded store learns of changes in their order, and of a top-up in no other way.
  await done(gateway, 'keys', 'topup', other.id, '--window', 'minute', '--amount', '5');
  await eventually(async () => {
    const { windows } = (await (await gateway.get('/usage', other.key)).json()) as { windows: Record<string, unknown> };
    expect(windows.minute).toMatchObject({ limit: 105 });
  });
};

/** A gateway with a request that has come to the service, which answers once the test says what that cost. */
async function withRequest(store: string, plan: string, reserve: number, isOfCustomer = false) {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => void held.push(response));
  const setup = { upstream: upstream.origin, plans: PLANS, routes: routes(reserve) };
  const gateway = await openWithAdmin(await STORES[store]!(), setup);
  const customer = isOfCustomer ? (await ask(gateway, 'POST', '/admin/customers', { plan })).body.id : '';
  const body = isOfCustomer ? { customer } : { plan };
  const { id, key } = (await ask(gateway, 'POST', '/admin/keys', body)).body;
  const answer = gateway.get('/v1/chat', key);
  await eventually(() => expect(held).toHaveLength(1));
  /** The request ends, and the gateway settles what it owes. */
  const end = async (cost: number) => {
    held[0]!.setHeader('X-Tokens', cost).end('{}');
    expect((await answer).status).toBe(200);
    await gateway.process.stop();
  };
  return { gateway, id, customer, end };
}

describe.each(Object.keys(STORES))(
  'on %s, once a request has ended whose key was deleted meanwhile (reliability 425),',
  (store) => {
    test.each<[string, string, number, number, Removal, boolean]>([
      ['that cost more than its reserve', 'model', 10, 700, byTheApi, false],
      ['that cost less than its reserve', 'model', 300, 20, byTheApi, false],
      ['without a reserve', 'model', 0, 700, byTheApi, false],
      ['under a plan that is only watched', 'watched', 10, 700, byTheApi, false],
      ['of a key that commands have deleted', 'model', 10, 700, byCommands, false],
      ['of a key that commands have deleted with its customer', 'model', 10, 700, byCommands, true],
    ])('nothing is left of one %s', async (_case, plan, reserve, cost, remove, isOfCustomer) => {
      const { gateway, id, customer, end } = await withRequest(store, plan, reserve, isOfCustomer);
      await remove(gateway, id, customer);
      await end(cost);
      expect(await leftOf(id, gateway.env)).toEqual([]);
      if (isOfCustomer) expect(await leftOf(customer, gateway.env)).toEqual([]);
    });

    test('its customer has paid for it', async () => {
      const { gateway, id, customer, end } = await withRequest(store, 'model', 10, true);
      await byTheApi(gateway, id, customer);
      await end(700);
      const usage = await gateway.command('usage', customer, '--json');
      expect(JSON.parse(usage.stdout).windows['tokens-month'].used).toBe(700);
      expect(await leftOf(id, gateway.env)).toEqual([]);
    });
  },
);
