import { expect, test } from 'vitest';
import { summaryOf } from './summary.ts';

test('the table counts the cases of each suite by their verdict, failed ones apart, and the reasons follow it', () => {
  const reason = 'Because.';
  const said = [
    { suite: 'one', id: 'a', cases: 1, verdict: 'conforms', failed: false },
    { suite: 'one', id: 'b', cases: 1, verdict: 'debatable', reason, failed: false },
    { suite: 'one', id: 'c', cases: 1, verdict: 'conforms', failed: true },
    { suite: 'another', id: 'all', cases: 12_000, verdict: 'conforms', failed: false },
  ] as const;
  expect(summaryOf(said)).toEqual([
    'suite     cases  conform  debatable  differ  failed',
    'one           3        1          1       0       1',
    'another  12,000   12,000          0       0       0',
    '',
    'By intent:',
    'one b, debatable: Because.',
  ]);
  expect(summaryOf(said.slice(0, 1))).toHaveLength(2);
});
