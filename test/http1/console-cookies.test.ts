import { describe, expect, test } from 'vitest';
import { setsConsoleCookie, withoutConsoleCookies } from '../../src/http1/console-cookies.ts';

describe('the Cookie field that a service gets', () => {
  test.each([
    ['tollgate=secret', ''],
    ['__Host-tollgate=secret', ''],
    ['a=b; tollgate=secret', 'a=b'],
    ['tollgate=secret; a=b', 'a=b'],
    ['a=b;tollgate=secret;c=d', 'a=b;c=d'],
    ['a=b; \t tollgate = secret; __Host-tollgate=secret; c=d', 'a=b; c=d'],
    ['tollgate', ''],
    ['tollgate=one; tollgate=two', ''],
    ['a=b', 'a=b'],
    ['a=tollgate', 'a=tollgate'],
    ['mytollgate=1; tollgates=2; Tollgate=3', 'mytollgate=1; tollgates=2; Tollgate=3'],
    ['a=b;; ;tollgate_theme=dark;', 'a=b;; ;tollgate_theme=dark;'],
  ])('%j becomes %j', (sent, forwarded) => {
    expect(withoutConsoleCookies(sent)).toBe(forwarded);
  });
});

describe('a Set-Cookie field of a service', () => {
  test.each([
    'tollgate=stolen; Path=/',
    '__Host-tollgate=stolen; Secure; Path=/',
    ' tollgate =; Max-Age=0',
    'tollgate',
    // Browsers keep these without a name and send them as `tollgate=stolen`.
    '=tollgate=stolen',
    ' = tollgate=stolen; Path=/',
  ])('%j sets a cookie of the console', (value) => {
    expect(setsConsoleCookie(value)).toBe(true);
  });

  test.each(['session=1; Path=/', 'a=tollgate', 'tollgates=1', 'a=b; Path=/tollgate', 'Tollgate=1'])(
    '%j does not',
    (value) => {
      expect(setsConsoleCookie(value)).toBe(false);
    },
  );
});
