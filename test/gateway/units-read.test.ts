import { type ClientRequest, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { HANDSHAKE } from '../support/web-sockets.ts';

// A client chooses how its answer is coded, how much of it there is and when it leaves, and never that its cost is not read.

const PLANS = `
plans:
  model:
    limits: { minute: 100000 }
    units: { tokens: { hour: 100000000 } }
bans: off
`;
const COST = 'cost: { tokens: { reserve: 10, from: [{ json: /usage }, { sse: /usage }] } }';
const ROUTES = `
  - { path: '/v1/**', methods: [GET], upstream: store, websocket: true, ${COST} }
  - { path: /fields, methods: [GET], upstream: store, cost: { tokens: { reserve: 10, from: { header: X-Tokens } } } }
  - { path: /bytes, methods: [GET], upstream: store, cost: { tokens: { reserve: 10, from: bytes } } }
  - { path: /free, methods: [GET], upstream: store }
  - { path: /set, methods: [GET], upstream: store, ${COST}, headers: { request: { set: { Accept-Encoding: br } } } }
`;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

async function setUp(answer: Answer, routes = ROUTES) {
  const upstream = await startUpstream((request, response) => answer(request, response));
  const upstreamSettings = { maxConnections: 400, fairShare: 0.5 };
  const listen = { drainTimeout: '1s' };
  const gateway = await openGateway({ upstream: upstream.origin, upstreamSettings, plans: PLANS, routes, listen });
  return { upstream, gateway };
}

interface Asked {
  readonly request: ClientRequest;
  readonly response: IncomingMessage;
  readonly body: Promise<Buffer>;
  /** How many bytes of the body have come. */
  received(): number;
}

/** A request on a connection of its own, with just these fields. @returns once its head is there */
function ask(gateway: TestGateway, key: string, path: string, headers: Record<string, string> = {}): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const options = { agent: false, headers: { authorization: `Bearer ${key}`, ...headers } };
    const request = httpRequest(`${gateway.origin}${path}`, options, (response) => {
      const pieces: Buffer[] = [];
      response.on('data', (piece: Buffer) => pieces.push(piece));
      const body = new Promise<Buffer>((done, broken) => {
        response.on('end', () => done(Buffer.concat(pieces)));
        response.on('error', broken);
      });
      body.catch(() => {});
      resolve({ request, response, body, received: () => Buffer.concat(pieces).length });
    });
    request.on('error', reject);
    request.end();
  });
}

async function usedIs(gateway: TestGateway, key: string, used: number): Promise<void> {
  await eventually(async () => {
    const { windows } = (await (await gateway.get('/usage', key)).json()) as {
      readonly windows: Readonly<Record<string, { readonly used: number }>>;
    };
    expect(windows['tokens-hour']?.used).toBe(used);
  });
}

const usage = (tokens: number) => Buffer.from(JSON.stringify({ text: 'hello', usage: tokens }));
const json = (response: ServerResponse) => response.setHeader('content-type', 'application/json');

/** A service that compresses for those who accept it, and never ends its answers below /v1/open. */
function compressing(held: ServerResponse[]): Answer {
  return (request, response) => {
    const coding = /br|gzip/.exec(request.headers['accept-encoding'] ?? '')?.[0];
    if (coding !== undefined) response.setHeader('content-encoding', coding);
    json(response);
    const plain = usage(5000);
    const body = coding === undefined ? plain : coding === 'br' ? brotliCompressSync(plain) : gzipSync(plain);
    if (request.url !== '/v1/open') response.end(body);
    else {
      response.write(body.subarray(0, 10));
      held.push(response);
    }
  };
}

const GZIP = { 'accept-encoding': 'gzip' };
const BR = { 'accept-encoding': 'br' };

test.each([
  ['br', BR, undefined],
  ['br and gzip', { 'accept-encoding': 'br, gzip' }, 'gzip'],
  ['gzip', GZIP, 'gzip'],
])(
  'a key that keeps answers in %s open pays what its other answers state (reliability 341)',
  async (_coding, fields, coding) => {
    const { gateway } = await setUp(compressing([]));
    const { key } = await gateway.createKey('model');
    await Promise.all(Array.from({ length: 40 }, () => ask(gateway, key, '/v1/open', fields)));
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask(gateway, key, '/v1/chat', fields)));
    for (const { response, body } of answers) {
      expect(response.headers['content-encoding']).toBe(coding);
      expect(String(coding === undefined ? await body : gunzipSync(await body))).toBe(String(usage(5000)));
    }
    // The answers that are open have taken ten each.
    await usedIs(gateway, key, 40 * 5000 + 40 * 10);
  },
);

