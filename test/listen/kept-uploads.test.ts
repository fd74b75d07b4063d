import { once } from 'node:events';
import { Agent, type AgentOptions, request as requestHttps } from 'node:https';
import { expect, test } from 'vitest';
import { startEncrypted } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { startUpstream } from '../support/upstream.ts';

const UPLOADS = 60;

// Fault: a client has all of a response, and sends its next request, before node:http has noticed that the response is written.
// Over TLS that is a turn later. The next request then counted as pipelined, and beyond 64 KiB its connection was closed.
test('uploads one after the other on a kept TLS connection all arrive (reliability 308)', {
  timeout: 60_000,
}, async () => {
  const upstream = await startUpstream((request, response) => {
    let bytes = 0;
    request.on('data', (piece: Buffer) => {
      bytes += piece.length;
    });
    request.on('end', () => response.end(String(bytes)));
  });
  const { gateway, ca } = await startEncrypted({ upstream: upstream.origin, listen: { maxBodyBytes: '4MiB' } });
  const { key } = await gateway.createKey('endless');
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca, servername: 'localhost' } satisfies AgentOptions);
  atEnd(() => agent.destroy());
  const upload = async (body: Buffer): Promise<string> => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Length': body.length };
    const request = requestHttps({
      port: gateway.port,
      host: '127.0.0.1',
      agent,
      method: 'POST',
      path: '/v1/pets',
      headers,
    });
    request.end(body);
    const [response] = await once(request, 'response');
    return `${response.statusCode} ${Buffer.concat(await response.toArray())} ${request.reusedSocket}`;
  };
  await upload(Buffer.alloc(1));
  for (const size of [66_000, 200_000, 2_000_000]) {
    const body = Buffer.alloc(size, 'x');
    for (let i = 0; i < UPLOADS; i++) expect(await upload(body).catch(String)).toBe(`200 ${size} true`);
  }
  // Fault: each response left a listener on the connection. Node.js warns of more than ten.
  expect(gateway.process.stderr).toBe('');
});
