import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { freePort } from '../support/free-port.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { privateRedis } from '../support/redis.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

const PLANS = `
plans:
  model:
    limits: { minute: 100 }
    units: { tokens: { minute: 1000, month: 100000 } }
bans: off
`;
const ROUTES = `
  - path: /v1/chat
    methods: [POST, GET, HEAD]
    upstream: store
    cost:
      tokens:
        reserve: { json: /max_tokens, default: 300, most: 800 }
        from: [{ header: X-Tokens, remove: true }, { json: /usage/total_tokens }, { sse: /usage/total_tokens }]
        refund: [5xx]
  - { path: /v1/plain, methods: [GET], upstream: store }
  - { path: /v1/sized, methods: [GET], upstream: store, cost: { requests: 2, tokens: { reserve: 10, from: bytes } } }
`;

interface Usage {
  readonly windows: Readonly<Record<string, { readonly used: number; readonly remaining: number }>>;
}

/** What is used of the tokens of a minute, once it is `used`: `/usage` reads the store once a second. */
async function usedIs(gateway: TestGateway, key: string, used: number): Promise<void> {
  await eventually(async () => {
    const { windows } = (await (await gateway.get('/usage', key)).json()) as Usage;
    expect(windows['tokens-minute']?.used).toBe(used);
    expect(windows['tokens-month']?.used).toBe(used);
  });
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

async function setUp(answer: Answer, routes = ROUTES) {
  const upstream = await startUpstream((request, response) => answer(request, response));
  const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes });
  return { upstream, gateway, ...(await callerOf(gateway)) };
}

async function callerOf(gateway: TestGateway) {
  const { key } = await gateway.createKey('model');
  const chat = (body: object | string = {}, init: RequestInit = {}) =>
    gateway.get('/v1/chat', key, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
      ...init,
    });
  return { key, chat };
}

const json = (response: ServerResponse, body: object) =>
  response.setHeader('content-type', 'application/json').end(JSON.stringify(body));

/** A client that leaves once it has read some of the body. */
async function leaveInTheBody(gateway: TestGateway, path: string, key: string): Promise<void> {
  const leaving = new AbortController();
  const response = await gateway.get(path, key, { signal: leaving.signal });
  await response.body!.getReader().read();
  leaving.abort();
}

test('a request takes what its body asks for in advance, and pays what its answer says', async () => {
  const seen: number[] = [];
  const { gateway, key, chat, upstream } = await setUp((_request, response) => {
    json(response, { usage: { total_tokens: seen.push(1) === 1 ? 120 : 700 } });
  });
  const first = await chat({ max_tokens: 500 });
  expect(first.status).toBe(200);
  expect(first.headers.get('ratelimit-policy')).toBe(
    '"minute";q=100;w=60, "tokens-minute";q=1000;w=60;qu="tokens", "tokens-month";q=100000;w=2678400;qu="tokens"',
  );
  // Nothing but the reserve is known when the head of the answer is sent.
  expect(first.headers.get('ratelimit')).toMatch(/"minute";r=99;t=\d+, "tokens-minute";r=500;t=\d+/);
  expect(first.headers.get('x-ratelimit-remaining')).toBe('99');
  expect(await first.json()).toEqual({ usage: { total_tokens: 120 } });
  await usedIs(gateway, key, 120);
  // More than was taken in advance is added.
  expect((await chat({ max_tokens: 5 })).status).toBe(200);
  await usedIs(gateway, key, 820);
  expect(upstream.requests.map(({ body }) => String(body))).toEqual(['{"max_tokens":500}', '{"max_tokens":5}']);
  const refused = await chat({ max_tokens: 500 });
  expect(refused.status).toBe(429);
  expect(await refused.json()).toMatchObject({
    code: 'rate_limit_exceeded',
    message: expect.stringMatching(
      /^The quota of plan model, 1000 tokens per minute, has less left than the 500 that this request takes in advance\. Retry after \d+ s\.$/,
    ),
    details: { name: 'tokens-minute', unit: 'tokens', limit: 1000 },
  });
  // It has taken nothing, not even of the requests.
  const usage = (await (await gateway.get('/usage', key)).json()) as Usage;
  expect(usage.windows.minute).toMatchObject({ used: 2 });
  await usedIs(gateway, key, 820);
  // A smaller one fits, and one that charges no tokens is not held to them.
  expect((await chat({ max_tokens: 100 })).status).toBe(200);
  await usedIs(gateway, key, 1520);
  expect((await chat({ max_tokens: 1 })).status).toBe(429);
  expect((await gateway.get('/v1/plain', key)).status).toBe(200);
});

