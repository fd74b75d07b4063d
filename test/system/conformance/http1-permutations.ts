import { KEY_PLACEHOLDER, TAG_PLACEHOLDER } from '../../../tools/fuzz/exchange.ts';

/** Bytes of a request with placeholders for key and tag, and how they came about. */
export interface Permutation {
  readonly name: string;
  readonly template: string;
}

const PATH = `/store/${TAG_PLACEHOLDER}`;
const OWN = `Host: gateway.test\r\nAuthorization: Bearer ${KEY_PLACEHOLDER}\r\n`;
/** A whole request with a good key, where only a reader who misjudges a body finds one. */
const SMUGGLED = `GET /store/smuggled HTTP/1.1\r\n${OWN}\r\n`;
const LAST_CHUNK = '0\r\n\r\n';

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const chunkOf = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

interface Body {
  readonly name: string;
  readonly text: string;
  /** What Content-Length says of it. */
  readonly length: number;
}

const CHUNK_FIRST = `${chunkOf(SMUGGLED)}${LAST_CHUNK}`;

/** A request behind the last chunk, which the length covers; and one in a chunk, of which the length covers the size. */
const WITH_A_REQUEST: readonly Body[] = [
  { name: 'CL.TE', text: LAST_CHUNK + SMUGGLED, length: (LAST_CHUNK + SMUGGLED).length },
  { name: 'TE.CL', text: CHUNK_FIRST, length: CHUNK_FIRST.indexOf('\n') + 1 },
];

/** The four probes of defparam/smuggler: each length is right for one of the two readings of its body, or for none. */
const PROBES: readonly Body[] = [
  { name: 'TE.CL 6', text: `${LAST_CHUNK}X`, length: 6 },
  { name: 'TE.CL 5', text: `${LAST_CHUNK}X`, length: 5 },
  { name: 'CL.TE 4', text: `${chunkOf('Z')}${LAST_CHUNK}`, length: 4 },
  { name: 'CL.TE 11', text: `${chunkOf('Z')}${LAST_CHUNK}`, length: 11 },
];

/** The bytes that smuggler puts into a Transfer-Encoding line: controls and space, and all beyond ASCII. */
const ODD_BYTES = [...range(0x00, 0x20), ...range(0x7f, 0xff)].map((code) => String.fromCharCode(code));

/** Where in the line such a byte can stand. */
const PLACES: Readonly<Record<string, (byte: string) => string>> = {
  'before the name': (byte) => `${byte}Transfer-Encoding: chunked`,
  'behind the name': (byte) => `Transfer-Encoding${byte}: chunked`,
  'before the value': (byte) => `Transfer-Encoding:${byte}chunked`,
  'behind the value': (byte) => `Transfer-Encoding: chunked${byte}`,
  'between the end of another line and the name': (byte) => `X: X${byte}Transfer-Encoding: chunked`,
  'between the value and another line': (byte) => `Transfer-Encoding: chunked${byte}X: X`,
  'behind CR, before the name': (byte) => `X: X\r${byte}Transfer-Encoding: chunked`,
  'before LF, before the name': (byte) => `X: X${byte}\nTransfer-Encoding: chunked`,
  'behind CR, behind the value': (byte) => `Transfer-Encoding: chunked\r${byte}X: X`,
  'before LF, behind the value': (byte) => `Transfer-Encoding: chunked${byte}\nX: X`,
  'before and behind the name': (byte) => `${byte}Transfer-Encoding${byte}: chunked`,
  'before name and value': (byte) => `${byte}Transfer-Encoding:${byte}chunked`,
  'before the name, behind the value': (byte) => `${byte}Transfer-Encoding: chunked${byte}`,
  'around the colon': (byte) => `Transfer-Encoding${byte}:${byte}chunked`,
  'behind name and value': (byte) => `Transfer-Encoding${byte}: chunked${byte}`,
  'around the value': (byte) => `Transfer-Encoding:${byte}chunked${byte}`,
};

