import { beforeAll, describe, expect, test } from 'vitest';
import { accessLines, askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { paced } from '../support/room.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { HANDSHAKE } from '../support/web-sockets.ts';

// `timeouts` and `maxBodyBytes` of a route.

const ROUTES = `
  - { path: /quick, methods: [GET], upstream: store, timeouts: { response: 300ms }, websocket: true }
  - { path: /pauses, methods: [GET], upstream: store, timeouts: { body: 300ms } }
  - { path: /patient, methods: [GET], upstream: store, timeouts: { response: 60s } }
  - { path: /small, methods: [POST], upstream: store, maxBodyBytes: 8 }
  - { path: /large, methods: [POST], upstream: store }
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
    listen: { maxBodyBytes: '1KiB' },
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