describe('whatever the service answers', () => {
  let present: Answer;
  let gateway: TestGateway;
  beforeAll(async () => {
    ({ gateway } = await setUp((request, response) => present(request, response)));
  });

  test.each<readonly [string, Answer, number]>([
    ['a field, which the client does not get', (_, response) => response.setHeader('x-tokens', '77').end('{}'), 77],
    [
      'a stream: its last event that has it',
      (_, response) => {
        response.setHeader('content-type', 'text/event-stream');
        response.write('data: {"delta":"a"}\n\ndata: {"usage":{"total_tokens":5}}\n\n');
        response.end('data: {"usage":{"total_tokens":42}}\n\ndata: {"usage":null}\n\ndata: [DONE]\n\n');
      },
      42,
    ],
    [
      'a compressed answer',
      (_, response) =>
        response
          .setHeader('content-type', 'application/json')
          .setHeader('content-encoding', 'gzip')
          .end(gzipSync('{"usage":{"total_tokens":33}}')),
      33,
    ],
    ['a fraction, rounded up', (_, response) => json(response, { usage: { total_tokens: 2.1 } }), 3],
    ['nothing: it pays the default reserve', (_, response) => json(response, {}), 300],
    ['a negative number: the reserve', (_, response) => json(response, { usage: { total_tokens: -1 } }), 300],
    [
      'a number too large: the reserve',
      (_, response) => response.setHeader('content-type', 'application/json').end('{"usage":{"total_tokens":1e999}}'),
      300,
    ],
    ['a field twice: the reserve', (_, response) => response.setHeader('x-tokens', ['1', '2']).end('{}'), 300],
    ['a failure with a status that refunds', (_, response) => response.writeHead(503).end('{}'), 0],
    ['a status of 600 to 999, which counts as 5xx', (_, response) => response.writeHead(999).end('{}'), 0],
    [
      'a failure that says a cost, with a status that does not refund',
      (_, response) =>
        response.writeHead(400, { 'content-type': 'application/json' }).end('{"usage":{"total_tokens":9}}'),
      9,
    ],
    [
      'half an answer: the reserve',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
        response.write('{"usage":{"total_tokens":7}', () => response.socket!.resetAndDestroy());
      },
      300,
    ],
    [
      'half a stream that has said more than the reserve',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"usage":{"total_tokens":650}}\n\ndata: {', () => response.socket!.resetAndDestroy());
      },
      650,
    ],
    ['no answer: 502, which refunds', (request) => request.socket.resetAndDestroy(), 0],
  ])('a request pays by %s (reliability 289)', async (_, answer, used) => {
    present = answer;
    const { key, chat } = await callerOf(gateway);
    const response = await chat().catch(() => null);
    expect(response?.headers.get('x-tokens') ?? null).toBeNull();
    await response?.text().catch(() => null);
    await usedIs(gateway, key, used);
  });
});

