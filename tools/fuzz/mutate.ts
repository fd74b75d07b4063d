import fc from 'fast-check';

/** Bytes as latin1 text, one character a byte. */
export type Bytes = string;

/** One change to well-formed bytes. */
type Mutation = (bytes: Bytes) => Bytes;

/**
 * Lays up to `most` changes over well-formed bytes.
 * @param dictionary pieces that mean something to a parser
 */
export function mutated(bytes: fc.Arbitrary<Bytes>, dictionary: readonly Bytes[], most: number): fc.Arbitrary<Bytes> {
  return fc
    .tuple(bytes, fc.array(mutation(dictionary), { maxLength: most, size: 'max' }))
    .map(([text, mutations]) => mutations.reduce((changed, change) => change(changed), text));
}

const CONTROL = [
  '\0',
  '\t',
  '\n',
  '\v',
  '\f',
  '\r',
  '\r\n',
  ' ',
  '\x7f',
  '\x80',
  '\xff',
  ':',
  ',',
  ';',
  '"',
  '\r\n\r\n',
];

function mutation(dictionary: readonly Bytes[]): fc.Arbitrary<Mutation> {
  const place = fc.nat({ max: 4_000 });
  const length = fc.integer({ min: 1, max: 12 });
  const piece = fc.constantFrom(...dictionary, ...CONTROL);
  const byte = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
  return fc.oneof(
    fc.tuple(place, piece).map(
      ([at, text]): Mutation =>
        (bytes) =>
          splice(bytes, at, 0, text),
    ),
    fc.tuple(place, length).map(
      ([at, count]): Mutation =>
        (bytes) =>
          splice(bytes, at, count, ''),
    ),
    fc.tuple(place, byte).map(
      ([at, text]): Mutation =>
        (bytes) =>
          splice(bytes, at, 1, text),
    ),
    fc.tuple(place, piece, fc.constantFrom('before', 'after', 'over')).map(([at, text, where]): Mutation => {
      return (bytes) => inLine(bytes, at, (line) => ({ before: text + line, after: line + text, over: text })[where]!);
    }),
    place.map(
      (at): Mutation =>
        (bytes) =>
          inLine(bytes, at, (line) => `${line}\r\n${line}`),
    ),
    fc.tuple(place, fc.constantFrom('\n', '\r', '\n\r', '')).map(([at, end]): Mutation => {
      return (bytes) => withLineEnd(bytes, at, end);
    }),
    fc.tuple(place, piece).map(
      ([at, text]): Mutation =>
        (bytes) =>
          aroundColon(bytes, at, text),
    ),
    place.map(
      (at): Mutation =>
        (bytes) =>
          bytes.slice(0, bytes.length - (at % (bytes.length + 1))),
    ),
    place.map(
      (at): Mutation =>
        (bytes) =>
          inLine(bytes, at, (line) => line.toUpperCase()),
    ),
  );
}

function splice(bytes: Bytes, at: number, remove: number, insert: Bytes): Bytes {
  const start = at % (bytes.length + 1);
  return bytes.slice(0, start) + insert + bytes.slice(start + remove);
}

/** Changes one of the lines, which are where parsers differ. */
function inLine(bytes: Bytes, at: number, change: (line: Bytes) => Bytes): Bytes {
  const lines = bytes.split('\r\n');
  const i = at % lines.length;
  lines[i] = change(lines[i]!);
  return lines.join('\r\n');
}

function withLineEnd(bytes: Bytes, at: number, end: Bytes): Bytes {
  const lines = bytes.split('\r\n');
  if (lines.length < 2) return bytes;
  const i = at % (lines.length - 1);
  lines.splice(i, 2, `${lines[i]}${end}${lines[i + 1]}`);
  return lines.join('\r\n');
}

/** Puts something before, after or in the middle of a field's colon. */
function aroundColon(bytes: Bytes, at: number, text: Bytes): Bytes {
  return inLine(bytes, at >> 2, (line) => {
    const colon = line.indexOf(':');
    if (colon === -1) return line + text;
    const start = colon + (at % 3);
    return line.slice(0, start) + text + line.slice(start);
  });
}

/** Where to cut bytes into writes of their own: up to three places. */
export const cuts: fc.Arbitrary<readonly number[]> = fc.oneof(
  { weight: 4, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(fc.nat({ max: 1_000 }), { minLength: 1, maxLength: 3 }) },
);

/** @param at as {@link cuts} gives them, taken modulo the length */
export function cutInto(bytes: Buffer, at: readonly number[]): Buffer[] {
  const places = [...new Set(at.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [...places, bytes.length]
    .map((end, i) => bytes.subarray(places[i - 1] ?? 0, end))
    .filter((part) => part.length > 0);
}
