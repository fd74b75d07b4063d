import { createHmac, hash } from 'node:crypto';
import { exportSPKI, importJWK } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
import { jwtConsumerId } from '../../src/identify/api-key.ts';
import { JwtVerifier } from '../../src/identify/jwt.ts';
import { JwtKeys } from '../../src/identify/jwt-keys.ts';
import type { CustomerFound, KnownCustomers } from '../../src/identify/known-customers.ts';
import { Verifications } from '../../src/identify/verifications.ts';
import { AUDIENCE, ISSUER, jwksOf, rawToken, type SigningKey, signingKey } from './jwt-issuer.ts';

let es: SigningKey;
let other: SigningKey;
let rsa: SigningKey;
let nameless: SigningKey;

beforeAll(async () => {
  [es, other, rsa, nameless] = await Promise.all([
    signingKey('one'),
    signingKey('two'),
    signingKey('rsa', 'RS256'),
    signingKey(null),
  ]);
});

const nowSeconds = () => Math.floor(Date.now() / 1000);

/** A verifier that trusts these keys, with clocks that the test turns. */
function verifierOf(
  first: string,
  {
    algorithms = ['ES256'],
    remembered = 100,
    customerClaim = null,
    customers = { of: () => 'unknown' },
  }: {
    algorithms?: string[];
    remembered?: number;
    customerClaim?: string | null;
    customers?: Pick<KnownCustomers, 'of'>;
  } = {},
) {
  const clock = { monotonicMs: 1_000, aheadMs: 0, reads: 0, published: first, isSpent: false };
  const keys = new JwtKeys({
    first,
    read: async () => {
      clock.reads++;
      return clock.published;
    },
    freshMs: 300_000,
    waitMs: 600_000,
    staleMs: 3_600_000,
    cooldownMs: 10_000,
    monotonicMs: () => clock.monotonicMs,
  });
  const verifier = new JwtVerifier({
    rules: { issuer: ISSUER, audience: [AUDIENCE], algorithms, planClaim: 'plan', customerClaim },
    keys,
    customers,
    verifications: new Verifications({
      attempts: { peek: () => ({ limit: 0, remaining: 0, resetAtMs: 0, allowed: !clock.isSpent }) },
      whenSpent: 'refuse',
      monotonicMs: () => clock.monotonicMs,
    }),
    monotonicMs: () => clock.monotonicMs,
    wallMs: () => Date.now() + clock.aheadMs,
    remembered,
  });
  const told = async (token: string) => {
    const identity = await verifier.identify(token, hash('sha256', token), ADDRESS);
    if (identity.kind === 'consumer') return identity.key.id;
    return identity.kind === 'refused' ? `${identity.code}: ${identity.why}` : identity.kind;
  };
  return { verifier, clock, told };
}

const ADDRESS = '192.0.2.1';
const ANN = jwtConsumerId(ISSUER, 'ann');

