import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRequestTarget } from '../../src/http1/request-line.ts';
import { atOnce } from '../../src/io/steps.ts';
import {
  faultOfChange,
  faultOfTemplate,
  type PathChange,
  pathTemplateOf,
  patternAfter,
  writePath,
} from '../../src/routing/path-template.ts';
import { type Route, USAGE } from '../../src/routing/route.ts';
import { pathRouterOf } from '../../src/routing/router.ts';

const routeOf = (path: string): Route => ({ ...USAGE, path });
const matches = (pattern: string, path: string) =>
  atOnce(pathRouterOf([routeOf(pattern)])).matchSlashed(path, 'GET')?.route != null;
const write = (pattern: string, change: PathChange, path: string) => {
  expect(faultOfChange(pattern, change)).toBeNull();
  return writePath(pathTemplateOf(pattern, patternAfter(pattern, change)), path);
};

describe('a path is written', () => {
  test.each<[string, PathChange, string, string]>([
    ['/v1/**', { stripPrefix: '/v1' }, '/v1/pets/7', '/pets/7'],
    ['/v1/**', { stripPrefix: '/v1' }, '/v1/', '/'],
    ['/v1', { stripPrefix: '/v1' }, '/v1', '/'],
    ['/v/a', { stripPrefix: '/v' }, '/v/a', '/a'],
    ['/v1/', { stripPrefix: '/v1' }, '/v1/', '/'],
    ['/v1', { stripPrefix: '/v1', addPrefix: '/internal' }, '/v1', '/internal'],
    ['/v1/{id}', { stripPrefix: '/v1', addPrefix: '/internal' }, '/v1/a%20b', '/internal/a%20b'],
    ['/t/{tenant}/**', { stripPrefix: '/t/{tenant}' }, '/t/a/b/c/', '/b/c/'],
    ['/**', { addPrefix: '/internal' }, '/', '/internal/'],
    [
      '/store/{rest}/**',
      { path: '/shop/{rest}/items/**' },
      "/store/x;y=1/a'b/%C3%A9/",
      "/shop/x;y=1/items/a'b/%C3%A9/",
    ],
    ['/a/{b}/{c}', { path: '/{c}/{b}' }, '/a/1/2', '/2/1'],
    ['/a/{b}/**', { path: '/fixed' }, '/a/1/2', '/fixed'],
    ['/a/{b}/**', { path: '/x/{b}/' }, '/a/1/2', '/x/1/'],
  ])('%s by %o: %s becomes %s', (pattern, change, path, written) => {
    expect(write(pattern, change, path)).toBe(written);
  });
});

describe('a change is refused if', () => {
  test.each<[string, string, PathChange, keyof PathChange]>([
    ['it strips half a segment', '/v1/pets', { stripPrefix: '/v' }, 'stripPrefix'],
    ['it strips what the path has not', '/v1/pets', { stripPrefix: '/v2' }, 'stripPrefix'],
    ['it strips a slash only', '/v1/pets', { stripPrefix: '/' }, 'stripPrefix'],
    ['it strips the slash at the end too', '/v1/pets', { stripPrefix: '/v1/' }, 'stripPrefix'],
    ['it strips all with the slash at the end', '/v1/', { stripPrefix: '/v1/' }, 'stripPrefix'],
    ['it strips nothing', '/v1', { stripPrefix: '' }, 'stripPrefix'],
    ['it strips the rest', '/v1/**', { stripPrefix: '/v1/**' }, 'stripPrefix'],
    ['what it adds has a name', '/v1/{id}', { addPrefix: '/{id}' }, 'addPrefix'],
    ['what it adds ends with a slash', '/v1', { addPrefix: '/a/' }, 'addPrefix'],
    ['what it adds is all and has a name', '/v1/{id}', { stripPrefix: '/v1/{id}', addPrefix: '/{id}' }, 'addPrefix'],
    ['what it adds is all and ends with a slash', '/v1', { stripPrefix: '/v1', addPrefix: '/a/' }, 'addPrefix'],
    ['what it adds is empty', '/v1', { addPrefix: '' }, 'addPrefix'],
    ['what it adds has an encoded slash', '/v1', { addPrefix: '/a%2fb' }, 'addPrefix'],
    ['what it adds climbs', '/v1', { addPrefix: '/a/..' }, 'addPrefix'],
    ['what it adds climbs in parameters', '/v1', { addPrefix: '/a/..;x' }, 'addPrefix'],
    ['it has a path beside a prefix', '/v1', { stripPrefix: '/v1', path: '/a' }, 'stripPrefix'],
    ['it has a path beside what it adds', '/v1', { addPrefix: '/a', path: '/a' }, 'addPrefix'],
    ['its path has an unknown name', '/v1/{id}', { path: '/{other}' }, 'path'],
    ['its path has a rest that there is not', '/v1/{id}', { path: '/{id}/**' }, 'path'],
    ['its path has a name twice', '/v1/{id}', { path: '/{id}/{id}' }, 'path'],
    ['its path joins a name with text', '/v1/{id}', { path: '/a{id}' }, 'path'],
    ['its path has an empty segment', '/v1/{id}', { path: '/a//{id}' }, 'path'],
    ['its path begins like another host', '/v1/{id}', { path: '//{id}' }, 'path'],
    ['its path has a query', '/v1', { path: '/a?b' }, 'path'],
    ...[
      '/a/..',
      '/a/%2e%2E',
      '/a/.;b',
      '/a/;',
      '/;x/a',
      '/a/%3B/b',
      '/a/%20',
      '/a/..%20',
      '/a%2fb',
      '/a%5Cb',
      '/a%00',
      '/a%7f',
      '/a%zz',
    ].map((path): [string, string, PathChange, keyof PathChange] => [`its path is ${path}`, '/v1', { path }, 'path']),
  ])('%s', (_why, pattern, change, part) => {
    expect(faultOfChange(pattern, change)).toMatchObject({ part });
  });
});

