import { parseItem, parseList } from 'structured-headers';
import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { type ParsedResponse, rawExchange } from '../support/raw-http.ts';
import { startUpstream } from '../support/upstream.ts';

// What every answer to a request whose head could be parsed has in common (contract section 4), over all the codes
// that a sound upstream and a sound store bring about. What is particular to a code stands in the file of its status.

let gateway: TestGateway;
const keys: Record<string, string> = {};

beforeAll(async () => {
  const upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  keys.good = (await gateway.createKey('free')).key;
  keys.spent = (await gateway.createKey('closed')).key;
  keys.costly = (await gateway.createKey('gentle')).key;
});

const MINUTE_AND_DAY = ['minute', 'day'];
const ADDRESS = ['failed-authentication'];
const HOST = 'Host: a\r\n';
const body = (length: number) => `Content-Length: ${length}\r\n`;

interface Case {
  readonly is: string;
  readonly line: string;
  readonly fields?: string;
  readonly key?: string;
  readonly windows: readonly string[];
  readonly closed?: boolean;
}

const CASES: readonly Case[] = [
  { is: '200', line: 'GET /v1/pets HTTP/1.1', key: 'good', windows: MINUTE_AND_DAY },
  { is: '400 invalid_request', line: 'GET /v1//pets HTTP/1.1', key: 'good', windows: ADDRESS, closed: true },
  { is: '401 missing_api_key', line: 'GET /v1/pets HTTP/1.1', windows: ADDRESS },
  { is: '401 invalid_api_key', line: 'GET /v1/pets HTTP/1.1', key: 'wrong', windows: ADDRESS },
  { is: '404 route_not_found', line: 'GET /v1/none HTTP/1.1', key: 'good', windows: MINUTE_AND_DAY },
  { is: '405 method_not_allowed', line: 'PUT /v1/pets HTTP/1.1', key: 'good', windows: MINUTE_AND_DAY },
  { is: '410 endpoint_removed', line: 'GET /v1/gone HTTP/1.1', key: 'good', windows: MINUTE_AND_DAY },
  {
    is: '413 payload_too_large',
    line: 'POST /v1/pets HTTP/1.1',
    fields: body(2 ** 20 + 1),
    key: 'good',
    windows: ADDRESS,
    closed: true,
  },
  { is: '414 uri_too_long', line: `GET /${'a'.repeat(8192)} HTTP/1.1`, key: 'good', windows: ADDRESS, closed: true },
  {
    is: '417 expectation_failed',
    line: 'POST /v1/pets HTTP/1.1',
    fields: 'Expect: 200-ok\r\nContent-Length: 0\r\n',
    key: 'good',
    windows: ADDRESS,
  },
  { is: '429 rate_limit_exceeded', line: 'GET /v1/pets HTTP/1.1', key: 'spent', windows: ['minute'] },
  { is: '429 rate_limit_exceeded', line: 'GET /v1/costly HTTP/1.1', key: 'costly', windows: MINUTE_AND_DAY },
  {
    is: '431 headers_too_large',
    line: 'GET /v1/pets HTTP/1.1',
    fields: `X-A: ${'a'.repeat(16_384)}\r\n`,
    key: 'good',
    windows: ADDRESS,
    closed: true,
  },
  { is: '501 not_implemented', line: 'TRACE /v1/pets HTTP/1.1', key: 'good', windows: ADDRESS },
  { is: '501 not_implemented', line: 'CONNECT example.com:443 HTTP/1.1', key: 'good', windows: ADDRESS, closed: true },
  { is: '505 http_version_not_supported', line: 'GET /v1/pets HTTP/2.0', key: 'good', windows: ADDRESS, closed: true },
];

