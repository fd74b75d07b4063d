import type { ServerResponse } from 'node:http';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { Readable } from 'node:stream';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { type EncryptedGateway, metricsOf, openHttp2, startEncrypted } from '../../support/encrypted.ts';
import {
  CODE,
  FLAG,
  fieldBlock,
  frame,
  pseudo,
  rstStream,
  settings,
  TYPE,
  windowUpdate,
} from '../../support/http2-frames.ts';
import { openRawSession, type RawSession } from '../../support/raw-http2.ts';
import { startUpstream, type Upstream } from '../../support/upstream.ts';

// What a client has sent of a body, as far as the gateway let it, when its request is refused or answered early. A load balancer
// has the requests of many clients on one session.

const ROUTES = `
  - { path: /v1/pets, methods: [GET, POST, PUT], upstream: store }
  - { path: /v1/early, methods: [PUT], upstream: store }
  - { path: /v1/stuck, methods: [PUT], upstream: store }
  - { path: /v1/readonly, methods: [GET], upstream: store }
`;
const MiB = 1024 * 1024;

let it: EncryptedGateway;
let upstream: Upstream;
let held: ServerResponse[];
let keys: Record<'good' | 'spent', string>;

beforeAll(async () => {
  held = [];
  upstream = await startUpstream(
    async (request, response) => {
      if (request.url === '/v1/stuck') return;
      if (request.url === '/v1/early') response.writeHead(413).end('too much');
      request.resume();
      if (request.url === '/v1/pets?hold') held.push(response);
      else if (request.url === '/v1/pets') request.once('end', () => response.end('{}'));
    },
    { readBody: false },
  );
  it = await startEncrypted({
    upstream: upstream.origin,
    routes: ROUTES,
    listen: { trustedProxies: '[127.0.0.1]', maxBodyBytes: '64MiB', writeTimeout: '10m' },
  });
  const [good, spent] = [await it.gateway.createKey('endless'), await it.gateway.createKey('closed')];
  keys = { good: good.key, spent: spent.key };
});

/** In pieces: the HTTP/2 client of Node counts what it still had to send on a reset stream as memory of its session for ever. */
function send(stream: ClientHttp2Stream, bytes: number): void {
  Readable.from(Array.from({ length: bytes / 10_000 }, () => Buffer.alloc(10_000))).pipe(stream);
}

let clients = 0;

/** An upload of one of the clients of a load balancer. @returns its status, or how its stream ended without one */
function upload(session: ClientHttp2Session, path: string, key: string, bytes: number): Promise<number | string> {
  return new Promise((resolve) => {
    const stream = session.request({
      ':path': path,
      ':method': 'PUT',
      authorization: `Bearer ${key}`,
      'x-forwarded-for': `192.0.2.${++clients % 250}`,
    });
    let status: number | null = null;
    stream.on('error', () => {});
    stream.once('response', (head) => {
      status = Number(head[':status']);
    });
    stream.once('close', () => resolve(status ?? `reset ${stream.rstCode}`));
    stream.resume();
    send(stream, bytes);
  });
}

/** How many sessions were broken off for a reason, or for any. */
async function broken(reason = '\\w+'): Promise<number> {
  const lines = new RegExp(`^tollgate_http2_sessions_broken_total{reason="${reason}"} (\\d+)$`, 'gm');
  return [...(await metricsOf(it.gateway)).matchAll(lines)].reduce((sum, [, count]) => sum + Number(count), 0);
}

const REFUSALS = [
  [401, '/v1/pets', () => 'wrong'],
  [404, '/none', () => keys.good],
  [405, '/v1/readonly', () => keys.good],
  [400, '/v1/a%2fb', () => keys.good],
  [429, '/v1/pets', () => keys.spent],
  [413, '/v1/early', () => keys.good],
] as const;

