import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { AdminTokens, TokenIdentity } from '../../src/admin/admin-tokens.ts';
import { AdminAuthenticator } from '../../src/admin/authenticator.ts';
import { MAX_SESSIONS, Sessions, secretInCookies } from '../../src/admin/sessions.ts';
import type { FailedAttempts } from '../../src/identify/failed-attempts.ts';
import { eventually } from '../support/conditions.ts';
import type { TestGateway } from '../support/gateway.ts';
import { JSON_TYPE, SAME_ORIGIN, send, signIn } from './browser.ts';
import { auditLines, openWithAdmin, STORES, TOKEN } from './operator.ts';

const MINUTE_MS = 60_000;
const jo = () => new TokenIdentity({ name: 'jo', role: 'operator' });

/** Sessions under a clock of the test's. */
function sessionsAt(startMs = 1_000_000) {
  const clock = { nowMs: startMs };
  const everywhere: string[] = [];
  const sessions = new Sessions({ random: randomBytes, nowMs: () => clock.nowMs });
  sessions.onSignedOutEverywhere((name) => everywhere.push(name));
  return { sessions, clock, everywhere };
}

describe('a session', () => {
  test('ends after 30 minutes without activity, and its signal says so at the next sweep', () => {
    const { sessions, clock } = sessionsAt();
    const { session, secret } = sessions.begin(jo());
    clock.nowMs += 30 * MINUTE_MS - 1;
    expect(sessions.find(secret, true)).toBe(session);
    clock.nowMs += 30 * MINUTE_MS - 1;
    // A stream of events finds it and does not keep it.
    expect(sessions.find(secret, false)).toBe(session);
    clock.nowMs += 1;
    sessions.sweep();
    expect([session.signal.aborted, sessions.size]).toEqual([true, 0]);
    expect(sessions.find(secret, true)).toBeNull();
  });

  test('ends 8 hours after the sign-in however much it is used, without a sweep too', () => {
    const { sessions, clock } = sessionsAt();
    const { session, secret } = sessions.begin(jo());
    for (let minutes = 20; minutes < 8 * 60; minutes += 20) {
      clock.nowMs += 20 * MINUTE_MS;
      expect(sessions.find(secret, true)).toBe(session);
    }
    clock.nowMs += 20 * MINUTE_MS;
    expect(clock.nowMs).toBe(session.expiresAtMs);
    expect(sessions.find(secret, true)).toBeNull();
    expect(session.signal.aborted).toBe(true);
  });

  test('ends with the token that began it, at once', () => {
    const { sessions } = sessionsAt();
    const holder = jo();
    const { session, secret } = sessions.begin(holder);
    const other = sessions.begin(jo());
    holder.end();
    expect([session.signal.aborted, sessions.find(secret, true)]).toEqual([true, null]);
    expect(sessions.find(other.secret, true)).toBe(other.session);
    const late = sessions.begin(holder);
    expect([late.session.signal.aborted, sessions.find(late.secret, true)]).toEqual([true, null]);
  });

  test('makes room for a new one if it has been idle longest', () => {
    const { sessions, clock } = sessionsAt();
    const all = Array.from({ length: MAX_SESSIONS }, () => {
      clock.nowMs++;
      return sessions.begin(jo());
    });
    clock.nowMs++;
    expect(sessions.find(all[0]!.secret, true)).not.toBeNull();
    sessions.begin(jo());
    expect(sessions.size).toBe(MAX_SESSIONS);
    expect(all.map(({ session }) => session.signal.aborted).indexOf(true)).toBe(1);
  });

  test('is not kept by what pages of other origins send', async () => {
    const { sessions, clock } = sessionsAt();
    const tokens = new AdminTokens({ adminToken: TOKEN, tokens: null, hasLinks: false });
    const attempts = { fail: async () => ({ allowed: true, resetAtMs: 0 }) } as unknown as FailedAttempts;
    const nowMs = () => clock.nowMs;
    const authenticator = new AdminAuthenticator({ tokens, sessions, proxy: null, oidc: null, attempts, nowMs });
    const { secret } = sessions.begin(jo());
    const foreign = ['Cookie', `tollgate=${secret}`, 'Sec-Fetch-Site', 'same-site'];
    const asked = { method: 'GET', path: '/admin/session', rawHeaders: foreign, isTls: false, address: '::1' };
    for (let minutes = 0; minutes < 30; minutes += 10) {
      expect(await authenticator.authorise(asked)).toMatchObject({ refusal: { status: 403 } });
      clock.nowMs += 10 * MINUTE_MS;
    }
    expect(sessions.find(secret, true)).toBeNull();
  });

  test('makes no room for the sessions of a name that has more of them (reliability 169)', () => {
    const { sessions, clock } = sessionsAt();
    const [one, two] = [jo(), new TokenIdentity({ name: 'al', role: 'viewer' })];
    const [first] = [sessions.begin(one), sessions.begin(one)];
    for (let i = 0; i < MAX_SESSIONS + 50; i++) {
      clock.nowMs++;
      sessions.begin(two);
    }
    expect([sessions.size, sessions.find(first!.secret, false)]).toEqual([MAX_SESSIONS, first!.session]);
  });

  test('ends by a sign-out everywhere also if the clock was set back since it began (reliability 167)', () => {
    const { sessions, clock } = sessionsAt();
    const { session } = sessions.begin(jo());
    clock.nowMs -= 60_000;
    expect([sessions.signOutEverywhere(jo()), session.signal.aborted]).toEqual([1, true]);
  });

  test('ends with all others of its name, those that began later excepted, and the others are told the name', () => {
    const { sessions, clock, everywhere } = sessionsAt();
    const [one, two] = [sessions.begin(jo()), sessions.begin(jo())];
    const other = sessions.begin(new TokenIdentity({ name: 'al', role: 'admin' }));
    const beforeMs = clock.nowMs;
    clock.nowMs += 1_000;
    const late = sessions.begin(jo());
    expect(sessions.endSessionsOf('jo', beforeMs)).toBe(2);
    expect([one, two, other, late].map(({ session }) => session.signal.aborted)).toEqual([true, true, false, false]);
    expect(everywhere).toEqual([]);
    expect(sessions.signOutEverywhere(jo())).toBe(1);
    expect(everywhere).toEqual(['jo']);
  });
});

