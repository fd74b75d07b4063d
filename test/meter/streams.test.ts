import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BodyReader } from '../../src/meter/body-reader.ts';
import type { BodySource } from '../../src/meter/cost.ts';
import { SEED, tries } from '../support/sample.ts';

function readerWith(kind: BodySource['kind'], pieces: readonly Buffer[], pointer = ['u', 't']): BodyReader {
  const reader = new BodyReader({ kind, pointer });
  for (const piece of pieces) reader.add(piece);
  return reader;
}

/** What is found in the text, which must be the same whole, in two pieces cut anywhere, and byte by byte. */
function foundIn(kind: BodySource['kind'], text: string, pointer?: string[]): unknown {
  const bytes = Buffer.from(text);
  const found = readerWith(kind, [bytes], pointer).end();
  for (let cut = 0; cut < bytes.length; cut++) {
    const pieces = [bytes.subarray(0, cut), bytes.subarray(cut)];
    expect(readerWith(kind, pieces, pointer).end(), `cut at ${cut}`).toBe(found);
  }
  const bytewise = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
  expect(readerWith(kind, bytewise, pointer).end(), 'byte by byte').toBe(found);
  return found;
}

describe('an event stream:', () => {
  test.each<[string, string, unknown]>([
    ['one event', 'data: {"u":{"t":5}}\n\n', 5],
    ['the last event counts', 'data: {"u":{"t":9}}\n\ndata: {"u":{"t":5}}\n\n', 5],
    [
      'events without it are ignored',
      'data: {"u":{"t":5}}\n\ndata: {"u":{}}\n\ndata: {"u":{"t":null}}\n\ndata: 7\n\n',
      5,
    ],
    ['[DONE] is ignored', 'data: {"u":{"t":5}}\n\ndata: [DONE]\n\n', 5],
    ['a text is ignored', 'data: hello {"u":\n\ndata: {"u":{"t":5}}\n\ndata: bye\n\n', 5],
    ['CRLF', 'data: {"u":{"t":9}}\r\n\r\ndata: {"u":{"t":5}}\r\n\r\n', 5],
    ['CR', 'data: {"u":{"t":9}}\r\rdata: {"u":{"t":5}}\r\r', 5],
    ['mixed line ends', 'data: {"u":{"t":9}}\n\r\ndata: {"u":\rdata: {"t":5}}\r\n\n', 5],
    ['two lines of data are joined by a line break', 'data: {"u":{"t":5}\ndata\ndata:\ndata: }\n\n', 5],
    ['also within a text', 'data: {"u":{"t":5},"x":"\ndata: "}\n\n', 5],
    ['no space behind the colon', 'data:{"u":{"t":5}}\n\n', 5],
    ['two spaces behind the colon', 'data:  {"u":{"t":5}}\n\n', 5],
    ['a byte order mark', '\ufeffdata: {"u":{"t":5}}\n\n', 5],
    ['a second byte order mark', '\ufeff\ufeffdata: {"u":{"t":5}}\n\n', 'absent'],
    ['comments and other fields', ': hi\n\n:\nevent: x\nid: 1\ndata: {"u":\n: no\nretry: 5\ndata: {"t":5}}\nid\n\n', 5],
    [
      'fields with names alike',
      'dat: {"u":{"t":1}}\ndata1: {"u":{"t":2}}\nDATA: {"u":{"t":3}}\n data: {"u":{"t":4}}\n\n',
      'absent',
    ],
    ['an event without an empty line behind it', 'data: {"u":{"t":9}}\n\ndata: {"u":{"t":5}}\n', 5],
    ['nor a line end', 'data: {"u":{"t":9}}\n\ndata: {"u":{"t":5}}', 5],
    ['a part of an event', 'data: {"u":{"t":5}}\n\ndata: {"u":{"t', 5],
    ['a part of an event with a number', 'data: {"u":{"t":5}}\n\ndata: {"u":{"t":9', 'invalid'],
    ['an invalid amount at last', 'data: {"u":{"t":5}}\n\ndata: {"u":{"t":-1}}\n\n', 'invalid'],
    ['an invalid amount before', 'data: {"u":{"t":-1}}\n\ndata: {"u":{"t":5}}\n\n', 5],
    ['a name with escapes', 'data: {"x":1}\n\ndata: {"\\u0075":{"\\u0074":5}}\n\ndata: {"x":2}\n\n', 5],
    ['the name elsewhere', 'data: {"t":"u"}\n\ndata: {"u":{"t":5}}\n\ndata: {"x":"t"}\n\n', 5],
    ['nothing', '', 'absent'],
    ['empty lines', '\n\r\n\r\n\n', 'absent'],
  ])('%s', (_what, text, found) => {
    expect(foundIn('sse', text)).toBe(found);
  });

  test('names that may be written with short escapes, and indices, are found', () => {
    expect(foundIn('sse', 'data: {"a\\/b":5}\n\ndata: {}\n\n', ['a/b'])).toBe(5);
    expect(foundIn('sse', 'data: {"a\\"":5}\n\ndata: {}\n\n', ['a"'])).toBe(5);
    expect(foundIn('sse', 'data: [4,5]\n\ndata: []\n\n', ['1'])).toBe(5);
    expect(foundIn('sse', 'data: {"1":{"u":[4,5]}}\n\ndata: []\n\n', ['1', 'u', '1'])).toBe(5);
    expect(foundIn('sse', 'data: {"":5}\n\ndata: []\n\n', [''])).toBe(5);
  });

  test('the amount so far is that of the last event, also if the stream broke off behind its number', () => {
    const seen = (text: string) => readerWith('sse', [Buffer.from(text)]).seen;
    expect(seen('data: {"u":')).toBeNull();
    expect(seen('data: {"u":{"t":5}}\n\ndata: {"u":{"t":6')).toBe(5);
    expect(seen('data: {"u":{"t":5}}\n\ndata: {"u":{"t":6}')).toBe(6);
    expect(seen('data: {"u":{"t":5}}\n\ndata: {"u":{"t":-6}')).toBe(5);
  });
});

