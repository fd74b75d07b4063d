import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import type { Variables } from '../../src/config/environment.ts';
import { type Configuration, loadConfiguration } from '../../src/config/settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-settings-'));
afterAll(() => rmSync(folder, { recursive: true }));

const ROUTES = 'routes: [{ path: /v1/pets, methods: [GET], upstream: store }]\n';
const MINIMAL = `upstreams: { store: { targets: [http://127.0.0.1:9000] } }\n${ROUTES}`;

let files = 0;
function fileWith(text: string | Uint8Array): string {
  files += 1;
  const file = join(folder, `${files}.yaml`);
  writeFileSync(file, text);
  return file;
}

async function load(env: Variables): Promise<Configuration> {
  const loaded = await loadConfiguration(env);
  if ('faults' in loaded) throw new Error(loaded.faults.join('\n'));
  return loaded;
}

async function faultsOf(env: Variables): Promise<readonly string[]> {
  const loaded = await loadConfiguration(env);
  return 'faults' in loaded ? loaded.faults : [];
}

describe('the committed files', () => {
  test('are sound, without a warning', async () => {
    expect((await load({})).warnings).toEqual([]);
  });

  test('serve what the interface names, at the plans it names', async () => {
    const { settings, plans } = await load({});
    expect(settings.routes.map(({ path, methods, upstream }) => `${methods} ${path} ${upstream}`)).toEqual([
      'GET,HEAD,POST /v1/pets store',
      'GET,HEAD /v1/pets/{petId} store',
      'GET,HEAD /v1/store/orders store',
    ]);
    expect(settings.routes[1]?.deprecated).toEqual({
      countedAs: '/v1/pets/{petId}',
      sinceMs: Date.UTC(2025, 11, 5),
      sunsetMs: Date.UTC(2030, 11, 5),
      successor: '/v1/pets',
      link: null,
      brownouts: [],
    });
    expect([...plans.plans.values()].map(({ name, limits }) => [name, limits])).toEqual([
      ['free', { minute: 60, day: 1000 }],
      ['pro', { minute: 300, day: 10_000 }],
      ['business', { minute: 1000, day: 100_000 }],
      ['enterprise', { minute: 'custom', day: 'custom' }],
    ]);
  });

  test('write out the defaults: leaving them away changes nothing', async () => {
    const committed = (await load({})).settings;
    const minimal = (await load({ TOLLGATE_CONFIG: fileWith(MINIMAL) })).settings;
    expect({ ...minimal, routes: [], viaByDefault: '' }).toEqual({ ...committed, routes: [], viaByDefault: '' });
    expect(minimal.listen).toEqual({
      host: '127.0.0.1',
      port: 8080,
      headersTimeoutMs: 10_000,
      requestTimeoutMs: 30_000,
      idleTimeoutMs: 65_000,
      writeTimeoutMs: 30_000,
      maxHeaderBytes: 16_384,
      maxUrlBytes: 8192,
      maxBodyBytes: 1_048_576,
      maxConnections: 10_000,
      maxConnectionsPerAddress: 2_500,
      drainDelayMs: 0,
      drainTimeoutMs: 30_000,
      trustedProxies: [],
      proxyProtocol: false,
      tls: null,
      http2: null,
      via: null,
    });
    const durability = { replicas: 'all', timeoutMs: 2_000 };
    expect(minimal.redis).toEqual({
      url: null,
      timeoutMs: 100,
      onFailure: 'local',
      leases: true,
      staleKeysMs: 3_600_000,
      durability,
    });
    expect(minimal.dataFolder).toBe(resolve('data'));
  });
});

// Fault: with a delay of 0 s the connections that a proxy keeps are closed as idle, and a POST on its way is lost.
test.each([
  ['trustedProxies: [127.0.0.1]', 2_000],
  ['trustedProxies: [127.0.0.1], drainDelay: 0s', 0],
  ['trustedProxies: []', 0],
  ['trustedProxies: [127.0.0.1], drainDelay: 15s', 15_000],
])('with `listen: { %s }` a stopping gateway accepts for %d ms more (reliability 397)', async (listen, delayMs) => {
  const { settings } = await load({ TOLLGATE_CONFIG: fileWith(`listen: { ${listen} }\n${MINIMAL}`) });
  expect(settings.listen.drainDelayMs).toBe(delayMs);
});

