import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, startGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// What requests pay whose cost is a weighted sum, with numbers that a table has for the model that they name.

const PLANS = `
plans:
  shop:
    limits: { minute: 100000 }
    units: { usd: { day: 1000000 } }
  free:
    limits: { minute: 100000 }
bans: off
`;
const TABLES = `
tables:
  prices:
    by: { json: /model }
    rows:
      small: { prompt: 0.15, completion: 0.6 }
      large: { prompt: 2.5, completion: 10 }
  tiers:
    by: { header: X-Tier }
    rows: { gold: { row: 5 }, iron: { row: 1 } }
    default: { row: 7 }
  served:
    by: { response: [{ json: /model }, { sse: /model }] }
    rows: { small: { token: 1 }, large: { token: 20 } }
`;
const ROUTES = `
  - path: /v1/chat
    methods: [POST, GET]
    upstream: store
    cost:
      usd:
        reserve: { sum: [{ json: /max_tokens, default: 100, most: 1000, times: prices.completion }, { amount: 40, times: prices.prompt }] }
        from:
          - sum: [{ json: /usage/prompt_tokens, times: prices.prompt }, { json: /usage/completion_tokens, times: prices.completion }]
          - sum: [{ sse: /usage/prompt_tokens, times: prices.prompt }, { sse: /usage/completion_tokens, times: prices.completion }]
          - sum: [{ ndjson: /prompt_eval_count, times: prices.prompt }, { ndjson: /eval_count, times: prices.completion }]
        refund: [5xx]
  - path: /v1/rows
    methods: [GET]
    upstream: store
    cost: { usd: { reserve: { sum: [{ header: X-Rows, default: 10, times: tiers.row }] }, from: { sum: [{ header: X-Read, remove: true, times: tiers.row }] } } }
  - path: /v1/served
    methods: [POST]
    upstream: store
    cost: { usd: { reserve: 50, from: { sum: [{ json: /tokens, times: served.token }, { sse: /tokens, times: served.token }] } } }
  - { path: /v1/plain, methods: [GET], upstream: store }
`;

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;
let answer: Answer = () => {};
let upstream: Upstream;
let gateway: TestGateway;

beforeAll(async () => {
  upstream = await startUpstream(async (request, response, recorded) => {
    await recorded.whole;
    answer(request, response, String(recorded.body));
  });
  gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, routes: ROUTES, more: TABLES });
});

const post = (key: string, path: string, body: string | object, headers: Record<string, string> = {}) =>
  gateway.get(path, key, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  });

async function usedIs(at: TestGateway, key: string, used: number): Promise<void> {
  await eventually(async () => expect((await windowsOf(at, key))['usd-day']?.used).toBe(used));
}

async function windowsOf(at: TestGateway, key: string) {
  const { windows } = (await (await at.get('/usage', key)).json()) as {
    readonly windows: Readonly<Record<string, { readonly used: number }>>;
  };
  return windows;
}

const json = (response: ServerResponse, body: object) =>
  response.setHeader('content-type', 'application/json').end(JSON.stringify(body));