describe('a token of the issuer', () => {
  test('names its holder and the plan, and nothing of it can be mistaken for an API key', async () => {
    const token = await es.sign();
    const identity = await verifierOf(jwksOf(es)).verifier.identify(token, 'sha', ADDRESS);
    expect(identity).toEqual({
      kind: 'consumer',
      key: {
        id: ANN,
        plan: 'free',
        limits: {},
        name: null,
        owner: null,
        scopes: [],
        onlyFrom: null,
        meta: {},
        customer: null,
      },
      expiresAtMs: expect.any(Number),
    });
    expect(ANN).toMatch(/^jwt_[A-Za-z0-9_-]{32}$/);
  });

  test.each([
    'key_0000000000000000',
    'a\r\nX-Consumer-Plan: pro',
    '{tg:key}',
    'ünïcödé \u{1f600}',
    ' ',
    'a'.repeat(2_000),
  ])('has an id that is safe to write anywhere, whatever its subject is: %j', async (sub) => {
    const id = await verifierOf(jwksOf(es)).told(await es.sign({ sub }));
    expect(id).toMatch(/^jwt_[A-Za-z0-9_-]{32}$/);
    expect(id).not.toBe(ANN);
  });

  test('is the same caller as every other one of its subject, and the subject of another issuer is another', async () => {
    const { told } = verifierOf(jwksOf(es, other));
    expect(await told(await es.sign({ jti: '1' }))).toBe(ANN);
    expect(await told(await other.sign({ jti: '2', plan: 'pro' }))).toBe(ANN);
    expect(jwtConsumerId('https://other.example', 'ann')).not.toBe(ANN);
    expect(jwtConsumerId('https://id.example.com/"', '"ann')).not.toBe(
      jwtConsumerId('https://id.example.com/', '""ann'),
    );
  });

  test.each([
    ['one of several audiences', { aud: ['https://elsewhere.example', AUDIENCE] }],
    ['no iat', { iat: undefined }],
    ['issued and valid from a moment ago', { nbf: nowSeconds() - 1 }],
  ])('is accepted with %s', async (_what, claims) => {
    expect(await verifierOf(jwksOf(es)).told(await es.sign(claims))).toBe(ANN);
  });

  test('that names no key is tried against the keys of its type, and no more than four (reliability 355)', async () => {
    const token = await nameless.sign();
    const others = [es, other, await signingKey('three'), await signingKey('four')];
    expect(await verifierOf(jwksOf(nameless)).told(token)).toBe(ANN);
    expect(await verifierOf(jwksOf(...others.slice(0, 3), nameless)).told(token)).toBe(ANN);
    expect(await verifierOf(jwksOf(await signingKey('rsa', 'RS256'), es, nameless)).told(token)).toBe(ANN);
    expect(await verifierOf(jwksOf(...others, nameless)).told(token)).toBe('invalid_api_key: signature');
    expect(await verifierOf(jwksOf(es, other)).told(token)).toBe('invalid_api_key: signature');
    expect(await verifierOf(jwksOf(await signingKey('rsa', 'RS256'))).told(token)).toBe('invalid_api_key: unknown_key');
  });

  test('that names no key is accepted once its issuer has another key, and at most one reading in 10 s looks for it (reliability 331)', async () => {
    const { clock, told } = verifierOf(jwksOf(es));
    const token = await nameless.sign();
    clock.published = jwksOf(nameless);
    // The keys have been read just now.
    expect(await told(token)).toBe('invalid_api_key: signature');
    expect(clock.reads).toBe(0);
    clock.monotonicMs += 10_000;
    expect(await told(token)).toBe(ANN);
    expect(clock.reads).toBe(1);
    clock.monotonicMs += 9_999;
    const wrong = await signingKey(null);
    for (let i = 0; i < 3; i++)
      expect(await told(await wrong.sign({ jti: `${i}` }))).toBe('invalid_api_key: signature');
    expect(clock.reads).toBe(1);
    clock.monotonicMs++;
    for (let i = 3; i < 6; i++)
      expect(await told(await wrong.sign({ jti: `${i}` }))).toBe('invalid_api_key: signature');
    expect(clock.reads).toBe(2);
  });

  test('with a wrong signature gets 401 while its issuer is away; one that names a known key has no keys read', async () => {
    const { clock, told } = verifierOf(jwksOf(es));
    clock.monotonicMs += 10_000;
    clock.published = '{';
    expect(await told(await nameless.sign())).toBe('invalid_api_key: signature');
    expect(clock.reads).toBe(1);
    const named = verifierOf(jwksOf(es));
    named.clock.monotonicMs += 10_000;
    named.clock.published = jwksOf(nameless);
    expect(await named.told(await nameless.sign({}, { kid: 'one' }))).toBe('invalid_api_key: signature');
    expect(named.clock.reads).toBe(0);
  });

  test('is accepted where two keys have its name, whichever of them signed it', async () => {
    const twin = await signingKey('one');
    const { told } = verifierOf(jwksOf(es, twin));
    expect(await told(await es.sign())).toBe(ANN);
    expect(await told(await twin.sign())).toBe(ANN);
    expect(await told(await (await signingKey('one')).sign())).toBe('invalid_api_key: signature');
  });

  test('counts by the last of two members of one name, as RFC 7519 section 4 allows, and never by both', async () => {
    const { told } = verifierOf(jwksOf(es));
    const claims = (more: string) =>
      `{"iss":"${ISSUER}","aud":"${AUDIENCE}","plan":"free","exp":${nowSeconds() + 60},${more}}`;
    const header = '{"alg":"none","alg":"ES256","kid":"two","kid":"one"}';
    expect(await told(await es.signTexts(header, claims('"sub":"bob","sub":"ann"')))).toBe(ANN);
    const reversed = '{"alg":"ES256","alg":"none","kid":"one"}';
    expect(await told(await es.signTexts(reversed, claims('"sub":"ann"')))).toBe('invalid_api_key: algorithm');
    const past = '"sub":"ann","exp":1';
    expect(await told(await es.signTexts(header, claims(past)))).toBe('expired_api_key: expired');
  });
});