describe('settings', () => {
  test('the environment beats the file', async () => {
    const file = fileWith(`listen: { host: ::1, port: 81 }\nadmin: { host: ::1, port: 82 }\n${MINIMAL}`);
    expect((await load({ TOLLGATE_CONFIG: file })).settings).toMatchObject({
      listen: { host: '::1', port: 81 },
      admin: { host: '::1', port: 82, token: null },
    });
    const env = {
      PORT: '0',
      HOST: '0.0.0.0',
      ADMIN_PORT: '0',
      ADMIN_HOST: 'localhost',
      ADMIN_TOKEN: 'let-me-in-if-you-can',
    };
    const { settings } = await load({
      ...env,
      TOLLGATE_CONFIG: file,
      UPSTREAM_URL: 'http://pets:9001/',
      TOLLGATE_DATA: folder,
    });
    expect(settings).toMatchObject({
      listen: { host: '0.0.0.0', port: 0 },
      admin: { host: 'localhost', port: 0, token: 'let-me-in-if-you-can' },
      dataFolder: folder,
    });
    expect(settings.upstreams.get('store')?.targets).toEqual([{ url: 'http://pets:9001', weight: 1 }]);
  });

  test('are read as numbers of milliseconds and bytes', async () => {
    const text = `listen: { idleTimeout: 250ms, drainTimeout: 2m, maxBodyBytes: 3MiB, maxUrlBytes: 4096 }\n${MINIMAL}`;
    expect((await load({ TOLLGATE_CONFIG: fileWith(text) })).settings.listen).toMatchObject({
      idleTimeoutMs: 250,
      drainTimeoutMs: 120_000,
      maxBodyBytes: 3 * 1024 * 1024,
      maxUrlBytes: 4096,
    });
  });

  test('cannot be changed once they are read', async () => {
    const { settings } = await load({});
    expect(() => Object.assign(settings.listen, { port: 1 })).toThrow(TypeError);
    expect(() => (settings.routes as unknown[]).push({})).toThrow(TypeError);
    expect(() => (settings.routes[0]!.methods as string[]).push('PUT')).toThrow(TypeError);
    expect(() => (settings.upstreams as Map<string, unknown>).clear()).toThrow(TypeError);
    expect(() => (settings.upstreams.get('store')!.targets as unknown[]).push('x')).toThrow(TypeError);
  });

  test('what is probably wrong is a warning with its position (reliability 117)', async () => {
    const file = fileWith(
      'listen: { headersTimeout: 31s, trustedProxies: [0.0.0.0/0] }\n' +
        'upstreams: { store: { targets: [http://127.0.0.1:9000] }, idle: { targets: [http://127.0.0.1:9001] } }\n' +
        'routes: [{ path: "/{page}", methods: [GET], upstream: store }]\n',
    );
    expect((await load({ TOLLGATE_CONFIG: file })).warnings.map((line) => line.slice(file.length))).toEqual([
      ':1:27: listen.headersTimeout: leaves headersTimeout longer than requestTimeout, so that it never comes into effect.',
      ':1:49: listen.trustedProxies[0]: believes the X-Forwarded-For of everybody, who can then choose their address.',
      ':2:59: upstreams.idle: is used by no route.',
      ':3:18: routes[0].path: also covers /usage, which the gateway answers itself and does not forward.',
    ]);
  });
});

