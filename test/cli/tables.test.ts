import { describe, expect, test } from 'vitest';
import { table } from '../../src/cli/terminal/output.ts';

const HEADS = ['id', 'name', 'used'];
const ROWS = [
  ['key_0123456789abcdef', 'a shop with a very long name', '7'],
  ['key_fedcba9876543210', '', '12000'],
];
const at = (columns: number | null) => table(HEADS, ROWS, { isTerminal: true, columns });

describe('a table on a terminal', () => {
  test('has its numbers on the right, under their head', () => {
    expect(at(null)).toBe(
      'ID                    NAME                           USED\n' +
        'key_0123456789abcdef  a shop with a very long name      7\n' +
        'key_fedcba9876543210                                12000\n',
    );
    const [, mixed] = table(
      ['id', 'limit'],
      [
        ['a', '5'],
        ['b', 'no'],
      ],
      { isTerminal: true },
    ).split('\n');
    expect(mixed).toBe('a   5');
  });

  test.each([80, 57, 50, 40, 37])('fits into %i columns, and ids and numbers stay whole', (columns) => {
    for (const line of at(columns).trimEnd().split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
    for (const [id, , used] of ROWS) expect(at(columns)).toMatch(new RegExp(`^${id} .* ${used}$`, 'm'));
  });

  test('is too wide rather than unreadable where nothing more can be left out', () => {
    expect(at(10).split('\n')[1]).toBe('key_0123456789abcdef  a sho…      7');
  });
});

test('a pipe gets everything, with tabs', () => {
  expect(table(HEADS, ROWS, { isTerminal: false, columns: 20 })).toBe(
    ROWS.map((row) => `${row.join('\t')}\n`).join(''),
  );
});
