import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { damageRecord } from '../support/damaged-record.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const ROUTES = `
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: /v1/internal, methods: [GET], upstream: store, addresses: [10.0.0.0/8, '2001:db8::/32'] }
  - { path: /v1/open, methods: [GET], upstream: store, auth: none, limits: { minute: 100 }, addresses: [10.1.2.3] }
  - { path: /v1/all4, methods: [GET], upstream: store, auth: none, limits: { minute: 100 }, addresses: [0.0.0.0/0] }
  - { path: /v1/all6, methods: [GET], upstream: store, auth: none, limits: { minute: 100 }, addresses: ['::/0'] }
`;

let gateway: TestGateway;
let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: ROUTES,
    // The test is a trusted proxy, so that it can be any client.
    listen: { trustedProxies: '[127.0.0.1, 203.0.113.0/24]' },
  });
});

/** A request of a client whose chain of proxies is `forwarded`, the last of which is the test. */
const from = (forwarded: string, path: string, key?: string) =>
  gateway.get(path, key, { headers: { 'X-Forwarded-For': forwarded } });
const statusFrom = async (forwarded: string, path: string, key?: string) => (await from(forwarded, path, key)).status;

describe('403 address_not_allowed', () => {
  test('is not counted, costs a failed attempt of the address, names no address, and the log names both', async () => {
    const { id, key } = await gateway.createKey('gentle', '--address', '192.0.2.7', '--address', '2001:db8:7::/48');
    const seen = upstream.requests.length;
    const answer = await from('198.51.100.1', '/v1/pets', key);
    expect(answer.status).toBe(403);
    const body = await answer.text();
    expect(JSON.parse(body)).toEqual({ code: 'address_not_allowed', message: expect.any(String), status: 403 });
    expect(body + JSON.stringify([...answer.headers])).not.toMatch(/192\.0\.2|2001:db8|198\.51/);
    expect(answer.headers.get('ratelimit-policy')).toBe('"failed-authentication";q=30;w=60');
    expect(answer.headers.get('x-ratelimit-remaining')).toBe('29');
    const [line] = await gateway.process.until(/^.*"address_not_allowed".*$/m);
    expect(JSON.parse(line)).toMatchObject({
      consumerId: id,
      clientAddress: '198.51.100.1',
      judgement: 'unauthenticated',
      cause: `${id} may not be used from 198.51.100.1`,
    });
    for (let i = 0; i < 29; i++) expect(await statusFrom('198.51.100.1', '/v1/pets', key)).toBe(403);
    expect(await (await from('198.51.100.1', '/v1/pets', key)).json()).toMatchObject({
      code: 'too_many_failed_attempts',
    });
    expect(upstream.requests).toHaveLength(seen);
    // Nothing was counted, and the owner of the key is not in the way of the thief.
    const allowed = await from('192.0.2.7', '/v1/pets', key);
    expect([allowed.status, allowed.headers.get('x-ratelimit-remaining')]).toEqual([200, '2']);
    expect(await statusFrom('2001:db8:7:ff::1', '/v1/pets', key)).toBe(200);
    // What a key has used is for those who may use it.
    expect(await statusFrom('198.51.100.2', '/usage', key)).toBe(403);
    expect(await statusFrom('192.0.2.7', '/usage', key)).toBe(200);
  });

  test('is the answer too if the record of the key has a form of addresses that is not known (reliability 449)', async () => {
    const { id, key } = await gateway.createKey('gentle', '--address', '192.0.2.9', '--address', '192.0.2.10');
    await damageRecord(gateway.env, id, (record) => record.replace('"192.0.2.9"', '"a form of a later version"'));
    expect(await statusFrom('192.0.2.9', '/v1/pets', key)).toBe(403);
    expect(await statusFrom('192.0.2.10', '/v1/pets', key)).toBe(200);
  });

  test('a route may be called from its addresses alone, with a key and without', async () => {
    const { key } = await gateway.createKey('free');
    expect(await statusFrom('10.9.9.9', '/v1/internal', key)).toBe(200);
    expect(await statusFrom('2001:db8:1::1', '/v1/internal', key)).toBe(200);
    expect(await statusFrom('192.0.2.1', '/v1/internal', key)).toBe(403);
    // Not even whether its key is right: the address is refused first.
    expect(await (await from('192.0.2.2', '/v1/internal')).json()).toMatchObject({ code: 'address_not_allowed' });
    expect(await statusFrom('10.9.9.9', '/v1/internal')).toBe(401);
    expect([await statusFrom('10.1.2.3', '/v1/open'), await statusFrom('10.1.2.4', '/v1/open')]).toEqual([200, 403]);
  });

  test('a change of the addresses of a key is in force within a second', async () => {
    const { id, key } = await gateway.createKey('free', '--address', '192.0.2.20');
    expect(await statusFrom('192.0.2.21', '/v1/pets', key)).toBe(403);
    await gateway.command('keys', 'update', id, '--address', '192.0.2.20/31');
    await eventually(async () => expect(await statusFrom('192.0.2.20', '/v1/pets', key)).toBe(200));
    await eventually(async () => expect(await statusFrom('192.0.2.21', '/v1/pets', key)).toBe(200));
    await gateway.command('keys', 'update', id, '--address', '192.0.2.20');
    await eventually(async () => expect(await statusFrom('192.0.2.21', '/v1/pets', key)).toBe(403));
  });
});

describe('an address has one meaning, however it is written (reliability 269)', () => {
  let key: string;
  beforeAll(async () => {
    const addresses = ['192.0.2.0/24', 'fe80::/10', '2001:db8:a::1'];
    ({ key } = await gateway.createKey('endless', ...addresses.flatMap((one) => ['--address', one])));
  });

  test.each([
    ['IPv4-mapped, dotted', '::ffff:192.0.2.1', 200],
    ['IPv4-mapped, in hexadecimal', '::ffff:c000:201', 200],
    ['IPv4-mapped of another network', '::ffff:192.0.3.1', 403],
    ['IPv4-compatible', '::192.0.2.1', 403],
    ['IPv4-translated (RFC 6052)', '64:ff9b::192.0.2.1', 403],
    ['6to4', '2002:c000:201::1', 403],
    ['a zone id', 'fe80::1%eth0', 200],
    ['a zone id after another network', '2001:db8:b::1%fe80::1', 403],
    ['in capitals and with all zeros', '2001:0DB8:000A:0:0:0:0:0001', 200],
    ['in brackets with a port', '[2001:db8:a::1]:443', 200],
    ['a port', '192.0.2.1:8080', 200],
    // These are no addresses, so the client is the proxy that sends them.
    ['an octal form', '0300.0.2.1', 403],
    ['leading zeros', '192.000.002.001', 403],
    ['a whole number', '3221225985', 403],
    ['two parts', '192.513', 403],
    ['hexadecimal parts', '0xc0.0.2.1', 403],
  ])('%s', async (_name, client, status) => {
    expect(await statusFrom(client, '/v1/pets', key)).toBe(status);
  });

  test('an IPv6 network of all addresses has no IPv4 client, and the other way round', async () => {
    expect([await statusFrom('192.0.2.1', '/v1/all4'), await statusFrom('2001:db8::1', '/v1/all4')]).toEqual([
      200, 403,
    ]);
    expect([await statusFrom('2001:db8:5::1', '/v1/all6'), await statusFrom('198.51.100.77', '/v1/all6')]).toEqual([
      200, 403,
    ]);
    expect(await statusFrom('::ffff:198.51.100.78', '/v1/all6')).toBe(403);
  });
});

describe('a client cannot choose its address (reliability 270)', () => {
  let key: string;
  beforeAll(async () => {
    ({ key } = await gateway.createKey('endless', '--address', '192.0.2.7'));
  });

  test.each([
    ['a spoofed left-most entry', '192.0.2.7, 198.51.100.30', 403],
    ['several of them', '192.0.2.7, 192.0.2.7, 198.51.100.31', 403],
    ['behind two trusted proxies', '192.0.2.7, 198.51.100.32, 203.0.113.5', 403],
    ['an entry that is no address', '192.0.2.7, x, 198.51.100.33', 403],
    ['the allowed client behind two trusted proxies', '198.51.100.34, 192.0.2.7, 203.0.113.5', 200],
  ])('%s', async (_name, forwarded, status) => {
    expect(await statusFrom(forwarded, '/v1/pets', key)).toBe(status);
  });

  test('other fields that name a client are not read, nor X-Forwarded-For of a peer that is no trusted proxy', async () => {
    const headers = { Forwarded: 'for=192.0.2.7', 'X-Real-IP': '192.0.2.7', 'True-Client-IP': '192.0.2.7' };
    const forwarded = { ...headers, 'X-Forwarded-For': '198.51.100.35' };
    expect((await gateway.get('/v1/pets', key, { headers: forwarded })).status).toBe(403);
    const open = await openGateway({ upstream: upstream.origin, routes: ROUTES });
    const { key: own } = await open.createKey('free', '--address', '192.0.2.7');
    expect((await open.get('/v1/pets', own, { headers: { ...headers, 'X-Forwarded-For': '192.0.2.7' } })).status).toBe(
      403,
    );
    const { key: local } = await open.createKey('free', '--address', '127.0.0.1');
    expect((await open.get('/v1/pets', local, { headers })).status).toBe(200);
  });

  test('with the PROXY protocol the address is that of its header', async () => {
    const behind = await openGateway({
      upstream: upstream.origin,
      routes: ROUTES,
      listen: { trustedProxies: '[127.0.0.1]', proxyProtocol: 'true' },
    });
    const { key: own } = await behind.createKey('free', '--address', '192.0.2.7');
    for (const [client, status] of [
      ['192.0.2.7', 200],
      ['198.51.100.40', 403],
    ] as const) {
      const { responses } = await rawExchange(
        behind.port,
        `PROXY TCP4 ${client} 192.0.2.1 1 2\r\nGET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nAuthorization: Bearer ${own}\r\n\r\n`,
      );
      expect([client, responses[0]?.status]).toEqual([client, status]);
    }
  });
});
