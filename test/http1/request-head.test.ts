import { describe, expect, test } from 'vitest';
import { FieldBlock } from '../../src/http1/field-block.ts';
import { readHead } from '../../src/http1/request-head.ts';

const LIMITS = { maxUrlBytes: 20, maxHeaderBytes: 200 };

interface Sent {
  readonly method?: string;
  readonly url?: string;
  readonly version?: string;
  /** Beside `Host: a`. */
  readonly fields?: readonly string[];
}

const headOf = (
  { method = 'GET', url = '/', version = '1.1', fields = [] }: Sent,
  host: readonly string[] = ['Host', 'a'],
) => readHead({ method, url, httpVersion: version, fields: new FieldBlock([...host, ...fields]) }, LIMITS);
/** The code of the refusal, or `ok`. */
const resultOf = (sent: Sent, host?: readonly string[]) => {
  const head = headOf(sent, host);
  return head.kind === 'fault' ? head.code : 'ok';
};

test.each<[string, Sent, string]>([
  ['HTTP/1.1', {}, 'ok'],
  ['HTTP/1.0', { version: '1.0' }, 'ok'],
  ['another version', { version: '2.0' }, 'http_version_not_supported'],
  ['CONNECT', { method: 'CONNECT', url: 'a:1' }, 'not_implemented'],
  ['TRACE', { method: 'TRACE' }, 'not_implemented'],
  ['a target at its limit', { url: `/${'a'.repeat(19)}` }, 'ok'],
  ['a target past its limit', { url: `/${'a'.repeat(20)}` }, 'uri_too_long'],
  ['a backslash in the path', { url: '/a\\b' }, 'invalid_request'],
  ['* for OPTIONS', { method: 'OPTIONS', url: '*' }, 'ok'],
  ['* for GET', { url: '*' }, 'invalid_request'],
  ['the absolute form of its host', { url: 'http://A/b' }, 'ok'],
  ['the absolute form of another host', { url: 'http://b/b' }, 'invalid_request'],
  // `Host: a` and 9 bytes of a name, its colon, its blank and its line end make the rest.
  ['fields at their limit', { fields: ['X', 'v'.repeat(200 - 9 - 5)] }, 'ok'],
  ['fields past their limit', { fields: ['X', 'v'.repeat(200 - 9 - 4)] }, 'headers_too_large'],
  ['a body at its limit', { method: 'POST', fields: ['Content-Length', '1000'] }, 'ok'],
  ['the one expectation', { method: 'POST', fields: ['Expect', '100-Continue'] }, 'ok'],
  ['another expectation', { fields: ['Expect', '200-ok'] }, 'expectation_failed'],
  ['the one expectation twice', { fields: ['Expect', '100-continue', 'Expect', '100-continue'] }, 'expectation_failed'],
  ['another expectation in HTTP/1.0, which has none', { version: '1.0', fields: ['Expect', '200-ok'] }, 'ok'],
  ['a length and chunks', { fields: ['Content-Length', '1', 'Transfer-Encoding', 'chunked'] }, 'invalid_request'],
  ['chunks in HTTP/1.0', { version: '1.0', fields: ['Transfer-Encoding', 'chunked'] }, 'invalid_request'],
  ['chunked twice', { fields: ['Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked'] }, 'invalid_request'],
  ['another coding under chunked', { fields: ['Transfer-Encoding', 'gzip ,\tchunked'] }, 'not_implemented'],
  ['another coding alone', { fields: ['Transfer-Encoding', 'gzip'] }, 'invalid_request'],
  ['another coding over chunked', { fields: ['Transfer-Encoding', 'chunked, gzip'] }, 'invalid_request'],
  ['an unknown coding', { fields: ['Transfer-Encoding', 'xgzip, chunked'] }, 'invalid_request'],
  ['what only begins like a coding', { fields: ['Transfer-Encoding', 'gzip, chunked, x'] }, 'invalid_request'],
  ['two lengths', { fields: ['Content-Length', '1', 'content-length', '1'] }, 'invalid_request'],
  ['a length with a sign', { fields: ['Content-Length', '+1'] }, 'invalid_request'],
  ['a length with more behind it', { fields: ['Content-Length', '1 '] }, 'invalid_request'],
  ['no length', { fields: ['Content-Length', ''] }, 'invalid_request'],
  ['a length of 15 digits', { fields: ['Content-Length', '9'.repeat(15)] }, 'ok'],
  ['a length of 16 digits', { fields: ['Content-Length', '1'.repeat(16)] }, 'invalid_request'],
])('%s', (_, sent, result) => {
  expect(resultOf(sent)).toBe(result);
});

