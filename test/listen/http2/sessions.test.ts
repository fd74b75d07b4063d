import { readFile } from 'node:fs/promises';
import { createServer, type TLSSocket } from 'node:tls';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { Deadlines } from '../../../src/io/deadlines.ts';
import { StreamSlots } from '../../../src/listen/connections.ts';
import { Http2Sessions } from '../../../src/listen/http2/session.ts';
import type { StreamRequest } from '../../../src/listen/http2/stream-request.ts';
import { eventually } from '../../support/conditions.ts';
import { countTurns } from '../../support/count-turns.ts';
import { newAuthority } from '../../support/encrypted.ts';
import { atEnd } from '../../support/endings.ts';
import { CODE, FLAG, fieldBlock, frame, pseudo, rstStream, settings, TYPE } from '../../support/http2-frames.ts';
import { listen } from '../../support/listening.ts';
import { openRawSession, type RawSession } from '../../support/raw-http2.ts';

const MiB = 1024 * 1024;
/** Sessions of all tests come from this address, unless they say another one. */
const CLIENT = '2001:db8::1';

let authority: Awaited<ReturnType<typeof newAuthority>>;
let certificate: { readonly cert: string; readonly key: string };

/** What the clients asked for, in the order in which their requests were begun. */
let begun: string[];
let broken: string[];
/** How many milliseconds pass each time that the clock is read. */
let stepMs: number;
/** How often the time was read. */
let looks: number;
let answer: (request: StreamRequest) => void;
let isShortOfMemory: boolean;
/** The connection of a session is closed. */
let closed: () => void;
/** The gateway ends a session. */
let brokenOff: () => void;
/** The gateway begins to stop. */
let drain: () => void;

