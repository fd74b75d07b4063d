import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { parseDocument } from 'yaml';
import { printFault } from '../../src/config/fault.ts';
import { importedKong } from '../../src/config/kong/imported-kong.ts';
import { parseKong } from '../../src/config/kong/kong-file.ts';
import { openReplica, type TestGateway } from '../support/gateway.ts';
import { KongModel, type KongRequest } from '../support/kong.ts';
import { ROOT } from '../support/processes.ts';
import { runCommand } from '../support/run-command.ts';
import { SEED } from '../support/sample.ts';
import { processorMs } from '../support/stopwatch.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

const EXAMPLE = readFileSync(join(ROOT, 'examples/kong/kong.yaml'), 'utf8');

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});

/** Writes a description of Kong, and has it moved to `moved` in the folder of the test. */
async function moved(text: string) {
  const file = join(folder, 'kong.yaml');
  writeFileSync(file, text);
  const out = join(folder, 'moved');
  const printed = await runCommand({}, 'import', 'kong', file, '--out', out);
  return { ...printed, out, left: leftIn(printed.stdout, file) };
}

/** What the command says that it has not moved: the place and the sentence. */
function leftIn(stdout: string, file: string): readonly string[] {
  const [, list = ''] = stdout.split('another meaning here:\n');
  return list.split('\n').flatMap((line) => (line.startsWith(`  ${file}:`) ? [line.slice(file.length + 3)] : []));
}

const read = (out: string, name: string) => readFileSync(join(out, `${name}.yaml`), 'utf8');

