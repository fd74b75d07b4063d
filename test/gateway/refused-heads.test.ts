import { beforeAll, describe, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// What is wrong with a request and can be read in its head, and the bounds up to which it is right.

const MAX_BODY = 4096;
const MAX_TARGET = 8192;
const MAX_FIELDS = 16_384;

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, listen: { maxBodyBytes: '4KiB' } });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=10000', '--limit', 'day=10000'));
});

const remaining = async () => Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));
/** A field line with the key of the test. */
const OWN = 'Authorization: Bearer KEY\r\n';
const withKey = (text: string) => text.replaceAll('KEY', key);

const head = (line: string, fields = `Host: a\r\n${OWN}`, version = '1.1') =>
  `${line} HTTP/${version}\r\n${fields}\r\n`;
const get = (fields: string) => head('GET /v1/pets', fields);
const post = (fields: string) => head('POST /v1/pets', `Host: a\r\n${OWN}${fields}\r\n`);
const target = (length: number) => `/v1/pets?${'a'.repeat(length - '/v1/pets?'.length)}`;
/** A request whose field lines have exactly this many bytes together, whatever its request line has. */
const fieldsOf = (bytes: number, line = 'GET /v1/pets') => {
  const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\nX-A: `;
  return head(line, `${fields}${'a'.repeat(bytes - fields.length - 2)}\r\n`);
};
/** A head in packets of its own. */
const inPieces = (...parts: string[]) => parts;

const REFUSED: readonly (readonly [is: string, what: string, bytes: () => string | string[]])[] = [
  ['400 invalid_request', 'two Authorization fields', () => get(`Host: a\r\n${OWN}${OWN}`)],
  ['400 invalid_request', 'a second Authorization, a wrong one', () => get(`Host: a\r\n${OWN}Authorization: x\r\n`)],
  ['400 invalid_request', 'no Host', () => get(OWN)],
  ['400 invalid_request', 'two Hosts', () => get(`Host: a\r\nHost: a\r\n${OWN}`)],
  ['400 invalid_request', 'a Host that is none', () => get(`Host: a b\r\n${OWN}`)],
  ['400 invalid_request', 'a body on GET', () => `${get(`Host: a\r\n${OWN}Content-Length: 2\r\n`)}{}`],
  [
    '400 invalid_request',
    'chunks on DELETE',
    () => `${head('DELETE /v1/pets', `Host: a\r\n${OWN}Transfer-Encoding: chunked\r\n`)}0\r\n\r\n`,
  ],
  ['400 invalid_request', 'a dot segment', () => head('GET /v1/../v1/pets')],
  ['400 invalid_request', 'the URL of another host', () => head('GET http://b/v1/pets')],
  ['400 invalid_request', 'a malformed field', () => get(`Host: a\r\n${OWN}: nameless\r\n`)],
  ['413 payload_too_large', 'a declared byte more, without it', () => post(`Content-Length: ${MAX_BODY + 1}`)],
  [
    '413 payload_too_large',
    'a declared byte more, with it',
    () => post(`Content-Length: ${MAX_BODY + 1}`) + 'a'.repeat(MAX_BODY + 1),
  ],
  [
    '413 payload_too_large',
    'a declared byte more of a client that waits for 100 Continue',
    () => post(`Content-Length: ${MAX_BODY + 1}\r\nExpect: 100-continue`),
  ],
  ...[MAX_TARGET + 1, 30_000, 60_000, 100_000, 500_000].map(
    (length) => ['414 uri_too_long', `a target of ${length} bytes`, () => head(`GET ${target(length)}`)] as const,
  ),
  // Attack: a gateway that cannot tell which part of a head is too large sends clients after the wrong fault, and a head that
  // grows without end takes memory.
  [
    '414 uri_too_long',
    'a target of 9,000 before fields of 50,000',
    () => `GET ${target(9_000)} HTTP/1.1\r\nX-A: ${'b'.repeat(50_000)}`,
  ],
  [
    '414 uri_too_long',
    'a target of 20,000 in small packets',
    () => inPieces('GET /v1/pets?', ...'a'.repeat(20_000).match(/.{1000}/g)!, ' HTTP/1.1\r\n\r\n'),
  ],
  [
    '414 uri_too_long',
    'a target of 30,000 that ends with the last packet',
    () =>
      inPieces(
        `GET ${target(15_000)}`,
        'a'.repeat(15_000),
        'a'.repeat(15_000),
        ` HTTP/1.1\r\nX-A: ${'b'.repeat(9_000)}`,
      ),
  ],
  ...['200-ok', 'y 100-continue', '100-continue, 200-ok'].map(
    (value) =>
      ['417 expectation_failed', `Expect: ${value}`, () => post(`Expect: ${value}\r\nContent-Length: 2`)] as const,
  ),
  ['431 headers_too_large', 'a byte of fields more', () => fieldsOf(MAX_FIELDS + 1)],
  ['431 headers_too_large', '30,000 bytes of fields', () => fieldsOf(30_000)],
  ['431 headers_too_large', '60,000 bytes of fields', () => fieldsOf(60_000)],
  ['431 headers_too_large', '2,500 fields', () => get(`Host: a\r\n${'a:\r\n'.repeat(2_500)}`)],
  ['501 not_implemented', 'TRACE', () => head('TRACE /v1/pets')],
  ['501 not_implemented', 'CONNECT', () => head('CONNECT 127.0.0.1:1')],
  [
    '501 not_implemented',
    'a coding that is not read',
    () => `${post('Transfer-Encoding: gzip, chunked')}2\r\n{}\r\n0\r\n\r\n`,
  ],
  ...['2.0', '3.0', '1.2', '0.9'].map(
    (version) =>
      ['505 http_version_not_supported', `HTTP/${version}`, () => head('GET /v1/pets', undefined, version)] as const,
  ),
];

describe('what is refused at its head (reliability 6, 8, 21, 24, 28, 33, 34, 54, 65, 66)', () => {
  test.each(REFUSED)('%s: %s is closed, costs nothing and reaches nobody', async (is, _what, bytes) => {
    const before = await remaining();
    const seen = upstream.requests.length;
    const made = bytes();
    const sent = typeof made === 'string' ? withKey(made) : made;
    const { responses, closed } = await rawExchange(gateway.port, sent, { until: 'closed', pauseMs: 5 });
    const [status, code] = is.split(' ');
    expect(responses.map((response) => response.status)).toEqual([Number(status)]);
    expect(responses[0]?.json()).toEqual({ code, message: expect.any(String), status: Number(status) });
    expect(responses[0]?.body.toString()).not.toContain(key);
    expect(responses[0]?.header('x-request-id')).not.toBeNull();
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
    expect(upstream.requests).toHaveLength(seen);
    expect(await remaining()).toBe(before - 1);
  });
});

test('a target of exactly the limit passes, whole', async () => {
  const { responses } = await rawExchange(gateway.port, withKey(head(`GET ${target(MAX_TARGET)}`)));
  expect(responses[0]?.status).toBe(200);
  expect(upstream.requests.at(-1)?.url).toBe(target(MAX_TARGET));
});

test.each(['GET /v1/pets', `GET /v1/pets?${'a'.repeat(8000)}`])(
  'fields of exactly the limit pass, however long the request line is (%.20s)',
  async (line) => {
    const { responses } = await rawExchange(gateway.port, fieldsOf(MAX_FIELDS, line));
    expect(responses[0]?.status).toBe(200);
  },
);

test('an expectation in HTTP/1.0 is ignored', async () => {
  const bytes = head('POST /v1/pets', `Host: a\r\n${OWN}Expect: 200-ok\r\nContent-Length: 2\r\n`, '1.0');
  const { responses } = await rawExchange(gateway.port, withKey(`${bytes}{}`), { until: 'closed' });
  expect(responses.map(({ status }) => status)).toEqual([200]);
});

test('after CONNECT there is no tunnel: what follows is thrown away (reliability 28)', async () => {
  const seen = upstream.requests.length;
  const inner = withKey(head('GET /v1/pets'));
  const parts = [`CONNECT 127.0.0.1:${upstream.port} HTTP/1.1\r\nHost: a\r\n\r\n${inner}`, inner];
  const { responses, closed } = await rawExchange(gateway.port, parts, { until: 'closed' });
  expect(responses.map(({ status }) => status)).toEqual([501]);
  expect(closed).toBe(true);
  expect(upstream.requests).toHaveLength(seen);
});

test('a route with `body: true` lets GET carry one', async () => {
  const bytes = head('GET /v1/search', `Host: a\r\n${OWN}Content-Length: 2\r\n`);
  const { responses } = await rawExchange(gateway.port, withKey(`${bytes}{}`));
  expect(responses[0]?.status).toBe(200);
  expect(upstream.requests.at(-1)?.body.toString()).toBe('{}');
});

test.each([
  ['in one packet', ['HEAD /v1/pets HTTP/1.1\r\nbroken field\r\n\r\n']],
  ['in pieces', ['\r\nHE', 'AD /v1/pets HTTP/1.1\r\nHost: a\r\n', 'broken field\r\n\r\n']],
])('a HEAD that cannot be parsed is answered with the head alone: %s (RFC 9110 section 9.3.2)', async (_, parts) => {
  const { bytes, closed } = await rawExchange(gateway.port, parts, { until: 'closed', pauseMs: 50 });
  expect(bytes.toString()).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
  expect(bytes.toString()).toMatch(/Content-Length: [1-9][0-9]*\r\n/);
  expect(bytes.toString().endsWith('\r\n\r\n')).toBe(true);
  expect(closed).toBe(true);
});
