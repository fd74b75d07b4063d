import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls';
import { describe, expect, test, vi } from 'vitest';
import { addressOf, dial } from '../../../src/forward/upstream/dial.ts';
import { UpstreamConnection } from '../../../src/forward/upstream/upstream-connection.ts';
import { Deadlines } from '../../../src/io/deadlines.ts';
import { readInTurn, SharedBufferSocket } from '../../../src/io/read-buffers.ts';
import { hasWaiting } from '../../../src/io/tls-carrier.ts';
import { eventually } from '../../support/conditions.ts';
import { newAuthority } from '../../support/encrypted.ts';
import { atEnd } from '../../support/endings.ts';
import { openGateway, startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listening.ts';
import { asking, rawClient } from '../../support/web-sockets.ts';

const CONNECTIONS = 16;
const RECORDS = 4_000;
/** What these responses take in one turn is several times as much if nothing bounds it. */
const MOST_MS = 60;

/** @param certificates how many the server sends: its own, again and again, of about 600 bytes each */
async function startService(onRequest: (socket: TLSSocket) => void, certificates = 1, options: TlsOptions = {}) {
  const { cert, key } = await (await newAuthority()).issue('localhost');
  const pem = await readFile(cert, 'utf8');
  const sockets: TLSSocket[] = [];
  const tls = { cert: `${pem}\n`.repeat(certificates), key: await readFile(key), ...options };
  const server = createServer(tls, (socket) => {
    sockets.push(socket);
    socket.on('error', () => {}).on('data', () => onRequest(socket));
  });
  const { port } = await listen(server);
  atEnd(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { target: `https://127.0.0.1:${port}`, sockets };
}

async function startBefore(target: string, env: Record<string, string> = {}) {
  const gateway = await startGateway({ upstream: target, upstreamSettings: { tls: '{ verify: false }' }, env });
  const { key } = await gateway.createKey('endless');
  return { gateway, ask: () => gateway.get('/v1/pets', key) };
}

// Attack: Node reads and decrypts 2 MiB of a connection in one turn. The gateway stands still until all has arrived at its sockets.
test('records of one byte from services: no turn of the event loop is long (reliability 408)', {
  timeout: 120_000,
}, async () => {
  const asking: TLSSocket[] = [];
  const { target } = await startService((socket) => asking.push(socket));
  const longestTurn = join(import.meta.dirname, '..', '..', 'support', 'longest-turn.ts');
  const { gateway, ask } = await startBefore(target, { NODE_OPTIONS: `--import=${longestTurn}` });
  const longestTurnMs = async () => {
    const before = gateway.process.stderr.length;
    gateway.process.signal('SIGUSR2');
    await eventually(() => expect(gateway.process.stderr.slice(before)).toContain('longest turn'));
    return Number(/longest turn ([\d.]+) ms/.exec(gateway.process.stderr.slice(before))![1]);
  };
  const bodies = Array.from({ length: CONNECTIONS }, async () => (await (await ask()).text()).length);
  await eventually(() => expect(asking.length).toBe(CONNECTIONS));
  await longestTurnMs();
  process.kill(gateway.process.pid, 'SIGSTOP');
  const writing = asking.map(async (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${RECORDS}\r\n\r\n`);
    for (let i = 0; i < RECORDS; i++) await new Promise((taken) => socket.write('x', taken));
  });
  await Promise.all(writing).finally(() => process.kill(gateway.process.pid, 'SIGCONT'));
  expect(await Promise.all(bodies)).toEqual(bodies.map(() => RECORDS));
  expect(await longestTurnMs()).toBeLessThan(MOST_MS);
});

describe('the chain of certificates of a service', () => {
  const answer = (socket: TLSSocket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');

  // Attack: OpenSSL checks the whole chain at once, before any JavaScript runs. 66 certificates took 320 ms.
  test('is refused if the handshake is longer than 32 KiB: 502, and the log says so (reliability 409)', async () => {
    const { target } = await startService(answer, 100);
    const { gateway, ask } = await startBefore(target);
    expect((await ask()).status).toBe(502);
    await eventually(() => expect(gateway.process.stdout).toContain('"cause":"a TLS handshake of more than 32 KiB"'));
  });

  test.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'of 20 KiB is accepted over %s, and the connection is kept',
    async (maxVersion) => {
      const { target, sockets } = await startService(answer, 33, { maxVersion });
      const { ask } = await startBefore(target);
      for (let i = 0; i < 3; i++) expect(await (await ask()).text()).toBe('ok');
      expect(sockets.length).toBe(1);
    },
  );
});

// Attack: an upstream answers a request twice. The second answer has arrived, and waits until other connections have had their turn.
test('a connection whose bytes wait for their turn carries no further request (reliability 410)', async () => {
  const { target, sockets } = await startService(() => {});
  const tls = { ca: null, cert: null, key: null, serverName: null, verify: false };
  const dialed = Promise.withResolvers<Parameters<Parameters<typeof dial>[2]>[0]>();
  dial(addressOf(target), { connectTimeoutMs: 10_000, tls }, dialed.resolve, dialed.reject);
  const socket = await dialed.promise;
  await eventually(() => expect(sockets.length).toBe(1));
  const keeper = { onIdle: () => {}, onUnasked: () => {}, onClosed: () => {} };
  const deadlines = new Deadlines(() => performance.now());
  const address = { authority: 'up', base: '' };
  const connection = new UpstreamConnection(socket, null, address, keeper, deadlines);
  const taken = Promise.withResolvers<boolean>();
  let isOver = false;
  atEnd(() => {
    isOver = true;
  });
  readInTurn(new Socket(), () => {
    if (hasWaiting(socket)) taken.resolve(connection.takeIdle(deadlines.nowMs()));
    else return !isOver;
  });
  sockets[0]!.write(`HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n${'x'.repeat(4_000)}`);
  expect(await taken.promise).toBe(false);
  if (!socket.destroyed) await once(socket, 'close');
});

// Attack: each connection had turns of its own, so that a caller with many responses had as many before another one had its first.
test('the responses of a caller share its turns (reliability 444)', async () => {
  const to = vi.spyOn(SharedBufferSocket, 'to');
  atEnd(() => to.mockRestore());
  let asked = 0;
  const { target } = await startService(() => asked++);
  const gateway = await openGateway({ upstream: target, upstreamSettings: { tls: '{ verify: false }' } });
  const [one, other] = [await gateway.createKey('endless'), await gateway.createKey('endless')];
  for (const { key } of [one, one, other]) {
    const before = asked;
    await rawClient(gateway, asking(key, '/v1/pets', ''));
    await eventually(() => expect(asked).toBe(before + 1));
  }
  const owners = to.mock.results.map(({ value }) => (value as SharedBufferSocket).owner);
  expect(owners.map((owner) => owner === owners[0])).toEqual([true, true, false]);
});
