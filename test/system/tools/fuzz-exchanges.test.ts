import { expect, test } from 'vitest';
import { runCampaign } from '../../../tools/fuzz/campaign.ts';

// `npm run fuzz` is the long version, with a seed of its own each time.
test('1,500 generated exchanges: no request is seen twice or changed, no answer is half or somebody else’s', async () => {
  const { exchanges, failures, left, rssMib } = await runCampaign({ exchanges: 1_500, seed: 20_261_121 });
  expect(failures.join('\n')).toBe('');
  expect(left.join('\n')).toBe('');
  expect(exchanges).toBeGreaterThanOrEqual(1_500);
  expect(rssMib.end - rssMib.early).toBeLessThan(96);
});
