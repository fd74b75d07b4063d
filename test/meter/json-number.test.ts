import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { numberIn } from '../../src/meter/body-reader.ts';
import { amountOf, wholeNumberOf } from '../../src/meter/cost.ts';
import { JsonNumber, type NumberReading } from '../../src/meter/json-number.ts';
import { SEED, tries } from '../support/sample.ts';

/** What is found if the text arrives in these pieces. */
function foundIn(pieces: readonly Buffer[], pointer: readonly string[]): NumberReading {
  const number = new JsonNumber(pointer);
  for (const piece of pieces) number.add(piece, 0, piece.length);
  return number.end();
}

function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return ends.slice(1).map((end, i) => bytes.subarray(ends[i], end));
}

const bytewise = (bytes: Buffer) => split(bytes, [...bytes.keys()]);

/** What is to be found in the text of a value. */
function expectedAt(of: unknown, pointer: readonly string[], read = amountOf): NumberReading {
  let value = of;
  for (const token of pointer) {
    const isItem = !Array.isArray(value) || /^(?:0|[1-9][0-9]*)$/.test(token);
    if (typeof value !== 'object' || value === null || !isItem || !Object.hasOwn(value, token)) return 'absent';
    value = (value as Record<string, unknown>)[token];
  }
  if (value === null) return 'absent';
  if (typeof value === 'string' && /^[0-9]+$/.test(value)) return read(value) ?? 'invalid';
  return (typeof value === 'number' ? read(JSON.stringify(value)) : null) ?? 'invalid';
}

/** Whether an object on the path has another spelling of the path's next name, which a strict reader refuses. */
function hasOtherSpelling(of: unknown, path: readonly string[]): boolean {
  let value = of;
  return path.some((token) => {
    const names = Array.isArray(value) ? [] : Object.keys(value as object);
    value = (value as Record<string, unknown>)[token];
    return names.some((name) => name !== token && spelling(name) === spelling(token));
  });
}

/** Equal for names that differ only in case, hyphens and underscores. */
const spelling = (name: string) => {
  const letters = name.replace(/[-_]/g, '').replaceAll('ſ', 's').replaceAll('\u212a', 'k');
  return String.fromCharCode(...Buffer.from(letters).map((byte) => byte | 0x20));
};

