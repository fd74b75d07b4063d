import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openHttp2, startEncrypted } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { type GatewaySetup, PLANS, startGateway, type TestGateway } from '../support/gateway.ts';
import { paced } from '../support/room.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// A request takes a connection to the upstream when the first byte of its body has come, or the end of an empty one. What
// it was before that, slow, malformed or left alone, the upstream never learns.

const RESPONSE_TIMEOUT_MS = paced(300);
const REQUEST_TIMEOUT_MS = paced(2_000);

let gateway: TestGateway;
/** With short deadlines. */
let hasty: TestGateway;
let upstream: Upstream;
let key: string;
let watched: string;
const held: ServerResponse[] = [];

const setup: Omit<GatewaySetup, 'upstream'> = {
  // A plan that is only watched is admitted at once, while the rest of the packet has not been read.
  plans: `${PLANS.replace('plans:\n', 'plans:\n  watched: { limits: { minute: 1000 }, enforce: false }\n')}`,
  upstreamSettings: { maxConnections: 1 },
  listen: { drainTimeout: '1s' },
};

beforeAll(async () => {
  upstream = await startUpstream(async (request, response, { whole }) => {
    if (request.url?.includes('hold')) held.push(response);
    else if (await whole) response.end('{}');
  });
  gateway = await startGateway({ ...setup, upstream: upstream.origin });
  hasty = await startGateway({
    upstream: upstream.origin,
    upstreamSettings: { responseTimeout: `${RESPONSE_TIMEOUT_MS}ms` },
    listen: { requestTimeout: `${REQUEST_TIMEOUT_MS}ms` },
  });
  key = (await gateway.createKey('endless')).key;
  watched = (await gateway.createKey('watched')).key;
  // Known from now on.
  for (const known of [key, watched]) await gateway.get('/usage', known);
});

interface Client {
  readonly socket: Socket;
  text: string;
}

async function connected({ port } = gateway): Promise<Client> {
  const socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
  atEnd(() => socket.destroy());
  const client = { socket, text: '' };
  socket
    .on('error', () => {})
    .on('data', (chunk) => {
      client.text += chunk;
    });
  await once(socket, 'connect');
  return client;
}

const head = (name: string, own: string, fields: string) =>
  `POST /v1/pets?${name} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n${fields}\r\n`;
const CHUNKED = 'Transfer-Encoding: chunked\r\n';
const SIZED = 'Content-Length: 4\r\n';

const requestOf = (name: string) => upstream.requests.filter(({ url }) => url === `/v1/pets?${name}`);
const inFlight = async ({ adminPort } = gateway) => {
  const metrics = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  const [, requests] = /^tollgate_in_flight (\d+)$/m.exec(metrics)!;
  const [, forwarded] = /^tollgate_upstream_in_flight\{upstream="store"\} (\d+)$/m.exec(metrics)!;
  return [Number(requests), Number(forwarded)];
};
const status = ({ text }: Client) => text.slice('HTTP/1.1 '.length, 12);
const waitsForBody = (at = gateway) => eventually(async () => expect(await inFlight(at)).toEqual([1, 0]));

const BODIES = [
  ['an empty one in chunks', CHUNKED, ['0\r\n\r\n'], ''],
  ['an empty one in chunks, with trailers', CHUNKED, ['0\r\nX-A: b\r\n\r\n'], ''],
  ['one chunk', CHUNKED, ['4\r\nbody\r\n0\r\n\r\n'], 'body'],
  ['a chunk in pieces', CHUNKED, ['4\r\n', 'b', 'ody\r\n', '0\r\n\r\n'], 'body'],
  ['a sized one', SIZED, ['body'], 'body'],
  ['a sized one in pieces', SIZED, ['b', 'ody'], 'body'],
] as const;
const NAMES = [
  'sent with the head',
  'sent later',
  'sent with the head, while it waits for a connection',
  'sent later, while it waits for a connection',
] as const;

