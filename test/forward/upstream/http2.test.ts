import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import { createServer as createTlsServer } from 'node:tls';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { askHttp2, newAuthority, openEncrypted, openHttp2 } from '../../support/encrypted.ts';
import { atEnd } from '../../support/endings.ts';
import { openGateway } from '../../support/gateway.ts';
import { countConnections, listen } from '../../support/listening.ts';
import { leaveUnread } from '../../support/unread-client.ts';

// HTTP/2 to a service that behaves: what it gets, and what clients get of it.

interface Got {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly rawTrailers: readonly string[];
}

type Answer = (stream: ServerHttp2Stream, got: Got) => unknown;

const answerOk: Answer = (stream) => {
  stream.respond({ ':status': 200, 'content-type': 'application/json' });
  stream.end('{"ok":true}');
};

async function startService(
  answer: Answer = answerOk,
  server: Http2Server = createServer({ maxSessionMemory: 1_000 }),
) {
  const requests: Got[] = [];
  const connections = countConnections(server, () => {});
  server.on('stream', async (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags, rawHeaders: string[]) => {
    stream.on('error', () => {});
    const state = { trailers: {} as IncomingHttpHeaders, rawTrailers: [] as string[] };
    stream.once('trailers', (trailers: IncomingHttpHeaders, _, rawTrailers: string[]) => {
      Object.assign(state, { trailers, rawTrailers });
    });
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk as Buffer);
    const got = { headers, rawHeaders, body: Buffer.concat(chunks).toString(), ...state };
    requests.push(got);
    answer(stream, got);
  });
  const { origin, port } = await listen(server);
  atEnd(connections.close);
  return { origin, port, requests, connections };
}

test('requests of HTTP/1.1 share one connection, and each gets its response', async () => {
  const { origin, requests, connections } = await startService((stream, { headers, body }) => {
    stream.respond({ ':status': 201, 'x-path': headers[':path'] as string, 'content-length': 4 });
    stream.end(body);
  });
  const gateway = await openGateway({ upstream: `${origin}/base`, upstreamSettings: { protocol: 'h2c' } });
  const { key } = await gateway.createKey('endless');
  await gateway.get('/v1/pets', key, { method: 'POST', body: 'warm' });
  const all = Array.from({ length: 20 }, async (_, i) => {
    const response = await gateway.get(`/v1/pets?${i}`, key, { method: 'POST', body: `n${100 + i}` });
    return [response.status, response.headers.get('x-path'), await response.text()];
  });
  expect(await Promise.all(all)).toEqual(
    Array.from({ length: 20 }, (_, i) => [201, `/base/v1/pets?${i}`, `n${100 + i}`]),
  );
  expect(connections.accepted).toBe(1);
  const { headers } = requests.at(-1)!;
  expect(headers[':authority']).toBe(new URL(origin).host);
  expect(headers[':scheme']).toBe('http');
  expect(headers['x-consumer-plan']).toBe('endless');
  expect(headers.te).toBeUndefined();
});

test('trailers pass in both directions, without what is reserved among fields (reliability 529, 562)', async () => {
  const { origin, requests } = await startService((stream) => {
    stream.respond({ ':status': 200 }, { waitForTrailers: true });
    stream.once('wantTrailers', () =>
      stream.sendTrailers({ 'x-sum': '7', 'x-request-id': 'forged', 'x-ratelimit-limit': '9' }),
    );
    stream.end('body');
  });
  const { gateway, ca } = await openEncrypted({
    upstream: origin,
    upstreamSettings: { protocol: 'h2c', headers: '{ request: { set: { X-Tenant: one } } }' },
    more: 'headers: { consumer: kong, allow: [x_credential_username] }',
  });
  const { key } = await gateway.createKey('endless');
  const session = await openHttp2(gateway.port, ca);
  const head: OutgoingHttpHeaders = { ':method': 'POST', ':path': '/v1/pets', authorization: `Bearer ${key}` };
  const stream = session.request(head, { waitForTrailers: true });
  stream.once('wantTrailers', () =>
    stream.sendTrailers({
      ...{ 'x-check': '5', 'x-consumer-id': 'forged', x_consumer_id: 'forged', 'x-tenant': 'two' },
      ...{ authorization: 'Bearer forged', 'content-type': 'text/html', cookie: 'a=b', 'x-forwarded-for': '1.1.1.1' },
      ...{ 'x-credential-identifier': 'forged', x_credential_username: 'forged', 'x-authenticated-groups': 'forged' },
    }),
  );
  stream.end('hello');
  const trailers = once(stream, 'trailers');
  stream.resume();
  const [fields] = (await trailers) as [IncomingHttpHeaders];
  expect(Object.entries(fields)).toEqual([['x-sum', '7']]);
  expect(requests[0]!.body).toBe('hello');
  expect(Object.entries(requests[0]!.trailers)).toEqual([['x-check', '5']]);
  expect(requests[0]!.headers.te).toBe('trailers');
});

