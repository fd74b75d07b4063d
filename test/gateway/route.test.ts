import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Failure } from '../../src/failure.ts';
import { compileRoutes, faultOfPattern, findCollisions, type Route } from '../../src/gateway/route.ts';
import { processorMs } from '../support/stopwatch.ts';

function route(path: string, methods: readonly string[] = ['GET']): Route {
  return {
    path,
    methods,
    upstream: 'store',
    cost: 1,
    allowsBody: false,
    allowsUpgrade: false,
    perAddress: null,
    deprecated: null,
  };
}

function matcher(...paths: string[]) {
  const router = compileRoutes(paths.map((path) => route(path)));
  return (path: string) => router.match(path)?.route.path ?? null;
}

describe('a path finds', () => {
  test('its literal route, compared raw and case-sensitive', () => {
    const match = matcher('/v1/pets', '/v1/caf%C3%A9');
    expect(match('/v1/pets')).toBe('/v1/pets');
    for (const path of [
      '/V1/pets',
      '/v1/pets/',
      '//v1/pets',
      '/v1//pets',
      '/v1/pets;x',
      '/v1/%70ets',
      'v1/pets',
      '',
      '*',
    ]) {
      expect(match(path), path).toBeNull();
    }
    expect(match('/v1/caf%C3%A9')).toBe('/v1/caf%C3%A9');
    expect(match('/v1/caf%c3%a9')).toBeNull();
  });

  test('a {name} for exactly one segment that is not empty, nothing decoded', () => {
    const match = matcher('/v1/pets/{petId}');
    for (const path of ['/v1/pets/1', '/v1/pets/a%2Fb', '/v1/pets/{petId}', '/v1/pets/%00', '/v1/pets/**']) {
      expect(match(path), path).toBe('/v1/pets/{petId}');
    }
    for (const path of ['/v1/pets/', '/v1/pets', '/v1/pets/1/', '/v1/pets/1/2', '/v1/pets//1'])
      expect(match(path), path).toBeNull();
  });

  test('a last /** for everything behind its slash, the slash included', () => {
    const match = matcher('/files/**');
    for (const path of ['/files/', '/files/a', '/files/a/b/', '/files//', '/files/**'])
      expect(match(path), path).toBe('/files/**');
    for (const path of ['/files', '/file/a', '/filesystem/a']) expect(match(path), path).toBeNull();
    expect(matcher('/**')('/')).toBe('/**');
    expect(matcher('/**')('*')).toBeNull();
  });

  test('the more specific of several routes, decided by the first segment that differs', () => {
    const match = matcher('/**', '/a/**', '/{x}/b', '/a/{x}', '/a/b', '/a/{x}/c', '/a/b/{y}/d');
    expect(match('/a/b')).toBe('/a/b');
    expect(match('/a/z')).toBe('/a/{x}');
    expect(match('/z/b')).toBe('/{x}/b');
    expect(match('/a/b/c')).toBe('/a/{x}/c');
    expect(match('/a/b/c/d')).toBe('/a/b/{y}/d');
    expect(match('/a/b/c/e')).toBe('/a/**');
    expect(match('/a')).toBe('/**');
    expect(matcher('/a/**', '/{x}/b')('/a/b')).toBe('/a/**');
  });

  test('the same route as a matcher that tries every pattern', () => {
    const segment = fc.constantFrom('a', 'b', 'ab', 'c%2F');
    const pattern = fc
      .tuple(fc.array(fc.oneof(segment, fc.constant('{}')), { maxLength: 4 }), fc.constantFrom('', '/', '/**'))
      .map(([parts, end]) =>
        parts.length + end.length === 0
          ? '/'
          : `${parts.map((p, i) => `/${p === '{}' ? `{n${i}}` : p}`).join('')}${end}`,
      );
    const path = fc
      .array(fc.oneof(segment, fc.constantFrom('', '{n0}', '**')), { maxLength: 6 })
      .map((parts) => `/${parts.join('/')}`);
    fc.assert(
      fc.property(
        fc.array(pattern, { maxLength: 12 }),
        fc.array(path, { minLength: 1, maxLength: 12 }),
        (given, paths) => {
          const collided = new Set(findCollisions(given).map(({ index }) => index));
          const patterns = given.filter((_, i) => !collided.has(i));
          const match = matcher(...patterns);
          for (const one of paths) expect(match(one), `${one} of ${patterns}`).toBe(naiveMatch(patterns, one));
        },
      ),
      { seed: 20_261_121, numRuns: 1_000 },
    );
  });
});

