import { writeFileSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { printFault } from '../../src/config/fault.ts';
import { planRoutesOf, warningsWithRoutes } from '../../src/config/plans-and-routes.ts';
import { parsePlans } from '../../src/config/plans-schema.ts';
import { type Configuration, loadConfiguration } from '../../src/config/settings.ts';
import { createAuthority } from '../support/certificates.ts';
import { runCommand } from '../support/run-command.ts';
import { processorMs } from '../support/stopwatch.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

// Warnings about files that are sound alone: plans.yaml with gateway.yaml, and that with its certificates and the environment.

const PLANS = 'plans: { free: { limits: { minute: 60 } } }\n';
const UPSTREAM = 'upstreams: { store: { targets: [http://127.0.0.1:9000] } }\n';
const ROUTE = 'routes:\n- { path: /v1/pets, methods: [GET], upstream: store }\n';

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});

/** The environment that names these texts as files. */
function envOf(gateway: string, plans = PLANS): Record<string, string> {
  writeFileSync(join(folder, 'gateway.yaml'), gateway);
  writeFileSync(join(folder, 'plans.yaml'), plans);
  const [TOLLGATE_CONFIG, TOLLGATE_PLANS] = [join(folder, 'gateway.yaml'), join(folder, 'plans.yaml')];
  return { TOLLGATE_CONFIG, TOLLGATE_PLANS, TOLLGATE_DATA: join(folder, 'data') };
}

/** The warnings, without the folder of the test. */
async function warnings(env: Record<string, string>): Promise<readonly string[]> {
  const loaded = (await loadConfiguration(env)) as Configuration;
  return loaded.warnings.map((warning) => warning.replace(`${folder}/`, ''));
}

describe('plans and routes (reliability 545)', () => {
  test('a unit in other letters, which would switch its limit off, has its place and the name that is meant', async () => {
    const gateway = `${UPSTREAM}routes:\n- { path: /v1/chat, methods: [POST], upstream: store, cost: { token: 5 } }\n`;
    const plans = 'plans:\n  free:\n    limits: { minute: 60 }\n    units: { tokens: { day: 1000 } }\n';
    expect(await warnings(envOf(gateway, plans))).toEqual([
      'plans.yaml:4:22: plans.free.units.tokens: is charged by no route for which these limits are. Did you mean `token`?',
      'plans.yaml:2:3: plans: has no plan that limits `token`, which /v1/chat charges: it is not counted. Did you mean `tokens`?',
    ]);
  });

  test('a cost and a reserve above a limit, and a pattern without a route', async () => {
    const gateway = `${UPSTREAM}routes:
- { path: /v1/report, methods: [GET], upstream: store, cost: 90 }
- { path: /v1/chat, methods: [POST], upstream: store, cost: { tokens: { reserve: 500 } } }
- { path: /v1/dear, methods: [POST], upstream: store, cost: { tokens: { reserve: { sum: [{ amount: 50, times: t.a }, { header: X-A, default: 5, least: 2, times: 3 }] } } } }
- { path: /v1/open, methods: [GET], upstream: store, auth: none, limits: { minute: 5 } }
tables: { t: { by: { json: /model }, rows: { large: { a: 9 }, small: { a: 8.5 } } } }
`;
    const plans = `plans:
  free:
    limits: { minute: 60 }
    units: { tokens: { minute: 400 } }
    groups:
      chat: { routes: [/v1/chat, POST /v1/report, /v1/open], limits: { minute: 5 } }
`;
    expect(await warnings(envOf(gateway, plans))).toEqual([
      'plans.yaml:3:23: plans.free.limits.minute: is below the cost of /v1/report, 90: keys of this plan can never call it.',
      'plans.yaml:4:32: plans.free.units.tokens.minute: is below what /v1/chat takes in advance, 500: keys of this plan can never call it.',
      'plans.yaml:4:32: plans.free.units.tokens.minute: is below what /v1/dear takes in advance, 431: keys of this plan can never call it.',
      'plans.yaml:4:32: plans.free.units.tokens.minute: is below what /v1/dear takes in advance of requests that do not say it, 440: those of keys of this plan are all refused.',
      'plans.yaml:6:34: plans.free.groups.chat.routes[1]: matches no route of gateway.yaml that needs a key.',
      'plans.yaml:6:51: plans.free.groups.chat.routes[2]: matches no route of gateway.yaml that needs a key.',
    ]);
  });

  test('a group that no route is in is for policies, where there are some', async () => {
    writeFileSync(join(folder, 'policy.ts'), 'export default () => ({});\n');
    const plans =
      'plans: { free: { limits: { minute: 60 }, groups: { a: { routes: [/none], limits: { day: 5 } } } } }\n';
    expect(await warnings(envOf(UPSTREAM + ROUTE, plans))).toHaveLength(1);
    const decided = ROUTE.replace('store }', 'store, policies: [./policy.ts] }');
    expect(await warnings(envOf(UPSTREAM + decided, plans))).toEqual([]);
  });

  test('are compared at a cost that no start notices: 1,000 patterns that match none of 5,000 routes', () => {
    const patterns = Array.from({ length: 1_000 }, (_, i) => `/v1/{b}/s${i}`);
    const groups = Array.from({ length: 10 }, (_, g) => {
      return `g${g}: { routes: [${patterns.slice(g * 100, g * 100 + 100).map((one) => `'${one}'`)}], limits: { day: 5 } }`;
    });
    const plans = parsePlans(
      `plans: { free: { limits: { minute: 60 }, groups: { ${groups.join(', ')} } } }`,
      'plans.yaml',
    );
    if ('faults' in plans) throw new Error(plans.faults.map(printFault).join());
    const plain = { methods: ['GET'], cost: 1, charges: null, policies: null, perAddress: null };
    const routes = Array.from({ length: 5_000 }, (_, i) => ({ ...plain, path: `/v1/{a}/r${i}` }));
    const compare = () => expect(warningsWithRoutes(plans, planRoutesOf(routes))).toHaveLength(1_000);
    expect(processorMs(compare)).toBeLessThan(2_000);
  });
});

