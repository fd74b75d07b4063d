import { expect, test } from 'vitest';
import { compareWithNode } from '../../../tools/fuzz/request-oracle.ts';

test('of 5,000 generated requests, each that the fast path takes node:http takes for the same (reliability 20, 21, 22)', () => {
  const { problems, taken, withBody } = compareWithNode({ requests: 5_000, seed: 20_261_121 });
  expect(problems.join('\n')).toBe('');
  expect(taken).toBeGreaterThan(500);
  expect(withBody).toBeGreaterThan(150);
});
