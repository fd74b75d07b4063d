import { copyFile, rename } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { askHttp2, metricsOf, newAuthority, openHttp2, openTls } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { runCommand } from '../support/run-command.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Several certificates (`listen.tls.certificates`), and requests on a connection for a host of another one.

const API = 'api.example.com';
const SHOP = 'a.shop.example.com';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;
let ca: string;
let files: { readonly cert: string; readonly key: string };
let renewed: { readonly cert: string; readonly key: string };

beforeAll(async () => {
  upstream = await startUpstream();
  const authority = await newAuthority();
  const issue = (days: number, ...dns: string[]) => authority.issue(dns[0]!, days, { dns });
  const all = [
    await authority.issue('localhost', 20),
    await issue(10, API, 'both.example.com'),
    await issue(30, '*.shop.example.com'),
    await issue(30, 'one.shop.example.com', 'both.example.com'),
  ];
  renewed = await issue(5, API, SHOP);
  const [first, ...further] = all.map(({ cert, key }) => `{ cert: ${cert}, key: ${key} }`);
  files = all[1]!;
  ca = authority.pem;
  const tls = first!.replace(' }', `, certificates: [${further.join(', ')}] }`);
  gateway = await openGateway({ upstream: upstream.origin, listen: { tls } });
  ({ key } = await gateway.createKey('small'));
});

const checked = { checkServerIdentity: () => undefined };

async function connectedAs(servername: string) {
  const { socket } = await openTls(gateway.port, { ca, servername, ...checked });
  return socket;
}

/** The statuses of requests for these hosts on one connection. */
async function statuses(servername: string, ...hosts: string[]) {
  const line = await openTls(gateway.port, { ca, servername, ALPNProtocols: ['http/1.1'], ...checked });
  const found: number[] = [];
  for (const host of hosts) {
    const from = line.text.length;
    line.socket.write(`GET /v1/pets HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer wrong\r\n\r\n`);
    await eventually(() => expect(line.text.slice(from)).toMatch(/\r\n\r\n\{.*\}$/s));
    found.push(Number(/^HTTP\/1\.1 (\d+)/.exec(line.text.slice(from))?.[1]));
  }
  return found;
}

test.each([
  [API, API],
  ['API.example.com', API],
  [SHOP, '*.shop.example.com'],
  ['one.shop.example.com', 'one.shop.example.com'],
  ['both.example.com', API],
  ['a.b.shop.example.com', 'localhost'],
  ['shop.example.com', 'localhost'],
  ['other.test', 'localhost'],
  ['localhost', 'localhost'],
  ['', 'localhost'],
])('a client that asks for "%s" gets the certificate of %s', async (servername, name) => {
  expect((await connectedAs(servername)).getPeerCertificate().subject.CN).toBe(name);
});

