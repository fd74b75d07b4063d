import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import { brotliDecompressSync, createGunzip, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// `compression`: what the service sends plain is compressed for clients that ask for it.

const TEXT = JSON.stringify(Array.from({ length: 2_000 }, (_, i) => ({ id: i, name: `pet number ${i % 7}` })));
const ROUTES = `
  - { path: '/big/**', methods: [GET, HEAD, POST], upstream: store }
  - { path: '/off/**', methods: [GET], upstream: store, compression: off }
  - { path: '/gzip/**', methods: [GET], upstream: store, compression: { encodings: [gzip], minBytes: 0B } }
  - { path: '/private/**', methods: [GET], upstream: store, headers: { response: { remove: [Cache-Control] } } }
  - { path: '/ruled/**', methods: [GET], upstream: store, headers: { response: { set: { Cache-Control: no-store } } } }
`;
const DECODERS = { zstd: zstdDecompressSync, br: brotliDecompressSync, gzip: gunzipSync };
const UPSTREAM = { compression: '{}', fairShare: 1 };

/** Text that hardly becomes shorter. */
const PIECE = randomBytes(48 * 1024).toString('base64');

let upstream: Upstream;
let gateway: TestGateway;
let key: string;
/** Resolved when a client's leaving has reached the service. */
let left = Promise.withResolvers<void>();
/** How many bytes the endless service has written. */
let sent = 0;
/** Breaks the response of the broken service off. */
let breakOff = () => {};
/** Lets a slow service go on. */
let goOn = Promise.withResolvers<void>();

beforeAll(async () => {
  upstream = await startUpstream(async (request, response) => {
    const what = request.url!.split('/').at(-1)!;
    const type = { 'content-type': 'application/json' };
    if (what === 'small') response.writeHead(200, { ...type, 'content-length': 2 }).end('{}');
    else if (what === 'chunked') response.writeHead(200, { ...type, 'accept-ranges': 'bytes' }).end(TEXT);
    else if (what === 'cookie') response.writeHead(200, { ...type, 'set-cookie': 'a=b' }).end(TEXT);
    else if (what === 'secret') response.writeHead(200, { ...type, 'cache-control': 'private' }).end(TEXT);
    else if (what === 'strong') response.writeHead(200, { ...type, etag: '"a"' }).end(TEXT);
    else if (what === 'coded') response.writeHead(200, { ...type, 'content-encoding': 'x' }).end(TEXT);
    else if (what === 'part') response.writeHead(206, { ...type, 'content-range': 'bytes 0-1/9' }).end(TEXT);
    else if (what === 'image') response.writeHead(200, { 'content-type': 'image/png' }).end(TEXT);
    else if (what === 'events') response.writeHead(200, { 'content-type': 'text/event-stream' }).end(TEXT);
    else if (what === 'unchanged') response.writeHead(304, { etag: 'W/"a"' }).end();
    else if (what === 'broken') {
      response.writeHead(200, { ...type, 'content-length': 1_000_000 }).write(TEXT);
      breakOff = () => request.socket.destroy();
    } else if (what === 'slow') {
      response.writeHead(200, type).write('{"first":1}');
      await goOn.promise;
      response.end(',{"second":2}');
    } else if (what === 'endless') {
      response.writeHead(200, type);
      response.on('close', () => left.resolve());
      const more = () => {
        do sent += PIECE.length;
        while (!response.destroyed && sent < 256 * 1024 * 1024 && response.write(PIECE));
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    } else response.writeHead(200, { ...type, 'content-length': TEXT.length }).end(TEXT);
  });
  gateway = await openGateway({ upstream: upstream.origin, upstreamSettings: UPSTREAM, routes: ROUTES });
  ({ key } = await gateway.createKey('endless'));
});

const requestFor = (path: string, fields: string, method = 'GET', version = '1.1', own = key) =>
  `${method} ${path} HTTP/${version}\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n${fields}\r\n`;

async function ask(path: string, fields = 'Accept-Encoding: gzip, br, zstd\r\n', method = 'GET', version = '1.1') {
  const { responses } = await rawExchange(gateway.port, requestFor(path, fields, method, version), {
    methods: [method],
    ...(version === '1.0' ? { until: 'closed' as const } : {}),
  });
  return responses.at(-1)!;
}

describe('a response', () => {
  test.each(['zstd', 'br', 'gzip'] as const)('is compressed with %s for a client that asks for it', async (coding) => {
    for (const what of ['length', 'chunked']) {
      const response = await ask(`/big/${what}`, `Accept-Encoding: ${coding}\r\n`);
      expect(response.header('content-encoding')).toBe(coding);
      expect(response.header('content-length')).toBeNull();
      expect(response.header('accept-ranges')).toBeNull();
      expect(response.header('vary')).toBe('Accept-Encoding');
      expect(response.header('x-ratelimit-limit')).not.toBeNull();
      expect(response.complete).toBe(true);
      expect(response.body.length).toBeLessThan(TEXT.length / 3);
      expect(DECODERS[coding](response.body).toString()).toBe(TEXT);
    }
  });

  test('is compressed as the client and the route prefer', async () => {
    expect((await ask('/big/x')).header('content-encoding')).toBe('zstd');
    expect((await ask('/big/x', 'Accept-Encoding: gzip, br;q=0.9\r\n')).header('content-encoding')).toBe('gzip');
    expect((await ask('/gzip/x')).header('content-encoding')).toBe('gzip');
    expect((await ask('/gzip/small')).header('content-encoding')).toBe('gzip');
    const refused = await ask('/big/small', 'Accept-Encoding: gzip, identity;q=0\r\n');
    expect(gunzipSync(refused.body).toString()).toBe('{}');
  });

  test.each(['', 'Accept-Encoding: identity\r\n', 'Accept-Encoding: gzip;q=0\r\n', 'Accept-Encoding: gzip;q=x\r\n'])(
    'is plain for %j, and says that it depends on it',
    async (accept) => {
      const response = await ask('/big/x', accept);
      expect(response.header('content-encoding')).toBeNull();
      expect(response.header('content-length')).toBe(String(TEXT.length));
      expect(response.header('vary')).toBe('Accept-Encoding');
      expect(response.body.toString()).toBe(TEXT);
    },
  );

  test.each(['cookie', 'secret', 'strong', 'part', 'image', 'events'])(
    'that is secret, a part or no text is plain: %s (reliability 179)',
    async (what) => {
      const response = await ask(`/big/${what}`);
      expect(response.header('content-encoding')).toBeNull();
      expect(response.header('vary')).toBeNull();
      expect(response.body.toString()).toBe(TEXT);
    },
  );

  test('to a request with a cookie is plain, and so is one that a rule makes or made secret (reliability 179)', async () => {
    const cookie = await ask('/big/x', 'Accept-Encoding: gzip\r\nCookie: session=1\r\n');
    expect([cookie.header('content-encoding'), cookie.body.toString()]).toEqual([null, TEXT]);
    expect((await ask('/private/secret')).header('content-encoding')).toBeNull();
    expect((await ask('/private/x')).header('content-encoding')).toBe('zstd');
    expect((await ask('/ruled/x')).header('content-encoding')).toBeNull();
  });

  test('that is small, coded, off, 304 or to HTTP/1.0 is as the service sent it', async () => {
    const small = await ask('/big/small');
    expect([small.header('content-encoding'), small.header('vary')]).toEqual([null, 'Accept-Encoding']);
    expect((await ask('/big/coded')).header('content-encoding')).toBe('x');
    const off = await ask('/off/x');
    expect([off.header('content-encoding'), off.header('vary')]).toEqual([null, null]);
    expect((await ask('/big/unchanged')).header('vary')).toBe('Accept-Encoding');
    const old = await ask('/big/x', undefined, 'GET', '1.0');
    expect([old.header('content-encoding'), old.body.toString()]).toEqual([null, TEXT]);
  });

  test('to HEAD has no length that the compressed response to GET would not have, and else that of GET (reliability 338)', async () => {
    const lengthOf = async (...asked: Parameters<typeof ask>) => {
      const head = await ask(...asked);
      return [head.header('content-encoding'), head.header('content-length'), head.header('vary')];
    };
    const length = String(TEXT.length);
    expect(await lengthOf('/big/x', undefined, 'HEAD')).toEqual([null, null, 'Accept-Encoding']);
    expect(await lengthOf('/big/x', 'Accept-Encoding: identity\r\n', 'HEAD')).toEqual([
      null,
      length,
      'Accept-Encoding',
    ]);
    expect(await lengthOf('/big/x', undefined, 'HEAD', '1.0')).toEqual([null, length, 'Accept-Encoding']);
    expect(await lengthOf('/big/small', undefined, 'HEAD')).toEqual([null, '2', 'Accept-Encoding']);
  });

  test('on a kept connection each is by itself', async () => {
    const fields = 'Accept-Encoding: gzip\r\n';
    const paths = ['/big/x', '/off/x', '/big/chunked', '/big/small'];
    const parts = paths.map((path) => requestFor(path, fields));
    const { responses } = await rawExchange(gateway.port, parts.join(''), { until: 4 });
    expect(responses.map((response) => response.header('content-encoding'))).toEqual(['gzip', null, 'gzip', null]);
    expect(gunzipSync(responses[2]!.body).toString()).toBe(TEXT);
  });
});

test('what a slow service has sent arrives before it goes on', async () => {
  goOn = Promise.withResolvers();
  const socket = createConnection(gateway.port, '127.0.0.1');
  let received = Buffer.alloc(0);
  socket.on('data', (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
  });
  socket.write(requestFor('/big/slow', 'Accept-Encoding: gzip\r\n'));
  const decoded = async () => {
    const text = received.toString('latin1');
    const body = text.slice(text.indexOf('\r\n\r\n') + 4);
    const bytes = [...body.matchAll(/([0-9a-f]+)\r\n/g)].length === 0 ? '' : unchunked(body);
    const gunzip = createGunzip({ finishFlush: 2 });
    gunzip.end(Buffer.from(bytes, 'latin1'));
    let plain = '';
    for await (const piece of gunzip) plain += piece;
    return plain;
  };
  await eventually(async () => expect(await decoded()).toBe('{"first":1}'));
  goOn.resolve();
  await eventually(async () => expect(await decoded()).toBe('{"first":1},{"second":2}'));
  expect(received.toString('latin1').endsWith('0\r\n\r\n')).toBe(true);
  socket.destroy();
});

function unchunked(text: string): string {
  let body = '';
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\r\n', at);
    const size = Number.parseInt(text.slice(at, end), 16);
    if (end === -1 || size === 0) break;
    body += text.slice(end + 2, end + 2 + size);
    at = end + 4 + size;
  }
  return body;
}

test('a response that breaks off looks broken: a reset and no end (reliability 180)', async () => {
  const socket = createConnection(gateway.port, '127.0.0.1');
  let received = '';
  let error: NodeJS.ErrnoException | null = null;
  socket.on('data', (bytes) => {
    received += bytes.toString('latin1');
  });
  socket.on('error', (reason) => {
    error = reason;
  });
  const closed = once(socket, 'close').catch(() => {});
  socket.write(requestFor('/big/broken', 'Accept-Encoding: gzip\r\n'));
  await eventually(() => expect(received).toMatch(/\r\ncontent-encoding: gzip\r\n[\s\S]*\r\n\r\n/i));
  breakOff();
  await closed;
  expect(received.endsWith('0\r\n\r\n')).toBe(false);
  expect(error).toMatchObject({ code: 'ECONNRESET' });
});

test('a client that does not read holds the service up, and one that leaves ends it (reliability 180)', async () => {
  left = Promise.withResolvers();
  const socket = createConnection(gateway.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(requestFor('/big/endless', 'Accept-Encoding: gzip\r\n'));
  await once(socket, 'readable');
  // Once the buffers of both connections are full, nothing more is read.
  let [before, still] = [-1, 0];
  await eventually(() => {
    still = sent === before ? still + 1 : 0;
    before = sent;
    expect(still).toBeGreaterThan(40);
  });
  expect(sent).toBeGreaterThan(0);
  expect(sent).toBeLessThan(64 * 1024 * 1024);
  socket.destroy();
  await left.promise;
});

/** Asks the slow service on a connection of its own, compressed. */
function askSlow(port: number, own: string) {
  const socket = createConnection(port, '127.0.0.1');
  let text = '';
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1');
  });
  socket.write(requestFor('/big/slow', 'Accept-Encoding: gzip\r\n', 'GET', '1.1', own));
  return { socket, text: () => text };
}

