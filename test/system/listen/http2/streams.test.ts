import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../../support/conditions.ts';
import {
  type Answer,
  type Ask,
  accessLines,
  askHttp1,
  askHttp2,
  type EncryptedGateway,
  metricsOf,
  openEncrypted,
  openHttp2,
  startEncrypted,
} from '../../../support/encrypted.ts';
import type { GatewaySetup } from '../../../support/gateway.ts';
import { CODE, FLAG, fieldBlock, frame, pseudo, rstStream, TYPE } from '../../../support/http2-frames.ts';
import { openRawSession } from '../../../support/raw-http2.ts';
import { LATE_MS, paced } from '../../../support/room.ts';
import { stopwatch } from '../../../support/stopwatch.ts';
import { startRawUpstream, startUpstream, type Upstream } from '../../../support/upstream.ts';

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

async function start(setup: Partial<GatewaySetup> = {}, plan = 'free', begin = openEncrypted) {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream(async (request, response, { whole }) => {
    if (request.url?.includes('hold')) held.push(response);
    else if (await whole) response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
  });
  const encrypted = await begin({ upstream: upstream.origin, ...setup });
  const { key } = await encrypted.gateway.createKey(plan);
  return { ...encrypted, upstream, held, key };
}

/** The head of a stream, or how it was reset. */
async function outcomeOf(stream: ClientHttp2Stream): Promise<number | string> {
  return new Promise((resolve) => {
    stream.once('response', (head) => resolve(Number(head[':status'])));
    stream.once('error', () => {});
    stream.once('close', () => resolve(`reset ${stream.rstCode}`));
    stream.resume();
  });
}