describe('retries of a route', () => {
  const routes = (...entries: string[]) =>
    `upstreams: { store: { targets: [http://127.0.0.1:9000] } }\nroutes:\n${entries.map((one) => `- { ${one} }\n`).join('')}`;

  test('are null without the setting, and have two attempts for what is mostly a passing fault with it', async () => {
    const file = fileWith(
      routes(
        'path: /a, methods: [GET], upstream: store',
        'path: /b, methods: [GET], upstream: store, retries: {}',
        'path: /c, methods: [GET], upstream: store, retries: { attempts: 4, on: [503], attemptTimeout: 1s }',
      ),
    );
    expect((await load({ TOLLGATE_CONFIG: file })).settings.routes.map(({ retries }) => retries)).toEqual([
      null,
      { attempts: 2, onConnection: true, onStatus: [502, 503, 504], attemptTimeoutMs: null },
      { attempts: 4, onConnection: false, onStatus: [503], attemptTimeoutMs: 1_000 },
    ]);
  });

  test('where they have no effect are a warning', async () => {
    const file = fileWith(
      routes(
        'path: /a, methods: [GET], redirect: { to: /b }, retries: {}',
        'path: /b, methods: [GET], upstream: store, respond: { status: 503 }, retries: {}',
        'path: /c, methods: [GET], upstream: store, websocket: true, retries: {}',
      ),
    );
    const { warnings, settings } = await load({ TOLLGATE_CONFIG: file });
    expect(warnings.map((line) => line.slice(file.length))).toEqual([
      ':3:53: routes[0].retries: has no effect beside `redirect`; leave it out.',
      ':4:74: routes[1].retries: has no effect beside `respond`; leave it out.',
      ':5:65: routes[2].retries: has no effect on upgrades, which are never retried, only on other requests of this route.',
    ]);
    expect(settings.routes.map(({ retries }) => retries === null)).toEqual([true, true, false]);
  });
});

describe('a route around another one is warned of (reliability 118)', () => {
  const warned = async (routes: string, upstreams = 'store: { targets: [http://127.0.0.1:9000] }') => {
    const file = fileWith(`upstreams: { ${upstreams} }\nroutes:\n${routes.replace(/^ *- /gm, '- ').trim()}\n`);
    const { warnings } = await load({ TOLLGATE_CONFIG: file });
    // The others are about plans.yaml.
    const own = warnings.flatMap((line) => (line.startsWith(file) ? [line.slice(file.length + 1)] : []));
    return own.filter((line) => !line.includes('also matches'));
  };
  const looser = (rules: string, place = '3:11: routes[0].path: /v1/** surrounds routes[1] (/v1/admin)') =>
    `${place} with looser rules (${rules}): a service that ignores a trailing slash in a path, or decodes it twice, serves that route under them, too. Give both the same rules, or let the service refuse such paths.`;
  const common = 'methods: [GET], upstream: store';
  const free = 'auth: none, limits:';

  test.each([
    [`${free} { minute: 60 }`, '', 'no key'],
    ['', 'deprecated: { since: 2025-01-01 }', 'no deprecation'],
    [
      '',
      'cost: { rows: { reserve: 1, from: { header: X-Rows, remove: true } } }',
      'without removing the response field x-rows, without a charge in rows',
    ],
    [
      `${free} { minute: 60 }`,
      'cost: 2, deprecated: { since: 2025-01-01, sunset: 2030-01-01 }',
      'no key, cost 1 instead of 2, no sunset',
    ],
  ])('where it is looser: %j around %j', async (outer, inner, rules) => {
    const line = (path: string, more: string) => `- { path: ${path}, ${common}${more && `, ${more}`} }\n`;
    expect(await warned(line('/v1/**', outer) + line('/v1/admin', inner))).toEqual([looser(rules)]);
  });

  test('by each of the routes around it, each time', async () => {
    const routes = `
      - { path: /v1/admin, ${common}, cost: 5 }
      - { path: '/v1/{name}', ${common}, cost: 2 }
      - { path: '/v1/**', ${common} }`;
    expect(await warned(routes)).toEqual([
      looser('cost 2 instead of 5', '4:11: routes[1].path: /v1/{name} surrounds routes[0] (/v1/admin)'),
      looser('cost 1 instead of 5', '5:11: routes[2].path: /v1/** surrounds routes[0] (/v1/admin)'),
      looser('cost 1 instead of 2', '5:11: routes[2].path: /v1/** surrounds routes[1] (/v1/{name})'),
    ]);
  });

  test.each([
    ['it is as strict', `cost: 5`, 'cost: 5'],
    ['it is stricter', 'cost: 9, deprecated: { since: 2025-01-01, sunset: 2026-01-01 }', `cost: 2`],
    ['it asks for a key and the other does not', '', `${free} { minute: 60 }`],
    ['it charges as much', 'cost: { rows: 5 }', 'cost: { rows: 5 }'],
    ['it allows no body and no WebSocket', '', 'body: true, websocket: true'],
  ])('not where %s', async (_why, outer, inner) => {
    const line = (path: string, more: string) => `- { path: ${path}, ${common}${more && `, ${more}`} }\n`;
    expect(await warned(line('/v1/**', outer) + line('/v1/admin', inner))).toEqual([]);
  });

  test('by its methods: the rules of one count for the others only where the path inside refuses it', async () => {
    const split = (path: string, more = '') => `
      - { path: '${path}', methods: [GET], upstream: store }
      - { path: '${path}', methods: [POST], upstream: store, cost: 5${more} }`;
    const inner = (n: number) => `3:11: routes[0].path: /v1/** surrounds routes[${n}] (/v1/reports)`;
    expect(await warned(split('/v1/**') + split('/v1/reports'))).toEqual([]);
    expect(await warned(`- { path: /v1/**, methods: [GET, POST], upstream: store }${split('/v1/reports')}`)).toEqual([
      looser('cost 1 instead of 5', inner(2)),
    ]);
    const posts = '- { path: /v1/reports, methods: [POST], upstream: store, cost: 5 }';
    expect(await warned(`${split('/v1/**')}\n${posts}`)).toEqual([looser('cost 1 instead of 5', inner(2))]);
  });

  test('not where another service is behind it, unless both upstreams have a target in common', async () => {
    const routes = `
      - { path: '/v1/**', methods: [GET], upstream: pages, ${free} { minute: 60 } }
      - { path: /v1/admin, methods: [GET], upstream: store }`;
    const upstreams = (target: string) =>
      `store: { targets: [http://127.0.0.1:9000] }, pages: { targets: [http://127.0.0.1:9001, ${target}] }`;
    expect(await warned(routes, upstreams('http://127.0.0.1:9002'))).toEqual([]);
    expect(await warned(routes, upstreams('http://127.0.0.1:9000'))).toEqual([looser('no key')]);
  });
});

