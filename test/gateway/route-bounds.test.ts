import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, test } from 'vitest';
import { accessLines, askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { HANDSHAKE, openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// `timeouts`, `requestTimeout`, `idleTimeout` and `maxBodyBytes` of a route.

const ROUTES = `
  - { path: /quick, methods: [GET], upstream: store, timeouts: { response: 300ms }, websocket: true }
  - { path: /pauses, methods: [GET], upstream: store, timeouts: { body: 300ms } }
  - { path: /patient, methods: [GET], upstream: store, timeouts: { response: 60s } }
  - { path: /small, methods: [POST], upstream: store, maxBodyBytes: 8 }
  - { path: /large, methods: [POST], upstream: store }
  - { path: /huge, methods: [POST], upstream: store, maxBodyBytes: 200KiB }
  - { path: /slow, methods: [POST], upstream: store, requestTimeout: ${paced(60_000)}ms }
  - { path: /hasty, methods: [POST], upstream: store, requestTimeout: ${paced(400)}ms }
  - { path: /live, methods: [GET], upstream: store, websocket: true, idleTimeout: ${paced(300)}ms }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream(async ({ url }, response, { whole }) => {
    if (url === '/quick') return;
    if (url === '/pauses') response.writeHead(200, { 'content-length': 100 }).write('begun');
    else if (url === '/patient') setTimeout(() => response.end('late'), paced(1_200));
    else if (await whole) response.end('ok');
  });
  gateway = await openGateway({
    upstream: upstream.origin,
    routes: ROUTES,
    listen: { maxBodyBytes: '1KiB', requestTimeout: `${paced(1_500)}ms`, headersTimeout: `${paced(1_000)}ms` },
    upstreamSettings: { responseTimeout: `${paced(800)}ms` },
  });
  ({ key } = await gateway.createKey('free'));
});

const send = (line: string, rest: string) =>
  rawExchange(gateway.port, `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${rest}`);

describe('the deadlines of a route replace those of its upstream:', () => {
  test.each([
    ['a request', '\r\n'],
    ['an upgrade', `${HANDSHAKE}\r\n`],
  ])('a shorter one, for %s', async (_what, fields) => {
    const { responses } = await send('GET /quick', fields);
    expect(responses[0]?.status).toBe(504);
    await gateway.process.until(/"path":"\/quick".*"cause":"[^"]* within (?:300|[12]?\d?\d) ms"/);
  });

  test('a longer one', async () => {
    expect((await send('GET /patient', '\r\n')).responses[0]?.status).toBe(200);
  });

  test('and one for pauses within the body', async () => {
    const bytes = `GET /pauses HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const { reset } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(reset).toBe(true);
  });
});

describe('413 payload_too_large: a body beyond what the route allows (reliability 66)', () => {
  test('is refused by its declared length, costs nothing and reaches nobody', async () => {
    const seen = upstream.requests.length;
    const { responses } = await send('POST /small', 'Content-Length: 9\r\n\r\n123456789');
    expect(responses[0]?.status).toBe(413);
    expect(upstream.requests).toHaveLength(seen);
    expect(accessLines(gateway).filter(({ path, plan }) => path === '/small' && plan === 'free')).toEqual([]);
  });

  test('is refused in chunks, and the service never gets it whole', async () => {
    const seen = upstream.requests.length;
    const chunked = 'Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n';
    expect((await send('POST /small', chunked)).responses[0]?.status).toBe(413);
    for (const request of upstream.requests.slice(seen)) expect(await request.whole).toBe(false);
  });

  test('and up to it, or on another route, it passes', async () => {
    const lengthOf = (body: string) => `Content-Length: ${body.length}\r\n\r\n${body}`;
    expect((await send('POST /small', lengthOf('12345678'))).responses[0]?.status).toBe(200);
    expect((await send('POST /large', lengthOf('123456789'))).responses[0]?.status).toBe(200);
  });

  test('over HTTP/2 alike', async () => {
    const encrypted = await openEncrypted({ upstream: upstream.origin, routes: ROUTES });
    const { key: own } = await encrypted.gateway.createKey('free');
    const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
    const headers = { authorization: `Bearer ${own}` };
    const ask = (body: string) => askHttp2(session, { path: '/small', method: 'POST', headers, body });
    expect((await ask('12345678')).status).toBe(200);
    expect((await ask('123456789')).status).toBe(413);
  });
});

