import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, createServer, Socket } from 'node:net';
import { createServer as createEncryptedServer, type SecureVersion, type TLSSocket } from 'node:tls';
import { describe, expect, test } from 'vitest';
import type { UpstreamTls } from '../../src/forward/upstream/dial.ts';
import { type ConnectionWaiter, Upstream } from '../../src/forward/upstream/upstream.ts';
import { type InFlightRequest, UpstreamConnection } from '../../src/forward/upstream/upstream-connection.ts';
import { Buffers } from '../../src/io/buffers.ts';
import { Deadlines } from '../../src/io/deadlines.ts';
import { Intake } from '../../src/io/read-buffers.ts';
import { Chance } from '../../tools/kit/chance.ts';
import { eventually } from '../support/conditions.ts';
import { newAuthority } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { openGateway } from '../support/gateway.ts';
import { listen } from '../support/listening.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream.ts';
import { logged, metric } from '../support/web-sockets.ts';

// An upstream that answers a request twice, the second time in a write of its own: once the next request has been written
// to that connection, nobody can tell the second answer from the answer to that request, which may be another client's.

const answer = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const nameIn = (request: Buffer) => /^[A-Z]+ \/v1\/pets\?(\w+)/.exec(request.toString('latin1'))![1]!;
const COUNT = 'tollgate_upstream_unasked_answers_total{upstream="store"}';
const LINE = 'connections are not reused for a minute';

const startBefore = async (upstream: Pick<RawUpstream, 'origin'>) => {
  const gateway = await openGateway({ upstream: upstream.origin });
  const { key } = await gateway.createKey('endless');
  const ask = async (name: string) => (await gateway.get(`/v1/pets?${name}`, key)).text();
  return { gateway, ask };
};

describe('a gateway whose upstream answers requests twice (reliability 154)', () => {
  test('gives no second answer to a later request, once one has come to an idle connection; log and metric tell', async () => {
    const chance = new Chance(154);
    const reused: string[] = [];
    const upstream = await startRawUpstream((socket, bytes, { request }) => {
      const name = nameIn(bytes);
      if (request > 1) reused.push(name);
      socket.write(answer(name));
      setTimeout(() => socket.write(answer(`unasked${name}`)), chance.below(10));
    });
    const { gateway, ask } = await startBefore(upstream);
    expect(await metric(gateway, COUNT)).toBe(0);
    expect(await ask('first')).toBe('first');
    await eventually(() => expect(upstream.open).toBe(0));
    const wrong: string[] = [];
    const client = async (_: unknown, number: number) => {
      for (let i = 0; i < 20; i++) {
        const name = `client${number}request${i}`;
        const got = await ask(name);
        if (got !== name) wrong.push(`${name} got ${got}`);
      }
    };
    await Promise.all(Array.from({ length: 16 }, client));
    expect({ wrong, reused }).toEqual({ wrong: [], reused: [] });
    expect(await metric(gateway, COUNT)).toBeGreaterThan(0);
    expect(logged(gateway, LINE)).toEqual([
      expect.objectContaining({ level: 50, upstream: 'store', target: upstream.origin, cause: expect.any(String) }),
    ]);
  });
});

const carriedBy = (told: Partial<Omit<InFlightRequest, 'share'>>): InFlightRequest => ({
  share: {},
  onInformation: () => {},
  onHead: () => {},
  onData: () => {},
  onEnd: () => {},
  onPause: () => {},
  onWhole: () => {},
  isBufferReleased: true,
  onBodySent: () => {},
  worked: () => {},
  onBroken: () => {},
  onFree: () => {},
  onBodyFault: () => {},
  ...told,
});

/** The connections to an upstream, on a clock of the test's. */
function openPool(target: string, tls: UpstreamTls | null = null) {
  const clock = { nowMs: 0 };
  /** Each time that the target sent what was not asked for, whether its connections had been reused until then. */
  const unasked: boolean[] = [];
  const pool = new Upstream({
    targets: [{ url: target, weight: 1 }],
    connectTimeoutMs: 5_000,
    responseTimeoutMs: 5_000,
    bodyTimeoutMs: 5_000,
    maxConnections: 10,
    maxQueue: 0,
    fairShare: 1,
    tls,
    monotonicMs: () => clock.nowMs,
    onUnasked: (_target, begins) => unasked.push(begins),
  });
  atEnd(() => pool.close());
  /** @returns the body of the answer, when its connection is idle or closed */
  const ask = (name: string, method = 'GET') => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    let body = '';
    const carried = carriedBy({
      onData: (chunk) => {
        body += chunk.toString('latin1');
      },
      onBroken: reject,
      onBodyFault: reject,
      onFree: () => {
        pool.leave(turn);
        resolve(body);
      },
    });
    const turn: ConnectionWaiter = {
      share: pool.takePlace('any')!,
      place: null,
      onTarget: () => {},
      onConnecting: () => {},
      onNotConnected: reject,
      onConnected: (connection) =>
        connection.carry({ method, target: `/v1/pets?${name}`, lines: '', body: null }, carried),
    };
    expect(pool.enter(turn)).toBe(true);
    return promise;
  };
  return { clock, unasked, ask };
}