describe('the same request over HTTP/1.1 and HTTP/2 has the same answer, the same verdict and the same log line:', () => {
  let it: EncryptedGateway & { upstream: Upstream; key: string };
  let session: ClientHttp2Session;
  let asked = 0;

  beforeAll(async () => {
    it = await start({ listen: { maxBodyBytes: '1KiB', trustedProxies: '[127.0.0.1]' } }, 'endless');
    session = await openHttp2(it.gateway.port, it.ca);
  });

  /** Ids and times differ, and what belongs to the connection is not told over HTTP/2. */
  const comparable = ({ status, fields, body }: Answer) => ({
    status,
    body,
    fields: fields
      .filter(([name]) => !['connection', 'keep-alive', 'transfer-encoding'].includes(name))
      .map(([name, value]) => [name, /^(date|x-ratelimit-re.*)$/.test(name) ? '*' : value])
      .map(([name, value]) => [name, value?.replace(/;[tr]=\d+/g, '')]),
  });
  const asks: Record<string, (key: string) => Ask> = {
    GET: (key) => ({ path: '/v1/pets?a=%20b&a=c', headers: bearer(key) }),
    HEAD: (key) => ({ path: '/v1/pets', method: 'HEAD', headers: bearer(key) }),
    'a deprecated route': (key) => ({ path: '/v1/pets/7', headers: bearer(key) }),
    'a route that is gone': (key) => ({ path: '/v1/gone', headers: bearer(key) }),
    'POST with a length': (key) => ({
      path: '/v1/pets',
      method: 'POST',
      headers: { ...bearer(key), 'content-length': '4' },
      body: 'body',
    }),
    'POST without a body': (key) => ({ path: '/v1/pets', method: 'POST', headers: bearer(key) }),
    'a body that is too long': (key) => ({
      path: '/v1/pets',
      method: 'POST',
      headers: { ...bearer(key), 'content-length': '2000' },
      body: 'x'.repeat(2000),
    }),
    'a GET with a body': (key) => ({
      path: '/v1/pets',
      headers: { ...bearer(key), 'content-length': '1' },
      body: 'x',
    }),
    'no key': () => ({ path: '/v1/pets' }),
    'a wrong key': () => ({ path: '/v1/pets', headers: bearer('nonsense') }),
    'an unknown path': (key) => ({ path: '/v1/none', headers: bearer(key) }),
    'an unknown method': (key) => ({ path: '/v1/pets', method: 'DELETE', headers: bearer(key) }),
    TRACE: (key) => ({ path: '/v1/pets', method: 'TRACE', headers: bearer(key) }),
    'a path with dots': (key) => ({ path: '/v1/x/../pets', headers: bearer(key) }),
    'a target that is too long': (key) => ({ path: `/${'a'.repeat(9_000)}`, headers: bearer(key) }),
    'fields that are too large': (key) => ({ path: '/', headers: { ...bearer(key), x: 'a'.repeat(16_500) } }),
    'an expectation that nobody meets': (key) => ({
      path: '/v1/pets',
      method: 'POST',
      headers: { ...bearer(key), expect: 'miracles', 'content-length': '1' },
      body: 'x',
    }),
  };

  test.each(Object.entries(asks))('%s', async (what, make) => {
    const id = what.replaceAll(' ', '-');
    const { headers, ...ask } = make(it.key);
    // Each from an address of its own: requests of one address that are refused without a key share a line.
    const askFrom = (address: string) => ({
      ...ask,
      headers: { ...headers, 'x-request-id': id, 'x-forwarded-for': address },
    });
    const seen = it.upstream.requests.length;
    const addresses = [`198.51.100.${++asked}`, `203.0.113.${asked}`] as const;
    const first = await askHttp1(it.gateway.port, it.ca, askFrom(addresses[0]));
    const second = await askHttp2(session, askFrom(addresses[1]));
    expect(comparable(second)).toEqual(comparable(first));
    const lines = () => accessLines(it.gateway).filter(({ requestId }) => requestId === id);
    await eventually(() => expect(lines()).toHaveLength(2));
    const [one, other] = lines().map(({ time, decidedAtMs, totalMs, storeMs, upstreamMs, source, ...line }) => line);
    expect([one?.clientAddress, other?.clientAddress]).toEqual(addresses);
    expect({ ...other, clientAddress: null }).toEqual({ ...one, clientAddress: null });
    const [sent, alike] = it.upstream.requests.slice(seen);
    const isForwarded = sent !== undefined;
    expect(other).toMatchObject({
      upstream: isForwarded ? 'store' : null,
      target: isForwarded ? it.upstream.origin : null,
    });
    if (!isForwarded) return;
    expect([alike?.method, alike?.url, alike?.body.toString()]).toEqual([sent.method, sent.url, sent.body.toString()]);
    expect([sent, alike].map((request) => request?.values('x-forwarded-for'))).toEqual(
      addresses.map((address) => [`${address}, 127.0.0.1`]),
    );
    for (const name of ['x-forwarded-proto', 'x-forwarded-host', 'content-length', 'host']) {
      expect([name, alike?.values(name)]).toEqual([name, sent.values(name)]);
    }
    expect([sent, alike].map((request) => request?.values('via')[0]?.split(' ')[0])).toEqual(['1.1', '2.0']);
  });
});

test('a body without a declared length streams through in both directions, however long', async () => {
  const upstream = await startUpstream(
    (request, response) => {
      request.pipe(response);
    },
    { readBody: false },
  );
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin, listen: { maxBodyBytes: '16MiB' } });
  const { key } = await gateway.createKey('free');
  const session = await openHttp2(gateway.port, ca);
  const stream = session.request({ ':path': '/v1/pets', ':method': 'POST', ...bearer(key) });
  const piece = Buffer.alloc(100_000, 'x');
  let sent = 0;
  let echoed = 0;
  stream.on('data', (chunk: Buffer) => {
    echoed += chunk.length;
  });
  for (; sent < 5_000_000; sent += piece.length) if (!stream.write(piece)) await once(stream, 'drain');
  stream.end();
  await once(stream, 'end');
  expect(echoed).toBe(sent);
  expect(upstream.requests[0]?.values('transfer-encoding')).toEqual(['chunked']);
});