describe('targets (reliability 545)', () => {
  test.each([
    ['listen: { port: 9000 }\n', 'http://127.0.0.1:9000', true],
    ['listen: { port: 9000 }\n', 'http://localhost:9000', true],
    ['listen: { port: 9000 }\n', 'http://LOCALHOST.:9000', true],
    ['listen: { port: 9000 }\n', 'http://[::ffff:127.0.0.1]:9000', true],
    ['listen: { port: 9000 }\n', 'http://0.0.0.0:9000', true],
    ['listen: { port: 9000, host: localhost }\n', 'http://127.0.0.1:9000', true],
    ["listen: { port: 9000, host: '::1' }\n", 'http://localhost:9000', true],
    ['listen: { port: 9000, host: 0.0.0.0 }\n', `http://${hostname()}:9000`, true],
    ['listen: { port: 9000 }\n', 'http://127.0.0.2:9000', false],
    ['listen: { port: 9000 }\n', 'http://127.0.0.1:9001', false],
    ['listen: { port: 9000, host: 0.0.0.0 }\n', 'http://127.0.0.2:9000/base', true],
    ["listen: { port: 9000, host: '::' }\n", 'http://[::1]:9000', true],
    ['listen: { port: 80, host: 0.0.0.0 }\n', 'http://localhost', true],
    ['listen: { port: 443, host: 0.0.0.0 }\n', 'https://localhost', true],
    ['listen: { port: 9000, host: 0.0.0.0 }\n', 'http://192.0.2.7:9000', false],
    ['listen: { port: 9000 }\n', 'unix:/run/9000', false],
    ['listen: { port: 0 }\n', 'http://127.0.0.1', false],
  ])('%s and %s: the gateway itself: %s', async (listen, target, isOwn) => {
    const given = await warnings(envOf(`${listen}upstreams: { store: { targets: ['${target}'] } }\n${ROUTE}`));
    const at = expect.stringMatching(
      /^gateway\.yaml:2:33: upstreams\.store\.targets\[0\]: is the port of this gateway/,
    );
    expect(given).toEqual(isOwn ? [at] : []);
  });

  test('an address of this machine, and the environment in place of the file', async () => {
    const [own] = Object.values(networkInterfaces()).flatMap((of = []) => of.filter(({ family }) => family === 'IPv4'));
    const wide = `listen: { host: 0.0.0.0 }\nupstreams: { store: { targets: ['http://${own!.address}:8080'] } }\n${ROUTE}`;
    expect(await warnings(envOf(wide))).toHaveLength(1);
    expect(await warnings({ ...envOf(wide), PORT: '8081' })).toEqual([]);
    expect(await warnings({ ...envOf(UPSTREAM + ROUTE), UPSTREAM_URL: 'http://localhost:8080' })).toEqual([
      expect.stringMatching(/^environment: UPSTREAM_URL: is the port of this gateway \(8080\)/),
    ]);
  });
});