describe('421 misdirected_request:', () => {
  test('a request for a host of another certificate is refused, not counted, and the connection stays (reliability 565)', async () => {
    const line = await openTls(gateway.port, { ca, servername: API, ALPNProtocols: ['http/1.1'], ...checked });
    const seen = upstream.requests.length;
    const head = (host: string) => `GET /v1/pets HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    for (let i = 1; i <= 5; i++) {
      line.socket.write(head(SHOP));
      await eventually(() => expect(line.text.split('HTTP/1.1 421 ')).toHaveLength(i + 1));
    }
    expect(line.text).toContain('"code":"misdirected_request"');
    expect(upstream.requests).toHaveLength(seen);
    line.socket.write(head(API));
    await eventually(() => expect(line.text).toMatch(/HTTP\/1\.1 200 /));
    expect(line.text).toMatch(/X-RateLimit-Remaining: 2\r\n/i);
  });

  test.each([
    [
      'another spelling of the same host (reliability 568)',
      API,
      ['API.Example.com', `${API}.`, `${API}:8443`, `${API}.:1`],
      401,
    ],
    [
      'the other host in another spelling (reliability 568)',
      API,
      ['A.SHOP.example.com', `${SHOP}.`, `${SHOP}:443`],
      421,
    ],
    ['another name of the same certificate', API, ['both.example.com'], 401],
    ['another host of a wildcard', SHOP, ['b.shop.example.com', 'one.shop.example.com'], 401],
    ['a host of the first certificate', API, ['localhost'], 421],
    ['a host of another certificate, from the first', 'localhost', [API], 421],
    [
      'an address, or a host of no certificate (reliability 569)',
      API,
      ['127.0.0.1', '[::1]:80', 'service.internal'],
      401,
    ],
    ['any host, if the client has named none (reliability 569)', '', [API, SHOP, 'localhost'], 401],
    ['any host, if no certificate has that of the client (reliability 569)', 'gateway.internal', [API, SHOP], 401],
  ])('%s', async (_, servername, hosts, status) => {
    expect(await statuses(servername, ...hosts)).toEqual(hosts.map(() => status));
  });

  test('over HTTP/2, for `:authority`, on the same connection', async () => {
    const { socket } = await openTls(gateway.port, { ca, servername: API, ALPNProtocols: ['h2'], ...checked });
    const session = await openHttp2(gateway.port, ca, socket);
    const of = async (authority: string) => {
      const headers = { ':authority': authority, authorization: 'Bearer wrong' };
      return (await askHttp2(session, { path: '/v1/pets', headers })).status;
    };
    expect([await of(API), await of(SHOP), await of(`${API}:443`), await of(SHOP)]).toEqual([401, 421, 401, 421]);
  });

  test('a new certificate is for new connections, and those that are open keep the hosts of their own (reliability 567)', async () => {
    const line = await openTls(gateway.port, { ca, servername: API, ALPNProtocols: ['http/1.1'], ...checked });
    const ask = async (host: string) => {
      const from = line.text.length;
      line.socket.write(`GET /v1/pets HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      await eventually(() => expect(line.text.slice(from)).toMatch(/\r\n\r\n\{.*\}$/s));
      return Number(/^HTTP\/1\.1 (\d+)/.exec(line.text.slice(from))?.[1]);
    };
    expect([await ask(SHOP), await ask(API)]).toEqual([421, 401]);
    for (const part of ['cert', 'key'] as const) {
      await copyFile(renewed[part], `${files[part]}.new`);
      await rename(`${files[part]}.new`, files[part]);
    }
    await eventually(
      async () => expect(await metricsOf(gateway)).toMatch(/^tollgate_tls_reloads_total\{outcome="loaded"\} 1$/m),
      {
        withinMs: 4_000,
      },
    );
    expect(await statuses(API, SHOP, API)).toEqual([401, 401]);
    expect(await statuses(SHOP, API)).toEqual([401]);
    expect(await ask(SHOP)).toBe(421);
    expect((await connectedAs('both.example.com')).getPeerCertificate().subject.CN).toBe('one.shop.example.com');
    // The first that ends: that of 5 days.
    const [, expires] = /^tollgate_tls_certificate_expiry_timestamp_seconds (\S+)$/m.exec(await metricsOf(gateway))!;
    expect(Number(expires) / 86_400 - Date.now() / 86_400_000).toBeCloseTo(5, 0);
  });
});

test('each of them is checked before a start, with the place of the one that cannot be used', async () => {
  const authority = await newAuthority();
  const [one, other] = [await authority.issue('one'), await authority.issue('other')];
  const tls = `{ cert: ${one.cert}, key: ${one.key}, certificates: [{ cert: ${one.cert}, key: ${other.key} }] }`;
  await expect(openGateway({ upstream: upstream.origin, listen: { tls } })).rejects.toThrow(
    /listen\.tls\.certificates\[0\]: .* is not the key of the certificate/,
  );
  const { code, stderr } = await runCommand(gateway.env, 'gateway', 'check');
  expect([code, stderr]).toEqual([0, expect.any(String)]);
});
