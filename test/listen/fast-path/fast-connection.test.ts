import { createServer } from 'node:http';
import { createConnection, createServer as createTcpServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { ClientResponse } from '../../../src/http1/client.ts';
import { SharedBufferSocket } from '../../../src/io/read-buffers.ts';
import { FastPath, type FastPathOptions } from '../../../src/listen/fast-path/fast-path.ts';
import { eventually } from '../../support/conditions.ts';
import { countTurns } from '../../support/count-turns.ts';
import { listen } from '../../support/listening.ts';
import { feedingTo, Wire } from './wire.ts';

function open(more: Partial<FastPathOptions> = {}) {
  const responses: ClientResponse[] = [];
  const silent: Socket[] = [];
  const handedOver: Socket[] = [];
  const wire = new Wire();
  const path = new FastPath({
    maxUrlBytes: 8_192,
    maxHeaderBytes: 16_384,
    headersTimeoutMs: 60_000,
    idleTimeoutMs: 60_000,
    writeTimeoutMs: 60_000,
    wallMs: () => 0,
    ...feedingTo(createServer().on('connection', (socket) => handedOver.push(socket))),
    handler: { handle: (_, response) => responses.push(response) },
    onSilent: (socket) => silent.push(socket),
    ...more,
  });
  path.take(wire as unknown as Socket);
  return { wire, path, responses, silent, handedOver, send: (text: string) => wire.push(Buffer.from(text, 'latin1')) };
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

function answer(response: ClientResponse | undefined): void {
  response?.writeHead(200, ['Content-Length', '2']);
  response?.end('{}');
}

test('a client that does not take its answer loses its connection after writeTimeout, and another is in no hurry', async () => {
  const [stuck, slow] = [open({ writeTimeoutMs: 50 }), open({ writeTimeoutMs: 60_000 })];
  for (const { wire, send, responses } of [stuck, slow]) {
    wire.takes = false;
    send(GET);
    await eventually(() => expect(responses).toHaveLength(1));
    answer(responses[0]);
  }
  await eventually(() => expect(stuck.wire.destroyed).toBe(true));
  expect(slow.wire.destroyed).toBe(false);
  slow.wire.go();
  slow.send(GET);
  await eventually(() => expect(slow.responses).toHaveLength(2));
  slow.wire.destroy();
});

test('requests are served one at a time, each when the one before it has been answered', async () => {
  const { wire, send, responses } = open();
  send(GET);
  await eventually(() => expect(responses).toHaveLength(1));
  send(GET);
  await new Promise(setImmediate);
  expect(responses).toHaveLength(1);
  answer(responses[0]);
  await eventually(() => expect(responses).toHaveLength(2));
  answer(responses[1]);
  expect(wire.text.match(/HTTP\/1\.1 200/g)).toHaveLength(2);
  wire.destroy();
});

test('what comes behind a request is not read beyond a bound until it is answered, and none of it is lost (reliability 308)', async () => {
  const bodies: number[] = [];
  const node = createServer((request, response) => {
    let bytes = 0;
    request.on('data', (piece: Buffer) => {
      bytes += piece.length;
    });
    request.on('end', () => {
      bodies.push(bytes);
      response.end();
    });
  });
  const { wire, send, responses } = open(feedingTo(node));
  send(GET);
  await eventually(() => expect(responses).toHaveLength(1));
  // The client may have the whole response before its end is noticed here.
  wire.takes = false;
  answer(responses[0]);
  send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(40_000)}`);
  for (let i = 40_000; i < 500_000; i += 20_000) send('x'.repeat(20_000));
  await eventually(() => expect(wire.isPaused()).toBe(true));
  wire.go();
  await eventually(() => expect(bodies).toEqual([500_000]));
  expect(wire.text).not.toContain('Connection: close');
  wire.destroy();
});

test('behind a request that takes long, what is too much to hold is dropped, and the response says that the connection ends (reliability 308)', async () => {
  const { wire, send, responses } = open();
  send(GET);
  await eventually(() => expect(responses).toHaveLength(1));
  for (let i = 0; i < 70; i++) send('x'.repeat(1_000));
  await eventually(() => expect(wire.isPaused()).toBe(true));
  await eventually(() => expect(wire.isPaused()).toBe(false));
  answer(responses[0]);
  expect(wire.text).toContain('Connection: close');
  await eventually(() => expect(wire.writableEnded).toBe(true));
  expect(responses).toHaveLength(1);
  wire.destroy();
});

test('a connection on which the next request waits is not idle (reliability 308)', async () => {
  const { wire, path, send, responses } = open();
  send(GET);
  await eventually(() => expect(responses).toHaveLength(1));
  send(GET);
  await new Promise(setImmediate);
  answer(responses[0]);
  path.closeIdle(true);
  expect(wire.destroyed).toBe(false);
  await eventually(() => expect(responses).toHaveLength(2));
  wire.destroy();
});

test('idle connections are closed when it is asked, busy ones are not', async () => {
  const [busy, idle, fresh] = [open(), open(), open()];
  for (const { send, responses } of [busy, idle]) {
    send(GET);
    await eventually(() => expect(responses).toHaveLength(1));
  }
  answer(idle.responses[0]);
  for (const { path } of [busy, idle, fresh]) path.closeIdle(false);
  expect([busy, idle, fresh].map(({ wire }) => wire.destroyed)).toEqual([false, true, false]);
  for (const { path } of [busy, fresh]) path.closeIdle(true);
  expect([busy, fresh].map(({ wire }) => wire.destroyed)).toEqual([false, true]);
  busy.wire.destroy();
});

// Fault: hundreds of idle connections that were closed as a drain began took one long turn, in which running requests waited.
test('of many idle connections some are closed in each turn of the event loop (reliability 446)', async () => {
  const { path, wire, responses } = open();
  const wires = [wire, ...Array.from({ length: 499 }, () => new Wire())];
  for (const other of wires.slice(1)) path.take(other as unknown as Socket);
  for (const one of wires) one.push(Buffer.from(GET));
  await eventually(() => expect(responses).toHaveLength(wires.length));
  for (const response of responses) answer(response);
  const counted = countTurns();
  for (const one of wires) one.once('close', counted.done);
  path.closeIdle(false);
  await eventually(() => expect(counted.all).toBe(wires.length));
  expect(counted.most).toBeLessThanOrEqual(100);
});

test('a connection whose bytes wait for their turn is not late, and is looked at again (reliability 315)', async () => {
  const accepted = Promise.withResolvers<Socket>();
  const { port } = await listen(createTcpServer({ allowHalfOpen: true }, accepted.resolve));
  const client = createConnection(port, '127.0.0.1');
  client.on('error', () => {});
  const socket = SharedBufferSocket.around(await accepted.promise);
  let hasWaiting = true;
  Object.defineProperty(socket, 'hasWaiting', { get: () => hasWaiting });
  const { path, silent, wire } = open({ headersTimeoutMs: 0 });
  const connection = path.take(socket);
  connection.onDeadline();
  expect([silent, connection.deadlineAtMs < Number.POSITIVE_INFINITY]).toEqual([[], true]);
  hasWaiting = false;
  connection.onDeadline();
  expect(silent).toEqual([socket]);
  for (const one of [client, socket, wire]) one.destroy();
});

test('headersTimeout is for a connection that has brought nothing, not for a request that takes long', async () => {
  const [busy, fresh] = [open({ headersTimeoutMs: 50, idleTimeoutMs: 50 }), open({ headersTimeoutMs: 50 })];
  busy.send(GET);
  await eventually(() => expect(busy.responses).toHaveLength(1));
  await eventually(() => expect(fresh.silent).toHaveLength(1));
  expect([busy.wire.destroyed, busy.silent.length]).toEqual([false, 0]);
  answer(busy.responses[0]);
  await eventually(() => expect(busy.wire.destroyed).toBe(true));
  fresh.wire.destroy();
});

test.each([
  ['longer than a packet of it is', `GET /${'a'.repeat(16_384)} HTTP/1.1\r\nHost: a\r\n\r\n`],
  ['with more than a hundred fields', `GET / HTTP/1.1\r\n${'Host: a\r\n'.repeat(101)}\r\n`],
  ['in pieces', GET.slice(0, 5)],
  ['and another in one go', GET + GET],
])('a request %s is for Node’s parser', async (_, text) => {
  const { wire, send, responses, handedOver } = open();
  send(text);
  await eventually(() => expect(handedOver).toEqual([wire]));
  expect(responses).toEqual([]);
  wire.destroy();
});

test('Date is that of the second in which it is asked', () => {
  let nowMs = 0;
  const { path, wire } = open({ wallMs: () => nowMs });
  expect(path.date()).toBe('Thu, 01 Jan 1970 00:00:00 GMT');
  nowMs = 999;
  expect(path.date()).toBe('Thu, 01 Jan 1970 00:00:00 GMT');
  nowMs = 61_000;
  expect(path.date()).toBe('Thu, 01 Jan 1970 00:01:01 GMT');
  wire.destroy();
});

test('at a drain node:http closes its idle connections, and none whose client has still to take some of its answer', async () => {
  const node = createServer((_, response) => response.end('x'.repeat(100_000)));
  node.emit('listening');
  const { wire, path, send } = open(feedingTo(node));
  wire.takes = false;
  // Two in one packet are not simple.
  send(GET + GET);
  await eventually(() => expect(wire.writableLength).toBeGreaterThan(0));
  path.closeIdle(true);
  expect(wire.destroyed).toBe(false);
  wire.go();
  await eventually(() => expect(wire.text.match(/x{100000}/g)).toHaveLength(2));
  await eventually(() => {
    path.closeIdle(true);
    expect(wire.destroyed).toBe(true);
  });
  node.close();
});