describe('a token is refused', () => {
  test.each<[string, string, object, object?]>([
    ['for another audience', 'invalid_api_key: audience', { aud: 'https://elsewhere.example' }],
    ['whose audience only begins like ours', 'invalid_api_key: audience', { aud: `${AUDIENCE}.evil.example` }],
    ['without an audience', 'invalid_api_key: audience', { aud: undefined }],
    ['of another issuer', 'invalid_api_key: issuer', { iss: 'https://id.example.com' }],
    ['without an issuer', 'invalid_api_key: issuer', { iss: undefined }],
    ['that has expired', 'expired_api_key: expired', { exp: nowSeconds() - 1 }],
    ['without an end', 'invalid_api_key: no_expiry', { exp: undefined }],
    ['whose end is a word', 'invalid_api_key: no_expiry', { exp: 'tomorrow' }],
    ['that is valid only later', 'invalid_api_key: not_yet', { nbf: nowSeconds() + 60 }],
    ['that is issued only later', 'invalid_api_key: not_yet', { iat: nowSeconds() + 60 }],
    ['whose issue is a word', 'invalid_api_key: not_yet', { iat: 'now' }],
    ['without a subject', 'invalid_api_key: subject', { sub: undefined }],
    ['with an empty subject', 'invalid_api_key: subject', { sub: '' }],
    ['whose subject is a number', 'invalid_api_key: subject', { sub: 7 }],
    ['without a plan', 'invalid_api_key: plan', { plan: undefined }],
    ['whose plan is a list', 'invalid_api_key: plan', { plan: ['free'] }],
    ['with a `kid` that nobody has', 'invalid_api_key: unknown_key', {}, { kid: 'three' }],
    ['with a `kid` that is a property of every object', 'invalid_api_key: unknown_key', {}, { kid: '__proto__' }],
  ])('%s', async (_what, expected, claims, header = {}) => {
    expect(await verifierOf(jwksOf(es)).told(await es.sign(claims, header))).toBe(expected);
  });

  test('with the `kid` of another key', async () => {
    expect(await verifierOf(jwksOf(es, other)).told(await other.sign({}, { kid: 'one' }))).toBe(
      'invalid_api_key: signature',
    );
  });

  test('with a claim that was changed after it was signed', async () => {
    const [header, , signature] = (await es.sign()).split('.');
    const claims = { iss: ISSUER, aud: AUDIENCE, sub: 'ann', plan: 'enterprise', exp: nowSeconds() + 60 };
    const forged = `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`;
    expect(await verifierOf(jwksOf(es)).told(forged)).toBe('invalid_api_key: signature');
  });

  test('under `alg: none`, in any case, with a signature or without', async () => {
    const { told } = verifierOf(jwksOf(es));
    const claims = { iss: ISSUER, aud: AUDIENCE, sub: 'ann', plan: 'free', exp: nowSeconds() + 60 };
    for (const alg of ['none', 'None', 'NONE', '', undefined, null, 0, ['ES256']]) {
      for (const signature of ['', 'AAAA']) {
        expect(await told(rawToken({ alg, kid: 'one' }, claims, signature))).toMatch(
          /^invalid_api_key: (algorithm|malformed)$/,
        );
      }
    }
  });

  test('signed with the public key as the secret of an HMAC (algorithm confusion, RFC 8725 section 2.1)', async () => {
    const pem = await exportSPKI((await importJWK(rsa.jwk, 'RS256')) as CryptoKey);
    const claims = { iss: ISSUER, aud: AUDIENCE, sub: 'ann', plan: 'free', exp: nowSeconds() + 60 };
    const { told } = verifierOf(jwksOf(rsa), { algorithms: ['RS256'] });
    for (const secret of [pem, pem.trim(), JSON.stringify(rsa.jwk), Buffer.from(rsa.jwk.n!, 'base64url')]) {
      const unsigned = rawToken({ alg: 'HS256', kid: 'rsa' }, claims).slice(0, -1);
      const signature = createHmac('sha256', secret).update(unsigned).digest('base64url');
      expect(await told(`${unsigned}.${signature}`)).toBe('invalid_api_key: algorithm');
    }
  });

  test('signed with a good key in a way that the settings do not name', async () => {
    expect(await verifierOf(jwksOf(es, rsa)).told(await rsa.sign())).toBe('invalid_api_key: algorithm');
    const { told } = verifierOf(jwksOf(es, rsa), { algorithms: ['ES256', 'RS256'] });
    expect(await told(await rsa.sign())).toBe(ANN);
  });

  test('that brings its own key, or says where it is', async () => {
    const mine = await signingKey('one');
    const { told } = verifierOf(jwksOf(es));
    for (const header of [
      { jwk: mine.jwk },
      { jku: 'http://127.0.0.1:1/keys' },
      { x5u: 'http://127.0.0.1:1/x' },
      { x5c: ['AAAA'] },
    ])
      expect(await told(await mine.sign({}, header))).toBe('invalid_api_key: signature');
  });

  test('with a critical header that nobody here understands (RFC 7515 section 4.1.11)', async () => {
    const { told } = verifierOf(jwksOf(es));
    const claims = { iss: ISSUER, aud: AUDIENCE, sub: 'ann', plan: 'free', exp: nowSeconds() + 60 };
    for (const crit of [['x'], ['b64'], ['exp'], [], 'x', null]) {
      const header = { alg: 'ES256', kid: 'one', crit, x: 1, b64: false, exp: 1 };
      expect(await told(rawToken(header, claims, 'A'.repeat(86)))).toMatch(/^invalid_api_key: (malformed|signature)$/);
    }
  });

  test.each([
    ['a header that is no JSON', rawToken('{', {})],
    ['a header that is a list', rawToken([], {})],
    ['a header of two bytes that are no UTF-8', `__8.${rawToken({}, {}).split('.')[1]}.AA`],
    ['claims that are no JSON', rawToken({ alg: 'ES256', kid: 'one' }, '{', 'A'.repeat(86))],
    ['an empty signature', rawToken({ alg: 'ES256', kid: 'one' }, {}, '')],
    ['a signature that is too long', rawToken({ alg: 'ES256', kid: 'one' }, {}, 'A'.repeat(860))],
    ['nothing but dots', 'a.b.c'],
  ])('with %s', async (_what, token) => {
    expect(await verifierOf(jwksOf(es)).told(token)).toMatch(/^invalid_api_key: (malformed|algorithm|signature)$/);
  });

  test('longer than 8 KiB, although it is good, and without looking at its signature', async () => {
    const { told } = verifierOf(jwksOf(es));
    const fill = (length: number) => es.sign({ fill: 'a'.repeat(length) });
    expect(await told(await fill(5_500))).toBe(ANN);
    expect(await told(await fill(6_200))).toBe('invalid_api_key: too_long');
  });
});

