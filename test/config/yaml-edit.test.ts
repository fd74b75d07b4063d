import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { editedYaml, type YamlEdit } from '../../src/config/yaml-edit.ts';

const BLOCK = `# What each plan allows.
plans:
    # For everyone.
    free:
        limits:
            minute: 60 # see TICKET-1
            day: 1000

    pro: { limits: { minute: { limit: 300, window: sliding }, day: 10000 }, bans: { after: 500 } } # paid

bans: off
`;

const edited = (path: string, value: YamlEdit['value'], text = BLOCK) =>
  editedYaml(text, [{ path: path.split('.'), value }]);

describe('a change in a text of YAML leaves comments, order and layout as they are', () => {
  test.each([
    ['a number in lines', 'plans.free.limits.minute', 90, 'minute: 60 #', 'minute: 90 #'],
    ['a number within braces', 'plans.pro.limits.minute.limit', 500, 'limit: 300,', 'limit: 500,'],
    [
      'a new line',
      'plans.free.limits.month',
      9000,
      '            day: 1000\n',
      '            day: 1000\n            month: 9000\n',
    ],
    ['behind a line with a comment', 'plans.free.limits.minute', null, '            minute: 60 # see TICKET-1\n', ''],
    ['a new entry within braces', 'plans.pro.limits.month', 5, 'day: 10000 }', 'day: 10000, month: 5 }'],
    [
      'a new mapping',
      'plans.free.bans.after',
      3,
      '            day: 1000\n',
      '            day: 1000\n        bans: { after: 3 }\n',
    ],
    [
      'a new mapping of two levels',
      'plans.free.units.rows.day',
      5,
      '            day: 1000\n',
      '            day: 1000\n        units: { rows: { day: 5 } }\n',
    ],
    [
      'a list',
      'plans.free.groups.a.routes',
      ['GET /v1/{id}', '/x, y'],
      '            day: 1000\n',
      '            day: 1000\n        groups: { a: { routes: [ "GET /v1/{id}", "/x, y" ] } }\n',
    ],
    ['a mapping in place of a word', 'bans.after', 5, 'bans: off', 'bans: { after: 5 }'],
    ['a word in place of a mapping', 'plans.pro.bans', 'off', 'bans: { after: 500 }', 'bans: off'],
    ['a mapping that would be empty goes', 'plans.pro.bans.after', null, ', bans: { after: 500 }', ''],
    ['the first within braces', 'plans.pro.limits.minute', null, 'minute: { limit: 300, window: sliding }, ', ''],
    ['what is not there', 'plans.free.bans.after', null, '', ''],
    ['a whole plan', 'plans.gold.limits.day', 7, ' # paid\n', ' # paid\n    gold: { limits: { day: 7 } }\n'],
  ])('%s', (_, path, value, before, after) => {
    expect(edited(path, value)).toBe(BLOCK.replace(before, after));
  });

  test('a text without a last line end, with line ends of Windows, and with an empty value', () => {
    expect(edited('a.c', 2, 'a:\n  b: 1')).toBe('a:\n  b: 1\n  c: 2');
    expect(edited('a.c', 2, 'a:\r\n  b: 1 # x\r\nd: 3\r\n')).toBe('a:\r\n  b: 1 # x\r\n  c: 2\r\nd: 3\r\n');
    expect(edited('a.c', 2, 'a:\nb: 1\n')).toBe('a: { c: 2 }\nb: 1\n');
    expect(edited('a.c', 2, 'a: {}\n')).toBe('a: { c: 2 }\n');
    expect(edited('a', 'off', 'a:\n  b:\n    c: 1\nd: 2\n')).toBe('a: off\nd: 2\n');
  });

  test('whatever the layout, the values are those that were asked for', () => {
    const name = fc.constantFrom('a', 'b', 'c d', "e'f");
    const leaf = fc.oneof(fc.nat(99), fc.constantFrom('off', '1m', 'x: y', '# no comment', ''), fc.boolean());
    const document = fc.dictionary(
      name,
      fc.dictionary(name, fc.oneof(leaf, fc.dictionary(name, leaf)), { minKeys: 1 }),
      { minKeys: 1 },
    );
    const path = fc.array(name, { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(document, path, leaf, fc.constantFrom(0, 1, 2), (before, names, value, kind) => {
        const text =
          kind === 0 ? JSON.stringify(before) : kind === 1 ? JSON.stringify(before, null, 2) : blockText(before);
        const after = parse(editedYaml(text, [{ path: names, value }]));
        expect(names.reduce((at, one) => at[one], after)).toEqual(value);
        const gone = parse(editedYaml(text, [{ path: names, value: null }]));
        expect(names.reduce((at, one) => (typeof at === 'object' ? at?.[one] : undefined), gone)).toBeUndefined();
      }),
    );
  });
});

/** In lines, each with a comment. */
function blockText(value: object, indent = ''): string {
  return Object.entries(value)
    .map(([name, inner]) => {
      const key = `${indent}${JSON.stringify(name)}:`;
      return typeof inner === 'object'
        ? `${key} # of ${name.length}\n${blockText(inner, `${indent}  `)}`
        : `${key} ${JSON.stringify(inner)} # value\n`;
    })
    .join('');
}
