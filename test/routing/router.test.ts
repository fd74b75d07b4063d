import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { plainAllowance } from '../../src/admit/allowance.ts';
import { Failure } from '../../src/failure.ts';
import { atOnce } from '../../src/io/steps.ts';
import { faultOfPattern, matchedBy } from '../../src/routing/pattern.ts';
import { type Route, USAGE } from '../../src/routing/route.ts';
import { findCollisions, findSurrounding, pathRouterOf } from '../../src/routing/router.ts';
import { processorMs } from '../support/stopwatch.ts';

const route = (path: string, methods: readonly string[] = ['GET']): Route => ({
  ...USAGE,
  ...{ path, methods, upstream: 'store' },
});

const routerFor = (routes: readonly Route[]) => atOnce(pathRouterOf(routes));

/** Without the rule that `/x/**` is matched by `/x`, which odd-paths.test.ts has. */
function matcher(...paths: string[]) {
  const router = routerFor(paths.map((path) => route(path)));
  return (path: string) => {
    const found = router.matchSlashed(path, 'GET');
    if (found === null) return null;
    return found.route === null ? 'ambiguous' : found.route.path;
  };
}

describe('a path finds', () => {
  test('its literal route, compared raw and case-sensitive', () => {
    const match = matcher('/v1/pets', '/v1/caf%C3%A9');
    expect(match('/v1/pets')).toBe('/v1/pets');
    for (const path of ['/V1/pets', '/v1/pets/', '//v1/pets', '/v1//pets', '/v1/pets;x', 'v1/pets', '', '*']) {
      expect(match(path), path).toBeNull();
    }
    expect(match('/v1/caf%C3%A9')).toBe('/v1/caf%C3%A9');
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
          const collided = new Set(findCollisions(given.map((path) => route(path))).map(({ index }) => index));
          const patterns = given.filter((_, i) => !collided.has(i));
          const match = matcher(...patterns);
          for (const one of paths) expect(match(one), `${one} of ${patterns}`).toBe(naiveMatch(patterns, one));
        },
      ),
      { seed: 20_261_121, numRuns: 1_000 },
    );
  });
});

/**
 * Every pattern as a regular expression; of those that match, the first by rank of each segment.
 * @param read how a service reads the text of paths and patterns: as it was sent by default
 */
function naiveMatch(patterns: readonly string[], path: string, read = (text: string) => text): string | null {
  const matching = patterns.filter((pattern) => regularExpressionOf(pattern, read).test(read(path)));
  return matching.toSorted((a, b) => (rankOf(a) < rankOf(b) ? -1 : 1))[0] ?? null;
}

function regularExpressionOf(pattern: string, read = (text: string) => text): RegExp {
  const source = pattern
    .split('/')
    .map((segment) => (segment === '**' ? '.*' : segment.startsWith('{') ? '[^/]+' : RegExp.escape(read(segment))));
  return new RegExp(`^${source.join('/')}$`, 's');
}

function rankOf(pattern: string): string {
  return pattern
    .split('/')
    .map((segment) => (segment === '**' ? '2' : segment.startsWith('{') ? '1' : '0'))
    .join('');
}

function decodedWhere(text: string, decodes: (character: string) => boolean): string {
  return text.replace(/%([0-9a-f]{2})/gi, (encoded, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16));
    return decodes(character) ? character : encoded.toUpperCase();
  });
}

