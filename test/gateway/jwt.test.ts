import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  AUDIENCE,
  ISSUER,
  jwksOf,
  rawToken,
  type SigningKey,
  signingKey,
  startJwksServer,
} from '../identify/jwt-issuer.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, startGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { entriesOf } from '../support/run-command.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const settings = (jwks: string, more = '') =>
  `jwt: { issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256]${more} }`;

const PLANS = `
plans:
  free: { limits: { minute: 60, day: 1000 } }
  small: { limits: { minute: 3 } }
  strict: { limits: { minute: 1 }, bans: { after: 2, within: 1m, first: 1m } }
  enterprise: { limits: { minute: custom } }
failed-authentication: { minute: 1000 }
`;

let upstream: Upstream;
let one: SigningKey;
let two: SigningKey;

beforeAll(async () => {
  upstream = await startUpstream();
  [one, two] = await Promise.all([signingKey('one'), signingKey('two')]);
});

const gatewayWith = (jwks: string, more?: string) =>
  openGateway({ upstream: upstream.origin, plans: PLANS, more: settings(jwks, more) });

const codeOf = async (answer: Response) => ((await answer.json()) as { code: string }).code;

async function keyFile(...keys: SigningKey[]): Promise<string> {
  const path = join(await temporaryFolder(), 'jwks.json');
  await writeFile(path, jwksOf(...keys));
  return path;
}

