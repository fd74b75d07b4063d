import { expect, test } from 'vitest';
import { cookieValues, withoutCookies } from '../../src/http1/cookies.ts';

test.each<[readonly string[], readonly string[]]>([
  [['a=1; key=x'], ['x']],
  [['key=a=b==; b=2'], ['a=b==']],
  [
    ['key = x ;key=y', 'b=1; key='],
    ['x', 'y', ''],
  ],
  [['Key=x; xkey=1; key; =key'], []],
])('the values of a cookie in %j are %j, whole', (fields, values) => {
  expect(cookieValues(fields, 'key')).toEqual(values);
});

test.each([
  ['a=1; key=x; b=2', 'a=1; b=2'],
  ['key=x', ''],
  ['key', ''],
  ['=key=x; a', 'a'],
  ['a=key;  b=1', 'a=key;  b=1'],
])('%j without a cookie is %j', (value, left) => {
  expect(withoutCookies(value, (name) => name === 'key')).toBe(left);
});
