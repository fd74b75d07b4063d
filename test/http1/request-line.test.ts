import { expect, test } from 'vitest';
import { attackedGateway, type Refused, SMUGGLED } from '../listen/attacks.ts';
import { rawExchange } from '../support/raw-http.ts';

// Attacks by the request line and by what is no HTTP at all (RFC 9112 sections 2 and 3).

const world = attackedGateway();
const asked = (line: string) => `${line}\r\n${world.own()}\r\n`;
const line = (text: string): Refused => [JSON.stringify(text), () => asked(text), [400, 505]];
const method = (text: string): Refused => [text, () => asked(text), [400, 405, 501, 505]];

world.refuses('A version that is not spoken here, or none, answered as if it were (reliability 24)', [
  ...[
    'HTTP/2.0',
    'HTTP/3.0',
    'HTTP/1.2',
    'HTTP/1.9',
    'HTTP/0.9',
    'HTTP/9.9',
    'HTTP/2',
    'HTTP/1',
    'HTTP/',
    'HTTP/1.',
  ].map((version) => line(`GET /v1/pets ${version}`)),
  ...[
    'http/1.1',
    'Http/1.1',
    'HTTP/1.10',
    'HTTP/1.01',
    'HTTP/01.1',
    'HTTP/11',
    'HTTP/1,1',
    'HTTP/-1.1',
    'HTTP/ 1.1',
  ].map((version) => line(`GET /v1/pets ${version}`)),
  ...['HTTPS/1.1', 'HTTP-1.1', 'HTTP/1.1;a', 'HTTP/1.1 a', 'HTTP/1. 1', 'SIP/2.0', 'X/1.1', '1.1', 'HTTP1.1'].map(
    (version) => line(`GET /v1/pets ${version}`),
  ),
  ...['GET /v1/pets', 'GET /', 'GET ', 'GET'].map(line),
  ['HTTP/0.9 in full', () => `GET /v1/pets\r\n\r\n${SMUGGLED}`, [400, 505]],
]);

world.refuses('Another protocol’s name, which Node’s parser takes for HTTP and hides (reliability 24)', [
  ...['GET /v1/pets RTSP/1.0', 'GET /v1/pets RTSP/1.1', 'POST /v1/pets RTSP/1.0', 'OPTIONS * RTSP/1.0'].map(line),
  ...['GET /v1/pets ICE/1.0', 'SOURCE /v1/pets ICE/1.0', 'DESCRIBE /v1/pets RTSP/1.0', 'GET  /v1/pets RTSP/1.0'].map(
    line,
  ),
]);

world.refuses('A line whose parts one parser cuts elsewhere than the next (reliability 16, 19)', [
  ...['GET  /v1/pets HTTP/1.1', 'GET /v1/pets  HTTP/1.1', 'GET   /v1/pets   HTTP/1.1', 'POST  /v1/pets HTTP/1.1'].map(
    line,
  ),
  ...[' GET /v1/pets HTTP/1.1', 'GET\t/v1/pets HTTP/1.1', 'GET /v1/pets\tHTTP/1.1', 'GET \t/v1/pets HTTP/1.1'].map(
    line,
  ),
  ...['GET /v1/pets HTTP/1.1 ', 'GET /v1/pets HTTP/1.1\t', 'GET\x0b/v1/pets HTTP/1.1', 'GET /v1/pets\x0cHTTP/1.1'].map(
    line,
  ),
  ...['GET\xa0/v1/pets HTTP/1.1', 'GET\r/v1/pets HTTP/1.1', 'GET /v1/pets\rHTTP/1.1', 'GET /v1/pets HTTP/1.1\r'].map(
    line,
  ),
  ...['\rGET /v1/pets HTTP/1.1', '\nGET /v1/pets HTTP/1.1', '\r\n\nGET /v1/pets HTTP/1.1', '\r\n\rGET / HTTP/1.1'].map(
    line,
  ),
  ...['\x00GET /v1/pets HTTP/1.1', 'G\x00ET /v1/pets HTTP/1.1', '\xef\xbb\xbfGET /v1/pets HTTP/1.1'].map(line),
  ...['GET  HTTP/1.1', 'GET/v1/pets HTTP/1.1', 'GET /v1/pets HTTP/1.1GET / HTTP/1.1', 'GET /v1/pets?a b HTTP/1.1'].map(
    line,
  ),
]);

