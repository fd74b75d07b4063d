import { expect, test } from 'vitest';
import { readResult } from '../../src/policies/result.ts';

class Restricted {
  get scopes() {
    return [];
  }
}

test.each([
  ['a Map', new Map([['refuse', {}]])],
  ['an instance of a class', new Restricted()],
  ['a Date', new Date(0)],
  ['a list', []],
  ['metadata in a Map', { metadata: new Map([['team', 'blue']]) }],
  ['headers in an instance of a class', { headers: new Restricted() }],
  ['budgets in an instance of a class', { budgets: new Restricted() }],
  ['a refusal in an instance of a class', { refuse: new Restricted() }],
])(
  'a result that is no plain object is a fault, so that no restriction is lost: %s (reliability 278)',
  (_what, result) => {
    expect(readResult(result)).toEqual({ fault: expect.stringContaining('plain object') });
  },
);

test('a member that is not enumerable has its effect all the same', () => {
  const result = Object.defineProperty({}, 'scopes', { value: [], enumerable: false });
  expect(readResult(result)).toMatchObject({ kind: 'allowed', scopes: [] });
});