test('a client that does not take its answer holds the upstream back, and the others go on (reliability 63)', async () => {
  let written = 0;
  const upstream = await startUpstream((request, response) => {
    if (!request.url?.includes('flood')) return response.end('{}');
    response.writeHead(200);
    const more = () => {
      while (written < 65_000_000 && !response.destroyed) {
        written += 65_536;
        if (!response.write(Buffer.alloc(65_536))) return;
      }
      response.end();
    };
    response.on('drain', more);
    more();
  });
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin, listen: { writeTimeout: '700ms' } });
  const { key } = await gateway.createKey('free');
  const session = await openHttp2(gateway.port, ca);
  const stuck = session.request({ ':path': '/v1/pets?flood', ...bearer(key) });
  stuck.on('error', () => {});
  await once(stuck, 'response');
  const stop = stopwatch();
  expect((await askHttp2(session, { path: '/v1/pets', headers: bearer(key) })).status).toBe(200);
  stuck.pause();
  await eventually(() => expect(accessLines(gateway).some((line) => line.status === 499)).toBe(true), {
    withinMs: 3_000,
  });
  expect(stop()).toBeLessThan(700 + LATE_MS);
  expect(written).toBeLessThan(20_000_000);
  expect((await askHttp2(session, { path: '/v1/pets', headers: bearer(key) })).status).toBe(200);
});

test('100 Continue and 103 Early Hints come before the answer', async () => {
  const upstream = await startUpstream(async (_request, response, { whole }) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' });
    if (await whole) response.end('{}');
  });
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  const session = await openHttp2(gateway.port, ca);
  const headers = { ...bearer(key), expect: '100-continue', 'content-length': '2' };
  const stream = session.request({ ':path': '/v1/pets', ':method': 'POST', ...headers });
  const hints: unknown[] = [];
  stream.on('headers', (head) => hints.push(head[':status'], head.link));
  await once(stream, 'continue');
  stream.end('{}');
  const [head] = await once(stream, 'response');
  expect(head[':status']).toBe(200);
  expect(hints.slice(-2)).toEqual([103, '</style.css>; rel=preload']);
  stream.resume();
});

test('crumbs of a cookie are joined, trailers end here, and no field of the connection reaches either side', async () => {
  const upstream = await startUpstream((_request, response) => {
    response.writeHead(200, { 'set-cookie': ['a=1', 'b=2'], 'keep-alive': 'timeout=5' }).end('{}');
  });
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  const session = await openHttp2(gateway.port, ca);
  const stream = session.request(
    { ':path': '/v1/pets', ':method': 'POST', ...bearer(key), cookie: ['a=1', 'b=2'], te: 'trailers' },
    { waitForTrailers: true },
  );
  stream.on('wantTrailers', () => stream.sendTrailers({ 'x-checksum': '1' }));
  stream.end('{}');
  const [head] = await once(stream, 'response');
  stream.resume();
  await once(stream, 'close');
  expect(head['set-cookie']).toEqual(['a=1', 'b=2']);
  expect(Object.keys(head)).not.toContain('keep-alive');
  const [sent] = upstream.requests;
  expect(sent?.values('cookie')).toEqual(['a=1; b=2']);
  expect([sent?.values('te'), sent?.values('x-checksum')]).toEqual([[], []]);
  expect(sent?.body.toString()).toBe('{}');
});

/** What nghttp2 leaves out by itself before anybody is asked. */
const DROPPED: [string, [string, string][]][] = [
  ['a line end in a value', [...pseudo('/v1/pets'), ['x', 'a\r\nx-consumer-id: b']]],
  ['a line feed in a value', [...pseudo('/v1/pets'), ['x', 'a\nb']]],
  ['a NUL in a value', [...pseudo('/v1/pets'), ['x', 'a\0b']]],
  ['a space before a value', [...pseudo('/v1/pets'), ['x', ' a']]],
  ['a space in a name', [...pseudo('/v1/pets'), ['x y', 'a']]],
  ['a colon in a name', [...pseudo('/v1/pets'), ['x:y', 'a']]],
  ['an empty name', [...pseudo('/v1/pets'), ['', 'a']]],
];