/** Every pattern as a regular expression; of those that match, the first by rank of each segment. */
function naiveMatch(patterns: readonly string[], path: string): string | null {
  const matching = patterns.filter((pattern) => {
    const source = pattern
      .split('/')
      .map((segment) => (segment === '**' ? '.*' : segment.startsWith('{') ? '[^/]+' : RegExp.escape(segment)));
    return new RegExp(`^${source.join('/')}$`, 's').test(path);
  });
  const rank = (pattern: string) =>
    pattern
      .split('/')
      .map((segment) => (segment === '**' ? '2' : segment.startsWith('{') ? '1' : '0'))
      .join('');
  return matching.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))[0] ?? null;
}

describe('methods', () => {
  test('GET brings HEAD, in the route and in Allow', () => {
    const match = compileRoutes([route('/a', ['GET', 'POST'])]).match('/a');
    expect(match).toMatchObject({ allow: 'GET, HEAD, POST', route: { methods: ['GET', 'HEAD', 'POST'] } });
    expect(compileRoutes([route('/a', ['HEAD', 'GET'])]).match('/a')?.allow).toBe('HEAD, GET');
    expect(compileRoutes([route('/a', ['DELETE'])]).match('/a')?.allow).toBe('DELETE');
  });

  test('a route is found whatever the method, so that 405 can name those it has', () => {
    expect(compileRoutes([route('/a', ['POST'])]).match('/a')?.allow).toBe('POST');
  });
});

describe('routes are refused', () => {
  test('that match the same paths, however their names are called', () => {
    expect(findCollisions(['/a/{x}', '/a/b', '/a/{y}', '/a/b', '/a/**', '/{x}/b'])).toEqual([
      { index: 2, with: 0 },
      { index: 3, with: 1 },
    ]);
    expect(() => compileRoutes([route('/a/{x}'), route('/a/{y}')])).toThrow(Failure);
  });

  test('whose pattern no request could mean', () => {
    for (const path of [
      '',
      'a',
      '/a//b',
      '/a/**/b',
      '/a*',
      '/a/{b',
      '/a/b}',
      '/{}',
      '/{1}',
      '/{a-b}',
      '/a{b}',
      '/a/..',
      '/./a',
    ]) {
      expect(faultOfPattern(path), path).not.toBeNull();
    }
    for (const path of [
      '/a?b',
      '/a#b',
      '/a b',
      '/ä',
      '/%zz',
      '/%2e%2E/a',
      '/{a}/{a}',
      `/${'a'.repeat(1024)}`,
      '/a\\b',
      '/a\n',
    ]) {
      expect(faultOfPattern(path), path).not.toBeNull();
      expect(() => compileRoutes([route(path)])).toThrow(Failure);
    }
    for (const path of ['/', '/a', '/a/', '/**', '/a/{b}/c', '/{a}/{b}/**', "/-._~!$&'()+,;=:@", '/%7Ea', '/...']) {
      expect(faultOfPattern(path), path).toBeNull();
    }
  });
});

test('a hostile path costs no more than an ordinary one: what lies behind the longest pattern is not looked at', () => {
  const router = compileRoutes(
    ['/a/{b}/c/{d}/e', '/{a}/b/{c}/d/{e}', '/a/a/a/a/a/a', '/{a}/{b}/{c}/{d}/{e}/{f}', '/a/**'].map((path) =>
      route(path),
    ),
  );
  const hostile = ['/a'.repeat(4096), '/'.repeat(8192), `/${'a'.repeat(8191)}`, `/b${'/a'.repeat(4095)}`];
  const tookMs = processorMs(() => {
    for (let i = 0; i < 2_500; i += 1) for (const path of hostile) router.match(path);
  });
  // 10,000 matches of 8 KiB each; a matcher that cuts or walks the whole path needs seconds.
  expect(tookMs).toBeLessThan(500);
});