describe('the example, with 4 services, 12 routes and 9 consumers,', () => {
  let upstream: Upstream;

  /** A gateway with the written files and keys, in front of a service that answers everything. */
  async function gatewayOf(text: string): Promise<TestGateway> {
    upstream = await startUpstream();
    const { port } = new URL(upstream.origin);
    const { out } = await moved(text.replaceAll(':9000', `:${port}`));
    const env = {
      TOLLGATE_CONFIG: join(out, 'gateway.yaml'),
      TOLLGATE_PLANS: join(out, 'plans.yaml'),
      TOLLGATE_DATA: join(folder, 'data'),
      PORT: '0',
      ADMIN_PORT: '0',
    };
    expect(await runCommand(env, 'gateway', 'check', '--strict')).toMatchObject({ code: 0, stderr: '' });
    expect(await runCommand(env, 'keys', 'apply', join(out, 'keys.yaml'))).toMatchObject({ code: 0, stderr: '' });
    return openReplica({ env });
  }

  const KEYS = [...EXAMPLE.matchAll(/\{ key: ([\w-]{9,}) \}/g)].map(([, key]) => key!);
  const PLACES: readonly Omit<KongRequest, 'key'>[] = [
    { method: 'GET', host: 'api', path: '/v1/orders' },
    { method: 'GET', host: 'api', path: '/v1/orders/7' },
    { method: 'POST', host: 'api', path: '/v1/orders' },
    { method: 'GET', host: 'api', path: '/v1/exports' },
    { method: 'GET', host: 'api', path: '/v1/catalog/a' },
    { method: 'POST', host: 'api', path: '/v1/search' },
    { method: 'GET', host: 'api', path: '/v1/items/12' },
    { method: 'GET', host: 'accounts.example.com', path: '/v1/accounts' },
    { method: 'DELETE', host: 'admin.example.com', path: '/admin/x' },
    { method: 'GET', host: 'api', path: '/status' },
    { method: 'GET', host: 'api', path: '/docs' },
    { method: 'POST', host: 'api', path: '/feedback' },
    // Without a key, an address has a limit once for a path and all below it.
    { method: 'GET', host: 'api', path: '/status/live' },
    { method: 'GET', host: 'api', path: '/docs/a' },
    { method: 'POST', host: 'api', path: '/feedback/x' },
  ];

  test('gives each consumer on each route what Kong gives: 200, 401, 403, 404 or 413', async () => {
    const wide = EXAMPLE.replaceAll(/(minute|hour|day): \d+/g, '$&000');
    const [gateway, kong] = [await gatewayOf(wide), new KongModel(wide)];
    const others = [
      { method: 'GET', host: 'api', path: '/v1/accounts' },
      { method: 'POST', host: 'api', path: '/feedback', bodyBytes: 17_000 },
      { method: 'POST', host: 'api', path: '/feedback', bodyBytes: 15_000 },
      { method: 'POST', host: 'api', path: '/v1/orders', bodyBytes: 2_200_000 },
    ];
    const all = [...PLACES, ...others].flatMap((place) => KEYS.map((key) => ({ ...place, key })));
    const without = PLACES.map((place) => ({ ...place, key: null }));
    for (const one of [...all, ...without]) {
      expect([one, await statusAt(gateway, one)]).toEqual([one, kong.statusOf(one)]);
    }
    expect(new Set([...all, ...without].map((one) => kong.statusOf(one)))).toEqual(new Set([200, 401, 403, 404, 413]));
    const sent = upstream.requests.map(({ method, url }) => `${method} ${url}`);
    // The path of the service comes in front, and what `strip_path` takes off is gone.
    expect(sent).toContain('GET /catalog/a');
    expect(sent).toContain('POST /catalog');
    expect(sent).toContain('GET /v1/orders/7');
    // Services are told who calls as Kong does it.
    const fields = String(upstream.requests.flatMap(({ rawHeaders }) => rawHeaders)).toLowerCase();
    for (const field of ['x-consumer-username,acme', 'x-consumer-custom-id,crm-1001']) expect(fields).toContain(field);
    expect(String(upstream.requests.flatMap(({ rawHeaders }) => rawHeaders))).not.toContain(KEYS[0]);
  });

  test(`limits each consumer as Kong does, request by request, in an order at random (${SEED})`, async () => {
    const [gateway, kong] = [await gatewayOf(EXAMPLE), new KongModel(EXAMPLE)];
    const random = numbersOf(SEED);
    const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)]!;
    const statuses = new Map<number, number>();
    for (let i = 0; i < 900; i++) {
      // Most requests come from few consumers, so that limits are reached.
      const one = { ...pick(PLACES), key: pick(random() < 0.7 ? KEYS.slice(0, 4) : KEYS) };
      // A request that lacks a scope is counted here and not in Kong, as the page says.
      if (refusedByAcl(one)) continue;
      const expected = kong.statusOf(one);
      expect([i, one, await statusAt(gateway, one)]).toEqual([i, one, expected]);
      statuses.set(expected, (statuses.get(expected) ?? 0) + 1);
    }
    expect(statuses.get(200)).toBeGreaterThan(100);
    expect(statuses.get(429)).toBeGreaterThan(50);
  });

  const ofGroups = new KongModel(EXAMPLE.replaceAll(/(minute|hour|day): \d+/g, '$&000'));
  const refusedByAcl = (one: KongRequest) => ofGroups.statusOf(one) === 403;
});

/** The status of one request. */
function statusAt({ port }: TestGateway, { method, host, path, key, bodyBytes = 0 }: KongRequest): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const headers = { Host: host, ...(key === null ? {} : { apikey: key }), 'Content-Length': bodyBytes };
  const sent = request({ port, host: '127.0.0.1', method, path, headers }, (response) => {
    response.resume();
    resolve(response.statusCode!);
  });
  sent.on('error', reject);
  sent.end(Buffer.alloc(bodyBytes, 'x'));
  return promise;
}

/** A repeatable series of numbers from 0 to 1 (mulberry32). */
function numbersOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

