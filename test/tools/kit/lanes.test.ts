import { expect, test } from 'vitest';
import { inLanes } from '../../../tools/kit/lanes.ts';

test('each item is worked on once, and no more than so many at a time', async () => {
  const seen: number[] = [];
  let [running, most] = [0, 0];
  await inLanes(3, Array(10).keys(), async (item) => {
    most = Math.max(most, ++running);
    await new Promise(setImmediate);
    running--;
    seen.push(item);
  });
  expect(seen.sort((a, b) => a - b)).toEqual([...Array(10).keys()]);
  expect(most).toBe(3);
});

test('no item is begun after one that has returned false', async () => {
  const begun: number[] = [];
  await inLanes(2, Array(10).keys(), async (item) => {
    begun.push(item);
    return item !== 2;
  });
  expect(begun).toEqual([0, 1, 2, 3]);
});

test('an error of one item is that of all', async () => {
  const failing = inLanes(2, [1, 2], () => Promise.reject(new Error('broken')));
  await expect(failing).rejects.toThrow('broken');
});