describe('however a request asks for its reserve (reliability 381) (reliability 399) (reliability 423)', () => {
  const FIELD = '{ header: X-Max-Tokens, default: 100, most: 800 }';
  let gateway: TestGateway;
  let upstream: Upstream;
  beforeAll(async () => {
    const field = `  - { path: /v1/field, methods: [POST], upstream: store, cost: { tokens: { reserve: ${FIELD} } } }\n`;
    ({ gateway, upstream } = await setUp((_request, response) => json(response, {}), ROUTES + field));
  });

  const LONG = '0'.repeat(2_000);

  test.each<readonly [string, number, number]>([
    ['799', 799, 799],
    ['801', 800, 800],
    ['1e12', 800, 800],
    ['2000000000000', 800, 800],
    ['9e300', 800, 800],
    ['1e999', 800, 800],
    [`9${LONG}`, 800, 800],
    [`5.${LONG}`, 800, 800],
    [`0.${LONG}1e2003`, 800, 800],
    ['-1', 800, 800],
    ['-1e999', 800, 800],
    [`-9${LONG}`, 800, 800],
    ['"801"', 800, 800],
    [JSON.stringify(LONG), 800, 800],
    ['"9e2"', 800, 800],
    ['" 20"', 800, 800],
    ['020', 800, 800],
    ['+20', 800, 800],
    ['20 tokens', 800, 800],
    ['9,000', 800, 800],
    ['null', 800, 300],
  ])('%.20s takes what it says in advance, up to most', async (asked, byField, byBody) => {
    const [one, other] = [await callerOf(gateway), await callerOf(gateway)];
    await gateway.get('/v1/field', one.key, { method: 'POST', headers: { 'x-max-tokens': asked } });
    await usedIs(gateway, one.key, byField);
    expect((await other.chat(`{"max_tokens":${asked}}`)).status).toBe(200);
    await usedIs(gateway, other.key, byBody);
  });

  test.each<readonly [string, string, number]>([
    ['has no body', '', 300],
    ['does not say it', '{"n":1}', 300],
    ['says it twice', '{"max_tokens":1,"max_tokens":20}', 800],
    ['says it with other letters', '{"Max_Tokens":20}', 800],
    ['says it with other letters as well', '{"max_tokens":1,"MAX_TOKENS":20}', 800],
    ['says it with letters that fold', '{"max_to\u212Aens":20}', 800],
    ['says it with escapes', '{"\\u004dax_tokens":20}', 800],
    [
      'says it in escapes, with a hyphen before each letter',
      `{"${[...'max_tokens'].map((c) => `\\u002d\\u00${c.charCodeAt(0).toString(16)}`).join('')}":20}`,
      800,
    ],
    ['says it with an escaped name', '{"\\u006dax_tokens":20}', 20],
    ['says it in camel case', '{"maxTokens":20}', 800],
    ['says something similar', '{"max_tokens":20,"max_tokens_2":30}', 20],
    ['says it in the first of two texts', '{"max_tokens":20}\n{}', 800],
    ['says it in the second of two texts', '{"n":1}\n{"max_tokens":20}', 800],
    ['has something behind the text', '{"max_tokens":20} x', 800],
    ['has a comma too much', '{"max_tokens":20,}', 800],
    ['is not JSON', 'max_tokens=20', 800],
    ['does not end', '{"n":1', 800],
  ])('a body that %s', async (_what, body, reserved) => {
    const { key, chat } = await callerOf(gateway);
    expect((await chat(body)).status).toBe(200);
    await usedIs(gateway, key, reserved);
  });

  test.each([
    ['no such field', [], 100],
    ['the field twice', ['20', '20'], 800],
    ['the field without a value', [''], 800],
    ['a comma behind the number', ['20,'], 800],
  ])('a request with %s', async (_what, values, reserved) => {
    const { key } = await callerOf(gateway);
    const own = values.map((value) => `X-Max-Tokens: ${value}\r\n`).join('');
    const head = `POST /v1/field HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${own}`;
    const bytes = `${head}Connection: close\r\nContent-Length: 0\r\n\r\n`;
    const { responses } = await rawExchange(gateway.port, bytes, { methods: ['POST'] });
    expect(responses[0]!.status).toBe(200);
    await usedIs(gateway, key, reserved);
  });

  test('a field that Connection lists is absent: the service does not get it', async () => {
    const { key } = await callerOf(gateway);
    const fields = `Host: a\r\nAuthorization: Bearer ${key}\r\nX-Max-Tokens: 20\r\nConnection: close, X-Max-Tokens`;
    const bytes = `POST /v1/field HTTP/1.1\r\n${fields}\r\nContent-Length: 0\r\n\r\n`;
    const { responses } = await rawExchange(gateway.port, bytes, { methods: ['POST'] });
    expect(responses[0]!.status).toBe(200);
    expect(upstream.requests.at(-1)!.values('x-max-tokens')).toEqual([]);
    await usedIs(gateway, key, 100);
  });
});