// Attack: a path is written that the gateway would have refused from a client (reliability 170).
const HOSTILE = [
  'a',
  '',
  '.',
  '..',
  '%2e',
  '%2E%2e',
  '..;x',
  ';',
  '%2f',
  '%5c',
  '\\',
  '%00',
  '%0d%0a',
  '%',
  '%2',
  '%41',
];
const segment = fc.oneof(
  fc.constantFrom(...HOSTILE, '%252e', '%25%32%66', '{x}', '**', '*', ':x', "a'b", '@evil.com', '#', '?', '//'),
  fc.string({ minLength: 0, maxLength: 6 }),
);
const text = fc.constantFrom('a', 'b.c', 'a%20', 'x;y', '~', '..a', 'a:b');
const pattern = fc
  .tuple(fc.array(fc.oneof(text, fc.constantFrom('{p}', '{q}', '{r}')), { maxLength: 4 }), fc.boolean())
  .map(([segments, hasRest]) => `/${[...segments, ...(hasRest ? ['**'] : [])].join('/')}`)
  .filter((path) => (path.match(/\{.\}/g) ?? []).length === new Set(path.match(/\{.\}/g)).size);
const template = fc
  .tuple(fc.array(fc.oneof(text, segment, fc.constantFrom('{p}', '{q}', '{r}')), { maxLength: 4 }), fc.boolean())
  .map(([segments, hasRest]) => `/${[...segments, ...(hasRest ? ['**'] : [])].join('/')}`);

test('what is written is a path that is accepted, with the segments that the template has (reliability 170)', () => {
  let written = 0;
  fc.assert(
    fc.property(
      pattern,
      template,
      fc.array(segment, { minLength: 5, maxLength: 5 }),
      fc.array(segment, { maxLength: 4 }),
      (from, to, values, rest) => {
        if (faultOfTemplate(from, to) !== null) return;
        let at = 0;
        const path = from.replaceAll(/\{.\}/g, () => values[at++]!).replace(/\*\*$/, () => rest.join('/'));
        const read = readRequestTarget(path, 'GET', null);
        if (read.kind !== 'target' || read.oddity !== null || !matches(from, read.path)) return;
        written++;
        const result = writePath(pathTemplateOf(from, to), read.path);
        const target = result + read.target.slice(read.path.length);
        const again = readRequestTarget(target, 'GET', null);
        expect(again).toEqual({ kind: 'target', target, path: result, oddity: null });
        expect(matches(to, result)).toBe(true);
        const ends = from.endsWith('**') && to.endsWith('**');
        const count = (one: string) => one.split('/').length;
        expect(count(result)).toBe(count(to) + (ends ? count(read.path) - count(from) : 0));
      },
    ),
    { numRuns: 20_000 },
  );
  expect(written).toBeGreaterThan(300);
});
