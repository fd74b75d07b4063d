import { once } from 'node:events';
import { request } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pagesOfDocuments, searchPages } from '../../src/cli/documents/pages.ts';
import { siteOf } from '../../src/cli/documents/site.ts';
import { type Running, startProcess } from '../support/processes.ts';
import { runCommand } from '../support/run-command.ts';

test('`docs` lists every page of README.md, in its groups', async () => {
  const { code, stdout } = await runCommand({}, 'docs');
  expect(code).toBe(0);
  expect(stdout.match(/^\w+$/gm)).toEqual([
    'Start',
    'Callers',
    'Traffic',
    'Operate',
    'Build',
    'Reference',
    'Internals',
    'Promises',
    'Project',
  ]);
  for (const name of [
    'readme',
    'guides/limits',
    'guides/load-test',
    'reference/log',
    'operate/security',
    'contract',
    'changelog',
  ])
    expect(stdout).toMatch(new RegExp(`^ {2}${name} +\\S`, 'm'));
});

test.each([
  ['guides/limits', '# Choosing a window'],
  ['limits', '# Choosing a window'],
  ['docs/guides/limits.md', '# Choosing a window'],
  ['Choosing a Window', '# Choosing a window'],
  ['gateway-yaml', '# gateway.yaml'],
  ['readme', '# Tollgate'],
])('`docs %s` shows that page', async (word, heading) => {
  const { code, stdout } = await runCommand({}, 'docs', word);
  expect([code, stdout.split('\n')[0]]).toEqual([0, heading]);
});

test('`docs PAGE#SECTION` shows a section with what belongs to it, as links name it', async () => {
  const { code, stdout } = await runCommand({}, 'docs', 'guides/move-from.md#traefik');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^## Traefik\n[\s\S]*\n### What differs\n/);
  expect(stdout).not.toContain('## Caddy');
  for (const [link, line] of [
    ['../contract.md#section-3', /^## .*3/],
    ['reliability.md#244', /^\| <a id="244"><\/a>244 /m],
    ['move-from#what-differs-1', /^### What differs\n\n- Both slide/],
  ] as const)
    expect((await runCommand({}, 'docs', link)).stdout, link).toMatch(line);
  expect(await runCommand({}, 'docs', 'limits#nothing')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      "The page guides/limits has no section 'nothing'. Its sections are: fixed-windows, sliding-windows,",
    ),
  });
});

test('a word for no page, or for several, is an error that says what to do', async () => {
  expect(await runCommand({}, 'docs', 'nothing-of-this')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('`tollgate docs` lists them'),
  });
  const { stderr } = await runCommand({}, 'docs', 'admin-api');
  expect(stderr).toBe('Several pages have this name: guides/admin-api, reference/admin-api.\n');
});

test.each([
  [['']],
  [['limits', 'plans']],
  [['limits', '--serve']],
  [['--serve', '--search', 'limits']],
  [['--serve', '--port', '65536']],
  [['--port', '80']],
])('`docs` with %j is wrong usage', async (words) => {
  expect(await runCommand({}, 'docs', ...words)).toMatchObject({ code: 2, stdout: '' });
});

test('`docs --serve` on a port in use says so', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const { code, stderr } = await runCommand({}, 'docs', '--serve', '--port', String(port));
  server.close();
  expect([code, stderr]).toEqual([
    1,
    `Port ${port} is in use. Name another one, or leave --port out for a free one.\n`,
  ]);
});

test('`docs --search` finds lines with all words, headings first, and says when nothing has them', async () => {
  const { code, stdout } = await runCommand({}, 'docs', '--search', 'sliding', 'windows');
  expect([code, stdout.split('\n').slice(0, 2)]).toEqual([
    0,
    ['concepts  Fixed, sliding and calendar windows', '  ## Fixed, sliding and calendar windows'],
  ]);
  // The words of one page, in no line together.
  expect((await runCommand({}, 'docs', '--search', 'sliding calendar day Berlin')).stdout).toContain('guides/limits');
  const words = ['sliding', 'calendar', 'day', 'Berlin'];
  expect((await runCommand({}, 'docs', '--search', ...words)).stdout).toContain('guides/limits');
  expect((await runCommand({}, 'docs', '--search', ...words, 'xyzzyplugh')).code).toBe(1);
  expect(await runCommand({}, 'docs', '--search', 'xyzzyplugh')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'No page has these words.\n',
  });
});

