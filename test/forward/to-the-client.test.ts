import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream.ts';

// What of an upstream's answer reaches the client (contract section 4; RFC 9110 section 7.6).

let gateway: TestGateway;
let upstream: RawUpstream;
let key: string;
let head = '';

beforeAll(async () => {
  upstream = await startRawUpstream((socket) => socket.write(`${head}Content-Length: 2\r\n\r\n{}`));
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

const answerTo = async (fields: readonly string[], { status = '200 OK', path = '/v1/pets', more = '' } = {}) => {
  head = [`HTTP/1.1 ${status}`, ...fields, ''].join('\r\n');
  const bytes = `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${more}\r\n`;
  const { responses } = await rawExchange(gateway.port, bytes);
  return responses.at(-1)!;
};

test('what the upstream says of limits and ids is dropped, and the gateway’s own is there once (reliability 37)', async () => {
  const answer = await answerTo(
    [
      'X-RateLimit-Limit: 7777',
      'x-ratelimit-remaining: 7777',
      'X-RATELIMIT-RESET: 7777',
      'RateLimit: "x";r=7777',
      'RateLimit-Policy: "x";q=7777',
      'RateLimit-Limit: 7777',
      'RateLimit-Remaining: 7777',
      'RateLimit-Reset: 7777',
      'X-Request-Id: 7777',
    ],
    { more: 'X-Request-Id: mine\r\n' },
  );
  const names = answer.headers.map(([name]) => name.toLowerCase());
  expect(names.length).toBe(new Set(names).size);
  expect(answer.headers.flat().join('\n')).not.toContain('7777');
  expect(answer.header('x-ratelimit-limit')).toBe('60');
  expect(answer.header('x-request-id')).toBe('mine');
});

test('three Set-Cookie stay three, in their order (reliability 88)', async () => {
  const answer = await answerTo(['Set-Cookie: a=1; Path=/', 'set-cookie: b=2, c', 'Set-Cookie: a=1; Path=/']);
  const cookies = answer.headers.filter(([name]) => name.toLowerCase() === 'set-cookie');
  expect(cookies.map(([, value]) => value)).toEqual(['a=1; Path=/', 'b=2, c', 'a=1; Path=/']);
});

test('fields that come twice stay two (reliability 88)', async () => {
  const answer = await answerTo(['ETag: "a"', 'ETag: "b"', 'Vary: Accept', 'Vary: Origin']);
  expect(answer.headers.filter(([name]) => name === 'ETag')).toHaveLength(2);
  expect(answer.header('vary')).toBe('Accept, Origin');
});

test('fields of one hop are not passed on, nor those that Connection lists (reliability 37, 88)', async () => {
  const answer = await answerTo([
    'Connection: X-Hop, Content-Length',
    'X-Hop: 1',
    'Keep-Alive: timeout=99',
    'Proxy-Authenticate: Basic realm="x"',
    'Proxy-Connection: close',
    'Upgrade: h2c',
    'Trailer: X-T',
    'X-Kept: 1',
  ]);
  const names = answer.headers.map(([name]) => name.toLowerCase());
  for (const gone of ['x-hop', 'proxy-authenticate', 'proxy-connection', 'upgrade', 'trailer']) {
    expect(names).not.toContain(gone);
  }
  expect(answer.header('keep-alive') ?? '').not.toContain('99');
  expect(answer.header('x-kept')).toBe('1');
  expect([answer.header('content-length'), answer.body.toString()]).toEqual(['2', '{}']);
});

test('a deprecated route’s own Deprecation and Sunset count; its Link is added to the upstream’s', async () => {
  const answer = await answerTo(
    ['Deprecation: @1', 'Sunset: Thu, 01 Jan 1970 00:00:00 GMT', 'Link: </next>; rel="next"'],
    { path: '/v1/pets/1' },
  );
  expect(answer.header('deprecation')).toBe('@1764892800');
  expect(answer.header('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT');
  expect(answer.header('link')).toBe('</next>; rel="next", </v1/pets>; rel="successor-version"');
});

test('on a route that is not deprecated the upstream’s own word on it is passed on', async () => {
  const answer = await answerTo(['Deprecation: @1', 'Link: </next>; rel="next"']);
  expect(answer.header('deprecation')).toBe('@1');
  expect(answer.header('link')).toBe('</next>; rel="next"');
});

test.each(['201 Created', '301 Moved', '400 Bad', '404 Not Found', '429 Too Many', '500 Oops', '503 Busy'])(
  'the upstream’s own %s is passed on with its body and the gateway’s fields',
  async (status) => {
    const answer = await answerTo(['Content-Type: text/x', 'Location: http://elsewhere/', 'Retry-After: 9'], {
      status,
    });
    expect(answer.status).toBe(Number(status.slice(0, 3)));
    expect(answer.body.toString()).toBe('{}');
    expect(answer.header('content-type')).toBe('text/x');
    expect(answer.header('location')).toBe('http://elsewhere/');
    expect(answer.header('retry-after')).toBe('9');
    expect(answer.header('x-ratelimit-limit')).toBe('60');
  },
);

test('the date, the encoding and the type are the upstream’s', async () => {
  const date = 'Fri, 02 Jan 1970 00:00:00 GMT';
  const answer = await answerTo([`Date: ${date}`, 'Content-Encoding: gzip', 'Server: pets']);
  expect(answer.header('date')).toBe(date);
  expect(answer.header('content-encoding')).toBe('gzip');
  expect(answer.header('server')).toBe('pets');
});

// Attack: what a client puts into a path or a query comes back as a field of an answer (response splitting).
test('a line break that is encoded in a path stays encoded (reliability 36)', async () => {
  const answer = await answerTo([], { path: '/v1/pets?x=%0d%0aX-Evil:%201' });
  expect(answer.header('x-evil')).toBeNull();
});