test('a body that its time does not suffice for on a line of 10 Mbit/s is warned of, and an idle time without WebSockets', async () => {
  const file = fileWith(`listen: { maxBodyBytes: 40MiB }
upstreams: { store: { targets: [http://127.0.0.1:9000] } }
routes:
- { path: /a, methods: [POST], upstream: store, maxBodyBytes: 35MiB }
- { path: /b, methods: [POST], upstream: store, maxBodyBytes: 40MiB, requestTimeout: 34s }
- { path: /c, methods: [POST], upstream: store, requestTimeout: 10s }
- { path: /d, methods: [POST], upstream: store, maxBodyBytes: 1MiB, requestTimeout: 1s }
- { path: /e, methods: [POST], upstream: store, idleTimeout: 1m }
- { path: /f, methods: [GET], upstream: store, idleTimeout: 1m, websocket: true }
`);
  const { warnings, settings } = await load({ TOLLGATE_CONFIG: file });
  expect(warnings.map((line) => line.slice(file.length + 1))).toEqual([
    expect.stringMatching(
      /^1:25: listen\.maxBodyBytes: lets a body have 41943040 bytes in 30 s, which takes .* 34 s: /,
    ),
    expect.stringMatching(/^6:65: routes\[2\]\.requestTimeout: lets a body have 41943040 bytes in 10 s/),
    expect.stringMatching(/^8:49: routes\[4\]\.idleTimeout: has no effect without/),
  ]);
  expect(settings.routes.map(({ maxBodyBytes }) => maxBodyBytes! / 1024 / 1024)).toEqual([35, 40, 40, 1, 40, 40]);
});

