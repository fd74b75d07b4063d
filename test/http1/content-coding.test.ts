import { describe, expect, test } from 'vitest';
import { acceptedCodings, codingFor, fieldsOfCompressed, mayBeCompressed } from '../../src/http1/content-coding.ts';

const RULES = { codings: ['zstd', 'br', 'gzip'], minBytes: 1_024 } as const;
const choice = (...values: string[]) =>
  codingFor(acceptedCodings(values.flatMap((value) => ['Accept-Encoding', value])), RULES);

describe('the coding', () => {
  test.each([
    [[], null, false],
    [[''], null, false],
    [['identity'], null, false],
    [['deflate'], null, false],
    [['gzip'], 'gzip', false],
    [['x-gzip'], 'gzip', false],
    [['GZIP, BR'], 'br', false],
    [['gzip, deflate, br, zstd'], 'zstd', false],
    [['zstd;q=0.5, br;q=0.8', 'gzip;q=0.8'], 'br', false],
    [['zstd;q=0, *'], 'br', false],
    [['*;q=0.1'], 'zstd', false],
    [['gzip;q=0.5, identity'], null, false],
    [['gzip;q=0.5, identity;q=0.5'], 'gzip', false],
    [['gzip;q=0'], null, false],
    [['gzip;q=wrong'], null, false],
    [['gzip, identity;q=0'], 'gzip', true],
    [['gzip, *;q=0'], 'gzip', true],
    [['identity;q=0'], null, true],
    [['gzip, *;q=0, identity;q=0.1'], 'gzip', false],
  ] as const)('for %j is %s', (values, coding, refusesPlain) => {
    expect(choice(...values)).toEqual({ coding, refusesPlain });
  });
});

test('without the field the client may know no coding, which is not the same as an empty field', () => {
  expect(acceptedCodings([])).toBeNull();
  expect(acceptedCodings(['Accept-Encoding', ''])).toEqual(new Map());
});

const JSON_TYPE = ['Content-Type', 'application/json; charset=utf-8'];
const judged = (fields: readonly string[], status = 200, framing: 'none' | 'length' | 'chunked' | 'close' = 'length') =>
  mayBeCompressed({ status, framing }, fields);

test.each(
  'text/plain text/html TEXT/CSS application/json application/problem+json application/xml application/atom+xml application/javascript image/svg+xml'.split(
    ' ',
  ),
)('%s is compressed', (type) => {
  expect(judged(['content-type', type])).toBe(true);
  expect(judged(['Content-Type', `${type} ; charset=utf-8`], 404, 'chunked')).toBe(true);
});

test.each(
  'text/event-stream Text/Event-Stream;x image/png application/octet-stream application/zip font/woff2 json application/jsonx'.split(
    ' ',
  ),
)('%s is not', (type) => {
  expect(judged(['Content-Type', type])).toBe(false);
});

test.each([
  [['Set-Cookie', 'a=b']],
  [['cache-control', 'max-age=5, Private']],
  [['Cache-Control', 'no-store']],
  [['Cache-Control', 'private="Set-Cookie"']],
  [['Cache-Control', 'public', 'Cache-Control', 'no-transform']],
  [['Content-Encoding', 'identity']],
  [['Content-Range', 'bytes 0-9/10']],
  [['ETag', '"strong"']],
  [['Content-Digest', 'sha-256=:a:']],
  [['Content-Type', 'text/plain']],
])('a text with %j is not compressed (reliability 179)', (fields) => {
  expect(judged(JSON_TYPE)).toBe(true);
  expect(judged([...JSON_TYPE, ...fields])).toBe(false);
});

test('a body that is none or a part is not compressed; a weak ETag and other directives do not matter', () => {
  for (const status of [103, 204, 205, 206, 226, 302, 304, 600, 999]) expect(judged(JSON_TYPE, status)).toBe(false);
  for (const status of [200, 201, 202, 203, 207, 400, 404, 500, 599]) expect(judged(JSON_TYPE, status)).toBe(true);
  expect(judged(JSON_TYPE, 200, 'none')).toBe(false);
  expect(judged([])).toBe(false);
  expect(
    judged([
      ...JSON_TYPE,
      'ETag',
      'W/"a"',
      'X-ETag',
      'a',
      'ETags',
      'a',
      'X-Cache-Control',
      'private',
      'Cache-Controls',
      'private',
      'Cache-Control',
      'public, max-age=5, x-private-y=1',
    ]),
  ).toBe(true);
});

test('the length and the ranges of the original are gone', () => {
  const fields = [
    'Content-Length',
    '5',
    'Accept-Ranges',
    'bytes',
    'X',
    'y',
    'X-Accept-Ranges',
    'a',
    'Accept-Ranges-X',
    'b',
  ];
  expect(fieldsOfCompressed(fields, 'br')).toEqual([...fields.slice(4), 'Content-Encoding', 'br']);
});