test('tells what a request gets in Kong and here, and each thing that is not moved with its place', async () => {
  const { stdout, left, out, code } = await moved(EXAMPLE);
  expect(code).toBe(0);
  expect(stdout).toContain(
    'orders-create\tPOST /v1/orders\ta key; group buyers or staff; 5 a minute for each consumer on this route; bodies up to 2 MiB\t' +
      'a key; scope buyers|staff; 5 a minute for each customer in orders-create; bodies up to 2 MiB\n',
  );
  expect(stdout).toContain(
    'acme\t2\t60 a minute, 5000 a day for the consumer on all routes\tacme-plan: 60 a minute, 5000 a day\n',
  );
  expect(left).toContainEqual(
    expect.stringMatching(/^97:9: services\[3\]\.routes\[3\]: route beta: it is chosen by header fields/),
  );
  expect(left).toContainEqual(
    expect.stringMatching(/^\d+:\d+: consumers\[8\]\.keyauth_credentials\[0\]: key: has characters or a length/),
  );
  expect(left).toContainEqual(expect.stringMatching(/consumer old-import: its tokens \(jwt\) are not moved\.$/));
  // No secret is written, and only its owner may read the digests.
  const keys = read(out, 'keys');
  expect(keys).not.toContain('Q7mV2xT9bL4nR8kD1sW6yC3zF5gH0jPa');
  expect(statSync(join(out, 'keys.yaml')).mode & 0o077).toBe(0);
  expect(readdirSync(out).sort()).toEqual([
    ...['gateway.schema.json', 'gateway.yaml', 'keys.schema.json', 'keys.yaml', 'plans.schema.json', 'plans.yaml'],
  ]);
});

test('reads the lists of the Admin API, where entities are named by their ids', async () => {
  const ids = { service: 'a1', route: 'b2', consumer: 'c3' };
  const page = (...data: object[]) => ({ data, next: null });
  const lists = {
    services: page({
      id: ids.service,
      name: 'shop',
      host: '10.0.0.7',
      port: 8000,
      protocol: 'http',
      path: null,
      enabled: true,
    }),
    routes: page({
      ...{ id: ids.route, name: 'items', service: { id: ids.service }, paths: ['/items'], methods: null, hosts: null },
      ...{ snis: null, headers: null, strip_path: false, protocols: ['http', 'https'] },
    }),
    consumers: page({ id: ids.consumer, username: 'jo', custom_id: null }),
    'key-auths': page({ key: 'Q7mV2xT9bL4nR8kD1sW6yC3zF5gH0jPa', consumer: { id: ids.consumer } }),
    acls: page({ group: 'shops', consumer: { id: ids.consumer } }),
    plugins: page(
      {
        name: 'key-auth',
        enabled: true,
        config: { key_names: ['apikey'] },
        route: null,
        service: { id: ids.service },
        consumer: null,
      },
      {
        name: 'acl',
        enabled: true,
        config: { allow: ['shops'] },
        route: { id: ids.route },
        service: null,
        consumer: null,
      },
      {
        name: 'rate-limiting',
        enabled: true,
        config: { minute: 7 },
        route: null,
        service: null,
        consumer: { id: ids.consumer },
      },
      {
        name: 'rate-limiting',
        enabled: false,
        config: { minute: 1 },
        route: { id: ids.route },
        service: null,
        consumer: null,
      },
    ),
  };
  const { stdout, left, out } = await moved(JSON.stringify(lists, null, 1));
  expect(left).toEqual([]);
  expect(stdout).toContain('jo\t1\t7 a minute for the consumer on all routes\tjo-plan: 7 a minute\n');
  expect(read(out, 'gateway')).toContain('targets: ["http://10.0.0.7:8000"]');
  expect(read(out, 'keys')).toContain('jo: { plan: jo-plan, name: "jo", scopes: ["shops"] }');
});

