import { expect, test } from 'vitest';
import { Compressors } from '../../src/forward/compressed-response.ts';
import { type PoolShare, PoolThreads } from '../../src/io/pool-threads.ts';

/** Pieces that compress at once when they get a thread, in the order in which they get one. */
function order(compressors: Compressors) {
  const served: string[] = [];
  const busy: PoolShare[] = [];
  return {
    served,
    want: (name: string, share: PoolShare) =>
      compressors.threads.want(share, {
        onThread: () => {
          served.push(name);
          busy.push(share);
        },
      }),
    /** One thread has finished its piece. */
    done: () => compressors.threads.done(busy.shift()!),
  };
}

test('one consumer has at most its share of the places, and gives each back (reliability 221)', () => {
  const compressors = new Compressors(new PoolThreads());
  const taken: PoolShare[] = [];
  for (let share = compressors.enter('hog', 0.25); share !== null; share = compressors.enter('hog', 0.25)) {
    taken.push(share);
  }
  expect(taken.length).toBe(16);
  expect(compressors.enter('other', 0.25)).not.toBeNull();
  compressors.leave(taken.pop()!);
  expect(compressors.enter('hog', 0.25)).not.toBeNull();
  expect(compressors.enter('hog', 0.25)).toBeNull();
});

test('all consumers together have 64 places', () => {
  const compressors = new Compressors(new PoolThreads());
  const taken = Array.from({ length: 100 }, (_, i) => compressors.enter(`consumer ${i}`, 0.25));
  expect(taken.filter((share) => share !== null).length).toBe(64);
});

test('a piece waits for one piece of each other consumer, however many they have (reliability 221)', () => {
  const compressors = new Compressors(new PoolThreads());
  const { served, want, done } = order(compressors);
  const hog = Array.from({ length: 16 }, () => compressors.enter('hog', 0.25)!);
  for (const share of hog) want('hog', share);
  want('small', compressors.enter('other', 0.25)!);
  expect(served).toEqual(['hog', 'hog']);
  done();
  done();
  expect(served.slice(0, 4)).toContain('small');
  for (let left = 13; left > 0; left--) done();
  expect(served.length).toBe(17);
});