beforeAll(async () => {
  authority = await newAuthority();
  const { cert, key } = await authority.issue('localhost');
  certificate = { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') };
});

beforeEach(() => {
  [begun, broken, stepMs, looks, isShortOfMemory] = [[], [], 0, 0, false];
  answer = (request) => reply(request, '');
  closed = () => {};
  brokenOff = () => {};
});

/** Serves HTTP/2 as the listener does. @param streams of each address at a time @param maxConnections streams of all addresses */
async function serving(streams: number, maxConnections = 10_000): Promise<(address?: string) => Promise<RawSession>> {
  let nowMs = 0;
  // Of this test: streams of the one before may still begin.
  const own = { begun, broken };
  const serve = (request: StreamRequest) => {
    own.begun.push(request.url);
    answer(request);
  };
  const limits = { maxConnections, maxConnectionsPerAddress: streams };
  const sessions = new Http2Sessions({
    settings: { maxStreams: 100, maxResets: 2 },
    maxHeaderBytes: 16_384,
    maxUrlBytes: 8_192,
    headersTimeoutMs: 60_000,
    requestTimeoutMs: 60_000,
    idleTimeoutMs: 60_000,
    writeTimeoutMs: 60_000,
    serving: { date: () => 'now', serve, late: (request) => request.destroy() },
    streams: new StreamSlots(
      limits,
      () => false,
      () => performance.now(),
    ),
    deadlines: new Deadlines(() => performance.now()),
    isShortOfMemory: () => isShortOfMemory,
    nowMs: () => {
      looks++;
      nowMs += stepMs;
      return nowMs;
    },
    onUnparsed: () => {},
    onBreak: (reason) => {
      own.broken.push(reason);
      brokenOff();
    },
  });
  drain = () => sessions.drain();
  const addresses: string[] = [];
  const { port } = await listen(
    createServer({ ...certificate, ALPNProtocols: ['h2'], allowHalfOpen: true }, (socket: TLSSocket) => {
      socket.on('error', () => {});
      atEnd(() => socket.destroy());
      socket.once('close', () => closed());
      sessions.take(socket, addresses.shift()!);
    }),
  );
  return async (address = CLIENT) => {
    addresses.push(address);
    const session = await openRawSession(port, { ca: authority.pem });
    await eventually(() => expect(session.frames.some(({ type }) => type === TYPE.SETTINGS)).toBe(true));
    session.send(frame(TYPE.SETTINGS, FLAG.ACK, 0));
    return session;
  };
}

function reply({ response }: StreamRequest, body: string): void {
  response.writeHead(200, ['Content-Length', String(body.length)]);
  response.end(body);
}

const head = (id: number, path: string, method = 'GET', flags: number = FLAG.END_STREAM) =>
  frame(TYPE.HEADERS, FLAG.END_HEADERS | flags, id, fieldBlock(pseudo(path, method)));

/** Of the first streams of a session. */
const ids = (count: number) => Array.from({ length: count }, (_, i) => 2 * i + 1);

describe('a stream that the gateway ends costs its client none of maxResets (reliability 313)', () => {
  test('while it waits for its turn', async () => {
    const open = await serving(3);
    const session = await open();
    // One request is begun in each turn of the event loop.
    stepMs = 3;
    session.send(...ids(40).map((id) => head(id, `/${id}`)));
    const ended = () => ids(40).filter((id) => session.resetOf(id) === CODE.CANCEL).length;
    await eventually(() => expect(begun.length + ended()).toBe(40));
    expect(ended()).toBeGreaterThan(10);
    expect([broken, session.closed]).toEqual([[], false]);
  });

  test('while its body has yet to begin', async () => {
    const open = await serving(3);
    const session = await open();
    session.send(...ids(20).map((id) => head(id, `/${id}`, 'GET', 0)));
    await eventually(() => expect(ids(17).map((id) => session.resetOf(id))).toEqual(ids(17).map(() => CODE.CANCEL)));
    session.send(head(41, '/last'));
    await eventually(() => expect(session.isAnswered(41)).toBe(true));
    expect([broken, session.closed]).toEqual([[], false]);
  });

  test('and one that the client resets before its turn costs it one', async () => {
    const open = await serving(100);
    const session = await open();
    stepMs = 3;
    session.send(...ids(40).map((id) => head(id, `/${id}`)), ...ids(40).map((id) => rstStream(id, CODE.CANCEL)));
    await eventually(() => expect(broken).toEqual(['resets']));
  });
});

test.each([
  ['a head', ({ response }: StreamRequest) => response.writeHead(99, []) ?? response.end('x')],
  ['an interim response', ({ response }: StreamRequest) => response.writeInformation(199, ['x y', 'z'])],
])('%s that Node does not send ends its stream and nothing else', async (_, tell) => {
  const open = await serving(100);
  answer = (request) => (request.url === '/odd' ? tell(request) : reply(request, ''));
  const session = await open();
  session.send(head(1, '/odd'), head(3, '/'));
  await eventually(() => expect([session.resetOf(1), session.isAnswered(3)]).toEqual([CODE.INTERNAL_ERROR, true]));
});

test('a client that could read nothing because this thread stalled keeps its session (reliability 439)', async () => {
  const open = await serving(100);
  answer = (request) => reply(request, 'x'.repeat(1_000));
  const session = await open();
  session.send(settings(4, 0), head(1, '/'));
  await eventually(() => expect(session.isAnswered(1)).toBe(true));
  // Each look comes later than `writeTimeout` after the one before.
  stepMs = 120_000;
  const before = looks;
  await eventually(() => expect(looks).toBeGreaterThan(before + 3));
  session.send(settings(4, 2_000));
  await eventually(() => expect(session.frames.some((it) => it.stream === 1 && it.flags & FLAG.END_STREAM)).toBe(true));
});

// Attack: streams that cost nothing and are never read take every slot, and end the older one of a neighbour who has paid.
test.each([
  ['its own address, by the session that has most of them', CLIENT, 60, 10_000],
  ['another address, by the address that has most of them', '2001:db8:0:1::1', 1_000, 60],
])(
  'an answer that is being read is not ended for unread ones of %s (reliability 359)',
  async (_, address, ofOne, ofAll) => {
    const open = await serving(ofOne, ofAll);
    answer = (request) => reply(request, 'x'.repeat(1_000));
    // Sessions that had no stream to end are looked at again after a while.
    stepMs = 1;
    const [reader, ...others] = [await open(), await open(address), await open(address), await open(address)];
    for (const session of [reader, ...others]) session.send(settings(4, 0));
    reader.send(head(1, '/paid'));
    await eventually(() => expect(reader.isAnswered(1)).toBe(true));
    for (const session of others) session.send(...ids(50).map((id) => head(id, '/free')));
    const ended = () => others.flatMap((session) => ids(50).filter((id) => session.resetOf(id) !== null)).length;
    await eventually(() => expect(ended()).toBe(1 + 150 - 60));
    expect(reader.resetOf(1)).toBeNull();
    reader.send(settings(4, 2_000));
    await eventually(() =>
      expect(reader.frames.some((it) => it.stream === 1 && it.flags & FLAG.END_STREAM)).toBe(true),
    );
  },
);

test('an answer that is being read is not ended for those who have more streams, all of them served (reliability 359)', async () => {
  const open = await serving(1_000, 60);
  answer = (request) => request.url === '/paid' && reply(request, 'x'.repeat(1_000));
  const [reader, greedy] = [await open(), await open('2001:db8:0:1::1')];
  reader.send(settings(4, 0), head(1, '/paid'));
  await eventually(() => expect(reader.isAnswered(1)).toBe(true));
  // So many that all are served before there are more.
  greedy.send(...ids(59).map((id) => head(id, '/held')));
  await eventually(() => expect(begun).toHaveLength(1 + 59));
  greedy.send(head(121, '/held'));
  await eventually(() => expect(greedy.resetOf(121)).toBe(CODE.REFUSED_STREAM));
  expect(reader.resetOf(1)).toBeNull();
});

// Fault: an upload whose response is complete and waits to be read cannot be broken off any more. It counted as freed, and was not.
test('uploads end until enough is freed, also those whose response waits to be read (reliability 329)', async () => {
  const open = await serving(1_000);
  answer = (request) => {
    if (request.url === '/waiting') return;
    request.once('data', () => {
      request.pause();
      reply(request, 'x'.repeat(1_000));
    });
  };
  const session = await open();
  // Nothing of the responses fits, so each is complete and its stream stays open.
  session.send(settings(4, 0));
  const answered = ids(20);
  for (const id of answered) session.send(head(id, '/answered', 'POST', 0), ...body(id));
  await eventually(() => expect(answered.every((id) => session.isAnswered(id))).toBe(true));
  const waiting = ids(40).slice(20);
  for (const id of waiting) session.send(head(id, '/waiting', 'POST', 0), ...body(id));
  await eventually(() => expect(begun).toHaveLength(40));
  isShortOfMemory = true;
  // About 40 MiB wait, and 32 may.
  await eventually(() => expect(answered.filter((id) => session.resetOf(id) !== null)).not.toEqual([]));
  expect(waiting.map((id) => session.resetOf(id))).toEqual(waiting.map(() => null));
  expect(broken).toEqual([]);
});

// Attack: an IPv6 client has as many addresses as it likes, and takes as many turns.
test('addresses of one network have their turn together (reliability 254)', async () => {
  const open = await serving(1_000);
  const many: RawSession[] = [];
  for (let i = 1; i <= 20; i++) many.push(await open(`2001:db8::${i}`));
  const other = await open('2001:db8:0:1::1');
  stepMs = 3;
  for (const session of many) session.send(...ids(50).map((id) => head(id, '/many')));
  other.send(...ids(10).map((id) => head(id, '/other')));
  await eventually(() => expect(begun).toHaveLength(1_010));
  // In turn with ten of the network, and not with those of each of its addresses.
  expect(begun.lastIndexOf('/other') - begun.indexOf('/other')).toBeLessThan(100);
});

/** Sends on 20 sessions what ends them. @returns how many of them end in one turn of the event loop at most, by `count` */
async function mostEndsInTurn(end: (session: RawSession) => void, by: (count: () => void) => void): Promise<number> {
  const open = await serving(1_000);
  const many = await Promise.all(Array.from({ length: 20 }, () => open()));
  const counted = countTurns();
  by(counted.done);
  for (const session of many) end(session);
  await eventually(() => expect(counted.all).toBe(20));
  return counted.most;
}

test('sessions that clients end at the same moment are ended in turns (reliability 317)', async () => {
  const most = await mostEndsInTurn(
    ({ socket }) => socket.end(),
    (count) => {
      closed = count;
    },
  );
  expect(most).toBeLessThanOrEqual(2);
});

// Attack: what sessions have sent is looked at ten times a second, and one with 99 requests takes 4 ms to end.
test('sessions that are found to send too much at the same moment are ended in turns (reliability 418)', async () => {
  const unknown = Array.from({ length: 40 }, () => frame(0xbb, 0, 0, Buffer.alloc(8_000)));
  const most = await mostEndsInTurn(
    (session) => session.send(...unknown),
    (count) => {
      brokenOff = count;
    },
  );
  expect(most).toBeLessThanOrEqual(2);
  expect(new Set(broken)).toEqual(new Set(['overhead']));
});

/** One MiB of a body. */
test('sessions are told in turns that the gateway stops (reliability 446)', async () => {
  const open = await serving(1_000);
  const many = await Promise.all(Array.from({ length: 40 }, () => open()));
  // Until what they have sent is processed.
  for (const { socket } of many)
    await new Promise((done) => socket.write(frame(TYPE.PING, 0, 0, Buffer.alloc(8)), done));
  await eventually(() => expect(many.every(({ frames }) => frames.some(({ type }) => type === TYPE.PING))).toBe(true));
  const counted = countTurns();
  for (const { socket } of many) socket.once('data', counted.done);
  drain();
  await eventually(() => expect(counted.all).toBe(many.length));
  expect(counted.most).toBeLessThanOrEqual(16);
  await eventually(() =>
    expect(many.every(({ frames }) => frames.some(({ type }) => type === TYPE.GOAWAY))).toBe(true),
  );
});

function body(stream: number): Buffer[] {
  return Array.from({ length: MiB / 16_384 }, () => frame(TYPE.DATA, 0, stream, Buffer.alloc(16_384)));
}
