import { once } from 'node:events';
import { beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { altered } from '../support/altered.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import {
  asking,
  HANDSHAKE,
  logged,
  metric,
  openWebSocket,
  rawClient,
  startWebSocketUpstream,
  WEBSOCKET_KEY,
  WEBSOCKET_ROUTES,
  type WebSocketUpstream,
} from '../support/web-sockets.ts';

let gateway: TestGateway;
let upstream: WebSocketUpstream;
let key: string;
let keyId: string;

beforeAll(async () => {
  upstream = await startWebSocketUpstream();
  gateway = await openGateway({ upstream: upstream.origin, routes: WEBSOCKET_ROUTES });
  ({ key, id: keyId } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

const remaining = (headers: Headers) => Number(headers.get('x-ratelimit-remaining'));

describe('a WebSocket is an ordinary request until it is opened', () => {
  test('its 101 tells what every answer tells, and never twice', async () => {
    const { socket, answer } = await openWebSocket(gateway, key, '/v1/live?a=b', {
      headers: { 'X-Request-Id': 'mine' },
    });
    expect(answer.statusCode).toBe(101);
    expect(answer.headers).toMatchObject({
      'x-ratelimit-limit': '100000',
      'ratelimit-policy': '"minute";q=100000;w=60, "day";q=100000;w=86400',
      'x-request-id': 'mine',
    });
    const names = answer.rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
    expect(new Set(names).size).toBe(names.length);
    socket.terminate();
  });

  test('it counts as one request, by what the route costs', async () => {
    const { key: own } = await gateway.createKey('free');
    const { answer, socket } = await openWebSocket(gateway, own);
    expect(answer.headers['x-ratelimit-remaining']).toBe('59');
    for (let i = 0; i < 20; i++) {
      socket.send('one more');
      await once(socket, 'message');
    }
    expect(remaining((await gateway.get('/v1/pets', own)).headers)).toBe(58);
    const costly = await openWebSocket(gateway, own, '/v1/costly');
    expect(costly.answer.headers['x-ratelimit-remaining']).toBe('53');
  });

  test('the upstream gets who is calling and never the key; path and query are as the client sent them', async () => {
    const { socket } = await openWebSocket(gateway, key, "/v1/live/a'b;c=%41?x=1&&y=%zz?", {
      headers: {
        'X-Consumer-Id': 'me',
        X_Consumer_Id: 'me',
        'X.Consumer.Id': 'me',
        'X-Forwarded-For': '1.2.3.4',
        'X-Own': 'kept',
        TE: 'gzip',
      },
    });
    const { url, headers, rawHeaders } = upstream.asked.at(-1)!;
    expect(url).toBe("/v1/live/a'b;c=%41?x=1&&y=%zz?");
    expect(headers).toMatchObject({
      host: new URL(upstream.origin).host,
      'x-consumer-id': keyId,
      'x-consumer-plan': 'enterprise',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': `127.0.0.1:${gateway.port}`,
      'x-own': 'kept',
      connection: 'Upgrade',
      upgrade: 'websocket',
    });
    expect(rawHeaders.join('\n')).not.toContain(key);
    expect(rawHeaders.map((name) => name.toLowerCase())).not.toContain('authorization');
    expect(rawHeaders.filter((name) => /x.consumer.id|host|^te$/i.test(name))).toHaveLength(3);
    socket.terminate();
  });

  test('a `?` at the end of the target arrives', async () => {
    const { socket } = await openWebSocket(gateway, key, '/v1/live/end?');
    // The client library leaves it out, so it is said by hand.
    socket.terminate();
    const raw = await rawClient(gateway, asking(key, '/v1/live/end?'));
    await raw.head();
    expect(upstream.asked.at(-1)?.url).toBe('/v1/live/end?');
  });

  test('its access line is written when it is opened, and another when it ends', async () => {
    const { socket } = await openWebSocket(gateway, key, '/v1/live', {
      headers: { 'X-Request-Id': 'lines' },
      perMessageDeflate: false,
    });
    const line = await eventually(
      () => logged(gateway, 'request').find(({ requestId }) => requestId === 'lines') ?? false,
    );
    expect(line).toMatchObject({
      status: 101,
      code: null,
      judgement: 'admitted',
      consumerId: keyId,
      route: '/v1/live',
      method: 'GET',
      upstream: 'store',
      target: upstream.origin,
    });
    socket.send('12345');
    await once(socket, 'message');
    const before = await metric(gateway, 'tollgate_websockets');
    expect(before).toBeGreaterThan(0);
    socket.close(1000);
    const closed = await eventually(
      () => logged(gateway, 'websocket closed').find(({ requestId }) => requestId === 'lines') ?? false,
    );
    expect(closed).toMatchObject({ route: '/v1/live', consumerId: keyId, reason: 'upstream_closed' });
    // Head, mask and text; the close frame with its code.
    expect(closed).toMatchObject({ bytesIn: 2 + 4 + 5 + 2 + 4 + 2, bytesOut: 2 + 5 + 2 + 2 });
    expect(closed.durationMs).toBeGreaterThan(0);
    await eventually(async () => expect(await metric(gateway, 'tollgate_websockets')).toBe(before - 1));
    expect(await metric(gateway, 'tollgate_websockets_total{outcome="upstream_closed"}')).toBeGreaterThan(0);
  });
});

describe('refused before it is opened', () => {
  const refusal = (own: string | undefined, path = '/v1/live') =>
    new Promise<{ status: number; headers: NodeJS.Dict<string | string[]> }>((resolve) => {
      const headers: Record<string, string> = own === undefined ? {} : { Authorization: `Bearer ${own}` };
      const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}${path}`, { headers });
      socket.on('error', () => {});
      socket.on('open', () => {
        resolve({ status: 101, headers: {} });
        socket.terminate();
      });
      socket.on('unexpected-response', (_, { statusCode = 0, headers }) => {
        resolve({ status: statusCode, headers });
        socket.terminate();
      });
    });

  test.each([
    ['no key', 401, () => undefined, '/v1/live'],
    ['a wrong key', 401, () => altered(key), '/v1/live'],
    ['no route', 404, () => key, '/v1/none'],
  ] as [string, number, () => string | undefined, string][])(
    '%s: %i, with the rate-limit fields, nothing asked of the upstream',
    async (_, status, own, path) => {
      const seen = upstream.asked.length + upstream.plain.length;
      const refused = await refusal(own(), path);
      expect(refused.status).toBe(status);
      expect(refused.headers).toMatchObject({ 'x-ratelimit-limit': expect.any(String), connection: 'close' });
      expect(upstream.asked.length + upstream.plain.length).toBe(seen);
    },
  );

  test('a quota that is used up: 429 with Retry-After', async () => {
    const { key: own } = await gateway.createKey('small');
    for (let i = 0; i < 3; i++) expect((await refusal(own)).status).toBe(101);
    const refused = await refusal(own);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(refused.headers['x-ratelimit-remaining']).toBe('0');
  });

  test('the answer arrives whole, and the connection ends with it, whatever was sent behind', async () => {
    const { responses, closed } = await rawExchange(
      gateway.port,
      `${asking('nobody')}GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`,
      { until: 'closed' },
    );
    expect(responses.map(({ status }) => status)).toEqual([401]);
    expect(closed).toBe(true);
  });
});

const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n';

describe('other routes serve the request as plain HTTP, and so do other requests', () => {
  test.each([
    ['a route without `websocket: true`', () => asking(key, '/v1/pets')],
    ['HTTP/1.0', () => asking(key).replace('HTTP/1.1', 'HTTP/1.0')],
    [
      'no upgrade in Connection',
      () => asking(key, '/v1/live', HANDSHAKE.replace('Connection: Upgrade', 'Connection: close')),
    ],
    ['h2c, which would carry requests past the gateway', () => asking(key, '/v1/live', h2c)],
    ['WebSocket where only another protocol is named', () => asking(key, '/v1/chat')],
    ['two protocols that are none of these', () => asking(key, '/v1/live', HANDSHAKE.replace('websocket', 'a, b'))],
  ])('%s (reliability 26)', async (_, bytes) => {
    const seen = upstream.plain.length;
    const { responses } = await rawExchange(gateway.port, bytes(), { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([200]);
    expect(upstream.plain).toHaveLength(seen + 1);
    expect(upstream.plain.at(-1)?.headers.upgrade).toBeUndefined();
  });
});

const NAMES =
  'h2c H2C h2 h3 HTTP HTTP/2.0 connect-udp connect-ip tcp irc/6.9 x-h2c raw TLS/1.2 SPDY/3.1 quic WebTransport foo h2c-foo prpc ssh chat chat/1 websockets';

test('on no route is a protocol tunnelled that it does not name, whatever the service would agree to (reliability 335)', async () => {
  const seen = upstream.plain.length;
  const names = NAMES.split(' ');
  for (const name of names) {
    for (const path of ['/v1/live', '/v1/chat']) {
      const { responses } = await rawExchange(
        gateway.port,
        asking(key, path, `Connection: Upgrade\r\nUpgrade: ${name}\r\n`),
        { until: 'closed' },
      );
      expect([name, ...responses.map(({ status }) => status)]).toEqual([name, 200]);
    }
  }
  expect(upstream.plain).toHaveLength(seen + 2 * names.length);
  for (const { headers } of upstream.plain.slice(seen)) expect(headers.upgrade).toBeUndefined();
});

describe('a WebSocket that is not asked for as it must be: 400, and nothing reaches the upstream', () => {
  const without = (line: RegExp) => HANDSHAKE.replace(line, '');
  test.each([
    ['two Upgrade fields', `${HANDSHAKE}Upgrade: h2c\r\n`],
    ['the same Upgrade twice', `${HANDSHAKE}Upgrade: websocket\r\n`],
    ['a list', HANDSHAKE.replace('Upgrade: websocket', 'Upgrade: websocket, h2c')],
    ['a length and a body', `${HANDSHAKE}Content-Length: 5\r\n`],
    ['a body in chunks', `${HANDSHAKE}Transfer-Encoding: chunked\r\n`],
    ['no key', without(/Sec-WebSocket-Key.*\r\n/)],
    ['two keys', `${HANDSHAKE}Sec-WebSocket-Key: ${WEBSOCKET_KEY}\r\n`],
    ['a key that is too short', HANDSHAKE.replace(WEBSOCKET_KEY, 'eA==')],
    ['a key that is no base64', HANDSHAKE.replace(WEBSOCKET_KEY, `${WEBSOCKET_KEY.slice(0, -3)}!==`)],
    ['a field of the handshake in Connection', HANDSHAKE.replace('Upgrade', 'Upgrade, Sec-WebSocket-Key')],
    ['no version', without(/Sec-WebSocket-Version.*\r\n/)],
    ['another version', HANDSHAKE.replace('13', '8')],
  ])('%s (reliability 26)', async (what, fields) => {
    const seen = upstream.asked.length + upstream.plain.length;
    const { responses, closed } = await rawExchange(
      gateway.port,
      `${asking(key, '/v1/live', fields)}5\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n`,
      { until: 'closed' },
    );
    expect(responses.map(({ status }) => status)).toEqual([400]);
    expect(responses[0]?.header('sec-websocket-version')).toBe(what.includes('version') ? '13' : null);
    expect(closed).toBe(true);
    expect(upstream.asked.length + upstream.plain.length).toBe(seen);
  });

  test('POST (reliability 26)', async () => {
    const bytes = asking(key, '/v1/live/post').replace('GET', 'POST');
    const { responses } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([400]);
  });

  test('a request line that is not as it must be (reliability 26)', async () => {
    const { responses } = await rawExchange(gateway.port, asking(key).replace('GET ', 'GET  '), { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([400]);
  });
});

test('an upgrade behind other requests on its connection waits for its turn', async () => {
  const plain = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const client = await rawClient(gateway, `${plain}${plain}${asking(key)}`);
  await eventually(() => client.bytes.includes('HTTP/1.1 101'));
  const lines = client.bytes.toString('latin1').match(/HTTP\/1\.1 \d+/g);
  expect(lines).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 101']);
  client.socket.write(Buffer.from([0x81, 0x82, 1, 2, 3, 4, 0x69, 0x6b]));
  await eventually(() => client.bytes.subarray(-4).equals(Buffer.from([0x81, 0x02, 0x68, 0x69])));
});
