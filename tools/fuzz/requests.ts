import fc from 'fast-check';
import { KEY_PLACEHOLDER, TAG_PLACEHOLDER } from './exchange.ts';
import { type Bytes, cuts, mutated } from './mutate.ts';

/** What a client sends: a template (placeholders for key and tag) and where it is cut into writes. */
export interface RequestCase {
  readonly template: Bytes;
  readonly cuts: readonly number[];
  /** Whether it is well-formed, and nothing that the gateway may refuse: each request in it is owed a 200. */
  readonly harmless: boolean;
}

const AUTHORIZATION = `Authorization: Bearer ${KEY_PLACEHOLDER}`;

/** A whole second request with a good key, for a body that a careless reader takes for the next request. */
const SMUGGLED = `POST /store/smuggled HTTP/1.1\r\nHost: x\r\n${AUTHORIZATION}\r\nContent-Length: 0\r\n\r\n`;

/** Field lines that two parsers read differently, or that a gateway must take out. */
const TRICKS: readonly Bytes[] = [
  ...['0', '5', '+5', '-1', '0x5', '5, 5', '5,6', ' 5', '5 ', '', '1e1', '99999999999999999999', '4294967301'].map(
    (value) => `Content-Length: ${value}`,
  ),
  ...[
    'chunked',
    'Chunked',
    'chunked, chunked',
    'identity',
    'gzip',
    'gzip, chunked',
    'chunked, identity',
    ', chunked',
  ].map((value) => `Transfer-Encoding: ${value}`),
  ...['xchunked', 'chunked;q=1', '"chunked"', '\vchunked', ' chunked', 'chunked\t', ''].map(
    (value) => `Transfer-Encoding: ${value}`,
  ),
  'Transfer-Encoding : chunked',
  ' Transfer-Encoding: chunked',
  'Transfer_Encoding: chunked',
  'Content_Length: 5',
  ...[
    'close',
    'keep-alive',
    'close, X-Consumer-Id',
    'Via, X-Request-Id',
    'Content-Length',
    'Transfer-Encoding, TE',
  ].map((value) => `Connection: ${value}`),
  'Connection: Upgrade, HTTP2-Settings',
  'Upgrade: h2c',
  'Upgrade: websocket',
  'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA',
  'Expect: 100-continue',
  'Expect: 200-ok',
  'Host: other',
  'Host: a b',
  'Host: ',
  'Host:',
  'X-Consumer-Id: somebody',
  'X_Consumer_Id: somebody',
  'X.Consumer.Id: somebody',
  'X-Consumer-Plan: enterprise',
  'X-Forwarded-For: 1.2.3.4',
  'Via: 1.1 elsewhere',
  'X-Request-Id: chosen-by-the-client',
  'X-Request-Id: not allowed',
  'TE: trailers',
  'Trailer: X-After',
  'Keep-Alive: timeout=5',
  'Proxy-Connection: keep-alive',
  'Proxy-Authorization: Basic eDp5',
  AUTHORIZATION,
  'Authorization: Basic eDp5',
  '__proto__: x',
  'Max-Forwards: 0',
  'X-Folded: a\r\n b',
  'X-Empty:',
  'X-Nul: a\0b',
  'X-High: \xe9\xff',
  `X-Long: ${'l'.repeat(9_000)}`,
  Array.from({ length: 200 }, (_, i) => `X-${i}: ${i}`).join('\r\n'),
];

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const ODD_METHODS = ['TRACE', 'CONNECT', 'PRI', 'SOURCE', 'get', 'BREW', 'PROPFIND', 'QUERY', 'ANNOUNCE', 'M-SEARCH'];
const VERSIONS = ['HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/1.1 ', 'http/1.1', 'RTSP/1.0', 'ICE/1.0', ''];
const PATH = `/store/${TAG_PLACEHOLDER}`;
const ODD_TARGETS = [
  `http://gateway.test${PATH}`,
  `http://elsewhere.test${PATH}`,
  `${PATH}/../x`,
  `${PATH}/%2e%2e/x`,
  `${PATH}%2fx`,
  `${PATH}\\x`,
  `/${PATH}`,
  `${PATH}#f`,
  `${PATH}?a=b&a=c%zz`,
  `${PATH}?${'q'.repeat(3_000)}`,
  `${PATH}/\xe9`,
  '*',
  '/\\',
  'http://[',
  '//',
  '/nothing',
];

interface Parts {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly fields: readonly Bytes[];
  /** The framing field, and the body as it stands on the wire. */
  readonly framing: Bytes | null;
  readonly body: Bytes;
}

