import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createConnection, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { openGateway, type TestGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listening.ts';
import { startUpstream } from '../../support/upstream.ts';
import { asking, switching, WEBSOCKET_ROUTES } from '../../support/web-sockets.ts';

// All connections are read into one buffer. Attack: what is kept of it beyond the read turns into what the next client sends.

async function open({ port }: TestGateway): Promise<Socket & { text: string }> {
  const socket = Object.assign(createConnection({ port, host: '127.0.0.1', noDelay: true }), { text: '' });
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (text: string) => {
    socket.text += text;
  });
  await once(socket, 'connect');
  return socket;
}

/** Another client has been read from and answered: whatever was lent before is its bytes now. */
async function overwrite(gateway: TestGateway): Promise<void> {
  const other = await open(gateway);
  other.write(`GET /v1/none HTTP/1.1\r\nHost: a\r\nX-Other: ${'o'.repeat(3_000)}\r\n\r\n`);
  await eventually(() => expect(other.text).toContain(' 401 '));
  other.destroy();
}

test('what waits behind a request is still what its own client sent when another has sent', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => held.push(response));
  const gateway = await openGateway({ upstream: upstream.origin });
  const { key } = await gateway.createKey('endless');
  const get = (query: string) => `GET /v1/pets?${query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const socket = await open(gateway);
  socket.write(get('first'));
  await eventually(() => expect(held).toHaveLength(1));
  socket.write(get('second'));
  await overwrite(gateway);
  held[0]?.end('{}');
  await eventually(() =>
    expect(upstream.requests.map(({ url }) => url)).toEqual(['/v1/pets?first', '/v1/pets?second']),
  );
  // A gateway that stops waits for it.
  socket.destroy();
});

test.each(['in one packet with the request', 'after it'])(
  'what a client sends ahead of the answer to its upgrade, %s, is still its own when another has sent',
  async (how) => {
    const got: Buffer[] = [];
    const sockets: Socket[] = [];
    const server = createServer((socket) => {
      socket.on('error', () => {}).on('data', (chunk: Buffer) => got.push(chunk));
      sockets.push(socket);
    });
    const { origin } = await listen(server);
    const gateway = await openGateway({ upstream: origin, routes: WEBSOCKET_ROUTES });
    const { key } = await gateway.createKey('endless');
    const socket = await open(gateway);
    const early = 'early'.repeat(20);
    const packets = how === 'after it' ? [asking(key), early] : [asking(key) + early];
    for (const packet of packets) {
      socket.write(packet, 'latin1');
      await eventually(() => expect(Buffer.concat(got).toString()).toContain('\r\n\r\n'));
    }
    await overwrite(gateway);
    got.length = 0;
    sockets[0]?.write(switching());
    await eventually(() => expect(Buffer.concat(got).toString('latin1')).toBe(early));
    for (const it of sockets) it.destroy();
    server.close();
  },
);
