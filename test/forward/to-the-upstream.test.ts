import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { FieldNames } from '../../src/http1/field-names.ts';
import { type ForwardedAs, requestFields } from '../../src/http1/forwarded-fields.ts';
import { askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// What reaches the service behind the gateway (contract section 5; RFC 9110 section 7.6).

let gateway: TestGateway;
let upstream: Upstream;
let id: string;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ id, key } = await gateway.createKey('free'));
});

/** Sends one request and gives what the upstream received of it. */
const forwarded = async (fields: string, line = 'GET /v1/pets HTTP/1.1', body = '') => {
  const seen = upstream.requests.length;
  const bytes = `${line}\r\nHost: Api.Example.com:81\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n${body}`;
  const { responses } = await rawExchange(gateway.port, bytes);
  expect(responses.map(({ status }) => status)).toEqual([200]);
  expect(upstream.requests).toHaveLength(seen + 1);
  return upstream.requests.at(-1)!;
};

const namesOf = ({ rawHeaders }: { rawHeaders: readonly string[] }) =>
  rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());

test('the upstream learns who calls, from where, through whom, and nothing of the credential (reliability 38, 59)', async () => {
  const request = await forwarded('X-Request-Id: abc\r\nAccept: application/json\r\nX-Own: 1\r\n');
  expect(request.values('x-consumer-id')).toEqual([id]);
  expect(request.values('x-consumer-plan')).toEqual(['free']);
  expect(request.values('x-request-id')).toEqual(['abc']);
  expect(request.values('x-forwarded-for')).toEqual(['127.0.0.1']);
  expect(request.values('x-forwarded-proto')).toEqual(['http']);
  expect(request.values('x-forwarded-host')).toEqual(['Api.Example.com:81']);
  expect(request.values('via')).toEqual([expect.stringMatching(/^1\.1 tollgate-[0-9a-f]{10}$/)]);
  expect(request.values('host')).toEqual([`127.0.0.1:${upstream.port}`]);
  expect(request.values('accept')).toEqual(['application/json']);
  expect(request.values('x-own')).toEqual(['1']);
  expect(request.values('authorization')).toEqual([]);
  expect(request.rawHeaders.join('\n')).not.toContain(key);
});