test('keys that keep answers in br open leave a fifth one some, and what it pays (reliability 341)', async () => {
  const { gateway } = await setUp(compressing([]));
  const others = await Promise.all([1, 2, 3, 4].map(() => gateway.createKey('model')));
  const open = others.flatMap(({ key }) => Array.from({ length: 30 }, () => ask(gateway, key, '/v1/open', BR)));
  await Promise.all(open);
  const { key } = await gateway.createKey('model');
  const { response, body } = await ask(gateway, key, '/v1/chat', BR);
  expect(response.headers['content-encoding']).toBe('br');
  expect(String(brotliDecompressSync(await body))).toBe(String(usage(5000)));
  await usedIs(gateway, key, 5000);
});

test('a place is given back with its answer, whatever comes of it (reliability 341)', async () => {
  const { gateway } = await setUp((request, response) => {
    if (request.url === '/v1/reset') request.socket.resetAndDestroy();
    else if (request.url === '/v1/plain') json(response).end(usage(1));
    else if (request.url === '/v1/empty') response.setHeader('content-encoding', 'br').writeHead(204).end();
    else compressing([])(request, response);
  });
  const { key } = await gateway.createKey('model');
  for (const path of ['/v1/reset', '/v1/plain', '/v1/empty', '/v1/chat']) {
    for (let i = 0; i < 4; i++) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask(gateway, key, path, BR)));
      await Promise.all(answers.map(({ body }) => body));
    }
  }
  for (let i = 0; i < 40; i++) {
    const { request } = await ask(gateway, key, '/v1/open', BR);
    request.destroy();
  }
  await eventually(async () => {
    const { response, body } = await ask(gateway, key, '/v1/chat', BR);
    await body;
    expect(response.headers['content-encoding']).toBe('br');
  });
});

test.each([
  ['gzip', gzipSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
] as const)(
  'a service that sends %s whatever it is asked for: all costs are read, however many answers are open (reliability 341)',
  async (coding, compress) => {
    const body = compress(usage(5000));
    const { gateway } = await setUp((request, response) => {
      json(response).setHeader('content-encoding', coding);
      if (request.url === '/v1/open') response.write(body.subarray(0, 10));
      else response.end(body);
    });
    const { key } = await gateway.createKey('model');
    await Promise.all(Array.from({ length: 80 }, () => ask(gateway, key, '/v1/open')));
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(gateway, key, '/v1/chat')));
    await Promise.all(answers.map(({ body }) => body));
    await usedIs(gateway, key, 20 * 5000 + 80 * 10);
  },
);