/** What smuggler does to the line besides. */
const ODD_LINES: readonly string[] = [
  'Transfer-Encoding\t:\tchunked',
  'Transfer Encoding: chunked',
  'Transfer_Encoding: chunked',
  'Transfer Encoding:chunked',
  'Transfer-Encoding:  chunked',
  'Transfer-Encoding: chunked, cow',
  'Transfer-Encoding: cow, chunked',
  'Content-Encoding: chunked',
  'Transfer-Encoding:\n chunked',
  'Transfer-Encoding: "chunked"',
  "Transfer-Encoding: 'chunked'",
  'Transfer-Encoding: chunk',
  'TrAnSFer-EnCODinG: cHuNkeD',
  'TRANSFER-ENCODING: CHUNKED',
  'Transfer-Encoding: cow\r\nTransfer-Encoding: chunked',
  'Transfer\r-Encoding: chunked',
  'Transfer-Encoding: cow chunked bar',
  'Transfer-Encoding: ch\x96nked',
  'Transf\x82r-Encoding: chunked',
  'X:X\rTransfer-Encoding: chunked',
  'X:X\nTransfer-Encoding: chunked',
];

/** defparam/smuggler: each of its ways to write Transfer-Encoding, with each of its probes and with whole requests. */
export function smugglerMutations(): Permutation[] {
  const lines = new Map(ODD_LINES.map((line) => [line, line]));
  for (const [place, write] of Object.entries(PLACES)) {
    for (const byte of ODD_BYTES) lines.set(write(byte), `${byte} ${place}`);
  }
  return [...lines].flatMap(([line, name]) =>
    [...PROBES, ...WITH_A_REQUEST].map((body) => ({
      name: `${JSON.stringify(name)}, ${body.name}`,
      template: `POST ${PATH} HTTP/1.1\r\n${line}\r\n${OWN}Content-Length: ${body.length}\r\n\r\n${body.text}`,
    })),
  );
}

/** A field line that says, or seems to say, where a body ends. */
type Framing = (length: number) => string;

const lengthAs = (write: (length: number) => string): Framing => {
  return (length) => `Content-Length: ${write(length)}`;
};
const codings = (...values: string[]): Framing => {
  return () => values.map((value) => `Transfer-Encoding: ${value}`).join('\r\n');
};
const named = (name: string): Framing => {
  return (length) => `${name}: ${/length/i.test(name) ? length : 'chunked'}`;
};

/** The framings that aws/http-desync-guardian classifies, by its reasons. */
const FRAMINGS: Readonly<Record<string, readonly Framing[]>> = {
  Compliant: [
    lengthAs(String),
    codings('chunked'),
    codings('gzip, chunked'),
    () => 'X-Note: Transfer-Encoding: chunked',
  ],
  EmptyHeader: [() => ':', () => ' ', lengthAs(() => ''), codings('')],
  DuplicateContentLength: [(length) => `Content-Length: ${length}\r\nContent-Length: ${length}`],
  MultipleContentLength: [
    (length) => `Content-Length: ${length}\r\nContent-Length: 0`,
    (length) => `Content-Length: 0\r\nContent-Length: ${length}`,
  ],
  BadContentLength: [
    lengthAs((length) => `${length},${length}`),
    lengthAs((length) => `${length} ${length}`),
    lengthAs((length) => `${length}.${length}`),
    lengthAs((length) => `+${length}`),
    lengthAs((length) => `-${length}`),
    lengthAs((length) => `$${length}`),
    lengthAs((length) => `0x${length.toString(16)}`),
    lengthAs((length) => `${2n ** 64n + BigInt(length)}`),
    lengthAs((length) => `${length}\x11`),
    lengthAs((length) => `\x01${length}`),
    lengthAs((length) => `${length}\xa0`),
  ],
  MultipleTransferEncodingChunked: [codings('chunked', 'chunked'), codings('chunked,chunked')],
  BadTransferEncoding: [
    codings('xchunked'),
    codings('identity'),
    codings('chunked;custom_param'),
    codings('chunked\x11'),
    codings('\xa0chunked'),
    codings('chunked\xa0'),
    codings('chunked, gzip'),
  ],
  SuspiciousHeader: [
    ...['Content-Length ', ' Content-Length', '\x01Content-Length', 'Content-Length\x01', 'Content_Length'].map(named),
    ...['Transfer-Encoding ', ' Transfer-Encoding', '\x01Transfer-Encoding', 'Transfer_Encoding'].map(named),
    // The letter i without its dot, which is an I in capitals, and the sign for Kelvin, which is a k in small letters.
    ...['Transfer-Encod\xc4\xb1ng', 'Transfer-Encoding\b'].map(named),
    codings('chun\xe2\x84\xaaed'),
  ],
  BadHeader: [
    (length) => `X: a\rContent-Length: ${length}`,
    (length) => `X: a\nContent-Length: ${length}`,
    () => 'X: a\x00Transfer-Encoding: chunked',
    () => 'X\r: Transfer-Encoding: chunked',
  ],
  MultilineHeader: [(length) => `Content-Length:\r\n ${length}`, () => 'Transfer-Encoding:\r\n\tchunked'],
  MissingHeaderColon: [() => 'Transfer-Encoding', () => 'Content-Length'],
};