// Attacks by a path that the gateway reads as it was sent and the service behind it decodes (RFC 3986 section 6.2.2).
describe('a path with percent-encodings', () => {
  const ROUTES = ['/v1/**', '/v1/admin', '/v1/{id}/x', '/v1/caf%C3%A9', '/v1/@home', '/v1/%7Bx%7D', '/v1/a%20b', '/b'];

  test.each([
    ...['/v1/%61dmin', '/v1/admi%6E', '/v1/admi%6e', '/%761/admin', '/%76%31/%61%64%6D%69%6E', '/v1/caf%c3%a9'],
    ...['/v1/c%61f%C3%A9', '/v1/%40home', '/v1/%40hom%65', '/%62', '/v1/1/%78', '/v1/%25/%78', '/v1/%7bx%7D'],
    ...['/v1/%7Bx}', '/v1/{x}', '/v1/%61%20b', '/v%31/', '/%761/a/b/c'],
  ])('%s is of another route when it is decoded, and is no route\u2019s', (path) => {
    expect(matcher(...ROUTES)(path)).toBe('ambiguous');
  });

  test.each([
    ...['/v1/%2561dmin', '/v1/%61dmins', '/v1/%61', '/v1/admin%20', '/v1/admin%3Bx', '/v1/admin%3fx', '/v1/admin%23'],
    ...['/v1/%2A%2A', '/v1/%7Bid%7D', '/v1/%41dmin', '/v1/admin/%61', '/v1/%e2%82%ac', '/v1/a%2520b', '/v1/%2561/x/'],
  ])('%s is of the same route in both readings, and goes on', (path) => {
    expect(matcher(...ROUTES)(path)).toBe('/v1/**');
  });

  test.each([
    ['/v1/%61/x', '/v1/{id}/x'],
    ['/v1/%40home/x', '/v1/{id}/x'],
    ['/v1/caf%C3%A9', '/v1/caf%C3%A9'],
    ['/v1/%7Bx%7D', '/v1/%7Bx%7D'],
    ['/v1/a%20b', '/v1/a%20b'],
    ['/%63', null],
    ['/b%20', null],
    ['/%761', null],
    ['%2Fb', null],
  ])('%s is of %s', (path, expected) => {
    expect(matcher(...ROUTES)(path)).toBe(expected);
  });

  test('is ambiguous however long its other segments are, and however long its own is', () => {
    const match = matcher('/**', '/{a}/admin', `/${'b'.repeat(300)}`);
    expect(match(`/${'x'.repeat(5_000)}/%61dmin`)).toBe('ambiguous');
    expect(match(`/${'%62'.repeat(300)}`)).toBe('ambiguous');
    expect(match(`/${'%62'.repeat(301)}`)).toBe('/**');
  });

  test('is told to be ambiguous to everybody only where one of its readings asks for no key', () => {
    const perAddress = { id: 'public', allowance: plainAllowance('public') };
    const asksForKey = (free: string | null, ...paths: string[]) => {
      const routes = paths.map((path) => ({ ...route(path), perAddress: path === free ? perAddress : null }));
      return routerFor(routes).match('/a/%62', 'GET');
    };
    expect(asksForKey(null, '/a/**', '/a/b')).toEqual({ route: null, asksForKey: true });
    expect(asksForKey(null, '/a/b')).toEqual({ route: null, asksForKey: true });
    expect(asksForKey('/a/b', '/a/b')).toEqual({ route: null, asksForKey: false });
    expect(asksForKey('/a/b', '/a/**', '/a/b')).toEqual({ route: null, asksForKey: false });
    expect(asksForKey('/a/**', '/a/**', '/a/b')).toEqual({ route: null, asksForKey: false });
  });

  test('is served by the route that every service reads in it, whatever it decodes, or refused', () => {
    const literal = fc.constantFrom('a', 'b', '%61', 'a%62', 'ab', '@', '%40', '%C3%A9', '%c3%a9', '%7Bx%7D', '%2561');
    const pattern = fc
      .tuple(fc.array(fc.oneof(literal, fc.constant('{}')), { maxLength: 3 }), fc.constantFrom('', '/', '/**'))
      .map(([parts, end]) => `${parts.map((p, i) => `/${p === '{}' ? `{n${i}}` : p}`).join('')}${end}` || '/');
    // A path of one of the patterns, each character encoded or not, in capitals or not.
    const spelling = fc.array(fc.constantFrom('as it is', 'as it is', 'encoded', 'encoded in lower case'), {
      minLength: 8,
      maxLength: 8,
    });
    const filler = fc.constantFrom('a', 'b', 'z', '@', '{x}', '%41', '%2561', '%C3%A9');
    const cases = fc.record({
      given: fc.array(pattern, { minLength: 1, maxLength: 8 }),
      picks: fc.array(fc.record({ pick: fc.nat(), spelling, filler, more: fc.boolean() }), { maxLength: 8 }),
      decodes: fc.array(fc.boolean(), { minLength: 16, maxLength: 16 }),
    });
    let refused = 0;
    fc.assert(
      fc.property(cases, ({ given, picks, decodes }) => {
        const collided = new Set(findCollisions(given.map((path) => route(path))).map(({ index }) => index));
        const patterns = given.filter((_, i) => !collided.has(i));
        const match = matcher(...patterns);
        for (const { pick, spelling, filler, more } of picks) {
          const plain = patterns[pick % patterns.length]!.replace(/\{\w+\}|\*\*/g, filler) + (more ? `/${filler}` : '');
          let i = 0;
          const path = plain.replace(/%..|[^/]/g, (one) => {
            const how = spelling[i++ % spelling.length];
            if (one.length > 1) return how === 'encoded in lower case' ? one.toLowerCase() : one;
            const hex = one.charCodeAt(0).toString(16);
            return how === 'as it is' ? one : `%${how === 'encoded' ? hex.toUpperCase() : hex}`;
          });
          const found = match(path);
          const readings = [
            naiveMatch(patterns, path),
            naiveMatch(patterns, path, (text) => decodedWhere(text, () => true)),
          ];
          expect(found, `${path} of ${patterns}`).toBe(readings[0] === readings[1] ? readings[0] : 'ambiguous');
          if (found === 'ambiguous') refused++;
          else {
            // Not %25: whoever decodes that and leaves others cannot tell %2561 and %61 apart.
            const isDecoded = (character: string) => character !== '%' && decodes[character.charCodeAt(0) % 16]!;
            const some = (text: string) => decodedWhere(text, isDecoded);
            expect(naiveMatch(patterns, path, some), `${path} of ${patterns}`).toBe(found);
          }
        }
      }),
      { seed: 20_261_122, numRuns: 1_000 },
    );
    expect(refused).toBeGreaterThan(500);
  });
});

