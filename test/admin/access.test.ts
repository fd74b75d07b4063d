import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { AdminTokens } from '../../src/admin/admin-tokens.ts';
import { AdminAuthenticator } from '../../src/admin/authenticator.ts';
import { ADMIN_CONNECTIONS, type AdminListenerOptions, KEPT_PLACES, listenAdmin } from '../../src/admin/listener.ts';
import { Sessions } from '../../src/admin/sessions.ts';
import { FailedAttempts } from '../../src/identify/failed-attempts.ts';
import { MemoryAttemptCounter } from '../../src/identify/memory-attempts.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import type { TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { ask, auditLines, openWithAdmin, STORES, TOKEN } from './operator.ts';

const embedded = STORES['the embedded store']!;
let gateway: TestGateway;
beforeAll(async () => {
  gateway = await openWithAdmin(await embedded());
});

/** Asks as {@link ask} does, with another Authorization field, or none. */
const askAs = (of: TestGateway, authorization: string, method = 'GET', path = '/admin/keys') =>
  ask(of, method, path, undefined, { Authorization: authorization });

/** What comes back for bytes that no HTTP library would send. */
function askRaw({ adminPort }: TestGateway, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(adminPort, '127.0.0.1', () => socket.write(text));
    let answer = '';
    socket.setEncoding('latin1').on('data', (part: string) => {
      answer += part;
    });
    socket.on('end', () => resolve(answer)).on('error', reject);
  });
}