const NEVER: [string, [string, string][]][] = [
  ['an upper-case name', [...pseudo('/v1/pets'), ['X-Upper', 'a']]],
  ['a space in the path', pseudo('/v1/pets HTTP/1.1')],
  ['a line end in the path', pseudo('/v1/pets HTTP/1.1\r\nHost: b\r\n\r\nGET /v1/pets')],
  ['an empty path', pseudo('')],
  ['a line end in the method', pseudo('/v1/pets', 'GET /v1/pets HTTP/1.1\r\n\r\nPOST')],
  ['no path', pseudo('/').filter(([name]) => name !== ':path')],
  ['no method', pseudo('/').filter(([name]) => name !== ':method')],
  ['no scheme', pseudo('/').filter(([name]) => name !== ':scheme')],
  ['the scheme of another protocol', pseudo('/').map(([name, value]) => [name, name === ':scheme' ? 'http' : value])],
  ['two paths', [...pseudo('/v1/pets'), [':path', '/v1/other']]],
  ['a pseudo field behind another', [['x', 'a'], ...pseudo('/v1/pets')]],
  ['an unknown pseudo field', [...pseudo('/v1/pets'), [':status', '200']]],
  ['a Host that is not the authority', [...pseudo('/v1/pets'), ['host', 'other.test']]],
  ['two Hosts', [...pseudo('/v1/pets').filter(([name]) => name !== ':authority'), ['host', 'a'], ['host', 'a']]],
  [
    'a line end in the authority',
    pseudo('/').map(([name, value]) => [name, name === ':authority' ? 'a\r\nb: c' : value]),
  ],
  ['Connection', [...pseudo('/v1/pets'), ['connection', 'x']]],
  ['Transfer-Encoding', [...pseudo('/v1/pets', 'POST'), ['transfer-encoding', 'chunked']]],
  ['Upgrade', [...pseudo('/v1/pets'), ['upgrade', 'websocket']]],
  ['Keep-Alive', [...pseudo('/v1/pets'), ['keep-alive', '5']]],
  ['Proxy-Connection', [...pseudo('/v1/pets'), ['proxy-connection', 'close']]],
  ['TE other than trailers', [...pseudo('/v1/pets'), ['te', 'gzip']]],
  [
    'CONNECT',
    [
      [':method', 'CONNECT'],
      [':authority', 'gateway.test:443'],
    ],
  ],
  ['extended CONNECT', [...pseudo('/v1/pets', 'CONNECT'), [':protocol', 'websocket']]],
  ['a length that is none', [...pseudo('/v1/pets', 'POST'), ['content-length', '+4']]],
  ['two lengths', [...pseudo('/v1/pets', 'POST'), ['content-length', '0'], ['content-length', '0']]],
  ['a length and no body', [...pseudo('/v1/pets', 'POST'), ['content-length', '4']]],
];

describe('is refused, reaches no upstream and leaves the other streams alone (reliability 26, 28, 33):', () => {
  let it: Awaited<ReturnType<typeof start>>;

  beforeAll(async () => {
    it = await start({}, 'endless');
  });

  test.each(NEVER)('%s', async (_, fields) => {
    const before = it.upstream.requests.length;
    const raw = await openRawSession(it.gateway.port, { ca: it.ca });
    const authorized = (more: [string, string][]) => fieldBlock([...more, ['authorization', `Bearer ${it.key}`]]);
    raw.send(frame(TYPE.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, 1, authorized(fields)));
    raw.send(frame(TYPE.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, 3, authorized(pseudo('/v1/pets'))));
    await eventually(() => expect(raw.resetOf(1) ?? raw.goaway()).not.toBeNull());
    expect([CODE.PROTOCOL_ERROR, CODE.INTERNAL_ERROR]).toContain(raw.resetOf(1) ?? raw.goaway());
    if (raw.goaway() === null) await eventually(() => expect(raw.isAnswered(3)).toBe(true));
    expect(it.upstream.requests.length - before).toBeLessThanOrEqual(1);
    expect(it.upstream.refused).toEqual([]);
    raw.socket.destroy();
  });

  test.each(DROPPED)('%s: the field never gets any further', async (_, fields) => {
    const before = it.upstream.requests.length;
    const raw = await openRawSession(it.gateway.port, { ca: it.ca });
    const block = fieldBlock([...fields, ['authorization', `Bearer ${it.key}`], ['last', 'kept']]);
    raw.send(frame(TYPE.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, 1, block));
    await eventually(() => expect(raw.isAnswered(1)).toBe(true));
    const [sent, ...more] = it.upstream.requests.slice(before);
    expect(more).toEqual([]);
    expect(sent?.values('last')).toEqual(['kept']);
    expect(sent?.rawHeaders.some((text) => ['x', 'y', 'x y', 'x:y', '', 'a\nb'].includes(text))).toBe(false);
    expect(sent?.values('x-consumer-id')).toHaveLength(1);
    raw.socket.destroy();
  });

  test.each([
    ['more than the declared length', 'cdef', FLAG.END_STREAM],
    ['less than the declared length', '', FLAG.END_STREAM],
  ] as const)('a body of %s is never a whole request (reliability 92)', async (_, body, flags) => {
    const before = it.upstream.requests.length;
    const raw = await openRawSession(it.gateway.port, { ca: it.ca });
    const fields: [string, string][] = [
      ...pseudo('/v1/pets', 'POST'),
      ['authorization', `Bearer ${it.key}`],
      ['content-length', '4'],
    ];
    raw.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, fieldBlock(fields)), frame(TYPE.DATA, 0, 1, 'ab'));
    await eventually(() => expect(it.upstream.requests).toHaveLength(before + 1));
    raw.send(frame(TYPE.DATA, flags, 1, body));
    await eventually(() => expect(raw.resetOf(1) ?? raw.goaway()).not.toBeNull());
    expect(await it.upstream.requests[before]?.whole).toBe(false);
    expect(raw.isAnswered(1)).toBe(false);
  });
});

