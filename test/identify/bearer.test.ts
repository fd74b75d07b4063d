import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readAuthorizationOf } from '../../src/gateway/caller.ts';
import { isJwtForm } from '../../src/identify/bearer.ts';
import { processorMs } from '../support/stopwatch.ts';

const read = (rawHeaders: readonly string[]) => readAuthorizationOf(rawHeaders).credentials;

const of = (...values: string[]) =>
  read(['Host', 'a', ...values.flatMap((value) => ['Authorization', value]), 'Accept', '*/*']);

describe('credentials', () => {
  test.each(['Bearer abc', 'bearer abc', 'BEARER abc', 'bEaReR    abc'])(
    '%j brings the token (reliability 55)',
    (value) => {
      expect(of(value)).toEqual({ kind: 'token', token: 'abc' });
    },
  );

  test('are found whatever the case of the field name', () => {
    expect(read(['aUTHORIZATION', 'Bearer abc'])).toEqual({ kind: 'token', token: 'abc' });
  });

  test('may have every character of token68, and padding at the end', () => {
    expect(of('Bearer AZaz09-._~+/==')).toEqual({ kind: 'token', token: 'AZaz09-._~+/==' });
  });

  test.each(['', 'Basic YTpi', 'Digest abc', 'Bearerish abc', 'Bearer-x abc', 'Negotiate', 'tg_live_abc'])(
    '%j is none: missing',
    (value) => {
      expect(of(value)).toEqual({ kind: 'missing' });
    },
  );

  test('that are not there are missing', () => {
    expect(read([])).toEqual({ kind: 'missing' });
    expect(read(['Proxy-Authorization', 'Bearer abc', 'X-Authorization', 'Bearer abc'])).toEqual({
      kind: 'missing',
    });
  });

  test.each([
    'Bearer',
    'Bearer ',
    'Bearer\tabc',
    'Bearer \tabc',
    'Bearer abc def',
    'Bearer abc, Bearer def',
    'Bearer "abc"',
    'Bearer token=abc ',
    'Bearer =',
    'Bearer a=b',
    'Bearer a\0',
    'Bearer abc\xff',
    'Bearer,abc',
    'Bearer a,b',
  ])('%j are malformed (reliability 55, 56)', (value) => {
    expect(of(value)).toEqual({ kind: 'malformed' });
  });

  // The attack: the gateway verifies one field, the service behind it obeys the other.
  test.each([
    ['Bearer abc', 'Bearer abc'],
    ['Bearer abc', 'Basic YTpi'],
    ['', 'Bearer abc'],
  ])('in two fields (%j and %j) are ambiguous (reliability 54)', (first, second) => {
    expect(of(first, second)).toEqual({ kind: 'ambiguous' });
  });

  test('in two fields whose names differ in case are ambiguous (reliability 54)', () => {
    expect(read(['Authorization', 'Bearer a', 'authorization', 'Bearer b'])).toEqual({ kind: 'ambiguous' });
  });

  test('are a token only where the grammar says so', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii', maxLength: 12 }), (rest) => {
        const expected = /^ +([A-Za-z0-9\-._~+/]+=*)$/.exec(rest)?.[1];
        const read = of(`Bearer${rest}`);
        expect(read.kind === 'token' ? read.token : undefined).toBe(expected);
      }),
      { seed: 7, numRuns: 2_000 },
    );
  });

  test('of 8 KiB of hostile text are read in no time', () => {
    const tookMs = processorMs(() => {
      for (let i = 0; i < 100; i++) of(`Bearer ${' '.repeat(4_000)}${'a='.repeat(2_000)},`);
    });
    expect(tookMs).toBeLessThan(500);
  });
});

describe('the form of a JSON Web Token', () => {
  test.each(['eyJhbGciOiJub25lIn0.e30.', 'eyJhbGciOiJFUzI1NiJ9.e30.AAAA', 'eyAi.a.b'])('%j has it', (token) => {
    expect(isJwtForm(token)).toBe(true);
  });

  test.each(['', 'ey', 'eyJh.e30', 'eyJh.e30.a.b', 'eyJh.e30.a.b.c', 'a.b.c', 'tg_live_a.b.c', '..', 'abc.eyJh.c'])(
    '%j has not',
    (token) => {
      expect(isJwtForm(token)).toBe(false);
    },
  );
});