test.each([
  ['services: [{ name: a }]', '1:12: services[0]: has no `url` and no `host`.'],
  ['routes: [{ name: r, service: gone, paths: [/a] }]', '1:30: routes[0].service: is no service of this file.'],
  ['services: {}', '1:11: services'],
  ['services: { data: [], next: /services?offset=x }', '1:29: services.next: is one page of several'],
  ['consumers: [{ username: a, keyauth_credentials: [{}] }]', 'consumers[0].keyauth_credentials[0]: has no `key`'],
  ['plugins: [{ name: 5 }]', '1:19: plugins[0].name: must be the name of a plugin'],
  ['password: hunter2', '1:1: (file): is no such settings file'],
  ['services: [', ': (file): is not YAML'],
])('refuses %j with its place, and writes nothing (reliability 547)', async (text, message) => {
  const { code, stderr, stdout } = await moved(`${text}\n`);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(message);
  expect(readdirSync(folder)).toEqual(['kong.yaml']);
});

test.each([
  ['consumers: [{ username: a, keyauth_credentials: [{ key: 1234567890123456 }] }]', 'put the key in quotes'],
  ['key-auths: [{ consumer: a, key: 1234567890123456 }]', 'put the key in quotes'],
  ['jwt_secrets: [{ consumer: a, key: 1234567890123456 }]', 'put the key in quotes'],
  ['consumers: [{ username: a, keyauth_credentials: [1234567890123456] }]', 'is not a mapping with a `key`'],
  ['consumers: [{ username: a, keyauth_credentials: 1234567890123456 }]', 'is not a list'],
  ['keyauth_credentials: "1234567890123456"', 'is not a list'],
])('a key in a wrong place or without quotes is never printed: %s (reliability 543)', async (text, message) => {
  const { code, stderr, stdout } = await moved(`${text}\n`);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(message);
  expect(stderr).not.toContain('12345');
});

