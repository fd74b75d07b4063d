import { expect, test } from 'vitest';
import { compared, readCosts } from '../../../tools/bench/guard/costs.ts';
import { measureCosts } from '../../../tools/bench/guard/guard.ts';
import { totalOf } from '../../../tools/bench/guard/system-calls.ts';

test('what a request allocates, and which calls of the system and of Redis it makes, is what the last change says, within 5 %', async ({
  signal,
}) => {
  const costs = await measureCosts({ signal, say: () => {} });
  const beyond = compared(costs, await readCosts()).filter(({ isWithin }) => !isWithin);
  expect(
    beyond.map(({ text }) => text),
    'If the change is meant: npm run bench -- --guard --write',
  ).toEqual([]);
});

test('a count that changes by more than 5 % in either direction is named', () => {
  const cost = { bytes: 1_000, systemCalls: 3, scripts: 0, commands: 9 };
  const onFile = { admitted: cost, 'first of a key': cost, banned: cost, spent: cost, 'unknown key': cost };
  const now = {
    ...onFile,
    'first of a key': { ...cost, commands: 10 },
    banned: { ...cost, bytes: 1_051 },
    spent: { ...cost, systemCalls: 2.8, scripts: 0.01 },
    'unknown key': { ...cost, bytes: 960, systemCalls: null },
  };
  expect(compared(now, onFile).map(({ isWithin }) => isWithin)).toEqual([true, false, false, false, true]);
});

test('the total of strace is read', () => {
  expect(
    totalOf(
      '    calls syscall\n--------- ----------------\n      120 read\n--------- ----------------\n      180 total\n',
    ),
  ).toBe(180);
  expect(totalOf('')).toBe(0);
  expect(() => totalOf('strace: attach: Operation not permitted')).toThrow('no total');
});