test('a HEAD pays its reserve, bytes are counted as the service sends them, and the log has both amounts', async () => {
  const { gateway, key } = await setUp((request, response) => {
    if (request.url === '/v1/sized') response.setHeader('content-type', 'text/plain').end('x'.repeat(400));
    else response.setHeader('content-type', 'application/json').end('{"usage":{"total_tokens":1}}');
  });
  expect((await gateway.get('/v1/chat', key, { method: 'HEAD' })).status).toBe(200);
  await usedIs(gateway, key, 300);
  expect(await (await gateway.get('/v1/sized', key)).text()).toHaveLength(400);
  await usedIs(gateway, key, 700);
  const lines = await gateway.process.until(/"path":"\/v1\/sized".*"units":\{[^}]*\}\}/);
  expect(lines[0]).toContain('"units":{"tokens":{"reserved":10,"settled":400}}');
  await gateway.process.until(/"units":\{"tokens":\{"reserved":300,"settled":300,"unknown":"absent"\}\}/);
});

test('a client that leaves before the cost is known pays the reserve (reliability 293)', async () => {
  const { gateway, key, chat } = await setUp((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: {"delta":"a"}\n\n');
  });
  const leaving = new AbortController();
  const response = await chat({ max_tokens: 250 }, { signal: leaving.signal });
  await response.body!.getReader().read();
  leaving.abort();
  await gateway.process.until(/"status":499.*"units":\{"tokens":\{"reserved":250,"settled":250,"unknown":"cut"\}\}/);
  await usedIs(gateway, key, 250);
});

test('a client that leaves gets no refund for the status 499 of the log (reliability 293)', async () => {
  const { upstream, key, gateway } = await setUp(
    (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"delta":"a"}\n\n');
    },
    ROUTES.replace('refund: [5xx]', 'refund: [4xx, 5xx]'),
  );
  await leaveInTheBody(gateway, '/v1/chat', key);
  await gateway.process.until(/"status":499.*"units":\{"tokens":\{"reserved":300,"settled":300,"unknown":"cut"\}\}/);
  await usedIs(gateway, key, 300);
  expect(upstream.requests).toHaveLength(1);
});

test('a refusal says that nothing is left, or less than the request takes', async () => {
  const { gateway, key } = await setUp(
    (_request, response) => response.setHeader('content-type', 'text/plain').end('x'.repeat(1000)),
    ROUTES.replace('reserve: 10', 'reserve: 0'),
  );
  expect((await gateway.get('/v1/sized', key)).status).toBe(200);
  await usedIs(gateway, key, 1000);
  const refused = await gateway.get('/v1/sized', key);
  expect(await refused.json()).toMatchObject({
    code: 'rate_limit_exceeded',
    message: expect.stringMatching(
      /^The quota of plan model, 1000 tokens per minute, is used up\. Retry after \d+ s\.$/,
    ),
  });
});

test('requests that are not forwarded pay nothing in units', async () => {
  const { gateway, key, chat, upstream } = await setUp((_request, response) => json(response, {}));
  // The body is larger than what is read before a request is counted.
  expect((await chat({ max_tokens: 100, text: 'x'.repeat(1024 * 1024) })).status).toBe(413);
  expect((await gateway.get('/v1/chat', key, { method: 'PUT' })).status).toBe(405);
  await usedIs(gateway, key, 0);
  expect(upstream.requests).toHaveLength(0);
});

test('a request of which memory knows that it is refused is refused before its body is read (reliability 294)', async () => {
  const { gateway, key, chat, upstream } = await setUp(
    (_request, response) => json(response, { usage: { total_tokens: 10 } }),
    ROUTES.replace('cost:\n      tokens:', 'cost:\n      requests: 100\n      tokens:'),
  );
  expect((await chat({ max_tokens: 10 })).status).toBe(200);
  const head = `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 900000\r\n\r\n`;
  const refused = await rawExchange(gateway.port, head);
  expect(refused.responses.map(({ status }) => status)).toEqual([429]);
  expect(upstream.requests).toHaveLength(1);
});

