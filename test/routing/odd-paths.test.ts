import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { atOnce } from '../../src/io/steps.ts';
import { IN_ONE_READING } from '../../src/model/plan.ts';
import { routerOf } from '../../src/routing/host-router.ts';
import { PathGroups } from '../../src/routing/path-groups.ts';
import { type PassedForm, type Route, USAGE } from '../../src/routing/route.ts';
import { tries } from '../support/sample.ts';
import { processorMs } from '../support/stopwatch.ts';

// Paths with encoded slashes, dot segments or empty segments, and the routes that pass them.

const ALL: readonly PassedForm[] = ['encodedSlashes', 'dotSegments', 'emptySegments'];
const route = (path: string, passes: Route['passes'] = null, hosts: string | null = null): Route => ({
  ...USAGE,
  ...{ path, passes, upstream: 'store', hosts: hosts === null ? null : [hosts] },
});

function passing(...routes: Route[]) {
  const router = atOnce(routerOf(routes));
  return (path: string, host: string | null = null) => router.faultOfOdd(path, 'odd', 'GET', host) === null;
}

describe('a route passes', () => {
  test.each<[PassedForm, string, boolean]>([
    ['encodedSlashes', '/x/@scope%2Fname', true],
    ['encodedSlashes', '/x/a%5cb/c', true],
    ['encodedSlashes', '/x/%2Fa', true],
    ['encodedSlashes', '/x/a%2F%2Fb', true],
    ['encodedSlashes', '/x/%2F//b', false],
    ['encodedSlashes', '/x/a%2F..%2Fb', false],
    ['encodedSlashes', '/x/a%2F', true],
    ['encodedSlashes', '/x//a', false],
    ['emptySegments', '/x//a', true],
    ['emptySegments', '/x/a//', true],
    ['emptySegments', '/x/;v/a', true],
    ['emptySegments', '/x/%20/a', true],
    ['emptySegments', '/x/./a', false],
    ['dotSegments', '/x/./a', true],
    ['dotSegments', '/x/a/../b', true],
    ['dotSegments', '/x/a/%2e%2E;v/b', true],
    ['dotSegments', '/x//a', false],
  ])('with `%s: pass` what has that form alone: %s', (form, path, passes) => {
    expect(passing(route('/x/**', [form]))(path)).toBe(passes);
    expect(passing(route('/x/**'))(path)).toBe(false);
  });

  test('them only in what its `/**` matches', () => {
    const passes = passing(route('/{bucket}/**', ALL));
    expect([passes('/a/b%2Fc'), passes('/a%2Fb/c'), passes('//c'), passes('/./c'), passes('/;v/c')]).toEqual([
      true,
      false,
      false,
      false,
      false,
    ]);
  });

  test.each([
    '/x/..',
    '/x/../y',
    '/x/a/../../y',
    '/x/a%2F../../../y',
    '/x/a%2Fb/../../y',
    '/x//../y',
    '/x/;a%2Fb/../y',
  ])('no `..` that may lead out of it: %s (reliability 531)', (path) => {
    expect(passing(route('/x/**', ALL))(path)).toBe(false);
    expect(passing(route('/**', ALL), route('/x/**', ALL))(path)).toBe(false);
  });
});