describe('a caller with a token of the issuer', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await gatewayWith(await keyFile(one));
  });

  test('is served under the plan that the token names', async () => {
    const answer = await gateway.get('/v1/pets', await one.sign());
    expect(answer.status).toBe(200);
    expect(answer.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60, "day";q=1000;w=86400');
  });

  test('is named to the upstream by an id that is not the subject, and the token goes no further', async () => {
    const token = await one.sign({ sub: 'key_0000000000000000' });
    await gateway.get('/v1/pets', token);
    const seen = upstream.requests.at(-1)!;
    expect(seen.values('x-consumer-id')).toEqual([expect.stringMatching(/^jwt_[A-Za-z0-9_-]{32}$/)]);
    expect(seen.values('x-consumer-plan')).toEqual(['free']);
    expect(seen.rawHeaders.join('\n')).not.toContain(token.split('.')[2]);
  });

  test('has one quota for all tokens of one subject, and none with anybody else', async () => {
    const statuses: number[] = [];
    for (const jti of ['1', '2', '3', '4']) {
      statuses.push((await gateway.get('/v1/pets', await one.sign({ sub: 'bob', plan: 'small', jti }))).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429]);
    expect((await gateway.get('/v1/pets', await one.sign({ sub: 'bobby', plan: 'small' }))).status).toBe(200);
  });

  test('is banned as a key is, by subject, and may still ask where it stands', async () => {
    const sign = (jti: number) => one.sign({ sub: 'eve', plan: 'strict', jti: String(jti) });
    const codes: string[] = [];
    for (let i = 0; i < 3; i++) codes.push(await codeOf(await gateway.get('/v1/pets', await sign(i))));
    expect(codes.slice(1)).toEqual(['rate_limit_exceeded', 'api_key_banned']);
    const usage = (await (await gateway.get('/usage', await sign(9))).json()) as object;
    expect(usage).toMatchObject({
      id: expect.stringMatching(/^jwt_/),
      plan: 'strict',
      ban: { number: 1, until: expect.any(Number) },
    });
    const { id } = usage as { id: string };
    // What a command reads of a store in a folder may be a second old.
    await eventually(async () => {
      expect(entriesOf((await gateway.command('bans', 'list', '--json')).stdout)).toMatchObject([{ id }]);
    });
    expect(await gateway.command('bans', 'lift', id)).toMatchObject({ code: 0, stderr: '' });
  });

  test.each<[string, object, RegExp]>([
    ['a plan that there is not', { plan: 'platinum' }, /names no plan/],
    ['a plan whose numbers each key brings', { plan: 'enterprise' }, /names no plan/],
    ['a plan that is a property of every object', { plan: 'constructor' }, /names no plan/],
    ['another audience', { aud: 'https://elsewhere.example' }, /audience/],
    ['no subject', { sub: undefined }, /subject/],
    ['no end', { exp: undefined }, /no expiry/],
  ])('is refused with %s: 401 invalid_api_key, in a sentence', async (_what, claims, sentence) => {
    const answer = await gateway.get('/v1/pets', await one.sign(claims));
    expect(answer.status).toBe(401);
    expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer realm="[^"]+", error="invalid_token"$/);
    expect(await answer.json()).toEqual({
      code: 'invalid_api_key',
      message: expect.stringMatching(sentence),
      status: 401,
    });
  });

  test('is refused once the token has expired: 401 expired_api_key', async () => {
    const answer = await gateway.get('/v1/pets', await one.sign({ exp: 1_700_000_000 }));
    expect([answer.status, await codeOf(answer)]).toEqual([401, 'expired_api_key']);
    expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  test('is refused from the moment at which a token expires that was good a moment ago', async () => {
    const exp = Math.floor(Date.now() / 1000) + 60;
    const token = await one.sign({ exp });
    vi.useFakeTimers({ toFake: ['Date'], now: exp * 1000 - 1 });
    onTestFinished(() => void vi.useRealTimers());
    expect((await gateway.get('/v1/pets', token)).status).toBe(200);
    vi.setSystemTime(exp * 1000);
    expect(await codeOf(await gateway.get('/v1/pets', token))).toBe('expired_api_key');
  });

  test('costs the address a failed authentication with every token that is refused, and none with a good one', async () => {
    const left = async (token: string) =>
      Number((await gateway.get('/v1/pets', token)).headers.get('x-ratelimit-remaining'));
    const forged = await two.sign({}, { kid: 'one' });
    const first = await left(forged);
    await gateway.get('/v1/pets', await one.sign());
    expect(await left(rawToken({ alg: 'none' }, {}))).toBe(first - 1);
    expect(await left(await two.sign())).toBe(first - 2);
  });

  test('stands in the log by its id alone', async () => {
    const requestId = `log-${Date.now()}`;
    await gateway.get('/v1/pets', await one.sign({ sub: 'jo@example.com' }), {
      headers: { 'X-Request-Id': requestId },
    });
    const [line] = await gateway.process.until(new RegExp(`^.*"requestId":"${requestId}".*$`, 'm'));
    expect(JSON.parse(line)).toMatchObject({ consumerId: expect.stringMatching(/^jwt_/), plan: 'free' });
    expect(line).not.toContain('jo@example.com');
  });

  test('has two Authorization fields no more than a key has: 400', async () => {
    const fields = `Authorization: Bearer ${await one.sign()}\r\n`.repeat(2);
    const { responses } = await rawExchange(gateway.port, `GET /v1/pets HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
    expect(responses[0]?.status).toBe(400);
  });

  test('has a usage that the operator is told, who has to say the plan', async () => {
    const env = { ADMIN_TOKEN: 'let-me-in-if-you-can' };
    const more = settings(await keyFile(one));
    const own = await openGateway({ upstream: upstream.origin, plans: PLANS, more, env });
    const seen = await own.get('/usage', await one.sign());
    const { id } = (await seen.json()) as { id: string };
    await own.get('/v1/pets', await one.sign());
    const usage = async (query: string) => {
      const headers = { Authorization: 'Bearer let-me-in-if-you-can' };
      const answer = await fetch(`http://127.0.0.1:${own.adminPort}/admin/keys/${id}/usage${query}`, { headers });
      return { status: answer.status, body: (await answer.json()) as object };
    };
    const told = await usage('?plan=free');
    expect([told.status, told.body]).toEqual([200, expect.objectContaining({ id, plan: 'free', ban: null })]);
    expect(told.body).toMatchObject({ windows: { minute: { limit: 60, used: 1 }, day: { limit: 1000, used: 1 } } });
    expect(await usage('')).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('Say which it is') },
    });
    for (const query of ['?plan=gold', '?plan=enterprise', '?plan=free&plan=small']) {
      expect((await usage(query)).status).toBe(400);
    }
    const { code, stderr } = await own.command('usage', id);
    expect([code, stderr]).toEqual([1, expect.stringContaining('Say which it is')]);
  });

  test('stands beside callers with keys', async () => {
    const { key } = await gateway.createKey('free');
    expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    expect(await codeOf(await gateway.get('/v1/pets', 'a.b.c'))).toBe('invalid_api_key');
  });

  test('is obeyed within a second or two when the keys in the file change', async () => {
    const path = await keyFile(one);
    const other = await gatewayWith(path);
    const token = await one.sign();
    expect((await other.get('/v1/pets', token)).status).toBe(200);
    await writeFile(path, jwksOf(two));
    await eventually(async () => expect(await codeOf(await other.get('/v1/pets', token))).toBe('invalid_api_key'));
    expect((await other.get('/v1/pets', await two.sign())).status).toBe(200);
  });
});

test('without the setting a token is an invalid key, and costs a failed authentication', async () => {
  const gateway = await openGateway({ upstream: upstream.origin });
  const answer = await gateway.get('/v1/pets', await one.sign());
  expect([answer.status, await codeOf(answer)]).toEqual([401, 'invalid_api_key']);
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('29');
});

test('the claim that names the plan may have any name', async () => {
  const gateway = await gatewayWith(await keyFile(one), ", planClaim: 'https://example.com/plan'");
  const answer = await gateway.get('/v1/pets', await one.sign({ plan: 7, 'https://example.com/plan': 'small' }));
  expect(answer.headers.get('x-ratelimit-limit')).toBe('3');
});

