import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createEncryptedServer } from 'node:https';
import type { Server } from 'node:net';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { type ClientOptions, WebSocket, WebSocketServer } from 'ws';
import { networkOf } from '../../../src/identify/failed-attempts.ts';
import { SharedBufferSocket } from '../../../src/io/read-buffers.ts';
import { eventually } from '../../support/conditions.ts';
import { newAuthority, openEncrypted } from '../../support/encrypted.ts';
import { atEnd } from '../../support/endings.ts';
import { freePort } from '../../support/free-port.ts';
import { openGateway, startGateway } from '../../support/gateway.ts';
import { temporaryFolder } from '../../support/processes.ts';
import {
  asking,
  logged,
  openWebSocket,
  rawClient,
  startWebSocketUpstream,
  WEBSOCKET_ROUTES,
} from '../../support/web-sockets.ts';

const routes = WEBSOCKET_ROUTES;

/** Takes WebSockets on a server, sends back what comes, and remembers who asked. */
async function echoOn(server: Server, where: { readonly path?: string; readonly port?: number }) {
  const asked: IncomingMessage[] = [];
  const sockets = new WebSocketServer({ server: server as ReturnType<typeof createServer> });
  sockets.on('connection', (socket, request) => {
    asked.push(request);
    socket.on('message', (data) => socket.send(String(data)));
  });
  server.listen({ host: '127.0.0.1', ...where });
  await once(server, 'listening');
  atEnd(() => {
    for (const socket of sockets.clients) socket.terminate();
    server.close();
  });
  return { asked, open: sockets.clients };
}

async function expectEcho(socket: WebSocket) {
  socket.send('through');
  expect(String((await once(socket, 'message'))[0])).toBe('through');
}

const encrypting = async () => {
  const theirs = await newAuthority();
  const { cert, key } = await theirs.issue('localhost');
  const server = createEncryptedServer({ cert: await readFile(cert), key: await readFile(key) });
  const ca = join(await temporaryFolder(), 'ca.pem');
  await writeFile(ca, theirs.pem);
  return { server, ca };
};

test('a WebSocket over TLS, to an upstream over TLS whose certificate is checked', async () => {
  const { server, ca } = await encrypting();
  const port = await freePort();
  await echoOn(server, { port });
  const upstream = `https://localhost:${port}`;
  const trusting = await openEncrypted({ upstream, routes, upstreamSettings: { tls: `{ ca: ${ca} }` } });
  const { key } = await trusting.gateway.createKey('free');
  const options: ClientOptions & { servername: string } = {
    ca: trusting.ca,
    servername: 'localhost',
    headers: { Authorization: `Bearer ${key}` },
  };
  const socket = new WebSocket(`wss://127.0.0.1:${trusting.gateway.port}/v1/live`, options);
  await once(socket, 'open');
  await expectEcho(socket);
  socket.close();
  await once(socket, 'close');
  const wary = await openGateway({ upstream, routes });
  const { key: other } = await wary.createKey('free');
  expect((await (await rawClient(wary, asking(other))).answer()).status).toBe(502);
});

test('an upstream on a Unix socket', async () => {
  const path = join(await temporaryFolder(), 'live.sock');
  const { asked } = await echoOn(createServer(), { path });
  const gateway = await openGateway({ upstream: `unix:${path}`, routes });
  const { key } = await gateway.createKey('free');
  const { socket } = await openWebSocket(gateway, key, '/v1/live?a=b');
  await expectEcho(socket);
  expect([asked[0]?.url, asked[0]?.headers.host]).toEqual(['/v1/live?a=b', 'localhost']);
});

// Attack: Node throws when it is to reset a socket that is not TCP itself, so one reset by a client ended the gateway.
test.each(['over TLS', 'on a Unix socket'])(
  'a client resets its WebSocket to an upstream %s: the upstream loses its connection too, and the gateway serves others (reliability 431)',
  async (where) => {
    const { server, ca } = await encrypting();
    const path = join(await temporaryFolder(), 'live.sock');
    const port = await freePort();
    const isEncrypted = where === 'over TLS';
    const { open } = await echoOn(isEncrypted ? server : createServer(), isEncrypted ? { port } : { path });
    const gateway = await startGateway({
      upstream: isEncrypted ? `https://localhost:${port}` : `unix:${path}`,
      upstreamSettings: isEncrypted ? { tls: `{ ca: ${ca} }` } : {},
      routes,
    });
    const { key } = await gateway.createKey('free');
    const client = await rawClient(gateway, asking(key));
    await client.head();
    await eventually(() => expect(open.size).toBe(1));
    client.socket.resetAndDestroy();
    await eventually(() => expect(open.size).toBe(0));
    await eventually(() => expect(logged(gateway, 'websocket closed')).toMatchObject([{ reason: 'client_lost' }]));
    const { socket: other } = await openWebSocket(gateway, key);
    await expectEcho(other);
    // A gateway that stops waits for it.
    other.terminate();
    await gateway.process.stop();
    expect(gateway.process.stdout).not.toMatch(/a defect|uncaught/);
  },
);

test('what a service sends through a WebSocket has the turns of the client to which it goes (reliability 413)', async () => {
  const opening = vi.spyOn(SharedBufferSocket, 'to');
  atEnd(() => opening.mockRestore());
  const gateway = await openGateway({ upstream: (await startWebSocketUpstream()).origin, routes });
  const { key } = await gateway.createKey('free');
  await expectEcho((await openWebSocket(gateway, key)).socket);
  expect(opening.mock.results.map(({ value }) => value.owner)).toEqual([networkOf('127.0.0.1')]);
});

test('of several targets, one that cannot be reached is passed over, and nobody notices', async () => {
  const upstream = await startWebSocketUpstream();
  const away = `http://127.0.0.1:${await freePort()}`;
  const gateway = await openGateway({ upstream: `${away}, ${upstream.origin}`, routes });
  const { key } = await gateway.createKey('free');
  for (let i = 0; i < 6; i++) await expectEcho((await openWebSocket(gateway, key)).socket);
  await upstream.close();
  const answers = [];
  for (let i = 0; i < 3; i++) answers.push(await (await rawClient(gateway, asking(key))).answer());
  for (const answer of answers) expect([502, 503]).toContain(answer.status);
  const last = answers.at(-1)!;
  expect(JSON.parse(last.body.toString())).toMatchObject({ code: 'no_upstream' });
  expect(Number(last.header('retry-after'))).toBeGreaterThan(0);
});

// Attack: one request for an upgrade that the service refuses by closing, and a whole target is left out for everybody.
test('an upgrade that a target refuses by closing does not take the target from others', async () => {
  const refusing = () => {
    const server = createServer((_, response) => response.end('[]'));
    server.on('upgrade', (_, socket) => socket.destroy());
    server.listen(0, '127.0.0.1');
    atEnd(() => server.close());
    return server;
  };
  const servers = [refusing(), refusing()];
  await Promise.all(servers.map((server) => server.listening || once(server, 'listening')));
  const targets = servers.map((server) => `http://127.0.0.1:${(server.address() as { port: number }).port}`);
  const gateway = await openGateway({
    upstream: targets.join(', '),
    routes: `${routes}\n  - { path: /plain, methods: [GET], upstream: store }`,
  });
  const { key } = await gateway.createKey('endless');
  for (let i = 0; i < 8; i++) {
    const client = await rawClient(gateway, asking(key));
    expect(await client.head()).toMatch(/^HTTP\/1\.1 502/);
    expect((await gateway.get('/plain', key)).status).toBe(200);
  }
});
