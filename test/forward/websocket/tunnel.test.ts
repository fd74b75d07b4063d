import { once } from 'node:events';
import { createConnection, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { Tunnel, type TunnelRecord } from '../../../src/forward/websocket/tunnel.ts';
import { Deadlines } from '../../../src/io/deadlines.ts';
import { Wire } from '../../listen/fast-path/wire.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { listen } from '../../support/listening.ts';

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

// Attack: libuv reads each connection up to 32 times in a turn, so services that send without a pause made turns of 100 ms.
test('of a service that always sends a few pieces pass in each turn, and all of them arrive (reliability 309)', async () => {
  const accepted = Promise.withResolvers<Socket>();
  const { port } = await listen(createServer(accepted.resolve));
  const upstream = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true });
  const service = await accepted.promise;
  atEnd(() => upstream.destroy());
  const client = new Wire();
  const options = { ...NO_LIMITS, deadlines: new Deadlines(() => performance.now()), onEnd: () => {} };
  const tunnel = new Tunnel(client as unknown as Socket, upstream, options);
  upstream.pipe(client).pipe(upstream);
  let [inTurn, most] = [0, 0];
  upstream.on('data', () => {
    most = Math.max(most, ++inTurn);
  });
  tunnel.count();
  const turn = () => {
    inTurn = 0;
    timer = setImmediate(turn);
  };
  let timer = setImmediate(turn);
  service.end(Buffer.alloc(8 * 1024 * 1024, 'x'));
  await once(upstream, 'end');
  clearImmediate(timer);
  expect(most).toBeLessThanOrEqual(3);
  expect(client.text).toHaveLength(8 * 1024 * 1024);
  tunnel.cut('drained');
});