describe('of its idle connections an upstream is asked on', () => {
  test.each([
    { atMs: 4, on: 1, why: 'the one that has been idle for longest, where none has for 5 ms' },
    { atMs: 6, on: 2, why: 'the last of those that have been idle for 5 ms, and not the last of all' },
    { atMs: 1_000, on: 3, why: 'the last of all, when each has been idle for 5 ms: the others grow old' },
  ])('$why', async ({ atMs, on }) => {
    const holds: (() => void)[] = [];
    const asked: number[] = [];
    const upstream = await startRawUpstream((socket, bytes, { connection }) => {
      asked.push(connection);
      holds.push(() => socket.write(answer(nameIn(bytes))));
    });
    const { clock, ask } = openPool(upstream.origin);
    const first: Promise<string>[] = [];
    for (let i = 0; i < 3; i++) {
      first.push(ask('first'));
      await eventually(() => expect(asked).toHaveLength(i + 1));
    }
    for (const [i, told] of first.entries()) {
      clock.nowMs = i;
      holds[i]!();
      await told;
    }
    clock.nowMs = atMs;
    const second = ask('second');
    await eventually(() => expect(asked).toEqual([1, 2, 3, on]));
    holds[3]!();
    expect(await second).toBe('second');
  });
});

test('an upstream that sent what was not asked for is reused again after a minute', async () => {
  const sockets: Socket[] = [];
  const used: number[] = [];
  const upstream = await startRawUpstream((socket, bytes, { connection }) => {
    sockets.push(socket);
    used.push(connection);
    socket.write(answer(nameIn(bytes)));
  });
  const { clock, ask, unasked } = openPool(upstream.origin);
  await Promise.all([ask('one'), ask('two')]);
  sockets[0]!.write(answer('unasked'));
  await eventually(() => expect(upstream.open).toBe(0));
  expect(unasked).toEqual([true]);
  for (clock.nowMs = 0; clock.nowMs < 60_000; clock.nowMs += 15_000) expect(await ask('other')).toBe('other');
  for (let i = 0; i < 3; i++) expect(await ask('other')).toBe('other');
  expect(used).toEqual([1, 2, 3, 4, 5, 6, 7, 7, 7]);
  sockets.at(-1)!.write(answer('unasked'));
  await eventually(() => expect(unasked).toEqual([true, true]));
});

test('a plain connection whose bytes wait for their turn carries no further request (reliability 410)', async () => {
  const { port } = await listen(createServer((socket) => void socket.on('error', () => {})));
  const [busy, intake] = [new Intake(new Buffers()), new Intake(new Buffers())];
  const onBytes = () => {
    // Longer than a turn allows.
    const untilMs = performance.now() + 20;
    while (performance.now() < untilMs);
    return true;
  };
  busy.into({ isAmidBody: true, owner: 'other', onBytes }, new Socket());
  const socket = connect({ port, host: '127.0.0.1', onread: intake.onread });
  await once(socket, 'connect');
  const keeper = { onIdle: () => {}, onUnasked: () => {}, onClosed: () => {} };
  const address = { authority: 'a', base: '' };
  const deadlines = new Deadlines(() => 0);
  const connection = new UpstreamConnection(socket, intake, address, keeper, deadlines);
  busy.onread.callback(1, Buffer.alloc(1));
  const unasked = Buffer.from(answer('unasked'));
  expect(intake.onread.callback(unasked.length, unasked)).toBe(false);
  expect(connection.takeIdle(0)).toBe(false);
  expect(socket.destroyed).toBe(true);
});

test('connections that are not reused leave no port behind in TIME_WAIT: the upstream sees a reset', async () => {
  const ends: string[] = [];
  const upstream = await startRawUpstream((socket, bytes) => {
    socket.on('error', ({ code }: NodeJS.ErrnoException) => ends.push(code!));
    socket.write(answer(nameIn(bytes)) + (nameIn(bytes) === 'one' ? 'and more' : ''));
  });
  const { ask } = openPool(upstream.origin);
  await ask('one');
  for (let i = 0; i < 4; i++) expect(await ask('other')).toBe('other');
  await eventually(() => expect(ends).toEqual(Array(5).fill('ECONNRESET')));
});