world.refuses('Bytes of another protocol, meant for another server on this port (reliability 25)', [
  ['the preface of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', [400, 505]],
  ['HTTP/2 frames behind it', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', [400, 505]],
  ['a TLS hello', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['an SSL 2 hello', () => '\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10'],
  ['the PROXY protocol', () => `PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n${SMUGGLED}`],
  ['the PROXY protocol, version 2', () => `\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c${'\x01'.repeat(12)}${SMUGGLED}`],
  ['a command for Redis', () => '*1\r\n$4\r\nPING\r\n'],
  ['a line for Redis', () => 'PING\r\n'],
  ['SMTP', () => 'EHLO a\r\n'],
  ['SSH', () => 'SSH-2.0-OpenSSH_9.9\r\n'],
  ['zeros', () => '\0'.repeat(100)],
]);

world.refuses('A method that opens a tunnel, reflects the key, or is none (reliability 28)', [
  ...['get', 'Get', 'GeT', 'post', 'BREW', 'GETS', 'G', 'G ET', 'GET,POST', '(GET)', 'GET\x7f'].map((name) =>
    method(`${name} /v1/pets HTTP/1.1`),
  ),
  ...['TRACE', 'CONNECT', 'DESCRIBE', 'PRI'].map((name) => method(`${name} /v1/pets HTTP/1.1`)),
  ...['CONNECT a:80', 'CONNECT 127.0.0.1:22', 'CONNECT [::1]:80', 'CONNECT a', 'CONNECT *', 'CONNECT http://a/'].map(
    (start) => method(`${start} HTTP/1.1`),
  ),
  ['TRACE that came far', () => asked('TRACE /v1/pets HTTP/1.1\r\nMax-Forwards: 0'), [501]],
]);

test.each(['QUERY', 'PROPFIND', 'PURGE', 'M-SEARCH', 'LINK', 'SOURCE', 'UNLOCK'])(
  'The method %s, which routes are rarely tested with, goes no further than here (reliability 28)',
  async (name) => {
    const seen = world.upstream.requests.length;
    const { responses } = await rawExchange(world.gateway.port, asked(`${name} /v1/pets HTTP/1.1`));
    expect(responses.map(({ status }) => status)).toEqual([405]);
    expect(world.upstream.requests).toHaveLength(seen);
  },
);

test('Empty lines before a request are passed over, whole ones alone, and however they arrive (reliability 16)', async () => {
  const good = asked('GET /v1/pets HTTP/1.1');
  for (const parts of [[`\r\n${good}`], [`\r\n\r\n${good}`], ['\r', `\n${good}`], ['\r\n', `\r\n${good}`], [...good]]) {
    const { responses } = await rawExchange(world.gateway.port, parts, { pauseMs: 1 });
    expect(
      responses.map(({ status }) => status),
      JSON.stringify(parts),
    ).toEqual([200]);
  }
});

test.each(['GET  /v1/pets?b HTTP/1.1', 'GET /v1/pets?b RTSP/1.0', '\rGET /v1/pets?b  HTTP/1.1'])(
  'A good request does not open the door to a second one whose line is %j (reliability 24)',
  async (second) => {
    for (const parts of [
      [asked('GET /v1/pets HTTP/1.1') + asked(second)],
      [asked('GET /v1/pets HTTP/1.1'), asked(second)],
      [`${asked('POST /v1/pets HTTP/1.1\r\nContent-Length: 2')}{}${asked(second)}`],
    ]) {
      const { responses, closed } = await rawExchange(world.gateway.port, parts, { until: 'closed', pauseMs: 40 });
      expect(responses.map(({ status }) => status)).toEqual([200, 400]);
      expect(closed).toBe(true);
    }
  },
);

test('A body that looks like a loose request line is a body (reliability 24)', async () => {
  const body = '\r\nGET  /v1/pets RTSP/1.0\r\n\r';
  const bytes =
    asked(`POST /v1/pets HTTP/1.1\r\nContent-Length: ${body.length}`) + body + asked('GET /v1/pets?c HTTP/1.1');
  await world.expectStatuses(bytes, [200, 200]);
});