describe('clocks', () => {
  test('of the issuer may be 10 s ahead, for the begin of a token', async () => {
    const { told } = verifierOf(jwksOf(es));
    expect(await told(await es.sign({ iat: nowSeconds() + 9, nbf: nowSeconds() + 9 }))).toBe(ANN);
    expect(await told(await es.sign({ nbf: nowSeconds() + 13 }))).toBe('invalid_api_key: not_yet');
    expect(await told(await es.sign({ iat: nowSeconds() + 13 }))).toBe('invalid_api_key: not_yet');
  });

  test('make no token live longer than it says, not even one that was verified a moment ago', async () => {
    const { told, clock } = verifierOf(jwksOf(es));
    const token = await es.sign({ exp: nowSeconds() + 60 });
    expect(await told(token)).toBe(ANN);
    clock.aheadMs = 61_000;
    expect(await told(token)).toBe('expired_api_key: expired');
    expect(await told(await es.sign({ exp: nowSeconds() + 60 }))).toBe('expired_api_key: expired');
  });
});

describe('a verified token', () => {
  test('is believed at once when it comes again, and verified again after five minutes', async () => {
    const { verifier, clock } = verifierOf(jwksOf(es));
    const token = await es.sign({ exp: nowSeconds() + 100_000 });
    const first = await verifier.identify(token, 'sha', ADDRESS);
    expect(verifier.identify(token, 'sha', ADDRESS)).toBe(first);
    clock.monotonicMs += 299_000;
    expect(verifier.identify(token, 'sha', ADDRESS)).toBe(first);
    clock.monotonicMs += 2_000;
    expect(verifier.identify(token, 'sha', ADDRESS)).toBeInstanceOf(Promise);
  });

  test('is not believed once its key is no longer published', async () => {
    const { told, clock } = verifierOf(jwksOf(es));
    const token = await es.sign();
    expect(await told(token)).toBe(ANN);
    clock.published = jwksOf(other);
    clock.monotonicMs += 10_000;
    expect(await told(await other.sign())).toBe(ANN);
    expect(await told(token)).toBe('invalid_api_key: unknown_key');
  });

  test('is verified once, however many requests bring it at the same time', async () => {
    const { verifier } = verifierOf(jwksOf(es));
    const token = await es.sign();
    const both = [verifier.identify(token, 'sha', ADDRESS), verifier.identify(token, 'sha', ADDRESS)];
    expect(both[0]).toBe(both[1]);
    await Promise.all(both);
  });

  test('does not fill the memory: the least recently used is forgotten', async () => {
    const { verifier } = verifierOf(jwksOf(es), { remembered: 1 });
    const [one, two] = [await es.sign({ jti: '1' }), await es.sign({ jti: '2' })];
    await verifier.identify(one, '1', ADDRESS);
    await verifier.identify(two, '2', ADDRESS);
    expect(verifier.identify(two, '2', ADDRESS)).not.toBeInstanceOf(Promise);
    expect(verifier.identify(one, '1', ADDRESS)).toBeInstanceOf(Promise);
  });
});

