import { expect, test } from 'vitest';
import { runAborts } from '../../../tools/fuzz/aborts.ts';

test('500 clients that leave at random moments leave no socket, timer or request behind, and one access line each (reliability 70)', async () => {
  const { problems, lines } = await runAborts({ clients: 500, seed: 20_261_121 });
  expect(problems.join('\n')).toBe('');
  expect(lines).toBeGreaterThan(250);
});
