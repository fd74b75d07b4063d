import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { type Part, rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// What a service gets of Authorization, Host, its prefix and the caller, what its Location and cookies become, and further places of keys.

const ROUTES = `
  - { path: '/v1/**', methods: [GET, POST], upstream: store, rewrite: { stripPrefix: /v1, addPrefix: /in, location: true } }
  - { path: '/{shop}/shop/**', methods: [GET], upstream: store, rewrite: { stripPrefix: '/{shop}/shop' } }
  - { path: '/open/**', methods: [GET], upstream: store, auth: none, limits: { minute: 1000 } }
  - { path: '/pass/**', methods: [GET], upstream: store, authorization: pass }
  - { path: '/drop/**', methods: [GET], upstream: store, authorization: drop, auth: none, limits: { minute: 1000 } }
  - { path: '/plain/**', methods: [GET], upstream: store, websocket: true }
`;
const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

let answer: readonly string[] = [];
let upstream: Upstream;

beforeAll(async () => {
  upstream = await startUpstream((_request, response) => {
    response.writeHead(200, [...answer]).end('{}');
  });
});

async function open(more = '', upstreamSettings = {}, listen = {}) {
  const gateway = await openGateway({
    upstream: `${upstream.origin}/base`,
    upstreamSettings,
    listen,
    routes: ROUTES,
    more,
  });
  const { key, id } = await gateway.createKey('endless');
  return { gateway, key, id };
}

async function ask(gateway: TestGateway, target: string, fields: readonly string[], host = 'api.example.com') {
  const before = upstream.requests.length;
  const lines = fields.map((field) => `${field}\r\n`).join('');
  const { responses } = await rawExchange(gateway.port, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines}\r\n`);
  const seen = upstream.requests[before];
  return {
    status: responses[0]!.status,
    body: responses[0]!.body.toString(),
    header: (name: string) => responses[0]!.header(name),
    values: (name: string) => seen?.values(name) ?? null,
  };
}

describe('Authorization', () => {
  test('reaches the service where keys come from elsewhere, unless it may be a key or a token (reliability 534)', async () => {
    const { gateway, key } = await open('keys: { from: [{ header: X-API-Key }] }');
    const got = async (authorization: string, target = '/plain/a') =>
      (await ask(gateway, target, [`X-API-Key: ${key}`, `Authorization: ${authorization}`])).values('authorization');
    for (const own of [
      'Digest username="a"',
      basic('a', 'b'),
      'Bearer of.the.service',
      'AWS4-HMAC-SHA256 Credential=a',
    ])
      expect(await got(own)).toEqual([own]);
    for (const secret of [`Bearer ${key}`, basic('a', key), basic(key, '')]) expect(await got(secret)).toEqual([]);
    expect(await got('Digest a', '/drop/a')).toEqual([]);
    const twice = [`X-API-Key: ${key}`, 'Authorization: a', 'Authorization: b'];
    expect((await ask(gateway, '/plain/a', twice)).values('authorization')).toEqual([]);
  });

  test('reaches it on routes without keys and where a route says so, and nowhere else (reliability 534)', async () => {
    const { gateway, key } = await open();
    const got = async (target: string, authorization: string) =>
      (await ask(gateway, target, [`Authorization: ${authorization}`])).values('authorization');
    expect(await got('/open/a', 'Digest a')).toEqual(['Digest a']);
    expect(await got('/open/a', `Bearer ${key}`)).toEqual([]);
    expect(await got('/open/a', basic('a', key))).toEqual([]);
    expect(await got('/drop/a', 'Digest a')).toEqual([]);
    expect(await got('/pass/a', `Bearer ${key}`)).toEqual([`Bearer ${key}`]);
    expect(await got('/plain/a', `Bearer ${key}`)).toEqual([]);
  });

  test('reaches it in no form in which a key or a token is in it, and else in each (reliability 541)', async () => {
    const foreign = { base62: 'Q7mV2xT9bL4nR8kD1sW6yC3z', base64: 'q+/7mV2xT9bL4nR8kD1sW6==', uuid: randomUUID() };
    const formats =
      '[{ prefix: sk_, length: 27, characters: base62 }, { length: 24, characters: base64 }, { length: 36, characters: base64url }]';
    const { gateway, key } = await open(`keys: { from: [authorization], formats: ${formats} }`);
    const got = async (authorization: string) =>
      (await ask(gateway, '/open/a', [`Authorization: ${authorization}`])).values('authorization');
    for (const secret of [key, `sk_${foreign.base62}`, foreign.base64, foreign.uuid]) {
      for (const form of [
        ...[
          `Token ${secret}`,
          secret,
          `ApiKey ${secret}`,
          `Bearer ${secret}`,
          `Bearer ${secret},x`,
          `bearer\t${secret}`,
        ],
        ...[
          `Bearer "${secret}"`,
          `Token token="${secret}"`,
          `Token token=${secret}`,
          `ApiKey id:${secret}`,
          `x.${secret}`,
        ],
        ...[basic(secret, 'x'), basic('x', secret), basic(secret, ''), basic('', `a ${secret}`), `Basic ${secret}`],
        ...[basic('a', secret).replace(' ', '\t'), `${basic('a', secret)},x`],
      ])
        expect(await got(form), form).toEqual([]);
    }
    // The first part of this token has the length of a UUID, and the text in Basic the alphabet of base64.
    const token = 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2ln';
    for (const own of [
      ...[
        `Bearer ${token}`,
        basic('a-user', 'a-password'),
        'Digest username="a", nonce="0123456789"',
        'Bearer a.b',
        'x',
      ],
      ...[`Bearer ${foreign.base62}ab`, 'Negotiate YIIJ', basic('user', 'pässword')],
    ])
      expect(await got(own), own).toEqual([own]);
  });

  test('of one request is not that of the next on the same connection, whose route drops it', async () => {
    const { gateway } = await open();
    const before = upstream.requests.length;
    // Sent one after the other, with the same fields byte for byte, so that the gateway may use what it has made of them before.
    const parts = ['/open/a', '/drop/a', '/open/b'].flatMap((path, sent): Part[] => [
      (answers) => answers.length === sent,
      `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Digest a\r\n\r\n`,
    ]);
    await rawExchange(gateway.port, parts, { until: 3 });
    const seen = upstream.requests.slice(before).map(({ values }) => values('authorization'));
    expect(seen).toEqual([['Digest a'], [], ['Digest a']]);
  });
});

describe('a key', () => {
  const PLACES = 'keys: { from: [authorization, basic, { cookie: sid }, { subprotocol: key }] }';

  test('may be the password of Basic, a cookie or a protocol of a WebSocket, none of which the service gets (reliability 535)', async () => {
    const { gateway, key } = await open(PLACES);
    for (const field of [
      `Authorization: ${basic('git', key)}`,
      `Authorization: ${basic(key, '')}`,
      `Cookie: a=1; sid=${key}; b=2`,
      `Sec-WebSocket-Protocol: chat, key.${key}`,
    ]) {
      const got = await ask(gateway, '/plain/a', [field]);
      expect([got.status, got.values('authorization')], field).toEqual([200, []]);
      expect(got.values('cookie'), field).toEqual(field.startsWith('Cookie') ? ['a=1; b=2'] : []);
      expect(got.values('sec-websocket-protocol')).toEqual(field.startsWith('Sec') ? ['chat'] : []);
    }
    for (const fields of [
      [`Authorization: Bearer ${key}`, `Cookie: sid=${key}`],
      [`Cookie: sid=${key}; sid=${key}`],
      [`Sec-WebSocket-Protocol: key.${key}, key.a`],
      [`Authorization: ${basic('a', key)}`, `Sec-WebSocket-Protocol: key.${key}`],
    ])
      expect((await ask(gateway, '/plain/a', fields)).status, fields.join()).toBe(400);
  });

  test('in a cookie is none in a request that may be from another site (reliability 535, 589)', async () => {
    const { gateway, key } = await open(PLACES);
    const status = async (...fields: string[]) =>
      (await ask(gateway, '/plain/a', [`Cookie: sid=${key}`, ...fields])).status;
    const browser = 'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0)';
    for (const own of [
      'Sec-Fetch-Site: same-origin',
      'Sec-Fetch-Site: none',
      'Origin: https://api.example.com',
      'Referer: http://api.example.com/page?a',
      `${browser}\r\nSec-Fetch-Site: none`,
      `${browser}\r\nOrigin: http://api.example.com`,
      `${browser}\r\nReferer: http://API.example.com/`,
      'User-Agent: curl/8.5.0',
    ])
      expect(await status(own), own).toBe(200);
    for (const other of [
      browser,
      'User-Agent: Opera/9.80 (Android; Opera Mini/36.2/191.256; U; en) Presto/2.12.423 Version/12.16',
      `${browser}\r\nReferer: http://evil.example/api.example.com`,
      'Referer: http://api.example.com@evil.example/',
      'Referer: about:blank',
      'Origin: https://evil.example\r\nReferer: https://api.example.com/',
      'Sec-Fetch-Site: cross-site',
      'Origin: https://evil.example',
      'Origin: null',
      'Origin: https://api.example.com.evil.example',
      'Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site',
    ])
      expect(await status(other), other).toBe(401);
    const { body } = await ask(gateway, '/plain/a', [`Cookie: sid=${key}`, browser]);
    expect(body).toContain('`Cookie` of a request that may come from a page of another site is not read here');
  });

  test('in a protocol opens a WebSocket, and the service sees the other protocols', async () => {
    const service = await startWebSocketUpstream();
    const gateway = await openGateway({ upstream: service.origin, routes: ROUTES, more: PLACES });
    const { key } = await gateway.createKey('endless');
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/plain/a`, ['chat', `key.${key}`]);
    await once(socket, 'open');
    expect(socket.protocol).toBe('chat');
    socket.terminate();
    expect(service.asked[0]!.headers['sec-websocket-protocol']).toBe('chat');
  });

  test('is what git clones with: https://user:KEY@host', async () => {
    const folder = await temporaryFolder();
    const git = (...words: string[]) => promisify(execFile)('git', words, { cwd: folder });
    await git('init', '-q', 'work');
    await git(
      '-C',
      'work',
      '-c',
      'user.name=a',
      '-c',
      'user.email=a@b',
      'commit',
      '-q',
      '--allow-empty',
      '-m',
      'first',
    );
    await git('clone', '-q', '--bare', 'work', 'served.git');
    await git('-C', 'served.git', 'update-server-info');
    const files = await startUpstream(async (request, response) => {
      const path = new URL(request.url!, 'http://a').pathname.replace('/repo/', '');
      response.end(await readFile(join(folder, 'served.git', path)).catch(() => response.writeHead(404) && ''));
    });
    const routes = "\n  - { path: '/repo/**', methods: [GET], upstream: store }";
    const gateway = await openGateway({
      upstream: files.origin,
      routes,
      more: 'keys: { from: [authorization, basic] }',
    });
    const { key } = await gateway.createKey('endless');
    await mkdir(join(folder, 'to'));
    await git('clone', '-q', `http://user:${key}@127.0.0.1:${gateway.port}/repo/`, 'to');
    expect((await git('-C', 'to', 'log', '--format=%s')).stdout).toBe('first\n');
    const challenges = (await fetch(`${gateway.origin}/repo/a`)).headers.get('www-authenticate');
    expect(challenges).toBe('Bearer realm="tollgate", Basic realm="tollgate"');
  });
});

