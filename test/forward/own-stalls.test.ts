import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { expect, test, vi } from 'vitest';
import { addressOf, dial } from '../../src/forward/upstream/dial.ts';
import { UpstreamConnection } from '../../src/forward/upstream/upstream-connection.ts';
import { closeGently } from '../../src/io/graceful-close.ts';
import { SharedBufferSocket } from '../../src/io/read-buffers.ts';
import { busyFor } from '../support/busy-for.ts';
import { eventually } from '../support/conditions.ts';
import { newAuthority, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { openListener } from '../support/listener.ts';
import { listen } from '../support/listening.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';
import { asking, metric, rawClient, switching, WEBSOCKET_ROUTES } from '../support/web-sockets.ts';

// Fault: cold code, a garbage collection or a machine without a free processor stops the gateway's thread for longer than a service or a
// client has time. What they have sent meanwhile lies in their sockets, and they are not late (reliability 450).

const TIMEOUT_MS = 500;
/** The deadlines are checked every 100 ms, so the next check is due as well. */
const stall = (timeoutMs = TIMEOUT_MS) => busyFor(timeoutMs + 200);

/** Sends, and stalls, right before the event loop turns to its timers. */
const stallBehind = (send: () => unknown, timeoutMs = TIMEOUT_MS) =>
  new Promise<void>((resolve) => {
    setImmediate(() => {
      send();
      stall(timeoutMs);
      resolve();
    });
  });

const TIMEOUT = `${TIMEOUT_MS}ms`;
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n';

/** A gateway in this process, so that a stall of the test is one of the gateway. */
async function gatewayBefore(
  upstream: string,
  listener: Readonly<Record<string, string>> = {},
  upstreamSettings: Readonly<Record<string, string>> = {},
) {
  const gateway = await openGateway({
    upstream,
    listen: listener,
    upstreamSettings,
    routes: WEBSOCKET_ROUTES,
    more: `websockets: { idleTimeout: ${TIMEOUT} }`,
  });
  const { key } = await gateway.createKey('endless');
  return { gateway, key, request: `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n` };
}

test('a service that has answered while this thread stalled gets no 504 for its client (reliability 450)', async () => {
  const upstream = await startRawUpstream((service) => {
    service.write(`${HEAD}in time.`);
    stall();
  });
  const { gateway, request } = await gatewayBefore(upstream.origin, {}, { responseTimeout: TIMEOUT });
  const client = await rawClient(gateway, request);
  expect((await client.after(8)).toString()).toBe('in time.');
  // The response has ended well, so that its connection carries another one.
  const { length } = client.bytes;
  client.socket.write(request);
  await eventually(() => client.closed || client.bytes.length > length);
  expect(client.closed).toBe(false);
});

test('a body that has gone on while this thread stalled is whole (reliability 450)', async () => {
  const begun = Promise.withResolvers<Socket>();
  const upstream = await startRawUpstream((service) => {
    service.write(`${HEAD}in `);
    begun.resolve(service);
  });
  const { gateway, request } = await gatewayBefore(upstream.origin, {}, { bodyTimeout: TIMEOUT });
  const client = await rawClient(gateway, request);
  const service = await begun.promise;
  await client.after(3);
  await stallBehind(() => service.write('time.'));
  expect((await client.after(8)).toString()).toBe('in time.');
});

test('a WebSocket that is agreed to, and one that carries bytes, while this thread stalls stays open (reliability 450)', async () => {
  const agreed = Promise.withResolvers<Socket>();
  const upstream = await startRawUpstream((service) => {
    service.write(switching());
    stall();
    agreed.resolve(service);
  });
  const { gateway, key } = await gatewayBefore(upstream.origin, {}, { responseTimeout: TIMEOUT });
  const client = await rawClient(gateway, asking(key));
  expect(await client.head()).toMatch(/^HTTP\/1\.1 101 /);
  const service = await agreed.promise;
  for (const piece of ['one', 'onetwo']) {
    await stallBehind(() => service.write(piece.slice(-3)));
    expect((await client.after(piece.length)).toString()).toBe(piece);
  }
});

test.each(['headersTimeout', 'idleTimeout'])(
  'a request that has come while this thread stalled for longer than %s is served (reliability 450)',
  async (setting) => {
    const upstream = await startRawUpstream((service) => service.write(`${HEAD}in time.`));
    const { gateway, request } = await gatewayBefore(upstream.origin, { [setting]: TIMEOUT });
    const client = await rawClient(gateway);
    if (setting === 'idleTimeout') {
      client.socket.write(request);
      await client.after(8);
    }
    const before = client.bytes.length;
    await stallBehind(() => client.socket.write(request));
    await once(client.socket, 'data');
    expect(client.bytes.subarray(before).toString('latin1')).toMatch(/^HTTP\/1\.1 200 /);
  },
);

/** Long enough for what comes before the stall, on a busy machine too. */
const LONG_MS = 1_500;

/** Requests that node:http reads: their setting, and how many bytes of them have been sent before the stall. */
test.each([
  ['headersTimeout', 20],
  ['requestTimeout', -2],
  ['idleTimeout', 0],
])(
  'a request whose rest has come while this thread stalled for longer than %s is served (reliability 432)',
  async (setting, before) => {
    const upstream = await startUpstream();
    const { gateway, key } = await gatewayBefore(upstream.origin, { [setting]: `${LONG_MS}ms` });
    const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n`;
    const whole = `POST /v1/pets HTTP/1.1\r\n${fields}\r\n4\r\nbody\r\n0\r\n\r\n`;
    // The answer to the first request shows that the connection is kept, and that what follows is read.
    const client = await rawClient(gateway, whole);
    await client.after(11);
    client.socket.write(whole.slice(0, before));
    if (setting === 'requestTimeout') await eventually(() => expect(upstream.requests).toHaveLength(2));
    else await eventually(() => expect(client.socket.writableLength).toBe(0));
    const { length } = client.bytes;
    await stallBehind(() => client.socket.write(whole.slice(before)), LONG_MS);
    await eventually(() => client.closed || client.bytes.length > length);
    expect(client.bytes.subarray(length).toString('latin1')).toMatch(/^HTTP\/1\.1 200 /);
  },
);

test('an upload over HTTP/2 whose rest has come while this thread stalled for longer than requestTimeout is whole (reliability 432)', async () => {
  const upstream = await startUpstream();
  const { gateway, ca } = await openEncrypted({
    upstream: upstream.origin,
    listen: { requestTimeout: `${LONG_MS}ms` },
  });
  const { key } = await gateway.createKey('endless');
  const session = await openHttp2(gateway.port, ca);
  const upload = session.request({ ':method': 'POST', ':path': '/v1/pets', authorization: `Bearer ${key}` });
  upload.write('in ');
  await eventually(() => expect(upstream.requests[0]?.body.toString()).toBe('in '));
  const answered = once(upload, 'response');
  // Node sends it in the turn of the event loop in which the thread stalls.
  upload.end('time.');
  await stallBehind(() => {}, LONG_MS);
  expect((await answered)[0]).toMatchObject({ ':status': 200 });
  expect(upstream.requests[0]?.body.toString()).toBe('in time.');
});

/** A connection that the gateway has accepted, and on which nothing has been sent. */
async function accepted(gateway: TestGateway) {
  const client = await rawClient(gateway);
  await eventually(async () => expect(await metric(gateway, 'tollgate_connections')).toBe(1));
  return client;
}

test('a PROXY header that has come while this thread stalled for longer than headersTimeout is taken (reliability 434)', async () => {
  const upstream = await startUpstream();
  const proxies = { trustedProxies: '[127.0.0.1]', proxyProtocol: 'true', headersTimeout: `${LONG_MS}ms` };
  const { gateway, request } = await gatewayBefore(upstream.origin, proxies);
  const client = await accepted(gateway);
  await stallBehind(() => client.socket.write(`PROXY TCP4 203.0.113.7 192.0.2.1 1000 80\r\n${request}`), LONG_MS);
  expect(await client.head()).toMatch(/^HTTP\/1\.1 200 /);
});

test('a TLS handshake that begins while this thread stalls for longer than headersTimeout succeeds (reliability 434)', async () => {
  const upstream = await startUpstream();
  const { gateway, ca } = await openEncrypted({
    upstream: upstream.origin,
    listen: { headersTimeout: `${LONG_MS}ms` },
  });
  const { socket } = await accepted(gateway);
  const secure = connectTls({ socket, ca, servername: 'localhost' });
  await stallBehind(() => {}, LONG_MS);
  await once(secure, 'secureConnect');
});

test('a client that still sends its refused upload while this thread stalls is read before its connection closes (reliability 434)', async () => {
  const opened = Promise.withResolvers<Socket>();
  const { port } = await listen(createServer({ allowHalfOpen: true }, opened.resolve));
  const client = await rawClient({ port });
  const socket = await opened.promise;
  closeGently(socket);
  // Longer than a closing connection is read. One that closes with unread bytes is reset, and its client may lose the response.
  await stallBehind(() => client.socket.write('upload'), 1_000);
  client.socket.end();
  await once(socket, 'close');
  expect(socket.bytesRead).toBe(6);
});

test.each(['has been agreed to', 'is asked for'])(
  'a WebSocket that %s, and whose bytes wait for their turn, is not late, and is looked at again (reliability 434)',
  async (stage) => {
    const isAgreed = stage === 'has been agreed to';
    const upstream = await startRawUpstream((service) => isAgreed && service.write(switching()));
    const { gateway, key } = await gatewayBefore(upstream.origin, {}, { responseTimeout: TIMEOUT });
    const client = await rawClient(gateway, asking(key));
    if (isAgreed) await client.head();
    const hasWaiting = vi.spyOn(SharedBufferSocket.prototype, 'hasWaiting', 'get').mockReturnValue(true);
    atEnd(() => vi.restoreAllMocks());
    await eventually(() => expect(hasWaiting.mock.calls.length).toBeGreaterThan(2));
    expect(client.ended).toBe(false);
    hasWaiting.mockReturnValue(false);
    if (isAgreed) await eventually(() => expect(client.ended).toBe(true));
    else expect(await client.head()).toMatch(/^HTTP\/1\.1 504 /);
  },
);

test('a first request that has come while a listener that stops stalled is served (reliability 440)', async () => {
  const { listener } = await openListener();
  const client = await rawClient(listener);
  await eventually(() => expect(listener.connections()).toBe(1));
  listener.stopAccepting();
  void listener.drained(60_000);
  await eventually(() => expect(rawClient(listener)).rejects.toThrow('ECONNREFUSED'));
  // Longer than it waits for the first request of a connection.
  await stallBehind(() => client.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'), 1_000);
  await eventually(() => expect(client.ended).toBe(true));
  expect(await client.head()).toMatch(/^HTTP\/1\.1 200 /);
});

test.each(['http', 'https'])(
  'a connection over %s that can be made while this thread stalls is used (reliability 450)',
  async (kind) => {
    const { cert, key } = await (await newAuthority()).issue('localhost');
    const accept = (service: Socket) => atEnd(() => service.destroy());
    const tls = { cert: await readFile(cert), key: await readFile(key) };
    const { port } = await listen(kind === 'http' ? createServer(accept) : createTlsServer(tls, accept));
    const untrusted = { ca: null, cert: null, key: null, serverName: 'localhost', verify: false };
    const connected = new Promise<Socket>((resolve, reject) => {
      const options = { connectTimeoutMs: TIMEOUT_MS, tls: untrusted };
      dial(addressOf(`${kind}://127.0.0.1:${port}`), options, resolve, reject);
    });
    await stallBehind(() => {});
    (await connected).destroy();
  },
);

test('a service whose answer waits for its turn is not late, and is looked at again (reliability 450)', async () => {
  const upstream = await startRawUpstream(() => {});
  const { gateway, request } = await gatewayBefore(upstream.origin, {}, { responseTimeout: TIMEOUT });
  const hasWaiting = vi.spyOn(UpstreamConnection.prototype, 'hasWaiting', 'get').mockReturnValue(true);
  atEnd(() => vi.restoreAllMocks());
  const client = await rawClient(gateway, request);
  await eventually(() => expect(hasWaiting.mock.calls.length).toBeGreaterThan(2));
  expect(client.bytes.length).toBe(0);
  hasWaiting.mockReturnValue(false);
  expect(await client.head()).toMatch(/^HTTP\/1\.1 504 /);
});
