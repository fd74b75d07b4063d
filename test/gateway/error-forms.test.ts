import Anthropic, { APIError as AnthropicError } from '@anthropic-ai/sdk';
import OpenAI, { APIError as OpenAIError } from 'openai';
import OpenAI6, { APIError as OpenAI6Error } from 'openai-6';
import { beforeAll, describe, expect, test } from 'vitest';
import { ERROR_FORMS } from '../../src/errors/forms.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';

// The gateway's own errors as clients of other APIs get them. Spent: a key whose day is used up.

const PLANS = `
plans:
  free: { limits: { minute: 1000 } }
  spent: { limits: { day: 0 } }
bans: off
`;
const ROUTES = ERROR_FORMS.map(
  (form) => `
  - { path: /${form}/**, methods: [GET, POST], upstream: store, scopes: [none], errors: { form: ${form} } }`,
).join('');

let gateway: TestGateway;
let free: string;
let spent: string;

beforeAll(async () => {
  const more = "errors: { headers: { X-Support: 'https://help.example.com', Cache-Control: no-store } }";
  gateway = await openGateway({ upstream: 'http://127.0.0.1:9', plans: PLANS, routes: ROUTES, more });
  [{ key: free }, { key: spent }] = [await gateway.createKey('free'), await gateway.createKey('spent')];
});

const ask = (path: string, key: string) =>
  fetch(`${gateway.origin}${path}`, { headers: { Authorization: `Bearer ${key}` } });

describe('the official clients show code and message, and neither sleep nor repeat where waiting is long or no help', () => {
  const question = { model: 'm', max_tokens: 1, messages: [{ role: 'user' as const, content: 'Hi' }] };
  const clients = {
    'openai 7': {
      ask: (apiKey: string) =>
        new OpenAI({ apiKey, baseURL: `${gateway.origin}/openai` }).chat.completions.create(question),
      errors: OpenAIError,
    },
    'openai 6': {
      ask: (apiKey: string) =>
        new OpenAI6({ apiKey, baseURL: `${gateway.origin}/openai` }).chat.completions.create(question),
      errors: OpenAI6Error,
    },
    anthropic: {
      ask: (authToken: string) =>
        new Anthropic({ apiKey: null, authToken, baseURL: `${gateway.origin}/anthropic` }).messages.create(question),
      errors: AnthropicError,
    },
  };

  test.each(Object.entries(clients))('%s', async (name, { ask, errors }) => {
    const failureOf = async (key: string) => {
      const error = await ask(key).then(
        () => null,
        (error: unknown) => error,
      );
      if (!(error instanceof errors)) throw new Error(`no error of the client: ${error}`);
      return error as InstanceType<typeof errors> & { readonly code?: string; readonly error?: object };
    };
    const [wrong, refused] = [await failureOf('wrong'), await failureOf(spent)];
    expect([wrong.status, refused.status]).toEqual([401, 429]);
    expect(wrong.message).toContain('This API key is not valid.');
    expect(refused.message).toContain('waiting will not help');
    const codeOf = (error: typeof wrong) => (name === 'anthropic' ? error.error : { code: error.code });
    expect(codeOf(wrong)).toMatchObject({ code: 'invalid_api_key' });
    expect(codeOf(refused)).toMatchObject({ code: 'rate_limit_exceeded' });
    expect(refused.headers?.get('x-should-retry')).toBe('false');
  });
});

test.each([
  ['own', { code: 'insufficient_scope', status: 403 }],
  ['problem', { title: 'Insufficient scope', status: 403, code: 'insufficient_scope' }],
  ['openai', { error: { type: 'permission_error', code: 'insufficient_scope', param: null }, status: 403 }],
  ['anthropic', { type: 'error', error: { type: 'permission_error' }, code: 'insufficient_scope' }],
  [
    'json-rpc',
    { jsonrpc: '2.0', id: null, error: { code: -32_000, data: { code: 'insufficient_scope', status: 403 } } },
  ],
  ['graphql', { errors: [{ extensions: { code: 'insufficient_scope', status: 403 } }] }],
])('the form %s of a route, with the fields of the operator', async (form, body) => {
  const response = await ask(`/${form}/x`, free);
  const type = form === 'problem' ? 'application/problem+json' : 'application/json';
  expect([response.status, response.headers.get('content-type')]).toEqual([403, type]);
  expect([response.headers.get('x-support'), response.headers.get('cache-control')]).toEqual([
    'https://help.example.com',
    'no-store',
  ]);
  expect(await response.json()).toMatchObject(body);
});

test('problem details have the type and the violated policies of the draft of RateLimit fields', async () => {
  const problemOf = async (path: string, key: string) => (await (await ask(path, key)).json()) as object;
  expect(await problemOf('/problem/x', spent)).toMatchObject({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    'violated-policies': ['day'],
  });
  expect(await problemOf('/problem/x', free)).not.toHaveProperty('violated-policies');
});

test('a refusal keeps details, Retry-After and the rate-limit fields in each form, and HEAD gets the same head', async () => {
  for (const form of ERROR_FORMS) {
    const [got, head] = [
      await ask(`/${form}/x`, spent),
      await fetch(`${gateway.origin}/${form}/x`, { method: 'HEAD', headers: { Authorization: `Bearer ${spent}` } }),
    ];
    expect([form, got.status, got.headers.get('x-ratelimit-limit')]).toEqual([form, 429, '0']);
    expect(await got.text()).toContain('"window":"day"');
    expect(head.headers.get('content-length')).toBe(got.headers.get('content-length'));
  }
});

test('`errors.form` of the gateway is for routes without a form, and where there is no route', async () => {
  const { origin } = await openGateway({
    ...{ upstream: 'http://127.0.0.1:9', plans: PLANS },
    routes: `
  - { path: /a, methods: [GET], upstream: store }
  - { path: /b, methods: [GET], upstream: store, errors: { form: own } }`,
    more: 'errors: { form: graphql }',
  });
  const bodyOf = async (path: string) => (await (await fetch(`${origin}${path}`)).json()) as object;
  expect(await bodyOf('/a')).toMatchObject({ errors: [{ extensions: { code: 'missing_api_key' } }] });
  expect(await bodyOf('/none')).toMatchObject({ errors: [{ extensions: { code: 'missing_api_key' } }] });
  expect(await bodyOf('/b')).toMatchObject({ code: 'missing_api_key' });
});