describe('methods', () => {
  test('GET brings HEAD, in the route and in Allow', () => {
    const match = routerFor([route('/a', ['GET', 'POST'])]).match('/a', 'GET');
    expect(match).toMatchObject({ allow: 'GET, HEAD, POST', route: { methods: ['GET', 'HEAD', 'POST'] } });
    expect(routerFor([route('/a', ['HEAD', 'GET'])]).match('/a', 'GET')).toMatchObject({ allow: 'HEAD, GET' });
    expect(routerFor([route('/a', ['DELETE'])]).match('/a', 'GET')).toMatchObject({ allow: 'DELETE' });
  });

  test('a route is found whatever the method, so that 405 can name those it has', () => {
    expect(routerFor([route('/a', ['POST'])]).match('/a', 'GET')).toMatchObject({ allow: 'POST' });
  });

  test('decide among routes with one pattern; a method that none has gets all of theirs in Allow', () => {
    const [reads, writes, deletes] = [
      route('/v1/{x}', ['GET']),
      route('/v1/{y}', ['POST', 'PUT']),
      route('/v1/{x}', ['DELETE']),
    ];
    const router = routerFor([reads, writes, deletes, route('/v1/**', ['PATCH'])]);
    const found = (path: string, method: string) => {
      const match = router.match(path, method);
      return match === null || match.route === null ? null : [match.route.path, ...match.route.methods].join(' ');
    };
    expect(found('/v1/a', 'GET')).toBe('/v1/{x} GET HEAD');
    expect(found('/v1/a', 'HEAD')).toBe('/v1/{x} GET HEAD');
    expect(found('/v1/%61', 'PUT')).toBe('/v1/{y} POST PUT');
    expect(found('/v1/a', 'DELETE')).toBe('/v1/{x} DELETE');
    expect(found('/v1/a/b', 'PATCH')).toBe('/v1/** PATCH');
    // The path decides first: the wider route does not get the method that the narrower ones lack.
    expect(found('/v1/a', 'PATCH')).toBe('/v1/{x} GET HEAD');
    for (const method of ['GET', 'DELETE', 'PATCH']) {
      expect(router.match('/v1/a', method)).toMatchObject({ allow: 'GET, HEAD, POST, PUT, DELETE' });
    }
  });

  test('that no route has are refused under the rules of a route with a key that is not deprecated', () => {
    const perAddress = { id: 'public-1', allowance: plainAllowance('public') };
    const deprecated = { countedAs: '', sinceMs: 0, sunsetMs: 0, successor: null, link: null, brownouts: [] };
    const open = { ...route('/a', ['GET']), perAddress };
    const old = { ...route('/a', ['PUT']), deprecated };
    const alive = route('/a', ['POST']);
    const served = (...routes: Route[]) => routerFor(routes).match('/a', 'TRACE')?.route?.methods.join(' ');
    expect(served(open, old, alive)).toBe('POST');
    expect(served(open, old)).toBe('PUT');
    expect(served(old, alive)).toBe('POST');
    expect(served({ ...open, deprecated }, { ...open, methods: ['POST'] })).toBe('POST');
  });

  test('keep a path ambiguous whose decoded form is another pattern, and ask for a key where the method needs one', () => {
    const perAddress = { id: 'public-1', allowance: plainAllowance('public') };
    const router = routerFor([
      route('/v1/**', ['GET', 'POST']),
      { ...route('/v1/admin', ['GET']), perAddress },
      route('/v1/admin', ['POST']),
    ]);
    expect(router.match('/v1/%61dmin', 'GET')).toEqual({ route: null, asksForKey: false });
    expect(router.match('/v1/%61dmin', 'POST')).toEqual({ route: null, asksForKey: true });
  });
});