describe('where the cost is in the body, the service is asked for what can be read (reliability 342)', () => {
  let gateway: TestGateway;
  let upstream: Upstream;
  let key: string;

  beforeAll(async () => {
    ({ gateway, upstream } = await setUp((_request, response) => json(response).end(usage(1))));
    ({ key } = await gateway.createKey('model'));
  });

  test.each<[string, Record<string, string>, string | undefined]>([
    ['/v1/a', {}, 'identity'],
    ['/v1/a', { 'accept-encoding': '' }, 'identity'],
    ['/v1/a', { 'accept-encoding': 'gzip, deflate, br, zstd' }, 'gzip, deflate, br, zstd'],
    ['/v1/a', { 'ACCEPT-encoding': ' GZip;Q=0.50 ,compress, aes128gcm;q=1, BR ' }, 'gzip;q=0.5, br'],
    ['/v1/a', { 'accept-encoding': 'compress, dcb' }, 'identity'],
    ['/v1/a', { 'accept-encoding': 'gzip;q=0, br;q=0.000' }, 'identity'],
    ['/v1/a', { 'accept-encoding': 'gzip;q=2, "gzip"' }, 'identity'],
    ['/v1/a', { 'accept-encoding': 'x-gzip, identity;q=0' }, 'x-gzip, identity;q=0'],
    ['/v1/a', { 'accept-encoding': 'gzip, *;q=0' }, 'gzip, identity;q=0'],
    ['/v1/a', { 'accept-encoding': '*;q=0.3, br, gzip;q=0' }, 'br, deflate;q=0.3, zstd;q=0.3, identity;q=0.3'],
    ['/v1/a', { 'accept-encoding': 'compress;q=1, *;q=0' }, 'identity'],
    ['/v1/a', { 'accept-encoding': 'gzip', connection: 'accept-encoding' }, 'gzip'],
    ['/set', { 'accept-encoding': 'compress' }, 'br'],
    ['/fields', { 'accept-encoding': 'compress' }, 'compress'],
    ['/bytes', { 'accept-encoding': 'compress' }, 'compress'],
    ['/free', { 'accept-encoding': 'compress' }, 'compress'],
    ['/free', {}, undefined],
  ])('%s with %j: %s', async (path, fields, asked) => {
    await (await ask(gateway, key, path, fields)).body;
    expect(upstream.requests.at(-1)!.values('accept-encoding')).toEqual(asked === undefined ? [] : [asked]);
  });

  test('several fields are one list', async () => {
    const fields = 'Accept-Encoding: compress\r\naccept-encoding: br;q=0.1\r\nAccept_Encoding: compress\r\n';
    await rawExchange(gateway.port, `GET /v1/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`);
    expect(upstream.requests.at(-1)!.values('accept-encoding')).toEqual(['br;q=0.1']);
    expect(upstream.requests.at(-1)!.values('accept_encoding')).toEqual([]);
  });

  test.each([
    ['application/json;charset=utf-16be', 'application/json'],
    [
      'application/json ; q=0.5 ; CharSet = "utf-32" , text/json;charset=IBM037;q=0.1',
      'application/json ; q=0.5  , text/json;q=0.1',
    ],
    ['a/b;x="a;charset=b\\";charset=c";charset=d', 'a/b;x="a;charset=b\\";charset=c"'],
    ['a/b;mycharset=x, a/c;charset', 'a/b;mycharset=x, a/c;charset'],
  ])('and for no encoding of its text: Accept: %s (reliability 357)', async (accept, asked) => {
    await (await ask(gateway, key, '/v1/a', { accept, 'accept-charset': 'utf-16' })).body;
    expect(upstream.requests.at(-1)!.values('accept')).toEqual([asked]);
    expect(upstream.requests.at(-1)!.values('accept-charset')).toEqual([]);
    await (await ask(gateway, key, '/free', { accept, 'accept-charset': 'utf-16' })).body;
    expect(upstream.requests.at(-1)!.values('accept')).toEqual([accept]);
    expect(upstream.requests.at(-1)!.values('accept-charset')).toEqual(['utf-16']);
  });

  test('a request for an upgrade asks likewise', async () => {
    const head = `GET /v1/a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nAccept-Encoding: compress\r\n`;
    const { responses } = await rawExchange(gateway.port, `${head}${HANDSHAKE}\r\n`);
    expect(responses.map(({ status }) => status)).toEqual([200]);
    expect(upstream.requests.at(-1)!.values('accept-encoding')).toEqual(['identity']);
  });

  test.each([
    ['/v1/a', false],
    ['/fields', true],
    ['/bytes', true],
    ['/free', true],
  ])('and for the whole of it: %s passes a request for a part: %s', async (path, passes) => {
    const fields = { Range: 'bytes=0-9', 'If-Range': '"a"', 'A-IM': 'vcdiff' };
    await (await ask(gateway, key, path, fields)).body;
    const recorded = upstream.requests.at(-1)!;
    const values = Object.entries(fields).map(([, value]) => (passes ? [value] : []));
    expect(Object.keys(fields).map((name) => recorded.values(name.toLowerCase()))).toEqual(values);
  });
});

test('a client that leaves with the last event of a compressed stream pays what it states (reliability 344)', async () => {
  const events = Array.from({ length: 20_000 }, (_, i) => `data: {"text":"${i}"}\n\n`).join('');
  // Without the end of gzip: the answer has not ended.
  const sent = gzipSync(`${events}data: {"usage":4321}\n\n`).subarray(0, -8);
  const { gateway } = await setUp((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }).write(sent);
  });
  const { key } = await gateway.createKey('model');
  const { request, received } = await ask(gateway, key, '/v1/chat', GZIP);
  await eventually(() => expect(received()).toBe(sent.length));
  request.destroy();
  await usedIs(gateway, key, 4321);
});

test('a compressed answer that comes faster than it is decompressed is read to its end (reliability 343)', async () => {
  const big = Buffer.alloc(40 * 1024 * 1024, '      \n');
  const last = Buffer.from('{"usage":777}');
  const body = gzipSync(Buffer.concat([big, last]), { level: 0 });
  const { gateway } = await setUp((_request, response) =>
    json(response).setHeader('content-encoding', 'gzip').end(body),
  );
  const { key } = await gateway.createKey('model');
  const answers = await Promise.all([1, 2].map(() => ask(gateway, key, '/v1/chat', GZIP)));
  for (const { body: received } of answers) expect((await received).length).toBe(body.length);
  await usedIs(gateway, key, 2 * 777);
});
