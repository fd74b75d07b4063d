import { expect, onTestFinished, test, vi } from 'vitest';
import { BackgroundWrites } from '../../src/io/background-writes.ts';

test('writes come one after the other every so often, and the last one is of all that waits', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const begun: { readonly all: boolean; readonly end: () => void }[] = [];
  const writes = new BackgroundWrites(1_000, (all) => new Promise((end) => begun.push({ all, end })));
  const seen = () => begun.map(({ all }) => all);
  await vi.advanceTimersByTimeAsync(999);
  expect(seen()).toEqual([]);
  await vi.advanceTimersByTimeAsync(2_001);
  // The store still has the first one, for which two further ones wait.
  expect(seen()).toEqual([false]);
  const closed = writes.close();
  await vi.advanceTimersByTimeAsync(60_000);
  for (let i = 0; i < 4; i++) {
    expect(seen()).toHaveLength(i + 1);
    begun[i]!.end();
    await new Promise(setImmediate);
  }
  await closed;
  expect(seen()).toEqual([false, false, false, true]);
});

test('without an interval nothing is written until it is asked for', async () => {
  let count = 0;
  const writes = new BackgroundWrites(null, async () => void count++);
  await new Promise(setImmediate);
  expect(count).toBe(0);
  await writes.flush();
  await writes.close();
  expect(count).toBe(2);
});