describe('the service gets', () => {
  test('as Host the authority of the target, a fixed name, or what the client sent', async () => {
    const host = async (upstreamSettings: Record<string, string>) => {
      const { gateway, key } = await open('', upstreamSettings);
      return (await ask(gateway, '/plain/a', [`Authorization: Bearer ${key}`])).values('host');
    };
    expect(await host({})).toEqual([new URL(upstream.origin).host]);
    expect(await host({ host: 'shop.internal:8080' })).toEqual(['shop.internal:8080']);
    expect(await host({ host: 'keep' })).toEqual(['api.example.com']);
  });

  test('the client’s Host in a WebSocket as well', async () => {
    const service = await startWebSocketUpstream();
    const gateway = await openGateway({ upstream: service.origin, routes: ROUTES, upstreamSettings: { host: 'keep' } });
    const { key } = await gateway.createKey('endless');
    await openWebSocket(gateway, key, '/plain/a');
    expect(service.asked[0]!.headers.host).toBe(`127.0.0.1:${gateway.port}`);
  });

  test('the prefix that was taken from its path, and none that a client sends (reliability 537)', async () => {
    const { gateway, key } = await open();
    const own = `Authorization: Bearer ${key}`;
    const prefix = async (target: string) =>
      (await ask(gateway, target, [own, 'X-Forwarded-Prefix: /forged'])).values('x-forwarded-prefix');
    expect(await prefix('/v1/pets')).toEqual(['/v1']);
    expect(await prefix('/v1')).toEqual(['/v1']);
    expect(await prefix('/a%20b/shop/x')).toEqual(['/a%20b/shop']);
    expect(await prefix('/plain/a')).toEqual([]);
  });

  test('the fields of Kong with `consumer: kong`, and none that a client sends (reliability 536)', async () => {
    const { gateway, key, id } = await open('headers: { consumer: kong }');
    const { stdout } = await gateway.command(
      'customers',
      'create',
      '--plan',
      'endless',
      '--name',
      'Acmé Ltd',
      '--json',
    );
    const customer = JSON.parse(stdout).id as string;
    const created = await gateway.command(
      'keys',
      'create',
      '--customer',
      customer,
      '--scope',
      'a',
      '--scope',
      'b',
      '--meta',
      'custom_id=c7',
      '--json',
    );
    const of = JSON.parse(created.stdout) as { id: string; key: string };
    const forged = [
      'X-Consumer-Username',
      'X-Credential-Identifier',
      'X-Anonymous-Consumer',
      'X-Consumer-Groups',
      'X-Authenticated-Userid',
    ];
    const fields = async (target: string, own: string) => {
      const sent = [
        ...(own === '' ? [] : [`Authorization: Bearer ${own}`]),
        ...forged.map((name) => `${name}: forged`),
      ];
      const got = await ask(gateway, target, sent);
      const names = ['X-Consumer-Id', 'X-Consumer-Custom-Id', ...forged];
      return Object.fromEntries(names.flatMap((name) => got.values(name.toLowerCase())!.map((value) => [name, value])));
    };
    expect(await fields('/plain/a', of.key)).toEqual({
      'X-Consumer-Id': customer,
      'X-Consumer-Username': 'Acm%C3%A9%20Ltd',
      'X-Consumer-Custom-Id': 'c7',
      'X-Consumer-Groups': 'a, b',
      'X-Credential-Identifier': of.id,
    });
    expect(await fields('/plain/a', key)).toEqual({ 'X-Consumer-Id': id, 'X-Credential-Identifier': id });
    expect(await fields('/open/a', '')).toEqual({ 'X-Anonymous-Consumer': 'true' });
  });
});

