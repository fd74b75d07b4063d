import { expect, test } from 'vitest';
import { exitCodeOf } from '../../src/cli/recorded-change.ts';
import { importRows } from '../../src/operations/transfer/import-keys.ts';
import { FakeCustomers, FakeStore } from '../identify/fake-store.ts';

test('a command whose change a failover may undo has failed, and says on standard error that it was done', () => {
  const told: string[] = [];
  const terminal = { env: {}, out: () => {}, error: (text: string) => void told.push(text), isTerminal: false };
  expect([exitCodeOf('durable', terminal), told]).toEqual([0, []]);
  expect(exitCodeOf('unknown', terminal)).toBe(1);
  expect(told.join('')).toMatch(
    /^It was done and is in force, but .* a failover may undo it\. .*`tollgate doctor`.*\n$/,
  );
});

test('a line whose key a failover may undo is told apart from those that are imported for good', async () => {
  const keys = new FakeStore();
  keys.createEach = async (all) => all.map((_, i) => (i === 0 ? 'created' : ('unknown' as never)));
  const rows = ['1', '2'].map((digit) => ({ sha256: digit.repeat(64), plan: 'pro' }));
  const plan = { name: 'pro', limits: { minute: 5 }, bans: null, enforce: true, shadow: null };
  const outcomes = importRows(rows, {
    keys,
    customers: new FakeCustomers(),
    plans: new Map([['pro', plan as never]]),
    gone: new Set(),
    formats: [],
    history: { peppers: ['a pepper for the tests'], root: 'a root for the tests' },
    nowMs: () => 1,
    dryRun: false,
  });
  expect(await outcomes).toMatchObject([
    { kind: 'moved' },
    { kind: 'unknown', why: expect.stringContaining('import the file again') },
  ]);
});