describe('what an upstream sends unasked', () => {
  interface Sends {
    readonly what: string;
    readonly counts: boolean;
    readonly method?: string;
    /** In the write of the answer, and when that has been told. */
    readonly behind?: string;
    readonly later?: (socket: Socket) => unknown;
  }
  test.each<Sends>([
    { what: 'a second answer in a write of its own', counts: true, later: (socket) => socket.write(answer('again')) },
    { what: 'a second answer in the write of the first', counts: true, behind: answer('again') },
    { what: 'a body of an answer to HEAD', counts: true, method: 'HEAD', behind: 'body' },
    {
      what: 'a body of an answer to HEAD, later',
      counts: true,
      method: 'HEAD',
      later: (socket) => socket.write('body'),
    },
    { what: 'a line end', counts: true, behind: '\r\n' },
    { what: 'nothing', counts: false },
    { what: 'its end', counts: false, later: (socket) => socket.end() },
    { what: 'a reset', counts: false, later: (socket) => socket.resetAndDestroy() },
    {
      what: 'a 408, because the connection was idle for too long',
      counts: false,
      later: (socket) => socket.end('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n'),
    },
  ])('$what: counts $counts', async ({ counts, method, behind = '', later }) => {
    let said: Socket | null = null;
    const upstream = await startRawUpstream((socket, bytes) => {
      const isOther = nameIn(bytes) === 'other';
      if (!isOther) said = socket;
      const head = `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n`;
      socket.write(`${head}${method === 'HEAD' && !isOther ? '' : 'ok'}${isOther ? '' : behind}`);
    });
    const { ask, unasked } = openPool(upstream.origin);
    await Promise.all([ask('one', method), ask('other')]);
    later?.(said!);
    if (later !== undefined || counts) await eventually(() => expect(upstream.open).toBe(counts ? 0 : 1));
    expect(unasked).toEqual(counts ? [true] : []);
    await ask('other');
    expect(upstream.connections).toBe(counts ? 3 : 2);
  });

  test.each(['TLSv1.2', 'TLSv1.3'])('over %s is its bytes, and no ticket or end of the session', async (maxVersion) => {
    const authority = await newAuthority();
    const { cert, key } = await authority.issue('localhost');
    const [certPem, keyPem] = await Promise.all([readFile(cert), readFile(key)]);
    const sockets: TLSSocket[] = [];
    const server = createEncryptedServer(
      { cert: certPem, key: keyPem, maxVersion: maxVersion as SecureVersion },
      (socket) => {
        sockets.push(socket);
        socket.on('error', () => {});
        socket.on('data', (bytes: Buffer) => socket.write(answer(nameIn(bytes))));
      },
    );
    const { port } = await listen(server);
    atEnd(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const tls = { ca: authority.pem, cert: null, key: null, serverName: 'localhost', verify: true };
    const { ask, unasked } = openPool(`https://127.0.0.1:${port}`, tls);
    for (let i = 0; i < 3; i++) expect(await ask('one')).toBe('one');
    expect(sockets).toHaveLength(1);
    sockets[0]!.end();
    await eventually(() => sockets[0]!.closed);
    expect(await ask('two')).toBe('two');
    expect(unasked).toEqual([]);
    sockets[1]!.write(answer('unasked'));
    await eventually(() => sockets[1]!.closed);
    expect(unasked).toEqual([true]);
    expect(await ask('three')).toBe('three');
  });

  test('is not what had been read of an answer that was given up', async () => {
    let said: Socket | null = null;
    const upstream = await startRawUpstream((socket) => {
      said = socket;
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfirst');
    });
    const socket = connect(upstream.port, '127.0.0.1');
    await once(socket, 'connect');
    let unasked = 0;
    const keeper = { onIdle: () => {}, onUnasked: () => unasked++, onClosed: () => {} };
    const deadlines = new Deadlines(() => performance.now());
    // Without an intake, as over TLS: Node goes on reading a paused stream, and hands out what it has read when that is resumed.
    const connection = new UpstreamConnection(socket, null, { authority: 'up', base: '' }, keeper, deadlines);
    const carried = carriedBy({ onData: () => connection.pause() });
    connection.carry({ method: 'GET', target: '/', lines: '', body: null }, carried);
    await eventually(() => socket.isPaused());
    said!.write('second');
    await eventually(() => expect(socket.readableLength).toBe('second'.length));
    connection.dropped(carried);
    await once(socket, 'close');
    expect(unasked).toBe(0);
  });
});
