import { createHmac } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportSPKI, importJWK } from 'jose';
import { beforeAll, describe, expect, test } from 'vitest';
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
import type { TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { SAME_ORIGIN, send } from './browser.ts';
import { ask, auditLines, openWithAdmin, STORES, TOKEN } from './operator.ts';

const HEADER = 'X-Identity';

function identity(jwks: string): { readonly identity: string } {
  const roles = '{ gateway-admins: admin, support: operator, staff: viewer }';
  const rules = `issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256]`;
  return { identity: `{ header: ${HEADER}, ${rules}, roles: ${roles} }` };
}

const JO = { sub: 'u-1', email: 'jo@example.com', groups: ['staff', 'support', 'other'] };
const embedded = STORES['the embedded store']!;

describe('the identity of a person whom a proxy has signed in', () => {
  let gateway: TestGateway;
  let origin: string;
  let key: SigningKey;
  let other: SigningKey;
  beforeAll(async () => {
    [key, other] = await Promise.all([signingKey('one'), signingKey('one')]);
    const jwks = join(await temporaryFolder(), 'jwks.json');
    await writeFile(jwks, jwksOf(key));
    // Without a token: the proxy alone switches the API on.
    gateway = await openWithAdmin({ ...(await embedded()), ADMIN_TOKEN: '' }, { admin: identity(jwks) });
    origin = `http://127.0.0.1:${gateway.adminPort}`;
  });
  const session = (tokens: string | string[]) => send(`${origin}/admin/session`, 'GET', { [HEADER]: tokens });

  test('is the name and the highest role of its claims, until the token expires', async () => {
    const exp = Math.floor(Date.now() / 1000) + 600;
    expect(await session(await key.sign({ ...JO, exp }))).toMatchObject({
      status: 200,
      body: {
        name: 'jo@example.com',
        role: 'operator',
        via: 'proxy',
        expiresAt: new Date(exp * 1000).toISOString(),
        idleSeconds: null,
      },
    });
    const one = await session(await key.sign({ ...JO, groups: 'gateway-admins' }));
    expect(one.body.role).toBe('admin');
  });

  test('changes as a person, within its role and from the same origin only', async () => {
    const identified = { [HEADER]: await key.sign(JO) };
    const { id } = await gateway.createKey('free');
    const patch = (fields: object) =>
      send(`${origin}/admin/keys/${id}`, 'PATCH', { ...identified, ...fields }, { body: { owner: 'o' } });
    const forged = await patch({ ...SAME_ORIGIN, 'Sec-Fetch-Site': 'cross-site' });
    expect([forged.status, forged.body.code]).toEqual([403, 'cross_origin']);
    expect((await patch(SAME_ORIGIN)).status).toBe(200);
    const made = await send(
      `${origin}/admin/keys`,
      'POST',
      { ...identified, ...SAME_ORIGIN },
      { body: { plan: 'free' } },
    );
    expect([made.status, made.body.code]).toEqual([403, 'forbidden']);
    const { body } = await send(`${origin}/admin/audit?actor=jo@example.com`, 'GET', identified);
    const person = { kind: 'person', name: 'jo@example.com' };
    expect(body.changes.map(({ actor, outcome, code }: Record<string, unknown>) => [actor, outcome, code])).toEqual([
      [person, 'refused', 'forbidden'],
      [person, 'done', null],
      [person, 'refused', 'cross_origin'],
    ]);
    const { stdout } = await gateway.command('audit');
    expect(stdout).toContain('jo@example.com (person)');
    await eventually(() => expect(auditLines(gateway).map(({ actor }) => actor)).toContain('jo@example.com'));
    expect(gateway.process.stdout).not.toContain(identified[HEADER]!.split('.')[2]);
  });

  test('signs out of no session: there is none', async () => {
    const told = await send(`${origin}/admin/session?everywhere=true`, 'DELETE', {
      [HEADER]: await key.sign(JO),
      ...SAME_ORIGIN,
    });
    expect([told.status, told.body]).toEqual([200, { ended: 0 }]);
  });

  test('is 403 without a role or a name', async () => {
    for (const claims of [
      { groups: [] },
      { groups: undefined },
      { groups: ['other'] },
      { groups: 'Staff' },
      { groups: ['constructor', '__proto__', 'toString'] },
      { groups: { staff: true } },
      { groups: [['staff']] },
      { email: undefined },
      { email: '' },
      { email: 7 },
      { email: 'jo\nadmin' },
      { email: 'x'.repeat(257) },
    ]) {
      const told = await session(await key.sign({ ...JO, ...claims }));
      expect([JSON.stringify(claims), told.status, told.body.code]).toEqual([JSON.stringify(claims), 403, 'forbidden']);
    }
  });

  test('is 400 if the field comes twice, whichever is right', async () => {
    const token = await key.sign(JO);
    for (const tokens of [
      [token, 'x'],
      ['x', token],
      [token, token],
    ]) {
      const told = await session(tokens);
      expect([told.status, told.body.code]).toEqual([400, 'invalid_request']);
    }
  });

  // Each is a gateway of its own, because ten wrong ones in a minute are 429.
  test('is 401 for a token that the proxy would not make', async () => {
    const rsa = await signingKey('rsa', 'RS256');
    const jwks = join(await temporaryFolder(), 'jwks.json');
    await writeFile(jwks, jwksOf(key, rsa));
    const claims = { iss: ISSUER, aud: AUDIENCE, ...JO, exp: Math.floor(Date.now() / 1000) + 600 };
    const pem = await exportSPKI((await importJWK(rsa.jwk, 'RS256')) as CryptoKey);
    const unsigned = rawToken({ alg: 'HS256', kid: 'rsa' }, claims).slice(0, -1);
    const wrong: [string, string][] = [
      ['alg none', rawToken({ alg: 'none' }, claims)],
      ['alg none with a kid', rawToken({ alg: 'none', kid: 'one' }, claims, 'AAAA')],
      ['HS256 with the public key', `${unsigned}.${createHmac('sha256', pem).update(unsigned).digest('base64url')}`],
      ['an algorithm that is not allowed', await rsa.sign(JO)],
      ['another key', await other.sign(JO)],
      ['another issuer', await key.sign({ ...JO, iss: 'https://elsewhere.example/' })],
      ['another audience', await key.sign({ ...JO, aud: 'https://elsewhere.example' })],
      ['expired', await key.sign({ ...JO, exp: Math.floor(Date.now() / 1000) - 1 })],
      ['without exp', await key.sign({ ...JO, exp: undefined })],
      ['not yet', await key.sign({ ...JO, nbf: Math.floor(Date.now() / 1000) + 60 })],
      ['issued in the future', await key.sign({ ...JO, iat: Math.floor(Date.now() / 1000) + 60 })],
      ['no token', 'jo@example.com'],
      ['too long', `${await key.sign({ ...JO, padding: 'x'.repeat(8_192) })}`],
    ];
    const gateways = [
      await openWithAdmin(await embedded(), { admin: identity(jwks) }),
      await openWithAdmin(await embedded(), { admin: identity(jwks) }),
    ];
    await Promise.all(
      wrong.map(async ([what, token], i) => {
        const { adminPort } = gateways[i % 2]!;
        const told = await send(`http://127.0.0.1:${adminPort}/admin/session`, 'GET', { [HEADER]: token });
        expect([what, told.status, told.body.code]).toEqual([what, 401, 'invalid_admin_token']);
      }),
    );
    // A token goes before it.
    const told = await ask(gateways[0]!, 'GET', '/admin/session', undefined, { [HEADER]: await key.sign(JO) });
    expect(told.body).toMatchObject({ name: 'ADMIN_TOKEN', via: 'token' });
    expect(
      (await ask(gateways[0]!, 'GET', '/admin/session', undefined, { Authorization: `Bearer ${TOKEN}` })).status,
    ).toBe(200);
  });

  test('is 503 while the keys of the proxy cannot be had', async () => {
    const server = await startJwksServer((_, response) => response.writeHead(500).end());
    const own = await openWithAdmin(await embedded(), { admin: identity(server.url) });
    const told = await send(`http://127.0.0.1:${own.adminPort}/admin/session`, 'GET', { [HEADER]: await key.sign(JO) });
    expect([told.status, told.body.code]).toEqual([503, 'identity_unavailable']);
    expect(Number(told.headers['retry-after'])).toBeGreaterThan(0);
    expect((await ask(own, 'GET', '/admin/session')).status).toBe(200);
  });
});
