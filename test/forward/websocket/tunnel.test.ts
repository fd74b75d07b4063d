import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { addressOf, dial } from '../../../src/forward/upstream/dial.ts';
import { Tunnel, type TunnelRecord } from '../../../src/forward/websocket/tunnel.ts';
import { Deadlines } from '../../../src/io/deadlines.ts';
import { Wire } from '../../listen/fast-path/wire.ts';
import { eventually } from '../../support/conditions.ts';
import { countTurns } from '../../support/count-turns.ts';
import { atEnd } from '../../support/endings.ts';
import { listen } from '../../support/listening.ts';
import { LATE_MS } from '../../support/room.ts';

const NO_LIMITS = { idleMs: 60_000, finMs: 60_000, worked: () => {} };

// Fault: the last that a service had sent, such as a close frame, was lost if a write to it failed before that was read.
test('the last bytes of a side that has closed pass, although a write to it has failed (reliability 316)', async () => {
  const accepted = Promise.withResolvers<Socket>();
  const { port } = await listen(createServer({ allowHalfOpen: true }, accepted.resolve));
  const upstream = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true });
  const service = await accepted.promise;
  atEnd(() => upstream.destroy());
  const client = new Wire();
  client.takes = false;
  const records: TunnelRecord[] = [];
  const deadlines = new Deadlines(() => performance.now());
  const options = { ...NO_LIMITS, deadlines, onEnd: (record: TunnelRecord) => records.push(record) };
  const tunnel = new Tunnel(client as unknown as Socket, upstream, options);
  upstream.pipe(client).pipe(upstream);
  tunnel.count();
  let failed = 0;
  const { write } = upstream;
  upstream.write = (...args: unknown[]) =>
    Reflect.apply(write, upstream, [args[0], (error?: Error | null) => (failed += error ? 1 : 0)]);
  // The client takes nothing, so that the service is not read.
  service.write(Buffer.alloc(100_000, 'x'));
  await eventually(() => expect(upstream.isPaused()).toBe(true));
  service.end('last words');
  await once(service, 'finish');
  service.destroy();
  await eventually(() => {
    client.push('to the service');
    expect(failed).toBeGreaterThan(0);
  });
  client.go();
  await eventually(() => expect(records).toHaveLength(1));
  expect(client.text).toBe(`${'x'.repeat(100_000)}last words`);
  expect(records[0]).toMatchObject({ end: 'upstream_closed', bytesOut: 100_010 });
});

async function dialed(port: number): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  dial(addressOf(`http://127.0.0.1:${port}`), { connectTimeoutMs: LATE_MS, tls: null }, resolve, reject);
  return promise;
}

// Attack: libuv reads each connection up to 32 times in a turn, and then one piece of each tunnel was still read in every turn.
test('of services that always send a few pieces pass in each turn, and all of them arrive (reliability 309, 413)', async () => {
  const bytes = 1024 * 1024;
  const services = createServer((service) => service.end(Buffer.alloc(bytes, 'x')));
  const { port } = await listen(services);
  const counted = countTurns();
  const memory = new Set<ArrayBufferLike>();
  const texts = Array.from({ length: 20 }, async () => {
    const upstream = await dialed(port);
    const client = new Wire();
    const options = { ...NO_LIMITS, deadlines: new Deadlines(() => performance.now()), onEnd: () => {} };
    const tunnel = new Tunnel(client as unknown as Socket, upstream, options);
    upstream.pipe(client).pipe(upstream);
    upstream.on('data', (chunk: Buffer) => {
      if (chunk.length < 8 * 1024) return;
      counted.done();
      if (chunk.length > 16 * 1024) memory.add(chunk.buffer);
      for (const untilMs = performance.now() + 0.2; performance.now() < untilMs; );
    });
    tunnel.count();
    await once(upstream, 'end');
    tunnel.cut('drained');
    return client.text;
  });
  const all = await Promise.all(texts);
  expect(all.map((text) => text.length)).toEqual(all.map(() => bytes));
  expect(counted.most).toBeLessThanOrEqual(3);
  // It is used again, and each tunnel has one piece that waits.
  expect(memory.size).toBeLessThanOrEqual(all.length + 1);
});

test('what a client has not yet taken stays as it is while the next pieces of its service are read', async () => {
  const accepted = Promise.withResolvers<Socket>();
  const { port: ofService } = await listen(createServer(accepted.resolve));
  const upstream = await dialed(ofService);
  const service = await accepted.promise;
  const connected = Promise.withResolvers<Socket>();
  const { port } = await listen(createServer({ allowHalfOpen: true }, connected.resolve));
  const reader = createConnection({ port, host: '127.0.0.1' });
  const client = await connected.promise;
  atEnd(() => client.destroy());
  const options = { ...NO_LIMITS, deadlines: new Deadlines(() => performance.now()), onEnd: () => {} };
  const tunnel = new Tunnel(client, upstream, options);
  upstream.pipe(client).pipe(upstream);
  tunnel.count();
  let passed = 0;
  upstream.on('data', (chunk: Buffer) => {
    passed += chunk.length;
  });
  // Large enough for memory that is used again, and small enough for two of them to wait for the client.
  const pieces: Buffer[] = [];
  for (let sent = 0; !client.writableNeedDrain; ) {
    const piece = Buffer.alloc(40 * 1024, pieces.length);
    pieces.push(piece);
    sent += piece.length;
    service.write(piece);
    while (passed < sent && !client.writableNeedDrain) await once(upstream, 'data');
  }
  service.end();
  expect(Buffer.concat(await reader.toArray()).equals(Buffer.concat(pieces))).toBe(true);
});

// Fault: the service was read no more, since the client never took what waited for it, and the tunnel stayed open for `finMs`.
test('a tunnel ends once its client has closed and a write to it fails (reliability 433)', async () => {
  const services = createServer((service) => {
    service.on('error', () => {});
    service.write(Buffer.alloc(32 << 20));
  });
  const upstream = await dialed((await listen(services)).port);
  const connected = Promise.withResolvers<Socket>();
  const { port } = await listen(createServer({ allowHalfOpen: true }, connected.resolve));
  const reader = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true });
  const client = await connected.promise;
  const ended = Promise.withResolvers<TunnelRecord>();
  const options = { ...NO_LIMITS, deadlines: new Deadlines(() => performance.now()), onEnd: ended.resolve };
  const tunnel = new Tunnel(client, upstream, options);
  upstream.pipe(client).pipe(upstream);
  tunnel.count();
  await eventually(() => client.writableNeedDrain);
  reader.end();
  await once(client, 'end');
  // It leaves bytes unread, so its system resets the connection.
  reader.destroy();
  expect((await ended.promise).end).toBe('client_closed');
});
