import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { accessLines, askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { HANDSHAKE } from '../support/web-sockets.ts';

// `validate` of a route: requests that do not fit the OpenAPI description of the service.

const DESCRIPTION = `
openapi: 3.0.3
info: { title: Pets, version: '1' }
servers: [{ url: 'https://api.example.com/v1' }]
paths:
  /pets:
    get:
      parameters:
        - { name: limit, in: query, schema: { type: integer, format: int64, minimum: 1, maximum: 100 } }
        - { name: kind, in: query, required: true, schema: { enum: [cat, dog] } }
        - { name: user_id, in: query, schema: { type: string, pattern: '^[a-z0-9]+$' } }
        - { name: 'ids[]', in: query, schema: { type: array, items: { type: integer } } }
        - { name: filter, in: query, style: deepObject, schema: { type: object } }
        - { name: owner.name, in: query, schema: { type: string, maxLength: 3 } }
        - { name: Sort, in: query, schema: { enum: [up] } }
        - { name: sort, in: query, schema: { enum: [name] } }
      responses: { 200: { description: ok } }
    post:
      requestBody:
        required: true
        content:
          application/json: { schema: { $ref: '#/components/schemas/Pet' } }
          text/plain: {}
          multipart/form-data: { schema: { type: object } }
      responses: { 200: { description: ok } }
  /pets/{petId}:
    get:
      parameters: [{ name: petId, in: path, required: true, schema: { type: integer, format: int64 } }]
      responses: { 200: { description: ok } }
components:
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: { type: string, maxLength: 10 }
        number: { type: integer, format: int64 }
        password: { type: string, minLength: 20 }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;
let routes: string;

beforeAll(async () => {
  const file = join(await temporaryFolder(), 'openapi.yaml');
  await writeFile(file, DESCRIPTION);
  routes = `
  - { path: /v1/pets, methods: [GET, POST], upstream: store, validate: ${file} }
  - { path: '/v1/pets/{petId}', methods: [GET], upstream: store, validate: ${file}, websocket: true }
  - { path: '/shop/**', methods: [GET, POST], upstream: store, rewrite: { path: '/v1/**' }, validate: ${file} }
  - { path: /v1/small, methods: [POST], upstream: store, rewrite: { path: /v1/pets }, validate: ${file}, maxBodyBytes: 30 }
  - { path: /v1/free, methods: [POST], upstream: store }
`;
  upstream = await startUpstream(async (_request, response, { whole }) => {
    if (await whole) response.end('ok');
  });
  gateway = await openGateway({
    upstream: upstream.origin,
    routes,
    listen: { requestTimeout: '1s', headersTimeout: '1s', maxBodyBytes: '4MiB' },
  });
  ({ key } = await gateway.createKey('endless'));
});

const send = async (line: string, rest = '\r\n', own = key) => {
  const bytes = `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n${rest}`;
  const { responses } = await rawExchange(gateway.port, bytes);
  return responses.at(-1)!;
};
const json = (body: string, type = 'application/json') =>
  `Content-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const chunked = (body: string, pieces = 3) => {
  const size = Math.ceil(body.length / pieces);
  const chunks = Array.from({ length: pieces }, (_, i) => body.slice(i * size, (i + 1) * size)).filter(Boolean);
  const text = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
  return `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${text}0\r\n\r\n`;
};
const detailsOf = (response: { readonly body: Buffer }) => JSON.parse(response.body.toString()).details;

describe('a body of JSON', () => {
  test.each([
    ['a whole number of 64 bits', '{"name":"Rex","number":9223372036854775807}'],
    ['white space and escapes', ' { "number" : -9223372036854775808 ,\n "name":"R\\u00e9x" } '],
    ['more than one read', `{"name":"Rex","more":"${'x'.repeat(900_000)}"}`],
  ])('that fits reaches the service byte by byte: %s', async (_what, body) => {
    for (const rest of [json(body), chunked(body)]) {
      expect((await send('POST /v1/pets', rest)).status).toBe(200);
      const request = upstream.requests.at(-1)!;
      expect(request.body.toString()).toBe(body);
      expect(request.values('content-length')).toEqual([String(body.length)]);
      expect(request.values('transfer-encoding')).toEqual([]);
    }
  });

  test.each([
    ['{"name":7}', { in: 'body', pointer: '/name', rule: 'must be text.' }],
    [
      '{"name":"Rex","number":9223372036854775808}',
      { in: 'body', pointer: '/number', rule: 'must be a whole number of 64 bits.' },
    ],
    ['{"number":1}', { in: 'body', pointer: '', rule: 'lacks "name".' }],
    ['{"name":"Rex","name":7}', { in: 'body', pointer: '/name', rule: 'is there twice.' }],
    ['{"name":"Rex"', { in: 'body', pointer: '', rule: 'is not JSON: `,` or `}` is missing.' }],
    [
      `{"name":${'['.repeat(100)}`,
      { in: 'body', pointer: expect.stringContaining('/name/0'), rule: 'is nested deeper than 64 levels.' },
    ],
  ])('that does not is refused with the pointer and the rule, and reaches nobody: %s', async (body, details) => {
    const seen = upstream.requests.length;
    for (const rest of [json(body), chunked(body)]) {
      const response = await send('POST /v1/pets', rest);
      expect(response.status).toBe(400);
      expect(JSON.parse(response.body.toString())).toMatchObject({ code: 'request_invalid', status: 400, details });
      expect(response.header('connection')).not.toBe('close');
    }
    expect(upstream.requests).toHaveLength(seen);
  });

  test('no value of it is repeated, in the response or the log', async () => {
    const response = await send('POST /v1/pets', json('{"name":"Rex","password":"hunter2"}'));
    expect(detailsOf(response)).toEqual({
      in: 'body',
      pointer: '/password',
      rule: 'must have at least 20 characters.',
    });
    expect(response.body.toString() + gateway.process.stdout).not.toContain('hunter2');
  });

  test('is counted like a request that was served', async () => {
    const { key: own } = await gateway.createKey('free');
    expect((await send('POST /v1/pets', json('{}'), own)).header('x-ratelimit-remaining')).toBe('59');
    expect((await send('GET /v1/pets?limit=0', '\r\n', own)).header('x-ratelimit-remaining')).toBe('58');
    await eventually(() =>
      expect(accessLines(gateway).findLast(({ path }) => path === '/v1/pets')).toMatchObject({
        code: 'request_invalid',
        status: 400,
      }),
    );
  });
});

describe('what is not JSON is checked by its media type alone', () => {
  test.each(['text/plain', 'Text/Plain; charset=utf-16', 'multipart/form-data; boundary=x'])(
    '%s passes',
    async (type) => {
      expect((await send('POST /v1/pets', json('{"name":7}', type))).status).toBe(200);
    },
  );

  test.each([
    ['another type', 'Content-Type: application/xml\r\n', 'Content-Type'],
    ['none', '', 'Content-Type'],
    ['two', 'Content-Type: text/plain\r\nContent-Type: application/json\r\n', 'Content-Type'],
    ['JSON in another charset', 'Content-Type: application/json; charset=utf-16\r\n', 'Content-Type'],
    ['compressed JSON', 'Content-Type: application/json\r\nContent-Encoding: gzip\r\n', 'Content-Encoding'],
  ])('%s does not (reliability 175)', async (_what, fields, name) => {
    const seen = upstream.requests.length;
    const response = await send('POST /v1/pets', `${fields}Content-Length: 2\r\n\r\n{}`);
    expect([response.status, detailsOf(response).name]).toEqual([400, name]);
    expect(upstream.requests).toHaveLength(seen);
  });
});

test('a Content-Type of blanks and semicolons is judged at once (reliability 202)', async () => {
  const body = '{"name":"Rex"}';
  expect(
    (await send('POST /v1/pets', json(body, `application/json${' ; '.repeat(60)}a="b" ;charset=utf-8`))).status,
  ).toBe(200);
  const response = await send('POST /v1/pets', json(body, `application/json${'; '.repeat(60)};@`));
  expect(detailsOf(response)).toMatchObject({ in: 'header', name: 'Content-Type' });
});

test('a type that Connection lists counts as missing, because the service does not get it (reliability 194)', async () => {
  const seen = upstream.requests.length;
  const response = await send('POST /v1/pets', `Connection: content-type\r\n${json('{"name":7}', 'text/plain')}`);
  expect([response.status, detailsOf(response)]).toEqual([
    400,
    { in: 'header', name: 'Content-Type', pointer: '', rule: 'is missing.' },
  ]);
  expect(upstream.requests).toHaveLength(seen);
});

describe('parameters', () => {
  test.each([
    '/v1/pets?kind=cat&limit=100',
    '/v1/pets?k%69nd=dog&other=x',
    '/v1/pets/9223372036854775807',
    '/shop/pets?kind=cat',
  ])('that fit pass: %s', async (path) => {
    expect((await send(`GET ${path}`)).status).toBe(200);
    expect(upstream.requests.at(-1)?.url).toBe(path.replace('/shop', '/v1'));
  });

  test.each([
    ['/v1/pets', { in: 'query', name: 'kind', rule: 'is missing.' }],
    ['/v1/pets?kind=cow', { in: 'query', name: 'kind', rule: 'must be one of "cat", "dog".' }],
    ['/v1/pets?kind=cat&kind=dog', { in: 'query', name: 'kind', rule: 'is there more than once.' }],
    ['/v1/pets?kind=cat&limit=101', { in: 'query', name: 'limit' }],
    ['/v1/pets?kind=cat&%6cimit=0', { in: 'query', name: 'limit' }],
    ['/v1/pets?kind=%ff', { in: 'query', name: 'kind', rule: 'has an encoding that is not UTF-8.' }],
    ['/v1/pets/rex', { in: 'path', name: 'petId', rule: 'must be a whole number.' }],
    ['/v1/pets/9223372036854775808', { in: 'path', name: 'petId' }],
    ['/shop/dogs', { in: 'path', rule: 'is not in the description of this service.' }],
    ['/shop/pets/', { in: 'path' }],
  ])('that do not are refused: %s', async (path, details) => {
    const seen = upstream.requests.length;
    const response = await send(`GET ${path}`);
    expect(response.status).toBe(400);
    expect(detailsOf(response)).toMatchObject(details);
    expect(upstream.requests).toHaveLength(seen);
  });

  test.each([
    ...[
      'limit[]=101',
      'limit[$gt]=0',
      'limit%5B%5D=101',
      'limit[0]=999',
      'limit.$gt=0',
      'limit(1i)=9',
      '[limit]=9',
      'Limit=101',
    ],
    ...[
      'LIMIT=101',
      '%20limit=101',
      '+limit=101',
      'limit%20=1e9',
      'limit+=9',
      'limit%09=9',
      'limit%00=101',
      'limit%00x=101',
    ],
    ...[
      'a=1;limit=101',
      'limit=5;limit=101',
      'a;LIMIT=101',
      '?limit=101',
      '!limit=101',
      'limit%ff=9',
      '%u006cimit=9',
      '%EF%BD%8Cimit=9',
    ],
  ])('a name that a service may take for a described one is refused: %s (reliability 205)', async (parameter) => {
    const seen = upstream.requests.length;
    const response = await send(`GET /v1/pets?kind=cat&${parameter}`);
    expect([response.status, detailsOf(response)]).toMatchObject([400, { in: 'query', name: 'limit' }]);
    expect(upstream.requests).toHaveLength(seen);
  });

  test.each([
    ...[
      'user.id=1',
      'user%20id=1',
      'user+id=1',
      'user[id=1',
      'USER_ID=1',
      'user_id[$ne]=x',
      'ids=1',
      'ids[0]=1',
      'ids[a]=1',
    ],
    ...['owner[name]=a', 'owner_name=a', 'SORT=name', 'sort[]=name', 'kind[]=cat', 'owner.name.first=a'],
  ])('so is another spelling of a name with punctuation: %s (reliability 205)', async (parameter) => {
    expect((await send(`GET /v1/pets?kind=cat&${parameter}`)).status).toBe(400);
  });

  test.each([
    ...[
      'user_id=a1',
      'ids[]=1&ids[]=2',
      'ids%5B%5D=1',
      'filter[name]=x&filter[age][$gt]=1',
      'filter=x',
      'owner.name=abc',
    ],
    ...[
      'sort=name&Sort=up',
      'limits=1000',
      '_limit=1000',
      'offset[limit]=7',
      'x;y=1',
      'owner.other=1',
      'page[limit]=1000',
      'a%ffb=1',
    ],
  ])('a described name, and one that is no spelling of it, passes: %s (reliability 205)', async (parameters) => {
    expect((await send(`GET /v1/pets?kind=cat&${parameters}`)).status).toBe(200);
    expect(upstream.requests.at(-1)?.url).toBe(`/v1/pets?kind=cat&${parameters}`);
  });

  test('a WebSocket is refused before the service is asked', async () => {
    expect((await send('GET /v1/pets/rex', `${HANDSHAKE}\r\n`)).status).toBe(400);
  });
});

describe('deadlines and bounds hold while a body is read to be checked (reliability 174)', () => {
  const slow = (line: string, rest: string) =>
    rawExchange(gateway.port, `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${rest}`);

  test('a body that stops gets 408 and is counted', async () => {
    const seen = upstream.requests.length;
    const { responses } = await slow(
      'POST /v1/pets',
      'Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"name"',
    );
    expect(responses[0]?.status).toBe(408);
    await eventually(() =>
      expect(accessLines(gateway).findLast(({ status }) => status === 408)).toMatchObject({ plan: 'endless', cost: 1 }),
    );
    expect(upstream.requests).toHaveLength(seen);
  });

  test.each([
    ['of a declared length', '/v1/pets', `Content-Length: ${2 ** 20 + 1}\r\n\r\n`],
    ['in chunks', '/v1/pets', `Transfer-Encoding: chunked\r\n\r\n100001\r\n${'x'.repeat(2 ** 20 + 1)}\r\n0\r\n\r\n`],
    [
      'in chunks, beyond the limit of its route',
      '/v1/small',
      `Transfer-Encoding: chunked\r\n\r\n1f\r\n${'x'.repeat(31)}\r\n0\r\n\r\n`,
    ],
  ])('one that is too large %s gets 413', async (_what, path, rest) => {
    const { responses } = await slow(`POST ${path}`, `Content-Type: application/json\r\n${rest}`);
    expect(responses[0]?.status).toBe(413);
  });

  test('a larger one that is not JSON passes', async () => {
    expect((await send('POST /v1/pets', json('x'.repeat(2 * 2 ** 20), 'text/plain'))).status).toBe(200);
  });

  test('100 Continue is sent only if the rest fits, and once', async () => {
    const expecting = 'Expect: 100-continue\r\nContent-Type: application/json\r\n';
    const { responses } = await slow('POST /v1/pets', `${expecting}Content-Length: 14\r\n\r\n{"name":"Rex"}`);
    expect(responses.map(({ status }) => status)).toEqual([100, 200]);
    const refused = await slow('POST /v1/pets?', `${expecting.replace('json', 'xml')}Content-Length: 14\r\n\r\n`);
    expect(refused.responses.map(({ status }) => status)).toEqual([400]);
  });
});

test('over HTTP/2 all of it is the same', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin, routes });
  const { key: own } = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const headers = { authorization: `Bearer ${own}`, 'content-type': 'application/json' };
  const ask = (body: string) => askHttp2(session, { path: '/v1/pets', method: 'POST', headers, body });
  expect((await ask('{"name":"Rex"}')).status).toBe(200);
  expect(upstream.requests.at(-1)!.body.toString()).toBe('{"name":"Rex"}');
  expect((await ask('{"name":1}')).status).toBe(400);
  expect((await ask(`"${'x'.repeat(2 ** 20)}"`)).status).toBe(413);
});