describe('newline-delimited JSON:', () => {
  test.each<[string, string, unknown]>([
    ['the last line counts', '{"u":{"t":9}}\n{"u":{"t":5}}\n{"x":1}\n', 5],
    ['without a line end', '{"u":{"t":9}}\n{"u":{"t":5}}', 5],
    ['CRLF and empty lines', '\r\n{"u":{"t":5}}\r\n\r\n\n', 5],
    ['lines that are not JSON', '{"u":{"t":5}}\nhello\n{"u\n', 5],
    ['an object over two lines', '{"u":\n{"t":5}}\n', 'absent'],
    ['an invalid amount at last', '{"u":{"t":5}}\n{"u":{"t":"x"}}\n', 'invalid'],
    ['a byte order mark', '\ufeff{"u":{"t":5}}\n', 5],
    ['nothing', '', 'absent'],
  ])('%s', (_what, text, found) => {
    expect(foundIn('ndjson', text)).toBe(found);
  });
});

test('random events give the same in any pieces, and what they give one by one (reliability 291)', () => {
  const data = fc.constantFrom(
    '{"u":{"t":1}}',
    '{"u":{"t":2},"x":"\\n"}',
    '{"u":{"t":-3}}',
    '{"x":"\\u0074 t"}',
    '{}',
    '{"u":{"t":nul',
    '[DONE]',
    '{"\\u0075":{"t":4}}',
  );
  const end = fc.constantFrom('\n\n', '\r\n\r\n', '\r\r', '\n\r\n', '\n: c\n\n');
  fc.assert(
    fc.property(
      fc.array(fc.tuple(data, end), { maxLength: 12 }),
      fc.array(fc.nat(), { maxLength: 6 }),
      (events, cuts) => {
        const bytes = Buffer.from(events.map(([text, gap]) => `data: ${text}${gap}`).join(''));
        const ends = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
        const pieces = ends.slice(1).map((to, i) => bytes.subarray(ends[i], to));
        const each = events.map(([text]) => readerWith('json', [Buffer.from(text)]).end());
        const last = each.findLast((found) => typeof found === 'number' || found === 'invalid') ?? 'absent';
        expect(readerWith('sse', pieces).end()).toBe(last);
      },
    ),
    { seed: SEED, numRuns: tries(1000, 30_000) },
  );
});

test('a number behind 100 MiB of JSON, of events and of lines is found (reliability 291)', () => {
  const piece = (text: string) => Buffer.alloc(1 << 20, text);
  const mib = (text: string) => Array.from({ length: 100 }, () => piece(text));
  const number = Buffer.from('{"u":{"t":5}}');
  expect(readerWith('json', [...mib(' '), number]).end()).toBe(5);
  expect(readerWith('sse', [...mib(':\n\n\n'), Buffer.from('data: '), number, Buffer.from('\n\n')]).end()).toBe(5);
  expect(readerWith('ndjson', [...mib('{}\n\n'), number]).end()).toBe(5);
});