const escaped = (character: string) =>
  Array.from(
    { length: character.length },
    (_, i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`,
  ).join('');

/** Writes some characters of texts and names as escapes. */
const withEscapes = (json: string, every: number) =>
  json.replace(/"(?:[^"\\]|\\.)*"/g, (text) =>
    text.replace(/\\.|[^"\\]/gsu, (one, at: number) =>
      /[\\0-9]/.test(one[0]!) || at % every !== 0 ? one : escaped(one),
    ),
  );

const name = fc.oneof(
  fc.constantFrom('a', 'A', 'b', 'a_b', 'ab', 'a-', '', '0', '1', 'é', '😀', '"', '\\', '{', 'a"}', '\n'),
  fc.string({ unit: 'grapheme' }),
);
const leaf = fc.oneof(
  fc.nat(1000),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
  name,
);
const valueWith = (leaf: fc.Arbitrary<unknown>, name: fc.Arbitrary<string>) =>
  fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'medium', withCrossShrink: true },
      leaf,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(name, tie('value'), { maxKeys: 5, noNullPrototype: true }),
    ),
  })).value;
const value = valueWith(leaf, name);
/** Without escapes, and without numbers that are none once a character is put in: the reader checks neither off the path. */
const plainName = fc.constantFrom('a', 'b', 'ab', '', '0', '1', 'é', '😀', '{', 'a}');
const plainValue = valueWith(fc.oneof(fc.nat(9), fc.boolean(), fc.constant(null), plainName), plainName);

/** The tokens that lead to a part of the value, chosen by `steps`. */
function pathIn(of: unknown, steps: readonly number[]): string[] {
  const path: string[] = [];
  let part = of;
  for (const step of steps) {
    if (typeof part !== 'object' || part === null) break;
    const names = Object.keys(part);
    if (names.length === 0) break;
    path.push(names[step % names.length]!);
    part = (part as Record<string, unknown>)[path.at(-1)!];
  }
  return path;
}

const steps = fc.array(fc.nat(), { minLength: 1, maxLength: 6 });
const cuts = fc.array(fc.nat(), { maxLength: 8 });

// The value itself is compared and not what JSON.parse makes of the text: V8 14.6 takes the name "\u0062" for a backslash if an
// object with a backslash as its name was parsed before.
test('any number at any pointer is found, in any pieces, white space and escapes', () => {
  fc.assert(
    fc.property(value, steps, cuts, fc.nat(3), fc.integer({ min: 1, max: 4 }), (of, by, at, indent, every) => {
      const text = withEscapes(JSON.stringify(of, null, indent), every);
      const path = pathIn(of, by);
      const expected = expectedAt(of, path);
      expect(foundIn(split(Buffer.from(text), at), path)).toBe(expected);
      const strict = hasOtherSpelling(of, path) ? 'invalid' : expectedAt(of, path, wholeNumberOf);
      expect(numberIn(Buffer.from(text), path)).toBe(strict);
    }),
    { seed: SEED, numRuns: tries(1500, 50_000) },
  );
});

test('a pointer that leads nowhere, and one with names of its own, finds what is there', () => {
  fc.assert(
    fc.property(value, fc.array(name, { minLength: 1, maxLength: 3 }), cuts, (of, path, at) => {
      const text = JSON.stringify(of);
      expect(foundIn(split(Buffer.from(text), at), path)).toBe(expectedAt(of, path));
    }),
    { seed: SEED, numRuns: tries(500, 20_000) },
  );
});

test('a long text of quotes and backslashes ends where it ends, in any pieces', () => {
  const long = fc.string({ unit: fc.constantFrom('"', '\\', 'a', 'b'), minLength: 20, maxLength: 200 });
  fc.assert(
    fc.property(long, long, cuts, (one, other, at) => {
      const text = JSON.stringify({ x: one, y: [other, { z: one }], u: { t: 5 } });
      expect(foundIn(split(Buffer.from(text), at), ['u', 't'])).toBe(5);
    }),
    { seed: SEED, numRuns: tries(500, 20_000) },
  );
});

test('what JSON.parse refuses, apart from numbers off the path and what is in texts, gives no number', () => {
  fc.assert(
    fc.property(
      plainValue,
      steps,
      fc.nat(),
      fc.constantFrom('{', '}', '[', ']', ',', ':', '"', 'x'),
      (of, by, at, mark) => {
        const text = JSON.stringify({ u: of });
        const path = ['u', ...pathIn(of, by)];
        const cut = at % text.length;
        const faulty = text.slice(0, cut) + mark + text.slice(cut);
        let isJson = true;
        try {
          JSON.parse(faulty);
        } catch {
          isJson = false;
        }
        if (!isJson) expect(['invalid', 'no_json']).toContain(foundIn([Buffer.from(faulty)], path));
      },
    ),
    { seed: SEED, numRuns: tries(1000, 20_000) },
  );
});

describe.each([
  ['whole', (bytes: Buffer) => [bytes]],
  ['byte by byte', bytewise],
])('%s', (_how, piecesOf) => {
  test.each<[string, string, NumberReading]>([
    ['the number', '{"u":{"t":5}}', 5],
    ['a number before other members', '{"u":{"t":5,"x":[{"t":7}]},"t":9}', 5],
    ['a fraction', '{"u":{"t":4.1}}', 5],
    ['the same name elsewhere', '{"t":1,"x":{"u":{"t":2}},"u":{"x":{"t":3},"t":5}}', 5],
    ['braces, quotes and backslashes in texts', '{"x":"}{\\"u\\":{\\\\","u":{"y":"\\\\","t":5}}', 5],
    ['a name with escapes', '{"\\u0075":{"\\u0074":5}}', 5],
    ['a name that begins alike', '{"u":{"tt":1,"":2,"t":5}}', 5],
    ['null', '{"u":{"t":null}}', 'absent'],
    ['null above', '{"u":null}', 'absent'],
    ['a number above', '{"u":5}', 'absent'],
    ['a list above', '{"u":[5]}', 'absent'],
    ['no text', '', 'absent'],
    ['white space', ' \r\n\t', 'absent'],
    ['a text of digits (reliability 357)', '{"u":{"t":"50"},"t":"7"}', 50],
    ['an empty text', '{"u":{"t":""}}', 'invalid'],
    ['a text of something else', '{"u":{"t":"5 "}}', 'invalid'],
    ['a text with a sign', '{"u":{"t":"-5"}}', 'invalid'],
    ['a text of 10,000 digits', `{"u":{"t":"${'1'.repeat(10_000)}"}}`, 'invalid'],
    ['a text without an end', '{"u":{"t":"5', 'no_json'],
    [
      'NaN and infinities elsewhere (reliability 358)',
      '{"x":[NaN,-Infinity,Infinity],"u":{"y":NaN,"t":5},"z":-Infinity}',
      5,
    ],
    ['NaN', '{"u":{"t":NaN}}', 'invalid'],
    ['Infinity', '{"u":{"t":Infinity}}', 'invalid'],
    ['-Infinity', '{"u":{"t":-Infinity}}', 'invalid'],
    ['5Infinity', '{"u":{"t":5Infinity}}', 'invalid'],
    ['a word that begins alike', '{"x":-Inf,"u":{"t":5}}', 'no_json'],
    ['true', '{"u":{"t":true}}', 'invalid'],
    ['an object', '{"u":{"t":{}}}', 'invalid'],
    ['a list', '{"u":{"t":[5]}}', 'invalid'],
    ['-1', '{"u":{"t":-1}}', 'invalid'],
    ['1e999', '{"u":{"t":1e999}}', 'invalid'],
    ['9007199254740993', '{"u":{"t":9007199254740993}}', 'invalid'],
    ['a number of 10,000 digits', `{"u":{"t":${'1'.repeat(10_000)}}}`, 'invalid'],
    ['0x10', '{"u":{"t":0x10}}', 'invalid'],
    ['a name twice', '{"u":{"t":5,"t":5}}', 'invalid'],
    ['a name twice, once with escapes', '{"u":{"t":5,"\\u0074":6}}', 'invalid'],
    ['the name above twice', '{"u":{"t":5},"u":{}}', 'invalid'],
    ['the name above twice, first without', '{"u":1,"u":{"t":5}}', 'invalid'],
    ['an end too early behind the number', '{"u":{"t":5}', 'invalid'],
    ['something behind the end', '{"u":{"t":5}}}', 'invalid'],
    ['two texts', '{"u":{"t":5}} {"u":{"t":5}}', 'invalid'],
    ['an end too early', '{"u":{', 'no_json'],
    ['no JSON', '<html>', 'no_json'],
    ['[DONE]', '[DONE]', 'no_json'],
    ['a missing comma', '{"x":1 "u":{"t":5}}', 'no_json'],
    ['a comma too many', '{"x":1,,"u":{"t":5}}', 'no_json'],
    ['a missing name', '{"x",1:2}', 'no_json'],
    ['brackets that do not match', '{"x":[}}', 'no_json'],
    ['a wrong word', '{"x":nul1}', 'no_json'],
    ['a line break in a text', '{"x":"\n","u":{"t":5}}', 5],
  ])('%s', (_what, text, found) => {
    expect(foundIn(piecesOf(Buffer.from(text)), ['u', 't'])).toBe(found);
  });

  test.each<[string, string[], string, NumberReading]>([
    ['a list', ['1'], '[4,5,6]', 5],
    ['lists in lists', ['1', '1', '0'], '[[1,[9]],[2,[5,8],[7]],[3,[7]]]', 5],
    ['an item behind the one of the path', ['2', '0'], '[4,4,[5,6],[7]]', 5],
    ['an object with a number as its name', ['1'], '{"0":4,"1":5}', 5],
    ['an index with a zero before it', ['01'], '[4,5]', 'absent'],
    ['the item behind the last', ['-'], '[4,5]', 'absent'],
    ['an item too far', ['2'], '[4,5]', 'absent'],
    ['an index of ten digits', ['4294967297'], '[4,5]', 'absent'],
    ['[DONE] and a pointer into a list', ['0'], '[DONE]', 'no_json'],
    ['an empty name', ['', ''], '{"":{"":5}}', 5],
    ['an astral name with escapes', ['😀'], '{"\\ud83d\\ude00":5}', 5],
    ['a lone surrogate', ['\ufffd'], '{"\\ud83d":4,"\ufffd":5}', 5],
    ['a name of __proto__', ['__proto__', 'constructor'], '{"__proto__":{"constructor":5}}', 5],
    ['a name beyond its bound', ['a'], `{"${'\\u0061'.repeat(1000)}":4,"a":5}`, 5],
  ])('%s', (_what, pointer, text, found) => {
    expect(foundIn(piecesOf(Buffer.from(text)), pointer)).toBe(found);
  });
});

test('a number is seen once it has ended', () => {
  const number = new JsonNumber(['t']);
  const add = (text: string) => number.add(Buffer.from(text), 0, text.length);
  add('{"t":12');
  expect(number.seen).toBeNull();
  add('3');
  expect(number.seen).toBeNull();
  add(',');
  expect(number.seen).toBe(123);
});

test.each<[string, string, number | null]>([
  ['something behind the end', '{"u":{"t":5}}}', 5],
  ['a wrong word behind it', '{"u":{"t":5},"x":undefined}', 5],
  ['an end too early', '{"u":{"t":5}', 5],
  ['a name twice, first the larger', '{"u":{"t":5,"t":3}}', 5],
  ['a name twice, first the smaller', '{"u":{"t":3,"t":5}}', 5],
  ['the name above twice', '{"u":{"t":3},"u":{"t":5}}', 5],
  ['a name twice, then no number', '{"u":{"t":5,"t":{}}}', 5],
  ['no number', '{"u":{"t":-5}}', null],
])('what is invalid keeps the largest number that was read: %s (reliability 358)', (_what, text, seen) => {
  for (const pieces of [[Buffer.from(text)], bytewise(Buffer.from(text))]) {
    const number = new JsonNumber(['u', 't']);
    for (const piece of pieces) number.add(piece, 0, piece.length);
    expect(number.end()).toBe('invalid');
    expect(number.seen).toBe(seen);
  }
});

describe('Attack:', () => {
  test('a number behind 100,000 lists or objects in one another is found, in any pieces (reliability 290)', () => {
    const lists = `${'['.repeat(100_000)}"]]\\"["${']'.repeat(100_000)}`;
    const objects = `${'{"}\\"":'.repeat(100_000)}1${'}'.repeat(100_000)}`;
    for (const deep of [lists, objects]) {
      const bytes = Buffer.from(`{"x":${deep},"u":{"t":5}}`);
      expect(foundIn([bytes], ['u', 't'])).toBe(5);
      expect(foundIn(bytewise(bytes), ['u', 't'])).toBe(5);
      expect(foundIn([bytes.subarray(0, bytes.length / 2)], ['u', 't'])).toBe('no_json');
    }
    expect(foundIn([Buffer.from(`{"x":${lists}]}`)], ['u', 't'])).toBe('no_json');
    expect(foundIn([Buffer.from('['.repeat(100_000))], ['1'])).toBe('no_json');
  });

  test('of 511, 512 and 513 lists in one another the kinds of 512 are kept (reliability 290)', () => {
    const zeros = Array.from({ length: 512 }, () => '0');
    expect(foundIn([Buffer.from(`${'['.repeat(512)}5${']'.repeat(512)}`)], zeros)).toBe(5);
    expect(foundIn([Buffer.from(`${'['.repeat(512)}5,[]${']'.repeat(512)}`)], zeros)).toBe(5);
    for (const depth of [510, 511, 512, 513]) {
      const text = `{"x":${'['.repeat(depth)}${']'.repeat(depth)},"u":{"t":5}}`;
      expect(foundIn([Buffer.from(text)], ['u', 't'])).toBe(5);
      expect(foundIn([Buffer.from(text.replace(']', '}'))], ['u', 't'])).toBe(depth < 512 ? 'no_json' : 5);
    }
  });

  test('a number behind 10 MiB of texts is found (reliability 290)', () => {
    const text = JSON.stringify({ x: ['"\\{'.repeat(1 << 20), 'a'.repeat(6 << 20)], u: { t: 5 } });
    expect(text.length).toBeGreaterThan(10 << 20);
    expect(numberIn(Buffer.from(text), ['u', 't'])).toBe(5);
  });
});