// What people type who know another gateway, and where the answer is.
test.each([
  ['rate limiting', 'guides/limits'],
  ['throttling', 'guides/limits'],
  ['burst', 'in flight'],
  ['token bucket', 'sliding-windows'],
  ['concurrency', 'in flight'],
  ['quota', 'quota'],
  ['OAuth', 'guides/tokens'],
  ['OIDC', 'guides/tokens'],
  ['mTLS', 'client-certificates'],
  ['whitelist', 'who-may-call.md#addresses'],
  ['blacklist', 'who-may-call.md#addresses'],
  ['load balancing', 'guides/upstreams'],
  ['circuit breaker', 'guides/upstreams'],
  ['blue-green', 'recipes.md#a-canary'],
  ['middleware', 'guides/policies'],
  ['hot reload', 'how-gateways-apply-a-change'],
  ['dry run', 'shadow limit'],
  ['correlation id', 'X-Request-Id'],
  ['caching', 'not in Tollgate'],
  ['gRPC', 'transcoder'],
  ['multi-tenant', 'Run a gateway and a Redis'],
  ['monetization', 'bill-by-usage'],
  ['high availability', 'operate/redis'],
  ['audit log', 'operate/audit'],
  ['benchmark', 'performance.md#'],
  ['CORS', 'guides/browsers'],
  ['websocket', 'guides/websockets'],
])('a search for "%s" finds %s', (words, answer) => {
  const found = searchPages(words, pagesOfDocuments());
  expect(found.map(({ page, line }) => `${page.name} ${line}`).join('\n')).toContain(answer);
});

test('`docs --serve` says in words what a picture shows that did not come along', () => {
  const inPackage = (file: string) => (/\.svg$|now-desktop-light/.test(file) ? Buffer.from('a picture') : null);
  const site = siteOf(pagesOfDocuments(), inPackage);
  const shown: string[] = [];
  for (const { file } of pagesOfDocuments()) {
    const { body } = site(file === 'README.md' ? '/' : `/${file.replace('.md', '')}`, null)!;
    for (const [, path] of String(body).matchAll(/src(?:set)?="\/([^"]+)"/g)) shown.push(path!);
  }
  expect(shown.length).toBeGreaterThan(5);
  expect(shown.filter((path) => inPackage(path) === null)).toEqual([]);
  const { body } = site('/docs/guides/console', null)!;
  expect(body).toContain('<em>Only the clone has this picture: The list of keys with its filters.</em>');
  expect(body).toContain('src="/docs/guides/console/now-desktop-light.png"');
  expect(siteOf(pagesOfDocuments())('/docs/guides/console', null)!.body).not.toContain('Only the clone has');
});

describe('`docs --serve`', () => {
  let running: Running;
  let origin: string;
  beforeAll(async () => {
    running = startProcess(process.execPath, ['bin/tollgate.js', 'docs', '--serve']);
    [, origin] = (await running.until(/^(http:\/\/127\.0\.0\.1:\d+)$/m)) as unknown as [string, string];
  });
  afterAll(async () => {
    running.signal('SIGTERM');
    expect(await running.exit).toEqual({ code: 0, signal: null });
  });

  test('serves every page, and every link between them leads to a page, and to a heading that it has', async () => {
    const texts = new Map<string, string>();
    const waiting = ['/'];
    for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
      const response = await fetch(`${origin}${path}`);
      expect([response.status, response.headers.get('content-type')], path).toEqual([200, 'text/html; charset=utf-8']);
      expect(response.headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
      const text = await response.text();
      texts.set(path, text);
      for (const [, href] of text.matchAll(/<a href="(\/[^"#]*)/g)) {
        if (!texts.has(href!) && !waiting.includes(href!)) waiting.push(href!);
      }
    }
    expect(texts.size).toBeGreaterThan(50);
    for (const [path, text] of texts) {
      for (const [, target, anchor] of text.matchAll(/<a href="([^"#]*)#([^"]+)"/g)) {
        const of = texts.get(target === '' ? path : target!);
        if (of !== undefined) expect(of, `${path}: ${target}#${anchor}`).toContain(`id="${anchor}"`);
      }
    }
  });

  test('answers only those who ask for this machine', async () => {
    const asked = request(origin, { headers: { Host: 'evil.example' } }).end();
    const [response] = await once(asked, 'response');
    response.resume();
    expect(response.statusCode).toBe(421);
  });

  test('has pictures and a search, and nothing of what is not a document', async () => {
    const picture = await fetch(`${origin}/docs/guides/console/now-desktop-light.png`);
    expect([picture.status, picture.headers.get('content-type')]).toEqual([200, 'image/png']);
    const drawing = await fetch(`${origin}/docs/concepts/windows.svg`);
    expect([drawing.status, drawing.headers.get('content-type')]).toEqual([200, 'image/svg+xml']);
    const search = await (await fetch(`${origin}/search?q=${encodeURIComponent('"><script>sliding')}`)).text();
    expect(search).not.toContain('<script>');
    expect(await (await fetch(`${origin}/search?q=sliding+windows`)).text()).toContain(
      'href="/docs/guides/limits#sliding-windows"',
    );
    for (const path of [
      '/package.json',
      '/docs/guides/../../package.json',
      '/%2e%2e/package.json',
      '/docs/..%2fpackage.png',
      '/src/main.ts',
      '/.git/config',
    ])
      expect((await fetch(`${origin}${path}`)).status, path).toBe(404);
    expect((await fetch(origin, { method: 'POST' })).status).toBe(404);
    expect((await fetch(origin, { method: 'HEAD' })).status).toBe(200);
  });
});
