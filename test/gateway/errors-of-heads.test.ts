import { once } from 'node:events';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Ask, askHttp2, type EncryptedGateway, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { type ParsedResponse, rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Errors that are found in the head of a request have all fields of other errors, so that a page can read them.

const PAGE = 'https://app.example.com';
const MORE = `cors: { origins: ['${PAGE}'] }\nerrors: { docs: https://docs.example.com/errors }`;
const OWN = `Origin: ${PAGE}\r\nAccept: application/problem+json\r\nX-Request-Id: my.id\r\n`;

let upstream: Upstream;
let gateway: TestGateway;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, more: MORE, listen: { headersTimeout: '1s' } });
});

const HEADS: readonly (readonly [is: string, head: string])[] = [
  ['413 payload_too_large', `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}Content-Length: 70000000\r\n\r\n`],
  ['414 uri_too_long', `GET /${'a'.repeat(9_000)} HTTP/1.1\r\nHost: a\r\n${OWN}\r\n`],
  ['414 uri_too_long', `GET /${'a'.repeat(40_000)} HTTP/1.1\r\nHost: a\r\n${OWN}\r\n`],
  ['431 headers_too_large', `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}X: ${'a'.repeat(17_000)}\r\n\r\n`],
  ['431 headers_too_large', `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}${'X: a\r\n'.repeat(1_500)}\r\n`],
  ['400 invalid_request', `GET /v1/../pets HTTP/1.1\r\nHost: a\r\n${OWN}\r\n`],
  ['400 invalid_request', `GET /v1/pets?x=é HTTP/1.1\r\nHost: a\r\n${OWN}\r\n`],
  ['400 invalid_request', `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}bad field\r\n\r\n`],
  ['400 invalid_request', `GET /v1/pets HTTP/1.1\r\nbad field\r\nHost: a\r\n${OWN}\r\n`],
  ['400 invalid_request', `GET /v1/pets HTTP/1.1\r\n${OWN}\r\n`],
  ['400 invalid_request', `GET  /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}\r\n`],
  ['400 invalid_request', `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}Content-Length: 3\r\n\r\nabc`],
  ['400 invalid_request', `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}Content-Length: 1\r\nContent-Length: 2\r\n\r\na`],
  ['417 expectation_failed', `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}Expect: more\r\nContent-Length: 0\r\n\r\n`],
  ['501 not_implemented', `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}Transfer-Encoding: gzip, chunked\r\n\r\n`],
  ['501 not_implemented', `TRACE /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}\r\n`],
  ['501 not_implemented', `CONNECT a:443 HTTP/1.1\r\nHost: a\r\n${OWN}\r\n`],
  ['505 http_version_not_supported', `GET /v1/pets HTTP/1.2\r\nHost: a\r\n${OWN}\r\n`],
  ['505 http_version_not_supported', `GET /v1/pets HTTP/2.0\r\nHost: a\r\n${OWN}\r\n`],
];

function expectAllFields(header: (name: string) => string | undefined, code: string): void {
  expect(header('access-control-allow-origin')).toBe(PAGE);
  expect(header('access-control-expose-headers')).toContain('X-Request-Id');
  expect(header('vary')?.split(', ').toSorted()).toEqual(['Accept', 'Origin']);
  expect(header('x-request-id')).toBe('my.id');
  expect(header('x-ratelimit-limit')).toMatch(/^\d+$/);
  expect(header('ratelimit-policy')).toContain('failed-authentication');
  expect(header('link')).toBe(`<https://docs.example.com/errors#${code}>; rel="help"`);
  expect(header('content-type')).toBe('application/problem+json');
}

const joined = ({ headers }: ParsedResponse) => {
  return (name: string) => headers.flatMap(([own, value]) => (own.toLowerCase() === name ? [value] : [])).join(', ');
};

