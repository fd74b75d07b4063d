import { describe, expect, test } from 'vitest';
import { IN_ONE_READING } from '../../src/model/plan.ts';
import { isCommon, PathGroups, readingsOf } from '../../src/routing/path-groups.ts';

const groupsOf = (...groups: readonly (readonly string[])[]) =>
  new PathGroups(groups.map((routes) => ({ routes: [...routes] })));

test.each([
  ['/v1/search/**', '/v1/search/a/b', true],
  ['/v1/search/**', '/v1/search/', true],
  ['/v1/search/**', '/v1/search', false],
  ['/v1/search', '/v1/search', true],
  ['/v1/search', '/v1/searches', false],
  ['/v1/{kind}/find', '/v1/pets/find', true],
  ['/v1/{kind}/find', '/v1/pets/cats/find', false],
  ['/v1/{kind}/find', '/v1//find', false],
  ['/v1/a.b', '/v1/axb', false],
  ['/**', '/', true],
  ['/v1/search', '/v1/search/', false],
])('the pattern %s matches %s: %s', (pattern, path, matches) => {
  expect(groupsOf([pattern]).matching({ path: path, method: 'GET' })).toBe(matches ? 1 : 0);
});

test('a request belongs to every group that matches it', () => {
  const groups = groupsOf(['/v1/search/**'], ['/v2/**'], ['/v1/**', '/v3']);
  expect(groups.matching({ path: '/v1/search/x', method: 'GET' })).toBe(0b101);
  expect(groups.matching({ path: '/v2/x', method: 'GET' })).toBe(0b010);
  expect(groups.matching({ path: '/v4', method: 'GET' })).toBe(0);
});

test('methods in front bound an entry, and GET brings HEAD', () => {
  const groups = groupsOf(['POST,GET /v1/orders']);
  expect(['GET', 'HEAD', 'POST'].map((method) => groups.matching({ path: '/v1/orders', method: method }))).toEqual([
    1, 1, 1,
  ]);
  expect(groups.matching({ path: '/v1/orders', method: 'PUT' })).toBe(0);
});

describe('another spelling of a path cannot leave a group (reliability 280)', () => {
  test.each([
    ['/v1/%73earch/x', 1 | IN_ONE_READING],
    ['/v1/sear%63h/%2e', 1 | IN_ONE_READING],
    ['/v1/search;a=1/x', 1 | IN_ONE_READING],
    ['/v1;b/search/x', 1 | IN_ONE_READING],
    ['/v1/search%3Ba=1/x', 1 | IN_ONE_READING],
    ['/v1/search%20/x', 1 | IN_ONE_READING],
    ['/v1/%20search/x', 1 | IN_ONE_READING],
    ['/v1/search./x', 1 | IN_ONE_READING],
    ['/v1/search%2e/x', 1 | IN_ONE_READING],
    ['/v1/SEARCH/x', 1 | IN_ONE_READING],
    ['/V1/%53earch%20.;a=1/x', 1 | IN_ONE_READING],
    ['/v1/search/X', 1],
    ['/v1/search/X;a/%20.', 1],
    ['/v1/.../x', 0],
    ['/v1/Users/aB', 0],
    ['/v1/%2573earch/x', 0],
    ['/v1/abc', 2 | IN_ONE_READING],
    ['/v1/%61bc', 2 | IN_ONE_READING],
    ['/v1/a%62c', 2],
    ['/v1/plain;jsessionid=1', 4 | IN_ONE_READING],
    ['/v1/%70lain', 4 | IN_ONE_READING],
  ])('%s', (path, found) => {
    const groups = groupsOf(['/v1/search/**'], ['/v1/a%62c'], ['/v1/plain']);
    expect(groups.matching({ path: path, method: 'GET' })).toBe(found);
  });
});

test('a literal that reads like a name or a rest when it is decoded is neither', () => {
  const groups = groupsOf(['/v1/%7Bx%7D'], ['/v1/%2A%2A']);
  expect(['/v1/{x}', '/v1/**', '/v1/Pets'].map((path) => groups.matching({ path: path, method: 'GET' }))).toEqual([
    ...[1 | IN_ONE_READING, 2 | IN_ONE_READING, 0],
  ]);
});

describe('a group and a route have common requests', () => {
  test.each([
    ['/v1/search/**', 'GET /v1/search/{id}', true],
    ['/v1/search/**', 'GET /v1/**', true],
    ['/v1/search/**', 'GET /v1/search', false],
    ['/v1/search', 'GET /v1/search/**', false],
    ['/v1/{kind}/find', 'GET /v1/pets/{verb}', true],
    ['/v1/{kind}/find', 'GET /v1/pets/list', false],
    ['/v1/{kind}', 'GET /v1/', false],
    ['/v1/', 'GET /v1/{kind}', false],
    ['/v1', 'GET /v1/{kind}', false],
    ['/v1/{kind}', 'GET /v1', false],
    ['/v1', 'GET /v1', true],
    ['/v1/%7Bx%7D', 'GET /v1/pets', false],
    ['/v1/%2A%2A', 'GET /v1/pets/7', false],
    ['/v1/Pets', 'GET /v1/pets', true],
    ['/**', 'GET /', true],
    ['/v1/%70ets', 'GET /v1/pets', true],
    ['POST /v1/pets', 'GET /v1/pets', false],
    ['GET,POST /v1/pets', 'POST /v1/pets', true],
    ['HEAD /v1/pets', 'GET /v1/pets', true],
  ])('%s and %s: %s', (group, route, expected) => {
    expect(isCommon(readingsOf(group), readingsOf(route))).toBe(expected);
  });
});