describe('without ADMIN_TOKEN', () => {
  test('all of /admin is refused with 403, whatever is presented, and health and metrics are open', async () => {
    const closed = await openWithAdmin({ ...(await embedded()), ADMIN_TOKEN: '' });
    for (const path of ['/admin', '/admin/', '/admin/keys', '/admin/openapi.json', '/admin/none']) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        const told = await askAs(closed, 'Bearer anything', method, path);
        expect([told.status, told.body.code]).toEqual([403, 'forbidden']);
      }
    }
    expect((await ask(closed, 'GET', '/livez')).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${closed.adminPort}/metrics`)).status).toBe(200);
  });
});

describe('with ADMIN_TOKEN', () => {
  test('its bearer comes in, the scheme in any case', async () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      expect((await askAs(gateway, `${scheme} ${TOKEN}`)).status).toBe(200);
    }
  });

  test('no token is 401 without an error in its challenge, a wrong one 401 with it', async () => {
    const own = await openWithAdmin(await embedded());
    const none = await fetch(`http://127.0.0.1:${own.adminPort}/admin/keys`);
    expect([none.status, none.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="tollgate admin"']);
    expect(await none.json()).toMatchObject({ code: 'missing_admin_token', status: 401 });
    const basic = await askAs(own, `Basic ${TOKEN}`);
    expect([basic.status, basic.body.code]).toEqual([401, 'missing_admin_token']);
    for (const wrong of [`${TOKEN}x`, TOKEN.slice(0, -1), TOKEN.toUpperCase()]) {
      const told = await askAs(own, `Bearer ${wrong}`);
      expect([told.status, told.body.code]).toEqual([401, 'invalid_admin_token']);
      expect(told.headers.get('www-authenticate')).toBe('Bearer realm="tollgate admin", error="invalid_token"');
    }
  });

  test('a key of the API is no admin token', async () => {
    const { key } = await gateway.createKey('free');
    expect((await askAs(gateway, `Bearer ${key}`)).status).toBe(401);
  });

  test('two Authorization fields are refused, whichever is right', async () => {
    for (const [first, second] of [
      [TOKEN, 'x'],
      ['x', TOKEN],
    ]) {
      const answer = await askRaw(
        gateway,
        `GET /admin/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${first}\r\nAuthorization: Bearer ${second}\r\nConnection: close\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer).toContain('more than one Authorization');
    }
  });

  // Attack: an operator is locked out by wrong tokens from the same address, which may be that of a load balancer.
  test('after ten wrong tokens in a minute further ones are 429, and the right one passes all the same', async () => {
    const own = await openWithAdmin(await embedded());
    const statuses: number[] = [];
    for (let i = 0; i < 10; i++) statuses.push((await askAs(own, `Bearer wrong${i}`)).status);
    expect(statuses).toEqual(Array(10).fill(401));
    const eleventh = await askAs(own, 'Bearer wrong');
    expect([eleventh.status, eleventh.body.code]).toEqual([429, 'too_many_failed_attempts']);
    expect((await ask(own, 'GET', '/admin/keys')).status).toBe(200);
    const seconds = Number(eleventh.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(50);
    expect(seconds).toBeLessThanOrEqual(60);
    // Health and metrics are nobody's secret.
    expect((await ask(own, 'GET', '/readyz')).status).toBe(200);
  });

  test('of many guesses at once ten are 401 and the others 429, a quarter of a second late', async () => {
    const own = await openWithAdmin(await embedded());
    const tokens = [...Array.from({ length: 30 }, (_, i) => `guess${i}`), TOKEN];
    const startedAtMs = performance.now();
    const asked = tokens.map((token, i) => {
      const last = i === tokens.length - 1 ? 'Connection: close\r\n' : '';
      return `GET /admin/plans HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n${last}\r\n`;
    });
    const answers = await askRaw(own, asked.join(''));
    const statuses = [...answers.matchAll(/HTTP\/1\.1 ([0-9]+)/g)].map(([, status]) => Number(status));
    expect(statuses).toEqual([...Array(10).fill(401), ...Array(20).fill(429), 200]);
    expect(performance.now() - startedAtMs).toBeGreaterThan(240);
  });

  // Attack: a flood of wrong tokens, each of which waits for its answer, fills the gateway with waiting requests.
  test('of a flood of wrong tokens few wait, and the right one waits for none of them', async () => {
    const nowMs = () => performance.now();
    const attempts = new FailedAttempts({
      counter: new MemoryAttemptCounter(),
      limit: () => 1_000,
      monotonicMs: nowMs,
      wallMs: nowMs,
    });
    const tokens = new AdminTokens({ adminToken: TOKEN, tokens: null, hasLinks: false });
    const sessions = new Sessions({ random: randomBytes, nowMs });
    const door = new AdminAuthenticator({ tokens, sessions, proxy: null, oidc: null, attempts, nowMs });
    const request = { method: 'GET', path: '/admin/keys', address: '192.0.2.1', isTls: false };
    const present = async (token: string) => {
      const found = await door.authorise({ ...request, rawHeaders: ['Authorization', `Bearer ${token}`] });
      return 'refusal' in found ? found.refusal : null;
    };
    let answered = 0;
    const guesses = Array.from({ length: 100 }, async (_, i) => {
      const answer = await present(`guess${i}`);
      answered++;
      return answer?.status;
    });
    expect(await present(TOKEN)).toBeNull();
    await new Promise(setImmediate);
    expect(answered).toBe(100 - 32);
    expect(await Promise.all(guesses)).toEqual(Array(100).fill(401));
  });
});

// Attack: DNS rebinding. A page's own name resolves to the gateway's address, so that its scripts read the answers.
describe('Host', () => {
  let named: TestGateway;
  beforeAll(async () => {
    named = await openWithAdmin(await embedded(), { admin: { hosts: '[gateway-1, ops.example]' } });
  });
  const statusFor = async (host: string | null, path: string) => {
    const line = host === null ? 'HTTP/1.0' : `HTTP/1.1\r\nHost: ${host}`;
    const fields = `Authorization: Bearer ${TOKEN}\r\nConnection: close`;
    return (await askRaw(named, `GET ${path} ${line}\r\n${fields}\r\n\r\n`)).slice('HTTP/1.1 '.length).slice(0, 3);
  };

  test.each([
    'rebound.example',
    'rebound.example:9090',
    'localhost.rebound.example',
    'gateway-1.example',
    'localhost.x',
    '',
  ])('%j is refused for metrics and API with 421, and health is told (reliability 165)', async (host) => {
    for (const path of ['/metrics', '/admin/keys', '/admin', '/none']) expect(await statusFor(host, path)).toBe('421');
    for (const path of ['/livez', '/readyz']) expect(await statusFor(host, path)).toBe('200');
  });

  test.each([
    ...['localhost', 'LOCALHOST:9090', 'a.localhost', '127.0.0.1', '10.1.2.3:9090', '[::1]', '[fd00::1]:9090'],
    ...['gateway-1', 'Gateway-1:9090', 'ops.example', null],
  ])('%j is served', async (host) => {
    for (const path of ['/metrics', '/admin/keys']) expect(await statusFor(host, path)).toBe('200');
  });

  test('the refusal says what to do', async () => {
    const answer = await askRaw(named, 'GET /metrics HTTP/1.1\r\nHost: ops\r\nConnection: close\r\n\r\n');
    expect(answer).toMatch(/"code":"misdirected_request","message":".*admin\.hosts.*","status":421/);
  });
});

describe('what cannot be asked', () => {
  test.each([
    ['PUT', '/admin/keys', 'GET, HEAD, POST'],
    ['DELETE', '/admin/keys', 'GET, HEAD, POST'],
    ['POST', '/admin/keys/key_x', 'GET, HEAD, PATCH, DELETE'],
    ['GET', '/admin/keys/key_x/rotate', 'POST'],
    ['POST', '/admin/keys/key_x/usage', 'GET, HEAD'],
    ['GET', '/admin/bans/key_x', 'DELETE'],
    ['POST', '/admin/plans', 'GET, HEAD'],
    ['POST', '/admin/openapi.json', 'GET, HEAD'],
    ['OPTIONS', '/admin/keys', 'GET, HEAD, POST'],
  ])('%s %s is 405 with Allow: %s', async (method, path, allow) => {
    const told = await ask(gateway, method, path);
    expect([told.status, told.body.code, told.headers.get('allow')]).toEqual([405, 'method_not_allowed', allow]);
  });

  test.each(['/admin', '/admin/', '/admin/none', '/admin/keys/', '/admin/keys/a/b', '/admin/keys/%zz', '/admin/KEYS'])(
    '%s is 404',
    async (path) => {
      const told = await ask(gateway, 'GET', path);
      expect([told.status, told.body.code]).toEqual([404, 'not_found']);
    },
  );

  test.each(['toString', '__proto__', 'constructor'])('the method %s is no method of a resource', async (method) => {
    const answer = await askRaw(
      gateway,
      `${method} /admin/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 40[05] /);
  });

  test.each(['limit=0', 'limit=1001', 'limit=x', 'limit=1&limit=2', 'page=1', 'all=yes', 'cursor=key_none'])(
    'GET /admin/keys?%s is 400',
    async (query) => {
      const told = await ask(gateway, 'GET', `/admin/keys?${query}`);
      expect([told.status, told.body.code]).toEqual([400, 'invalid_request']);
      expect(told.body.message).toMatch(/limit|page|all|cursor/);
    },
  );

  test('a body that is not declared as JSON is 415, one that is too large 413, and both are told', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=latin1']) {
      const told = await ask(gateway, 'POST', '/admin/keys', '{"plan":"free"}', { 'Content-Type': type });
      expect([told.status, told.body.code]).toEqual([415, 'unsupported_media_type']);
    }
    const large = await ask(
      gateway,
      'POST',
      '/admin/keys',
      JSON.stringify({ plan: 'free', notes: 'x'.repeat(70_000) }),
    );
    expect([large.status, large.body.code]).toEqual([413, 'payload_too_large']);
    const chunk = `${(70_000).toString(16)}\r\n${'x'.repeat(70_000)}\r\n`;
    const answer = await askRaw(
      gateway,
      `POST /admin/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  });

  test('HEAD tells what GET would, without a body', async () => {
    const [get, head] = [await ask(gateway, 'GET', '/admin/plans'), await ask(gateway, 'HEAD', '/admin/plans')];
    expect([head.status, head.text]).toEqual([200, '']);
    expect(head.headers.get('content-length')).toBe(get.headers.get('content-length'));
  });

  test('no answer is for a cache, and each has the id of its request', async () => {
    const told = await ask(gateway, 'GET', '/admin/keys', undefined, { 'X-Request-Id': 'mine-1' });
    expect([told.headers.get('cache-control'), told.headers.get('x-request-id')]).toEqual(['no-store', 'mine-1']);
    const other = await ask(gateway, 'GET', '/admin/none', undefined, { 'X-Request-Id': 'not mine' });
    expect(other.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });
});

test('each change is an audit line that tells who, what and when, and no secret', async () => {
  const header = { 'X-Request-Id': 'audited' };
  const made = await ask(gateway, 'POST', '/admin/keys', { plan: 'free', owner: 'o' }, header);
  const { id } = made.body;
  await ask(gateway, 'PATCH', `/admin/keys/${id}`, { plan: 'small', limits: { minute: 7 } }, header);
  const rotated = await ask(gateway, 'POST', `/admin/keys/${id}/rotate`, { overlap: '0s' }, header);
  await ask(gateway, 'DELETE', `/admin/keys/${id}`, undefined, header);
  await ask(gateway, 'DELETE', `/admin/keys/${id}`, undefined, header);
  await ask(gateway, 'PATCH', `/admin/keys/${id}`, { plan: 'free' }, header);
  const lines = await eventually(() => {
    const found = auditLines(gateway).filter(({ requestId }) => requestId === 'audited');
    expect(found.length).toBeGreaterThanOrEqual(5);
    return found.filter(({ outcome }) => outcome === 'done');
  });
  expect(lines).toMatchObject([
    { action: 'key.create', before: null, after: { plan: 'free', limits: {}, owner: 'o', revokedAt: null } },
    { action: 'key.update', before: { plan: 'free', limits: {} }, after: { plan: 'small', limits: { minute: 7 } } },
    {
      action: 'key.rotate',
      before: { secrets: [made.body.key.slice(-4)] },
      after: { secrets: [rotated.body.key.slice(-4)] },
    },
    { action: 'key.revoke', before: { revokedAt: null }, after: { revokedAt: expect.any(String) } },
  ]);
  for (const line of lines) {
    expect(line).toMatchObject({ who: 'admin', clientAddress: '127.0.0.1', id, time: expect.any(String), level: 30 });
  }
  for (const { key } of [made.body, rotated.body]) expect(gateway.process.stdout).not.toContain(key.slice(8, -4));
  expect(gateway.process.stdout).not.toContain(TOKEN);
});

/** A listener whose API and metrics the test makes up. */
async function listenerWith(options: Partial<AdminListenerOptions>): Promise<string> {
  const listener = await listenAdmin({
    ...{ host: '127.0.0.1', port: 0, hosts: [], console: null, tls: null },
    readiness: () => ({ ready: true, store: 'embedded', draining: false }),
    metrics: async () => ({ text: '', contentType: 'text/plain' }),
    api: async () => {},
    ...options,
  });
  atEnd(() => listener.close());
  return `http://127.0.0.1:${listener.port}`;
}

test('a response that breaks after it has begun is cut, and the gateway goes on', async () => {
  const origin = await listenerWith({
    api: async (_, response) => {
      response.writeHead(200, { 'Content-Length': 5 }).flushHeaders();
      throw new Error('a defect');
    },
  });
  const response = await fetch(`${origin}/admin/keys`);
  await expect(response.text()).rejects.toThrow();
  expect((await fetch(`${origin}/livez`)).status).toBe(200);
});

describe('connections are bounded for each address (reliability 191)', () => {
  const { maxConnectionsPerAddress } = ADMIN_CONNECTIONS;
  const isAnswered = async (port: number, localAddress: string) => {
    const request = get({ host: '127.0.0.1', port, path: '/livez', localAddress, agent: false });
    const [response] = await once(request, 'response');
    return response.statusCode === 200;
  };
  const open = (port: number, count: number, bytes = '') => {
    const crowd = Array.from({ length: count }, () => {
      const socket = connect(port, '127.0.0.1', () => socket.write(bytes)).on('error', () => {});
      return socket;
    });
    atEnd(() => {
      for (const socket of crowd) socket.destroy();
    });
    return () => crowd.filter(({ destroyed }) => destroyed).length;
  };

  test('of idle ones those that have been idle longest are closed, and a further one is answered', async () => {
    const port = Number(new URL(await listenerWith({ host: '::' })).port);
    const closed = open(port, maxConnectionsPerAddress + 10);
    await eventually(() => expect(closed()).toBe(10));
    expect(await isAnswered(port, '127.0.0.1')).toBe(true);
    expect(closed()).toBe(11);
  });

  const REQUEST = 'GET /admin/keys HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n';

  test('of those that serve authorised senders none is closed, and some places stay for probes (reliability 242)', async () => {
    const kept: boolean[] = [];
    const api: AdminListenerOptions['api'] = async (_request, _response, keepPlace) => void kept.push(keepPlace());
    const port = Number(new URL(await listenerWith({ host: '::', api })).port);
    const closed = open(port, maxConnectionsPerAddress, REQUEST);
    await eventually(() => expect(kept).toHaveLength(maxConnectionsPerAddress));
    expect(kept.filter((isKept) => isKept)).toHaveLength(KEPT_PLACES.maxConnectionsPerAddress);
    for (let i = 0; i < 20; i++) expect(await isAnswered(port, '127.0.0.1')).toBe(true);
    expect(await isAnswered(port, '127.0.0.2')).toBe(true);
    await eventually(() => expect(closed()).toBeGreaterThan(0));
    expect(closed()).toBeLessThanOrEqual(maxConnectionsPerAddress - KEPT_PLACES.maxConnectionsPerAddress);
  });

  test('requests that a client sends without waiting are served one after the other (reliability 388)', async () => {
    const count = 200;
    let [served, atOnce] = [0, 0];
    const readiness = async () => {
      atOnce = Math.max(atOnce, ++served);
      await nextTurn();
      served--;
      return { ready: true, store: 'embedded' as const, draining: false };
    };
    const port = Number(new URL(await listenerWith({ readiness })).port);
    const pipelined = 'GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(count);
    const { responses } = await rawExchange(port, pipelined, { until: count });
    expect(responses.filter(({ status }) => status === 200)).toHaveLength(count);
    expect(atOnce).toBe(1);
  });

  test('a place is kept until the request is answered, and then it is free for the next (reliability 242)', async () => {
    const kept: boolean[] = [];
    const responses: ServerResponse[] = [];
    const api: AdminListenerOptions['api'] = async (_request, response, keepPlace) => {
      kept.push(keepPlace());
      responses.push(response);
    };
    const port = Number(new URL(await listenerWith({ host: '::', api })).port);
    const most = KEPT_PLACES.maxConnectionsPerAddress;
    open(port, most, REQUEST);
    await eventually(() => expect(kept).toHaveLength(most));
    open(port, 1, REQUEST);
    await eventually(() => expect(kept).toHaveLength(most + 1));
    expect(kept.indexOf(false)).toBe(most);
    for (const response of responses) response.end();
    await eventually(() => expect(responses.every(({ closed }) => closed)).toBe(true));
    open(port, 1, REQUEST);
    await eventually(() => expect(kept.at(-1)).toBe(true));
  });
});

test('metrics are collected once for all who ask meanwhile, and never before their requests came (reliability 168)', async () => {
  let runs = 0;
  const gate = Promise.withResolvers<void>();
  const origin = await listenerWith({
    metrics: async () => {
      const run = runs++;
      if (run === 0) await gate.promise;
      return { text: String(run), contentType: 'text/plain' };
    },
  });
  const scrape = async () => Number(await (await fetch(`${origin}/metrics`)).text());
  const first = scrape();
  await eventually(() => expect(runs).toBe(1));
  const others = Array.from({ length: 20 }, scrape);
  // Most of the others are there before later requests are answered.
  for (let i = 0; i < 20; i++) await fetch(`${origin}/livez`);
  gate.resolve();
  expect([await first, Math.min(...(await Promise.all(others)))]).toEqual([0, 1]);
  expect(runs).toBeLessThan(10);
});

test('metrics that cannot be collected are 500, and are collected anew for the next request', async () => {
  let runs = 0;
  const origin = await listenerWith({
    metrics: async () => {
      if (runs++ === 0) throw new Error('a defect');
      return { text: 'x 1', contentType: 'text/plain' };
    },
  });
  const statuses = [(await fetch(`${origin}/metrics`)).status, (await fetch(`${origin}/metrics`)).status];
  expect(statuses).toEqual([500, 200]);
});
