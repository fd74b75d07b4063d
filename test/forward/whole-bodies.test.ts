import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer as createEncryptedServer } from 'node:https';
import { createConnection, createServer, type Socket } from 'node:net';
import { connect as connectEncrypted } from 'node:tls';
import { beforeAll, describe, expect, test } from 'vitest';
import type { ForwardRequest } from '../../src/forward/request-body.ts';
import { type InFlightRequest, UpstreamConnection } from '../../src/forward/upstream/upstream-connection.ts';
import { Deadlines } from '../../src/io/deadlines.ts';
import { Wire } from '../listen/fast-path/wire.ts';
import { createAuthority } from '../support/certificates.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { listen } from '../support/listening.ts';
import { temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream.ts';

// Bodies that came whole are written at once, and are in the upstream's hands only when the system has taken them.

const ROUTES = `
  - { path: /v1/pets, methods: [GET, POST, PUT, PATCH, DELETE], upstream: store, body: true }
`;
const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const requestWith = (text: string): ForwardRequest => ({
  method: 'POST',
  target: '/',
  lines: `Content-Length: ${text.length}\r\n`,
  body: { framing: 'whole', text },
});
const POST = requestWith('b\0\r\xff');

/** A connection to an upstream, what it carries noting what it is told. */
function connectionOn(socket: Socket) {
  const told: string[] = [];
  const note = (what: string) => () => {
    told.push(what);
  };
  const kept: string[] = [];
  const keeper = {
    onIdle: () => kept.push('idle'),
    onUnasked: () => kept.push('unasked'),
    onClosed: () => kept.push('closed'),
  };
  const deadlines = new Deadlines(() => performance.now());
  const connection = new UpstreamConnection(socket, null, { authority: 'up', base: '' }, keeper, deadlines);
  const carried: InFlightRequest = {
    share: {},
    onInformation: note('information'),
    onHead: note('head'),
    onData: note('data'),
    onEnd: note('end'),
    onPause: () => {},
    onWhole: () => {},
    isBufferReleased: true,
    onBodySent: note('sent'),
    worked: () => {},
    onBroken: () => told.push(connection.isBodyUnsent ? 'broken, unsent' : 'broken'),
    onFree: note('free'),
    onBodyFault: note('fault'),
  };
  return { connection, carried, told, kept };
}

describe('a whole body', () => {
  test('leaves with the head of its request in one write, and the client is waited for no more', () => {
    const wire = new Wire();
    let writes = 0;
    const write = wire._write.bind(wire);
    wire._write = (...args) => {
      writes++;
      write(...args);
    };
    const { connection, carried, told } = connectionOn(wire as unknown as Socket);
    connection.carry(POST, carried);
    expect(wire.text).toBe('POST / HTTP/1.1\r\nHost: up\r\nContent-Length: 4\r\n\r\nb\0\r\xff');
    expect([writes, told, connection.waitsForClient]).toEqual([1, [], false]);
    wire.destroy();
  });

  test('that the system has taken is sent, when the upstream then closes', async () => {
    const wire = new Wire();
    const { connection, carried, told } = connectionOn(wire as unknown as Socket);
    connection.carry(POST, carried);
    wire.push(null);
    await eventually(() => expect(told).toEqual(['broken']));
  });

  test.each([
    ['closes', (wire: Wire) => wire.push(null)],
    ['is reset', (wire: Wire) => wire.destroy(new Error('reset'))],
  ])('that waits for the upstream to read is unsent, when the connection %s', async (_, end) => {
    const wire = new Wire();
    wire.takes = false;
    const { connection, carried, told } = connectionOn(wire as unknown as Socket);
    connection.carry(POST, carried);
    expect([told, connection.waitsForClient]).toEqual([[], false]);
    end(wire);
    await eventually(() => expect(told).toEqual(['broken, unsent']));
  });

  test('that waited and has been taken is sent', async () => {
    const wire = new Wire();
    wire.takes = false;
    const { connection, carried, told } = connectionOn(wire as unknown as Socket);
    connection.carry(POST, carried);
    wire.go();
    await new Promise(setImmediate);
    wire.push(null);
    await eventually(() => expect(told).toEqual(['broken']));
  });

  test.each([
    [false, 'closed'],
    [true, 'idle'],
  ])('that was answered leaves its connection for another only if it was taken (%s)', async (takes, becomes) => {
    const wire = new Wire();
    wire.takes = takes;
    const { connection, carried, told, kept } = connectionOn(wire as unknown as Socket);
    connection.carry(POST, carried);
    wire.push(ANSWER);
    await eventually(() => expect(told).toEqual(['head', 'data', 'end', 'free']));
    await eventually(() => expect(kept).toEqual([becomes]));
    wire.destroy();
  });

  // No turn of the event loop is between the reset and the write, so that it is the write that fails.
  test('that meets a connection which was reset just before is unsent', async () => {
    const accepted: Socket[] = [];
    const server = createServer((socket) => accepted.push(socket));
    const { port } = await listen(server);
    const socket = createConnection(port, '127.0.0.1');
    await once(socket, 'connect');
    await eventually(() => expect(accepted).toHaveLength(1));
    const { connection, carried, told } = connectionOn(socket);
    accepted[0]?.resetAndDestroy();
    connection.carry(POST, carried);
    await eventually(() => expect(told).toEqual(['broken, unsent']));
    server.close();
  });
});

// Over TLS the system has never taken at once what was written.
test('whole bodies on an encrypted connection arrive as they were sent, one after the other', async () => {
  const authority = await createAuthority(await temporaryFolder());
  const own = await authority.issue('server');
  const [cert, key] = await Promise.all([readFile(own.cert), readFile(own.key)]);
  const got: string[] = [];
  const server = createEncryptedServer({ cert, key }, async (request, response) => {
    got.push(Buffer.concat(await request.toArray()).toString('latin1'));
    response.end('{}');
  });
  const { port } = await listen(server);
  const socket = connectEncrypted({ port, host: '127.0.0.1', ca: authority.pem });
  await once(socket, 'secureConnect');
  const { connection, carried, told, kept } = connectionOn(socket);
  const bodies = ['{}', String.fromCharCode(...Array(256).keys()), 'x'.repeat(15_000), 'last'];
  for (const text of bodies) {
    told.length = 0;
    connection.carry(requestWith(text), carried);
    await eventually(() => expect(told.at(-1)).toBe('free'));
  }
  expect(got).toEqual(bodies);
  expect(kept).toEqual(bodies.map(() => 'idle'));
  connection.destroy();
  server.close();
});

describe('a whole request on a connection that breaks under it', () => {
  let gateway: TestGateway;
  let upstream: RawUpstream;
  let key: string;
  let breaks: 'no' | 'close' | 'reset' = 'no';
  let seen = 0;

  beforeAll(async () => {
    upstream = await startRawUpstream((socket, _bytes, { request }) => {
      seen++;
      if (request === 1 || breaks === 'no') socket.write(ANSWER);
      else if (breaks === 'close') socket.end();
      else socket.resetAndDestroy();
    });
    gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
    ({ key } = await gateway.createKey('endless'));
  });

  const asked = (method: string, length: string) =>
    `${method} /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${length}\r\n`;
  const BODY = 'Content-Length: 2\r\n';

  test.each([
    ...(['POST', 'PATCH'] as const).flatMap((method) => [
      [method, 'with a body', 502, 1] as const,
      [method, 'without one', 502, 1] as const,
    ]),
    ...(['PUT', 'DELETE'] as const).flatMap((method) => [
      [method, 'with a body', 200, 2] as const,
      [method, 'without one', 200, 2] as const,
    ]),
  ])(
    '%s %s is answered %i, and sent so many times: %i (reliability 85, 90, 334)',
    async (method, how, status, times) => {
      for (const way of ['close', 'reset'] as const) {
        breaks = 'no';
        await rawExchange(gateway.port, asked('GET', ''));
        [breaks, seen] = [way, 0];
        const bytes = how === 'with a body' ? `${asked(method, BODY)}{}` : asked(method, '');
        const { responses } = await rawExchange(gateway.port, bytes);
        expect([responses.map((it) => it.status), seen]).toEqual([[status], times]);
      }
    },
  );
});

test('an upstream that takes a whole request and says nothing has its own time, no more: 504', async () => {
  const silent = await startRawUpstream(() => {});
  const gateway = await openGateway({ upstream: silent.origin, upstreamSettings: { responseTimeout: '400ms' } });
  const { key } = await gateway.createKey('free');
  const elapsed = stopwatch();
  const bytes = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 2\r\n\r\n{}`;
  const { responses } = await rawExchange(gateway.port, bytes);
  expect(responses.map(({ status }) => status)).toEqual([504]);
  expect(elapsed()).toBeGreaterThan(350);
});

test('an upstream that reads nothing of what it answers gets its requests until no more fit, and none is answered wrongly', async () => {
  const connections: Socket[] = [];
  const server = createServer((socket) => {
    connections.push(socket.pause());
    socket.on('error', () => {});
  });
  const { origin } = await listen(server);
  const gateway = await openGateway({
    upstream: origin,
    upstreamSettings: { responseTimeout: `${paced(400)}ms`, maxConnections: 1 },
  });
  const { key } = await gateway.createKey('endless');
  const body = 'x'.repeat(15_000);
  const bytes = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 15000\r\n\r\n${body}`;
  for (let i = 0; i < 3; i++) {
    const { responses } = await rawExchange(gateway.port, bytes);
    expect(responses.map(({ status }) => status)).toEqual([504]);
  }
  // An answer of which the request was never read.
  const early = rawExchange(gateway.port, bytes);
  await eventually(() => expect(connections).toHaveLength(4));
  connections[3]?.write(ANSWER);
  expect((await early).responses.map((it) => [it.status, it.body.toString()])).toEqual([[200, 'ok']]);
  for (const socket of connections) socket.destroy();
  server.close();
});
