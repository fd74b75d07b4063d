import { expect, test } from 'vitest';
import { compared, readCosts } from '../../../tools/bench/guard/costs.ts';
import { measureCosts } from '../../../tools/bench/guard/guard.ts';
import { medianIn } from '../../../tools/bench/guard/system-calls.ts';

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

test('the calls of the median request are counted, without those before the first one and those of timers', () => {
  const request = ['7 read(20, "GET /v1/pets HTT"..., 65536) = 90', '7 writev(21, [{...}], 2) = 9'];
  const trace = [
    '7 write(3, "x", 1) = 1',
    ...request,
    ...request,
    '8 write(4, "GET /v1/pets HTT"..., 90 <unfinished ...>',
    '7 read(20,  <unfinished ...>',
    '8 <... write resumed>) = 90',
    '7 <... read resumed>"GET /v1/pets HTT"..., 65536) = 90',
    '7 writev(21, [{...}], 2) = 9',
    ...request,
  ];
  expect(medianIn(trace.join('\n'))).toBe(2);
  expect(() => medianIn('strace: attach: Operation not permitted')).toThrow('saw no request');
});