test.each(BODIES)('a body, %s, comes through whole, whenever it comes', async (what, fields, pieces, body) => {
  for (const own of [key, watched]) {
    for (const when of NAMES) {
      const name = encodeURIComponent(`${what}-${when}-${own === key}`);
      const isBusy = when.includes('waits');
      const holder = isBusy ? await connected() : null;
      holder?.socket.write(head('hold', own, '').replace('POST', 'GET'));
      if (isBusy) await eventually(() => expect(held).toHaveLength(1));
      const client = await connected();
      if (when.includes('later')) {
        client.socket.write(head(name, own, fields));
        await eventually(async () => expect(await inFlight()).toEqual(isBusy ? [2, 1] : [1, 0]));
        for (const piece of pieces) await new Promise((resolve) => client.socket.write(piece, resolve));
      } else client.socket.write(head(name, own, fields) + pieces.join(''));
      if (isBusy) {
        await eventually(async () => expect(await inFlight()).toEqual([2, 2]));
        held.pop()?.end('{}');
      }
      await eventually(() => expect([name, status(client)]).toEqual([name, '200']));
      const [request, ...others] = requestOf(name);
      expect([await request?.whole, request?.body.toString(), others]).toEqual([true, body, []]);
      for (const { socket } of [client, ...(holder === null ? [] : [holder])]) socket.destroy();
      await eventually(async () => expect(await inFlight()).toEqual([0, 0]));
    }
  }
});

test('no deadline of the upstream runs before the first byte has come', async () => {
  const { key: own } = await hasty.createKey('endless');
  const client = await connected(hasty);
  client.socket.write(head('late', own, SIZED));
  await waitsForBody(hasty);
  await delay(2 * RESPONSE_TIMEOUT_MS);
  client.socket.write('body');
  await eventually(() => expect(status(client)).toBe('200'));
});

test.each([
  ['never comes is 408 at requestTimeout', SIZED, '', '408'],
  ['begins malformed is 400', CHUNKED, 'zz\r\n', '400'],
])('a body that %s, and the upstream has not been asked', async (name, fields, bytes, expected) => {
  const { key: own } = await hasty.createKey('endless');
  const before = upstream.requests.length;
  const client = await connected(hasty);
  client.socket.write(head(expected, own, fields));
  await waitsForBody(hasty);
  client.socket.write(bytes);
  await eventually(() => expect([name, status(client)]).toEqual([name, expected]));
  await eventually(async () => expect(await inFlight(hasty)).toEqual([0, 0]));
  expect(upstream.requests).toHaveLength(before);
});

test.each(['end', 'destroy', 'resetAndDestroy'] as const)(
  'a client that leaves before the first byte (%s) is 499, and the upstream has not been asked',
  async (leave) => {
    const before = upstream.requests.length;
    const client = await connected();
    client.socket.write(head(leave, key, `X-Request-Id: ${leave}\r\n${SIZED}`));
    await waitsForBody();
    client.socket[leave]();
    const [line] = await gateway.process.until(new RegExp(`^.*"requestId":"${leave}".*$`, 'm'));
    expect(JSON.parse(line)).toMatchObject({ status: 499, code: null });
    expect(await inFlight()).toEqual([0, 0]);
    expect(upstream.requests).toHaveLength(before);
  },
);

test('a stream of HTTP/2 is waited for in the same way', async () => {
  const { gateway: encrypted, ca } = await startEncrypted({ upstream: upstream.origin });
  const own = (await encrypted.createKey('endless')).key;
  const session = await openHttp2(encrypted.port, ca);
  const stream = session.request({
    ':path': '/v1/pets?http2',
    ':method': 'POST',
    'content-length': '4',
    expect: '100-continue',
    authorization: `Bearer ${own}`,
  });
  // It has been asked for its body.
  await once(stream, 'continue');
  expect(await inFlight(encrypted)).toEqual([1, 0]);
  stream.end('body');
  const [answer] = (await once(stream, 'response')) as [Record<string, unknown>];
  expect(answer[':status']).toBe(200);
  expect(requestOf('http2')[0]?.body.toString()).toBe('body');
});

// A drain waits for what has passed admission, and no longer than its time.
test('at a drain a body that comes is served, and one that never comes is cut; exit 0', async () => {
  const own = await startGateway({ ...setup, upstream: upstream.origin });
  const ownKey = (await own.createKey('endless')).key;
  const clients = [await connected(own), await connected(own)] as const;
  for (const [i, { socket }] of clients.entries()) socket.write(head(`drain-${i}`, ownKey, SIZED));
  await eventually(async () => expect(await inFlight(own)).toEqual([2, 0]));
  own.process.signal('SIGTERM');
  await eventually(async () => expect((await fetch(`http://127.0.0.1:${own.adminPort}/readyz`)).status).toBe(503));
  clients[0].socket.write('body');
  await eventually(() => expect(status(clients[0])).toBe('200'));
  expect(await own.process.exit).toEqual({ code: 0, signal: null });
  expect(requestOf('drain-1')).toEqual([]);
  expect(own.process.stdout).not.toMatch(/a defect|uncaught/);
});