const ask = async ({ line, fields = '', key, closed }: Case, more = '') => {
  const authorization = key === undefined ? '' : `Authorization: Bearer ${keys[key] ?? key}\r\n`;
  const bytes = `${line}\r\n${HOST}${authorization}${fields}${more}\r\n`;
  const exchange = await rawExchange(gateway.port, bytes, {
    until: closed === true ? 'closed' : 1,
    methods: [line.split(' ')[0] as string],
  });
  return { ...exchange, answer: exchange.responses[0] as ParsedResponse };
};

test.each(CASES)('$is ($line) has the form that all answers have', async (one) => {
  const beganAtMs = Date.now();
  const { answer, closed, responses } = await ask(one);
  const [status, code] = one.is.split(' ');
  expect(responses).toHaveLength(1);
  expect(answer.status).toBe(Number(status));
  expect(answer.header('content-type')).toBe('application/json');
  if (code !== undefined) {
    expect(answer.json()).toEqual({
      code,
      message: expect.stringMatching(/^[A-Z].*\.$/),
      status: Number(status),
      ...(status === '429' ? { details: expect.any(Object) } : {}),
    });
  }
  if (one.closed === true) expect(answer.header('connection')).toBe('close');
  expect(closed).toBe(one.closed === true);
  expectStanding(answer, one.windows, beganAtMs);
  expect(answer.header('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
});

function expectStanding(answer: ParsedResponse, windows: readonly string[], beganAtMs: number): void {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) => {
    expect(answer.header(`x-ratelimit-${name}`)).toMatch(/^\d{1,15}$/);
    return Number(answer.header(`x-ratelimit-${name}`));
  }) as [number, number, number];
  expect(remaining).toBeLessThanOrEqual(limit);
  expect(reset).toBeGreaterThanOrEqual(Math.floor(beganAtMs / 1000));
  const policies = parseList(answer.header('ratelimit-policy') as string);
  const states = parseList(answer.header('ratelimit') as string);
  expect(policies.map(([name]) => name)).toEqual(windows);
  expect(states.map(([name]) => name)).toEqual(windows);
  for (const [, parameters] of policies) expect([...parameters.keys()].sort()).toEqual(['q', 'w']);
  const told = states.map(([, parameters], i) => [policies[i]?.[1].get('q'), parameters.get('r')]);
  // The X- fields describe one of the windows that the drafts' fields list.
  expect(told).toContainEqual([limit, remaining]);
}

test.each(CASES)('$is ($line) repeats the request id of the client', async (one) => {
  const { answer } = await ask(one, 'X-Request-Id: my.id_1-Z\r\n');
  expect(answer.header('x-request-id')).toBe('my.id_1-Z');
});

test.each([
  ['too long', `X-Request-Id: ${'a'.repeat(65)}\r\n`],
  ['empty', 'X-Request-Id: \r\n'],
  ['of other characters', 'X-Request-Id: a b\r\n'],
  ['given twice', 'X-Request-Id: a\r\nx-request-id: a\r\n'],
])('a request id that is %s is replaced, once', async (_what, fields) => {
  const { answer } = await ask({ ...(CASES[0] as Case), fields });
  expect(answer.header('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
});

test('the fields of the draft are structured fields of the right types', async () => {
  const { answer } = await ask(CASES[0] as Case);
  const [policy] = parseList(answer.header('ratelimit-policy') as string);
  expect(policy).toEqual(['minute', new Map([['q', 60], ['w', 60]])]); // biome-ignore format: one policy, one line
  for (const part of (answer.header('ratelimit') as string).split(', ')) {
    const [, parameters] = parseItem(part);
    expect(parameters.get('r')).toBeTypeOf('number');
    expect(parameters.get('t')).toBeTypeOf('number');
  }
});

test('no answer names the software that gave it', async () => {
  for (const one of CASES) {
    const { answer } = await ask(one);
    expect(answer.headers.map(([name]) => name.toLowerCase())).not.toContain('x-powered-by');
    expect(answer.headers.map(([name]) => name.toLowerCase())).not.toContain('server');
  }
});
