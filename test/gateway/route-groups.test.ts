import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

const PLANS = `
plans:
  pro:
    limits: { minute: 5, day: 100 }
    groups:
      search: { routes: [/v1/search/**, POST /v1/orders], limits: { minute: 2 } }
  apart:
    limits: { minute: 2 }
    groups:
      search: { routes: [/v1/search/**], limits: { minute: 4 }, instead: true }
  watched:
    limits: { minute: 5 }
    enforce: false
    groups:
      search: { routes: [/v1/search/**], limits: { minute: 1 } }
  striking:
    limits: { hour: 100 }
    groups:
      search: { routes: [/v1/search/**], limits: { minute: 3 }, instead: true }
    bans: { after: 2 }
  tools:
    limits: { minute: 20 }
    groups:
      mail: { routes: [POST /v1/mcp], when: { header: Mcp-Name, is: [send_mail, send_fax] }, limits: { minute: 2 } }
      free: { routes: [POST /v1/mcp], when: [{ header: Mcp-Name, is: [ping] }, { header: X-Own }], limits: { minute: 9 }, instead: true }
      chosen: { limits: { minute: 1 } }
  team:
    limits: { minute: 1 }
    bans: { after: 2, of: customer }
bans: off
`;

let gateway: TestGateway;

beforeAll(async () => {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  const routes = `\n  - { path: '/v1/**', methods: [GET, POST], upstream: store }`;
  gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes });
});

test('requests of a group are bounded by its limits as well, and header fields have each budget by name', async () => {
  const { key } = await gateway.createKey('pro');
  const plain = await gateway.get('/v1/pets', key);
  expect(plain.headers.get('ratelimit-policy')).toBe('"minute";q=5;w=60, "day";q=100;w=86400');
  const first = await gateway.get('/v1/search/cats', key);
  expect(first.headers.get('ratelimit-policy')).toBe(
    '"minute";q=5;w=60, "day";q=100;w=86400, "search-minute";q=2;w=60',
  );
  expect(first.headers.get('ratelimit')).toMatch(/^"minute";r=3;t=\d+, "day";r=98;t=\d+, "search-minute";r=1;t=60$/);
  expect(first.headers.get('x-ratelimit-limit')).toBe('2');
  expect(first.headers.get('x-ratelimit-remaining')).toBe('1');
  expect((await gateway.get('/v1/orders', key, { method: 'POST' })).status).toBe(200);
  const refused = await gateway.get('/v1/search/dogs', key);
  expect(refused.status).toBe(429);
  expect(await refused.json()).toMatchObject({
    code: 'rate_limit_exceeded',
    message: expect.stringContaining('The quota of plan pro, 2 per minute for search, is used up.'),
    details: { window: 'minute', name: 'search-minute', scope: 'key', limit: 2 },
  });
  // The refusal has spent nothing: two more of the five are left.
  expect((await gateway.get('/v1/orders', key)).status).toBe(200);
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  expect((await gateway.get('/v1/pets', key)).status).toBe(429);
  const usage = (await (await gateway.get('/usage', key)).json()) as { windows: object; shadow: { windows: object } };
  expect(usage.windows).toMatchObject({ minute: { used: 5 }, 'search-minute': { limit: 2, used: 2, remaining: 0 } });
});

describe('a group with `when` has the requests whose header fields fit', () => {
  const call = async (key: string, headers: Record<string, string> = {}, method = 'POST') => {
    const init = { method, headers };
    const response = await gateway.get('/v1/mcp', key, init);
    return `${response.status} ${response.headers.get('ratelimit-policy')!.replaceAll(/;q=\d+;w=\d+/g, '')}`;
  };
  const own = '"minute"';

  test('and no others', async () => {
    const { key } = await gateway.createKey('tools');
    expect(await call(key, { 'Mcp-Name': 'send_mail' })).toBe(`200 ${own}, "mail-minute"`);
    expect(await call(key, { 'mcp-name': 'send_fax' })).toBe(`200 ${own}, "mail-minute"`);
    expect(await call(key, { 'Mcp-Name': 'send_mail' })).toBe(`429 ${own}, "mail-minute"`);
    for (const name of ['search', 'SEND_MAIL', 'send_mail2'])
      expect(await call(key, { 'Mcp-Name': name })).toBe(`200 ${own}`);
    expect(await call(key)).toBe(`200 ${own}`);
    expect(await call(key, { 'Mcp-Name': 'send_mail' }, 'GET')).toBe(`200 ${own}`);
    expect(await call(key, { 'Mcp-Name': 'ping' })).toBe(`200 ${own}`);
    expect(await call(key, { 'Mcp-Name': 'ping', 'X-Own': 'yes' })).toBe('200 "free-minute"');
  });

  test('also one that has further values, which leaves no limit behind (reliability 605)', async () => {
    const { key } = await gateway.createKey('tools');
    expect(await call(key, { 'Mcp-Name': 'search, send_mail' })).toBe(`200 ${own}, "mail-minute"`);
    expect(await call(key, { 'Mcp-Name': 'ping, search', 'X-Own': 'yes' })).toBe(`200 ${own}, "free-minute"`);
  });

  test('also one with another spelling of the name of the field, which leaves no limit behind (reliability 605)', async () => {
    const { key } = await gateway.createKey('tools');
    expect(await call(key, { Mcp_Name: 'send_mail' })).toBe(`200 ${own}, "mail-minute"`);
    expect(await call(key, { 'mcp.name': 'search' })).toBe(`200 ${own}`);
    const both = { 'Mcp-Name': 'ping', Mcp_Name: 'send_mail', 'X-Own': 'yes' };
    expect(await call(key, both)).toBe(`200 ${own}, "mail-minute", "free-minute"`);
  });
});

