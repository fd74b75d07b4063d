import { expect, test } from 'vitest';
import { compareWithUndici } from '../../../tools/fuzz/answer-oracle.ts';

test('of 1,000 generated answers, each that the gateway takes for whole undici takes for the same', async () => {
  const problems = await compareWithUndici({ answers: 1_000, seed: 20_261_121 });
  expect(problems.join('\n')).toBe('');
});
