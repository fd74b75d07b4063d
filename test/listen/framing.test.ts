import { afterEach, beforeAll, expect, test } from 'vitest';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Attacks on the framing of requests (RFC 9112 sections 2, 5, 6, 7). Whatever the bytes: one client request gives at
// most one upstream request, its bytes are never read as a second one, and the process lives on.

let gateway: TestGateway;
let upstream: Upstream;
let key: string;
let auth: string;
let seen = 0;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await startGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
  auth = `Authorization: Bearer ${key}`;
});

afterEach(async () => {
  // Nothing that was forwarded is unreadable, but for what was broken off on purpose.
  expect(upstream.refused.filter((error) => !('code' in error && error.code === 'HPE_INVALID_EOF_STATE'))).toEqual([]);
  expect(upstream.requests.map(({ url }) => url).filter((url) => url.includes('smuggled'))).toEqual([]);
  expect((await gateway.get('/v1/pets?alive', key)).status).toBe(200);
});

const SMUGGLED = 'GET /v1/pets?smuggled HTTP/1.1\r\nHost: a\r\n\r\n';
const post = (fields: string, body = '') => `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${auth}\r\n${fields}\r\n\r\n${body}`;
const chunked = (body: string) => post('Transfer-Encoding: chunked', body);
const get = (fields: string) => `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${auth}\r\n${fields}\r\n\r\n`;

