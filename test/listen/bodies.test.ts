import { expect, test } from 'vitest';
import { rawExchange } from '../support/raw-http.ts';
import { attackedGateway, type Refused, SMUGGLED } from './attacks.ts';

// Attacks by a body where none is expected, by Expect and by Upgrade: what one server reads as a body is the next
// request to another.

const world = attackedGateway();
const asked = (line: string, fields: string, body = '') => `${line} HTTP/1.1\r\n${world.own()}${fields}\r\n\r\n${body}`;
const CHUNKS = `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n0\r\n\r\n`;

world.refuses('A request in the body of a method that has none (reliability 8)', [
  ...['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'].flatMap((method): Refused[] => [
    [`${method}, sized`, () => asked(`${method} /v1/pets`, `Content-Length: ${SMUGGLED.length}`, SMUGGLED), [400, 501]],
    [`${method}, in chunks`, () => asked(`${method} /v1/pets`, 'Transfer-Encoding: chunked', CHUNKS), [400, 501]],
  ]),
]);

world.serves('A request in the body of a method that has one (reliability 8)', [
  ['POST, sized', () => asked('POST /v1/pets', `Content-Length: ${SMUGGLED.length}`, SMUGGLED), SMUGGLED],
  ['POST, in chunks', () => asked('POST /v1/pets', 'Transfer-Encoding: chunked', CHUNKS), SMUGGLED],
  ['GET on a route with `body: true`', () => asked('GET /v1/search', 'Content-Length: 2', '{}'), '{}'],
  ['GET in chunks there', () => asked('GET /v1/search', 'Transfer-Encoding: chunked', CHUNKS), SMUGGLED],
  ['zeros of every kind', () => asked('POST /v1/pets', 'Content-Length: 4', '\0\r\n\xff'), '\0\r\n\xff'],
]);

world.refuses('0.CL by Expect: one server waits for the body, the next has taken it for a request (reliability 21)', [
  ...[
    'y 100-continue',
    '100-continue, 100-continue',
    '100-continue;a=b',
    '"100-continue"',
    '100',
    '',
    '\xa0100-continue',
  ].map(
    (value): Refused => [
      `Expect: ${value}`,
      () => asked('POST /v1/pets', `Expect: ${value}\r\nContent-Length: ${SMUGGLED.length}`, SMUGGLED),
      [417],
    ],
  ),
  ...['Content-Length: 2', 'Transfer-Encoding: chunked', 'Content-Length: 2\r\nTransfer-Encoding: chunked'].map(
    (framing): Refused => [
      `Expect on GET with ${framing}`,
      () => asked('GET /v1/pets', `Expect: 100-continue\r\n${framing}`, SMUGGLED),
    ],
  ),
  ['Expect twice', () => asked('POST /v1/pets', 'Expect: 100-continue\r\nExpect: 100-continue', SMUGGLED), [417]],
  ['a space before the colon', () => asked('POST /v1/pets', 'Expect : 100-continue\r\nContent-Length: 2', '{}')],
]);

test('Expect with the body right behind it: 100, the answer, and then a request of its own (reliability 21)', async () => {
  const bytes = asked('POST /v1/pets', 'Expect: 100-continue\r\nContent-Length: 2', `{}${SMUGGLED}`);
  const { responses } = await rawExchange(world.gateway.port, bytes, { until: 2 });
  expect(responses.map(({ status }) => status)).toEqual([100, 200, 401]);
});

// Node's parser drops what stands behind such a request in its packet, and reads on in the middle of whatever follows:
// the body of a request that was never seen would be served as one.
test.each(['h2c', 'websocket', 'TLS/1.0', 'x'])(
  'An upgrade to %s opens no tunnel, and nothing behind it is served, not even a body (reliability 26)',
  async (protocol) => {
    const upgrade = `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: ${protocol}\r\nHTTP2-Settings: AAMAAABkAAQ`;
    const hidden = asked('GET /v1/pets?hidden', 'X-A: b');
    const seen = world.upstream.requests.length;
    for (const [parts, body] of [
      [[asked('GET /v1/pets', upgrade) + hidden], ''],
      [[asked('GET /v1/pets', upgrade) + asked('POST /v1/pets', `Content-Length: ${hidden.length}`), hidden], ''],
      [[asked('POST /v1/pets', `${upgrade}\r\nContent-Length: 4`), '01', `23${hidden}`, hidden], '0123'],
      [[asked('POST /v1/pets', `${upgrade}\r\nTransfer-Encoding: chunked`, `2\r\n{}\r\n0\r\n\r\n${hidden}`)], '{}'],
    ] as const) {
      const { responses, closed } = await rawExchange(world.gateway.port, parts, { until: 'closed', pauseMs: 30 });
      expect(responses.map(({ status }) => status)).toEqual([200]);
      expect(responses[0]?.header('connection')).toBe('close');
      expect(closed).toBe(true);
      expect(world.upstream.requests.at(-1)?.body.toString()).toBe(body);
      expect(world.upstream.requests.at(-1)?.values('upgrade')).toEqual([]);
    }
    expect(world.upstream.requests.slice(seen).map(({ url }) => url)).toEqual(Array(4).fill('/v1/pets'));
  },
);

world.refuses('An upgrade with a body where none may be (reliability 26)', [
  [
    'websocket with a length',
    () => asked('GET /v1/pets', 'Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5'),
  ],
  ['h2c with chunks', () => asked('GET /v1/pets', 'Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked')],
]);
