import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { atOnce } from '../../src/io/steps.ts';
import { routerOf } from '../../src/routing/host-router.ts';
import { type Route, USAGE } from '../../src/routing/route.ts';
import { findCollisions } from '../../src/routing/router.ts';
import { processorMs } from '../support/stopwatch.ts';

const route = (hosts: string | null, path: string, more: Partial<Route> = {}): Route => ({
  ...USAGE,
  ...{ hosts: hosts?.split(' ') ?? null, path, upstream: 'store', methods: ['GET'], ...more },
});

function matcher(...routes: Route[]) {
  const router = atOnce(routerOf(routes));
  return (host: string | null, path: string, method = 'GET') => {
    const found = router.match(path, method, host);
    return found?.route === null ? 'ambiguous' : (found?.name ?? null);
  };
}

describe('a request goes to', () => {
  const match = matcher(
    route('api.example.com', '/**'),
    route('*.example.com', '/**'),
    route('*.eu.example.com', '/**'),
    route(null, '/**'),
    route('shop.example.com blog.example.com', '/news'),
  );

  test.each([
    ['api.example.com', 'api.example.com/**'],
    ['API.Example.COM:8443', 'api.example.com/**'],
    ['api.example.com.', 'api.example.com/**'],
    ['api.example.com.:80', 'api.example.com/**'],
    ['other.example.com', '*.example.com/**'],
    ['a.b.example.com', '*.example.com/**'],
    ['a.eu.example.com', '*.eu.example.com/**'],
    ['eu.example.com', '*.example.com/**'],
    ['example.com', '/**'],
    ['api.example.com.evil.net', '/**'],
    ['xapi.example.org', '/**'],
    ['[::1]:80', '/**'],
    ['', '/**'],
    [null, '/**'],
    [`${'a.'.repeat(130)}example.com`, '/**'],
  ])('the most specific host that has a route for its path: %s', (host, name) => {
    expect(match(host, '/x')).toBe(name);
  });

  test('a wildcard or a route without hosts, if its own host has no route for the path', () => {
    expect(match('blog.example.com', '/news')).toBe('shop.example.com/news');
    expect(match('blog.example.com', '/other')).toBe('*.example.com/**');
    const few = matcher(route('a.example', '/only'), route(null, '/health'));
    expect([few('a.example', '/health'), few('a.example', '/x'), few('b.example', '/only')]).toEqual([
      '/health',
      null,
      null,
    ]);
  });

  test('the routes of its host before a more specific path elsewhere, and 405 of its host before its method elsewhere', () => {
    const few = matcher(
      route('a.example', '/**'),
      route(null, '/v1/pets'),
      route(null, '/v1/**', { methods: ['POST'] }),
    );
    expect([few('a.example', '/v1/pets'), few('b.example', '/v1/pets')]).toEqual(['a.example/**', '/v1/pets']);
    expect(few('a.example', '/v1/pets', 'POST')).toBe('a.example/**');
  });

  test('`GET /usage` on every host', () => {
    for (const host of ['api.example.com', 'a.b.example.com', 'nowhere', null])
      expect(match(host, '/usage')).toBe('/usage');
  });
});

describe('another spelling of a path of a host, which a route elsewhere would serve,', () => {
  const admin = route('a.example', '/admin/{x}', { scopes: ['admin'] });

  test.each(['/%61dmin/1', '/Admin/1', '/admin;v/1', '/admin%20/1'])('is ambiguous: %s (reliability 511)', (path) => {
    const match = matcher(admin, route(null, '/**'), route('*.example', '/**'));
    expect([match('a.example', path), match('b.example', path)]).toEqual(['ambiguous', '*.example/**']);
  });

  test('is served if the rules are the same', () => {
    const match = matcher(admin, route(null, '/**', { scopes: ['admin'] }));
    expect(match('a.example', '/Admin/1')).toBe('/**');
  });
});

test('each host has the route that the first matching table gives it, and none depends on the order of the routes', () => {
  const host = fc.constantFrom('a.x', 'b.x', '*.x', 'a.b.x', '*.b.x', 'c.y');
  const routes = fc.array(
    fc.record({
      hosts: fc.option(fc.uniqueArray(host, { minLength: 1, maxLength: 3 })),
      path: fc.constantFrom('/p', '/q', '/{id}', '/**', '/p/**'),
    }),
    { maxLength: 8 },
  );
  fc.assert(
    fc.property(
      routes,
      fc.constantFrom('a.x', 'b.x', 'a.b.x', 'z.b.x', 'c.y', 'd.y'),
      fc.constantFrom('/p', '/q', '/p/1', '/'),
      (given, asked, path) => {
        const all = given.map(({ hosts, path }) => route(hosts?.join(' ') ?? null, path));
        const collided = new Set(findCollisions(all).map(({ index }) => index));
        const sound = all.filter((_, i) => !collided.has(i));
        const suffixes = asked.split('.').map((_, i, labels) => `*.${labels.slice(i + 1).join('.')}`);
        const tables = [asked, ...suffixes, null].map((name) =>
          sound.filter(({ hosts }) => (name === null ? hosts === null : hosts?.includes(name))).map(({ path }) => path),
        );
        const patterns =
          path === '/p'
            ? ['/p', '/{id}', '/**']
            : path === '/q'
              ? ['/q', '/{id}', '/**']
              : path === '/p/1'
                ? ['/p/**', '/**']
                : ['/**'];
        const first = (wanted: readonly string[]) =>
          tables.flatMap((paths) => wanted.find((one) => paths.includes(one)) ?? [])[0] ?? null;
        const expected = first(patterns) ?? (path === '/p' ? first(['/p/**']) : null);
        for (const order of [sound, sound.toReversed()]) {
          const found = atOnce(routerOf(order)).match(path, 'GET', asked);
          expect(found?.route?.path ?? null).toBe(expected);
        }
      },
    ),
  );
});

test('routes collide only on a host that both have', () => {
  const routes = [
    route('a.x b.x', '/p'),
    route('c.x', '/p'),
    route('*.x', '/{id}'),
    route(null, '/p'),
    route('d.x b.x', '/p'),
    route(null, '/p', { methods: ['HEAD', 'POST'] }),
    route('*.x', '/{name}'),
  ];
  expect(findCollisions(routes)).toEqual([
    { index: 4, with: 0, host: 'b.x', method: 'GET' },
    { index: 5, with: 3, host: null, method: 'HEAD' },
    { index: 6, with: 2, host: '*.x', method: 'GET' },
  ]);
});

test('a host of thousands of labels costs no more than a long name (reliability 512)', () => {
  const router = atOnce(routerOf([route('*.example.com', '/**'), route(null, '/**')]));
  const host = `${'a.'.repeat(20_000)}example.com`;
  const ms = processorMs(() => {
    for (let i = 0; i < 100; i++) router.match('/x', 'GET', host);
  });
  expect(ms).toBeLessThan(500);
});