const SECRET = 'a'.repeat(43);
test.each<[string, readonly string[], boolean, string | null]>([
  ['alone', [`tollgate=${SECRET}`], false, SECRET],
  ['among others', [`a=1; tollgate=${SECRET}; b=2`], false, SECRET],
  ['twice in one field (cookie tossing)', [`tollgate=${SECRET}; tollgate=${SECRET}`], false, null],
  ['twice in two fields', [`tollgate=${SECRET}`, `tollgate=${SECRET}`], false, null],
  ['without __Host- over TLS', [`tollgate=${SECRET}`], true, null],
  ['with __Host- over TLS', [`tollgate=${SECRET}; __Host-tollgate=${SECRET}`], true, SECRET],
  ['with __Host- without TLS', [`__Host-tollgate=${SECRET}`], false, null],
  ['empty', ['tollgate='], false, null],
  ['too long', [`tollgate=${SECRET}a`], false, null],
  ['in quotes', [`tollgate="${SECRET}"`], false, null],
])('the cookie %s', (_, fields, isTls, secret) => {
  expect(secretInCookies(fields, isTls)).toBe(secret);
});

describe('/admin/session', () => {
  let gateway: TestGateway;
  let origin: string;
  let session: string;
  beforeAll(async () => {
    gateway = await openWithAdmin(await STORES['the embedded store']!());
    origin = `http://127.0.0.1:${gateway.adminPort}`;
    session = `${origin}/admin/session`;
  });

  test('POST sets the cookie, and the response has neither its secret nor the token', async () => {
    const { status, headers, body } = await send(session, 'POST', SAME_ORIGIN, { body: { token: TOKEN } });
    const [field = '', ...more] = headers['set-cookie'] as string[];
    expect([status, more]).toEqual([200, []]);
    expect(field).toMatch(/^tollgate=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/$/);
    const { expiresAt, ...rest } = body;
    expect(rest).toEqual({ name: 'ADMIN_TOKEN', role: 'admin', via: 'session', idleSeconds: 1_800 });
    expect(Math.abs(Date.parse(expiresAt) - Date.now() - 8 * 60 * MINUTE_MS)).toBeLessThan(60_000);
    expect(headers['cache-control']).toBe('no-store');
  });

  test('a sign-in makes a new secret and ends the session that the browser had (fixation)', async () => {
    const chosen = `tollgate=${'x'.repeat(43)}`;
    const first = await signIn(origin, TOKEN);
    const { headers } = await send(session, 'POST', { ...SAME_ORIGIN, Cookie: first }, { body: { token: TOKEN } });
    const second = String(headers['set-cookie']![0]).split(';')[0]!;
    expect(second).not.toBe(first);
    expect((await send(session, 'GET', { Cookie: first })).status).toBe(401);
    expect((await send(session, 'GET', { Cookie: second })).status).toBe(200);
    const { headers: fixed } = await send(
      session,
      'POST',
      { ...SAME_ORIGIN, Cookie: chosen },
      { body: { token: TOKEN } },
    );
    expect(String(fixed['set-cookie']![0])).not.toContain(chosen);
    expect((await send(session, 'GET', { Cookie: chosen })).status).toBe(401);
  });

  test('after the sign-out the cookie opens nothing, and is removed (replay)', async () => {
    const cookie = await signIn(origin, TOKEN);
    const { status, body, headers } = await send(session, 'DELETE', { ...SAME_ORIGIN, Cookie: cookie });
    expect([status, body]).toEqual([200, { ended: 1 }]);
    expect(headers['set-cookie']).toEqual(['tollgate=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0']);
    const replayed = await send(`${origin}/admin/keys`, 'GET', { Cookie: cookie });
    expect([replayed.status, replayed.body.code]).toEqual([401, 'missing_admin_token']);
  });

  test('everywhere ends all sessions of the name', async () => {
    const cookies = [await signIn(origin, TOKEN), await signIn(origin, TOKEN)];
    const { body } = await send(`${session}?everywhere=true`, 'DELETE', { ...SAME_ORIGIN, Cookie: cookies[0] });
    expect(body.ended).toBeGreaterThanOrEqual(2);
    for (const cookie of cookies) expect((await send(session, 'GET', { Cookie: cookie })).status).toBe(401);
  });

  test('a bearer token goes before the cookie, and a wrong one is refused whatever cookie comes with it', async () => {
    const cookie = await signIn(origin, TOKEN);
    const told = await send(session, 'GET', { Cookie: cookie, Authorization: `Bearer ${TOKEN}` });
    expect(told.body.via).toBe('token');
    expect((await send(session, 'GET', { Cookie: cookie, Authorization: 'Bearer wrong-token' })).status).toBe(401);
  });

  test.each([[{}], [[]], ['x'], [{ token: 1 }], [{ token: TOKEN, code: 'x' }], [{ code: '' }], [undefined]])(
    'the body %j is 400, and is not repeated',
    async (body) => {
      const told = await send(session, 'POST', SAME_ORIGIN, { body });
      expect([told.status, told.body.code]).toEqual([400, 'invalid_request']);
      expect(JSON.stringify(told.body)).not.toContain(TOKEN);
    },
  );

  test('wrong tokens and codes are throttled together with wrong bearer tokens, and the right one still signs in', async () => {
    const own = await openWithAdmin(await STORES['the embedded store']!());
    const at = `http://127.0.0.1:${own.adminPort}`;
    const wrong = (i: number) => {
      if (i % 3 === 0) return send(`${at}/admin/session`, 'GET', { Authorization: `Bearer wrong-${i}` });
      const body = i % 3 === 1 ? { token: `wrong-${i}` } : { code: `wrong-${i}` };
      return send(`${at}/admin/session`, 'POST', SAME_ORIGIN, { body });
    };
    const statuses = (await Promise.all(Array.from({ length: 12 }, (_, i) => wrong(i)))).map(({ status }) => status);
    expect(statuses.sort()).toEqual([...Array(10).fill(401), 429, 429]);
    expect(await signIn(at, TOKEN)).toMatch(/^tollgate=/);
    await eventually(() => {
      const lines = auditLines(own).map(({ who, actor, outcome }) => [who, actor, outcome]);
      expect(lines.filter(([who]) => who === 'stranger')).toEqual(Array(10).fill(['stranger', null, 'refused']));
      expect(lines).toContainEqual(['admin', 'ADMIN_TOKEN', 'done']);
    });
    expect(own.process.stdout).not.toMatch(/wrong-|tollgate=/);
    expect(own.process.stdout).not.toContain(TOKEN);
  });
});

