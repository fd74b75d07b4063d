import { expect, test } from 'vitest';
import { faultOfPath, readRequestTarget } from '../../src/http1/request-line.ts';

test.each([
  ['/', '/'],
  ['/a?', '/a'],
  ['/a?b?c', '/a'],
  ['?', null],
  ['a', null],
  ['', null],
  ['/a b', null],
  ['/a\x7f', null],
  ['/ä', null],
  ['/a#b', null],
  ['/a?b#c', null],
  ['/a?../..//%2f\\', '/a'],
])('the path of %j is %j', (url, path) => {
  const read = readRequestTarget(url, 'GET', 'host');
  expect(read).toEqual(
    path === null
      ? { kind: 'fault', message: expect.any(String) }
      : { kind: 'target', target: url, path, oddity: null },
  );
});

test.each([
  ['http://Host/a?b', '/a?b'],
  ['HTTPS://host', '/'],
  ['http://host/', '/'],
  ['http://host?b', null],
  ['http://other/a', null],
  ['http://user@host/a', null],
  ['ftp://host/a', null],
  ['xhttp://host/a', null],
  ['http:///a', null],
])('the absolute form %j is %j', (url, target) => {
  const read = readRequestTarget(url, 'GET', 'hOst');
  expect(read.kind === 'target' ? read.target : null).toBe(target);
});

test('the absolute form needs a Host field, and * is for OPTIONS alone', () => {
  expect(readRequestTarget('http://host/', 'GET', null).kind).toBe('fault');
  expect(readRequestTarget('*', 'OPTIONS', null)).toEqual({ kind: 'target', target: '*', path: '*', oddity: null });
  expect(readRequestTarget('*', 'GET', null).kind).toBe('fault');
});

test.each<[string, string | null]>([
  ['/a%20b', null],
  ['/%7Ea;x=1/b.c/...', null],
  ['/a/', null],
  ['/.a/..b', null],
  ['/a%', '% that is not followed'],
  ['/a%2', '% that is not followed'],
  ['/a%zz', '% that is not followed'],
  ['/a%2Fb', 'backslash'],
  ['/a%5cb', 'backslash'],
  ['/a\\b', 'must not have a backslash.'],
  ['/a%00', 'control character'],
  ['/a%1F', 'control character'],
  ['/a%7f', 'control character'],
  ['//a', 'empty segment'],
  ['/a//', 'empty segment'],
  ['/a/.', 'a segment `.`'],
  ['/a/%2e./b', 'a segment `.`'],
  ['/a/..%20', 'a segment `.`'],
  ['/a/;x', 'a segment `.`'],
  ['/a/%20;x', 'a segment `.`'],
])('the fault of %s is %j', (path, message) => {
  expect(faultOfPath(path)).toEqual(message === null ? null : expect.stringContaining(message));
});

test('a path that a route may pass is read with the reason for which others refuse it', () => {
  for (const path of ['/a%2Fb', '/a//b', '/a/../b', '/;a'])
    expect(readRequestTarget(path, 'GET', null)).toEqual({
      kind: 'target',
      target: path,
      path,
      oddity: faultOfPath(path),
    });
  for (const path of ['/a%2Fb%00', '//a\\', '/../%zz']) expect(readRequestTarget(path, 'GET', null).kind).toBe('fault');
});
