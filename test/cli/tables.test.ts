import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { type Column, printTable, table } from '../../src/cli/terminal/printed-table.ts';
import { withTonedLead } from '../../src/cli/terminal/style.ts';
import type { Style } from '../../src/io/terminal-text.ts';
import { shortened } from '../../src/io/text-width.ts';

const HEADS = ['id', 'name', 'used'];
const ROWS = [
  ['key_0123456789abcdef', 'a shop with a very long name', '7'],
  ['key_fedcba9876543210', '', '12000'],
];
const COLUMNS: readonly Column[] = [
  { head: 'id', isWhole: true },
  { head: 'name', rank: 3 },
  { head: 'used', rank: 2 },
];
const at = (columns: number | null) => table(COLUMNS, ROWS, { isTerminal: true, columns });
const linesOf = (text: string) => text.split('\n').slice(0, -1);

/** A style that marks what it is given as colours do. */
const coloured: Style = (tone, text) => `\x1b[${tone.length}m${text}\x1b[0m`;

describe('a table on a terminal', () => {
  test('has its numbers on the right, under their head', () => {
    expect(at(null)).toBe(
      'ID                    NAME                           USED\n' +
        'key_0123456789abcdef  a shop with a very long name      7\n' +
        'key_fedcba9876543210                                12000\n',
    );
    const mixed = [
      ['a', '5'],
      ['b', 'no'],
    ];
    expect(linesOf(table(['id', 'limit'], mixed, { isTerminal: true }))[1]).toBe('a   5');
  });

  test.each([
    [57, 'ID                    NAME                           USED', 'a shop with a very long name      7'],
    [56, 'ID                    NAME                          USED', 'a shop with a very long na…      7'],
    [45, 'ID                    NAME               USED', 'a shop with a v…      7'],
    [44, 'ID                     USED  …', '    7'],
    [30, 'ID                     USED  …', '    7'],
    [29, 'ID                    …', ''],
    [20, 'ID', ''],
  ])('of %i cells cuts what matters least: first ends, then columns', (columns, header, end) => {
    const [first, second] = linesOf(at(columns));
    expect(first).toBe(header);
    expect(second).toMatch(/^key_0123456789abcdef/);
    expect(second!.endsWith(end)).toBe(true);
  });

  test('cuts an id only where nothing else is left, and no number', () => {
    expect(linesOf(at(12))).toEqual(['ID', 'key_0123456…', 'key_fedcba9…']);
    expect(linesOf(table(['used'], [['12000']], { isTerminal: true, columns: 4 }))).toEqual(['USED', '   …']);
  });

  test.each([
    ['日本語の店', 10, '日本語の店'],
    ['日本語の店', 9, '日本語の…'],
    ['日本語の店', 8, '日本語…'],
    ['👍🏽👍🏽👍🏽', 5, '👍🏽👍🏽…'],
    ['e\u0301e\u0301e\u0301', 3, 'e\u0301e\u0301e\u0301'],
    ['e\u0301e\u0301e\u0301', 2, 'e\u0301…'],
    ['🇩🇪🇫🇷', 3, '🇩🇪…'],
    ['日本', 1, '…'],
  ])('%s in %i cells is %s', (text, width, shown) => {
    expect(shortened(text, width)).toBe(shown);
  });

  test('aligns what is two cells wide', () => {
    const text = table(
      ['name', 'plan'],
      [
        ['日本語', 'pro'],
        ['e\u0301clair 🥐', 'pro'],
        ['shop', 'pro'],
      ],
      { isTerminal: true },
    );
    for (const line of linesOf(text).slice(1)) expect(stringWidth(line.slice(0, line.indexOf('pro')))).toBe(11);
  });
});

/** Characters of every kind that a name may have, and of the kinds that it should not. */
const unit = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 3 }),
  fc.constantFrom(
    '店',
    '가',
    'e\u0301',
    '👩‍💻',
    '👍🏽',
    '🇩🇪',
    '☎️',
    '1️⃣',
    'ก็',
    'क्ष',
    'ا',
    'ש',
    '\u3164',
    '\u0d4e',
    '\u1160',
  ),
  fc.constantFrom(
    '\n',
    '\r',
    '\t',
    '\x1b[31m',
    '\u202e',
    '\u2066',
    '\u200b',
    '\u2028',
    '\x9b',
    '\x07',
    '\ud800',
    ' ',
    '…',
  ),
);
const cell = fc.oneof(
  fc.array(unit, { maxLength: 12 }).map((units) => units.join('')),
  fc.nat().map(String),
);
const anyTable = fc.integer({ min: 1, max: 8 }).chain((width) =>
  fc.record({
    columns: fc.array(
      fc.record({
        head: fc.constantFrom('id', 'name', 'newly refused', ''),
        rank: fc.nat({ max: 9 }),
        isWhole: fc.boolean(),
        isStatus: fc.boolean(),
      }),
      { minLength: width, maxLength: width },
    ),
    rows: fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1, maxLength: 6 }),
    available: fc.integer({ min: 1, max: 120 }),
    hasHeader: fc.boolean(),
  }),
);