describe('with `rewrite.location` the client gets', () => {
  let gateway: TestGateway;
  let key: string;
  beforeAll(async () => {
    ({ gateway, key } = await open());
  });

  const got = async (name: string, value: string) => {
    answer = [name, value];
    const { header } = await ask(gateway, '/v1/pets', [`Authorization: Bearer ${key}`]);
    answer = [];
    return header(name.toLowerCase());
  };

  test.each([
    ['ORIGIN/base/in/pets/7?a=/b#c', '/v1/pets/7?a=/b#c'],
    ['/base/in/pets', '/v1/pets'],
    ['/base/in', '/v1'],
    ['//127.0.0.1/base/in/', '/v1/'],
    ['http://api.example.com/base/in/x', '/v1/x'],
    ['https://API.example.com:8443/base/in/x', '/v1/x'],
    ['pets/7', 'pets/7'],
    ['?next', '?next'],
    ['/login', '/login'],
    ['/base/inner/x', '/base/inner/x'],
    ['https://id.example.org/base/in/x', 'https://id.example.org/base/in/x'],
    ['mailto:a@b', 'mailto:a@b'],
  ])('Location %s as %s', async (sent, location) => {
    expect(await got('Location', sent.replace('ORIGIN', upstream.origin))).toBe(location);
  });

  test('no Location that leads to another host once it is rewritten (reliability 538)', async () => {
    const without = await openGateway({
      upstream: `${upstream.origin}/base`,
      routes: "\n  - { path: '/**', methods: [GET], upstream: store, rewrite: { location: true } }",
    });
    const own = await without.createKey('endless');
    for (const path of ['/base//evil.example', '/base/\\evil.example', '/base/\t/evil.example']) {
      for (const origin of [upstream.origin, '']) {
        answer = ['Location', origin + path];
        const { header } = await ask(without, '/a', [`Authorization: Bearer ${own.key}`]);
        expect(header('location'), path).toBe(origin + path);
      }
    }
    answer = ['Location', 'http://user@127.0.0.1/base/x'];
    const { header } = await ask(without, '/a', [`Authorization: Bearer ${own.key}`]);
    expect(header('location')).toBe('http://user@127.0.0.1/base/x');
    answer = [];
  });

  test.each([
    ['a=1; Domain=127.0.0.1; Path=/base/in/x; Secure', 'a=1; Path=/v1/x; Secure'],
    ['a=1; domain=.127.0.0.1', 'a=1'],
    ['a=1; Path=/base/in', 'a=1; Path=/v1'],
    ['a=1; Path=/', 'a=1; Path=/'],
    ['a="Domain=127.0.0.1"; Domain=example.com; HttpOnly', 'a="Domain=127.0.0.1"; Domain=example.com; HttpOnly'],
    ['a=1; Domain=api.example.com', 'a=1; Domain=api.example.com'],
  ])('the cookie %s as %s', async (sent, cookie) => {
    expect(await got('Set-Cookie', sent)).toBe(cookie);
  });
});