describe('no route passes a path of which a reading is a path of another route (reliability 530)', () => {
  test.each([
    ['/x/admin', '/x//admin'],
    ['/x/admin', '/x/admin%2F'],
    ['/x/admin', '/x//ADMIN;v'],
    ['/x/admin/{id}', '/x/admin%2F7'],
    ['/x/admin/{id}', '/x/admin%5C7'],
    ['/x/admin/{id}', '/x/%61dmin%2F7'],
    ['/x/{a}/admin', '/x/b%2Fc/admin'],
    ['/x/{a}/admin', '/x/b%2Fc%2Fadmin'],
    ['/x/{a}/admin', '/x/b%2Fc%5Cadmin'],
    ['/x/admin', '/x/admin;v%2Fb'],
    ['/x/b/admin', '/x/b%2Fadmin;v%2Fc'],
    ['/x/admin/**', '/x/./admin/a'],
    ['/x/admin', '/x/a/../b'],
    ['/X/admin', '/x//admin'],
    ['/x', '/x//'],
    ['/x/a/', '/x/a/.'],
  ])('%s by %s', (other, path) => {
    expect(passing(route('/x/**', ALL), route(other))(path)).toBe(false);
    expect(passing(route('/x/**', ALL), route('/y/admin'))(path)).toBe(true);
  });

  test('routes with one path and different methods, each of which passes it for itself', () => {
    const router = atOnce(routerOf([route('/x/**', ALL), { ...route('/x/**', ALL), methods: ['PUT'] }]));
    for (const method of ['GET', 'PUT']) expect(router.faultOfOdd('/x//a', 'odd', method, null), method).toBeNull();
  });

  test('but passes one that has none', () => {
    const passes = passing(route('/x/**', ALL), route('/x/{a}/admin'), route('/x/admin'), route('/**'));
    expect(['/x/b%2Fc', '/x//b', '/x/b/c//admin', '/x/b/./c'].map((path) => passes(path))).toEqual(Array(4).fill(true));
  });

  test('nor one of a route of its host, if a route elsewhere would pass it (reliability 533)', () => {
    const passes = passing(route('/admin/{id}', null, 'a.example'), route('/**', ALL));
    expect([passes('/admin%2F7', 'a.example'), passes('/admin%2F7', 'b.example')]).toEqual([false, true]);
    expect([passes('/other%2F7', 'a.example'), passes('/a/../b', 'a.example')]).toEqual([true, false]);
  });

  test('whichever services do it, and in whichever order (reliability 530)', () => {
    const patterns = ['/x/a/b', '/x/{n}/b', '/x/b/**', '/x/a', '/x/{n}/{m}/a', '/y', '/x/b/', '/x', '/a/**', '/X/c'];
    const services: readonly ((path: string) => string)[] = [
      (path) => path.replaceAll(/%2f/gi, '/'),
      (path) => path.replaceAll(/%5c/gi, '/'),
      (path) => path.replaceAll(/\/{2,}/g, '/'),
      (path) => path.replaceAll(/;[^/]*/g, ''),
      (path) => new URL(`http://h${path.startsWith('//') ? `/.${path}` : path}`).pathname,
      (path) => path.toLowerCase(),
      (path) => path.replaceAll('%3b', ';'),
      (path) => path.replaceAll(/(?<=\/)(?:%20)+|(?:%20)+(?=[/;]|$)/g, ''),
    ];
    const piece = fc.constantFrom('a', 'b', 'c', 'A', '/', '/', '%2F', '%5C', '..', '.', ';v', '%2e', '%20', '%3b');
    let passed = 0;
    fc.assert(
      fc.property(
        fc.subarray(patterns),
        fc.array(piece, { minLength: 1, maxLength: 9 }),
        fc.array(fc.constantFrom(...services), { minLength: 1, maxLength: 6 }),
        (others, pieces, steps) => {
          const path = `/x/${pieces.join('')}`;
          const router = atOnce(routerOf([route('/x/**', ALL), ...others.map((other) => route(other))]));
          if (router.faultOfOdd(path, 'odd', 'GET', null) !== null) return;
          passed++;
          let read = path;
          for (const step of steps) read = step(read);
          expect(read, path).toMatch(/^\/x(?:\/|$)/);
          const found = router.match(read, 'GET', null);
          // A route of `/x` alone is another one, and without it `/x` is that of `/x/**`.
          expect(found?.route?.path, `${path} read as ${read}`).toBe('/x/**');
        },
      ),
      { numRuns: tries(5_000, 500_000) },
    );
    expect(passed).toBeGreaterThan(200);
  });
});

