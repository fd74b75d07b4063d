import { describe, expect, test } from 'vitest';
import { FieldBlock } from '../../src/http1/field-block.ts';
import { readHead } from '../../src/http1/request-head.ts';
import { SimpleReader } from '../../src/listen/fast-path/simple-request.ts';

const LIMITS = { maxUrlBytes: 1_000, maxHeaderBytes: 10_000 };
const get = (target: string, fields: string) => `GET ${target} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;

describe('what is derived from header fields', () => {
  test('is kept with them, for each reader its own', () => {
    const block = new FieldBlock(['Host', 'a', 'Accept', 'b']);
    let reads = 0;
    const countNames = (rawHeaders: readonly string[]) => {
      reads++;
      return rawHeaders.length / 2;
    };
    const readNothing = () => undefined;
    expect([block.derived(countNames), block.derived(readNothing), block.derived(countNames)]).toEqual([
      2,
      undefined,
      2,
    ]);
    block.derived(readNothing);
    expect(reads).toBe(1);
  });

  test('does not go over to other fields', () => {
    const first = (rawHeaders: readonly string[]) => rawHeaders[1];
    expect(['a', 'b'].map((value) => new FieldBlock(['Authorization', value]).derived(first))).toEqual(['a', 'b']);
  });

  test('is the framing too: it is checked once', () => {
    const fields = new FieldBlock(['Host', 'a', 'Connection', 'x']);
    const heads = ['/a', '/b'].map((url) => readHead({ method: 'GET', url, httpVersion: '1.1', fields }, LIMITS));
    expect(heads.map((head) => head.kind === 'head' && head.path)).toEqual(['/a', '/b']);
    expect(fields.validated('1.1', LIMITS)).toBe(fields.validated('1.1', LIMITS));
  });
});

describe('the fast path hands out', () => {
  test('the same block where a client repeats its fields, whatever it asks for', () => {
    const reader = new SimpleReader();
    const blocks = ['/a', '/b', '/a?c'].map(
      (target) => reader.read(get(target, 'Authorization: Bearer x\r\n'))?.fields,
    );
    expect(new Set(blocks)).toEqual(new Set([expect.any(FieldBlock)]));
    expect(new Set(blocks).size).toBe(1);
  });

  test.each([
    ['another value', 'Authorization: Bearer y\r\n'],
    ['another case', 'authorization: Bearer x\r\n'],
    ['another space', 'Authorization:  Bearer x\r\n'],
    ['one field more', 'Authorization: Bearer x\r\nAccept: a\r\n'],
    ['one field less', ''],
  ])('another block for %s', (_what, fields) => {
    const reader = new SimpleReader();
    const before = reader.read(get('/', 'Authorization: Bearer x\r\n'))?.fields;
    const after = reader.read(get('/', fields))?.fields;
    expect(after).toBeInstanceOf(FieldBlock);
    expect(after).not.toBe(before);
  });

  test('another block each time where the request is long: an idle connection keeps little', () => {
    const reader = new SimpleReader();
    const long = get('/', `X-Long: ${'a'.repeat(3_000)}\r\n`);
    expect(reader.read(long)?.fields).not.toBe(reader.read(long)?.fields);
  });
});