describe('the token of an address that has spent its failed attempts (reliability 222)', () => {
  /** Uses up the failures that are verified all the same. */
  async function spent(...keys: SigningKey[]) {
    const all = verifierOf(jwksOf(...keys));
    all.clock.isSpent = true;
    for (let i = 0; i < 10; i++) await all.told(`${await other.sign({ jti: String(i) }, { kid: 'one' })}`);
    return all;
  }

  test('is not verified beyond a few failures a second, and is neither refused for good nor accepted', async () => {
    const { told, clock } = await spent(es);
    const good = await es.sign();
    expect(await told(await other.sign({}, { kid: 'one' }))).toBe('unverified');
    expect(await told(good)).toBe('unverified');
    clock.monotonicMs += 1_000;
    expect(await told(good)).toBe(ANN);
  });

  test('passes if it was verified before, because nothing is verified', async () => {
    const { told, clock, verifier } = verifierOf(jwksOf(es));
    const good = await es.sign();
    expect(await told(good)).toBe(ANN);
    clock.isSpent = true;
    for (let i = 0; i < 20; i++) await told(await other.sign({ jti: String(i) }, { kid: 'one' }));
    expect(verifier.identify(good, hash('sha256', good), ADDRESS)).toMatchObject({ kind: 'consumer' });
  });

  test('that is wrong and comes again is refused without being verified, until a minute has passed', async () => {
    const { verifier, clock } = verifierOf(jwksOf(es));
    const wrong = await other.sign({}, { kid: 'one' });
    expect(await verifier.identify(wrong, 'sha', ADDRESS)).toMatchObject({ why: 'signature' });
    expect(verifier.identify(wrong, 'sha', ADDRESS)).toMatchObject({ why: 'signature' });
    clock.monotonicMs += 61_000;
    expect(verifier.identify(wrong, 'sha', ADDRESS)).toBeInstanceOf(Promise);
  });
});

test.each<[object, readonly string[], object | null]>([
  [{ scope: 'a  b a' }, ['a', 'b'], null],
  [{ scp: ['a b', 7, 'c'] }, ['a', 'b', 'c'], null],
  [{ scope: 'a', scp: 'b' }, ['a'], null],
  [{ scope: 7 }, [], null],
  [{ cnf: { 'x5t#S256': 'thumbprint' } }, [], { boundTo: 'thumbprint' }],
  [{ cnf: { 'x5t#S256': 7 } }, [], { boundTo: '' }],
  [{ cnf: { jkt: 'thumbprint' } }, [], null],
  [{ cnf: null }, [], null],
  [{ cnf: 'x5t#S256' }, [], null],
])('a token with %j has the scopes %j and can be used from %j', async (claims, scopes, onlyFrom) => {
  const identity = await verifierOf(jwksOf(es)).verifier.identify(await es.sign(claims), 'sha', ADDRESS);
  expect(identity).toMatchObject({ kind: 'consumer', key: { scopes, onlyFrom } });
});