test('a default above the limit refuses no request that asks for less', async () => {
  const { gateway, key, chat } = await setUp(
    (_request, response) => json(response, { usage: { total_tokens: 10 } }),
    ROUTES.replace('default: 300, most: 800', 'default: 2000, most: 8000'),
  );
  expect((await chat({ max_tokens: 100 })).status).toBe(200);
  expect((await chat({ max_tokens: 100 })).status).toBe(200);
  expect((await chat({})).status).toBe(429);
  expect((await chat({ max_tokens: 100 })).status).toBe(200);
  await usedIs(gateway, key, 30);
});

test('a caller is told by `?history&unit` what it used of a unit of its plan', async () => {
  const { gateway, key, chat } = await setUp((_request, response) => json(response, { usage: { total_tokens: 120 } }));
  await chat();
  await chat();
  await usedIs(gateway, key, 240);
  const history = async (query: string) => (await gateway.get(`/usage?history&step=day${query}`, key)).json();
  const ofUnit = (await history('&unit=tokens')) as { readonly buckets: readonly { readonly admitted: number }[] };
  expect(ofUnit).toMatchObject({ step: 'day', unit: 'tokens' });
  // The test may run across midnight.
  expect(ofUnit.buckets.reduce((sum, { admitted }) => sum + admitted, 0)).toBe(240);
  const ofRequests = await history('&unit=requests');
  expect(ofRequests).toMatchObject({ step: 'day', buckets: [{ admitted: 2 }] });
  expect(ofRequests).toEqual(await history(''));
  const unknown = await gateway.get('/usage?history&unit=rows', key);
  expect([unknown.status, await unknown.json()]).toMatchObject([
    400,
    { code: 'invalid_request', message: 'unit must be one of: requests, tokens.' },
  ]);
});

