import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { expect, test, vi } from 'vitest';
import { Certificates } from '../../src/listen/tls.ts';
import { eventually } from '../support/conditions.ts';
import { newAuthority, openTls } from '../support/encrypted.ts';
import { type GatewaySetup, startGateway, type TestGateway } from '../support/gateway.ts';
import { holdTime } from '../support/hold-time.ts';
import { openListener } from '../support/listener.ts';
import { LATE_MS, paced } from '../support/room.ts';
import { startUpstream } from '../support/upstream.ts';

/** Time enough for three requests. */
const DELAY_MS = paced(1_500);

// How a gateway stops (contract section 7).
//
// Attack: none but our own stops, of which there are many. One that cuts what runs shows callers half an answer; one that
// goes on accepting never ends; one that waits for whoever is stuck is killed in the end, with all the others in it.

/** A gateway before an upstream that holds its answers back, and a key. */
async function start(listen: NonNullable<GatewaySetup['listen']> = {}) {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream(async (request, response, { whole }) => {
    if (request.url?.includes('hold')) held.push(response);
    else if (await whole) response.end('{}');
  });
  const gateway = await startGateway({ upstream: upstream.origin, listen });
  const { key } = await gateway.createKey('free');
  return { gateway, upstream, key, held };
}

/** A connection with what has arrived on it. */
async function open(gateway: Pick<TestGateway, 'port'>, bytes = '') {
  const socket = createConnection(gateway.port, '127.0.0.1');
  const line = { socket, text: '', closed: false };
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (text: string) => {
    line.text += text;
  });
  socket.once('close', () => {
    line.closed = true;
  });
  await once(socket, 'connect');
  if (bytes !== '') socket.write(bytes);
  return line;
}

const request = (path: string, key: string) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;

const canConnect = async (gateway: TestGateway) => {
  const socket: Socket = createConnection(gateway.port, '127.0.0.1');
  const connected = await Promise.race([
    once(socket, 'connect').then(() => true),
    once(socket, 'error').then(
      () => false,
      () => false,
    ),
  ]).catch(() => false);
  socket.destroy();
  return connected;
};

const readiness = async (gateway: TestGateway) => {
  const answer = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`);
  const { draining } = (await answer.json()) as { draining: boolean };
  return { status: answer.status, draining };
};

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s: not ready any more, nothing new, nothing idle; what runs is finished and closed; exit 0 (reliability 119)',
  async (signal) => {
    const { gateway, key, held } = await start();
    expect(await readiness(gateway)).toMatchObject({ status: 200, draining: false });
    const running = await open(gateway, request('/v1/pets?hold', key));
    await eventually(() => expect(held).toHaveLength(1));
    const idle = await open(gateway, request('/v1/pets', key));
    await eventually(() => expect(idle.text).toContain('{}'));
    gateway.process.signal(signal);
    await eventually(async () => expect(await readiness(gateway)).toMatchObject({ status: 503, draining: true }));
    await eventually(async () => expect(await canConnect(gateway)).toBe(false));
    await eventually(() => expect(idle.closed).toBe(true), { withinMs: 1_000 });
    expect([running.closed, running.text]).toEqual([false, '']);
    held[0]?.end('{"late":true}');
    const exit = await gateway.process.exit;
    expect(exit).toEqual({ code: 0, signal: null });
    expect(running.text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(running.text).toMatch(/\r\nConnection: close\r\n/i);
    expect(running.text).toContain('{"late":true}');
  },
);

test('an answer whose head had gone out before the signal is finished, and its connection closed behind it (reliability 119)', async () => {
  const { gateway, key, held } = await start();
  const running = await open(gateway, request('/v1/pets?hold', key));
  await eventually(() => expect(held).toHaveLength(1));
  held[0]?.writeHead(200, { 'content-length': 4 }).write('ha');
  await eventually(() => expect(running.text).toContain('ha'));
  gateway.process.signal('SIGTERM');
  await eventually(async () => expect(await readiness(gateway)).toMatchObject({ draining: true }));
  held[0]?.end('lf');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(running.text).toMatch(/half$/);
});

test('an upload that is under way is finished (reliability 119)', async () => {
  const { gateway, key, upstream } = await start();
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 8\r\n\r\nhalf`;
  const running = await open(gateway, head);
  await eventually(() => expect(upstream.requests).toHaveLength(1));
  gateway.process.signal('SIGTERM');
  await eventually(async () => expect(await readiness(gateway)).toMatchObject({ draining: true }));
  await eventually(async () => expect(await canConnect(gateway)).toBe(false));
  running.socket.write('half');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(running.text).toMatch(/^HTTP\/1\.1 200 OK/);
  expect(upstream.requests[0]?.body.toString()).toBe('halfhalf');
});

