import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../lifecycle/relaunch.ts';

const ROUTES = `
  - { path: /public, methods: [GET], upstream: store, auth: none, limits: { minute: 1000000 } }
  - { path: /v1/pets, methods: [GET], upstream: store }
`;
const FIELDS = Array.from({ length: 100 }, (_, i) => `X-${i}: ${i}\r\n`).join('');
const HEAD = `GET / HTTP/1.1\r\nHost: a\r\n${FIELDS}\r\n`;

// Attack: a request without a key whose answer takes its time, and heads of a hundred fields behind it. What is parsed
// before its turn takes ten times its bytes.
test('what clients without a key pipeline is not parsed before its turn: it cannot fill the heap (reliability 148)', async () => {
  const answers = Promise.withResolvers<void>();
  const upstream = await startUpstream(async (request, response) => {
    if (request.url === '/public') await answers.promise;
    response.end('[]');
  });
  const gateway = await startGateway({
    upstream: upstream.origin,
    routes: ROUTES,
    env: { NODE_OPTIONS: '--max-old-space-size=128' },
  });
  const { key } = await gateway.createKey('endless');
  const clients: Socket[] = [];
  for (let i = 0; i < 300; i++) {
    const socket = createConnection(gateway.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write('GET /public HTTP/1.1\r\nHost: a\r\n\r\n');
    socket.write(HEAD.repeat(40));
    clients.push(socket);
  }
  await Promise.all(clients.map((socket) => once(socket, 'connect')));
  await eventually(async () => expect(await metricOf(gateway.adminPort, 'tollgate_in_flight')).toBe(300), {
    withinMs: 15_000,
  });
  await eventually(() => expect(clients.every(({ writableLength }) => writableLength === 0)).toBe(true));
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  expect(gateway.process.stderr).toBe('');
  for (const socket of clients) socket.destroy();
  answers.resolve();
  await eventually(async () => expect(await metricOf(gateway.adminPort, 'tollgate_in_flight')).toBe(0));
});