describe('503 identity_unavailable', () => {
  test('is the answer while the keys of the issuer are not available, and no failed authentication', async () => {
    const server = await startJwksServer((_request, response) => response.writeHead(500).end());
    const gateway = await gatewayWith(server.url);
    const token = await one.sign();
    for (let i = 0; i < 5; i++) {
      const answer = await gateway.get('/v1/pets', token);
      expect([answer.status, await codeOf(answer)]).toEqual([503, 'identity_unavailable']);
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      expect(answer.headers.get('x-ratelimit-remaining')).toBe('1000');
    }
    // However many tokens come, the issuer is asked once, and again after a pause.
    expect(server.asked).toBeLessThan(4);
    const { key } = await gateway.createKey('free');
    expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    await gateway.process.until(/the keys of the tokens' issuer cannot be fetched/);
  });

  test('ends when an issuer comes that was away at the start, without a restart', async () => {
    const gone = await startJwksServer(() => {});
    await gone.close();
    const gateway = await gatewayWith(gone.url);
    const token = await one.sign();
    expect((await gateway.get('/v1/pets', token)).status).toBe(503);
    await startJwksServer((_request, response) => response.end(jwksOf(one)), gone.port);
    await eventually(async () => expect((await gateway.get('/v1/pets', token)).status).toBe(200));
    await gateway.process.until(/the keys of the tokens' issuer are available again/);
  });

  test('is not the answer to callers whose key was known when the issuer went away', async () => {
    const server = await startJwksServer((_request, response) => response.end(jwksOf(one)));
    const gateway = await gatewayWith(server.url);
    expect((await gateway.get('/v1/pets', await one.sign())).status).toBe(200);
    await server.close();
    expect((await gateway.get('/v1/pets', await one.sign({ jti: 'another' }))).status).toBe(200);
  });
});

test('a flood of tokens with made-up keys is one question to the issuer in 10 s', async () => {
  const server = await startJwksServer((_request, response) => response.end(jwksOf(one)));
  const gateway = await gatewayWith(server.url);
  expect((await gateway.get('/v1/pets', await one.sign())).status).toBe(200);
  const [before, took] = [server.asked, stopwatch()];
  const codes = await Promise.all(
    Array.from({ length: 200 }, async (_, i) =>
      codeOf(await gateway.get('/v1/pets', await two.sign({}, { kid: `${i}` }))),
    ),
  );
  expect(new Set(codes)).toEqual(new Set(['invalid_api_key']));
  expect(server.asked - before).toBeLessThanOrEqual(Math.ceil(took() / 10_000));
});

test('a reload brings an issuer, and one whose keys cannot be used leaves the one before in force', async () => {
  const gateway = await startGateway({ upstream: upstream.origin, plans: PLANS });
  const file = gateway.env.TOLLGATE_CONFIG!;
  const before = await readFile(file, 'utf8');
  const token = await one.sign();
  expect((await gateway.get('/v1/pets', token)).status).toBe(401);
  await writeFile(file, `${before}\n${settings(await keyFile(one))}\n`);
  await eventually(async () => expect((await gateway.get('/v1/pets', token)).status).toBe(200));
  await writeFile(file, `${before}\n${settings('/nowhere/jwks.json')}\n`);
  await gateway.process.until(/new settings rejected/);
  expect((await gateway.get('/v1/pets', token)).status).toBe(200);
});

test('a file of keys that cannot be used is a fault at the start', async () => {
  const path = join(await temporaryFolder(), 'jwks.json');
  await writeFile(path, '{"keys":7}');
  await expect(gatewayWith(path)).rejects.toThrow(/cannot be read as a JSON Web Key Set/);
});

test('signatures of an address that has spent its failed attempts are hardly verified, and a known token passes (reliability 222)', async () => {
  const plans = PLANS.replace('minute: 1000', 'minute: 5');
  const gateway = await openGateway({
    upstream: upstream.origin,
    plans,
    more: settings(await keyFile(one)),
    listen: { trustedProxies: '[127.0.0.1]' },
  });
  const ask = (token: string, address: string) =>
    gateway.get('/v1/pets', token, { headers: { 'X-Forwarded-For': address } });
  const send = async (token: string, address = '192.0.2.1') => (await ask(token, address)).status;
  const known = await one.sign();
  expect(await send(known)).toBe(200);
  // A valid token that the gateway has not seen is refused only because nothing more is verified for the address.
  let [round, fresh] = [0, ''];
  await eventually(async () => {
    round++;
    const pairs = Array.from({ length: 40 }, async (_, i) => {
      const jti = `${round} ${i}`;
      const [wrong, valid] = await Promise.all([two.sign({ jti }, { kid: 'one' }), one.sign({ sub: jti })]);
      const [refused, answer] = await Promise.all([send(wrong), ask(valid, '192.0.2.1')]);
      expect([401, 429]).toContain(refused);
      return { valid, code: answer.status === 200 ? null : await codeOf(answer) };
    });
    const found = (await Promise.all(pairs)).find(({ code }) => code === 'too_many_failed_attempts');
    expect(found).toBeDefined();
    fresh = found!.valid;
  });
  expect(await send(known)).toBe(200);
  expect(await send(await one.sign({ sub: 'eve' }), '192.0.2.2')).toBe(200);
  await eventually(async () => expect(await send(fresh)).toBe(200));
});
