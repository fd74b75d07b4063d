import { once } from 'node:events';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { SharedBufferSocket } from '../../src/io/read-buffers.ts';
import { NO_PAYER, TlsCarrier } from '../../src/io/tls-carrier.ts';
import { eventually } from '../support/conditions.ts';
import { metricsOf, startEncrypted } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import type { TestGateway } from '../support/gateway.ts';
import { listen } from '../support/listening.ts';
import { RecordWriter } from '../support/tls-records.ts';
import { startUpstream } from '../support/upstream.ts';

const CONNECTIONS = 16;
const RECORDS = 16_000;
/** What these records take is four times as much, in one turn if nothing bounds it. */
const MOST_MS = 60;

let gateway: TestGateway;
let ca: string;
/** Bytes of bodies that reached the service. */
let received = 0;

beforeAll(async () => {
  const upstream = await startUpstream((request, response) => {
    request.on('data', (piece: Buffer) => {
      received += piece.length;
    });
    request.on('end', () => response.end('{}'));
  });
  const longestTurn = join(import.meta.dirname, '..', 'support', 'longest-turn.ts');
  ({ gateway, ca } = await startEncrypted({
    upstream: upstream.origin,
    env: { NODE_OPTIONS: `--import=${longestTurn}` },
  }));
});

async function longestTurnMs(): Promise<number> {
  const { process } = gateway;
  const before = process.stderr.length;
  process.signal('SIGUSR2');
  await eventually(() => expect(process.stderr.slice(before)).toContain('longest turn'));
  return Number(/longest turn ([\d.]+) ms/.exec(process.stderr.slice(before))![1]);
}

// Attack: records of 23 to 27 bytes of clients without a key. Node reads 64 KiB of a connection up to 32 times in a turn of the event
// loop, runs no JavaScript for a KeyUpdate, and 30 connections of one address stopped the gateway for six seconds.
test.each([
  ['empty lines, a record each', (writer: RecordWriter) => writer.data('\r\n'), ''],
  ['KeyUpdates', (writer: RecordWriter) => writer.keyUpdate(), ''],
  ['a body, a record for each byte', (writer: RecordWriter) => writer.data('x'), 'Content-Length: 1000000\r\n'],
])(
  '%s: no turn of the event loop is long, and the clients lose their connections (reliability 312)',
  { timeout: 120_000 },
  async (_, next, fields) => {
    const floods = await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        const writer = await RecordWriter.open(gateway.port, ca);
        const method = fields === '' ? 'GET' : 'POST';
        const head = writer.data(`${method} /v1/pets HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
        return { writer, bytes: Buffer.concat([head, ...Array.from({ length: RECORDS }, () => next(writer))]) };
      }),
    );
    const closed = floods.map(({ writer }) => once(writer.socket, 'close'));
    await longestTurnMs();
    for (const { writer, bytes } of floods) writer.socket.write(bytes);
    await Promise.all(closed);
    expect(await longestTurnMs()).toBeLessThan(MOST_MS);
  },
);

test('a client that sends KeyUpdates without end is counted, and a line names it (reliability 312)', async () => {
  const writer = await RecordWriter.open(gateway.port, ca);
  while (!writer.socket.destroyed) {
    if (writer.socket.writableLength === 0) {
      writer.socket.write(Buffer.concat(Array.from({ length: 1_000 }, () => writer.keyUpdate())));
    }
    await new Promise(setImmediate);
  }
  expect(await metricsOf(gateway)).toMatch(/^tollgate_tls_connections_broken_total [1-9]/m);
  await eventually(() => expect(gateway.process.stdout).toContain('"msg":"a TLS connection was broken off'));
});

// A client may send each message in a record of its own.
test('a client whose records each bring a little keeps its connection (reliability 312)', {
  timeout: 120_000,
}, async () => {
  const { key } = await gateway.createKey('endless');
  const writer = await RecordWriter.open(gateway.port, ca);
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: ${2 * RECORDS * 2}\r\n\r\n`;
  writer.socket.write(
    Buffer.concat([writer.data(head), ...Array.from({ length: 2 * RECORDS }, () => writer.data('xx'))]),
  );
  await eventually(() => expect(received).toBe(2 * RECORDS * 2));
  expect(writer.socket.destroyed).toBe(false);
});

// Attack: KeyUpdates that ask for one in return, each of which costs as much as tens of kilobytes of content.
test('records are decrypted 2 KiB at a time, until they bring content (reliability 386)', async () => {
  const pieces: number[] = [];
  const server = createServer({ allowHalfOpen: true }, (accepted) => {
    const raw = SharedBufferSocket.around(accepted);
    atEnd(() => raw.destroy());
    new TlsCarrier(raw, () => {}, NO_PAYER).on('data', (bytes: Buffer) => pieces.push(bytes.length));
  });
  const { port } = await listen(server);
  const client = createConnection(port, '127.0.0.1').on('error', () => {});
  atEnd(() => client.destroy());
  client.write(Buffer.alloc(8_000));
  await eventually(() => expect(pieces.reduce((sum, bytes) => sum + bytes, 0)).toBe(8_000));
  expect(Math.max(...pieces)).toBeLessThanOrEqual(2 * 1024);
});

// Attack: 65 KiB of groups and key shares in a ClientHello, or 100 KB of client certificates, cost OpenSSL up to half a second.
test('a client whose handshake is longer than 8 KiB loses its connection (reliability 349)', async () => {
  const [other, socket] = [createConnection(gateway.port, '127.0.0.1'), createConnection(gateway.port, '127.0.0.1')];
  for (const one of [other, socket]) one.on('error', () => {}).resume();
  const closed = once(socket, 'close');
  // A ClientHello of 65,535 bytes, in records of 4 KiB.
  const head = Buffer.from([22, 3, 1, 0x10, 0]);
  const body = Buffer.alloc(4096);
  Buffer.from([1, 0, 0xff, 0xff, 3, 3]).copy(body);
  other.write(Buffer.concat([head, body]));
  socket.write(Buffer.concat([head, body, head, Buffer.alloc(4096)]));
  await closed;
  // Not at the deadline of a handshake, which the other connection would have reached before.
  expect(other.destroyed || other.readableEnded).toBe(false);
  other.destroy();
});
