import { beforeAll, describe, expect, test } from 'vitest';
import { askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// `errors.docs`: errors link to their documentation, and are problem details for clients that ask for them (RFC 9457).

const DOCS = 'errors: { docs: https://docs.example.com/errors?v=1 }';
let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, more: DOCS });
  ({ key } = await gateway.createKey('closed'));
});

async function ask(fields: string, line = 'GET /v1/pets', port = gateway.port, own = key) {
  const bytes = `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own}\r\n${fields}\r\n`;
  const { responses } = await rawExchange(port, bytes, { methods: [line.split(' ')[0]!] });
  return responses.at(-1)!;
}

const LINK = '<https://docs.example.com/errors?v=1#rate_limit_exceeded>; rel="help"';

describe('a client', () => {
  test.each([
    '',
    'Accept: */*\r\n',
    'Accept: application/json\r\n',
    'Accept: application/*, text/html\r\n',
    'Accept: application/problem+json;q=0.9, application/json\r\n',
    'Accept: application/problem+json;q=0.5, */*;q=0.8\r\n',
    'Accept: application/problem+json;q=0\r\n',
    'Accept: application/problem+json;q=2\r\n',
    'Accept: text/html;x="a, application/problem+json"\r\n',
  ])('that sends %j gets the Error, byte for byte as without `errors.docs`, and a link', async (accept) => {
    const response = await ask(accept);
    expect(response.status).toBe(429);
    expect(response.header('content-type')).toBe('application/json');
    expect(response.header('link')).toBe(LINK);
    expect(response.header('vary')).toBe('Accept');
    const body = response.body.toString();
    expect(body).toMatch(
      /^\{"code":"rate_limit_exceeded","message":"This request costs 1 and [^"]*","status":429,"details":\{.*\}\}$/,
    );
  });

  test.each([
    'Accept: application/problem+json\r\n',
    'Accept: application/problem+json, application/json\r\n',
    'Accept: application/json;q=0.5\r\nAccept: Application/Problem+JSON;charset=utf-8;q=0.7\r\n',
    'Accept: application/problem+json, */*;q=0.8\r\n',
  ])('that sends %j gets problem details', async (accept) => {
    const response = await ask(accept);
    expect(response.status).toBe(429);
    expect(response.header('content-type')).toBe('application/problem+json');
    expect(response.header('link')).toBe(LINK);
    expect(response.header('retry-after')).toBeNull();
    expect(JSON.parse(response.body.toString())).toEqual({
      type: 'https://docs.example.com/errors?v=1#rate_limit_exceeded',
      title: 'Rate limit exceeded',
      status: 429,
      detail: expect.stringContaining('costs 1'),
      code: 'rate_limit_exceeded',
      details: { window: 'minute', limit: 0, resetAt: expect.any(Number) },
      'violated-policies': ['minute'],
    });
  });

  test('gets the length of the form and no body for HEAD, and both forms of a request that cannot be read', async () => {
    const accept = 'Accept: application/problem+json\r\n';
    const body = (await ask(accept)).body.length;
    const head = await ask(accept, 'HEAD /v1/pets');
    expect([head.body.length, head.header('content-length')]).toEqual([0, String(body)]);
    const malformed = await ask(accept, 'GET /v1/../pets');
    expect(JSON.parse(malformed.body.toString())).toMatchObject({ status: 400, code: 'invalid_request' });
    expect(malformed.header('link')).toContain('#invalid_request>');
  });

  test('finds no link in what the service sends', async () => {
    const { key: own } = await gateway.createKey('endless');
    const response = await ask('', 'GET /v1/pets', gateway.port, own);
    expect([response.status, response.header('link'), response.header('vary')]).toEqual([200, null, null]);
  });
});

test('without `errors.docs` there is one form and no link', async () => {
  const plain = await openGateway({ upstream: upstream.origin });
  const { key: own } = await plain.createKey('closed');
  const response = await ask('Accept: application/problem+json\r\n', 'GET /v1/pets', plain.port, own);
  expect(response.header('content-type')).toBe('application/json');
  expect([response.header('link'), response.header('vary')]).toEqual([null, null]);
});

test('over HTTP/2 it is the same', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin, more: DOCS });
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const answer = await askHttp2(session, { path: '/v1/pets', headers: { accept: 'application/problem+json' } });
  const fields = new Map(answer.fields);
  expect([answer.status, fields.get('content-type')]).toEqual([401, 'application/problem+json']);
  expect(JSON.parse(answer.body)).toMatchObject({ title: 'Missing API key', code: 'missing_api_key' });
});
