import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// `encodedSlashes`, `dotSegments` and `emptySegments` of a route, `/x` of `/x/**`, and `options`.

const ROUTES = `
  - { path: '/reg/**', methods: [GET], upstream: store, encodedSlashes: pass, rewrite: { stripPrefix: /reg } }
  - { path: '/s3/**', methods: [GET, PUT], upstream: store, emptySegments: pass, dotSegments: pass }
  - { path: '/api/**', methods: [GET], upstream: store, encodedSlashes: pass, auth: none, limits: { minute: 1000 } }
  - { path: '/api/admin/{id}', methods: [GET], upstream: store }
  - { path: '/plain/**', methods: [GET], upstream: store }
  - { path: '/old/**', methods: [GET], redirect: { to: '/new/**' } }
  - { path: /asked, methods: [GET], upstream: store, options: answer }
  - { path: /asked, methods: [POST], upstream: store }
  - { path: /passed, methods: [GET], upstream: store, options: pass }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
  ({ key } = await gateway.createKey('endless'));
});

async function ask(target: string, method = 'GET', own: string | null = key) {
  const seen = upstream.requests.length;
  const authorization = own === null ? '' : `Authorization: Bearer ${own}\r\n`;
  const { responses } = await rawExchange(
    gateway.port,
    `${method} ${target} HTTP/1.1\r\nHost: a\r\n${authorization}\r\n`,
  );
  return { response: responses[0]!, seen: upstream.requests.slice(seen).map(({ url }) => url) };
}

test.each([
  ['/reg/@scope%2fname', '/@scope%2fname'],
  ['/reg/group%2Fproject/%C3%A9?ref=a%2Fb', '/group%2Fproject/%C3%A9?ref=a%2Fb'],
  ['/s3/bucket//key/../a', '/s3/bucket//key/../a'],
  ['/s3//', '/s3//'],
  ['/api/queues/%2F/name', '/api/queues/%2F/name'],
])('the service gets %s byte for byte where the route passes it', async (sent, got) => {
  const { response, seen } = await ask(sent);
  expect([response.status, ...seen]).toEqual([200, got]);
});

test.each([
  '/plain/a%2Fb',
  '/plain//a',
  '/reg//a',
  '/reg/a%2F..%2F..%2Fplain',
  '/s3/a%2Fb',
  '/s3/../plain/a',
  '/s3/%2e%2e;v/plain/a',
  '/s3/a/../../plain/a',
  '/api/admin%2F7',
  '/api/Admin%2F7',
  '/api/admin;v%2F7',
  '/api/%61dmin%5C7',
  '/reg/a%00%2Fb',
  '/s3//\\a',
])('%s is 400, with a key and without one, and reaches nobody (reliability 530, 531)', async (path) => {
  for (const own of [key, null]) {
    const { response, seen } = await ask(path, 'GET', own);
    expect([response.status, ...seen]).toEqual([400]);
    expect(response.json()).toMatchObject({ code: 'invalid_request' });
  }
});

test('npm installs a scoped package through a route that passes encoded slashes', async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'package'));
  await writeFile(join(folder, 'package', 'package.json'), '{"name":"@acme/thing","version":"1.0.0"}');
  await promisify(execFile)('tar', ['czf', join(folder, 'thing.tgz'), '-C', folder, 'package']);
  const archive = await readFile(join(folder, 'thing.tgz'));
  const integrity = `sha512-${createHash('sha512').update(archive).digest('base64')}`;
  const registry = await startUpstream((request, response) => {
    if (request.url === '/npm/@acme%2fthing') {
      const dist = { tarball: `${open.origin}/npm/@acme/thing/-/thing-1.0.0.tgz`, integrity };
      const versions = { '1.0.0': { name: '@acme/thing', version: '1.0.0', dist } };
      response.end(JSON.stringify({ name: '@acme/thing', 'dist-tags': { latest: '1.0.0' }, versions }));
    } else if (request.url?.endsWith('.tgz')) response.end(archive);
    else response.writeHead(404).end('{}');
  });
  const routes = "\n  - { path: '/npm/**', methods: [GET], upstream: store, encodedSlashes: pass }";
  const open = await openGateway({ upstream: registry.origin, routes });
  const own = await open.createKey('endless');
  const project = join(folder, 'project');
  await mkdir(project);
  await writeFile(join(project, 'package.json'), '{"name":"project","private":true}');
  await writeFile(
    join(project, '.npmrc'),
    `registry=${open.origin}/npm/\n//127.0.0.1:${open.port}/npm/:_authToken=${own.key}\n`,
  );
  const words = [
    'install',
    '@acme/thing',
    '--no-audit',
    '--no-fund',
    '--no-update-notifier',
    '--cache',
    join(folder, 'cache'),
  ];
  await promisify(execFile)('npm', words, { cwd: project });
  const installed = await readFile(join(project, 'node_modules', '@acme', 'thing', 'package.json'), 'utf8');
  expect(JSON.parse(installed).version).toBe('1.0.0');
});

test('an odd path is counted in the groups of all its readings (reliability 532)', async () => {
  const plans = `
plans:
  pro:
    limits: { minute: 100 }
    groups: { search: { routes: [/files/search/**], limits: { minute: 1 } } }
failed-authentication: { minute: 30 }
`;
  const routes = "\n  - { path: '/files/**', methods: [GET], upstream: store, encodedSlashes: pass }";
  const open = await openGateway({ upstream: upstream.origin, plans, routes });
  const own = await open.createKey('pro');
  const statuses = [];
  for (const path of ['/files/search/a', '/files/search%2Fa', '/files/other%2Fa'])
    statuses.push((await open.get(path, own.key)).status);
  expect(statuses).toEqual([200, 429, 200]);
});

describe('`/x/**`', () => {
  test('serves `/x` if no route does, without a slash that the client has not sent', async () => {
    expect((await ask('/plain?a')).seen).toEqual(['/plain?a']);
    expect((await ask('/reg')).seen).toEqual(['/']);
    expect((await ask('/old?a')).response.header('location')).toBe('/new?a');
  });

  test.each(['/files/**', '/files'])(
    'counts `/x` in the groups of that pattern and of its own: %s',
    async (pattern) => {
      const plans = `
plans:
  pro: { limits: { minute: 100 }, groups: { all: { routes: [${pattern}], limits: { minute: 1 } } } }
failed-authentication: { minute: 30 }
`;
      const open = await openGateway({
        upstream: upstream.origin,
        plans,
        routes: "\n  - { path: '/files/**', methods: [GET], upstream: store }",
      });
      const own = await open.createKey('pro');
      expect((await open.get('/files', own.key)).status).toBe(200);
      expect((await open.get('/files', own.key)).status).toBe(429);
      expect((await open.get('/files/a', own.key)).status).toBe(pattern === '/files' ? 200 : 429);
    },
  );
});

describe('OPTIONS', () => {
  test('is answered with the methods of the path, identified and counted, with `options: answer`', async () => {
    const { response, seen } = await ask('/asked', 'OPTIONS');
    expect([response.status, response.header('allow'), ...seen]).toEqual([204, 'GET, HEAD, POST, OPTIONS']);
    expect((await ask('/asked', 'OPTIONS', null)).response.status).toBe(401);
    expect((await ask('/asked', 'DELETE')).response.header('allow')).toBe('GET, HEAD, POST, OPTIONS');
  });

  test('is forwarded with `options: pass`, and otherwise refused', async () => {
    expect((await ask('/passed', 'OPTIONS')).seen).toEqual(['/passed']);
    expect((await ask('/plain/a', 'OPTIONS')).response.status).toBe(405);
  });
});
