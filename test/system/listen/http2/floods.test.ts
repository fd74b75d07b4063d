import { randomUUID } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { eventually } from '../../../support/conditions.ts';
import { accessLines, askHttp2, metricsOf, openHttp2, startEncrypted } from '../../../support/encrypted.ts';
import {
  CODE,
  FLAG,
  fieldBlock,
  frame,
  PREFACE,
  pseudo,
  rstStream,
  settings,
  TYPE,
  uint32,
  windowUpdate,
} from '../../../support/http2-frames.ts';
import { openRawSession, type RawSession } from '../../../support/raw-http2.ts';
import { LATE_MS } from '../../../support/room.ts';
import { stopwatch } from '../../../support/stopwatch.ts';
import { startUpstream } from '../../../support/upstream.ts';

// What one client may cost that sends frames nobody asked for. Each of these ends its session, and nobody else's: one gateway
// lives through all of them that need no settings of their own.

async function start(listen: Record<string, string | number> = {}) {
  const upstream = await startUpstream(async (request, response, { whole }) => {
    if (request.url?.includes('long')) response.end(Buffer.alloc(1_000_000));
    else if (!request.url?.includes('hold') && (await whole)) response.end('{}');
  });
  const encrypted = await startEncrypted({ upstream: upstream.origin, listen });
  const { key } = await encrypted.gateway.createKey('endless');
  const ask = (path: string, method = 'GET') =>
    fieldBlock([...pseudo(path, method), ['authorization', `Bearer ${key}`]]);
  return { ...encrypted, upstream, key, ask };
}

type Stage = Awaited<ReturnType<typeof start>>;

let shared: Stage;
/** What the test at hand uses. */
let it: Stage;
/** What the gateway had logged, forwarded and counted before the test. */
let before: { readonly lines: number; readonly requests: number; readonly broken: string };

beforeAll(async () => {
  shared = await start();
});

afterAll(async () => {
  await shared.gateway.process.stop();
  expect(shared.gateway.process.stdout).not.toMatch(/a defect|uncaught/);
});

beforeEach(() => use(shared));

async function use(stage: Stage): Promise<void> {
  it = stage;
  const rests = (metric: string) =>
    eventually(async () => expect(await metricsOf(it.gateway)).toMatch(new RegExp(`^${metric} 0$`, 'm')), {
      withinMs: 5_000,
    });
  // Whatever the test before has opened goes away with it, and this line comes behind all of its own.
  await rests('tollgate_in_flight');
  const session = await openHttp2(it.gateway.port, it.ca);
  const id = randomUUID();
  await askHttp2(session, { path: '/v1/pets', headers: { 'x-request-id': id } });
  session.destroy();
  await eventually(() => expect(accessLines(it.gateway).at(-1)).toMatchObject({ requestId: id }));
  await rests('tollgate_connections');
  const [lines, requests] = [accessLines(it.gateway).length, it.upstream.requests.length];
  before = { lines, requests, broken: await metricsOf(it.gateway) };
}

const linesSince = () => accessLines(it.gateway).slice(before.lines);
const requestsSince = () => it.upstream.requests.slice(before.requests);

/** How many sessions were broken off for a reason, since the test began. */
async function brokenFor(reason: string): Promise<number> {
  const line = new RegExp(`^tollgate_http2_sessions_broken_total\\{reason="${reason}"\\} (\\d+)$`, 'm');
  const count = (metrics: string) => Number(line.exec(metrics)?.[1] ?? 0);
  return count(await metricsOf(it.gateway)) - count(before.broken);
}

const WHOLE = FLAG.END_HEADERS | FLAG.END_STREAM;

/** Sends pieces, no faster than they are taken, until the session has ended or there are no more. */
async function flood(session: RawSession, piece: (i: number) => Buffer, pieces: number): Promise<void> {
  const { socket } = session;
  for (let i = 0; i < pieces && !session.closed; i++) {
    const isTaken = socket.write(piece(i));
    if (!isTaken) await new Promise<void>((resolve) => waitFor(socket, ['drain', 'close'], resolve));
    else if (i % 100 === 0) await new Promise(setImmediate);
  }
}

/** Calls back at the first of the events, and leaves no listener behind. */
function waitFor(emitter: EventEmitter, events: readonly string[], done: () => void): void {
  const first = () => {
    for (const event of events) emitter.off(event, first);
    done();
  };
  for (const event of events) emitter.on(event, first);
}

/** The session has ended, the reason is counted, nothing is left, and another client is served as before. */
async function expectOver(session: RawSession, reason?: string): Promise<void> {
  await eventually(() => expect(session.closed).toBe(true), { withinMs: 5_000 });
  const good = await openHttp2(it.gateway.port, it.ca);
  const headers = { authorization: `Bearer ${it.key}` };
  expect((await askHttp2(good, { path: '/v1/pets', headers })).status).toBe(200);
  await eventually(async () => {
    const metrics = await metricsOf(it.gateway);
    if (reason !== undefined) expect(await brokenFor(reason)).toBe(1);
    expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
    expect(metrics).toMatch(/^tollgate_connections 1$/m);
  });
  expect(it.gateway.process.stderr).toBe('');
}

