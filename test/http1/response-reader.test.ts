import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BadResponseError } from '../../src/http1/response-head.ts';
import { ResponseReader } from '../../src/http1/response-reader.ts';
import { answerCase } from '../../tools/fuzz/answers.ts';
import { processorMs } from '../support/stopwatch.ts';
import { readAnswer } from './read-response.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const read = (text: string, { method = 'GET', ends = false } = {}) =>
  readAnswer([Buffer.from(text, 'latin1')], method, ends);

describe('an answer ends where RFC 9112 section 6.3 says', () => {
  test.each([
    ['a length', `${OK}Content-Length: 2\r\n\r\n{}`, '{}'],
    ['a length of nothing', `${OK}Content-Length: 0\r\n\r\n`, ''],
    ['chunks', `${OK}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;a=b\r\n}\r\n0\r\n\r\n`, '{}'],
    ['chunks and trailers', `${OK}Transfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n0\r\nX-A: 1\r\n\r\n`, '{}'],
    ['chunks of many digits', `${OK}Transfer-Encoding: chunked\r\n\r\n0000002\r\n{}\r\n000\r\n\r\n`, '{}'],
    [
      'interim answers before it',
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLink: a\r\n\r\n${OK}Content-Length: 2\r\n\r\n{}`,
      '{}',
    ],
  ])('%s', (_how, text, body) => {
    expect(read(text)).toMatchObject({ kind: 'whole', status: 200, body, keepsAlive: true, excess: false });
  });

  test.each([
    ['204', 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n', 'GET'],
    ['304', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n', 'GET'],
    ['HEAD', `${OK}Transfer-Encoding: chunked\r\n\r\n`, 'HEAD'],
  ])('%s has no body, whatever it says', (_what, text, method) => {
    expect(read(text, { method })).toMatchObject({ kind: 'whole', body: '' });
  });

  test('without either, the end of the connection is the end', () => {
    expect(read(`${OK}\r\nhalf`)).toEqual({ kind: 'unfinished', status: 200 });
    expect(read(`${OK}\r\nhalf`, { ends: true })).toMatchObject({ kind: 'whole', body: 'half', keepsAlive: false });
  });

  test.each(['Content-Length: 9\r\n\r\nhalf', 'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'])(
    'with one, the end of the connection is not: %j',
    (rest) => {
      expect(read(OK + rest, { ends: true })).toEqual({ kind: 'unfinished', status: 200 });
    },
  );
});

test.each([
  ['HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', true],
  [`${OK}Connection: close\r\nContent-Length: 0\r\n\r\n`, false],
  [`${OK}Connection: x, Close\r\nContent-Length: 0\r\n\r\n`, false],
  [`${OK}Connection: closed\r\nContent-Length: 0\r\n\r\n`, true],
  ['HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n', false],
])('whether the connection may be used again: %j', (text, keepsAlive) => {
  expect(read(text)).toMatchObject({ kind: 'whole', keepsAlive });
});

describe('what leaves a doubt is refused, as soon as it can be seen', () => {
  test.each([
    'hello\r\n',
    'HTTP/2',
    'HTTP/1.1 200 OK\n',
    'http/1.1 200 OK\r\n\r\n',
    'HTTP/1.1  200 OK\r\n\r\n',
    'HTTP/1.1 099 X\r\n\r\n',
    'HTTP/1.1 1000 X\r\n\r\n',
    'HTTP/1.1 2000 X\r\n\r\n',
    'HTTP/1.1 200 a\x01b\r\n\r\n',
    'HTTP/1.1 200 a\rb\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\n\r\n',
    ' HTTP/1.1 200 OK\r\n\r\n',
    '\r\nHTTP/1.1 200 OK\r\n\r\n',
    ...[
      'Content-Length: 2\r\nContent-Length: 2',
      'Content-Length: 2, 2',
      'Content-Length: +2',
      'Content-Length: 0x2',
      'Content-Length:',
      'Content-Length: 9999999999999999',
      'Content-Length: 2\r\nTransfer-Encoding: chunked',
      'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
      'Transfer-Encoding: chunked, chunked',
      'Transfer-Encoding: gzip',
      'Transfer-Encoding: chunked\t',
      'transfer-encoding:\tChunked \t',
      'Transfer-Encoding: chunked\xa0',
      'Transfer-Encoding:',
      'X-A: b\r\n c',
      ' X-A: b',
      'X-A : b',
      ': b',
      'X-A',
      'X-A: b\x00c',
      'X-A: b\x7fc',
      'X-A: b\rX-B: c',
    ].map((fields) => `${OK}${fields}\r\n\r\n`),
    'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    ...[
      '1 \r\n',
      'zz\r\n',
      '-1\r\n',
      '+1\r\n',
      '0x1\r\n',
      ' 1\r\n',
      '\r\n',
      '1\n',
      'fffffffffffff\r\n',
      '2\r\n{}x\r\n',
      '2;\x01\r\n',
    ].map((chunks) => `${OK}Transfer-Encoding: chunked\r\n\r\n${chunks}`),
    ...[
      '0\r\nno colon\r\n',
      '0\r\nContent-Length: 2\r\n',
      '0\r\ntransfer-encoding: chunked\r\n',
      '2\r\n{}\n',
      '0\r\n\n',
      '0\r\nX: 1\n',
      `0\r\n${`X: ${'a'.repeat(4_000)}\r\n`.repeat(5)}`,
    ].map((chunks) => `${OK}Transfer-Encoding: chunked\r\n\r\n${chunks}`),
    `${OK}Transfer-Encoding: chunked\r\n\r\n1;${'e'.repeat(5_000)}`,
    `${OK}X: ${'a'.repeat(17_000)}`,
    `${OK}${'X:\r\n'.repeat(1_001)}\r\n`,
  ])('%j', (text) => {
    expect(read(text).kind).toBe('refused');
  });
});

test.each([
  [`${OK}Content-Length: 2\r\n\r\n{}H`, 'GET'],
  ['HTTP/1.1 204 X\r\n\r\nbody', 'GET'],
  [`${OK}Content-Length: 4\r\n\r\nbody`, 'HEAD'],
  [`${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r\n`, 'GET'],
])('bytes behind the end are told, so that the next request never gets them: %j', (text, method) => {
  expect(read(text, { method })).toMatchObject({ kind: 'whole', excess: true });
});

test('the next request may begin while the end of an answer is told, and never sees what came behind it', () => {
  const bytes = Buffer.from(`${OK}Content-Length: 0\r\n\r\n${OK}Content-Length: 0\r\n\r\n`);
  expect(readAnswer([bytes], 'GET', false)).toMatchObject({ kind: 'whole', excess: true });
});

test('interim answers are told in their order', () => {
  const text = `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLink: a\r\n\r\n${OK}Content-Length: 0\r\n\r\n`;
  expect(read(text)).toMatchObject({ interim: [100, 103] });
});

describe('a reader', () => {
  const calls: string[] = [];
  const readerOf = (limits: ConstructorParameters<typeof ResponseReader>[1] = {}) => {
    calls.length = 0;
    return new ResponseReader(
      {
        onInformation: (status) => calls.push(`${status}`),
        onHead: ({ status }) => calls.push(`head ${status}`),
        onData: (chunk) => calls.push(`data ${chunk}`),
        onEnd: () => calls.push('end'),
      },
      limits,
    );
  };

  test('is amid a body from its head to its end, and reads one answer after the other', () => {
    const reader = readerOf();
    const amid = [reader.isAmidBody];
    for (const piece of ['', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n', 'a', 'b']) {
      if (piece === '') reader.begin('GET');
      reader.read(Buffer.from(piece));
      amid.push(reader.isAmidBody);
    }
    expect(amid).toEqual([false, false, true, true, false]);
    expect(reader.end()).toBe(true);
    reader.begin('HEAD');
    expect(reader.end()).toBe(false);
    reader.read(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n'));
    expect(calls).toEqual(['head 200', 'data a', 'data b', 'end', 'head 200', 'end']);
    expect([reader.isAmidBody, reader.excess]).toEqual([false, false]);
    reader.read(Buffer.from('x'));
    expect(reader.excess).toBe(true);
  });

  test('that was abandoned calls nobody, finds no excess, and breaks nothing off', () => {
    const reader = readerOf();
    reader.begin('GET');
    reader.read(Buffer.from('HTTP/1.1 200 OK\r\n\r\na'));
    reader.abandon();
    reader.read(Buffer.from('b'));
    expect(reader.end()).toBe(true);
    expect(calls).toEqual(['head 200', 'data a']);
    expect([reader.isAmidBody, reader.excess]).toEqual([false, false]);
  });

  test('takes a head of the largest size, whole and in pieces, and none that is larger', () => {
    const head = 'HTTP/1.1 204 OK\r\nA: b';
    const reads = (maxHeadBytes: number, ...pieces: readonly string[]) => {
      const reader = readerOf({ maxHeadBytes });
      reader.begin('GET');
      for (const piece of pieces) reader.read(Buffer.from(piece));
    };
    const end = '\r\n\r\n';
    expect(() => reads(head.length, head + end)).not.toThrow();
    expect(() => reads(head.length, ...head, ...end)).not.toThrow();
    // Behind an interim answer in the same piece its size is its own.
    expect(() => reads(head.length, `HTTP/1.1 100${end}${head}${end}`)).not.toThrow();
    expect(() => reads(head.length, `HTTP/1.1 100${end}HTT`, `${head.slice(3)}${end}`)).not.toThrow();
    expect(() => reads(head.length - 1, head + end)).toThrow(BadResponseError);
    expect(() => reads(head.length - 1, `${head}\r\n\r`)).toThrow(BadResponseError);
  });

  test('takes trailers of the largest size in all, for each answer anew', () => {
    const reader = readerOf();
    const lines = (last: number) => `${`X: ${'a'.repeat(4_091)}\r\n`.repeat(4)}X: ${'a'.repeat(last)}\r\n`;
    for (const _ of [1, 2]) {
      reader.begin('GET');
      // 16 KiB without the ends of the lines.
      reader.read(Buffer.from(`${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n${lines(5)}\r\n`));
    }
    expect(calls).toEqual(['head 200', 'end', 'head 200', 'end']);
    reader.begin('GET');
    const more = `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n${lines(6)}\r\n`;
    expect(() => reader.read(Buffer.from(more))).toThrow(BadResponseError);
  });

  test('takes a line of a chunk of the largest size', () => {
    const size = (length: number) => `${OK}Transfer-Encoding: chunked\r\n\r\n0;${'e'.repeat(length - 4)}\r\n\r\n`;
    expect(read(size(4_096)).kind).toBe('whole');
    expect(read(size(4_097)).kind).toBe('refused');
  });
});

test('much white space in a field costs no more than its bytes', () => {
  const text = `${OK}X: \tx${' '.repeat(16_000)}x\r\nContent-Length: 0\r\n\r\n`;
  const tookMs = processorMs(() => {
    for (let i = 0; i < 50; i++) expect(read(text).kind).toBe('whole');
  });
  // Quadratic work on this took 200 ms each.
  expect(tookMs).toBeLessThan(2_000);
});

test('in whatever pieces the bytes come, they are read the same', () => {
  fc.assert(
    fc.property(answerCase, fc.array(fc.nat({ max: 400 }), { maxLength: 8 }), (answer, at) => {
      const bytes = Buffer.from(answer.template, 'latin1');
      const ends = answer.end === 'fin';
      const cuts = [...new Set([0, ...at.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b);
      const pieces = cuts.slice(1).map((cut, i) => bytes.subarray(cuts[i], cut));
      const [cut, uncut] = [readAnswer(pieces, answer.method, ends), readAnswer([bytes], answer.method, ends)];
      if (uncut.kind === 'refused') expect(cut.kind).toBe('refused');
      else expect(cut).toEqual(uncut);
    }),
    { numRuns: 2_000, seed: 20_261_121 },
  );
});

test('any bytes whatever are read or refused, and nothing else is thrown', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (bytes, asBody) => {
      const start = asBody ? `${OK}Transfer-Encoding: chunked\r\n\r\n` : 'HTTP/1.1 200 OK\r\n';
      expect(() => readAnswer([Buffer.from(start), Buffer.from(bytes)], 'GET', true)).not.toThrow();
    }),
    { numRuns: 2_000, seed: 20_261_121 },
  );
});