/** What must be refused and closed: `[what, bytes, statuses allowed]`. */
const REFUSED: readonly (readonly [string, () => string, readonly number[]])[] = [
  ['CL.TE', () => post('Content-Length: 6\r\nTransfer-Encoding: chunked', `0\r\n\r\n${SMUGGLED}`), [400]],
  ['TE.CL', () => post('Transfer-Encoding: chunked\r\nContent-Length: 4', `5c\r\n${SMUGGLED}0\r\n\r\n`), [400]],
  ['two lengths', () => post('Content-Length: 0\r\nContent-Length: 44', SMUGGLED), [400]],
  ['the same length twice', () => post('Content-Length: 2\r\nContent-Length: 2', '{}'), [400]],
  ['a list of lengths', () => post('Content-Length: 2, 2', '{}'), [400]],
  ...['+2', '-1', '0x2', '1_0', '2 0', '18446744073709551618', '9'.repeat(40), '2;', '"2"', '2.0', '1e1'].map(
    (length) => [`Content-Length ${length}`, () => post(`Content-Length: ${length}`, '{}'), [400, 413]] as const,
  ),
  ['an empty length', () => post('Content-Length: ', SMUGGLED), [400]],
  ...[
    ...['xchunked', 'chunked, identity', 'identity, chunked', 'identity', 'chunked;q=1', '"chunked"', 'chunked,'],
    ...[', chunked', '\x0bchunked', 'chunked\x0b', 'chunked\xff', 'chu\x00nked', 'gzip', 'chunked chunked', ''],
  ].map(
    (coding) =>
      [
        `Transfer-Encoding ${JSON.stringify(coding)}`,
        () => post(`Transfer-Encoding: ${coding}`, `2\r\n{}\r\n0\r\n\r\n${SMUGGLED}`),
        [400, 501],
      ] as const,
  ),
  ['a space before the colon', () => post('Transfer-Encoding : chunked', `0\r\n\r\n${SMUGGLED}`), [400]],
  ['chunked twice in one line', () => post('Transfer-Encoding: chunked, chunked', '0\r\n\r\n'), [400, 501]],
  ['chunked twice', () => post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', '0\r\n\r\n'), [400]],
  ['gzip, chunked', () => post('Transfer-Encoding: gzip, chunked', '0\r\n\r\n'), [501]],
  [
    'chunks in HTTP/1.0',
    () => `POST /v1/pets HTTP/1.0\r\nHost: a\r\n${auth}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
    [400],
  ],
  ...['GET', 'HEAD', 'DELETE', 'OPTIONS'].map(
    (method) =>
      [
        `a request in the body of ${method}`,
        () =>
          `${method} /v1/pets HTTP/1.1\r\nHost: a\r\n${auth}\r\nContent-Length: ${SMUGGLED.length}\r\n\r\n${SMUGGLED}`,
        [400],
      ] as const,
  ),
  ...['0x2', '-2', '+2', '0_2', ' 2', '', 'ffffffffffffffff1', '2 ', 'g'].map(
    (size) =>
      [`chunk size ${JSON.stringify(size)}`, () => chunked(`${size}\r\n{}\r\n0\r\n\r\n${SMUGGLED}`), [400]] as const,
  ),
  ...['2;\n', '2;a\r', '2;a\x00b\r\n', '2;a="b\r\nc"\r\n', '2\n', '2\r'].map(
    (line) =>
      [`chunk line ${JSON.stringify(line)}`, () => chunked(`${line}{}\r\n0\r\n\r\n${SMUGGLED}`), [400]] as const,
  ),
  ['a chunk extension of 20 kB', () => chunked(`2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`), [400, 413]],
  ['chunk data without its CRLF', () => chunked(`2\r\n{}0\r\n\r\n${SMUGGLED}`), [400]],
  ['chunk data that is too long', () => chunked(`2\r\n{}}\r\n0\r\n\r\n${SMUGGLED}`), [400]],
  ['chunks with bare line feeds', () => chunked(`2\n{}\n0\n\n${SMUGGLED}`), [400]],
  ['a length among the trailers', () => chunked(`2\r\n{}\r\n0\r\nContent-Length: 3\r\n\r\n`), [400]],
  ['a field behind a bare LF', () => get('X-A: b\nX-Consumer-Id: root'), [400]],
  ['a field behind a bare CR', () => get('X-A: b\rX-Consumer-Id: root'), [400]],
  ['a folded field', () => get('X-A: b\r\n c'), [400]],
  ['a field without a name', () => get(': b'), [400]],
  ['a line without a colon', () => get('X-A'), [400]],
  ['a name with a space', () => get('X A: b'), [400]],
  ['a name that is no token', () => get('X(A): b'), [400]],
  ['a NUL in a value', () => get('X-A: b\x00c'), [400]],
  ['a space before the first field', () => `GET /v1/pets HTTP/1.1\r\n Host: a\r\n${auth}\r\n\r\n`, [400]],
  ['a request line with a bare LF', () => `GET /v1/pets HTTP/1.1\nHost: a\r\n${auth}\r\n\r\n`, [400]],
  ...['HTTP/2.0', 'HTTP/3.0', 'HTTP/1.2', 'HTTP/0.9', 'http/1.1', 'HTTP/1.10', 'HTTP/11', 'HTTPS/1.1', 'HTTP/1,1'].map(
    (version) => [version, () => `GET /v1/pets ${version}\r\nHost: a\r\n${auth}\r\n\r\n`, [400, 505]] as const,
  ),
  ['no version', () => `GET /v1/pets\r\nHost: a\r\n${auth}\r\n\r\n`, [400, 505]],
  ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', [400, 505]],
  ['a TLS hello', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', [400]],
  ['the PROXY protocol', () => `PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n${SMUGGLED}`, [400]],
  ['a command for Redis', () => '*1\r\n$4\r\nPING\r\n', [400]],
  ['a lower-case method', () => `get /v1/pets HTTP/1.1\r\nHost: a\r\n${auth}\r\n\r\n`, [400]],
  ['an unknown method', () => `BREW /v1/pets HTTP/1.1\r\nHost: a\r\n${auth}\r\n\r\n`, [400]],
];

test.each(REFUSED)('%s is refused, and the connection ends there', async (_what, bytes, allowed) => {
  seen = upstream.requests.length;
  const sent = bytes();
  const { responses, closed } = await rawExchange(gateway.port, sent, {
    until: 'closed',
    methods: [sent.split(' ')[0] as string],
  });
  expect(responses.length).toBeLessThanOrEqual(1);
  for (const { status } of responses) expect(allowed).toContain(status);
  expect(closed).toBe(true);
  const requests = upstream.requests.slice(seen);
  expect(requests.length).toBeLessThanOrEqual(1);
  // What broke in its body never counts as whole.
  for (const request of requests) expect(await request.whole).toBe(false);
});

/** What is no error, and must be one request with one meaning. */
const SERVED: readonly (readonly [string, () => string, string])[] = [
  ['Connection lists Content-Length', () => post('Connection: Content-Length\r\nContent-Length: 2', '{}'), '{}'],
  [
    'Connection lists Transfer-Encoding',
    () => post('Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked', '2\r\n{}\r\n0\r\n\r\n'),
    '{}',
  ],
  ['Connection lists Host', () => post('Connection: Host, Authorization\r\nContent-Length: 2', '{}'), '{}'],
  ['Transfer-Encoding in another case', () => post('transfer-encoding: Chunked', '2\r\n{}\r\n0\r\n\r\n'), '{}'],
  ['chunk extensions', () => chunked('2;a=b;c="d"\r\n{}\r\n0;e\r\n\r\n'), '{}'],
  ['chunk sizes with zeros and capitals', () => chunked(`00A\r\n0123456789\r\n000\r\n\r\n`), '0123456789'],
  ['trailers', () => chunked('2\r\n{}\r\n0\r\nX-Consumer-Id: root\r\n\r\n'), '{}'],
  ['a body of zeros of every kind', () => post('Content-Length: 4', '\0\r\n\xff'), '\0\r\n\xff'],
  ['an Upgrade with a body', () => post('Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2', '{}'), '{}'],
  ['empty lines before it', () => `\r\n\r\n${post('Content-Length: 2', '{}')}`, '{}'],
];

test.each(SERVED)('%s is one request', async (_what, bytes, body) => {
  const before = upstream.requests.length;
  const { responses } = await rawExchange(gateway.port, bytes());
  expect(responses.map(({ status }) => status)).toEqual([200]);
  expect(upstream.requests).toHaveLength(before + 1);
  expect(upstream.requests.at(-1)?.body.toString('latin1')).toBe(body);
});

test('a POST without a length has no body: what follows is a request of its own, and needs a key of its own', async () => {
  const before = upstream.requests.length;
  const next = 'GET /v1/pets?second HTTP/1.1\r\nHost: a\r\n\r\n';
  const { responses } = await rawExchange(gateway.port, post('X-A: b', next), { until: 2 });
  expect(responses.map(({ status }) => status)).toEqual([200, 401]);
  expect(upstream.requests).toHaveLength(before + 1);
});

test('bytes behind a declared length are a request of their own, and need a key of their own', async () => {
  const before = upstream.requests.length;
  const { responses } = await rawExchange(gateway.port, post('Content-Length: 2', `{}${SMUGGLED}`), { until: 2 });
  expect(responses.map(({ status }) => status)).toEqual([200, 401]);
  expect(upstream.requests).toHaveLength(before + 1);
});

test('a body in one-byte chunks costs one request and passes whole', async () => {
  const body = Array.from({ length: 5_000 }, (_, i) => `1\r\n${i % 10}\r\n`).join('');
  const { responses } = await rawExchange(gateway.port, chunked(`${body}0\r\n\r\n`));
  expect(responses.map(({ status }) => status)).toEqual([200]);
  expect(upstream.requests.at(-1)?.body).toHaveLength(5_000);
});

test('a refusal of a body on its way reaches a client that goes on sending', async () => {
  const { responses, closed } = await rawExchange(
    gateway.port,
    [
      `POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n`,
      'a'.repeat(100_000),
      SMUGGLED,
      'a'.repeat(50_000),
    ],
    { until: 'closed', pauseMs: 20 },
  );
  expect(responses.map(({ status }) => status)).toEqual([401]);
  expect(closed).toBe(true);
});

test('a body that goes wrong in a later chunk is never completed at the upstream', async () => {
  const head = `POST /v1/pets?later HTTP/1.1\r\nHost: a\r\n${auth}\r\nTransfer-Encoding: chunked\r\n\r\n`;
  await rawExchange(gateway.port, [head, '2\r\n{}\r\n', '2\r\n{}\r\n', 'oops'], { until: 'closed', pauseMs: 60 });
  const request = upstream.requests.find(({ url }) => url.endsWith('?later'));
  expect(await request?.whole).toBe(false);
});