test.each<[string, PassedForm[], string, string | RegExp]>([
  [
    '/x/a//b',
    ['encodedSlashes'],
    '/x/**',
    'The path has an empty segment, or one of nothing but blanks or path parameters (`;…`), which its route does not pass (`emptySegments`).',
  ],
  [
    '/x/a%2F..%2Fb',
    ['encodedSlashes'],
    '/x/**',
    'The path has a segment `.` or `..`, which its route does not pass (`dotSegments`).',
  ],
  [
    '/x/a%2Fb',
    ['dotSegments'],
    '/x/**',
    'The path has an encoded slash or backslash, which its route does not pass (`encodedSlashes`).',
  ],
  ['/x/a/..', ['emptySegments'], '/x/**', /`dotSegments`/],
  [
    '/x%2Fy/a',
    [...ALL],
    '/{x}/**',
    /^The path must not have an encoded slash or backslash before the part that the `\/\*\*` of its route matches/,
  ],
  ['/x/../../y', [...ALL], '/x/**', 'The path has a `..` that may lead out of its route.'],
  ['/x/admin%2F7', [...ALL], '/x/**', /^A service may read the path.* as one of another route/],
  ['/z//y', [...ALL], '/x/**', 'odd'],
])(
  'the refusal of %s on a route that passes %j says what is refused and by which setting',
  (path, passes, pattern, fault) => {
    const router = atOnce(routerOf([route(pattern, passes), route('/x/admin/{id}')]));
    const found = router.faultOfOdd(path, 'odd', 'GET', null);
    if (typeof fault === 'string') expect(found).toBe(fault);
    else expect(found).toMatch(fault);
  },
);

test('an odd path belongs to the groups of all its readings (reliability 532)', () => {
  const groups = new PathGroups([{ routes: ['/x/search/**'] }, { routes: ['POST /x/{a}/report'] }, { routes: ['/y'] }]);
  const of = (path: string, method = 'GET') => groups.matching({ path, method });
  for (const path of ['/x//search/a', '/x/search%2Fa', '/x/./search//a', '/x/SEARCH;v%2Fa']) {
    expect(of(path), path).toBe(1 | IN_ONE_READING);
  }
  expect(of('/x/search//a')).toBe(1);
  expect(of('/x/b%2Fc%2Freport', 'POST')).toBe(2 | IN_ONE_READING);
  expect(of('/x/b%2Fc%2Freport')).toBe(0);
  expect(of('/x/a/../b')).toBe(5 | IN_ONE_READING);
  expect(of('/x/a%2Fb')).toBe(0);
});

test('a path of a thousand readings costs as little as its length', () => {
  const routes = Array.from({ length: 1_000 }, (_, i) => route(`/x/{a}/{b}/n${i}`));
  const passes = passing(route('/x/**', ALL), ...routes);
  const longest = `/x/${'a%2F'.repeat(2_000)}z`;
  expect(passes(longest)).toBe(true);
  expect(processorMs(() => passes(longest))).toBeLessThan(200);
});

describe('`/x/**` without a slash', () => {
  const match = (routes: readonly Route[], path: string, host: string | null = null) =>
    atOnce(routerOf(routes)).match(path, 'GET', host)?.route?.path ?? null;

  test('is matched if no route matches `/x`', () => {
    expect(match([route('/x/**')], '/x')).toBe('/x/**');
    expect(match([route('/{a}/x/**')], '/b/x')).toBe('/{a}/x/**');
    for (const other of ['/x', '/{a}', '/**']) expect(match([route('/x/**'), route(other)], '/x')).toBe(other);
    expect([match([route('/x/**')], '/X'), match([route('/x/y/**')], '/x')]).toEqual([null, null]);
    expect(match([route('/x/**', null, 'a.example'), route('/x')], '/x', 'a.example')).toBe('/x');
    expect(match([route('/x/**', null, 'a.example'), route('/y')], '/x', 'a.example')).toBe('/x/**');
  });

  test('has no other spelling', () => {
    expect(match([route('/x/**')], '/%78')).toBeNull();
    expect(atOnce(routerOf([route('/x/**')])).match('/%78', 'GET', null)?.route).toBeNull();
  });
});
