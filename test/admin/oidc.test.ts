import { createHmac, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { exportSPKI, importJWK } from 'jose';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { OidcSignIn } from '../../src/admin/oidc.ts';
import { oidcSchema } from '../../src/config/identification.ts';
import { rawToken, signingKey } from '../identify/jwt-issuer.ts';
import { freePort } from '../support/free-port.ts';
import type { TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { SAME_ORIGIN, type Seen, send, signIn } from './browser.ts';
import { CLIENT, OpenIdProvider } from './openid-provider.ts';
import { ask, auditLines, openWithAdmin, STORES, TOKEN } from './operator.ts';

const embedded = STORES['the embedded store']!;

async function settingsFor(issuer: string, more = ''): Promise<{ readonly oidc: string }> {
  const clientSecretFile = join(await temporaryFolder(), 'secret');
  await writeFile(clientSecretFile, CLIENT.secret, { mode: 0o600 });
  const roles = '{ gateway-admins: admin, support: operator, staff: viewer }';
  const client = `clientId: ${CLIENT.id}, clientSecretFile: '${clientSecretFile}'`;
  return { oidc: `{ issuer: '${issuer}', ${client}, roles: ${roles}${more} }` };
}

/** A browser at the sign-in page of a gateway: it keeps one cookie of a sign-in, and sends what browsers send. */
class SignInPage {
  readonly #origin: string;
  cookie: string | null = null;

  constructor({ adminPort }: Pick<TestGateway, 'adminPort'>) {
    this.#origin = `http://127.0.0.1:${adminPort}`;
  }

  get fields() {
    return { ...SAME_ORIGIN, Origin: this.#origin, ...(this.cookie === null ? {} : { Cookie: this.cookie }) };
  }

  async begin(): Promise<Seen> {
    const told = await send(`${this.#origin}/admin/session/oidc`, 'POST', this.fields);
    const [field] = told.headers['set-cookie'] ?? [];
    if (field !== undefined) this.cookie = field.split(';')[0]!;
    return told;
  }

  /** @param back where the provider has sent the browser */
  end(back: string, fields: object = {}): Promise<Seen> {
    const body = { oidc: new URL(back).search.slice(1) };
    return send(`${this.#origin}/admin/session`, 'POST', { ...this.fields, ...fields }, { body });
  }

  /** The whole sign-in. */
  async signIn(provider: OpenIdProvider): Promise<Seen> {
    const { body } = await this.begin();
    return this.end(provider.consent(body.url));
  }
}

let provider: OpenIdProvider;
let gateway: TestGateway;
const codesOf = ({ status, body }: Seen) => [status, body.code];
const REFUSED = [401, 'invalid_admin_token'];

describe('a sign-in at an OpenID provider', () => {
  beforeAll(async () => {
    provider = await OpenIdProvider.start();
    // Without a token: the provider alone switches the API and the console on.
    gateway = await openWithAdmin(
      { ...(await embedded()), ADMIN_TOKEN: '' },
      { admin: await settingsFor(provider.issuer) },
    );
  });
  beforeEach(() => {
    Object.assign(provider, {
      account: { sub: 'u-1', email: 'jo@example.com', email_verified: true, groups: ['staff', 'support'] },
      idToken: (claims: object) => provider.key.sign(claims),
      instead: () => false,
    });
  });

  test('begins a session with the name and the highest role of the claims, and the page knows that it is there', async () => {
    const origin = `http://127.0.0.1:${gateway.adminPort}`;
    const before = await send(`${origin}/admin/session`);
    expect([before.status, before.body.oidc]).toEqual([401, { name: 'single sign-on' }]);
    const page = new SignInPage(gateway);
    const begun = await page.begin();
    const asked = new URL(begun.body.url).searchParams;
    expect(Object.fromEntries(asked)).toMatchObject({
      client_id: CLIENT.id,
      response_type: 'code',
      redirect_uri: `${origin}/console/sign-in`,
      scope: 'openid profile email',
      code_challenge_method: 'S256',
    });
    expect(String(begun.headers['set-cookie'])).toMatch(
      /^tollgate-sign-in=\d{10}-[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=600$/,
    );
    const told = await page.end(provider.consent(begun.body.url));
    expect(told).toMatchObject({
      status: 200,
      body: { name: 'jo@example.com', role: 'operator', via: 'session', idleSeconds: 1800 },
    });
    const [session, cleared] = told.headers['set-cookie'] as string[];
    expect(session).toMatch(/^tollgate=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/$/);
    expect(cleared).toMatch(/^tollgate-sign-in=; .*Max-Age=0$/);
    const signedIn = { ...SAME_ORIGIN, Cookie: session!.split(';')[0]! };
    expect((await send(`${origin}/admin/session`, 'GET', signedIn)).body.name).toBe('jo@example.com');
    expect((await send(`${origin}/admin/session`, 'DELETE', signedIn)).body).toEqual({ ended: 1 });
    expect((await send(`${origin}/admin/session`, 'GET', signedIn)).status).toBe(401);
  });

  test('changes keys as a person, and the secret and the code are in no log', async () => {
    const { headers } = await new SignInPage(gateway).signIn(provider);
    const [session] = headers['set-cookie'] as string[];
    const signedIn = { ...SAME_ORIGIN, Cookie: session!.split(';')[0]! };
    const { id } = await gateway.createKey('free');
    const origin = `http://127.0.0.1:${gateway.adminPort}`;
    const body = { owner: 'o' };
    expect((await send(`${origin}/admin/keys/${id}`, 'PATCH', signedIn, { body })).status).toBe(200);
    const { body: record } = await send(`${origin}/admin/audit?actor=jo@example.com`, 'GET', signedIn);
    expect(record.changes[0]).toMatchObject({
      actor: { kind: 'person', name: 'jo@example.com' },
      action: 'key.update',
    });
    expect(auditLines(gateway)).toContainEqual(
      expect.objectContaining({ action: 'admin.access', outcome: 'done', actor: 'jo@example.com' }),
    );
    expect(gateway.process.stdout).not.toContain(CLIENT.secret);
  });

  test('takes from the UserInfo endpoint what the ID token lacks, and no other than that', async () => {
    provider.account = { sub: 'u-1', email: 'jo@example.com' };
    provider.userInfo = { sub: 'u-1', email: 'other@example.com', groups: ['gateway-admins'] };
    const told = await new SignInPage(gateway).signIn(provider);
    expect(told.body).toMatchObject({ name: 'jo@example.com', role: 'admin' });
    provider.userInfo = { sub: 'u-2', groups: ['gateway-admins'] };
    expect(codesOf(await new SignInPage(gateway).signIn(provider))).toEqual([403, 'forbidden']);
  });

  test('is 403 for who has no group of the settings, no name or no verified address, and for who did not agree', async () => {
    for (const [account, why] of [
      [{ groups: ['other'] }, 'The claim "groups" of your account at the provider gives no role on this gateway.'],
      [{ groups: undefined }, 'gives no role'],
      [{ groups: ['constructor', '__proto__'] }, 'gives no role'],
      [{ email: undefined }, 'There is no name in the claim "email"'],
      [{ email_verified: false }, 'has not verified your email address'],
    ] as const) {
      provider.account = { sub: 'u-1', email: 'jo@example.com', groups: ['staff'], ...account };
      const told = await new SignInPage(gateway).signIn(provider);
      expect([codesOf(told), told.headers['set-cookie']]).toEqual([[403, 'forbidden'], undefined]);
      expect(told.body.message).toContain(why);
    }
    const page = new SignInPage(gateway);
    const { url } = (await page.begin()).body;
    const back = new URL(provider.consent(url));
    back.searchParams.delete('code');
    back.searchParams.set('error', 'access_denied');
    back.searchParams.set('error_description', 'Call 0900-EVIL');
    const told = await page.end(back.href);
    expect([told.status, told.body.message]).toEqual([403, 'The provider has refused the sign-in (access_denied).']);
  });

  test('that began on one gateway ends on another one', async () => {
    const other = await openWithAdmin(await embedded(), { admin: await settingsFor(provider.issuer) });
    const page = new SignInPage(gateway);
    const { url } = (await page.begin()).body;
    const there = new SignInPage(other);
    there.cookie = page.cookie;
    // The name of the console is that of all gateways behind it.
    const told = await there.end(provider.consent(url), { Origin: page.fields.Origin });
    expect([told.status, told.body.name]).toEqual([200, 'jo@example.com']);
  });
});

describe('an attack on a sign-in at an OpenID provider', () => {
  beforeEach(async () => {
    provider = await OpenIdProvider.start();
    // Each of its own, because ten wrong ones in a minute are 429.
    gateway = await openWithAdmin(await embedded(), { admin: await settingsFor(provider.issuer) });
  });

  test('with the response to a sign-in of another browser, or to none, is refused (reliability 505)', async () => {
    const [own, other] = [new SignInPage(gateway), new SignInPage(gateway)];
    const [mine, theirs] = [(await own.begin()).body.url, (await other.begin()).body.url];
    const [back, foreign] = [provider.consent(mine), provider.consent(theirs)];
    const swapped = new URL(back);
    swapped.searchParams.set('code', new URL(foreign).searchParams.get('code')!);
    const without = new URL(back);
    without.searchParams.delete('state');
    const twice = new URL(back);
    twice.searchParams.append('state', 'other');
    for (const [what, response] of [
      ['of another browser', foreign],
      ['without state', without.href],
      ['with two states', twice.href],
      ['with the code of another browser', swapped.href],
    ] as const) {
      expect([what, ...codesOf(await own.end(response))]).toEqual([what, ...REFUSED]);
    }
    const { cookie } = own;
    own.cookie = null;
    expect(codesOf(await own.end(back))).toEqual(REFUSED);
    own.cookie = `${cookie}; ${other.cookie}`;
    expect(codesOf(await own.end(back))).toEqual(REFUSED);
    own.cookie = cookie;
    expect((await own.end(back)).status).toBe(200);
    expect(codesOf(await own.end(back))).toEqual(REFUSED);
  });

  test('from a page of another origin, or from no page, is refused (reliability 505)', async () => {
    const page = new SignInPage(gateway);
    const back = provider.consent((await page.begin()).body.url);
    const elsewhere = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' };
    expect(codesOf(await page.end(back, elsewhere))).toEqual([403, 'cross_origin']);
    const url = `http://127.0.0.1:${gateway.adminPort}/admin/session/oidc`;
    expect(codesOf(await send(url, 'POST', { ...SAME_ORIGIN, ...elsewhere }))).toEqual([403, 'cross_origin']);
    expect(codesOf(await send(url, 'POST', { 'Content-Type': 'application/json' }))).toEqual([400, 'invalid_request']);
    expect(codesOf(await send(url))).toEqual([405, 'method_not_allowed']);
    expect((await page.end(back)).status).toBe(200);
  });

  test('with the response of another provider is refused (reliability 505)', async () => {
    const page = new SignInPage(gateway);
    const { url } = (await page.begin()).body;
    for (const iss of ['https://evil.example', null]) {
      const back = new URL(provider.consent(url));
      if (iss === null) back.searchParams.delete('iss');
      else back.searchParams.set('iss', iss);
      expect([iss, ...codesOf(await page.end(back.href))]).toEqual([iss, ...REFUSED]);
    }
    expect(provider.asked).not.toContain('POST /token');
  });

  test('more than ten minutes after its begin, or from the future, is refused (reliability 505)', async () => {
    const settings = oidcSchema.parse({ issuer: provider.issuer, clientId: 'c', roles: { staff: 'viewer' } });
    const clock = { nowMs: Date.now() };
    const oidc = new OidcSignIn({
      settings,
      clientSecret: null,
      random: randomBytes,
      nowMs: () => clock.nowMs,
      onTrouble: () => {},
    });
    const begun = await oidc.begin('http://127.0.0.1/console/sign-in');
    if (!('url' in begun)) throw new Error(begun.why);
    const query = new URL(provider.consent(begun.url)).search.slice(1);
    const end = () => oidc.end(begun.secret, 'http://127.0.0.1/console/sign-in', query);
    for (const laterMs of [601_000, -3_600_000]) {
      clock.nowMs += laterMs;
      expect(await end()).toMatchObject({
        kind: 'refused',
        why: expect.stringContaining('did not begin in this browser'),
      });
      clock.nowMs -= laterMs;
    }
    expect(provider.asked).toEqual(['GET /.well-known/openid-configuration']);
  });

  test('with an ID token that the provider would not make for this sign-in is refused (reliability 506)', async () => {
    const other = await signingKey('one', 'RS256');
    const { key } = provider;
    const pem = await exportSPKI((await importJWK(key.jwk, 'RS256')) as CryptoKey);
    const now = Math.floor(Date.now() / 1000);
    const hs256 = (claims: object) => {
      const unsigned = rawToken({ alg: 'HS256', kid: 'one' }, claims).slice(0, -1);
      return `${unsigned}.${createHmac('sha256', pem).update(unsigned).digest('base64url')}`;
    };
    const wrong: readonly (readonly [string, OpenIdProvider['idToken']])[] = [
      ['alg none', (claims) => rawToken({ alg: 'none' }, claims)],
      ['alg none with a kid', (claims) => rawToken({ alg: 'none', kid: 'one' }, claims, 'AAAA')],
      ['HS256 with the public key', hs256],
      ['another key', (claims) => other.sign(claims)],
      ['no signature', (claims) => rawToken({ alg: 'RS256', kid: 'one' }, claims)],
      ['another nonce', (claims) => key.sign({ ...claims, nonce: 'x' })],
      ['no nonce', (claims) => key.sign({ ...claims, nonce: undefined })],
      ['another audience', (claims) => key.sign({ ...claims, aud: 'other-client' })],
      [
        'this audience and another one, for another client',
        (claims) => key.sign({ ...claims, aud: [CLIENT.id, 'o'], azp: 'o' }),
      ],
      ['another issuer', (claims) => key.sign({ ...claims, iss: 'https://evil.example' })],
      ['expired', (claims) => key.sign({ ...claims, exp: now - 60 })],
      ['without exp', (claims) => key.sign({ ...claims, exp: undefined })],
      ['not yet', (claims) => key.sign({ ...claims, nbf: now + 300 })],
      ['no token', () => 'jo@example.com'],
    ];
    const gateways = [gateway, await openWithAdmin(await embedded(), { admin: await settingsFor(provider.issuer) })];
    for (const [i, [what, idToken]] of wrong.entries()) {
      provider.idToken = idToken;
      const told = await new SignInPage(gateways[i % 2]!).signIn(provider);
      expect([what, ...codesOf(told), told.headers['set-cookie']]).toEqual([what, ...REFUSED, undefined]);
    }
    provider.idToken = (claims) => key.sign(claims);
    expect((await new SignInPage(gateway).signIn(provider)).status).toBe(200);
  });

  test('by wrong responses without end is answered late and then with 429, and asks the provider nothing (reliability 508)', async () => {
    const page = new SignInPage(gateway);
    const tried = await Promise.all(Array.from({ length: 12 }, () => page.end('http://x/?code=a&state=b')));
    expect(tried.filter(({ status }) => status === 429)).toHaveLength(2);
    expect(provider.asked).toEqual([]);
    // A token signs in all the same, and so does a person.
    await signIn(`http://127.0.0.1:${gateway.adminPort}`, TOKEN);
    expect((await page.signIn(provider)).status).toBe(200);
  });

  test('by more sign-ins than the gateway asks the provider for at a time is 503 busy (reliability 508)', async () => {
    const held = Promise.withResolvers<void>();
    provider.instead = (_, response) => {
      void held.promise.then(() => response.writeHead(500).end());
      return true;
    };
    const begun = Array.from({ length: 8 }, () => new SignInPage(gateway).begin());
    while (provider.asked.length === 0) await delay(5);
    expect(codesOf(await new SignInPage(gateway).begin())).toEqual([503, 'busy']);
    held.resolve();
    for (const told of await Promise.all(begun)) expect(codesOf(told)).toEqual([503, 'identity_unavailable']);
    expect(provider.asked).toEqual(['GET /.well-known/openid-configuration']);
  });

  test('by a person with the name of a token ends no session of that token (reliability 509)', async () => {
    provider.account = { sub: 'u-1', email: 'ADMIN_TOKEN', groups: ['staff'] };
    const { headers } = await new SignInPage(gateway).signIn(provider);
    const [session] = headers['set-cookie'] as string[];
    const origin = `http://127.0.0.1:${gateway.adminPort}`;
    const token = { ...SAME_ORIGIN, Cookie: await signIn(origin, TOKEN) };
    const person = { ...SAME_ORIGIN, Cookie: session!.split(';')[0]! };
    expect((await send(`${origin}/admin/session?everywhere=true`, 'DELETE', person)).body).toEqual({ ended: 1 });
    expect((await send(`${origin}/admin/session`, 'GET', token)).status).toBe(200);
  });
});

describe('a provider that cannot be used', () => {
  test('does not keep the gateway from starting, and signs people in once it is there (reliability 507)', async () => {
    const port = await freePort();
    const own = await openWithAdmin(await embedded(), { admin: await settingsFor(`http://127.0.0.1:${port}`) });
    const page = new SignInPage(own);
    const away = await page.begin();
    expect(codesOf(away)).toEqual([503, 'identity_unavailable']);
    expect(away.body.message).toBe(
      'The provider does not answer. The log of the gateway has the reason. Other ways to sign in still work.',
    );
    expect((await ask(own, 'GET', '/admin/session')).status).toBe(200);
    expect(own.process.stdout).toContain('the OpenID provider cannot be used: it cannot be reached');
    const late = await OpenIdProvider.start(port);
    expect((await page.signIn(late)).status).toBe(200);
  });

  test('is 503 and a line of the log with the reason, whatever it answers (reliability 507)', async () => {
    const one = await OpenIdProvider.start();
    const own = await openWithAdmin(await embedded(), { admin: await settingsFor(one.issuer) });
    const wrong: readonly (readonly [string, Partial<OpenIdProvider>])[] = [
      [
        'unexpected HTTP response status code',
        { instead: (_, response) => !!response.writeHead(302, { Location: 'http://127.0.0.1:1/' }).end() },
      ],
      ['unexpected response content-type', { instead: (_, response) => !!response.end('<html>') }],
      ['more than 262144 bytes', { instead: (_, response) => !!response.end('x'.repeat(300_000)) }],
      [
        'it names http://id.example.com, which is not https://',
        { metadata: { token_endpoint: 'http://id.example.com/token' } },
      ],
      [
        'its authorization endpoint is not https://',
        { metadata: { authorization_endpoint: 'http://id.example.com/' } },
      ],
      ['issuer', { metadata: { issuer: 'https://evil.example' } }],
    ];
    for (const [reason, change] of wrong) {
      const unusable = await OpenIdProvider.start();
      Object.assign(unusable, change);
      const each = await openWithAdmin(await embedded(), { admin: await settingsFor(unusable.issuer) });
      const told = await new SignInPage(each).signIn(unusable).catch((error) => error);
      const page = new SignInPage(each);
      const begun = await page.begin();
      const seen = begun.status === 200 ? told : begun;
      expect([reason, ...codesOf(seen)]).toEqual([reason, 503, 'identity_unavailable']);
      expect(each.process.stdout).toContain(reason);
    }
    one.instead = (request, response) => {
      if (request.url !== '/token') return false;
      response.writeHead(401, { 'Content-Type': 'application/json' }).end('{"error":"invalid_client"}');
      return true;
    };
    const told = await new SignInPage(own).signIn(one);
    expect(codesOf(told)).toEqual([503, 'identity_unavailable']);
    expect(told.body.message).toContain('The provider refuses this gateway (invalid_client).');
  });

  test('is a fault of the settings if its secret cannot be read', async () => {
    const settings = {
      oidc: `{ issuer: 'https://id.example.com', clientId: c, clientSecretFile: /nowhere, roles: { a: admin } }`,
    };
    await expect(openWithAdmin(await embedded(), { admin: settings })).rejects.toThrow(
      'admin.oidc.clientSecretFile names the file /nowhere, which does not exist.',
    );
  });
});