test.each(HEADS.map(([is, head]) => [is, head.slice(0, 40), head] as const))(
  '%s has all fields of other errors: %j… (reliability 354)',
  async (is, _begin, head) => {
    const [status, code] = is.split(' ');
    const { responses } = await rawExchange(gateway.port, Buffer.from(head), { methods: [head.split(' ')[0]!] });
    const [answer] = responses as [ParsedResponse];
    expect(answer.status).toBe(Number(status));
    expect(answer.json()).toMatchObject({ code, status: Number(status), title: expect.any(String) });
    expectAllFields(joined(answer), code!);
  },
);

test('a head that comes too slowly is refused with a request id of the gateway and what needs no field of the client', async () => {
  const { responses } = await rawExchange(gateway.port, `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${OWN}`);
  const header = joined(responses[0]!);
  expect(responses[0]!.status).toBe(408);
  expect(header('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
  expect(header('vary')).toBe('Origin, Accept');
  expect(header('link')).toContain('#request_timeout');
  expect(header('content-type')).toBe('application/json');
});

test.each([
  ['a query', '/v1/pets?x=é'],
  ['a path', '/v1/päts'],
  ['a blank', '/v1/pets?x=a b'],
])('a target with %s that must be encoded is refused with what to change', async (_what, target) => {
  const { responses } = await rawExchange(gateway.port, Buffer.from(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`));
  expect(responses[0]!.status).toBe(400);
  expect(responses[0]!.json()).toMatchObject({ message: expect.stringContaining('Percent-encode it: é is %C3%A9.') });
});

test('what a broken head says reaches no field of the response but a valid id and an allowed origin (reliability 354)', async () => {
  const fields = `Origin: ${PAGE}\nSet-Cookie: a=b\r\nX-Request-Id: a\rSet-Cookie: a=b\r\nOrigin: ${PAGE}\r\nbad field\r\n`;
  const { responses } = await rawExchange(gateway.port, `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  const header = joined(responses[0]!);
  expect([header('access-control-allow-origin'), header('set-cookie')]).toEqual(['', '']);
  expect(header('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
});

describe('over HTTP/2', () => {
  let encrypted: EncryptedGateway;

  beforeAll(async () => {
    encrypted = await openEncrypted({ upstream: upstream.origin, more: MORE });
  });

  const own = { origin: PAGE, accept: 'application/problem+json', 'x-request-id': 'my.id' };

  test.each<readonly [string, Ask]>([
    ['414 uri_too_long', { path: `/${'a'.repeat(9_000)}` }],
    ['431 headers_too_large', { path: '/v1/pets', headers: { x: 'a'.repeat(17_000) } }],
    ['400 invalid_request', { path: '/v1/../pets' }],
    ['400 invalid_request', { path: '/v1/pets?x=é' }],
    ['417 expectation_failed', { method: 'POST', path: '/v1/pets', headers: { expect: 'more' }, body: 'a' }],
    ['501 not_implemented', { method: 'TRACE', path: '/v1/pets' }],
  ])('%s has all fields of other errors (reliability 354)', async (is, ask) => {
    const [status, code] = is.split(' ');
    const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
    const answer = await askHttp2(session, { ...ask, headers: { ...own, ...ask.headers } });
    expect(answer.status).toBe(Number(status));
    expect(JSON.parse(answer.body)).toMatchObject({ code });
    expectAllFields(
      (name) => answer.fields.flatMap(([field, value]) => (field === name ? [value] : [])).join(', '),
      code!,
    );
  });

  test('413 for a declared length has all fields of other errors, before the body has come (reliability 354)', async () => {
    const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
    const length = { ':method': 'POST', ':path': '/v1/pets', 'content-length': '70000000' };
    const stream = session.request({ ...length, ...own });
    const [headers] = (await once(stream, 'response')) as [Record<string, string>];
    expect(headers[':status']).toBe(413);
    expectAllFields((name) => headers[name], 'payload_too_large');
  });
});
