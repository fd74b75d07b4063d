import fc from 'fast-check';
import { expect, test } from 'vitest';
import { weightsOf } from '../../src/http1/preferences.ts';
import { processorMs } from '../support/stopwatch.ts';

test.each([
  ['', {}],
  ['gzip', { gzip: 1 }],
  ['GZip;q=0.5 , br ; Q=1.000,, zstd;q=0', { gzip: 0.5, br: 1, zstd: 0 }],
  ['*;q=0.001, identity;q=0.', { '*': 0.001, identity: 0 }],
  ['gzip;q=1.1, br;q=-1, zstd;q=0.1234, x;q=, y;q=abc, z;q=.5', { gzip: 0, br: 0, zstd: 0, x: 0, y: 0, z: 0 }],
  ['a/b;x="1,2;q=0";q=0.3, c/d', { 'a/b': 0.3, 'c/d': 1 }],
  ['a/b;x="\\",c/d;q=1";q=0.3', { 'a/b': 0.3 }],
  ['a/b;q=0.2, a/b;x=1;q=0.7, A/B;q=0.1', { 'a/b': 0.7 }],
  ['a/b;x="open, c/d', { 'a/b': 1 }],
  ['constructor;q=0.5', { constructor: 0.5 }],
])('%j', (text, weights) => {
  expect([...weightsOf(text)].sort()).toEqual([...new Map(Object.entries(weights))].sort());
});

test('whatever a client sends, weights are from 0 to 1', () => {
  const piece = fc.constantFrom('a/b', ',', ';', 'q=', '0.5', '1', '"', '\\', ' ', '*');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      for (const weight of weightsOf(pieces.join('')).values()) {
        expect(weight >= 0 && weight <= 1).toBe(true);
      }
    }),
    { numRuns: 1_000, seed: 3 },
  );
});

test('the longest field takes no longer than its length', () => {
  expect(processorMs(() => weightsOf('"\\'.repeat(500_000)))).toBeLessThan(500);
  expect(processorMs(() => weightsOf('a;"\\";,'.repeat(100_000)))).toBeLessThan(1_000);
});

test('of a longer list the first hundred elements are read, and of an element the first hundred parameters (reliability 220)', () => {
  const list = (separator: string, first: string, last: string) =>
    [first, ...Array.from({ length: 98 }, (_, i) => `x${i}`), last].join(separator);
  expect(weightsOf(list(',', 'gzip', 'br')).get('br')).toBe(1);
  expect([...weightsOf(`${list(',', 'gzip', 'br')},zstd`).keys()]).toEqual(expect.not.arrayContaining(['zstd']));
  expect(weightsOf(list(';', 'gzip', 'q=0.5')).get('gzip')).toBe(0.5);
  expect(weightsOf(`${list(';', 'gzip', 'y=1')};q=0.5`).get('gzip')).toBe(1);
});
