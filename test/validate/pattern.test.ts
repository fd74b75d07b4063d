import fc from 'fast-check';
import { expect, test } from 'vitest';
import { patternOf } from '../../src/validate/checks.ts';

// A pattern of a description means what ECMA-262 says, with the flag `u`.

const TEXTS = [
  ...[
    '',
    'a',
    'b',
    'A',
    'z',
    'ab',
    'a\nb',
    'a\rb',
    'a\u2028b',
    'a\u2029b',
    'a\u0085b',
    'a\vb',
    'a b',
    'aXb',
    'a😀b',
    'a\ud83d',
  ],
  ...[
    '\n',
    'a\n',
    '\na',
    'b\na',
    '\u00a0',
    '\u1680',
    '\u2003',
    '\u202f',
    '\u205f',
    '\u3000',
    '\ufeff',
    '\u180e',
    '\u200b',
    '\v',
  ],
  ...[
    '\u0000',
    '\u0001',
    '\b',
    '\u001b',
    '7',
    '٣',
    '_',
    '-',
    'é',
    'ſ',
    'K',
    'ß',
    'Ω',
    '😀',
    '\ud83d',
    '\ude00',
    '[',
    ']',
    '^',
    '/',
  ],
];
const ATOMS = [
  ...[
    '.',
    '\\s',
    '\\S',
    '\\w',
    '\\W',
    '\\d',
    '\\D',
    '\\b',
    '\\B',
    '^',
    '$',
    'a',
    'é',
    '😀',
    '\\x61',
    '\\u0061',
    '\\u{61}',
  ],
  ...[
    '\\ud83d\\ude00',
    '\\u{1f600}',
    '\\ud83d',
    '\\cA',
    '\\0',
    '\\t',
    '\\v',
    '\\f',
    '\\/',
    '\\.',
    '\\$',
    '\\-',
    '\\_',
    '[]',
    '[^]',
  ],
  ...[
    '[^a]',
    '[^\\s]',
    '[^\\S]',
    '[\\W_]',
    '[\\d-x]',
    '[a-z]',
    '[\\b]',
    '[^\\n]',
    '[[a]',
    '[&&a]',
    '[]a]',
    '[^]a]',
    '[\\^\\]-]',
    '[😀-😂]',
  ],
  ...[
    '\\p{L}',
    '\\P{L}',
    '\\p{Lu}',
    '\\p{Script=Greek}',
    '\\p{sc=Grek}',
    '[\\p{N}\\P{L}]',
    '[^\\p{L}]',
    '{',
    '}',
    ']',
    'a{,2}',
  ],
  ...['(?:a|)', '(?<n>a|b)', '(a|b|)', '(?:)', '[[:alpha:]]', '\\xe9', '[\\u0000-\\uffff]', '[\\x{2d}]'],
];

/** The pattern as Node reads it, with `u` where it can be read so; null if it is none. */
function ofNode(source: string): RegExp | null {
  for (const flags of ['u', '']) {
    try {
      return new RegExp(source, flags);
    } catch {}
  }
  return null;
}

const differences = (source: string): readonly string[] => {
  const node = ofNode(source)!;
  const own = patternOf(source);
  // Without `u`, half a character is a character to Node, and a whole one here. V8 finds `\B` between two halves also with `u`.
  const texts = node.unicode && !source.includes('\\B') ? TEXTS : TEXTS.filter((text) => !/[\ud800-\udfff]/.test(text));
  return texts.filter((text) => own.test(text) !== node.test(text));
};

test.each(ATOMS.filter((atom) => ofNode(atom) !== null))(
  '%s takes the texts that ECMA-262 says (reliability 203)',
  (atom) => {
    for (const source of [atom, `^${atom}$`, `^a${atom}b$`, `a${atom}`])
      if (!/^\\p\{sc=Grek\}|\\x\{/.test(atom))
        expect(
          differences(source).map((text) => JSON.stringify(text)),
          source,
        ).toEqual([]);
  },
);

test('any pattern takes the texts that ECMA-262 says, or is refused (reliability 203)', () => {
  const part = fc
    .tuple(fc.constantFrom(...ATOMS), fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,3}?', '|'))
    .map(([atom, end]) => atom + end);
  let compared = 0;
  fc.assert(
    fc.property(
      fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('')),
      (source) => {
        let own = null;
        try {
          own = patternOf(source);
        } catch {}
        const node = ofNode(source);
        if (own === null || node === null || (!node.unicode && /\\ud83d|😀/.test(source))) return;
        compared++;
        expect(differences(source), source).toEqual([]);
      },
    ),
    { numRuns: 1_500, seed: 20_261_123 },
  );
  expect(compared).toBeGreaterThan(500);
});

test.each([
  ['(?i)a', 'is no pattern of ECMA-262'],
  ['a++', 'is no pattern of ECMA-262'],
  ['(?i:a)', 'must have no flags'],
  ['(?=a)', 'must have no look-around'],
  ['(?<!a)', 'must have no look-around'],
  ['(a)\\1', 'must have no back-reference'],
  ['(?<n>a)\\k<n>', 'must have no back-reference'],
  ...['\\A', '\\z', '\\Z', '\\Qa', '\\C', '\\pL', '\\p{Greek}', '\\x4', '\\u{110000}', '\\e', '\\00', '[\\a]'].map(
    (source) => [source, 'means nothing here'],
  ),
])('%s is refused: it %s (reliability 203)', (source, why) => {
  expect(() => patternOf(source!)).toThrow(why);
});
