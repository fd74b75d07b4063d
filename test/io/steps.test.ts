import { expect, test } from 'vitest';
import { atOnce, inSlices, STEPS_PER_SLICE, type Steps } from '../../src/io/steps.ts';

const STEPS = 10 * STEPS_PER_SLICE + 1;

function* counting(): Steps<string> {
  for (let i = 0; i < STEPS; i++) yield;
  return 'whole';
}

test('no turn of the event loop is asked for more than a slice (reliability 160)', async () => {
  const inTurn: number[] = [0];
  let isDone = false;
  const turn = () => {
    inTurn.push(0);
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  function* watched(): Steps<void> {
    for (const _ of counting()) {
      inTurn[inTurn.length - 1]!++;
      yield;
    }
  }
  await inSlices(watched());
  isDone = true;
  expect(inTurn.reduce((sum, steps) => sum + steps)).toBe(STEPS);
  expect(Math.max(...inTurn)).toBeLessThanOrEqual(STEPS_PER_SLICE);
});

test('work in slices comes to what it comes to at once', async () => {
  expect([atOnce(counting()), await inSlices(counting())]).toEqual(['whole', 'whole']);
});

test('work that is aborted between two slices does not continue', async () => {
  const abort = new AbortController();
  const steps = counting();
  const working = inSlices(steps, abort.signal);
  abort.abort(new Error('aborted'));
  await expect(working).rejects.toThrow('aborted');
  // It has run one slice at most.
  expect(Array.from(steps).length).toBeGreaterThanOrEqual(STEPS - STEPS_PER_SLICE);
});
