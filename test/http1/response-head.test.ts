import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { linesOf } from '../../src/http1/fields.ts';
import { responseFields } from '../../src/http1/forwarded-fields.ts';
import { type ResponseHead, readPlainResponseHead, readResponseHead } from '../../src/http1/response-head.ts';

// The plain reader takes what most services send, and never what the careful reader would take otherwise or not at all.

const has = ({ fields }: ResponseHead, name: string) =>
  fields.some((it, i) => i % 2 === 0 && it.toLowerCase() === name);

/** All that is used of a head. */
function saidBy(head: ResponseHead) {
  const { status, fields, framing, length, keepsAlive, keepAlive } = head;
  return { status, fields, framing, length, keepsAlive, keepAlive };
}

function expectTheSame(plain: ResponseHead, text: string, method: string): void {
  const careful = readResponseHead(text, method);
  expect(saidBy(plain)).toEqual(saidBy(careful));
  for (let i = 0; i < careful.fields.length; i += 2) {
    const name = careful.fields[i]!.toLowerCase();
    expect(plain.values(name)).toEqual(careful.values(name));
  }
  expect(plain.values('x-none')).toEqual([]);
  expect(plain.lines).toMatchObject({
    text: linesOf(responseFields(careful.fields, [], careful.status)),
    hasDate: has(careful, 'date'),
    hasLength: has(careful, 'content-length'),
  });
}

const headOf = (status: string, lines: readonly string[]) => [`HTTP/1.1 ${status}`, ...lines].join('\r\n');
const DATE = 'Date: Sat, 21 Nov 2026 09:00:00 GMT';

describe('a head as services send it goes on as it stands, without what ends at the gateway', () => {
  test.each([
    [
      'Express',
      [
        'X-Powered-By: Express',
        'Content-Type: application/json; charset=utf-8',
        'Content-Length: 284',
        'ETag: W/"11c-x"',
        DATE,
        'Connection: keep-alive',
        'Keep-Alive: timeout=5',
      ],
      'X-Powered-By: Express\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 284\r\nETag: W/"11c-x"\r\nDate: Sat, 21 Nov 2026 09:00:00 GMT\r\n',
    ],
    [
      'nginx',
      ['Server: nginx', DATE, 'Content-Type: text/html', 'Content-Length: 0', 'Connection: close'],
      `Server: nginx\r\n${DATE}\r\nContent-Type: text/html\r\nContent-Length: 0\r\n`,
    ],
    ['chunks', ['Transfer-Encoding: chunked', 'A: b'], 'A: b\r\n'],
    [
      'limits of its own',
      ['X-RateLimit-Limit: 5', 'a: b', 'RateLimit: x', 'x-request-id: 7', 'c: d'],
      'a: b\r\nc: d\r\n',
    ],
    ['nothing that is passed on', ['Connection: keep-alive', 'TE: x'], ''],
    ['until it closes', ['Content-Type: text/plain'], 'Content-Type: text/plain\r\n'],
    ['bytes beyond ASCII', ['X-Name: \xe4\tb'], 'X-Name: \xe4\tb\r\n'],
  ])('%s', (_, lines, passedOn) => {
    const text = headOf('200 OK', lines);
    const plain = readPlainResponseHead(text, 'GET');
    expect(plain?.lines?.text).toBe(passedOn);
    expectTheSame(plain!, text, 'GET');
  });
});

test.each([
  ['no field', []],
  ['a value without a space before it', ['Content-Length:2']],
  ['white space around a value', ['A:  b']],
  ['white space behind a value', ['A: b ']],
  ['an empty value', ['A: ']],
  ['two lengths', ['Content-Length: 2', 'content-length: 2']],
  ['a length beside a coding', ['Content-Length: 2', 'Transfer-Encoding: chunked']],
  ['a coding beside a length', ['Transfer-Encoding: chunked', 'Content-Length: 2']],
  ['two codings', ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked']],
  ['another coding', ['Transfer-Encoding: gzip']],
  ['a length that is none', ['Content-Length: +2']],
  ['two times to keep the connection for', ['Keep-Alive: timeout=5', 'keep-alive: max=10']],
  ['names that are not to be passed on', ['Connection: close, X-A', 'X-A: b']],
  ['a line without a colon', ['A: b', 'C']],
  ['a folded line', ['A: b', ' c']],
  ['a bare line feed', ['A: b\nC: d']],
  ['a bare carriage return', ['A: b\rC: d']],
  ['a byte of zero', ['A: b\0c']],
])('%s is left to the careful reader', (_, lines) => {
  expect(readPlainResponseHead(headOf('200 OK', lines), 'GET')).toBeNull();
});

test.each([
  'HTTP/1.0 200 OK',
  'HTTP/1.1 100 Continue',
  'HTTP/1.1 101 Switching Protocols',
  'HTTP/1.1 103 X',
  'HTTP/1.1 204 No Content',
  'HTTP/1.1 099 X',
  'HTTP/1.1  200 OK',
  'HTTP/1.1 2000',
  'HTTP/1.1 200 a\x01',
])('the status line %j is left to the careful reader', (line) => {
  expect(readPlainResponseHead(`${line}\r\nA: b`, 'GET')).toBeNull();
});

test('more fields than there may be are left to the careful reader', () => {
  const text = headOf(
    '200 OK',
    Array.from({ length: 11 }, (_, i) => `A${i}: b`),
  );
  expect(readPlainResponseHead(text, 'GET', 10)).toBeNull();
  expect(readPlainResponseHead(text, 'GET', 11)).not.toBeNull();
});

test('whatever it takes it reads as the careful reader does', () => {
  const cased = (name: string) => fc.constantFrom(name, name.toLowerCase(), name.toUpperCase());
  const name = fc.oneof(
    fc
      .constantFrom(
        'Content-Length',
        'Transfer-Encoding',
        'Connection',
        'Keep-Alive',
        'Close',
        'Date',
        'TE',
        'Trailer',
        'Upgrade',
        'X-RateLimit-Reset',
        'RateLimit-Policy',
        'RateLimit',
        'X-Request-Id',
        'Content-Type',
        'Set-Cookie',
        'Proxy-Authenticate',
        'Proxy-Connection',
      )
      .chain(cased),
    fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,17}$/),
  );
  const value = fc.oneof(
    fc.constantFrom(
      '0',
      '2',
      '284',
      'chunked',
      'Chunked',
      'close',
      'Close',
      'keep-alive',
      'Keep-Alive',
      'timeout=5, max=10',
      'a, b',
      'x',
      '',
    ),
    fc.stringMatching(/^[\t -~\x80-\xff]{0,12}$/),
    fc.string({ maxLength: 6 }),
  );
  const line = fc
    .tuple(name, fc.constantFrom(...Array<string>(20).fill(': '), ':', ':  ', ' : '), value)
    .map((parts) => parts.join(''));
  const status = fc.constantFrom(
    '200 OK',
    '200',
    '204 No Content',
    '304 Not Modified',
    '404 Not Found',
    '100 Continue',
    '503 x',
  );
  let taken = 0;
  fc.assert(
    fc.property(
      status,
      fc.array(line, { maxLength: 6 }),
      fc.constantFrom('GET', 'HEAD', 'POST'),
      (code, lines, method) => {
        const text = headOf(code, lines);
        const plain = readPlainResponseHead(text, method);
        if (plain === null) return;
        taken++;
        expectTheSame(plain, text, method);
      },
    ),
    { numRuns: 20_000 },
  );
  expect(taken).toBeGreaterThan(2_000);
});
