import { createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Pulse } from '../../../tools/chaos/pulse.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { listen } from '../../support/listening.ts';

test('what keeps a request waiting is seen while it waits, and not after its answer', async () => {
  const held: Socket[] = [];
  const server = createServer((socket) => void held.push(socket.on('error', () => {})));
  const { origin } = await listen(server);
  atEnd(() => void server.close());
  const pulse = new Pulse([origin], 30);
  atEnd(() => pulse.stop());
  await eventually(() => pulse.lateUntilMs() > 0);
  const before = pulse.lateUntilMs();
  await eventually(() => pulse.lateUntilMs() > before);
  server.on('connection', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  for (const socket of held.splice(0)) socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
  // The machine may be late by itself.
  await eventually(async () => {
    const until = pulse.lateUntilMs();
    await delay(50);
    return pulse.lateUntilMs() === until;
  });
});

test('a machine that keeps nothing waiting for so long was never late', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  const { origin } = await listen(server);
  atEnd(() => void server.close());
  const pulse = new Pulse([origin], 60_000);
  await eventually(async () => (await pulse.stop()) > 0);
  expect(pulse.lateUntilMs()).toBe(Number.NEGATIVE_INFINITY);
});