describe('certificates (reliability 545)', () => {
  const hosts = (names: string) => ROUTE.replace('store }', `store, hosts: [${names}] }`);

  test('one that has expired, of a listener or for an upstream, and one for other names', async () => {
    const authority = await createAuthority(folder);
    const dns = ['api.example.com', '*.shop.example.com'];
    const good = await authority.issue('good', 30, { dns });
    const old = await authority.issue('old', -1);
    const tls = ({ cert, key }: typeof good) => `{ cert: '${cert}', key: '${key}' }`;
    const names = "api.example.com, '*.shop.example.com', '*.example.com', other.example.com";
    const text = `listen: { tls: ${tls(good)} }\nadmin: { tls: ${tls(old)} }
upstreams: { store: { targets: [https://127.0.0.1:9000], tls: ${tls(old)} } }\n${hosts(names)}`;
    expect(await warnings(envOf(text))).toEqual([
      expect.stringMatching(/^gateway\.yaml:2:23: admin\.tls\.cert: ended on 20\d\d-\d\d-\d\d\. Replace it/),
      expect.stringMatching(/^gateway\.yaml:3:71: upstreams\.store\.tls\.cert: ended on/),
      expect.stringMatching(/^gateway\.yaml:5:101: routes\[0\]\.hosts\[2\]: is not among the names of the certificate/),
      expect.stringMatching(/^gateway\.yaml:5:118: routes\[0\]\.hosts\[3\]: is not among the names of the certificate/),
    ]);
    // A proxy that ends TLS shows clients its own certificate.
    const behind = text.replace('listen: {', 'listen: { trustedProxies: [10.0.0.1],');
    expect(await warnings(envOf(behind))).toHaveLength(2);
  });

  test('a further one without a DNS name, which no client gets', async () => {
    const authority = await createAuthority(folder);
    const [good, bare] = [await authority.issue('good'), await authority.issue('bare', 30, { uris: ['urn:api'] })];
    const pairs = [good, bare, good].map(({ cert, key }) => `cert: '${cert}', key: '${key}'`);
    const tls = `{ ${pairs[0]}, certificates: [{ ${pairs[1]} }, { ${pairs[2]} }] }`;
    expect(await warnings(envOf(`listen: { tls: ${tls} }\n${UPSTREAM}${ROUTE}`))).toEqual([
      expect.stringMatching(/listen\.tls\.certificates\[0\]\.cert: has no DNS name \(subjectAltName\)/),
    ]);
  });

  test('one that is to be ordered for other names', async () => {
    const acme = 'listen: { tls: { acme: { domains: [api.example.com], agreeToTerms: true } } }\n';
    expect(await warnings(envOf(acme + UPSTREAM + hosts('api.example.com, www.example.com')))).toEqual([
      expect.stringMatching(/routes\[0\]\.hosts\[1\]: is not among listen\.tls\.acme\.domains/),
    ]);
  });
});

test('gateway check names them, with --strict as faults, and doctor does so once (reliability 545)', async () => {
  const { cert, key } = await (await createAuthority(folder)).issue('old', -1);
  const plans = PLANS.replace('} }\n', '}, groups: { a: { routes: [/nowhere], limits: { day: 5 } } } } }\n').replace(
    '60 } }',
    '60 }',
  );
  const env = envOf(`listen: { tls: { cert: '${cert}', key: '${key}' } }\n${UPSTREAM}${ROUTE}`, plans);
  const { code, stderr } = await runCommand(env, 'gateway', 'check');
  expect(stderr).toMatch(
    /^warning: .*gateway\.yaml:1:24: listen\.tls\.cert: ended on .*\nwarning: .*plans\.yaml:1:\d+: .* matches no route/,
  );
  expect([code, (await runCommand(env, 'gateway', 'check', '--strict')).code]).toEqual([0, 1]);
  const { findings } = JSON.parse((await runCommand(env, 'doctor', '--json')).stdout);
  const told = (findings as { check: string; state: string; message: string }[]).filter(({ message }) =>
    /ended on|matches no/.test(message),
  );
  expect(told.map(({ check, state }) => `${check} ${state}`)).toEqual(['settings warn', 'certificate fail']);
});