interface Line {
  readonly reason: string;
  readonly start: string;
}

/** The request lines that it classifies. */
const LINES: readonly Line[] = [
  { reason: 'Compliant', start: `POST ${PATH} HTTP/1.1\r\n` },
  { reason: 'UndefinedSemantics', start: `GET ${PATH} HTTP/1.1\r\n` },
  { reason: 'SpaceInUri', start: `POST ${PATH}?a b HTTP/1.1\r\n` },
  { reason: 'AmbiguousUri', start: `POST ${PATH}\tHTTP/1.1\r\n` },
  { reason: 'BadUri', start: `POST ${PATH}\x00 HTTP/1.1\r\n` },
  { reason: 'BadUri, a request in it', start: `POST ${PATH}\tHTTP/1.1\r\n${OWN}\r\nGET\t/store/smuggled HTTP/1.1\r\n` },
  { reason: 'MissingUri', start: 'POST HTTP/1.1\r\n' },
  { reason: 'NonCompliantVersion, HTTP/1.0', start: `POST ${PATH} HTTP/1.0\r\n` },
  { reason: 'NonCompliantVersion, a space', start: `POST ${PATH} HTTP/1.1 \r\n` },
  { reason: 'NonCompliantVersion, HTTP/1.2', start: `POST ${PATH} HTTP/1.2\r\n` },
  { reason: 'BadVersion', start: `POST ${PATH} HTTP/1.1 HTTP/1.1\r\n` },
  { reason: 'BadMethod', start: `POST\x01 ${PATH} HTTP/1.1\r\n` },
  { reason: 'NonCrLfLineTermination', start: `POST ${PATH} HTTP/1.1\n` },
];

/**
 * aws/http-desync-guardian: each two of the framings that it classifies, in both orders, in a POST and in a GET; and each
 * framing behind each of its request lines. Behind all of them stand bodies with a whole request.
 */
export function desyncPermutations(): Permutation[] {
  const framings = Object.entries(FRAMINGS).flatMap(([reason, all]) =>
    all.map((write, i) => ({ name: `${reason} ${i + 1}`, write })),
  );
  const permutation = (line: Line, body: Body, ...fields: { name: string; write: Framing }[]): Permutation => {
    const names = [line.reason, ...fields.map(({ name }) => name), body.name];
    const lines = fields.map(({ write }) => `${write(body.length)}\r\n`).join('');
    return { name: names.join(', '), template: `${line.start}${OWN}${lines}\r\n${body.text}` };
  };
  return WITH_A_REQUEST.flatMap((body) => [
    ...LINES.slice(0, 2).flatMap((line) =>
      framings.flatMap((one) => framings.map((other) => permutation(line, body, one, other))),
    ),
    ...LINES.flatMap((line) => framings.map((framing) => permutation(line, body, framing))),
  ]);
}
