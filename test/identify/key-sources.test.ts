import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KeySources, oneOf, unreadKeyPlace } from '../../src/identify/key-sources.ts';

const sources = new KeySources([
  { kind: 'authorization' },
  { kind: 'header', name: 'X-API-Key' },
  { kind: 'query', name: 'api_key' },
]);
const token = (text: string) => ({ kind: 'token', token: text });
const [missing, malformed, ambiguous] = (['missing', 'malformed', 'ambiguous'] as const).map((kind) => ({ kind }));

describe('in header fields', () => {
  test.each([
    [[], missing],
    [['Accept', '*/*'], missing],
    [['X-API-Key', 'abc'], token('abc')],
    [['x-api-key', 'abc'], token('abc')],
    [['Authorization', 'Bearer abc'], token('abc')],
    [['Authorization', 'Basic abc', 'X-API-Key', 'abc'], token('abc')],
    [['X-API-Key', ''], missing],
    [['X-API-Key', 'a b'], malformed],
    [['X-API-Key', 'Bearer abc'], malformed],
    [['X-API-Key', 'abc, abc'], malformed],
  ])('%j: %j', (rawHeaders, found) => {
    expect(sources.inFields(rawHeaders)).toEqual(found);
  });

  test.each([
    [['X-API-Key', 'a', 'X-API-Key', 'b']],
    [['X-API-Key', 'a', 'x-api-key', 'a']],
    [['X-API-Key', '', 'X-API-Key', 'a']],
    [['Authorization', 'Bearer a', 'X-API-Key', 'b']],
    [['Authorization', 'Bearer a', 'X-API-Key', 'a']],
    [['Authorization', 'Bearer', 'X-API-Key', 'a']],
    [['Authorization', 'Basic a', 'Authorization', 'Basic a', 'X-API-Key', 'a']],
  ])('%j are two: 400, even if they are equal (reliability 178)', (rawHeaders) => {
    expect(sources.inFields(rawHeaders)).toEqual(ambiguous);
  });

  test('a place that is not in the list is not read', () => {
    const alone = new KeySources([{ kind: 'header', name: 'X-API-Key' }]);
    expect(alone.inFields(['Authorization', 'Bearer a'])).toEqual(missing);
    expect(alone.inFields(['Authorization', 'Bearer a', 'X-API-Key', 'b'])).toEqual(token('b'));
    expect(alone.inQuery('?api_key=a')).toEqual(missing);
    expect(alone.withoutKeys('?api_key=a')).toBe('?api_key=a');
  });
});

test('each place is named in words, and loses what may be a key there alone', () => {
  const all = new KeySources([
    { kind: 'header', name: 'X-API-Key' },
    { kind: 'query', name: 'k' },
    { kind: 'authorization' },
  ]);
  expect(all.places).toBe('`X-API-Key: <API_KEY>` or `?k=<API_KEY>` or `Authorization: Bearer <API_KEY>`');
  expect(all.inFields(['Authorization', 'Bearer abc'])).toEqual(token('abc'));
  expect([all.fieldNames.has('x-api-key'), all.fieldNames.has('k')]).toEqual([true, false]);
  expect([all.withoutKeys('?k'), all.withoutKeys('?X-API-Key=a'), all.withoutKeys('?')]).toEqual([
    '',
    '?X-API-Key=a',
    '?',
  ]);
  expect(all.inQuery('?X-API-Key=a')).toEqual(missing);
});

