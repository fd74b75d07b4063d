import { expect, test } from 'vitest';
import { runAborts } from '../../../tools/fuzz/aborts.ts';

test('1,000 clients that leave at random moments leave no socket, timer or request behind, and one access line each', async () => {
  const { problems, lines } = await runAborts({ clients: 1_000, seed: 20_261_121 });
  expect(problems).toEqual([]);
  expect(lines).toBeGreaterThan(500);
});
