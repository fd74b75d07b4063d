import type { ClientHttp2Session } from 'node:http2';
import { Readable } from 'node:stream';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { UnreadRequests } from '../../../src/listen/http2/unread-requests.ts';
import { eventually } from '../../support/conditions.ts';
import { askHttp2, type EncryptedGateway, openHttp2, startEncrypted } from '../../support/encrypted.ts';
import { FLAG, fieldBlock, frame, pseudo, TYPE } from '../../support/http2-frames.ts';
import { openRawSession, type RawSession } from '../../support/raw-http2.ts';
import { startUpstream } from '../../support/upstream.ts';

const MiB = 1024 * 1024;

describe('bodies that wait for a service', () => {
  let it: EncryptedGateway;
  let key: string;
  /** What lets the service read bodies; until then it has two, and the others wait for a connection. */
  let read: () => void;
  let isRead: Promise<void>;

  beforeAll(async () => {
    const upstream = await startUpstream(
      async (request, response) => {
        request.once('end', () => response.end('{}'));
        await isRead;
        request.resume();
      },
      { readBody: false },
    );
    const upstreamSettings = { maxConnections: 2, fairShare: 1, connectTimeout: '2m', responseTimeout: '2m' };
    it = await startEncrypted({
      upstream: upstream.origin,
      upstreamSettings,
      listen: { maxBodyBytes: '64MiB', requestTimeout: '5m' },
    });
    key = (await it.gateway.createKey('endless')).key;
  });

  beforeEach(() => {
    isRead = new Promise((resolve) => {
      read = resolve;
    });
  });

  const headOf = (path: string) => fieldBlock([...pseudo(path, 'POST'), ['authorization', `Bearer ${key}`]]);

  test('a client may send 1 MiB of a body without a word of the gateway (reliability 328)', async () => {
    const session = await openConfirmed();
    session.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, headOf('/v1/pets')), ...body(1, MiB));
    read();
    session.send(frame(TYPE.DATA, FLAG.END_STREAM, 1));
    await eventually(() => expect(session.isAnswered(1)).toBe(true));
    expect([session.goaway(), session.closed]).toEqual([null, false]);
  });

  test('while services are slow the windows are narrow, then wide again, and no upload is lost (reliability 328)', async () => {
    const session = await openHttp2(it.gateway.port, it.ca);
    const windows: (number | undefined)[] = [];
    session.on('remoteSettings', ({ initialWindowSize }) => windows.push(initialWindowSize));
    const uploads = Array.from({ length: 20 }, () => upload(session, 2 * MiB));
    await eventually(() => expect(windows.at(-1)).toBe(16 * 1024));
    expect((await askHttp2(session, { path: '/none', headers: { authorization: `Bearer ${key}` } })).status).toBe(404);
    read();
    expect(await Promise.all(uploads)).toEqual(uploads.map(() => 200));
    await eventually(() => expect(windows.at(-1)).toBe(MiB));
  });

  // Attack: windows are filled, whatever the gateway says meanwhile.
  test('of one address 128 MiB may be unread: uploads end beyond that, and others are served (reliability 329)', async () => {
    const sessions = await Promise.all([1, 2].map(openConfirmed));
    const ids = Array.from({ length: 90 }, (_, i) => 2 * i + 1);
    for (const id of ids) {
      for (const session of sessions) {
        session.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, id, headOf('/v1/pets')), ...body(id, MiB));
        await taken(session);
      }
    }
    const ended = () => sessions.flatMap((session) => ids.filter((id) => session.resetOf(id) !== null)).length;
    await eventually(() => expect(ended()).toBeGreaterThanOrEqual(40));
    expect(ended()).toBeLessThan(150);
    expect(sessions.map(({ closed }) => closed)).toEqual([false, false]);
    const other = await openHttp2(it.gateway.port, it.ca);
    expect((await askHttp2(other, { path: '/none', headers: { authorization: `Bearer ${key}` } })).status).toBe(404);
    for (const { socket } of sessions) socket.destroy();
    read();
  });

  /** A session whose client has confirmed the windows with which the gateway begins, and confirms nothing more. */
  async function openConfirmed(): Promise<RawSession> {
    const session = await openRawSession(it.gateway.port, { ca: it.ca });
    await eventually(() => expect(session.frames.some(({ type }) => type === TYPE.SETTINGS)).toBe(true));
    session.send(frame(TYPE.SETTINGS, FLAG.ACK, 0));
    return session;
  }

  function upload(session: ClientHttp2Session, bytes: number): Promise<number | string> {
    return new Promise((resolve) => {
      const stream = session.request({ ':path': '/v1/pets', ':method': 'POST', authorization: `Bearer ${key}` });
      stream.on('error', (error) => resolve(error.message));
      stream.once('response', (head) => resolve(Number(head[':status'])));
      stream.resume();
      // In pieces: the client of Node holds at most 10 MB for a session.
      Readable.from(Array.from({ length: bytes / 8192 }, () => Buffer.alloc(8192))).pipe(stream);
    });
  }
});