describe('a Host field', () => {
  test.each<[string, readonly string[], string, string]>([
    ['that is missing', [], '1.1', 'invalid_request'],
    ['that is missing in HTTP/1.0', [], '1.0', 'ok'],
    ['that comes twice', ['Host', 'a', 'host', 'a'], '1.1', 'invalid_request'],
    ['that comes twice in HTTP/1.0', ['Host', 'a', 'host', 'a'], '1.0', 'invalid_request'],
    ...['a', 'a.b-c:80', 'a:', 'a:65535', '1.2.3.4', '[::1]:8080', '[::ffff:1.2.3.4]', 'a%20b', '~_!'].map(
      (host): [string, readonly string[], string, string] => [host, ['Host', host], '1.1', 'ok'],
    ),
    ...[
      '',
      'a:65536',
      'a:b',
      'a:123456',
      'a, b',
      'a b',
      'a@b',
      '[::1',
      '[1.2.3.4]',
      '[:::1]',
      '::1',
      'a%2',
      'a/b',
      '[::1]x',
    ].map((host): [string, readonly string[], string, string] => [host, ['Host', host], '1.1', 'invalid_request']),
  ])('%s', (_, host, version, result) => {
    expect(resultOf({ version }, host)).toBe(result);
  });
});

test.each<[Sent, object]>([
  [{}, { body: 'none', contentLength: 0, expectsContinue: false, host: 'a', target: '/', path: '/' }],
  [{ url: '/a?b=c' }, { target: '/a?b=c', path: '/a' }],
  [
    { fields: ['Content-Length', '0', 'Expect', '100-continue'] },
    { body: 'none', contentLength: 0, expectsContinue: false },
  ],
  [
    { fields: ['CONTENT-LENGTH', '12', 'EXPECT', '100-continue'] },
    { body: 'length', contentLength: 12, expectsContinue: true },
  ],
  [{ version: '1.0', fields: ['Content-Length', '1', 'Expect', '100-continue'] }, { expectsContinue: false }],
  [{ fields: ['Transfer-Encoding', 'Chunked'] }, { body: 'chunked', contentLength: 0 }],
  [{ fields: ['Connection', 'X, , close', 'connection', ' Y '] }, { connectionNames: new Set(['x', 'close', 'y']) }],
  // Of the lengths of the fields that are read, and none of them.
  [
    { fields: ['Hose', 'x', 'Expecs', 'x', 'Connectioo', 'x', 'Content-lengtf', 'x', 'Transfer-encodinf', 'x'] },
    { host: 'a', connectionNames: new Set(), body: 'none' },
  ],
])('of %o is read %o', (sent, read) => {
  expect(headOf(sent)).toMatchObject({ kind: 'head', ...read });
});

describe('Max-Forwards', () => {
  test.each<[string, string, string, boolean]>([
    ['OPTIONS', '5', '4', false],
    ['OPTIONS', '1', '0', false],
    ['OPTIONS', '0', '-1', true],
    ['OPTIONS', '1001', '1000', false],
    ['OPTIONS', '1002', '1000', false],
    ['OPTIONS', '99999999999999999999', '1000', false],
    ['OPTIONS', 'x5', 'x5', false],
    ['OPTIONS', '5x', '5x', false],
    ['GET', '0', '0', false],
  ])('of %s %s is %s, and whether it ends here: %s', (method, value, left, endsHere) => {
    const head = headOf({ method, fields: ['max-forwards', value, 'X', '7', 'Y', 'Max-Forwards'] });
    expect(head).toMatchObject({ endsHere });
    expect(head.kind === 'head' && head.fields.rawHeaders).toEqual([
      'Host',
      'a',
      'max-forwards',
      left,
      'X',
      '7',
      'Y',
      'Max-Forwards',
    ]);
  });

  test('of a request that has none leaves the fields as they are', () => {
    expect(headOf({ method: 'OPTIONS' })).toMatchObject({ endsHere: false });
  });
});