const content = fc.oneof(
  fc.constantFrom('', 'x', '{"name":"Rex"}', '0\r\n\r\n', SMUGGLED, `\r\n${SMUGGLED}`, 'b'.repeat(70_000)),
  fc.string({ unit: 'binary-ascii', maxLength: 40 }),
);

function chunk(data: Bytes): Bytes {
  return `${data.length.toString(16)}\r\n${data}\r\n`;
}

/** Well-formed bodies and how they are framed. */
const framed = fc.oneof(
  fc.constant({ framing: null, body: '' }),
  content.map((text) => ({ framing: `Content-Length: ${text.length}`, body: text })),
  fc.array(content, { maxLength: 3 }).map((texts) => ({
    framing: 'Transfer-Encoding: chunked',
    body: `${texts
      .filter((text) => text !== '')
      .map(chunk)
      .join('')}0\r\n\r\n`,
  })),
);

/** Framings that lie about the body. */
const misframed = fc
  .tuple(
    fc.constantFrom(0, 1, 5, 10, 1_000, 70_000),
    fc.constantFrom('chunk', 'length', 'both', 'none'),
    content,
    fc.constantFrom(
      '0\r\n\r\n',
      '0\r\n',
      '',
      '0;ext="\n"\r\n\r\n',
      '0\r\nX-After: 1\r\n\r\n',
      '-0\r\n\r\n',
      '0x0\r\n\r\n',
    ),
  )
  .map(([length, kind, text, last]) => {
    const sizes = `${length.toString(16)};e=1\r\n${text}\r\n${last}`;
    if (kind === 'chunk') return { framing: 'Transfer-Encoding: chunked', body: sizes };
    if (kind === 'length') return { framing: `Content-Length: ${length}`, body: text };
    if (kind === 'none') return { framing: null, body: text };
    return { framing: `Content-Length: ${length}\r\nTransfer-Encoding: chunked`, body: sizes };
  });

function rendered({ method, target, version, fields, framing, body }: Parts): Bytes {
  const lines = [`${method} ${target} ${version}`, 'Host: gateway.test', AUTHORIZATION, ...fields];
  if (framing !== null) lines.push(framing);
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}

const harmlessFields = fc.subarray(
  ['X-Note: hello', 'Accept: */*', 'Via: 1.1 elsewhere', 'X-Consumer-Id: somebody', 'TE: trailers', 'X_Under: 1'],
  { maxLength: 3 },
);

const smallBody = framed.filter(({ body }) => body.length < 60_000);

const plain: fc.Arbitrary<Parts> = fc
  .tuple(fc.constantFrom(...METHODS), fc.constantFrom(PATH, `${PATH}?a=b&a=c`, `${PATH}/x`), harmlessFields, smallBody)
  .map(([method, target, fields, { framing, body }]) => {
    const parts = { method, target, version: 'HTTP/1.1', fields };
    return method === 'POST' || method === 'PUT' || method === 'PATCH'
      ? { ...parts, framing, body }
      : { ...parts, framing: null, body: '' };
  });

const odd: fc.Arbitrary<Parts> = fc
  .record({
    method: fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...METHODS) }, fc.constantFrom(...ODD_METHODS)),
    target: fc.oneof({ weight: 3, arbitrary: fc.constant(PATH) }, fc.constantFrom(...ODD_TARGETS)),
    version: fc.oneof({ weight: 6, arbitrary: fc.constant('HTTP/1.1') }, fc.constantFrom(...VERSIONS)),
    fields: fc.array(fc.constantFrom(...TRICKS), { maxLength: 3 }),
    framed: fc.oneof(framed, misframed),
  })
  .map(({ framed: { framing, body }, ...parts }) => ({ ...parts, framing, body }));

const oneOrMore = (parts: fc.Arbitrary<Parts>) =>
  fc.array(parts.map(rendered), { minLength: 1, maxLength: 3 }).map((texts) => texts.join(''));

const DICTIONARY: readonly Bytes[] = [
  ...TRICKS.filter((text) => text.length < 200),
  SMUGGLED,
  ' HTTP/1.1',
  '0\r\n\r\n',
  '\r\n ',
];

const harmless = oneOrMore(plain);

/** Requests of all kinds: two in five well-formed, the rest odd, mutated or both. */
export const requestCase: fc.Arbitrary<RequestCase> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ template: harmless, cuts, harmless: fc.constant(true) }) },
  { weight: 3, arbitrary: fc.record({ template: oneOrMore(odd), cuts, harmless: fc.constant(false) }) },
  {
    weight: 5,
    arbitrary: fc.record({ template: mutated(harmless, DICTIONARY, 4), cuts, harmless: fc.constant(false) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ template: mutated(oneOrMore(odd), DICTIONARY, 3), cuts, harmless: fc.constant(false) }),
  },
);
