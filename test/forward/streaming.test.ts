import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createConnection } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { type GatewaySetup, openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startRawUpstream, startUpstream, type Upstream } from '../support/upstream.ts';

// What moves while a request is under way: interim answers, answers in pieces, answers that come early.

let gateway: TestGateway;
let upstream: Upstream;
let key: string;
let spent: string;
const streams: ServerResponse[] = [];

beforeAll(async () => {
  upstream = await startUpstream(async (request, response, { whole }) => {
    if (!request.url?.includes('events')) {
      if (await whole) response.end('{"ok":true}');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    streams.push(response);
  });
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
  ({ key: spent } = await gateway.createKey('closed'));
});

test('server-sent events arrive one by one, each at once, and the head before them', async () => {
  const socket = createConnection(gateway.port, '127.0.0.1');
  let text = '';
  socket.setEncoding('latin1').on('data', (more: string) => {
    text += more;
  });
  socket.write(`GET /v1/pets?events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  // The head alone, before there is any event.
  await eventually(() => expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\n\r\n$/s));
  for (const event of ['one', 'two', 'three']) {
    streams[0]?.write(`data: ${event}\n\n`);
    await eventually(() => expect(text).toContain(`data: ${event}`), { everyMs: 2 });
    // The next is not written before this one is there: what is held until more comes never is.
  }
  socket.destroy();
});

const expecting = (own: string, path = '/v1/pets') =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`;
const statuses = async (bytes: string | string[]) =>
  (await rawExchange(gateway.port, bytes, { pauseMs: 60 })).responses.map(({ status }) => status);

test('100 Continue is said after admission only: a refused client never sends its body', async () => {
  const seen = upstream.requests.length;
  expect(await statuses([expecting(key), '{}'])).toEqual([100, 200]);
  expect(await statuses(expecting('wrong'))).toEqual([401]);
  expect(await statuses(expecting(spent))).toEqual([429]);
  expect(await statuses(expecting(key, '/v1/none'))).toEqual([404]);
  expect(upstream.requests).toHaveLength(seen + 1);
});

test('a client that does not wait for 100 Continue is served all the same', async () => {
  expect((await statuses(`${expecting(key)}{}`)).at(-1)).toBe(200);
  expect(upstream.requests.at(-1)?.body.toString()).toBe('{}');
});

test.each(['websocket', 'h2c'])(
  'an Upgrade to %s is served as plain HTTP: no 101, one request (reliability 26)',
  async (protocol) => {
    const seen = upstream.requests.length;
    const fields = `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: ${protocol}\r\nHTTP2-Settings: AAMAAABk\r\nSec-WebSocket-Key: eA==\r\n`;
    expect(await statuses(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`)).toEqual(
      [200],
    );
    expect(upstream.requests).toHaveLength(seen + 1);
    expect(upstream.requests.at(-1)?.values('upgrade')).toEqual([]);
  },
);

describe('interim answers of the service', () => {
  const INTERIM = [102, 103, 104, 150]
    .map(
      (status) =>
        `HTTP/1.1 ${status} Any\r\nLink: </a.css>; rel=preload\r\nContent-Length: 14\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n`,
    )
    .join('');

  /** A gateway before a service that sends all of them. @returns asks it, for all responses */
  const startBehind = async (setup: Partial<GatewaySetup> = {}) => {
    const hinting = await startRawUpstream((socket) =>
      socket.write(`${INTERIM}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}`),
    );
    const alone = await openGateway({ upstream: hinting.origin, ...setup });
    const own = await alone.createKey('free');
    return async (fields = '', line = 'GET /v1/pets HTTP/1.1') => {
      const head = `${line}\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer ${own.key}\r\n${fields}\r\n`;
      return (await rawExchange(alone.port, head, { until: 'closed' })).responses;
    };
  };
  const NAVIGATE = 'Sec-Fetch-Mode: navigate\r\n';

  test('reach a client of HTTP/1.1 only if it shows that it expects them (reliability 82, 336)', async () => {
    const ask = await startBehind();
    const got = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).map(({ status }) => status);
    expect(await got()).toEqual([200]);
    expect(await got('Sec-Fetch-Mode: cors\r\n')).toEqual([200]);
    expect(await got(NAVIGATE)).toEqual([102, 103, 150, 200]);
    expect(await got('Upload-Complete: ?0\r\n')).toEqual([104, 200]);
    expect(await got(`${NAVIGATE}Upload-Complete: ?0\r\n`)).toEqual([102, 103, 104, 150, 200]);
    expect(await got(`${NAVIGATE}Upload-Complete: ?0\r\n`, 'GET /v1/pets HTTP/1.0')).toEqual([200]);
    const [, hints] = await ask(NAVIGATE);
    const seen = ['link', 'x-hop', 'content-length'].map((name) => hints?.header(name));
    expect(seen).toEqual(['</a.css>; rel=preload', null, null]);
  });

  test('do not reach a proxy of HTTP/1.1, whatever its client can (reliability 336)', async () => {
    const ask = await startBehind({ listen: { trustedProxies: '[127.0.0.1]' } });
    expect((await ask(`${NAVIGATE}X-Forwarded-For: 192.0.2.1\r\n`)).map(({ status }) => status)).toEqual([200]);
  });

  test('reach a client of HTTP/2 (reliability 336)', async () => {
    const hinting = await startRawUpstream((socket) =>
      socket.write(`${INTERIM}HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\n{}`),
    );
    const { gateway: encrypted, ca } = await openEncrypted({ upstream: hinting.origin });
    const own = await encrypted.createKey('free');
    const session = await openHttp2(encrypted.port, ca);
    const stream = session.request({ ':path': '/v1/pets', authorization: `Bearer ${own.key}` });
    const got: unknown[] = [];
    stream.on('headers', (head) => got.push(head[':status'], head['x-hop']));
    const [head] = await once(stream, 'response');
    expect(got).toEqual([102, undefined, 103, undefined, 104, undefined, 150, undefined]);
    // node:http2 sends no status beyond 599.
    expect(head[':status']).toBe(502);
    stream.resume();
  });
});

test('an early final answer to an upload is passed on, and both connections are closed behind it (reliability 22, 84)', async () => {
  const hasty = await startRawUpstream((socket) => {
    socket.write('HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\n{}');
  });
  const alone = await openGateway({ upstream: hasty.origin });
  const own = await alone.createKey('free');
  for (const framing of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
    const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own.key}\r\n${framing}\r\n\r\n`;
    const { responses, closed } = await rawExchange(alone.port, [head, '4\r\nhalf\r\n'], {
      until: 'closed',
      pauseMs: 30,
    });
    expect(responses.map(({ status }) => status)).toEqual([413]);
    expect(responses[0]?.body.toString()).toBe('{}');
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
  }
  // The upstream's connection has a request on it that was never ended: nothing else may follow on it.
  await eventually(() => expect(hasty.open).toBe(0));
  expect(hasty.connections).toBe(2);
});