test('an answer to an upgrade that the service does not agree to is settled like any other (reliability 295)', async () => {
  const { gateway, key } = await setUp(
    (_request, response) => json(response, { usage: { total_tokens: 700 } }),
    ROUTES.replace('methods: [POST, GET, HEAD]', 'methods: [POST, GET, HEAD]\n    websocket: true'),
  );
  const head = [
    'GET /v1/chat HTTP/1.1',
    'Host: a',
    `Authorization: Bearer ${key}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ].join('\r\n');
  const { responses } = await rawExchange(gateway.port, `${head}\r\n\r\n`);
  expect(responses.map(({ status }) => status)).toEqual([200]);
  await usedIs(gateway, key, 700);
});

test('a route that the gateway answers itself takes what a body in chunks asks for', async () => {
  const { gateway, key } = await setUp(
    (_request, response) => response.end(),
    `${ROUTES}  - { path: /v1/own, methods: [POST], respond: { body: '{}' }, cost: { tokens: { reserve: { json: /max_tokens, default: 5 } } } }\n`,
  );
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from('{"max_tokens":40}'));
      controller.close();
    },
  });
  const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
  expect((await gateway.get('/v1/own', key, init)).status).toBe(200);
  await usedIs(gateway, key, 40);
});

test('a client that leaves before the head pays for the time that it took', async () => {
  const held: ServerResponse[] = [];
  const { gateway, key } = await setUp(
    (_request, response) => held.push(response),
    ROUTES.replace('reserve: 10, from: bytes', 'reserve: 0, from: milliseconds'),
  );
  const leaving = new AbortController();
  const asked = gateway.get('/v1/sized', key, { signal: leaving.signal }).catch(() => null);
  await eventually(() => expect(held).toHaveLength(1));
  leaving.abort();
  await asked;
  const [, settled] = await gateway.process.until(/"status":499.*"reserved":0,"settled":(\d+),"unknown":"cut"/);
  expect(Number(settled)).toBeGreaterThan(0);
  await usedIs(gateway, key, Number(settled));
});

describe('a client that breaks its own upload pays as if it had left (reliability 350)', () => {
  const upload = `
  - path: /v1/rows
    methods: [POST]
    upstream: store
    maxBodyBytes: 64KiB
    cost: { tokens: { reserve: 100, from: { json: /rows }, refund: [4xx] } }
  - path: /v1/time
    methods: [POST]
    upstream: store
    cost: { tokens: { reserve: 0, from: milliseconds, refund: [4xx] } }
`;
  const listen = { requestTimeout: '4s' };

  /** Sends a first chunk, and how it goes on once the service has that. */
  async function breakOff(path: string, then: string) {
    const upstream = await startUpstream();
    const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes: upload, listen });
    const { key } = await gateway.createKey('model');
    const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const isWorking = () => upstream.requests[0]?.body.length === 5;
    const { responses } = await rawExchange(gateway.port, [`${head}5\r\nhello\r\n`, isWorking, then], {
      withinMs: 8_000,
    });
    return { gateway, status: responses[0]?.status };
  }

  test.each([
    ['a malformed chunk', 'ZZ\r\n', 400],
    ['an end that does not come', '', 408],
    ['a trailer that is too large', `0\r\nX: ${'a'.repeat(40_000)}\r\n\r\n`, 431],
    ['a body that is too large', `fff00\r\n${'x'.repeat(70_000)}`, 413],
  ])('%s', async (_what, then, status) => {
    const broken = await breakOff('/v1/rows', then);
    expect(broken.status).toBe(status);
    await broken.gateway.process.until(/"units":\{"tokens":\{"reserved":100,"settled":100,"unknown":"cut"\}\}/);
  });

  test('also where the cost is its time', async () => {
    const { gateway, status } = await breakOff('/v1/time', 'ZZ\r\n');
    expect(status).toBe(400);
    const [, settled] = await gateway.process.until(/"status":400.*"reserved":0,"settled":(\d+),"unknown":"cut"/);
    expect(Number(settled)).toBeGreaterThan(0);
  });
});

test('milliseconds of waiting for a connection, which others hold, are not paid (reliability 356)', async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => held.push(response));
  const routes = `
  - { path: /v1/time, methods: [GET], upstream: store, cost: { tokens: { reserve: 0, from: milliseconds } } }
`;
  const upstreamSettings = { maxConnections: 1 };
  const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes, upstreamSettings });
  const [other, own] = [await gateway.createKey('model'), await gateway.createKey('model')];
  const first = gateway.get('/v1/time', other.key);
  await eventually(() => expect(held).toHaveLength(1));
  const second = gateway.get('/v1/time', own.key);
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{.*\} 2$/m);
  });
  const fromMs = performance.now();
  await eventually(() => expect(performance.now() - fromMs).toBeGreaterThan(300));
  held[0]!.end();
  await eventually(() => expect(held).toHaveLength(2));
  held[1]!.end();
  expect((await first).status + (await second).status).toBe(400);
  const line = new RegExp(`"consumerId":"${own.id}".*"settled":(\\d+).*"totalMs":([\\d.]+)`);
  const [, settled, totalMs] = await gateway.process.until(line);
  expect(Number(totalMs) - Number(settled)).toBeGreaterThan(298);
});

test('the history of a plan that is only watched has what requests cost, also those that its limits would refuse', async () => {
  const upstream = await startUpstream((_request, response) => json(response, { usage: { total_tokens: 900 } }));
  const plans = PLANS.replace('limits:', 'enforce: false\n    limits:');
  const gateway = await openGateway({ upstream: upstream.origin, plans, routes: ROUTES });
  const { key } = await gateway.createKey('model');
  for (let i = 0; i < 4; i++) expect((await gateway.get('/v1/chat', key)).status).toBe(200);
  await eventually(async () => {
    const answer = await gateway.get('/usage?history&step=day&unit=tokens', key);
    const { buckets } = (await answer.json()) as { readonly buckets: readonly { readonly admitted: number }[] };
    expect(buckets.reduce((sum, { admitted }) => sum + admitted, 0)).toBe(3600);
  });
});

test('a gateway that is told to stop settles answers that it is still decompressing (reliability 296)', async () => {
  const server = await privateRedis();
  // A tenth of the 2 s for which a gateway waits, on a machine ten times as slow: what takes longer is not settled.
  const answer = gzipSync(`{"text":"${'x'.repeat(2_000_000)}","usage":{"total_tokens":7}}`);
  const upstream = await startUpstream((_request, response) =>
    response.setHeader('content-type', 'application/json').setHeader('content-encoding', 'gzip').end(answer),
  );
  const redis = { env: { REDIS_URL: server.url, KEY_PEPPER: 'a pepper for the tests of units' } };
  const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes: ROUTES, ...redis });
  const { id, key } = await gateway.createKey('model');
  const status = async () => {
    const response = await rawExchange(
      gateway.port,
      `GET /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`,
    );
    return response.responses[0]?.status;
  };
  expect(await Promise.all([status(), status(), status()])).toEqual([200, 200, 200]);
  await gateway.process.stop();
  const { windows } = JSON.parse((await gateway.command('usage', id, '--json')).stdout) as Usage;
  expect(windows['tokens-minute']?.used).toBe(21);
});

test('answers that are still decompressed once they were sent count as requests in flight, beyond a few (reliability 340)', async () => {
  const huge = gzipSync(Buffer.alloc(16 * 1024 * 1024, ' '));
  const answer: Answer = (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(huge);
  };
  const upstream = await startUpstream((request, response) => answer(request, response));
  const upstreamSettings = { maxConnections: 4, maxQueue: 0, fairShare: 0.5 };
  const plans = 'plans: { model: { limits: { minute: 1000 }, units: { tokens: { minute: 1000000 } } } }\nbans: off\n';
  const gateway = await openGateway({ upstream: upstream.origin, plans, routes: ROUTES, upstreamSettings });
  const [{ key }, { key: other }] = [await gateway.createKey('model'), await gateway.createKey('model')];
  const codes = new Set<string>();
  const get = `GET /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`;
  const ask = async () => (await rawExchange(gateway.port, get, { until: 1 })).responses[0]!;
  for (let i = 0; i < 200 && !codes.has('too_many_in_flight'); i++) {
    const { status, body } = await ask();
    codes.add(status === 200 ? 'served' : (JSON.parse(String(body)) as { code: string }).code);
  }
  expect([...codes]).toEqual(['served', 'too_many_in_flight']);
  expect((await gateway.get('/v1/plain', other)).status).toBe(200);
  await eventually(async () => expect((await ask()).status).toBe(200));
});

test('a client that leaves in the body of an answer that is refunded pays nothing for its time', async () => {
  const { gateway, key } = await setUp(
    (_request, response) => {
      response.writeHead(503, { 'content-type': 'text/plain' });
      response.write('a');
    },
    ROUTES.replace('reserve: 10, from: bytes', 'reserve: 0, from: milliseconds, refund: [5xx]'),
  );
  await leaveInTheBody(gateway, '/v1/sized', key);
  await gateway.process.until(/"status":499.*"units":\{"tokens":\{"reserved":0,"settled":0\}\}/);
});

test('all attempts have one reserve, which is settled by the answer that the client gets', async () => {
  let attempts = 0;
  const { gateway, key } = await setUp(
    (_request, response) => {
      attempts++;
      response.statusCode = attempts === 1 ? 503 : 200;
      json(response, { usage: { total_tokens: attempts === 1 ? 999 : 5 } });
    },
    ROUTES.replace('upstream: store\n    cost:', 'upstream: store\n    retries: { attempts: 2, on: [503] }\n    cost:'),
  );
  expect((await gateway.get('/v1/chat', key)).status).toBe(200);
  expect(attempts).toBe(2);
  await usedIs(gateway, key, 5);
});

test('an interim answer is not read', async () => {
  const { gateway, key } = await setUp((_request, response) => {
    response.writeEarlyHints({ link: '</a>; rel=preload', 'x-tokens': '999' });
    response.setHeader('x-tokens', '7').end('{}');
  });
  expect((await gateway.get('/v1/chat', key)).status).toBe(200);
  await usedIs(gateway, key, 7);
});

test('a service that is too late is paid the reserve, unless its route refunds 504', async () => {
  const late = 'timeouts: { response: 300ms }, cost: { requests: 2';
  const { gateway, key } = await setUp(
    () => {},
    ROUTES.replace('cost: { requests: 2', late).replace(
      'upstream: store\n    cost:',
      'upstream: store\n    timeouts: { response: 300ms }\n    cost:',
    ),
  );
  expect((await gateway.get('/v1/chat', key)).status).toBe(504);
  await usedIs(gateway, key, 0);
  expect((await gateway.get('/v1/sized', key)).status).toBe(504);
  await usedIs(gateway, key, 10);
});

describe('a request that is never written to a connection pays nothing (reliability 398)', () => {
  const routes = `
  - { path: /v1/hold, methods: [GET], upstream: store }
  - path: /v1/rows
    methods: [GET, POST]
    upstream: store
    websocket: true
    timeouts: { response: 300ms }
    cost: { tokens: { reserve: 50, from: { header: X-Rows } } }
`;
  const unpaid = /"path":"\/v1\/rows".*"units":\{"tokens":\{"reserved":50,"settled":0\}\}/;

  test('because others hold the connections until it is too late', async () => {
    const upstream = await startUpstream(() => {});
    const upstreamSettings = { maxConnections: 1 };
    const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes, upstreamSettings });
    const [other, own] = [await gateway.createKey('model'), await gateway.createKey('model')];
    const leaving = new AbortController();
    const held = gateway.get('/v1/hold', other.key, { signal: leaving.signal }).catch(() => {});
    await eventually(() => expect(upstream.requests).toHaveLength(1));
    expect((await gateway.get('/v1/rows', own.key)).status).toBe(503);
    await gateway.process.until(unpaid);
    await usedIs(gateway, own.key, 0);
    expect(upstream.requests).toHaveLength(1);
    leaving.abort();
    await held;
  });

  test('because no connection to the service is made', async () => {
    const gateway = await openGateway({ upstream: `http://127.0.0.1:${await freePort()}`, plans: PLANS, routes });
    const { key } = await gateway.createKey('model');
    expect((await gateway.get('/v1/rows', key)).status).toBe(502);
    await expect(openWebSocket(gateway, key, '/v1/rows')).rejects.toThrow('502');
    await usedIs(gateway, key, 0);
    const usage = (await (await gateway.get('/usage', key)).json()) as Usage;
    expect(usage.windows.minute).toMatchObject({ used: 2 });
  });
});

