import { describe, expect, test } from 'vitest';
import { ERRORS, isErrorCode } from '../../src/errors/catalogue.ts';

describe.each(Object.entries(ERRORS))('%s', (_, { status, sentence, when, remedy, counted, explanation, advice }) => {
  test('has the status of an error', () => {
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(600);
  });

  test('has texts of whole sentences, and says in a few words whether the request is counted', () => {
    const texts = [sentence, when, remedy, explanation, advice].filter((text) => typeof text === 'string');
    for (const text of texts) expect(text).toMatch(/^[A-Z`].*[^.]\.$/);
    expect(counted).toMatch(/^[a-z].*[^.]$/);
  });
});

test('what every object has is no error code', () => {
  expect(['overloaded', 'toString', '__proto__', 'of_a_later_version'].filter(isErrorCode)).toEqual(['overloaded']);
});