test('rapid reset: a client that opens and resets streams is told to calm down and cut (reliability 27)', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  const pair = (i: number) =>
    Buffer.concat([frame(TYPE.HEADERS, WHOLE, 2 * i + 1, it.ask('/v1/pets?hold')), rstStream(2 * i + 1, CODE.CANCEL)]);
  await flood(session, pair, 5_000);
  await expectOver(session, 'resets');
  // The cut may overtake the word: a client that goes on sending is answered with a reset, which drops what it had not read.
  expect([CODE.ENHANCE_YOUR_CALM, null]).toContain(session.goaway());
  // Far fewer than were sent, each with its line, none at the upstream any more.
  expect(linesSince().length).toBeLessThan(2_500);
  await eventually(() => expect(it.upstream.open).toBeLessThanOrEqual(1));
});

test('streams that the gateway is made to reset cost the same budget (reliability 27)', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  const pair = (i: number) =>
    Buffer.concat([frame(TYPE.HEADERS, WHOLE, 2 * i + 1, it.ask('/v1/pets?hold')), windowUpdate(2 * i + 1, 0)]);
  await flood(session, pair, 5_000);
  await expectOver(session);
  expect(session.goaway()).not.toBe(CODE.NO_ERROR);
  expect(linesSince().length).toBeLessThan(2_500);
});

test('requests that are malformed cost the same budget (reliability 27)', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  const bad = fieldBlock([...pseudo('/v1/pets'), ['host', 'other.test']]);
  await flood(session, (i) => frame(TYPE.HEADERS, WHOLE, 2 * i + 1, bad), 5_000);
  // Either by us, or by nghttp2 where more of them came in one piece than may be open at a time.
  await expectOver(session);
  expect((await brokenFor('resets')) + (await brokenFor('protocol'))).toBe(1);
  expect(linesSince().filter(({ status }) => status !== 200)).toEqual([]);
});

test('a client that breaks off no more than maxResets is left alone', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  for (let i = 0; i < 150; i++) {
    const id = 2 * i + 1;
    session.send(frame(TYPE.HEADERS, WHOLE, id, it.ask('/v1/pets?hold')), rstStream(id, CODE.CANCEL));
  }
  session.send(frame(TYPE.HEADERS, WHOLE, 301, it.ask('/v1/pets')));
  await eventually(() => expect(session.isAnswered(301)).toBe(true));
});

test('a head that goes on in CONTINUATION without end is cut (reliability 27)', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  session.send(frame(TYPE.HEADERS, FLAG.END_STREAM, 1, it.ask('/v1/pets')));
  const more = frame(TYPE.CONTINUATION, 0, 1, fieldBlock([['x', 'y'.repeat(1_000)]]));
  await flood(session, () => more, 5_000);
  await expectOver(session, 'protocol');
  expect(requestsSince().map(({ url }) => url)).toEqual(['/v1/pets']);
});

test.each([
  ['many fields', fieldBlock(Array.from({ length: 3_000 }, (_, i) => [`x${i}`, '']))],
  [
    'one field that is referred to again and again',
    Buffer.concat([
      // Put into the dynamic table, then named by one byte each time.
      Buffer.from([0x40, 1, 0x78, 0x7f, 0x81, 0x1e]),
      Buffer.alloc(4_000, 'y'),
      Buffer.alloc(4_000, 0xbe),
    ]),
  ],
])('a head that unpacks to more than the limit is not a request: %s (reliability 65)', async (_, block) => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  const bytes = Buffer.concat([it.ask('/v1/pets'), block]);
  const parts = Array.from({ length: Math.ceil(bytes.length / 16_000) }, (_, i) =>
    bytes.subarray(i * 16_000, (i + 1) * 16_000),
  );
  parts.forEach((part, i) => {
    const last = i === parts.length - 1 ? FLAG.END_HEADERS : 0;
    session.send(frame(i === 0 ? TYPE.HEADERS : TYPE.CONTINUATION, i === 0 ? FLAG.END_STREAM | last : last, 1, part));
  });
  await eventually(() => expect(session.resetOf(1) ?? session.goaway()).not.toBeNull());
  expect(requestsSince()).toHaveLength(0);
  session.socket.destroy();
  await expectOver(session);
});

const FLOODS: [string, (i: number) => Buffer][] = [
  ['SETTINGS', () => settings(4, 65_535)],
  ['PING', () => frame(TYPE.PING, 0, 0, Buffer.alloc(8))],
  ['PRIORITY', (i) => frame(TYPE.PRIORITY, 0, 2 * (i % 1_000) + 1, Buffer.from([0, 0, 0, 0, 7]))],
  ['WINDOW_UPDATE', () => windowUpdate(0, 1)],
  ['frames of an unknown type', () => frame(0xaa, 0, 0, 'x')],
];