describe('routes are refused', () => {
  test('that match the same paths and methods, however their names are called', () => {
    const paths = ['/a/{x}', '/a/b', '/a/{y}', '/a/b', '/a/**', '/{x}/b'];
    expect(findCollisions(paths.map((path) => route(path)))).toMatchObject([
      { index: 2, with: 0, method: 'GET' },
      { index: 3, with: 1, method: 'GET' },
    ]);
    expect(() => routerFor([route('/a/{x}'), route('/a/{y}')])).toThrow(Failure);
  });

  test('of one path only for a method that two of them have, HEAD by way of GET included', () => {
    const routes = [
      route('/a/{x}', ['GET']),
      route('/a/{y}', ['POST', 'DELETE']),
      route('/a/{x}', ['PUT', 'DELETE']),
      route('/a/{x}', ['HEAD']),
      route('/a/{x}', ['PUT']),
    ];
    expect(findCollisions(routes)).toMatchObject([
      { index: 2, with: 1, method: 'DELETE' },
      { index: 3, with: 0, method: 'HEAD' },
    ]);
    expect(() => routerFor(routes.slice(0, 3))).toThrow(Failure);
    expect(() => routerFor([...routes.slice(0, 2), routes[4]!])).not.toThrow();
  });

  test('that match the same paths when they are decoded, whatever their methods, and no others', () => {
    const alike = ['/v1/a', '/v1/%61', '/%761/a', '/v1/caf%C3%A9', '/v1/caf%c3%a9', '/v1/@/{x}', '/v1/%40/{y}'];
    expect(findCollisions(alike.map((path, i) => route(path, i % 2 === 0 ? ['GET'] : ['POST'])))).toMatchObject([
      { index: 1, with: 0, method: null },
      { index: 2, with: 0, method: null },
      { index: 4, with: 3, method: null },
      { index: 6, with: 5, method: null },
    ]);
    // Decoded they read like a name, a rest, and two segments.
    const different = ['/{x}', '/%7Bx%7D', '/**', '/%2A%2A', '/a/b', '/a%2Fb', '/%2561', '/a'];
    expect(findCollisions(different.map((path) => route(path)))).toEqual([]);
    expect(() => routerFor([route('/v1/a'), route('/v1/%61', ['POST'])])).toThrow(Failure);
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
      expect(() => routerFor([route(path)])).toThrow(Failure);
    }
    for (const path of [
      `/${'a'.repeat(1023)}`,
      '/',
      '/a',
      '/a/',
      '/**',
      '/a/{b}/c',
      '/{a}/{b}/**',
      "/-._~!$&'()+,;=:@",
      '/%7Ea',
      '/...',
    ]) {
      expect(faultOfPattern(path), path).toBeNull();
    }
  });
});

test.each([
  ['a', 'must start with'],
  ['/a/**/b', 'in the middle'],
  ['/a*', 'not a last segment `/**`'],
  ['/:petId/toys', 'has `:petId`, which matches only itself; one segment is written `{petId}`'],
  ['/a{b}', 'has braces'],
  ['/a//b', 'has an empty segment'],
  ['/a b', 'percent-encode it'],
  ['/{a}/{a}', 'uses the name {a} twice'],
])('the pattern %s is refused with what is wrong', (path, message) => {
  expect(faultOfPattern(path)).toContain(message);
});

test.each([
  ['/v1/{id}/x/{Name_2}', '/v1/a%20b/x/%C3%A9', { id: 'a b', Name_2: 'é' }, null],
  ['/v1/{id}/**', '/v1/7/a%2Cb/c/', { id: '7' }, 'a,b/c/'],
  ['/**', '/', {}, ''],
  ['/v1/{id}', '/v1/%ff%20', { id: '%ff%20' }, null],
  ['/v1', '/v1', {}, null],
])('%s matches %s with the names %o and the rest %j', (pattern, path, names, rest) => {
  const matched = matchedBy(pattern, path);
  expect({ ...matched.names }).toEqual(names);
  expect([matched.rest, Object.isFrozen(matched.names), Object.getPrototypeOf(matched.names)]).toEqual([
    rest,
    true,
    null,
  ]);
});