describe('a token that names its customer', () => {
  const more = { scopes: [], onlyFrom: null, meta: {} };
  const acme = { id: 'cus_acme', name: 'Acme', owner: null, plan: 'pro', limits: { minute: 9 }, ...more };
  const found = new Map<string, CustomerFound>([
    ['cus_acme', acme],
    ['cus_late', 'expired'],
    ['cus_away', 'unavailable'],
  ]);
  const customers = { of: (id: string) => found.get(id) ?? 'unknown' };
  const options = { customerClaim: 'org', customers };

  test('has its plan, whatever else the token says, as the same consumer while the customer does not change', async () => {
    const { verifier } = verifierOf(jwksOf(es), options);
    const token = await es.sign({ org: 'cus_acme', plan: 'free' });
    const ask = () => verifier.identify(token, 'sha', ADDRESS);
    const identity = await ask();
    const nothing = { name: null, owner: null, scopes: [], onlyFrom: null, meta: {} };
    const key = { id: ANN, plan: 'pro', limits: {}, ...nothing, customer: acme };
    expect(identity).toEqual({ kind: 'consumer', key, expiresAtMs: expect.any(Number) });
    expect(ask()).toBe(identity);
    found.set('cus_acme', { ...acme, plan: 'business' });
    expect(ask()).toMatchObject({ key: { plan: 'business' } });
    found.set('cus_acme', acme);
    // It may have to be looked up first.
    const lookedUp = verifierOf(jwksOf(es), { ...options, customers: { of: async (id) => customers.of(id) } });
    await lookedUp.verifier.identify(token, 'sha', ADDRESS);
    expect(await lookedUp.verifier.identify(token, 'sha', ADDRESS)).toEqual(identity);
  });

  test.each([
    ['cus_none', 'invalid_api_key: customer'],
    ['', 'invalid_api_key: customer'],
    [['cus_acme'], 'invalid_api_key: customer'],
    [null, 'invalid_api_key: customer'],
    ['cus_late', 'expired_api_key: customer_expired'],
    ['cus_away', 'customer_unavailable'],
  ])('as %j is refused: %s', async (org, expected) => {
    expect(await verifierOf(jwksOf(es), options).told(await es.sign({ org }))).toBe(expected);
  });

  test('has the scopes and the metadata of the customer beside its own, and no more after they are taken away', async () => {
    const { verifier } = verifierOf(jwksOf(es), options);
    const token = await es.sign({ org: 'cus_acme', scope: 'a b' });
    const ask = () => verifier.identify(token, 'sha', ADDRESS);
    found.set('cus_acme', { ...acme, scopes: ['b', 'c'], meta: { team: 'blue' } });
    expect(await ask()).toMatchObject({ key: { scopes: ['a', 'b', 'c'], meta: { team: 'blue' } } });
    found.set('cus_acme', acme);
    expect(ask()).toMatchObject({ key: { scopes: ['a', 'b'], meta: {} } });
  });

  test('is suspended with the customer, and the same consumer after it', async () => {
    const { verifier } = verifierOf(jwksOf(es), options);
    const token = await es.sign({ org: 'cus_acme' });
    const ask = async () => (await verifier.identify(token, 'sha', ADDRESS)) as { kind: string; key: unknown };
    const { key } = await ask();
    found.set('cus_acme', { suspended: acme });
    expect(await ask()).toMatchObject({ kind: 'suspended', key: { id: ANN, plan: 'pro' } });
    expect((await ask()).key).toBe(key);
    found.set('cus_acme', acme);
    expect(await ask()).toMatchObject({ kind: 'consumer' });
  });

  test('needs no plan of its own, and one without the claim does', async () => {
    const { told } = verifierOf(jwksOf(es), options);
    expect(await told(await es.sign({ org: 'cus_acme', plan: undefined }))).toBe(ANN);
    expect(await told(await es.sign())).toBe(ANN);
    expect(await told(await es.sign({ plan: undefined }))).toBe('invalid_api_key: plan');
  });

  test('is none where the settings name no claim', async () => {
    const identity = await verifierOf(jwksOf(es), { customers }).verifier.identify(
      await es.sign({ org: 'cus_acme' }),
      'sha',
      ADDRESS,
    );
    expect(identity).toMatchObject({ key: { plan: 'free', customer: null } });
  });
});