describe('a route that allows larger bodies than the listener (reliability 539)', () => {
  const SIZE = 200 * 1024;
  const sized = (size: number) => `Content-Length: ${size}\r\n\r\n${'a'.repeat(size)}`;
  const chunked = (size: number) =>
    `Transfer-Encoding: chunked\r\n\r\n${size.toString(16)}\r\n${'a'.repeat(size)}\r\n0\r\n\r\n`;
  const status = async (line: string, rest: string) => (await send(line, rest)).responses[0]?.status;

  test('takes them, and no larger ones', async () => {
    for (const body of [sized, chunked]) {
      expect(await status('POST /huge', body(SIZE))).toBe(200);
      expect(await status('POST /huge', body(SIZE + 1))).toBe(413);
    }
  });

  test('changes nothing for others, nor for another spelling of its path or a path without a route', async () => {
    for (const path of ['/large', '/HUGE', '/huge/', '/%68uge', '/nowhere'])
      for (const body of [sized, chunked])
        expect([400, 404, 413], path).toContain(await status(`POST ${path}`, body(2_000)));
    expect(await status('POST /large', sized(1_025))).toBe(413);
    expect(await status('POST /nowhere', sized(1_025))).toBe(413);
  });

  test('over HTTP/2 as well', async () => {
    const encrypted = await openEncrypted({
      upstream: upstream.origin,
      routes: ROUTES,
      listen: { maxBodyBytes: '1KiB' },
    });
    const { key: own } = await encrypted.gateway.createKey('endless');
    const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
    const ask = async (path: string, size: number) =>
      (
        await askHttp2(session, {
          path,
          method: 'POST',
          body: 'a'.repeat(size),
          headers: { authorization: `Bearer ${own}` },
        })
      ).status;
    expect([await ask('/huge', SIZE), await ask('/large', 2_000)]).toEqual([200, 413]);
  });
});

describe('the time that a client has for a request of a route (reliability 540)', () => {
  const half = async (path: string) => {
    const begun = stopwatch();
    const bytes = `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 10\r\n\r\nhalf`;
    const { responses } = await rawExchange(gateway.port, bytes, { until: 'closed', withinMs: 6_000 });
    return { status: responses[0]?.status, ms: begun() };
  };

  test('may be shorter than that of the listener, and changes nothing for other routes', async () => {
    const [hasty, other] = await Promise.all([half('/hasty'), half('/large')]);
    expect([hasty.status, other.status]).toEqual([408, 408]);
    expect(hasty.ms).toBeLessThan(other.ms);
    expect(other.ms).toBeGreaterThan(paced(1_500) - 20);
  });

  test('may be longer', async () => {
    const other = half('/large');
    const socket = connect(gateway.port, '127.0.0.1');
    const answer = text(socket);
    socket.write(
      `POST /slow HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\nContent-Length: 4\r\n\r\nab`,
    );
    expect((await other).status).toBe(408);
    socket.write('cd');
    expect(await answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('is that of the stream over HTTP/2', async () => {
    const encrypted = await openEncrypted({ upstream: upstream.origin, routes: ROUTES });
    const { key: own } = await encrypted.gateway.createKey('endless');
    const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
    const stream = session.request(
      { ':path': '/hasty', ':method': 'POST', authorization: `Bearer ${own}` },
      { endStream: false },
    );
    stream.on('error', () => {});
    stream.write('half');
    const [headers] = (await once(stream, 'response')) as [{ ':status': number }];
    expect(headers[':status']).toBe(408);
    stream.close();
  });
});

test('a WebSocket of a route ends after its idle time, and that of others does not', async () => {
  const service = await startWebSocketUpstream();
  const open = await openGateway({ upstream: service.origin, routes: ROUTES });
  const { key: own } = await open.createKey('endless');
  const [idle, other] = [await openWebSocket(open, own, '/live'), await openWebSocket(open, own, '/quick')];
  await once(idle.socket, 'close');
  expect(other.socket.readyState).toBe(other.socket.OPEN);
  other.socket.terminate();
});
