import { once } from 'node:events';
import { request } from 'node:http';
import { createConnection, createServer, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { type InFlightRequest, UpstreamConnection } from '../../src/forward/upstream/upstream-connection.ts';
import { Deadlines, UNWATCHED } from '../../src/io/deadlines.ts';
import { Wire } from '../listen/fast-path/wire.ts';
import { eventually } from '../support/conditions.ts';
import { startGateway } from '../support/gateway.ts';
import { listen } from '../support/listening.ts';
import { startUpstream } from '../support/upstream.ts';

// A service that does not want an upload answers early and closes the connection. A write that fails for that reason does
// not end the reading of the answer (reliability 84, 332).

const ANSWER = 'HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno';

/** A request with a body that is still coming, on a connection; what it is called with is noted. */
function uploadOn(socket: Socket, deadlines = new Deadlines(() => performance.now())) {
  const told: string[] = [];
  const source = new PassThrough();
  const keeper = { onIdle: () => told.push('idle'), onUnasked: () => told.push('unasked'), onClosed: () => {} };
  const connection = new UpstreamConnection(socket, null, { authority: 'up', base: '' }, keeper, deadlines);
  const carried: InFlightRequest = {
    share: {},
    onInformation: () => {},
    onHead: ({ status }) => told.push(`${status}`),
    onData: (chunk) => told.push(chunk.toString('latin1')),
    onEnd: () => told.push('end'),
    onPause: () => {},
    onWhole: () => {},
    isBufferReleased: true,
    onBodySent: () => told.push('sent'),
    worked: () => {},
    onBroken: (error) => told.push(`${connection.isBodyUnsent ? 'unsent' : 'sent'}: ${error.message}`),
    onFree: () => {},
    onBodyFault: () => {},
  };
  const body = { source, framing: 'chunked', maxBytes: 1e6, probe: () => {} } as const;
  connection.carry({ method: 'POST', target: '/', lines: '', body }, carried);
  return { connection, source, told };
}

/** Fails like a write to a connection that the other side has closed. */
const failWrite = (wire: Wire, code: string) =>
  wire.destroy(Object.assign(new Error(`write ${code}`), { syscall: 'write', code }));

test('an answer that waits to be read when a write fails is read (reliability 332)', async () => {
  const accepted: Socket[] = [];
  const server = createServer({ pauseOnConnect: true }, (socket) => accepted.push(socket));
  const { port } = await listen(server);
  const socket = createConnection(port, '127.0.0.1');
  await once(socket, 'connect');
  await eventually(() => expect(accepted).toHaveLength(1));
  const { source, told } = uploadOn(socket);
  // The piece is written in the same turn of the event loop, so that it is the write that fails. The head of the request
  // stays unread, so that the service resets the connection.
  setImmediate(() => {
    accepted[0]!.write(ANSWER);
    accepted[0]!.destroy();
  });
  source.write('a piece');
  await eventually(() => expect(told).toEqual(['413', 'no', 'end']));
  expect(socket.destroyed).toBe(true);
  server.close();
});

test('a body that ends with the connection is whole if the service had closed its half, else broken (reliability 333)', async () => {
  for (const [code, last] of [
    ['EPIPE', 'end'],
    ['ECONNRESET', 'unsent: write ECONNRESET'],
  ] as const) {
    const wire = new Wire();
    const { told } = uploadOn(wire as unknown as Socket);
    failWrite(wire, code);
    wire.push('HTTP/1.1 413 Too Much\r\n\r\nno');
    wire.push(null);
    await eventually(() => expect(told).toEqual(['413', 'no', last]));
    expect(wire.destroyed).toBe(true);
  }
});

test('a write fails and no answer comes: the connection is closed after a second (reliability 332)', async () => {
  const clock = { nowMs: 0 };
  const deadlines = new Deadlines(() => clock.nowMs);
  /** When all deadlines have been checked at a time. */
  const checkedAt = (nowMs: number) =>
    new Promise<void>((resolve) => {
      clock.nowMs = nowMs;
      const check = { deadlineAtMs: nowMs, slot: UNWATCHED, onDeadline: () => resolve(deadlines.forget(check)) };
      deadlines.watch(check);
    });
  const wire = new Wire();
  const { told } = uploadOn(wire as unknown as Socket, deadlines);
  failWrite(wire, 'ECONNRESET');
  await checkedAt(999);
  expect([told, wire.destroyed]).toEqual([[], false]);
  await checkedAt(1_000);
  await eventually(() => expect(told).toEqual(['unsent: write ECONNRESET']));
  expect(wire.destroyed).toBe(true);
});

test.each([200_000, 5_000_000])(
  'uploads of %i bytes to a service that answers at once and closes get its answer (reliability 332)',
  async (size) => {
    const upstream = await startUpstream((_, response) => response.writeHead(413, { connection: 'close' }).end('no'), {
      readBody: false,
    });
    const gateway = await startGateway({ upstream: upstream.origin, listen: { maxBodyBytes: '8MiB' } });
    const { key } = await gateway.createKey('endless');
    const body = Buffer.alloc(size);
    for (let i = 0; i < 20; i++) {
      const sent = request(`${gateway.origin}/v1/pets`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
      });
      sent.on('error', () => {});
      sent.end(body);
      const [answer] = await once(sent, 'response');
      expect([answer.statusCode, await text(answer)]).toEqual([413, 'no']);
    }
  },
);