test('with `instead`, requests of a group are counted by its limits alone', async () => {
  const { key } = await gateway.createKey('apart');
  for (let i = 0; i < 4; i++) expect((await gateway.get('/v1/search/x', key)).status).toBe(200);
  const refused = await gateway.get('/v1/search/x', key);
  expect(refused.status).toBe(429);
  expect(refused.headers.get('ratelimit-policy')).toBe('"search-minute";q=4;w=60');
  expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining')).toBe('1');
});

test('another spelling of the path does not leave the group (reliability 280)', async () => {
  const { key } = await gateway.createKey('pro');
  expect((await gateway.get('/v1/%73earch/cats', key)).status).toBe(200);
  expect((await gateway.get('/v1/search;v=1/cats', key)).status).toBe(200);
  expect((await gateway.get('/v1/searc%68/cats', key)).status).toBe(429);
});

test('another spelling of the path does not leave the limits that a group is there instead of (reliability 280)', async () => {
  const { key } = await gateway.createKey('apart');
  const spelled = await gateway.get('/v1/search;v=1/x', key);
  expect(spelled.headers.get('ratelimit-policy')).toMatch(/^"minute";.*"search-minute";q=4;w=60$/);
  // It has spent of both.
  expect((await gateway.get('/v1/search/x', key)).headers.get('ratelimit')).toMatch(/^"search-minute";r=2;/);
  const limit = Number(spelled.headers.get('x-ratelimit-limit'));
  expect((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining')).toBe(String(limit - 2));
});

test('groups of a plan that is not enforced are counted and refuse nothing', async () => {
  const { key } = await gateway.createKey('watched');
  for (let i = 0; i < 3; i++) {
    const answer = await gateway.get('/v1/search/x', key);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('ratelimit-policy')).toMatch(/^"minute";q=\d+;w=60$/);
  }
  const usage = (await (await gateway.get('/usage', key)).json()) as { windows: object; shadow: { windows: object } };
  expect(usage.shadow.windows).toMatchObject({ minute: { used: 1 }, 'search-minute': { used: 1 } });
});

test('a ban is reported with the limit that led to it, also where the request does not charge that limit', async () => {
  const { key } = await gateway.createKey('striking');
  for (let i = 0; i < 5; i++) await gateway.get('/v1/search/x', key);
  const elsewhere = await gateway.get('/v1/pets', key);
  expect(await elsewhere.json()).toMatchObject({
    code: 'api_key_banned',
    message: expect.stringMatching(/^This API key is banned/),
  });
  expect(elsewhere.headers.get('x-ratelimit-limit')).toBe('3');
  expect(elsewhere.headers.get('x-ratelimit-remaining')).toBe('0');
  // By the plan's own limit, where a group is there instead of it.
  const other = (await gateway.createKey('striking')).key;
  for (let i = 0; i < 102; i++) await gateway.get('/v1/pets', other);
  const inGroup = await gateway.get('/v1/search/x', other);
  expect(await inGroup.json()).toMatchObject({ code: 'api_key_banned' });
  expect(inGroup.headers.get('x-ratelimit-limit')).toBe('100');
});

test('a ban of a customer says that it bans all keys of the customer', async () => {
  const json = async (...words: string[]) => JSON.parse((await gateway.command(...words, '--json')).stdout);
  const { id } = await json('customers', 'create', '--plan', 'team');
  const [one, other] = [await json('keys', 'create', '--customer', id), await json('keys', 'create', '--customer', id)];
  for (let i = 0; i < 3; i++) await gateway.get('/v1/pets', one.key);
  const banned = await gateway.get('/v1/pets', other.key);
  expect(await banned.json()).toMatchObject({
    message: expect.stringMatching(
      /^All API keys of this customer are banned because requests with some of them kept coming/,
    ),
    details: { ban: 1, scope: 'customer' },
  });
  const sentence = `The ban of ${other.id} is that of its customer ${id}, with all its keys. Give the id of the customer to lift it.\n`;
  await eventually(async () => {
    const [head, ...rows] = (await gateway.command('now')).stdout.split('\n');
    expect(head).toMatch(/\tCUSTOMER$/);
    expect(rows.find((row) => row.startsWith(other.id))).toContain(`\t${id}`);
  });
  // The command reads what the gateway has written to the disk.
  await eventually(async () => expect((await gateway.command('bans', 'lift', other.id)).stderr).toBe(sentence));
});