test('streams that interleave frame by frame never mix', async () => {
  const upstream = await startUpstream(async (_request, response, recorded) => {
    if (await recorded.whole) response.end(recorded.body);
  });
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin });
  const { key } = await gateway.createKey('endless');
  const raw = await openRawSession(gateway.port, { ca });
  const streams = [1, 3, 5, 7];
  for (const id of streams) {
    const fields = fieldBlock([...pseudo('/v1/pets', 'POST'), ['authorization', `Bearer ${key}`]]);
    raw.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, id, fields));
  }
  const smuggled = `0\r\n\r\nGET /v1/pets?smuggled HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  for (let i = 0; i < 10; i++) for (const id of streams) raw.send(frame(TYPE.DATA, 0, id, `${id}${smuggled}`));
  for (const id of streams) raw.send(frame(TYPE.DATA, FLAG.END_STREAM, id));
  const bodyOf = (id: number) =>
    Buffer.concat(raw.frames.filter((it) => it.type === TYPE.DATA && it.stream === id).map(({ payload }) => payload));
  for (const id of streams) {
    await eventually(() => expect(bodyOf(id).toString()).toBe(`${id}${smuggled}`.repeat(10)));
  }
  expect(upstream.requests.map(({ url }) => url)).toEqual(Array(4).fill('/v1/pets'));
});

test('a GET whose stream ends a frame later has no body', async () => {
  const { gateway, ca, upstream, key } = await start();
  const raw = await openRawSession(gateway.port, { ca });
  const fields = fieldBlock([...pseudo('/v1/pets'), ['authorization', `Bearer ${key}`]]);
  raw.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, fields), frame(TYPE.DATA, FLAG.END_STREAM, 1));
  await eventually(() => expect(raw.isAnswered(1)).toBe(true));
  expect(upstream.requests[0]?.values('transfer-encoding')).toEqual([]);
});

test.each([
  ['in the middle of its body', 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf'],
  ['in a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf'],
])('an answer that breaks off %s resets the stream, and the session goes on (reliability 75-77)', async (_, bytes) => {
  const upstream = await startRawUpstream((socket) => {
    socket.write(bytes, () => socket.destroy());
  });
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  const session = await openHttp2(gateway.port, ca);
  const stream = session.request({ ':path': '/v1/pets', ...bearer(key) });
  stream.on('error', () => {});
  stream.resume();
  await new Promise((resolve) => stream.once('close', resolve));
  expect(stream.rstCode).toBe(constants.NGHTTP2_INTERNAL_ERROR);
  expect((await askHttp2(session, { path: '/v1/none', headers: bearer(key) })).status).toBe(404);
});

test('a client that resets a stream frees its request at once, whether it waits, reads or sends: 499 (reliability 92, 93)', async () => {
  const { gateway, ca, upstream, held, key } = await start();
  const session = await openHttp2(gateway.port, ca);
  const raw = await openRawSession(gateway.port, { ca });
  const open = (id: number, path: string, method: string, flags: number) => {
    const fields = fieldBlock([...pseudo(path, method), ['authorization', `Bearer ${key}`]]);
    return frame(TYPE.HEADERS, FLAG.END_HEADERS | flags, id, fields);
  };
  const [waiting, reading, sending] = [1, 3, 5];
  raw.send(
    open(waiting, '/v1/pets?hold', 'GET', FLAG.END_STREAM),
    open(reading, '/v1/pets?hold', 'GET', FLAG.END_STREAM),
  );
  raw.send(open(sending, '/v1/pets', 'POST', 0), frame(TYPE.DATA, 0, sending, 'half'));
  await eventually(() => expect(upstream.requests).toHaveLength(3));
  held[1]?.writeHead(200).write('half');
  await eventually(() => expect(raw.isAnswered(waiting) || raw.isAnswered(reading)).toBe(true));
  for (const id of [waiting, reading, sending]) raw.send(rstStream(id, CODE.CANCEL));
  await eventually(() => expect(accessLines(gateway).map(({ status }) => status)).toEqual([499, 499, 499]));
  const uploaded = upstream.requests.find(({ method }) => method === 'POST');
  expect(await uploaded?.whole).toBe(false);
  await eventually(() => expect(upstream.open).toBe(0));
  expect(await metricsOf(gateway)).toMatch(/^tollgate_in_flight 0$/m);
  expect((await askHttp2(session, { path: '/v1/pets', headers: bearer(key) })).status).toBe(200);
});

test('a connection that is lost frees all requests on it (reliability 93, 95)', async () => {
  const { gateway, ca, upstream, key } = await start();
  const session = await openHttp2(gateway.port, ca);
  for (let i = 0; i < 10; i++) session.request({ ':path': '/v1/pets?hold', ...bearer(key) }).on('error', () => {});
  await eventually(() => expect(upstream.requests).toHaveLength(10));
  session.destroy();
  await eventually(() => expect(accessLines(gateway).map(({ status }) => status)).toEqual(Array(10).fill(499)));
  await eventually(async () => {
    const metrics = await metricsOf(gateway);
    for (const name of ['in_flight', 'connections']) expect(metrics).toMatch(new RegExp(`^tollgate_${name} 0$`, 'm'));
  });
});

test('100 requests at once on one connection are counted each exactly once', async () => {
  const { gateway, ca, upstream, key } = await start();
  const session = await openHttp2(gateway.port, ca);
  const streams = Array.from({ length: 100 }, () => session.request({ ':path': '/v1/pets', ...bearer(key) }));
  const statuses = await Promise.all(streams.map(outcomeOf));
  expect(statuses.filter((status) => status === 200)).toHaveLength(60);
  expect(statuses.filter((status) => status === 429)).toHaveLength(40);
  expect(upstream.requests).toHaveLength(60);
  await eventually(async () => expect(await metricsOf(gateway)).toMatch(/^tollgate_in_flight 0$/m));
});

test('streams beyond maxStreams are refused, and those of all connections beyond maxConnections (reliability 27)', async () => {
  const { gateway, ca, upstream, held, key } = await start({
    listen: { maxConnections: 4, http2: '{ maxStreams: 3 }' },
  });
  const raw = await openRawSession(gateway.port, { ca });
  const other = await openRawSession(gateway.port, { ca });
  const fields = fieldBlock([...pseudo('/v1/pets?hold'), ['authorization', `Bearer ${key}`]]);
  const open = (id: number) => frame(TYPE.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, id, fields);
  for (const id of [1, 3, 5, 7]) raw.send(open(id));
  await eventually(() => expect(raw.resetOf(7)).toBe(CODE.REFUSED_STREAM));
  await eventually(() => expect(upstream.requests).toHaveLength(3));
  other.send(open(1), open(3));
  await eventually(() => expect(other.resetOf(3)).toBe(CODE.REFUSED_STREAM));
  await eventually(() => expect(held).toHaveLength(4));
  expect(await metricsOf(gateway)).toMatch(/^tollgate_unparsed_requests_total\{code="overloaded"\} 1$/m);
  for (const response of held) response.end('{}');
  await eventually(() => expect(other.isAnswered(1)).toBe(true));
  other.send(open(5));
  await eventually(() => expect(held).toHaveLength(5));
});

test.each([
  ['without a request is closed at headersTimeout', { headersTimeout: '600ms' }, false],
  ['between requests is closed at idleTimeout', { idleTimeout: '600ms' }, true],
] as const)('a session %s, pings or not (reliability 64)', async (_, listen, asks) => {
  const { gateway, ca, key } = await start({ listen });
  const session = await openHttp2(gateway.port, ca);
  if (asks) await askHttp2(session, { path: '/v1/pets', headers: bearer(key) });
  const stop = stopwatch();
  const pings = setInterval(() => {
    if (!session.destroyed) session.ping(() => {});
  }, 50);
  const goaway = once(session, 'goaway');
  await once(session, 'close');
  const took = stop();
  clearInterval(pings);
  expect((await goaway)[0]).toBe(constants.NGHTTP2_NO_ERROR);
  expect(took).toBeGreaterThan(asks ? 500 : 400);
  expect(took).toBeLessThan(600 + LATE_MS);
  await eventually(async () => expect(await metricsOf(gateway)).toMatch(/^tollgate_connections 0$/m));
});

// Attack: a second response within the body of the first would be read as part of it.
test('a body that does not come when its response has begun resets the stream, and nothing is written into the response', async () => {
  const upstream = await startUpstream((_, response) => {
    response.writeHead(200, { 'content-length': 1000 }).write('so far');
  });
  const listen = { requestTimeout: `${paced(700)}ms`, headersTimeout: `${paced(600)}ms` };
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin, listen });
  const { key } = await gateway.createKey('free');
  const session = await openHttp2(gateway.port, ca);
  const stream = session.request({ ':path': '/v1/pets', ':method': 'POST', ...bearer(key) });
  stream.on('error', () => {});
  stream.write('begun');
  let body = '';
  stream.on('data', (chunk: Buffer) => {
    body += chunk.toString('latin1');
  });
  await new Promise((resolve) => stream.once('close', resolve));
  expect([body, stream.rstCode === constants.NGHTTP2_NO_ERROR]).toEqual(['so far', false]);
  session.destroy();
});

test('a body that does not come is broken off at requestTimeout (reliability 62)', async () => {
  const { gateway, ca, upstream, key } = await start({
    listen: { requestTimeout: `${paced(700)}ms`, headersTimeout: `${paced(600)}ms` },
  });
  const session = await openHttp2(gateway.port, ca);
  const stream = session.request({ ':path': '/v1/pets', ':method': 'POST', ...bearer(key) });
  stream.write('half');
  expect(await outcomeOf(stream)).toBe(408);
  expect(await upstream.requests[0]?.whole).toBe(false);
});

test('SIGTERM: GOAWAY, what runs is finished, nothing new is begun, exit 0 (reliability 119)', async () => {
  const { gateway, ca, upstream, held, key } = await start({}, 'free', startEncrypted);
  const session = await openHttp2(gateway.port, ca);
  const idle = await openHttp2(gateway.port, ca);
  await askHttp2(idle, { path: '/v1/pets', headers: bearer(key) });
  const running = session.request({ ':path': '/v1/pets?hold', ...bearer(key) });
  const outcome = outcomeOf(running);
  await eventually(() => expect(held).toHaveLength(1));
  const goaway = once(session, 'goaway');
  gateway.process.signal('SIGTERM');
  expect((await goaway)[0]).toBe(constants.NGHTTP2_NO_ERROR);
  await once(idle, 'close');
  expect(upstream.requests).toHaveLength(2);
  held[0]?.end('{}');
  expect(await outcome).toBe(200);
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
});

test('a stream that is stuck is cut when drainTimeout is over (reliability 120)', async () => {
  const { gateway, ca, held, key } = await start({ listen: { drainTimeout: '700ms' } }, 'free', startEncrypted);
  const session = await openHttp2(gateway.port, ca);
  const stuck = session.request({ ':path': '/v1/pets?hold', ...bearer(key) });
  stuck.on('error', () => {});
  await eventually(() => expect(held).toHaveLength(1));
  const signalledAtMs = performance.now();
  gateway.process.signal('SIGTERM');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(performance.now() - signalledAtMs).toBeGreaterThan(680);
  // Without it the drain would take 30 s.
  expect(performance.now() - signalledAtMs).toBeLessThan(700 + LATE_MS);
});

test('http2: false leaves HTTP/1.1 alone, and the preface on an unencrypted listener is no request (reliability 25)', async () => {
  const { gateway, ca } = await start({ listen: { http2: 'false' } });
  const raw = await openRawSession(gateway.port, { ca }).catch((error: NodeJS.ErrnoException) => error);
  expect(raw).toBeInstanceOf(Error);
});
