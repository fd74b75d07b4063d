import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream } from '../support/upstream.ts';

// Attack: open connections and send nothing, until there is room for nobody else, or memory for nothing else.
test('connections beyond maxConnections are closed unanswered and counted, and room that is free again is used (reliability 64)', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({ upstream: upstream.origin, listen: { maxConnections: 3 } });
  const { key } = await gateway.createKey('free');
  const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const metrics = async () => (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  const idle: Socket[] = [];
  for (let i = 0; i < 3; i++) {
    const socket = createConnection(gateway.port, '127.0.0.1');
    socket.on('error', () => {});
    await once(socket, 'connect');
    idle.push(socket);
  }
  await eventually(async () => expect(await metrics()).toMatch(/^tollgate_connections 3$/m));
  const beyond = await rawExchange(gateway.port, bytes, { until: 'closed' });
  expect([beyond.bytes.length, beyond.closed]).toEqual([0, true]);
  expect(await metrics()).toMatch(/^tollgate_connections_dropped_total 1$/m);
  expect(upstream.requests).toHaveLength(0);
  idle[0]?.destroy();
  await eventually(async () => {
    expect((await rawExchange(gateway.port, bytes)).responses[0]?.status).toBe(200);
  });
  for (const socket of idle) socket.destroy();
});

// Attack: half a head on each of many connections, and then silence; all others wait for the thread that waits for it.
test('many connections with half a head each take nothing from a client that sends a whole one (reliability 61)', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({ upstream: upstream.origin, listen: { headersTimeout: '2s' } });
  const { key } = await gateway.createKey('free');
  const slow = Array.from({ length: 200 }, () => createConnection(gateway.port, '127.0.0.1'));
  for (const socket of slow) {
    socket.on('error', () => {});
    socket.resume();
    socket.write('GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-');
  }
  const ended = Promise.all(slow.map((socket) => once(socket, 'end')));
  const beganAtMs = performance.now();
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  // Before any of them is cut.
  expect(performance.now() - beganAtMs).toBeLessThan(1_800);
  await ended;
  for (const socket of slow) socket.destroy();
});

// Attack: connect and never send a byte. No request has begun, so that a deadline for requests would never end it.
test('connections that never send anything are closed at headersTimeout, and those that rest at idleTimeout (reliability 64)', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({
    upstream: upstream.origin,
    listen: { headersTimeout: '700ms', idleTimeout: '1200ms' },
  });
  const { key } = await gateway.createKey('free');
  const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const lifeMs = async (first: string) => {
    const beganAtMs = performance.now();
    const { closed } = await rawExchange(gateway.port, first, { until: 'closed', withinMs: 5_000 });
    expect(closed).toBe(true);
    return performance.now() - beganAtMs;
  };
  const [silent, resting] = await Promise.all([
    Promise.all(Array.from({ length: 50 }, () => lifeMs(''))),
    Promise.all(Array.from({ length: 5 }, () => lifeMs(bytes))),
  ]);
  expect(Math.min(...silent)).toBeGreaterThan(650);
  expect(Math.max(...silent)).toBeLessThan(700 + 700);
  expect(Math.min(...resting)).toBeGreaterThan(1_150);
  expect(Math.max(...resting)).toBeLessThan(1_200 + 700);
  expect(upstream.requests).toHaveLength(5);
});
