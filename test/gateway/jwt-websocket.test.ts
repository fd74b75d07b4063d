import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AUDIENCE, ISSUER, jwksOf, signingKey } from '../identify/jwt-issuer.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { LATE_MS } from '../support/room.ts';
import { logged, openWebSocket, startWebSocketUpstream, WEBSOCKET_ROUTES } from '../support/web-sockets.ts';

test('a WebSocket that was opened with a token lives until the token expires, and no second longer', async () => {
  const upstream = await startWebSocketUpstream();
  const issuer = await signingKey();
  const jwks = join(await temporaryFolder(), 'jwks.json');
  await writeFile(jwks, jwksOf(issuer));
  const gateway = await openGateway({
    upstream: upstream.origin,
    routes: WEBSOCKET_ROUTES,
    more: `jwt: { issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256] }`,
  });
  const exp = Math.floor(Date.now() / 1000) + 4;
  const { socket } = await openWebSocket(gateway, await issuer.sign({ exp }));
  const lasting = await openWebSocket(gateway, await issuer.sign());
  const closed = once(socket, 'close');
  socket.send('still here');
  expect(String((await once(socket, 'message'))[0])).toBe('still here');
  // Longer than it takes to end the WebSockets of a key that is gone: a token has no record that could be missed.
  await closed;
  expect(Date.now() / 1000).toBeGreaterThanOrEqual(exp - 0.1);
  expect(Date.now() / 1000).toBeLessThan(exp + LATE_MS / 1000);
  await eventually(() => expect(logged(gateway, 'websocket closed')).toMatchObject([{ reason: 'expired' }]));
  lasting.socket.send('and so am I');
  expect(String((await once(lasting.socket, 'message'))[0])).toBe('and so am I');
});
