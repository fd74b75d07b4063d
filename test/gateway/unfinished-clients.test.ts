import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { ClientHttp2Session } from 'node:http2';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { askHttp2, metricsOf, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startUpstream } from '../support/upstream.ts';
import { metric, rawClient } from '../support/web-sockets.ts';

const PLANS = `
plans:
  model: { limits: { minute: 1000 }, units: { tokens: { minute: 1000000 } } }
bans: off
`;
const DESCRIPTION = `
openapi: 3.0.3
info: { title: Texts, version: '1' }
paths:
  /checked:
    post:
      requestBody: { required: true, content: { application/json: { schema: { type: object } } } }
      responses: { 200: { description: ok } }
`;
const BODY = '{"max_tokens":5}';
const HALF = BODY.slice(0, 5);

/** What is at the service and waits for its answer. */
let held: ServerResponse[] = [];
beforeEach(() => {
  held = [];
});

async function setUp(maxConnections: number, maxQueue: number) {
  const file = join(await temporaryFolder(), 'openapi.yaml');
  writeFileSync(file, DESCRIPTION);
  const upstream = await startUpstream((request, response) => {
    if (request.url === '/plain') response.end('x'.repeat(1_000));
    else held.push(response);
  });
  return {
    upstream: upstream.origin,
    upstreamSettings: { maxConnections, maxQueue },
    plans: PLANS,
    routes: `
  - { path: /plain, methods: [GET], upstream: store }
  - { path: /held, methods: [GET], upstream: store }
  - { path: /priced, methods: [POST], upstream: store, cost: { tokens: { reserve: { json: /max_tokens, default: 5 } } } }
  - { path: /checked, methods: [POST], upstream: store, validate: ${file} }
`,
  };
}

const head = (path: string, key: string) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n`;

const keysOf = (gateway: TestGateway, count: number) =>
  Promise.all(Array.from({ length: count }, async () => (await gateway.createKey('model')).key));

const upstreamInFlight = (gateway: TestGateway) => metric(gateway, 'tollgate_upstream_in_flight{upstream="store"}');

/** Eight requests of another key that are sent at once are at the service. */
async function serves(ask: () => Promise<{ readonly status: number }>): Promise<void> {
  const answers = Promise.all(Array.from({ length: 8 }, ask));
  await eventually(() => expect(held).toHaveLength(8));
  for (const response of held.splice(0)) response.end('{}');
  expect((await answers).map(({ status }) => status)).toEqual(new Array(8).fill(200));
}

// Attack: nine keys send half of as many bodies as they may, or read no response. None of that was at the service, and a neighbour got
// one of eight requests through.
describe('what clients have yet to send or to read takes no place at an upstream', () => {
  /** What one consumer may have: a quarter of 32 connections, and of 32 places in the queue. */
  const OWN = 16;

  test.each(['/priced', '/checked'])('half a body for %s (reliability 420)', async (path) => {
    const gateway = await openGateway(await setUp(32, 32));
    const [other, ...keys] = await keysOf(gateway, 10);
    const clients = await Promise.all(
      keys.flatMap((key) => Array.from({ length: OWN }, () => rawClient(gateway, head(path, key) + HALF))),
    );
    await eventually(async () => {
      const answered = clients.filter(({ bytes }) => bytes.length > 0).length;
      expect((await metric(gateway, 'tollgate_in_flight')) + answered).toBe(9 * OWN);
    });
    const headers = { 'content-type': 'application/json' };
    await serves(() => gateway.get(path, other, { method: 'POST', body: BODY, headers }));
    // They bound their own key.
    expect((await gateway.get('/plain', keys[0])).status).toBe(429);
    // Of five keys all bodies are completed at the same moment. What is beyond their shares is refused, and the other key is served.
    const whole = clients.slice(0, 5 * OWN);
    for (const { socket } of whole) socket.write(BODY.slice(HALF.length));
    const refused = () => whole.filter(({ bytes }) => bytes.subarray(9, 12).equals(Buffer.from('503'))).length;
    await eventually(async () => expect((await upstreamInFlight(gateway)) + refused()).toBe(5 * OWN));
    expect(refused()).toBeGreaterThan(0);
    const asked = gateway.get('/held', other);
    await eventually(() => {
      for (const response of held.splice(0)) response.end('{}');
      expect(whole.filter(({ bytes }) => bytes.length > 0)).toHaveLength(5 * OWN);
    });
    held.splice(0)[0]?.end('{}');
    expect((await asked).status).toBe(200);
  });

  test('a response over HTTP/2 (reliability 421)', async () => {
    const { gateway, ca } = await openEncrypted(await setUp(32, 32));
    const [other, ...keys] = await keysOf(gateway, 10);
    const sessions: ClientHttp2Session[] = [];
    for (const key of keys) {
      const session = await openHttp2(gateway.port, ca);
      sessions.push(session);
      await new Promise<void>((resolve) => session.settings({ initialWindowSize: 0 }, () => resolve()));
      for (let i = 0; i < OWN; i++)
        session.request({ ':path': '/plain', authorization: `Bearer ${key}` }).on('error', () => {});
    }
    const unread = async () => Number(/^tollgate_in_flight (\d+)$/m.exec(await metricsOf(gateway))?.[1]);
    await eventually(async () => expect(await unread()).toBe(9 * OWN));
    const session = await openHttp2(gateway.port, ca);
    await serves(() => askHttp2(session, { path: '/held', headers: { authorization: `Bearer ${other}` } }));
    for (const unreadOne of sessions) unreadOne.destroy();
  });
});

test.each([
  ['/priced', 'not counted', '999'],
  ['/checked', 'counted, because its body is read after the decision', '998'],
])('503 overloaded: others have taken the place of a request for %s while its body came; %s', async (path, _, left) => {
  const gateway = await openGateway(await setUp(4, 2));
  const [key, ...others] = await keysOf(gateway, 7);
  const client = await rawClient(gateway, head(path, key!) + HALF);
  await eventually(async () => expect(await metric(gateway, 'tollgate_in_flight')).toBe(1));
  const statuses: number[] = [];
  for (const other of others) gateway.get('/held', other).then(({ status }) => statuses.push(status));
  await eventually(async () => expect(await upstreamInFlight(gateway)).toBe(6));
  client.socket.write(BODY.slice(HALF.length));
  await eventually(() => expect(client.bytes.toString()).toMatch(/^HTTP\/1\.1 503 .*"code":"overloaded"/s));
  await eventually(() => {
    for (const response of held.splice(0)) response.end('{}');
    expect(statuses).toEqual(new Array(6).fill(200));
  });
  const next = await gateway.get('/plain', key);
  expect([next.status, next.headers.get('x-ratelimit-remaining')]).toEqual([200, left]);
});