test('a route `/x/**` that also matches `/x` is warned of, unless a route of its hosts or without hosts has that', async () => {
  const paths = ['/a/**', '/b/**', '/b', '/c/{x}/**', '/c/{y}', '/{z}/d/**', '/e/f/**', '/e/**'];
  const routes = [
    ...paths.map((path) => `path: '${path}'`),
    "path: '/g/**', hosts: [a.example, b.example]",
    'path: /g, hosts: [a.example]',
    "path: '/h/**', hosts: [a.example]",
    'path: /h',
  ];
  const file = fileWith(`routes:\n${routes.map((route) => `- { ${route}, respond: {} }\n`).join('')}`);
  const { warnings } = await load({ TOLLGATE_CONFIG: file });
  const found = warnings.map((line) => /routes\[(\d+)\]\.path: also matches (\S+),/.exec(line)?.slice(1).join(' '));
  expect(found.filter((one) => one !== undefined)).toEqual(['0 /a', '5 /{z}/d', '7 /e', '8 /g']);
});

describe('nothing is loaded from', () => {
  test('a file that is absent, a directory, too large or not text, and all such faults come together (reliability 114)', async () => {
    const absent = join(folder, 'absent.yaml');
    const faults = await faultsOf({ TOLLGATE_CONFIG: absent, TOLLGATE_PLANS: folder, PORT: 'http' });
    expect(faults).toHaveLength(3);
    expect(faults[0]).toMatch(/^environment: PORT: /);
    expect(faults[1]).toContain(`${absent}:1:1: (file): does not exist. Name another file in TOLLGATE_CONFIG`);
    expect(faults[2]).toContain(`${folder}:1:1: (file): is a directory, not a file.`);
    const large = fileWith(`${MINIMAL}# ${'x'.repeat(512 * 1024)}\n`);
    expect((await faultsOf({ TOLLGATE_CONFIG: large }))[0]).toContain(`${large}:1:1: (file): is larger than 512 KiB`);
    const binary = fileWith(new Uint8Array([0x61, 0x3a, 0x20, 0x31, 0x0a, 0x62, 0xc3, 0x28]));
    expect(await faultsOf({ TOLLGATE_CONFIG: binary })).toEqual([
      `${binary}:2:2: (file): is not UTF-8 text. Save the file as UTF-8.`,
    ]);
  });

  test('two listeners on one port, wherever the port comes from', async () => {
    const same = fileWith(`listen: { port: 9090 }\n${MINIMAL}`);
    expect((await faultsOf({ TOLLGATE_CONFIG: same }))[0]).toContain(
      ': admin.port: is the port of both listeners, 9090',
    );
    expect((await faultsOf({ PORT: '9090' }))[0]).toContain('environment: PORT: is the port of both listeners');
    expect((await faultsOf({ ADMIN_PORT: '8080', HOST: '0.0.0.0' }))[0]).toContain(
      'environment: ADMIN_PORT: is the port of both',
    );
    expect(await faultsOf({ PORT: '0', ADMIN_PORT: '0' })).toEqual([]);
    expect(await faultsOf({ PORT: '9090', ADMIN_HOST: '127.0.0.2' })).toEqual([]);
  });

  test('UPSTREAM_URL without upstreams: there is nothing that it could replace', async () => {
    const file = fileWith("routes: [{ path: '/**', auth: none, limits: { minute: 9 }, respond: { status: 503 } }]\n");
    expect((await faultsOf({ TOLLGATE_CONFIG: file, UPSTREAM_URL: 'http://127.0.0.1:9002' }))[0]).toContain(
      'gateway.yaml has none',
    );
  });

  test('UPSTREAM_URL with several upstreams: it would send all routes to one service', async () => {
    const file = fileWith(
      `upstreams: { store: { targets: [http://127.0.0.1:9000] }, shop: { targets: [http://127.0.0.1:9001] } }\n${ROUTES}`,
    );
    expect((await faultsOf({ TOLLGATE_CONFIG: file, UPSTREAM_URL: 'http://127.0.0.1:9002' }))[0]).toContain(
      'UPSTREAM_URL',
    );
  });
});