describe('in the query', () => {
  test.each([
    ['', missing, ''],
    ['?', missing, '?'],
    ['?a=b', missing, '?a=b'],
    ['?api_key=abc', token('abc'), ''],
    ['?api_key=a%62c', token('abc'), ''],
    ['?api%5Fkey=abc', token('abc'), ''],
    ['?%61pi_ke%79=abc', token('abc'), ''],
    ['?api%5fkey=abc&x', token('abc'), '?x'],
    ['?api_key=a+b', token('a+b'), ''],
    ['?api_key', missing, ''],
    ['?api_key=&a=%5F&&b', missing, '?a=%5F&&b'],
    ['?a=1&api_key=abc&b=2', token('abc'), '?a=1&b=2'],
    ['?&api_key=abc&', token('abc'), '?&'],
    ['?&api_key=abc', token('abc'), '?'],
    ['?api_key=a%0d%0ab', malformed, ''],
    ['?api_key=%C3%A9', malformed, ''],
    ['?api_key=a%zz', malformed, ''],
    ['?api%255Fkey=abc&api_keys=abc&key=abc', missing, '?api%255Fkey=abc&api_keys=abc&key=abc'],
    ['?x=api_key=abc', missing, '?x=api_key=abc'],
    ['?api_key=a&api_key=a', ambiguous, ''],
    ['?api_key=a&x=1&api%5Fkey=b', ambiguous, '?x=1'],
    ['?api_key&api_key=b', ambiguous, ''],
  ])('%s: %j, and %j is passed on (reliability 178)', (query, found, passed) => {
    expect(sources.inQuery(query)).toEqual(found);
    expect(sources.withoutKeys(query)).toBe(passed);
  });

  test.each([
    ...[
      'API_KEY',
      'Api_Key',
      'api_key[]',
      'api_key[0]',
      'api_key[x]',
      'api.key',
      'api+key',
      'api%20key',
      'api[key',
      '+api_key',
    ],
    ...[
      'api_key%20',
      'api_key%00',
      'api_key%00x',
      '%00api_key',
      'x=1;api_key',
      'x;api%5Fkey',
      'api_key%ff',
      '%u0061pi_key',
      '[api_key]',
    ],
  ])('%s=… is refused like a second key, and is not passed on (reliability 206)', (name) => {
    for (const query of [`?${name}=abc`, `?a=1&${name}=abc&b`, `?api_key=abc&${name}=abc`]) {
      expect(sources.inQuery(query), query).toEqual(ambiguous);
      expect(sources.withoutKeys(query)).not.toContain('abc');
    }
    expect(sources.withoutKeys(`?a=1&${name}=abc&b`)).toBe('?a=1&b');
  });

  test('what is passed on has no key in it, and every other parameter byte for byte (reliability 178)', () => {
    const piece = fc.constantFrom('api_key', '%61pi_key', 'api%5Fkey', 'x', '=', '&', '%', 'secret');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const query = `?${pieces.join('')}`;
        const passed = sources.withoutKeys(query);
        expect(new URLSearchParams(passed).has('api_key')).toBe(false);
        expect(sources.withoutKeys(passed)).toBe(passed);
        const others = query
          .slice(1)
          .split('&')
          .filter((one) => !new URLSearchParams(one).has('api_key'));
        if (passed !== '') expect(passed.slice(1)).toBe(others.join('&'));
      }),
      { numRuns: 2_000, seed: 7 },
    );
  });
});

test('a key in the fields and one in the query are two', () => {
  expect(oneOf({ kind: 'token', token: 'a' }, { kind: 'token', token: 'a' })).toEqual(ambiguous);
  expect(oneOf({ kind: 'token', token: 'a' }, { kind: 'malformed' })).toEqual(ambiguous);
  expect(oneOf({ kind: 'missing' }, { kind: 'malformed' })).toEqual(malformed);
  expect(oneOf({ kind: 'ambiguous' }, { kind: 'missing' })).toEqual(ambiguous);
  expect(oneOf({ kind: 'missing' }, { kind: 'ambiguous' })).toEqual(ambiguous);
});

test.each<[readonly string[], string, boolean, string | null]>([
  [[], '', true, null],
  [['Accept', '*/*', 'X-Api', 'a'], '?key=a', true, null],
  [['Authorization', 'Basic a'], '', true, '`Authorization` without `Bearer`'],
  [['authorization', 'Bearer a'], '', false, '`Authorization`'],
  [['Accept', '*/*', 'x-api-key', 'a', 'apikey', 'b'], '?api_key=a', true, '`X-API-Key`'],
  [['X-Api-Key', '', 'Authorization', ''], '?a=b&API_KEY=a', true, '`?api_key=`'],
  [[], '?access_token=&apikey=a', true, '`?apikey=`'],
  [[], '?my_api_key=a', true, null],
])('of %j and %j, with Bearer read: %j, the place %j looks like that of a key', (fields, query, isRead, place) => {
  expect(unreadKeyPlace(fields, query, isRead)).toBe(place);
});
