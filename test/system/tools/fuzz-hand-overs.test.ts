import { expect, test } from 'vitest';
import { runHandOvers } from '../../../tools/fuzz/hand-overs.ts';

test('200 connections on which requests of all kinds follow each other, left at random moments, end nothing, mix nothing up and leave nothing behind', async () => {
  const { problems, forwarded, answers } = await runHandOvers({ connections: 200, seed: 20_261_122 });
  expect(problems.join('\n')).toBe('');
  expect(forwarded).toBeGreaterThan(0);
  expect(answers).toBeGreaterThan(0);
});