test.each(REFUSALS)(
  'uploads that end early with %i cut no session, and a request beside them is served (reliability 325)',
  async (status, path, key) => {
    const before = await broken();
    const session = await openHttp2(it.gateway.port, it.ca);
    const innocent = session.request({ ':path': '/v1/pets?hold', authorization: `Bearer ${keys.good}` });
    innocent.on('error', () => {});
    await eventually(() => expect(held.length).toBeGreaterThan(0));
    const seen = new Map<number | string, number>();
    const one = async (bytes: number) => {
      const outcome = await upload(session, path, key(), bytes);
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
    };
    for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 10 }, () => one(200_000)));
    for (let i = 0; i < 20; i++) await one(2_000_000);
    expect(Object.fromEntries(seen)).toEqual({ [status]: 220 });
    const answered = new Promise((resolve) => innocent.once('response', (head) => resolve(head[':status'])));
    held.pop()!.end('{}');
    expect(await answered).toBe(200);
    expect([session.closed, await broken()]).toEqual([false, before]);
  },
);

test('streams whose body has arrived when they are refused close, and more of them than fit at a time pass (reliability 606)', async () => {
  const session = await openHttp2(it.gateway.port, it.ca);
  const ask = () =>
    new Promise<unknown>((resolve) => {
      const fields = { ':path': '/v1/pets', ':method': 'PUT', authorization: `Bearer ${keys.spent}` };
      const stream = session.request({ ...fields, 'x-forwarded-for': '192.0.2.1' });
      let status: unknown = null;
      stream.on('error', () => {});
      stream.once('response', (head) => {
        status = head[':status'];
      });
      stream.once('close', () => resolve(status));
      stream.resume();
      stream.end(Buffer.alloc(20 * 1024));
    });
  for (let i = 0; i < 15; i++)
    expect(await Promise.all(Array.from({ length: 10 }, ask))).toEqual(Array.from({ length: 10 }, () => 429));
  expect(await upload(session, '/v1/pets', keys.good, 20_000)).toBe(200);
});

test('a client that resets its stream without an error, and can read nothing, leaves no request behind (reliability 607)', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  session.send(settings(4, 0));
  const piece = Buffer.alloc(16_000);
  for (let id = 1; id < 20; id += 2) {
    const body = [1, 2, 3].map(() => frame(TYPE.DATA, 0, id, piece));
    session.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, id, head('/none')), ...body);
    await eventually(() => expect(session.isAnswered(id)).toBe(true));
    session.send(rstStream(id, CODE.NO_ERROR));
  }
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight 0$/m));
});

test('uploads that the service does not read, and that their clients leave, cut no session (reliability 325)', async () => {
  const before = await broken();
  const session = await openHttp2(it.gateway.port, it.ca);
  const streams = Array.from({ length: 30 }, () => {
    const stream = session.request({ ':path': '/v1/stuck', ':method': 'PUT', authorization: `Bearer ${keys.good}` });
    stream.on('error', () => {});
    send(stream, 2_000_000);
    return stream;
  });
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight 30$/m));
  expect(await upload(session, '/v1/pets', keys.good, 200_000)).toBe(200);
  for (const stream of streams) stream.close(CODE.CANCEL);
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight 0$/m));
  expect(await upload(session, '/v1/pets', keys.good, 200_000)).toBe(200);
  expect(await broken()).toBe(before);
});

test('the frames of a long body are no overhead (reliability 325)', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  session.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, head('/v1/pets')));
  const piece = frame(TYPE.DATA, 0, 1, Buffer.alloc(100));
  // Heads of frames alone are 450 KB of this.
  await sendWithin(
    session,
    1,
    Array.from({ length: 500 }, () => Buffer.concat(Array.from({ length: 100 }, () => piece))),
    10_000,
  );
  session.send(frame(TYPE.DATA, FLAG.END_STREAM, 1));
  await eventually(() => expect(session.isAnswered(1)).toBe(true));
  expect([session.goaway(), session.closed]).toEqual([null, false]);
});