test('GET /usage is known by its route, whatever its path is called', () => {
  const router = routerFor([USAGE, { ...USAGE, path: '/other' }]);
  expect(router.match('/usage', 'GET')?.route).toBe(USAGE);
  expect(router.match('/other', 'GET')?.route).not.toBe(USAGE);
});

describe('a pattern lies within', () => {
  const within = (...paths: string[]) =>
    findSurrounding(paths).map((pair) => `${paths[pair.index]} in ${paths[pair.within]}`);

  test('those that are less specific and match some of its paths, or would with a slash behind', () => {
    expect(within('/v1/**', '/v1/admin', '/v1/{id}', '/v2/admin', '/V1/{id}')).toEqual([
      '/v1/admin in /v1/**',
      '/v1/admin in /v1/{id}',
      '/v1/{id} in /v1/**',
    ]);
    expect(within('/a/{y}', '/{x}/b', '/a/**', '/{x}/c/**')).toEqual([
      '/a/{y} in /a/**',
      '/a/{y} in /{x}/b',
      '/a/{y} in /{x}/c/**',
      '/a/** in /{x}/b',
      '/a/** in /{x}/c/**',
    ]);
    expect(within('/docs', '/docs/**', '/docs/')).toEqual(['/docs in /docs/**', '/docs/ in /docs/**']);
    expect(within('/a/%62', '/%61/{x}')).toEqual(['/a/%62 in /%61/{x}']);
    expect(within('/a', '/b/{x}', '/{x}/c/d')).toEqual([]);
  });

  test('the same ones as by trying every path', () => {
    const pattern = fc
      .tuple(fc.array(fc.constantFrom('a', 'b', '{}'), { maxLength: 3 }), fc.constantFrom('', '/', '/**'))
      .map(([parts, end]) => `${parts.map((p, i) => `/${p === '{}' ? `{n${i}}` : p}`).join('')}${end}` || '/');
    const deeper = (paths: readonly string[]) => paths.flatMap((path) => ['a', 'b', 'z'].map((it) => `${path}/${it}`));
    const one = deeper(['']);
    const two = deeper(one);
    const three = deeper(two);
    const all = ['', ...one, ...two, ...three, ...deeper(three)].flatMap((path) => [path, `${path}/`]);
    const isLessSpecific = (outer: string, inner: string) => {
      const [more, less] = [rankOf(inner), rankOf(outer)];
      return less > more && (!less.startsWith(more) || less[more.length] === '2');
    };
    fc.assert(
      fc.property(fc.array(pattern, { maxLength: 6 }), (given) => {
        const collided = new Set(findCollisions(given.map((path) => route(path))).map(({ index }) => index));
        const patterns = given.filter((_, i) => !collided.has(i));
        const naive = patterns.flatMap((inner) => {
          const isInner = regularExpressionOf(inner);
          const own = all.filter((path) => isInner.test(path)).flatMap((path) => [path, `${path}/`]);
          return patterns.flatMap((outer) => {
            const isOuter = regularExpressionOf(outer);
            return isLessSpecific(outer, inner) && own.some((path) => isOuter.test(path)) ? `${inner} in ${outer}` : [];
          });
        });
        expect(within(...patterns).toSorted(), String(patterns)).toEqual(naive.toSorted());
      }),
      { seed: 20_261_123, numRuns: 150 },
    );
  });
});

test('a hostile path costs no more than an ordinary one: what lies behind the longest pattern is not looked at', () => {
  const router = routerFor(
    ['/a/{b}/c/{d}/e', '/{a}/b/{c}/d/{e}', '/a/a/a/a/a/a', '/{a}/{b}/{c}/{d}/{e}/{f}', '/a/**'].map((path) =>
      route(path),
    ),
  );
  const hostile = [
    ...['/a'.repeat(4096), '/'.repeat(8192), `/${'a'.repeat(8191)}`, `/b${'/a'.repeat(4095)}`],
    ...['/%61'.repeat(2048), `/${'%61'.repeat(2730)}`, `/a/${'%61'.repeat(2730)}`],
  ];
  const tookMs = processorMs(() => {
    for (let i = 0; i < 2_500; i += 1) for (const path of hostile) router.match(path, 'GET');
  });
  // 17,500 matches of 8 KiB each; a matcher that cuts, walks or decodes the whole path needs seconds.
  expect(tookMs).toBeLessThan(500);
});