describe('which windows are narrow, and whose uploads end', () => {
  const uploads = (network: string | null, mib: number) => ({
    network,
    unreadOfRequests: mib * MiB,
    isNarrow: false,
    ended: 0,
    setNarrow(isNarrow: boolean) {
      this.isNarrow = isNarrow;
    },
    endUploads(bytes: number) {
      this.ended += bytes / MiB;
      this.unreadOfRequests -= bytes;
      return bytes;
    },
  });

  test.each([
    [
      'those of an address with more than 4 MiB',
      [
        ['a', 5],
        ['b', 3],
      ],
      [true, false],
    ],
    [
      'those of all sessions of an address together',
      [
        ['a', 3],
        ['a', 2],
      ],
      [true, true],
    ],
    [
      'all, if all have more than 16 MiB',
      [
        ['a', 4],
        ['b', 4],
        ['c', 4],
        ['d', 4],
        ['e', 1],
      ],
      [true, true, true, true, true],
    ],
    [
      'no session of a proxy for what another proxy holds',
      [
        [null, 8],
        [null, 8],
      ],
      [false, false],
    ],
  ] as const)('narrow are %s (reliability 328)', (_, given, expected) => {
    const sessions = given.map(([network, mib]) => uploads(network, mib));
    new UnreadRequests(() => false).look(sessions);
    expect(sessions.map(({ isNarrow }) => isNarrow)).toEqual(expected);
  });

  test('they are wide again with half of it (reliability 328)', () => {
    const session = uploads('a', 5);
    const unread = new UnreadRequests(() => false);
    const at = (mib: number) => {
      session.unreadOfRequests = mib * MiB;
      unread.look([session]);
      return session.isNarrow;
    };
    expect([5, 3, 2.1, 2, 3, 0].map(at)).toEqual([true, true, true, false, false, false]);
  });

  test.each([
    [
      'an address beyond 128 MiB',
      false,
      [
        ['a', 100],
        ['a', 60],
        ['b', 90],
      ],
      [32, 0, 0],
    ],
    [
      'the session with most, beyond 256 MiB of all',
      false,
      [
        [null, 120],
        ['b', 100],
        ['c', 60],
      ],
      [24, 0, 0],
    ],
    [
      'a quarter of that while memory is short',
      true,
      [
        ['a', 40],
        ['b', 30],
      ],
      [8, 0],
    ],
  ] as const)('uploads end of %s (reliability 329)', (_, isShort, given, expected) => {
    const sessions = given.map(([network, mib]) => uploads(network, mib));
    new UnreadRequests(() => isShort).look(sessions);
    expect(sessions.map(({ ended }) => ended)).toEqual(expected);
  });
});

/** Frames of a body. */
function body(stream: number, bytes: number): Buffer[] {
  const piece = frame(TYPE.DATA, 0, stream, Buffer.alloc(16_384));
  return Array.from({ length: bytes / 16_384 }, () => piece);
}

/** Until the system has taken what was sent. */
async function taken({ socket }: RawSession): Promise<void> {
  while (socket.writableLength > 0 && !socket.destroyed) await new Promise(setImmediate);
}