describe('a request of a browser', () => {
  let origin: string;
  let cookie: string;
  beforeAll(async () => {
    const gateway = await openWithAdmin(await STORES['the embedded store']!(), {
      admin: { hosts: '[console.example]' },
    });
    origin = `http://127.0.0.1:${gateway.adminPort}`;
    cookie = await signIn(origin, TOKEN);
  });
  const named = { Host: 'console.example' };

  test.each<[string, object, number]>([
    ['of the same origin', SAME_ORIGIN, 200],
    ['as a patch', { 'Sec-Fetch-Site': 'same-origin', 'Content-Type': 'application/merge-patch+json' }, 200],
    ['of another site', { ...JSON_TYPE, 'Sec-Fetch-Site': 'cross-site' }, 403],
    ['of another host of the domain', { ...JSON_TYPE, 'Sec-Fetch-Site': 'same-site' }, 403],
    ['that a person typed', { ...JSON_TYPE, 'Sec-Fetch-Site': 'none' }, 403],
    ['with two Sec-Fetch-Site', { ...JSON_TYPE, 'Sec-Fetch-Site': ['same-origin', 'cross-site'] }, 403],
    [
      'of another site, whatever Origin says',
      { ...named, ...JSON_TYPE, 'Sec-Fetch-Site': 'cross-site', Origin: 'http://console.example' },
      403,
    ],
    ['with neither field', JSON_TYPE, 403],
    ['with the right Origin', { ...named, ...JSON_TYPE, Origin: 'http://console.example' }, 200],
    [
      'with the right Origin and a port',
      { Host: 'console.example:9090', ...JSON_TYPE, Origin: 'http://console.example:9090' },
      200,
    ],
    ['with another port', { ...named, ...JSON_TYPE, Origin: 'http://console.example:8080' }, 403],
    ['with another scheme', { ...named, ...JSON_TYPE, Origin: 'https://console.example' }, 403],
    ['with another host', { ...named, ...JSON_TYPE, Origin: 'http://console.example.evil.example' }, 403],
    ['of a sandbox', { ...named, ...JSON_TYPE, Origin: 'null' }, 403],
    ['with two Origins', { ...named, ...JSON_TYPE, Origin: ['http://console.example', 'http://evil.example'] }, 403],
    ['of a form', { 'Content-Type': 'text/plain', 'Sec-Fetch-Site': 'same-origin' }, 403],
    [
      'of a form that looks like JSON',
      { 'Content-Type': 'text/plain; application/json', 'Sec-Fetch-Site': 'same-origin' },
      403,
    ],
    ['without a type', { 'Sec-Fetch-Site': 'same-origin' }, 403],
  ])('%s: a change', async (_, fields, status) => {
    const key = await send(
      `${origin}/admin/keys`,
      'POST',
      { ...SAME_ORIGIN, Cookie: cookie },
      { body: { plan: 'free' } },
    );
    const url = `${origin}/admin/keys/${key.body.id}`;
    const told = await send(url, 'PATCH', { ...fields, Cookie: cookie }, { body: { owner: 'o' } });
    expect([told.status, told.body.code]).toEqual([status, status === 403 ? 'cross_origin' : undefined]);
    const deleted = await send(url, 'DELETE', { ...fields, Cookie: cookie });
    expect(deleted.status).toBe(status);
  });

  test.each<[object, number]>([
    [{}, 200],
    [{ 'Sec-Fetch-Site': 'same-origin' }, 200],
    [{ 'Sec-Fetch-Site': 'none' }, 200],
    [{ 'Sec-Fetch-Site': 'cross-site' }, 403],
    [{ 'Sec-Fetch-Site': 'same-site' }, 403],
  ])('GET with %j', async (fields, status) => {
    for (const method of ['GET', 'HEAD']) {
      expect((await send(`${origin}/admin/keys`, method, { ...fields, Cookie: cookie })).status).toBe(status);
    }
  });

  test('a program with a bearer token needs none of it', async () => {
    const fields = { ...JSON_TYPE, Authorization: `Bearer ${TOKEN}`, 'Sec-Fetch-Site': 'cross-site' };
    expect((await send(`${origin}/admin/keys`, 'POST', fields, { body: { plan: 'free' } })).status).toBe(201);
  });

  test.each<[object, number]>([
    [JSON_TYPE, 200],
    [SAME_ORIGIN, 200],
    [{ ...JSON_TYPE, 'Sec-Fetch-Site': 'cross-site' }, 403],
    [{ ...JSON_TYPE, Origin: 'http://evil.example' }, 403],
    [{ 'Content-Type': 'text/plain' }, 415],
  ])('a sign-in with %j (login CSRF)', async (fields, status) => {
    const told = await send(`${origin}/admin/session`, 'POST', { ...fields }, { body: { token: TOKEN } });
    expect([told.status, told.headers['set-cookie'] !== undefined]).toEqual([status, status === 200]);
  });

  test('`/` leads to the console', async () => {
    const { status, headers } = await send(`${origin}/?x=1`);
    expect([status, headers.location]).toEqual([302, '/console/']);
    expect((await send(`${origin}/`, 'POST')).status).toBe(404);
    expect((await send(`${origin}/`, 'GET', { Host: 'rebound.example' })).status).toBe(421);
  });

  test('the console answers only to a Host that is its own (DNS rebinding), and is 403 without a token', async () => {
    for (const path of ['/console', '/console/', '/console/app.js']) {
      expect((await send(`${origin}${path}`, 'GET', { Host: 'rebound.example' })).status).toBe(421);
    }
    const env = { ...(await STORES['the embedded store']!()), ADMIN_TOKEN: '' };
    const closed = await openWithAdmin(env);
    for (const path of ['/console', '/console/', '/console/app.js']) {
      const { status, body } = await send(`http://127.0.0.1:${closed.adminPort}${path}`);
      expect([status, body.code]).toEqual([403, 'forbidden']);
      expect(body.message).toContain('Set ADMIN_TOKEN or ADMIN_TOKENS_FILE');
    }
    const root = await send(`http://127.0.0.1:${closed.adminPort}/`);
    expect([root.status, root.body.message]).toEqual([404, expect.stringContaining('/console')]);
    const told = await send(`http://127.0.0.1:${closed.adminPort}/admin/session`, 'POST', SAME_ORIGIN, {
      body: { token: 'x' },
    });
    expect([told.status, told.body.code]).toEqual([403, 'forbidden']);
  });
});