test('a client that uploads more than was granted when its request was refused is cut (reliability 326)', async () => {
  const before = await broken('overhead');
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  for (let id = 1; id < 20; id += 2) session.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, id, head('/none')));
  await eventually(() => expect(session.resetOf(19)).toBe(CODE.NO_ERROR));
  expect(resetBehindResponse(session, 1)).toBe(true);
  const piece = frame(TYPE.DATA, 0, 1, Buffer.alloc(16_000));
  for (let sent = 0; sent < 64 * MiB && !session.closed; sent += piece.length) {
    session.send(piece);
    await new Promise(setImmediate);
  }
  await eventually(() => expect(session.closed).toBe(true));
  expect(await broken('overhead')).toBe(before + 1);
  const warned =
    /"reason":"overhead","clientAddress":"127.0.0.1","count":1,"msg":"an HTTP\/2 connection was broken off"/;
  await eventually(() => expect(warned.test(it.gateway.process.stdout)).toBe(true));
});

test.each([
  ['PING', () => frame(TYPE.PING, 0, 0, Buffer.alloc(8))],
  ['frames of an unknown type', () => frame(0xaa, 0, 0)],
  ['WINDOW_UPDATE', () => windowUpdate(0, 1)],
  ['DATA of one byte on a stream that has ended', () => frame(TYPE.DATA, 0, 1, 'x')],
] as const)('refused uploads excuse no flood of %s (reliability 326)', async (_, one) => {
  const before = await broken();
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  for (let id = 1; id < 200; id += 2) {
    session.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, id, head('/none')));
    if (id % 50 === 49) await eventually(() => expect(session.resetOf(id)).toBe(CODE.NO_ERROR));
  }
  const many = Buffer.concat(Array.from({ length: 40_000 }, one));
  for (let i = 0; i < 20 && !session.closed; i++) session.send(many);
  await eventually(() => expect(session.closed).toBe(true));
  expect(await broken()).toBe(before + 1);
});

test('streams that a client opens and leaves are no more than maxResets, from a trusted proxy a hundred times as many (reliability 327)', async () => {
  const before = await broken('resets');
  const proxy = await openRawSession(it.gateway.port, { ca: it.ca });
  for (let i = 0; i < 1_000; i++) {
    const id = 2 * i + 1;
    proxy.send(
      frame(TYPE.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, id, head('/v1/pets', 'GET')),
      rstStream(id, CODE.CANCEL),
    );
    if (i % 20 === 0) await new Promise(setImmediate);
  }
  proxy.send(frame(TYPE.HEADERS, FLAG.END_HEADERS | FLAG.END_STREAM, 2_001, head('/v1/pets', 'GET')));
  await eventually(() => expect(proxy.isAnswered(2_001)).toBe(true));
  expect([proxy.closed, await broken('resets')]).toEqual([false, before]);
});

const head = (path: string, method = 'PUT') =>
  fieldBlock([...pseudo(path, method), ['authorization', `Bearer ${keys.good}`]]);

/** Sends frames of a body, each piece only when the gateway has granted as many bytes. */
async function sendWithin(session: RawSession, stream: number, pieces: Buffer[], bytes: number): Promise<void> {
  let sent = 0;
  const granted = () =>
    session.frames
      .filter((it) => it.type === TYPE.WINDOW_UPDATE && it.stream === stream)
      .reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 65_535);
  for (const piece of pieces) {
    sent += bytes;
    await eventually(() => expect(granted()).toBeGreaterThanOrEqual(sent));
    session.send(piece);
  }
}

/** Whether a stream was reset right after its response was complete. */
function resetBehindResponse({ frames }: RawSession, stream: number): boolean {
  const own = frames.filter((it) => it.stream === stream);
  return own.at(-1)?.type === TYPE.RST_STREAM && (own.at(-2)!.flags & FLAG.END_STREAM) !== 0;
}