test('a request may begin with a byte order mark, and be any part of a buffer', () => {
  expect(numberIn(Buffer.from('\ufeff{"n":5}'), ['n'])).toBe(5);
  const bytes = new Uint8Array(Buffer.from('xx{"n":5}xx'));
  expect(numberIn(bytes.subarray(2, 9), ['n'])).toBe(5);
  expect(numberIn(Buffer.from('{"n":5'), ['n'])).toBe('invalid');
  expect(numberIn(Buffer.from('n=5'), ['n'])).toBe('invalid');
  expect(numberIn(Buffer.from(''), ['n'])).toBe('absent');
});

test('Attack: a MiB of names with broken escapes takes no longer than one of other names (reliability 298)', () => {
  const bodyOf = (name: string) => Buffer.from(`{${`"${name}":1,`.repeat(100_000)}"n":5}`);
  const [broken, plain] = [bodyOf('\\x'), bodyOf('xx')];
  // Of this thread, because other tests take the processor at any moment; of many runs, because the system counts in ticks.
  const microsOf = (body: Buffer) => {
    const before = process.threadCpuUsage();
    for (let run = 0; run < 40; run++) expect(numberIn(body, ['n'])).toBe(5);
    const { user, system } = process.threadCpuUsage(before);
    return user + system;
  };
  const [slow, fast] = [broken, plain].map(microsOf);
  expect(slow! / fast!).toBeLessThan(20);
});