test('names that every object has in JavaScript are names like others (reliability 543)', async () => {
  const text = ['constructor', 'toString', '__proto__']
    .map(
      (name, i) =>
        `- { name: ${name}, url: 'http://10.0.0.1', routes: [{ name: ${name}, paths: [/${i}] }], plugins: [{ name: key-auth }, ` +
        `{ name: ${name} }, { name: rate-limiting, config: { minute: 5, limit_by: ${name} } }, ` +
        `{ name: request-size-limiting, config: { allowed_payload_size: 2, size_unit: ${name} } }] }`,
    )
    .join('\n');
  const { code, stdout, left } = await moved(`services:\n${text}\n`);
  expect(code).toBe(0);
  expect(stdout).not.toMatch(/function|native code|\[object|NaN|undefined/);
  expect(left).toContainEqual(expect.stringMatching(/constructor: has nothing in its place\.$/));
  expect(left).toContainEqual(expect.stringMatching(/rate-limiting: counts by constructor, and a plan/));
});

test.each([
  ["{ name: s, enabled: false, url: 'http://10.0.0.1', routes: [{ name: r, paths: [/a] }] }", ''],
  ["{ name: s, url: 'http://10.0.0.1', routes: [{ name: r, paths: [/usage] }] }", 'route r: its path /usage is /usage'],
])('a file without a route that can be moved is refused as that: %s', async (service, why) => {
  const { code, stderr } = await moved(`services: [${service}]\n`);
  expect([code, readdirSync(folder)]).toEqual([1, ['kong.yaml']]);
  expect(stderr).toContain('no service in it that is enabled has a route that can be moved.');
  expect(stderr).toContain(why);
  expect(stderr).not.toContain('gateway.yaml');
});

test('a limit that no plan can have is a fault of its place, not of a line of a file that is not written', async () => {
  const text =
    "services: [{ name: s, url: 'http://10.0.0.1', routes: [{ name: r, paths: [/a] }], plugins: [{ name: key-auth }] }]\n" +
    'plugins: [{ name: rate-limiting, config: { minute: -3 } }]\n';
  const { code, stderr } = await moved(text);
  expect(code).toBe(1);
  expect(stderr).toMatch(/plans\.yaml would have a fault at plans\.default\.limits\.minute: must be /);
  expect(stderr).not.toMatch(/plans\.yaml:\d/);
});

test('a hundred services with 200 routes, 12 limits and 500 consumers take a moment, not minutes', () => {
  const limit = (minute: number) => ({ name: 'rate-limiting', config: { minute } });
  const services = Array.from({ length: 100 }, (_, i) => ({
    ...{ name: `s${i}`, url: `http://10.0.0.1:${8_000 + i}` },
    plugins: [{ name: 'key-auth' }, ...(i < 12 ? [limit(50 + i)] : [])],
    routes: ['a', 'b'].map((name) => ({ name: `r${i}${name}`, paths: [`/svc${i}/${name}`] })),
  }));
  const consumers = Array.from({ length: 500 }, (_, i) => ({
    ...{ username: `c${i}`, keyauth_credentials: [{ key: `key-${String(i).padStart(28, '0')}` }] },
    ...(i % 10 === 0 ? { plugins: [limit(100 + i)] } : {}),
  }));
  const read = parseKong(JSON.stringify({ services, consumers, plugins: [limit(20)] }), 'kong.json');
  if ('faults' in read) throw new Error(read.faults.map(printFault).join('\n'));
  const move = () => expect(importedKong(read.value)).toMatchObject({ left: [], routes: { length: 400 } });
  expect(processorMs(move)).toBeLessThan(5_000);
});

test('a route that needs a token, or refuses addresses, in Kong is closed until something is in its place (reliability 548)', async () => {
  const { port } = await startUpstream();
  const route = (name: string, plugin: string) =>
    `  - { name: ${name}, paths: [/${name}], methods: [GET], plugins: [${plugin}] }`;
  const { out, left } = await moved(`_format_version: "3.0"
services:
- name: s
  url: http://127.0.0.1:${port}
  routes:
${route('tokens', '{ name: jwt }')}
${route('passwords', '{ name: basic-auth }')}
${route('own', '{ name: a-plugin-of-ours }')}
${route('addresses', '{ name: ip-restriction, config: { deny: [127.0.0.1] } }')}
${route('logged', '{ name: http-log }')}
- name: balanced
  host: pool
  routes: [{ name: away, paths: [/away], methods: [GET] }]
upstreams: [{ name: pool }]
`);
  const env = { TOLLGATE_CONFIG: join(out, 'gateway.yaml'), TOLLGATE_PLANS: join(out, 'plans.yaml') };
  const gateway = await openReplica({
    env: { ...env, TOLLGATE_DATA: join(folder, 'data'), PORT: '0', ADMIN_PORT: '0' },
  });
  const statusOf = async (path: string) => (await gateway.get(path)).status;
  for (const path of ['/tokens', '/tokens/x', '/passwords', '/own', '/addresses'])
    expect(await statusOf(path)).toBe(503);
  expect(await statusOf('/logged')).toBe(200);
  expect(left.filter((one) => one.includes('would be open to everyone'))).toHaveLength(4);
  expect(left.filter((one) => one.includes('its upstream pool has no targets'))).toHaveLength(1);
});

const many = (count: number, of: (i: number) => object) => Array.from({ length: count }, (_, i) => of(i));
const url = 'http://10.0.0.1';

test.each([
  ['services', { services: many(16_000, (i) => ({ name: `s${i}`, url, routes: [{ paths: [`/${i}`] }] })) }],
  ['services of one name', { services: many(16_000, (i) => ({ name: 'é', url, routes: [{ paths: [`/${i}`] }] })) }],
  [
    'routes of one path',
    { services: [{ url, routes: many(20_000, (i) => ({ paths: ['/a'], hosts: [`h${i}.example`] })) }] },
  ],
  [
    'consumers and keys in lists of their own',
    {
      services: [{ url, plugins: [{ name: 'key-auth' }], routes: [{ paths: ['/a'] }] }],
      consumers: many(20_000, (i) => ({ username: `c${i}` })),
      'key-auths': many(20_000, (i) => ({ key: `key-${String(i).padStart(28, '0')}`, consumer: `c${i}` })),
    },
  ],
])('as many %s as a file may have take no more than in proportion (reliability 544)', (_, description) => {
  const move = () => {
    const read = parseKong(JSON.stringify(description), 'kong.json');
    if ('faults' in read) throw new Error(read.faults.map(printFault).join('\n'));
    importedKong(read.value);
  };
  expect(processorMs(move)).toBeLessThan(8_000);
});

test('overwrites no file, and leaves none behind beside one that is there (reliability 547)', async () => {
  const { out } = await moved(EXAMPLE);
  const again = await moved(EXAMPLE);
  expect(again).toMatchObject({ code: 1, stderr: expect.stringMatching(/gateway\.yaml exists already\./) });
  expect(readdirSync(out)).toHaveLength(6);
});

test('names that would end a line and continue as settings stay within a text (reliability 547)', async () => {
  const evil = JSON.stringify('a\n  b: { auth: none }\u2028\u001b[31m"');
  const text = `services: [{ name: ${evil}, url: 'http://10.0.0.1', routes: [{ name: ${evil}, paths: [/a], plugins: [{ name: key-auth }] }] }]
consumers: [{ username: ${evil}, custom_id: ${evil}, acls: [{ group: ${evil} }], keyauth_credentials: [{ key: abcdefgh12345678 }] }]
plugins: [{ name: acl, config: { allow: [${evil}] } }, { name: ${evil} }]
`;
  const { code, out, stdout } = await moved(text);
  expect(code).toBe(0);
  for (const name of ['gateway', 'plans', 'keys']) expect(read(out, name)).not.toMatch(/^ *b: /m);
  expect(stdout).not.toContain('\u001b');
});

describe('no text of a description adds a setting (reliability 542)', () => {
  /** A description in which each text that may be written anywhere is one of these. */
  const withTexts = (textAt: (place: string) => string) => ({
    services: [
      {
        ...{ name: textAt('service'), protocol: 'http', host: textAt('host'), port: 80, path: textAt('base') },
        routes: [
          { name: textAt('route'), paths: [textAt('path')], hosts: [textAt('hosts')], methods: [textAt('method')] },
          {
            name: `${textAt('route')}2`,
            paths: ['/b'],
            plugins: [{ name: textAt('guard'), config: { key_names: [textAt('place')] } }],
          },
        ],
        plugins: [
          { name: 'key-auth', config: { key_names: [textAt('place')] } },
          { name: 'ip-restriction', config: { allow: [textAt('address')] } },
          { name: 'acl', config: { allow: [textAt('group')] } },
        ],
      },
      { name: 'open', url: 'http://10.0.0.2', path: '/', routes: [{ name: textAt('open'), paths: ['/open'] }] },
    ],
    upstreams: [
      {
        ...{ name: textAt('host'), hash_on: textAt('hash'), hash_on_cookie: textAt('cookie') },
        healthchecks: { active: { http_path: textAt('health'), healthy: { interval: 5 } } },
        targets: [{ target: textAt('target') }, { target: '10.0.0.3:80' }],
      },
    ],
    consumers: [
      {
        ...{ username: textAt('username'), custom_id: textAt('custom'), acls: [{ group: textAt('group') }] },
        keyauth_credentials: [{ key: textAt('key') }, { key: 'Q7mV2xT9bL4nR8kD1sW6yC3zAA' }],
        plugins: [{ name: 'rate-limiting', config: { minute: 5, limit_by: textAt('by') } }],
      },
    ],
    plugins: [
      { name: 'rate-limiting', config: { minute: 9 } },
      {
        name: 'cors',
        config: { origins: [textAt('origin')], headers: [textAt('header')], exposed_headers: [textAt('exposed')] },
      },
    ],
  });
  const PLAIN: Readonly<Record<string, string>> = {
    ...{ service: 's', host: '10.0.0.1', base: '/base', route: 'r', path: '/a', hosts: 'a.example', method: 'GET' },
    ...{ place: 'apikey', address: '10.0.0.0/8', group: 'g', hash: 'cookie', cookie: 'sid', health: '/live' },
    ...{ target: '10.0.0.2:80', username: 'jo', custom: '7', key: 'q7mV2xT9bL4nR8kD1sW6yC3z', by: 'consumer' },
    ...{ guard: 'key-auth', open: 'o', origin: 'https://a.example', header: 'X-A', exposed: 'X-B' },
  };
  const NAMED = ['upstreams', 'plans', 'groups', 'customers', 'keys'];

  /** The way to each value of the written files, without positions and the names of entities, each with how often it is there. */
  function waysIn(description: object): ReadonlyMap<string, number> {
    const read = parseKong(JSON.stringify(description), 'kong.json');
    if ('faults' in read) return new Map();
    const made = importedKong(read.value);
    const ways: string[] = [];
    const walk = (value: unknown, way: string, isNamed: boolean) => {
      ways.push(way);
      if (typeof value !== 'object' || value === null) return;
      for (const [name, inner] of Object.entries(value)) {
        const isName = !isNamed && NAMED.includes(name) && typeof inner === 'object' && !('from' in inner);
        walk(inner, `${way}.${isNamed || Array.isArray(value) ? '*' : name}`, isName);
      }
    };
    for (const file of ['gateway', 'plans', 'keys'] as const) walk(parseDocument(made[file]).toJS(), file, false);
    return new Map(
      Map.groupBy(ways, (way) => way)
        .entries()
        .map(([way, all]) => [way, all.length]),
    );
  }
  const plain = waysIn(withTexts((place) => PLAIN[place]!));

  test('whose cookie ends the line and names an upstream', async () => {
    const text = JSON.stringify(
      withTexts((place) =>
        place === 'cookie' ? 'sid }\n    host: keep\n  injected: { targets: [http://evil.example] }' : PLAIN[place]!,
      ),
    );
    const { code, out, left } = await moved(text);
    expect(code).toBe(0);
    expect(read(out, 'gateway')).not.toMatch(/evil|keep|sticky/);
    expect(left).toContainEqual(expect.stringContaining('hash_on_cookie sid }'));
  });

  test(`whatever it is, in each place (${SEED})`, () => {
    expect(plain.get('gateway.upstreams.*.sticky.cookie')).toBe(1);
    const part = fc.constantFrom(
      ...[
        '\n',
        '\r',
        '\u0085',
        '\u2028',
        '\t',
        '  ',
        ' ',
        '"',
        "'",
        '{',
        '}',
        '[',
        ']',
        ',',
        ': ',
        ' #',
        '- ',
        '&',
        '*',
        '!',
      ],
      ...[
        '\\',
        '/',
        '~/',
        '$',
        '%',
        '|',
        '>',
        'a',
        'sid',
        '0',
        '.',
        ':80',
        'host: keep',
        'auth: none',
        'x: {}',
        '<<',
        '__proto__',
      ],
    );
    const evil = fc.tuple(fc.constantFrom('', 'plain'), fc.array(part, { maxLength: 8 }));
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(PLAIN)), evil, (where, [start, parts]) => {
        const text = `${start === '' ? '' : PLAIN[where]}${parts.join('')}`;
        const ways = waysIn(withTexts((place) => (place === where ? text : PLAIN[place]!)));
        const more = [...ways].filter(([way, times]) => times > (plain.get(way) ?? 0));
        expect(more).toEqual([]);
      }),
      { seed: SEED, numRuns: 600 },
    );
  });
});

