import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { expect, test, vi } from 'vitest';
import { addressOf, dial } from '../../../src/forward/upstream/dial.ts';
import { UpstreamConnection } from '../../../src/forward/upstream/upstream-connection.ts';
import { Buffers } from '../../../src/io/buffers.ts';
import { Deadlines } from '../../../src/io/deadlines.ts';
import { Intake } from '../../../src/io/read-buffers.ts';
import { eventually } from '../../support/conditions.ts';
import { newAuthority } from '../../support/encrypted.ts';
import { atEnd } from '../../support/endings.ts';
import { listen } from '../../support/listening.ts';

// What services send waits for its turn if one turn of the event loop has had enough. It arrives whole all the same.

/** Sends a request, and passes on what arrives of its response. @param ended called with null if the response is whole */
function ask(socket: Socket, intake: Intake, onData: (chunk: Buffer) => void, ended: (fault: Error | null) => void) {
  atEnd(() => socket.destroy());
  const ignore = () => {};
  const keeper = { onIdle: ignore, onUnasked: ignore, onClosed: ignore };
  const deadlines = new Deadlines(() => performance.now());
  const connection = new UpstreamConnection(socket, intake, { authority: 'up', base: '' }, keeper, deadlines);
  connection.carry(
    { method: 'GET', target: '/', lines: '', body: null },
    {
      share: {},
      isBufferReleased: false,
      onData,
      onEnd: () => ended(null),
      onBroken: ended,
      onInformation: ignore,
      onHead: ignore,
      onPause: ignore,
      onWhole: ignore,
      onBodySent: ignore,
      onBodyFault: ignore,
      onFree: ignore,
      worked: ignore,
    },
  );
}

// Fault: what had waited was copied into a buffer of 64 KiB. The client got a response that lacked the rest, in chunks that hid it.
test('what waits is passed on whole, also if it is more than one read (reliability 442)', async () => {
  let nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  atEnd(() => vi.restoreAllMocks());
  const { port } = await listen(createServer((socket) => atEnd(() => socket.destroy())));
  const open = async (onData: (chunk: Buffer) => void) => {
    const intake = new Intake(new Buffers());
    const socket = createConnection({ port, host: '127.0.0.1', onread: intake.onread });
    await once(socket, 'connect');
    ask(socket, intake, onData, () => {});
    return intake;
  };
  /** As Node delivers what it has read. */
  const deliver = ({ onread }: Intake, bytes: Buffer) => {
    for (let at = 0; at < bytes.length; ) {
      const buffer = onread.buffer();
      const count = bytes.copy(buffer, 0, at);
      onread.callback(count, buffer);
      at += count;
    }
  };
  const pieces: Buffer[] = [];
  const intake = await open((chunk) => pieces.push(chunk));
  const slow = await open(() => {
    nowMs += 100;
  });
  const content = randomBytes(70_000);
  // The first piece costs little, so that the rest is read into a large buffer.
  deliver(intake, Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${content.length}\r\n\r\n`));
  deliver(intake, content.subarray(0, 100));
  deliver(slow, Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx'));
  deliver(intake, content.subarray(100));
  expect(intake.hasWaiting).toBe(true);
  await eventually(() => expect(intake.hasWaiting).toBe(false));
  expect(Buffer.concat(pieces).equals(content)).toBe(true);
});

// Fault: TLS reports the end of a connection right behind its last bytes, while these wait. A response that the end of the connection
// ends was passed on as whole without them, and any other was broken off.
test.each([
  ['its length', 'Content-Length: 20000'],
  ['the end of the connection', 'Connection: close'],
])(
  'what waits is passed on if the service has closed the connection, for a response that ends by %s (reliability 443)',
  async (_, field) => {
    const { cert, key } = await (await newAuthority()).issue('localhost');
    const server = createTlsServer({ cert: await readFile(cert), key: await readFile(key) }, (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\n${field}\r\n\r\n${'x'.repeat(20_000)}`));
    });
    const { port } = await listen(server);
    const tls = { ca: null, cert: null, key: null, serverName: null, verify: false };
    const sockets = Array.from({ length: 40 }, () => {
      const { promise, resolve, reject } = Promise.withResolvers<Socket>();
      dial(addressOf(`https://127.0.0.1:${port}`), { connectTimeoutMs: 30_000, tls }, resolve, reject);
      return promise;
    });
    const responses = (await Promise.all(sockets)).map((socket) => {
      const { promise, resolve } = Promise.withResolvers<readonly [bytes: number, fault: Error | null]>();
      let bytes = 0;
      const onData = (chunk: Buffer) => {
        bytes += chunk.length;
        // More than a turn has, with what the others bring.
        const untilMs = performance.now() + 3;
        while (performance.now() < untilMs);
      };
      ask(socket, new Intake(new Buffers()), onData, (fault) => resolve([bytes, fault]));
      return promise;
    });
    expect(await Promise.all(responses)).toEqual(responses.map(() => [20_000, null]));
  },
);