test.each(FLOODS)('a flood of %s is cut (reliability 27)', async (_, one) => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  const many = (i: number) => Buffer.concat(Array.from({ length: 200 }, (_, k) => one(i * 200 + k)));
  await flood(session, many, 5_000);
  await expectOver(session);
  expect(session.goaway()).not.toBe(CODE.NO_ERROR);
});

test('settings, pings and their like at the pace of an honest client are not a flood', async () => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  for (let i = 0; i < 200; i++) {
    session.send(frame(TYPE.PING, 0, 0, Buffer.alloc(8)), windowUpdate(0, 1));
    session.send(frame(TYPE.HEADERS, WHOLE, 2 * i + 1, it.ask('/v1/pets')));
    if (i % 50 === 0) session.send(settings(4, 65_535));
    if (i % 20 === 19) await eventually(() => expect(session.isAnswered(2 * i + 1)).toBe(true));
  }
  expect([session.closed, session.goaway()]).toEqual([false, null]);
});

test.each([
  ['empty', ''],
  ['made of padding alone', Buffer.concat([Buffer.of(200), Buffer.alloc(200)])],
])('a flood of DATA that is %s is cut (reliability 27, 67)', async (what, payload) => {
  const session = await openRawSession(it.gateway.port, { ca: it.ca });
  session.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, it.ask('/v1/pets', 'POST')));
  const flags = what === 'empty' ? 0 : FLAG.PADDED;
  const many = Buffer.concat(Array.from({ length: 50 }, () => frame(TYPE.DATA, flags, 1, payload)));
  await flood(session, () => many, 5_000);
  await expectOver(session);
});

test('a client that never gives a window holds nothing beyond writeTimeout (reliability 63)', async () => {
  await use(await start({ writeTimeout: '600ms' }));
  // SETTINGS_INITIAL_WINDOW_SIZE 0: not a byte of a body may be sent.
  const session = await openRawSession(it.gateway.port, { ca: it.ca, first: Buffer.concat([PREFACE, settings(4, 0)]) });
  session.send(frame(TYPE.HEADERS, WHOLE, 1, it.ask('/v1/pets?long')));
  session.send(frame(TYPE.HEADERS, WHOLE, 3, it.ask('/v1/pets')));
  session.send(frame(TYPE.HEADERS, WHOLE, 5, it.ask('/v1/none')));
  await eventually(() => expect([1, 3, 5].map((id) => session.isAnswered(id))).toEqual([true, true, true]));
  const stop = stopwatch();
  await eventually(() => expect([1, 3, 5].every((id) => session.resetOf(id) !== null)).toBe(true), {
    withinMs: 3_000,
  });
  expect(stop()).toBeLessThan(600 + LATE_MS);
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight 0$/m));
});

test('a client that reads nothing at all is cut, whatever it asks for (reliability 63, 96)', async () => {
  await use(await start({ writeTimeout: '600ms', idleTimeout: '1s', headersTimeout: '1s' }));
  const session = await openRawSession(it.gateway.port, {
    ca: it.ca,
    reads: false,
    first: Buffer.concat([PREFACE, settings(4, 2 ** 31 - 1), windowUpdate(0, 2 ** 30)]),
  });
  for (let i = 0; i < 20; i++) session.send(frame(TYPE.HEADERS, WHOLE, 2 * i + 1, it.ask('/v1/pets?long')));
  await eventually(async () => expect(await metricsOf(it.gateway)).toMatch(/^tollgate_in_flight [1-9]/m));
  await eventually(
    async () => {
      const metrics = await metricsOf(it.gateway);
      expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
      expect(metrics).toMatch(/^tollgate_connections 0$/m);
    },
    // One deadline after the other: of the answers, of the session that has none left, and of its farewell.
    { withinMs: 15_000 },
  );
});

test.each([
  ['no preface', Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n')],
  ['half a preface', PREFACE.subarray(0, 10)],
  ['a frame that is longer than agreed', Buffer.concat([PREFACE, frame(TYPE.SETTINGS, 0, 0, Buffer.alloc(60_000))])],
  ['HEADERS on stream 0', Buffer.concat([PREFACE, settings(), frame(TYPE.HEADERS, WHOLE, 0, 'x')])],
  [
    'a field block that cannot be unpacked',
    Buffer.concat([PREFACE, settings(), frame(TYPE.HEADERS, WHOLE, 1, '\xff\xff\xff\xff\xff')]),
  ],
  [
    'a window that overflows',
    Buffer.concat([PREFACE, settings(), windowUpdate(0, 2 ** 31 - 1), windowUpdate(0, 2 ** 31 - 1)]),
  ],
  [
    'PUSH_PROMISE of a client',
    Buffer.concat([PREFACE, settings(), frame(TYPE.PUSH_PROMISE, FLAG.END_HEADERS, 1, uint32(2))]),
  ],
])('%s ends the session and nothing else (reliability 25)', async (what, first) => {
  if (what === 'half a preface') await use(await start({ headersTimeout: '700ms' }));
  const session = await openRawSession(it.gateway.port, { ca: it.ca, first });
  await expectOver(session);
});
