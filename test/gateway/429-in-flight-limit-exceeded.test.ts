import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream, WEBSOCKET_ROUTES } from '../support/web-sockets.ts';

const PLANS = `
plans:
  calm: { limits: { minute: 100 }, in-flight: 2 }
bans: { after: 2 }
`;

test('429 in_flight_limit_exceeded: more in flight than the plan allows; not counted, no strike, free again with the end', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => held.push(response));
  const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS });
  const { key } = await gateway.createKey('calm');
  const slow = [gateway.get('/v1/pets?1', key), gateway.get('/v1/pets?2', key)];
  await eventually(() => expect(held).toHaveLength(2));
  for (let i = 0; i < 5; i++) {
    const answer = await gateway.get('/v1/pets', key);
    expect(answer.status).toBe(429);
    expect(await answer.json()).toEqual({
      code: 'in_flight_limit_exceeded',
      message:
        'At most 2 requests of this API key may be in flight at a time. Wait for answers before sending more. This request was not counted.',
      status: 429,
      details: { limit: 2, scope: 'key' },
    });
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(answer.headers.get('ratelimit-policy')).toBe(
      '"minute";q=100;w=60, "in-flight";q=2;qu="concurrent-requests"',
    );
    expect(answer.headers.get('ratelimit')).toMatch(/^"minute";r=98;t=\d+, "in-flight";r=0$/);
  }
  const usage = (await (await gateway.get('/usage', key)).json()) as Readonly<Record<string, unknown>>;
  expect(usage).toMatchObject({ strikes: 0, ban: null, windows: { minute: { used: 2 } } });
  expect(usage.inFlight).toEqual({ 'in-flight': { limit: 2, used: 2 } });
  for (const response of held.splice(0)) response.end('{}');
  for (const request of slow) expect((await request).status).toBe(200);
  const next = gateway.get('/v1/pets?3', key);
  await eventually(() => expect(held).toHaveLength(1));
  held[0]!.end('{}');
  expect((await next).headers.get('ratelimit')).toMatch(/"in-flight";r=1$/);
});

test('a WebSocket has its place as long as it is open', async () => {
  const upstream = await startWebSocketUpstream();
  const gateway = await openGateway({ upstream: upstream.origin, routes: WEBSOCKET_ROUTES, plans: PLANS });
  const { key } = await gateway.createKey('calm');
  const one = await openWebSocket(gateway, key, '/v1/live');
  const two = await openWebSocket(gateway, key, '/v1/live');
  const inFlight = async () => {
    const answer = await gateway.get('/usage', key);
    return ((await answer.json()) as { inFlight: Record<string, { used: number }> }).inFlight['in-flight']!.used;
  };
  expect(await inFlight()).toBe(2);
  const third = await gateway.get('/v1/pets', key);
  expect(third.status).toBe(429);
  one.socket.terminate();
  // The usage is read once a second.
  await eventually(async () => expect(await inFlight()).toBe(1));
  expect((await gateway.get('/v1/none', key)).status).toBe(404);
  two.socket.terminate();
  await eventually(async () => expect(await inFlight()).toBe(0));
});
