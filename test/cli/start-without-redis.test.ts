import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { atEnd } from '../support/endings.ts';
import { openGateway } from '../support/gateway.ts';
import { listen } from '../support/listening.ts';
import { startUpstream } from '../support/upstream.ts';

const info = 'redis_version:7.0.0\r\nloading:0\r\n';

/** Speaks like a Redis while a client connects, and says nothing to any command after that. */
async function fallsSilent(): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      for (const command of chunk.toString('latin1').split(/(?=\*\d+\r\n)/)) {
        if (/\r\ninfo\r\n/i.test(command)) socket.write(`$${info.length}\r\n${info}\r\n`);
        else if (/\r\n(hello|client|select)\r\n/i.test(command)) socket.write('+OK\r\n');
      }
    });
    atEnd(() => socket.destroy());
  });
  atEnd(() => server.close());
  return `redis://127.0.0.1:${(await listen(server)).port}`;
}

// Attack: a Redis that is away, or that accepts a connection and then says nothing, when the gateway starts.
test.each([
  ['that is not there', async () => 'redis://127.0.0.1:1'],
  ['that falls silent as soon as it is connected', fallsSilent],
])('a gateway starts with a Redis %s, and says that it is not ready (reliability 124, 97)', async (_, redis) => {
  const { origin } = await startUpstream();
  const env = { REDIS_URL: await redis(), KEY_PEPPER: 'a pepper that only the tests use' };
  const gateway = await openGateway({ upstream: origin, env });
  const readiness = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`);
  expect(readiness.status).toBe(503);
  expect(await readiness.json()).toMatchObject({ store: 'never_reached' });
  expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
});