test('more responses than may be compressed at a time are plain, and when some have ended there is room again (reliability 180)', async () => {
  goOn = Promise.withResolvers();
  const slow = Array.from({ length: 70 }, () => askSlow(gateway.port, key));
  await eventually(() => expect(slow.every(({ text }) => text().includes('\r\n\r\n'))).toBe(true));
  const compressed = () => slow.filter(({ text }) => /^content-encoding: gzip/im.test(text())).length;
  expect(compressed()).toBe(64);
  expect((await ask('/big/x')).header('content-encoding')).toBeNull();
  for (const { socket } of slow.slice(0, 35)) socket.destroy();
  goOn.resolve();
  await eventually(() => expect(slow.slice(35).every(({ text }) => text().endsWith('0\r\n\r\n'))).toBe(true));
  await eventually(async () => expect((await ask('/big/x')).header('content-encoding')).toBe('zstd'));
  for (const { socket } of slow) socket.destroy();
});

test('one consumer has its share of the compressed responses, and another one is compressed beside it (reliability 221)', async () => {
  goOn = Promise.withResolvers();
  const shared = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: { compression: '{}' },
    routes: ROUTES,
  });
  const [hog, other] = [await shared.createKey('endless'), await shared.createKey('endless')];
  const slow = Array.from({ length: 40 }, () => askSlow(shared.port, hog.key));
  const heads = (all: typeof slow) => all.filter(({ text }) => text().includes('\r\n\r\n'));
  await eventually(() => expect(heads(slow).length).toBe(40));
  expect(heads(slow).filter(({ text }) => /^content-encoding: gzip/im.test(text())).length).toBe(16);
  const beside = askSlow(shared.port, other.key);
  await eventually(() => expect(beside.text()).toMatch(/^content-encoding: gzip/im));
  goOn.resolve();
  for (const { socket } of [...slow, beside]) socket.destroy();
});

test('over HTTP/2 it is the same', async () => {
  const encrypted = await openEncrypted({
    upstream: upstream.origin,
    upstreamSettings: UPSTREAM,
    routes: ROUTES,
  });
  const own = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const stream = session.request({
    ':path': '/big/x',
    authorization: `Bearer ${own.key}`,
    'accept-encoding': 'br',
  });
  const [headers] = (await once(stream, 'response')) as [Record<string, string>];
  const pieces = await Array.fromAsync(stream as AsyncIterable<Buffer>);
  expect(headers['content-encoding']).toBe('br');
  expect(brotliDecompressSync(Buffer.concat(pieces)).toString()).toBe(TEXT);
  session.destroy();
});