test('behind a trusted proxy X-Forwarded-For ends with the proxy, as each hop adds whom it heard (reliability 31)', async () => {
  const behind = await openGateway({ upstream: upstream.origin, listen: { trustedProxies: '[127.0.0.1]' } });
  const { key: own } = await behind.createKey('free');
  const told = async (fields: string) => {
    const line = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n${fields}\r\n`;
    await rawExchange(behind.port, line);
    return upstream.requests.at(-1)!.values('x-forwarded-for');
  };
  expect(await told('X-Forwarded-For: 203.0.113.7\r\n')).toEqual(['203.0.113.7, 127.0.0.1']);
  expect(await told('X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For: 10.0.0.9\r\n')).toEqual([
    '203.0.113.7, 10.0.0.9, 127.0.0.1',
  ]);
  expect(await told('')).toEqual(['127.0.0.1']);
  expect(await told('X-Forwarded-For:\r\n')).toEqual(['127.0.0.1']);
});

test('every field of the gateway’s own is there once', async () => {
  const names = namesOf(await forwarded(''));
  expect(names.length).toBe(new Set(names).size);
});

test('fields of one hop are not passed on, nor those that Connection lists (reliability 30, 88)', async () => {
  const request = await forwarded(
    [
      'Connection: keep-alive, X-Secret, x-other, Upgrade, TE',
      'X-Secret: 1',
      'X-OTHER: 1',
      'Keep-Alive: timeout=5',
      'Proxy-Connection: keep-alive',
      'Proxy-Authorization: Basic eA==',
      'Proxy-Authenticate: Basic',
      'TE: trailers',
      'Trailer: X-T',
      'Upgrade: websocket',
      'HTTP2-Settings: AAMAAABk',
      'X-Kept: 1',
      '',
    ].join('\r\n'),
  );
  const names = namesOf(request);
  expect(names).toContain('x-kept');
  for (const gone of [
    ...['x-secret', 'x-other', 'keep-alive', 'proxy-connection', 'proxy-authorization', 'proxy-authenticate'],
    ...['te', 'trailer', 'upgrade', 'http2-settings', 'transfer-encoding'],
  ]) {
    expect(names).not.toContain(gone);
  }
  // The connection to the upstream has its own.
  expect(request.values('connection').join()).not.toMatch(/x-secret|upgrade|te/i);
});

// Attack: the client writes the fields by which the upstream tells callers apart.
test.each([
  ['as they are', 'X-Consumer-Id: root\r\nX-Consumer-Plan: enterprise\r\n'],
  ['in another case, twice', 'x-CONSUMER-id: root\r\nX-Consumer-Id: root\r\nx-consumer-plan: enterprise\r\n'],
  ['with underscores', 'X_Consumer_Id: root\r\nX-Consumer_Plan: enterprise\r\n'],
  ['with other punctuation', "X.Consumer.Id: root\r\nx~consumer'plan: enterprise\r\nX-Forwarded.For: root\r\n"],
  ['under a name that may come one day', 'X-Consumer-Role: admin\r\n'],
  ['and have ours removed by Connection', 'Connection: X-Consumer-Id, X-Consumer-Plan, Via, X-Forwarded-For\r\n'],
])('identity fields of the client’s (%s) are gone, and the gateway’s own are there', async (_how, fields) => {
  const request = await forwarded(fields);
  expect(request.values('x-consumer-id')).toEqual([id]);
  expect(request.values('x-consumer-plan')).toEqual(['free']);
  expect(request.values('via')).toHaveLength(1);
  expect(request.values('x-forwarded-for')).toEqual(['127.0.0.1']);
  expect(request.rawHeaders.join('\n')).not.toMatch(/root|enterprise|admin/);
});

// Attack: lighttpd and PHP read each of these names as X-Consumer-Id, or as another one that the gateway alone may say.
describe('a field whose name has more than letters, digits and dashes', () => {
  const PUNCTUATION = "!#$%&'*+.^_`|~";

  test('is gone, whatever the character (reliability 29, 152)', async () => {
    const lines = [...PUNCTUATION].map((mark) => `X${mark}A: 1\r\n${mark}: 1\r\nAccept-Language${mark}: de\r\n`);
    const names = namesOf(await forwarded(`${lines.join('')}X-B2: 1\r\n`));
    expect(names.filter((name) => !/^[a-z0-9-]+$/.test(name))).toEqual([]);
    expect(names).toContain('x-b2');
    expect(names).not.toContain('accept-language');
  });

  test('is gone too where a request has a body, comes over HTTP/2 or from a trusted proxy', async () => {
    const names = namesOf(await forwarded('X.A: 1\r\nContent-Length: 2\r\n', 'POST /v1/pets HTTP/1.1', '{}'));
    expect(names).not.toContain('x.a');
    const listen = { trustedProxies: '[127.0.0.0/8]' };
    const { gateway: encrypted, ca } = await openEncrypted({ upstream: upstream.origin, listen });
    const own = await encrypted.createKey('free');
    const headers = {
      ...{ authorization: `Bearer ${own.key}`, 'x.consumer.id': 'root', 'x-b': '1' },
      ...{ 'x-forwarded-client.cert': 'root', 'x-forwarded-client-cert': '1' },
    };
    const session = await openHttp2(encrypted.port, ca);
    expect((await askHttp2(session, { path: '/v1/pets', headers })).status).toBe(200);
    const sent = upstream.requests.at(-1)!;
    expect([sent.values('x-b'), sent.values('x-forwarded-client-cert')]).toEqual([['1'], ['1']]);
    expect(sent.values('x-consumer-id')).toEqual([own.id]);
    expect(sent.rawHeaders).not.toContain('root');
  });

  test('is forwarded where the settings except it, in whatever case, and not where Connection lists it', async () => {
    const more = 'headers: { allow: [X.Custom, my_field] }';
    const lenient = await openGateway({ upstream: upstream.origin, more });
    const { key: own } = await lenient.createKey('free');
    const sent = async (fields: string) => {
      const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n${fields}\r\n`;
      expect((await rawExchange(lenient.port, bytes)).responses[0]?.status).toBe(200);
      return upstream.requests.at(-1)!;
    };
    const excepted = await sent('x.custom: 1\r\nMy_Field: 2\r\nX_Custom: 3\r\nX.Consumer.Id: 4\r\n');
    expect(['x.custom', 'my_field', 'x_custom', 'x.consumer.id'].map((name) => excepted.values(name))).toEqual([
      ...[['1'], ['2']],
      ...[[], []],
    ]);
    expect((await sent('Connection: X.Custom\r\nX.Custom: 1\r\n')).values('x.custom')).toEqual([]);
  });

  test('never passes for one that the gateway writes or removes, whatever the settings except', () => {
    const name = fc.oneof(
      fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/),
      fc
        .tuple(
          fc.constantFrom(
            ...[
              'X-Consumer-Id',
              'X-Consumer-Role',
              'X-Forwarded-For',
              'X-Forwarded-Port',
              'X-Real-IP',
              'Content-Length',
            ],
            ...['Transfer-Encoding', 'X-Request-Id', 'Proxy-Authorization', 'Forwarded', 'traceparent', 'Keep-Alive'],
          ),
          fc.array(fc.constantFrom('-', '-', ...PUNCTUATION), { minLength: 2, maxLength: 2 }),
          fc.constantFrom('', '', '', '.', '_'),
        )
        .map(([words, marks, end]) => words.replace(/-/g, () => marks.shift()!) + end),
    );
    const settings = (allow: readonly string[]) =>
      `${JSON.stringify({
        headers: { allow },
        upstreams: { store: { targets: ['http://127.0.0.1:9000'] } },
        routes: [{ path: '/v1/pets', methods: ['GET'], upstream: 'store' }],
      })}\n`;
    const folded = (text: string) => text.toUpperCase().replace(/[^0-9A-Z]/g, '_');
    const own =
      /^(X_CONSUMER_.*|X_FORWARDED_.*|FORWARDED|X_REAL_IP|X_REQUEST_ID|VIA|HOST|AUTHORIZATION|CONTENT_LENGTH|TRANSFER_ENCODING|CONNECTION|KEEP_ALIVE|TE|TRAILER|UPGRADE|EXPECT|PROXY_(CONNECTION|AUTHORIZATION)|TRACEPARENT|TRACESTATE)$/;
    const from: Omit<ForwardedAs, 'allowedNames'> = {
      keyPlaces: null,
      ...{ consumerId: null, plan: null, asKong: null, passesAuthorization: false, prefix: null },
      peer: '127.0.0.1',
      scheme: 'http',
      host: null,
      trustedPeer: false,
      isTraced: true,
      via: 'tollgate',
      httpVersion: '1.1',
    };
    let excepted = 0;
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 4 }), fc.array(name, { maxLength: 4 }), (sent, others) => {
        for (const one of sent) {
          const allow = [one, ...others].filter(
            (it) => !('faults' in parseGatewayFile(settings([it]), 'gateway.yaml')),
          );
          if (allow.includes(one)) excepted++;
          const allowedNames = new FieldNames(allow.map((it) => it.toLowerCase()));
          const raw = sent.flatMap((it) => [it, 'of the client']);
          const fields = requestFields(raw, new Set(), null, { ...from, allowedNames });
          const names = fields.filter((_, i) => i % 2 === 0 && fields[i + 1] === 'of the client');
          expect(names.map(folded).filter((it) => own.test(it))).toEqual([]);
          const isKept = allow.includes(one) || /^[0-9A-Za-z-]+$/.test(one);
          if (!own.test(folded(one))) expect(names.includes(one)).toBe(isKept);
        }
      }),
      { numRuns: 300, seed: 29 },
    );
    expect(excepted).toBeGreaterThan(100);
  });
});

// Attack: the client says that it is somebody else, or that it came by TLS, or to another host.
test('where a request came from is told by the gateway alone, when the peer is nobody it trusts (reliability 31)', async () => {
  const request = await forwarded(
    [
      'X-Forwarded-For: 203.0.113.9',
      'x-forwarded-for: 10.0.0.1',
      'X-Forwarded-Proto: https',
      'X-Forwarded-Host: evil.example',
      'X-Forwarded-Port: 443',
      'X-Forwarded-Prefix: /admin',
      'X-Forwarded-Server: evil',
      'X-Real-IP: 203.0.113.9',
      'Forwarded: for=203.0.113.9;proto=https',
      '',
    ].join('\r\n'),
  );
  expect(request.values('x-forwarded-for')).toEqual(['127.0.0.1']);
  expect(request.values('x-forwarded-proto')).toEqual(['http']);
  expect(request.values('x-forwarded-host')).toEqual(['Api.Example.com:81']);
  // These have digits of chance: a port, ids, and a hash.
  expect(request.values('host')).toEqual([new URL(upstream.origin).host]);
  expect(request.values('x-request-id').join()).toMatch(/^[0-9a-f]{32}$/);
  expect(request.values('x-consumer-id').join()).toMatch(/^key_[0-9A-Za-z]+$/);
  expect(request.values('via').join()).toMatch(/^1\.1 tollgate-[0-9a-f]+$/);
  const chance = ['host', 'via', 'x-request-id', 'x-consumer-id'].flatMap((name) => request.values(name));
  const told = request.rawHeaders.filter((text) => !chance.includes(text));
  expect(told.join('\n')).not.toMatch(/203\.0\.113|10\.0\.0\.1|evil|https|443|admin/);
});

test('what a trusted proxy says of the request’s way is kept, with the proxy added', async () => {
  const behind = await openGateway({ upstream: upstream.origin, listen: { trustedProxies: '[127.0.0.0/8]' } });
  const own = await behind.createKey('free');
  const fields = [
    'X-Forwarded-For: 198.51.100.7, 127.0.0.9',
    'X-Forwarded-Proto: https',
    'X-Forwarded-Host: shop.example',
    'X-Forwarded-Port: 443',
    'Forwarded: for=198.51.100.7;proto=https',
    'X-Consumer-Id: root',
  ].join('\r\n');
  await rawExchange(
    behind.port,
    `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own.key}\r\n${fields}\r\n\r\n`,
  );
  const request = upstream.requests.at(-1)!;
  expect(request.values('x-forwarded-for').join()).toMatch(/^198\.51\.100\.7, 127\.0\.0\.9(, .+)?$/);
  expect(request.values('x-forwarded-proto')).toEqual(['https']);
  expect(request.values('x-forwarded-host')).toEqual(['shop.example']);
  expect(request.values('x-forwarded-port')).toEqual(['443']);
  expect(request.values('forwarded')).toEqual(['for=198.51.100.7;proto=https']);
  expect(request.values('x-consumer-id')).toEqual([own.id]);
});

test.each([
  '/v1/pets?a=1&a=2&b',
  '/v1/pets?',
  '/v1/pets?q=%2f%2F%00%zz&x=a+b&=;\'"<>',
  '/v1/pets?next=http://b/c?d',
  '/v1/pets/%41%c3%a9',
  "/v1/pets/a;b=c,d:e@f!$&'()*+=~",
])('the target %s reaches the upstream byte for byte', async (target) => {
  expect((await forwarded('', `GET ${target} HTTP/1.1`)).url).toBe(target);
});

test('the absolute form of our own host is cut down to the path (reliability 34)', async () => {
  const request = await forwarded('', 'GET http://api.example.com:81/v1/pets?a=http://b HTTP/1.1');
  expect(request.url).toBe('/v1/pets?a=http://b');
});

test('a declared length is kept, chunks stay chunks, and a body that is none says so where one was to be expected', async () => {
  const sized = await forwarded('Content-Length: 2\r\n', 'POST /v1/pets HTTP/1.1', '{}');
  expect([sized.values('content-length'), sized.values('transfer-encoding')]).toEqual([['2'], []]);
  const chunked = await forwarded('Transfer-Encoding: chunked\r\n', 'POST /v1/pets HTTP/1.1', '2\r\n{}\r\n0\r\n\r\n');
  expect([chunked.values('content-length'), chunked.values('transfer-encoding')]).toEqual([[], ['chunked']]);
  expect([sized.body.toString(), chunked.body.toString()]).toEqual(['{}', '{}']);
  const none = await forwarded('', 'POST /v1/pets HTTP/1.1');
  expect([none.values('content-length'), none.values('transfer-encoding')]).toEqual([['0'], []]);
  const get = await forwarded('');
  expect([get.values('content-length'), get.values('transfer-encoding')]).toEqual([[], []]);
});

// Attack: fields behind the body, which a careless reader merges with those of the head.
test('trailers of the client are never passed on (reliability 15)', async () => {
  const request = await forwarded(
    'Transfer-Encoding: chunked\r\nTrailer: X-Consumer-Id\r\n',
    'POST /v1/pets HTTP/1.1',
    '2\r\n{}\r\n0\r\nX-Consumer-Id: root\r\nAuthorization: x\r\n\r\n',
  );
  expect(request.values('x-consumer-id')).toEqual([id]);
  expect(request.rawHeaders.join('\n')).not.toContain('root');
});

test('fields with names of every object’s own, and with bytes beyond ASCII, are fields like any other (reliability 35)', async () => {
  const request = await forwarded('constructor: a\r\nX-Name: caf\xe9\r\n__proto__: b\r\n');
  expect(request.values('constructor')).toEqual(['a']);
  expect(request.values('x-name')).toEqual(['caf\xe9']);
});

test('of `Expect` nothing is passed on: the gateway has answered it (reliability 21)', async () => {
  const bytes = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, [bytes, (seen) => seen.length > 0, '{}']);
  expect(responses.map(({ status }) => status)).toEqual([100, 200]);
  expect(upstream.requests.at(-1)?.values('expect')).toEqual([]);
});

test('a broken X-Forwarded-For from a trusted proxy ends nothing (reliability 32)', async () => {
  const trustedProxies = '[127.0.0.0/8, 10.0.0.0/8]';
  const behind = await openGateway({ upstream: upstream.origin, listen: { trustedProxies } });
  for (const value of [';,,', ',', 'unknown', '[::1', '999.1.1.1', '::%', Array(200).fill('10.0.0.1').join(', ')]) {
    const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${value}\r\n\r\n`;
    const { responses } = await rawExchange(behind.port, bytes);
    expect(responses[0]?.status).toBe(401);
  }
});