describe('whatever its cells are, a table', () => {
  test('is never wider than the terminal, has a line for each row, and nothing that a terminal obeys', () => {
    fc.assert(
      fc.property(anyTable, ({ columns, rows, available, hasHeader }) => {
        const text = table(columns, rows, { isTerminal: true, columns: available, hasHeader });
        const lines = linesOf(text);
        expect(lines.length).toBe(rows.length + (hasHeader ? 1 : 0));
        for (const line of lines) {
          expect(stringWidth(line)).toBeLessThanOrEqual(available);
          expect(line).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
        }
      }),
      { numRuns: 500 },
    );
  });

  test('says the same with colours and without', () => {
    fc.assert(
      fc.property(anyTable, fc.boolean(), ({ columns, rows, available, hasHeader }, isTerminal) => {
        const output = { isTerminal, columns: available, hasHeader };
        const text = table(columns, rows, { ...output, style: coloured });
        expect(stripVTControlCharacters(text)).toBe(table(columns, rows, output));
      }),
    );
  });

  test('has in a pipe a line for each row and a tab between its cells, and nothing is cut', () => {
    fc.assert(
      fc.property(anyTable, ({ columns, rows, available, hasHeader }) => {
        const lines = linesOf(table(columns, rows, { isTerminal: false, columns: available, hasHeader }));
        expect(lines.length).toBe(rows.length + (hasHeader ? 1 : 0));
        for (const line of lines) expect(line.split('\t').length).toBe(columns.length);
        for (const [i, line] of lines.slice(hasHeader ? 1 : 0).entries()) {
          for (const [j, text] of line.split('\t').entries())
            if (/^[ -~]*$/.test(rows[i]![j]!)) expect(text).toBe(rows[i]![j]);
        }
      }),
    );
  });
});

test('a pipe gets everything, with tabs, under a header that --no-header leaves out', () => {
  const rows = ROWS.map((row) => `${row.join('\t')}\n`).join('');
  expect(table(HEADS, ROWS, { isTerminal: false, columns: 20 })).toBe(`ID\tNAME\tUSED\n${rows}`);
  expect(table(HEADS, ROWS, { isTerminal: false, hasHeader: false })).toBe(rows);
});

test('characters that a terminal would obey, or that no one would see, are escaped', () => {
  const [row] = linesOf(table(['name'], [['a\nb\tc\x1b[2J\u202ed\u200b']], { isTerminal: false, hasHeader: false }));
  expect(row).toBe('a\\u{a}b\\u{9}c\\u{1b}[2J\\u{202e}d\\u{200b}');
});

test('without rows a terminal gets a sentence, and a pipe the header alone', () => {
  const printed = (isTerminal: boolean) => {
    const told: { out: string[]; error: string[] } = { out: [], error: [] };
    const out = (text: string) => void told.out.push(text);
    const error = (text: string) => void told.error.push(text);
    printTable({ env: {}, out, error, isTerminal }, ['id', 'plan'], [], 'None.\n');
    return told;
  };
  expect(printed(true)).toEqual({ out: ['None.\n'], error: [] });
  expect(printed(false)).toEqual({ out: ['ID\tPLAN\n'], error: ['None.\n'] });
});

test('the header is bold, and of a status the word has its colour', () => {
  const columns = [{ head: 'state', isStatus: true }, 'name'];
  const text = table(
    columns,
    [
      ['active', 'active'],
      ['other', 'x'],
    ],
    { isTerminal: true, style: (tone, it) => `<${tone}>${it}</>` },
  );
  expect(text).toBe('<bold>STATE</>   <bold>NAME</>\n<green>active</>  active\nother   x\n');
  expect(withTonedLead('warning: x\n', (tone, it) => `<${tone}>${it}</>`)).toBe('<yellow>warning:</> x\n');
  expect(withTonedLead('a warning: x\n', coloured)).toBe('a warning: x\n');
});