describe('what differs is said', () => {
  const of = (routes: string, more = '') =>
    moved(
      `services:\n- { name: s, url: 'http://10.0.0.1', routes: [${routes}], plugins: [{ name: key-auth }] }\n${more}`,
    );
  const limit = (config: string) => `plugins: [{ name: rate-limiting, config: { ${config} } }]\n`;

  test.each([
    ['limit_by: ip', 'rate-limiting: counts addresses on routes that need a key'],
    ['limit_by: header, header_name: x', 'rate-limiting: counts the values of a header field'],
    ['limit_by: service', 'rate-limiting: counts all callers of a service together'],
  ])('of a limit with %s, which is not written', async (by, why) => {
    const { left, out } = await of('{ name: r, paths: [/a] }', limit(`minute: 5, ${by}`));
    expect(left).toEqual([expect.stringContaining(why)]);
    expect(read(out, 'plans')).toContain('limits: { minute: unlimited }');
  });

  test('of a year', async () => {
    const { left, out } = await of('{ name: r, paths: [/a] }', limit('month: 9, year: 50'));
    expect(left).toEqual([expect.stringContaining('has a limit of 50 a year; the longest window here is the month')]);
    expect(read(out, 'plans')).toContain('limits: { month: 9 }');
  });

  test('of keys that are counted one by one: they have no customer, and its name as their owner', async () => {
    const keys =
      'consumers: [{ username: jo, keyauth_credentials: [{ key: abcdefgh12345678 }, { key: abcdefgh87654321 }] }]\n';
    const { left, out } = await of('{ name: r, paths: [/a] }', limit('minute: 5, limit_by: credential') + keys);
    expect(left).toEqual([]);
    expect(read(out, 'keys')).toMatch(
      /customers: \{\}\nkeys:\n {2}jo-key-1: \{ plan: default, name: "jo", owner: "jo", sha256/,
    );
  });

  test('of a route inside the paths of a group', async () => {
    const routes =
      '{ name: wide, paths: [/a], plugins: [{ name: rate-limiting, config: { minute: 50 } }] }, { name: inner, paths: [/a/b], plugins: [{ name: rate-limiting, config: { minute: 5 } }] }';
    const { left } = await of(routes);
    expect(left).toEqual([
      expect.stringContaining('route inner: requests that match the paths of the group wide count there'),
    ]);
  });

  test.each([
    ["'~/a/(?<id>\\d+)/b$'", 'path: "/a/{id}/b"'],
    ["'~/a/[^/]+$'", 'path: "/a/{p1}"'],
    ["'~/v1\\.0/x'", 'path: "/v1.0/x/**"'],
    ["'~/a/(b|c)'", null],
    ["'~.*'", null],
    ["'/a{b}'", null],
    ['/usage', null],
  ])('of the path %s', async (path, written) => {
    const { left, out } = await of(`{ name: ok, paths: [/ok] }, { name: r, paths: [${path}] }`);
    if (written === null) expect(left).toEqual([expect.stringContaining('route r: its path ')]);
    else expect(read(out, 'gateway')).toContain(written);
  });

  test('of preserve_host, unless all routes of a service have it', async () => {
    const { left, out } = await of('{ name: r, paths: [/a], preserve_host: true }');
    expect(left).toEqual([]);
    expect(read(out, 'gateway')).toContain('    host: keep\n');
  });

  test('of preserve_host on one of two routes', async () => {
    const { left, out } = await of('{ name: r, paths: [/a], preserve_host: true }, { name: s, paths: [/b] }');
    expect(left).toEqual([expect.stringContaining('route r: preserve_host: others of its service have it off')]);
    expect(read(out, 'gateway')).not.toContain('host: keep');
  });

  test('of two routes for the same requests, of which the one with methods has its own', async () => {
    const { left, out } = await of(
      '{ name: any, paths: [/a] }, { name: post, paths: [/a], methods: [POST] }, { name: again, paths: [/a], methods: [POST] }',
    );
    expect(read(out, 'gateway')).toContain('path: "/a"\n    methods: [GET, PUT, PATCH, DELETE, OPTIONS]');
    expect(left).toEqual([
      expect.stringContaining('route again: /a is taken by another route'),
      expect.stringContaining('route again: /a/** is taken by another route'),
    ]);
  });
});