test.each([
  ['fields', true],
  ['trailers', false],
])(
  'a service gets User-Agent and Referer as often as they are among the %s (reliability 559, 560)',
  async (_, inHead) => {
    const { origin, requests } = await startService();
    const { gateway, ca } = await openEncrypted({ upstream: origin, upstreamSettings: { protocol: 'h2c' } });
    const { key } = await gateway.createKey('endless');
    const session = await openHttp2(gateway.port, ca);
    // The types have these fields once.
    const repeated: object = { 'user-agent': ['a', 'b'], referer: ['c', 'd'] };
    const head = {
      ':method': 'POST',
      ':path': '/v1/pets',
      authorization: `Bearer ${key}`,
      ...(inHead ? repeated : {}),
    };
    const stream = session.request(head, { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers({ ...(inHead ? {} : repeated) }));
    stream.end('hello');
    const [answer] = (await once(stream, 'response')) as [IncomingHttpHeaders];
    expect(answer[':status']).toBe(200);
    const { rawHeaders, rawTrailers } = requests[0]!;
    expect((inHead ? rawHeaders : rawTrailers).join()).toContain('user-agent,a,user-agent,b,referer,c,referer,d');
    const next = await askHttp2(session, { path: '/v1/pets', headers: { authorization: `Bearer ${key}` } });
    expect(next.status).toBe(200);
  },
);

test('over TLS the service must agree on HTTP/2; one that does not gets no request', async () => {
  const authority = await newAuthority();
  const pair = await authority.issue('localhost');
  const secrets = { cert: readFileSync(pair.cert), key: readFileSync(pair.key) };
  const { port, requests } = await startService(answerOk, createSecureServer(secrets) as unknown as Http2Server);
  const upstreamSettings = { protocol: 'h2', tls: `{ ca: ${authority.cert} }` };
  const gateway = await openGateway({ upstream: `https://127.0.0.1:${port}`, upstreamSettings });
  const { key } = await gateway.createKey('endless');
  expect(await (await gateway.get('/v1/pets', key)).json()).toEqual({ ok: true });
  expect(requests[0]!.headers[':scheme']).toBe('https');

  let bytes = 0;
  const old = createTlsServer(secrets, (socket) => socket.on('data', (chunk: Buffer) => (bytes += chunk.length)));
  const connections = countConnections(old, () => {});
  atEnd(connections.close);
  const other = await openGateway({ upstream: `https://127.0.0.1:${(await listen(old)).port}`, upstreamSettings });
  const { key: otherKey } = await other.createKey('endless');
  expect((await other.get('/v1/pets', otherKey)).status).toBe(502);
  expect(bytes).toBe(0);
});

test('a client that does not read holds its own stream back, and none of the others on the connection', async () => {
  const { origin, connections } = await startService((stream, { headers }) => {
    stream.respond({ ':status': 200 });
    if (headers[':path'] === '/v1/search') stream.end(Buffer.alloc(64 * 1024 * 1024));
    else stream.end('{"ok":true}');
  });
  const gateway = await openGateway({ upstream: origin, upstreamSettings: { protocol: 'h2c' } });
  const { key } = await gateway.createKey('endless');
  await leaveUnread(gateway.port, `GET /v1/search HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  for (let i = 0; i < 5; i++) expect(await (await gateway.get('/v1/pets', key)).json()).toEqual({ ok: true });
  expect(connections.accepted).toBe(1);
});

test.each([
  [1, true],
  [2, false],
])('the health service of gRPC that answers %i: let in %s', async (state, isIn) => {
  const sick = await startService((stream, got) => {
    const { headers, body } = got;
    if (headers[':path'] !== '/grpc.health.v1.Health/Check') return answerOk(stream, got);
    expect([headers['content-type'], body]).toEqual(['application/grpc', '\0'.repeat(5)]);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    stream.end(Buffer.of(0, 0, 0, 0, 2, 8, state));
    return null;
  });
  const health = '{ path: /grpc.health.v1.Health/Check, interval: 50ms, unhealthyAfter: 1 }';
  const gateway = await openGateway({ upstream: sick.origin, upstreamSettings: { protocol: 'h2c', health } });
  const { key } = await gateway.createKey('endless');
  const checks = () => sick.requests.filter(({ headers }) => String(headers[':path']).startsWith('/grpc')).length;
  await eventually(() => expect(checks()).toBeGreaterThan(2));
  expect((await gateway.get('/v1/pets', key)).status).toBe(isIn ? 200 : 503);
});
