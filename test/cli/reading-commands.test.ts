import { beforeAll, describe, expect, test } from 'vitest';
import { ask, STORES, startWithAdmin, TOKEN } from '../admin/operator.ts';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { runCommand } from '../support/run-command.ts';

// A command that reads prints with `--json` the output of its operation, as the admin API gives it, wherever it is done.

const ROUTES = `
  - { path: /v1/pets, methods: [GET], upstream: store, deprecated: { since: 2020-01-01, sunset: 2090-01-01 } }
  - { path: /v1/pets, methods: [POST], upstream: store, deprecated: { since: 2020-01-01, sunset: 2090-01-01 } }
`;
const TODAY = () => `${new Date().toISOString().slice(0, 10)}T00:00:00Z`;

describe.each(Object.keys(STORES))('on %s', (store) => {
  let gateway: TestGateway;
  /** What stands for a word of these tests. */
  const known: Record<string, string> = {};
  beforeAll(async () => {
    gateway = await startWithAdmin(await STORES[store]!(), { routes: ROUTES, more: 'usage: { history: on }' });
    const make = async (path: string, body: object) => (await ask(gateway, 'POST', `/admin${path}`, body)).body;
    const customer = await make('/customers', { plan: 'small', name: 'Acme' });
    const key = await make('/keys', { plan: 'small', name: 'shop' });
    const ofCustomer = await make('/keys', { customer: customer.id });
    Object.assign(known, { KEY: key.id, CUSTOMER: customer.id });
    for (const secret of [key.key, ofCustomer.key]) await gateway.get('/v1/pets', secret);
    for (let i = 0; i < 14; i++) {
      await gateway.get('/v1/pets', key.key, { headers: { 'X-Request-Id': i === 3 ? 'refused-1' : `sent-${i}` } });
    }
    await eventually(async () => {
      const { body } = await ask(gateway, 'GET', '/admin/plans/history');
      known.VERSION = body.versions[0].version;
      expect((await ask(gateway, 'GET', '/admin/now')).body.consumers).not.toEqual([]);
      expect((await ask(gateway, 'GET', '/admin/deprecations')).body.deprecations[0].callers).toHaveLength(2);
    });
  });

  test.each([
    ['keys list', '/keys'],
    ['keys list shop --plan small', '/keys?q=shop&plan=small'],
    ['keys list --pepper current --form own', '/keys?pepper=current&form=own'],
    ['keys secrets', '/secrets'],
    ['keys show KEY', '/keys/KEY'],
    ['customers list', '/customers'],
    ['customers show CUSTOMER', '/customers/CUSTOMER'],
    ['usage KEY', '/keys/KEY/usage'],
    ['usage CUSTOMER', '/customers/CUSTOMER/usage'],
    ['usage KEY --days 1', '/keys/KEY/history?step=day&from=TODAY'],
    ['usage CUSTOMER --days 1', '/customers/CUSTOMER/history?step=day&from=TODAY'],
    ['bans list', '/bans'],
    ['now', '/now'],
    ['deprecations', '/deprecations'],
    ['traffic', '/traffic/history'],
    ['traffic --by plan --range 24h --compare --top 3', '/traffic/history?by=plan&range=24h&compare=true&top=3'],
    ['audit', '/audit'],
    ['plans history', '/plans/history'],
    ['plans show', '/plans'],
    ['plans show VERSION', '/plans/history/VERSION'],
  ])('`%s --json` is GET /admin%s, on its store and at a gateway', async (words, path) => {
    const meant = (text: string) => text.replace(/[A-Z]{3,}/g, (word) => (word === 'TODAY' ? TODAY() : known[word]!));
    const there = { TOLLGATE_GATEWAY: `http://127.0.0.1:${gateway.adminPort}`, TOLLGATE_TOKEN: TOKEN };
    for (const env of [{ ...gateway.env, ADMIN_TOKEN: undefined }, there]) {
      const { body } = await ask(gateway, 'GET', `/admin${meant(path)}`);
      const { code, stdout, stderr } = await runCommand(env, ...meant(words).split(' '), '--json');
      expect({ code, stderr, output: JSON.parse(stdout) }).toEqual({ code: 0, stderr: '', output: body });
      const text = await runCommand(env, ...meant(words).split(' '));
      expect([text.code, text.stderr]).toEqual([0, '']);
    }
  });

  test('`explain` says what Explain in the console says, and of an unknown id what is known', async () => {
    const there = { TOLLGATE_GATEWAY: `http://127.0.0.1:${gateway.adminPort}`, TOLLGATE_TOKEN: TOKEN };
    // The gateway that owns the embedded store is asked by its socket; of those on a Redis, one has to be named.
    const own = { ...gateway.env, ADMIN_TOKEN: undefined };
    const { body } = await ask(gateway, 'GET', '/admin/refusals/refused-1');
    for (const env of store === 'Redis' ? [there] : [there, own]) {
      const found = await runCommand(env, 'explain', 'refused-1', '--json');
      expect([found.code, JSON.parse(found.stdout)]).toEqual([0, body]);
      const text = await runCommand(env, 'explain', 'refused-1');
      const [{ sentence, advice, limits }] = body.refusals;
      expect([text.code, text.stderr]).toEqual([0, '']);
      expect(text.stdout.replaceAll(/\s+/g, ' ')).toContain(`${sentence} ${advice} The request came`);
      for (const { used, limit, remaining } of limits) {
        expect(text.stdout).toContain(`${used} of ${limit} used, ${remaining} left`);
      }
      const unknown = await runCommand(env, 'explain', 'never-sent');
      expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('No gateway remembers')]);
    }
    if (store !== 'Redis') return;
    // Without a gateway it reads what the store keeps: the first refusal of the window.
    const stored = await eventually(async () => {
      const found = await runCommand(own, 'explain', 'sent-2', '--json');
      expect([found.code, found.stderr]).toEqual([0, '']);
      return JSON.parse(found.stdout).refusals;
    });
    const { requestId, sentence, limits, consumerId, name } = (await ask(gateway, 'GET', '/admin/refusals/sent-2')).body
      .refusals[0];
    expect(stored).toMatchObject([{ requestId, sentence, limits, consumerId, name }]);
    const alone = await runCommand(own, 'explain', 'never-sent');
    expect([alone.code, alone.stderr]).toEqual([
      1,
      expect.stringContaining('name the admin port of one with --gateway'),
    ]);
  });

  test('a secret in place of an id or a text reaches no URL of a gateway', async () => {
    const secret = `tg_live_${'a'.repeat(38)}`;
    const nowhere = { TOLLGATE_GATEWAY: 'http://127.0.0.1:1', TOLLGATE_TOKEN: TOKEN };
    for (const words of [
      ['keys', 'list', secret],
      ['keys', 'show', secret],
      ['usage', secret],
    ]) {
      const { code, stderr } = await runCommand(nowhere, ...words);
      // Nothing listens there: a request would say so.
      expect([code > 0, stderr]).toEqual([true, expect.stringMatching(/`tollgate keys (?:find|list)`/)]);
      expect(stderr).not.toContain(secret);
    }
  });
});
