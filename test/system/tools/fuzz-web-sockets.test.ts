import { expect, test } from 'vitest';
import { runWebSockets } from '../../../tools/fuzz/web-sockets.ts';

test('250 WebSockets that are opened and dropped at random moments, by either side, leave nothing behind', async () => {
  const { problems, opened } = await runWebSockets({ clients: 250, seed: 20_261_121 });
  expect(problems.join('\n')).toBe('');
  // Enough for the test to mean something: the busier the machine, the more are dropped before they are open.
  expect(opened).toBeGreaterThan(100);
});