test('a WebSocket pays its reserve', async () => {
  const upstream = await startWebSocketUpstream();
  const routes = `
  - { path: /v1/live, methods: [GET], upstream: store, websocket: true, cost: { tokens: { reserve: 30, from: bytes } } }
`;
  const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes });
  const { key } = await gateway.createKey('model');
  const { socket } = await openWebSocket(gateway, key, '/v1/live');
  await usedIs(gateway, key, 30);
  socket.terminate();
  await gateway.process.until(/"status":101.*"units":\{"tokens":\{"reserved":30,"settled":30\}\}/);
});

test('lines of JSON: the last one that has it', async () => {
  const { gateway, key } = await setUp(
    (_request, response) =>
      response
        .setHeader('content-type', 'application/x-ndjson')
        .end('{"usage":{"total_tokens":3}}\n{"a":1}\n{"usage":{"total_tokens":8}}\n'),
    ROUTES.replace('{ sse: /usage/total_tokens }', '{ ndjson: /usage/total_tokens }'),
  );
  expect((await gateway.get('/v1/chat', key)).status).toBe(200);
  await usedIs(gateway, key, 8);
});

test.each([
  ['at once', 0],
  ['one after another', 40],
])(
  'callers that come %s are not refused while what earlier requests gave back waits (reliability 299)',
  async (_how, apartMs) => {
    const { gateway, key } = await setUp(
      (_request, response) => {
        setTimeout(() => response.setHeader('content-type', 'application/json').end('{"n":0}'), 10 * apartMs + 50);
      },
      `
  - { path: /v1/n, methods: [GET], upstream: store, cost: { tokens: { reserve: 100, from: [{ json: /n }] } } }
`,
    );
    // All that they take in advance is the limit, and each gives it back before its next request.
    const worker = async (index: number) => {
      await new Promise((resolve) => setTimeout(resolve, index * apartMs));
      const statuses: number[] = [];
      for (let i = 0; i < 3; i++) {
        const response = await gateway.get('/v1/n', key);
        await response.text();
        statuses.push(response.status);
      }
      return statuses;
    };
    const statuses = await Promise.all(Array.from({ length: 10 }, (_, index) => worker(index)));
    expect(new Set(statuses.flat())).toEqual(new Set([200]));
  },
);
