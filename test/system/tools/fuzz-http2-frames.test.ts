import { expect, test } from 'vitest';
import { runFrames } from '../../../tools/fuzz/http2-frames.ts';

test('200 sessions of generated HTTP/2 frames end no process, smuggle nothing, leave nothing behind, and hinder nobody', async () => {
  const { problems, forwarded, frames } = await runFrames({ sessions: 200, seed: 20_261_121 });
  expect(problems.join('\n')).toBe('');
  expect(forwarded).toBeGreaterThan(20);
  expect(frames).toBeGreaterThan(2_000);
});