test('a request that is stuck is cut when drainTimeout is over, and the exit is 0 all the same (reliability 120)', async () => {
  const { gateway, key, held } = await start({ drainTimeout: '800ms' });
  const stuck = await open(gateway, request('/v1/pets?hold', key));
  const upload = await open(gateway, 'POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Le');
  await eventually(() => expect(held).toHaveLength(1));
  const signalledAtMs = performance.now();
  gateway.process.signal('SIGTERM');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  const tookMs = performance.now() - signalledAtMs;
  expect(tookMs).toBeGreaterThan(780);
  expect(tookMs).toBeLessThan(800 + LATE_MS);
  await eventually(() => expect([stuck.closed, upload.closed]).toEqual([true, true]));
  expect(stuck.text).not.toMatch(/ 200 /);
});

// Attack: an upload that stops in its middle. Its client is alive and its connection busy, and so is the upstream's.
test('an upload that is stuck in its body is cut when drainTimeout is over, on both sides (reliability 120)', async () => {
  const { gateway, key, upstream } = await start({ drainTimeout: '800ms' });
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 8\r\n\r\nhalf`;
  const stuck = await open(gateway, head);
  await eventually(() => expect(upstream.requests).toHaveLength(1));
  const signalledAtMs = performance.now();
  gateway.process.signal('SIGTERM');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(performance.now() - signalledAtMs).toBeGreaterThan(780);
  expect(performance.now() - signalledAtMs).toBeLessThan(800 + LATE_MS);
  await eventually(() => expect(stuck.closed).toBe(true));
  expect(stuck.text).not.toMatch(/ 200 /);
  expect(await upstream.requests[0]?.whole).toBe(false);
});

test('during drainDelay everything is served, each answer closes its connection, and readiness is gone (reliability 119)', async () => {
  const { gateway, key } = await start({ drainDelay: `${DELAY_MS}ms` });
  const signalledAtMs = performance.now();
  gateway.process.signal('SIGTERM');
  await eventually(async () => expect(await readiness(gateway)).toMatchObject({ status: 503, draining: true }));
  for (const [path, own] of [
    ['/v1/pets', key],
    ['/v1/none', key],
    ['/v1/pets', 'wrong'],
  ] as const) {
    const line = await open(gateway, request(path, own));
    await eventually(() => expect(line.closed).toBe(true));
    expect(line.text).toMatch(/^HTTP\/1\.1 (200|404|401) /);
    expect(line.text).toMatch(/\r\nConnection: close\r\n/i);
  }
  expect(performance.now() - signalledAtMs).toBeLessThan(DELAY_MS);
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(performance.now() - signalledAtMs).toBeGreaterThan(DELAY_MS - 20);
});

test('during drainDelay a connection that a proxy keeps ends with the response to its next POST (reliability 397)', async () => {
  const { gateway, key } = await start({ trustedProxies: '[127.0.0.1]', drainDelay: `${DELAY_MS}ms` });
  const kept = await open(gateway, request('/v1/pets', key));
  await eventually(() => expect(kept.text).toMatch(/\{\}$/));
  gateway.process.signal('SIGTERM');
  await eventually(async () => expect(await readiness(gateway)).toMatchObject({ status: 503, draining: true }));
  expect(kept.closed).toBe(false);
  kept.text = '';
  kept.socket.write(
    `${request('/v1/pets', key).replace('GET', 'POST').replace('\r\n\r\n', '\r\nContent-Length: 2\r\n\r\n')}{}`,
  );
  await eventually(() => expect(kept.closed).toBe(true));
  expect(kept.text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(kept.text).toMatch(/\r\nConnection: close\r\n/i);
});

test('two signals within a second are one (reliability 119)', async () => {
  const { gateway, key, held } = await start();
  const running = await open(gateway, request('/v1/pets?hold', key));
  await eventually(() => expect(held).toHaveLength(1));
  gateway.process.signal('SIGINT');
  gateway.process.signal('SIGTERM');
  gateway.process.signal('SIGINT');
  await eventually(async () => expect(await readiness(gateway)).toMatchObject({ draining: true }));
  held[0]?.end('{}');
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(running.text).toMatch(/^HTTP\/1\.1 200 OK/);
});

test('a second signal, more than a second after the first, ends it at once (reliability 119)', async () => {
  const { gateway, key, held } = await start();
  await open(gateway, request('/v1/pets?hold', key));
  await eventually(() => expect(held).toHaveLength(1));
  gateway.process.signal('SIGTERM');
  await eventually(async () => expect(await readiness(gateway)).toMatchObject({ draining: true }));
  await delay(1_100);
  const again = performance.now();
  gateway.process.signal('SIGTERM');
  expect(await gateway.process.exit).toEqual({ code: 128 + 15, signal: null });
  expect(performance.now() - again).toBeLessThan(LATE_MS);
});

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

/** The options of a listener with a certificate for localhost, which the returned authority has signed. */
async function encrypted() {
  const authority = await newAuthority();
  const files = { ...(await authority.issue('localhost')), clientCa: null };
  const certificates = await Certificates.open(files, Date.now);
  const settings = { minVersion: 'TLSv1.2', clientCertificate: 'none', challengeCertificateFor: null } as const;
  return { tls: { ...settings, certificates }, ca: authority.pem };
}

// Fault: a client that opens a connection for each request, as it must after `Connection: close`, loses the one that meets the end of
// the listener. It does not send it again, as it would on a connection that it uses again.
test.each(['plain', 'TLS'])(
  'the first request of a connection that was opened before the drain is served within a second of it: %s (reliability 318)',
  async (form) => {
    const { tls, ca } = await encrypted();
    const letPass = holdTime();
    const { listener } = await openListener(form === 'TLS' ? { tls } : {});
    const connect = async () => (form === 'TLS' ? openTls(listener.port, { ca }) : open({ port: listener.port }));
    const [used, unused, later] = [await connect(), await connect(), await connect()];
    used.socket.write(GET);
    await eventually(() => expect(used.text).toContain('{}'));
    await eventually(() => expect(listener.connections()).toBe(3));
    listener.stopAccepting();
    const drained = listener.drained(60_000);
    await eventually(() => expect(used.closed).toBe(true));
    await letPass(0);
    await letPass(999);
    unused.socket.write(GET);
    await eventually(() => expect(unused.text).toContain('{}'));
    await eventually(() => expect(unused.closed).toBe(true));
    expect(later.closed).toBe(false);
    await letPass(1);
    await eventually(() => expect(later.closed).toBe(true));
    await drained;
  },
);

// Fault: the system has made connections that the gateway has not accepted yet, and resets them when the listener closes.
test.each(['plain', 'TLS'])(
  'connections that wait in the queue of the listener when the drain begins are served: %s (reliability 318)',
  async (form) => {
    const { tls, ca } = await encrypted();
    holdTime();
    const { listener, responses } = await openListener(form === 'TLS' ? { tls } : {});
    const clients = Array.from({ length: 8 }, () => {
      const to = { port: listener.port, host: '127.0.0.1' };
      const socket = form === 'TLS' ? connectTls({ ...to, ca, servername: 'localhost' }) : createConnection(to);
      socket.write(GET);
      const closed = once(socket, 'close').then(() => Promise.reject(new Error('closed without a response')));
      return Promise.race([once(socket, 'data'), closed]).finally(() => socket.destroy());
    });
    // Node connects in the next tick. It accepts nothing before it has polled.
    await new Promise(process.nextTick);
    listener.stopAccepting();
    await Promise.all(clients);
    expect(responses).toHaveLength(8);
    await listener.drained(60_000);
  },
);

/** A connection that the listener accepts after it was stopped, and holds back while the listeners close. */
async function openHeldBack(listener: { readonly port: number; stopAccepting(): void }) {
  const socket = createConnection(listener.port, '127.0.0.1').on('error', () => {});
  // Node connects in the next tick. It accepts nothing before it has polled.
  await new Promise(process.nextTick);
  listener.stopAccepting();
  return socket;
}

// Fault: clients that keep connecting delayed the end of the listeners for the second that unused connections have.
test('a connection that was held back while the listeners closed has its second for a request (reliability 318)', async () => {
  const letPass = holdTime();
  const { listener } = await openListener();
  const client = await openHeldBack(listener);
  const drained = listener.drained(60_000);
  const closed = once(client, 'close').then(() => 'closed');
  vi.advanceTimersByTime(2_000);
  await eventually(() => expect(listener.connections()).toBe(1));
  await letPass(900);
  // The drain closes what is idle every 50 ms.
  await delay(150);
  client.write(GET);
  expect(await Promise.race([once(client, 'data').then(() => 'answered'), closed])).toBe('answered');
  await drained;
});

// Fault: what was opened after the cut of drainTimeout was cut by nothing, and the process did not end.
test('a connection that is held back beyond drainTimeout is dropped (reliability 120)', async () => {
  const letPass = holdTime();
  const { listener, responses } = await openListener();
  const client = await openHeldBack(listener);
  client.write('GET / HTTP/1.1\r\n');
  // Unread bytes make the system reset it, which `once` takes for a failure.
  const closed = new Promise((resolve) => client.once('close', resolve));
  const drained = listener.drained(500);
  vi.advanceTimersByTime(600);
  await letPass(0);
  await Promise.all([drained, closed]);
  expect([listener.connections(), responses]).toEqual([0, []]);
});