describe('an upgrade', () => {
  const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
  const SOCKET = [
    'Connection',
    'upgrade',
    'Upgrade',
    'websocket',
    'Sec-WebSocket-Version',
    '13',
    'Sec-WebSocket-Key',
    KEY,
  ];
  const altered = (name: string, ...values: readonly string[]) => {
    const at = SOCKET.indexOf(name);
    return [...SOCKET.slice(0, at), ...values.flatMap((value) => [name, value]), ...SOCKET.slice(at + 2)];
  };
  const asks = (protocol: string) => ['Connection', 'upgrade', 'Upgrade', protocol];
  const none = { kind: 'none' };
  const fault = (part: string) => ({ kind: 'fault', message: expect.stringContaining(part) });

  test.each<[string, Sent, object]>([
    ['to WebSocket', { fields: SOCKET }, { kind: 'upgrade', protocol: 'websocket', key: KEY }],
    [
      'to WebSocket in capitals',
      { fields: altered('Upgrade', 'WebSocket') },
      { kind: 'upgrade', protocol: 'WebSocket', key: KEY },
    ],
    ['in HTTP/1.0', { version: '1.0', fields: SOCKET }, none],
    ['that Connection does not list', { fields: altered('Connection', 'close') }, none],
    ['to WebSocket and more', { fields: altered('Upgrade', 'websocket, x') }, fault('alone')],
    ['to WebSocket twice', { fields: altered('Upgrade', 'websocket', 'websocket') }, fault('alone')],
    ['to more and WebSocket', { fields: altered('Upgrade', 'x', 'websocket/13') }, fault('alone')],
    ['to a version of WebSocket', { fields: altered('Upgrade', 'websocket/13') }, fault('alone')],
    ['to WebSocket by POST', { method: 'POST', fields: SOCKET }, fault('with GET')],
    ['to WebSocket with a body', { fields: [...SOCKET, 'Content-Length', '1'] }, fault('without a body')],
    [
      'that Connection takes a field from',
      { fields: altered('Connection', 'upgrade, x, Sec-WebSocket-Key') },
      fault('must not list'),
    ],
    [
      'without a version',
      { fields: altered('Sec-WebSocket-Version') },
      { ...fault('be 13'), fields: ['Sec-WebSocket-Version', '13'] },
    ],
    ['of another version', { fields: altered('Sec-WebSocket-Version', '8') }, fault('be 13')],
    ['of two versions', { fields: altered('Sec-WebSocket-Version', '13', '8') }, fault('be 13')],
    ['without a key', { fields: altered('Sec-WebSocket-Key') }, { ...fault('16 bytes'), fields: [] }],
    ['with two keys', { fields: altered('Sec-WebSocket-Key', KEY, KEY) }, fault('16 bytes')],
    ['with a short key', { fields: altered('Sec-WebSocket-Key', KEY.slice(1)) }, fault('16 bytes')],
    ['with a long key', { fields: altered('Sec-WebSocket-Key', `a${KEY}`) }, fault('16 bytes')],
    ['with more behind its key', { fields: altered('Sec-WebSocket-Key', `${KEY}a`) }, fault('16 bytes')],
    ['to another protocol', { fields: asks('x-y/1.0') }, { kind: 'upgrade', protocol: 'x-y/1.0', key: null }],
    ['to another protocol by POST', { method: 'POST', fields: asks('x') }, none],
    ['to another protocol with a body', { fields: [...asks('x'), 'Content-Length', '1'] }, none],
    ['to two other protocols', { fields: asks('x, y') }, none],
    ['to nothing', { fields: ['Connection', 'upgrade'] }, none],
    ...['x y', 'x/', 'x/y/z', '/x'].map((protocol): [string, Sent, object] => [
      `to ${protocol}`,
      { fields: asks(protocol) },
      none,
    ]),
    [
      'to what only looks like WebSocket',
      { fields: asks('websockets') },
      { kind: 'upgrade', protocol: 'websockets', key: null },
    ],
  ])('%s', (_, sent, upgrade) => {
    expect(headOf({ ...sent })).toMatchObject({ kind: 'head', upgrade });
  });
});