/** The forms in which services state 1001 and 333 tokens. */
const FORMS: readonly (readonly [string, Answer])[] = [
  ['JSON', (_, response) => json(response, { usage: { prompt_tokens: 1001, completion_tokens: 333 } })],
  [
    'a stream like that of OpenAI',
    (_, response) => {
      response.setHeader('content-type', 'text/event-stream; charset=utf-8');
      for (const word of ['Because ', 'of ', 'the ', 'air.']) {
        response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: word } }], usage: null })}\n\n`);
      }
      const usage = { prompt_tokens: 1001, completion_tokens: 333 };
      response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
      response.end('data: [DONE]\n\n');
    },
  ],
  [
    'lines like those of Ollama',
    (_, response) => {
      response.setHeader('content-type', 'application/x-ndjson');
      response.write('{"message":{"content":"Because"},"done":false}\n');
      response.end('{"done":true,"prompt_eval_count":1001,"eval_count":333}\n');
    },
  ],
];

test.each(FORMS)('a request pays the sum of the parts, at the price of its model: %s', async (_form, form) => {
  answer = form;
  const { key } = await gateway.createKey('shop');
  const small = await post(key, '/v1/chat', { model: 'small' });
  expect(small.status).toBe(200);
  // Nothing but the reserve is known when the head is sent: 100 × 0.6 + 40 × 0.15.
  expect(small.headers.get('ratelimit')).toContain('"usd-day";r=999934');
  await small.text();
  // 1001 × 0.15 + 333 × 0.6 = 349.95.
  await usedIs(gateway, key, 350);
  const large = await post(key, '/v1/chat', { model: 'large', max_tokens: 9999 });
  // 1000 × 10 + 40 × 2.5 in advance.
  expect(large.headers.get('ratelimit')).toContain(`"usd-day";r=${1_000_000 - 350 - 10_100}`);
  await large.text();
  // 1001 × 2.5 + 333 × 10 = 5832.5.
  await usedIs(gateway, key, 350 + 5833);
});

test('an answer without any part pays the reserve, and one with a part pays that', async () => {
  const { key } = await gateway.createKey('shop');
  answer = (_, response) => json(response, { usage: {} });
  await (await post(key, '/v1/chat', { model: 'large', max_tokens: 10 })).text();
  await usedIs(gateway, key, 200);
  answer = (_, response) => json(response, { usage: { completion_tokens: 3 } });
  await (await post(key, '/v1/chat', { model: 'large', max_tokens: 10 })).text();
  await usedIs(gateway, key, 230);
});

describe('a model that the table lacks', () => {
  const rule = 'must be one of the names by which this service charges.';

  test.each<[string, string]>([
    ['another name', '{"model":"medium"}'],
    ['no name', '{"max_tokens":5}'],
    ['no body', ''],
    ['null', '{"model":null}'],
    ['a list', '{"model":["small"]}'],
    ['the name twice (reliability 597)', '{"model":"small","model":"large"}'],
    ['another spelling of the member (reliability 597)', '{"model":"small","Model":"large"}'],
    ['no JSON (reliability 597)', 'model=small'],
    ['an unfinished text (reliability 597)', '{"model":"small"'],
    ['a name that objects have (reliability 597)', '{"model":"__proto__"}'],
  ])('is refused with the place, and costs nothing of the unit: %s', async (_what, body) => {
    answer = (_, response) => json(response, {});
    const { key } = await gateway.createKey('shop');
    const before = upstream.requests.length;
    const response = await post(key, '/v1/chat', body);
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      code: 'request_invalid',
      status: 400,
      message: `The request does not fit the description of this service. The body, at /model, ${rule}`,
      details: { in: 'body', pointer: '/model', rule },
    });
    expect(upstream.requests.length).toBe(before);
    // It counts as a request, like every one that is refused for its body.
    await eventually(async () => {
      expect(await windowsOf(gateway, key)).toMatchObject({ minute: { used: 1 }, 'usd-day': { used: 0 } });
    });
  });

  test('a compressed body names no model (reliability 597)', async () => {
    const { key } = await gateway.createKey('shop');
    const response = await post(key, '/v1/chat', '{"model":"small"}', { 'content-encoding': 'gzip' });
    await response.text();
    // The gateway reads what is sent, which is JSON here.
    expect(response.status).toBe(200);
    const coded = await gateway.get('/v1/chat', key, {
      method: 'POST',
      body: new Uint8Array([0x1f, 0x8b, 8, 0]),
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    });
    expect(coded.status).toBe(400);
  });

  test('a body that is too large is 413 as ever', async () => {
    const { key } = await gateway.createKey('shop');
    const response = await post(key, '/v1/chat', `{"text":"${'x'.repeat(1024 * 1024)}","model":"small"}`);
    expect(response.status).toBe(413);
  });

  test('a plan that does not limit the unit asks for no name', async () => {
    answer = (_, response) => json(response, {});
    const { key } = await gateway.createKey('free');
    expect((await post(key, '/v1/chat', { model: 'medium' })).status).toBe(200);
  });
});

describe('a row that a field names', () => {
  const rows = async (key: string, ...lines: string[]) => {
    const head = [`GET /v1/rows HTTP/1.1`, 'Host: a', `Authorization: Bearer ${key}`, ...lines, 'Connection: close'];
    return String((await rawExchange(gateway.port, `${head.join('\r\n')}\r\n\r\n`)).bytes);
  };

  test('decides the reserve and the cost, and another name has the default', async () => {
    answer = (_, response) => response.setHeader('x-read', '3').end('rows');
    const { key } = await gateway.createKey('shop');
    const gold = await rows(key, 'X-Tier: gold', 'X-Rows: 4');
    expect(gold).toContain('"usd-day";r=999980');
    expect(gold.toLowerCase()).not.toContain('x-read');
    await usedIs(gateway, key, 15);
    expect(await rows(key, 'X-Tier: lead')).toContain(`"usd-day";r=${1_000_000 - 15 - 70}`);
    await usedIs(gateway, key, 15 + 21);
    // The service does not get a field that Connection lists, so that it names no row (reliability 598).
    await rows(key, 'X-Tier: iron', 'Connection: X-Tier');
    await usedIs(gateway, key, 15 + 21 + 21);
  });

  test('twice is refused, whether there is a default or not (reliability 598)', async () => {
    const { key } = await gateway.createKey('shop');
    const refused = await rows(key, 'X-Tier: iron', 'X-Tier: gold');
    expect(refused).toMatch(/^HTTP\/1\.1 400 /);
    expect(refused).toContain('"in":"header","name":"x-tier"');
    await usedIs(gateway, key, 0);
  });
});

test('a row that the answer names decides the cost; another name costs as much as the dearest (reliability 596)', async () => {
  const { key } = await gateway.createKey('shop');
  answer = (_, response, body) => {
    if (!body.includes('stream')) json(response, { model: JSON.parse(body).model, tokens: 3 });
    else
      response.setHeader('content-type', 'text/event-stream').end('data: {"model":"small"}\n\ndata: {"tokens":7}\n\n');
  };
  for (const [body, used] of [
    ['{"model":"small"}', 3],
    ['{"model":"other"}', 63],
    ['{"stream":true}', 70],
  ] as const) {
    await (await post(key, '/v1/served', body)).text();
    await usedIs(gateway, key, used);
  }
});

test('log and Explain show the parts and the sum', async () => {
  const { key } = await gateway.createKey('shop');
  answer = (_, response) => {
    const usage = { prompt_tokens: 10, completion_tokens: 4 };
    response.statusCode = 404;
    json(response, { usage });
  };
  const id = `weighted-${key.slice(-8)}`;
  await (await post(key, '/v1/chat', { model: 'small' }, { 'x-request-id': id })).text();
  const usd = {
    reserved: 66,
    settled: 4,
    parts: [
      { of: '/usage/prompt_tokens', amount: 10, times: 0.15, row: 'small' },
      { of: '/usage/completion_tokens', amount: 4, times: 0.6, row: 'small' },
    ],
  };
  const [line] = await gateway.process.until(new RegExp(`^.*"requestId":"${id}".*"msg":"request"}$`, 'm'));
  expect(JSON.parse(line).units).toEqual({ usd });
});

test('a reload of a table under load charges each request by one of the two (reliability 599)', async () => {
  answer = (_, response) => {
    setTimeout(() => json(response, { usage: { completion_tokens: 10 } }), 2);
  };
  const reloading = await startGateway({ upstream: upstream.origin, plans: PLANS, routes: ROUTES, more: TABLES });
  const { key } = await reloading.createKey('shop');
  const { TOLLGATE_CONFIG: file = '' } = reloading.env;
  const settings = readFileSync(file, 'utf8');
  const ask = async () => {
    const response = await reloading.get('/v1/chat', key, { method: 'POST', body: '{"model":"large","max_tokens":1}' });
    expect(response.status).toBe(200);
    return response.text();
  };
  let asked = 0;
  let hasReloaded = false;
  const load = Array.from({ length: 4 }, async () => {
    for (let more = 10; more > 0; asked++) {
      await ask();
      if (hasReloaded) more--;
    }
  });
  await eventually(() => expect(asked).toBeGreaterThan(20));
  writeFileSync(file, settings.replace('completion: 10 }', 'completion: 30 }'));
  reloading.process.signal('SIGHUP');
  await reloading.process.until(/"msg":"settings and plans in force"/);
  hasReloaded = true;
  await Promise.all(load);
  const settled = () => [...reloading.process.stdout.matchAll(/"settled":(\d+)/g)].map(([, amount]) => Number(amount));
  await eventually(() => expect(settled()).toHaveLength(asked));
  expect(new Set(settled())).toEqual(new Set([100, 300]));
  await usedIs(
    reloading,
    key,
    settled().reduce((sum, amount) => sum + amount, 0),
  );
  // A table with a fault leaves the one before in force.
  writeFileSync(file, settings.replace('completion: 10 }', 'completion: -30 }'));
  reloading.process.signal('SIGHUP');
  await reloading.process.until(/tables\.prices\.rows\.large\.completion/);
  const before = settled().length;
  await ask();
  await eventually(() => expect(settled()).toHaveLength(before + 1));
  expect(settled().at(-1)).toBe(300);
});
