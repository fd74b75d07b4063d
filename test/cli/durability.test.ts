import { expect, test } from 'vitest';
import { exitCodeOf } from '../../src/cli/keys-operations.ts';
import { DURABLE } from '../../src/identify/key-store.ts';

test('a command whose change a failover may undo has failed, and says on standard error that it was done', () => {
  const told: string[] = [];
  const terminal = { env: {}, out: () => {}, error: (text: string) => void told.push(text), isTerminal: false };
  expect([exitCodeOf(DURABLE, terminal), told]).toEqual([0, []]);
  expect(exitCodeOf({ kind: 'unknown', settled: Promise.resolve('given_up') }, terminal)).toBe(1);
  expect(told.join('')).toMatch(/^It was done, but Redis has not confirmed .* a failover may undo it\..*\n$/);
});
