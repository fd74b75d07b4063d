import { expect, test } from 'vitest';
import { Circuit, type CircuitState } from '../../src/stores/redis/circuit.ts';
import { atEnd } from '../support/endings.ts';
import { holdTime } from '../support/hold-time.ts';

// Attack: a store that comes back and answers just within the deadline. Of those that waited for their turn hardly anybody
// can be answered in time; if that counted as the store's failure, it would never be back for good.

const TIMEOUT_MS = 40;

async function backAgain() {
  const pass = holdTime();
  const states: CircuitState[] = [];
  const circuit = new Circuit({
    timeoutMs: TIMEOUT_MS,
    failures: 3,
    probeEveryMs: 20,
    probe: async () => 'PONG',
    onChange: (state) => states.push(state),
  });
  atEnd(() => circuit.close());
  await expect(circuit.run(async () => Promise.reject(new Error('LOADING')))).rejects.toThrow();
  await pass(20);
  expect(states).toEqual(['away', 'present']);
  return { circuit, states, pass };
}

/** Answers after `ms`, by the time that the test holds. */
const slow = (ms: number) => () => new Promise<string>((resolve) => setTimeout(() => resolve('ok'), ms));

test('a store that answers just within the deadline is back for good, and soon takes all that comes', async () => {
  const { circuit, states, pass } = await backAgain();
  const answered: number[] = [];
  for (let round = 0; round < 8; round++) {
    const calls = Array.from({ length: 60 }, () => circuit.run(slow(30)));
    const settled = Promise.allSettled(calls);
    await pass(2 * TIMEOUT_MS);
    answered.push((await settled).filter(({ status }) => status === 'fulfilled').length);
  }
  expect(states).toEqual(['away', 'present']);
  expect(answered[0]).toBe(4);
  expect(answered.at(-1)).toBe(60);
});

test('one that falls silent while many wait is away after one deadline all the same', async () => {
  const { circuit, states, pass } = await backAgain();
  const first = Promise.allSettled(Array.from({ length: 60 }, () => circuit.run(slow(30))));
  await pass(30);
  // Those that follow have each waited, and nobody answers any more.
  const silent = Promise.allSettled(Array.from({ length: 60 }, () => circuit.run(() => new Promise(() => {}))));
  await pass(TIMEOUT_MS);
  // A probe may have succeeded since.
  expect(states.slice(0, 3)).toEqual(['away', 'present', 'away']);
  await Promise.all([first, silent]);
});
