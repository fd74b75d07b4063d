import { REFUSED, type Row, row } from './http1-row.ts';

const GET = 'GET / HTTP/1.1⏎Host: a.test⏎';
const POST = 'POST / HTTP/1.1⏎Host: a.test⏎';
const OPTIONS = 'OPTIONS / HTTP/1.1⏎Host: a.test⏎';
const CHUNKED = `${POST}Transfer-Encoding: chunked⏎⏎`;
/** The body that stands behind most framings: right by the length, wrong as chunks. */
const FIVE = 'Content-Length: 5⏎⏎hello';
/** A whole request, in a place where only a reader who misjudges the body finds one. */
const SMUGGLED = 'GET /smuggled HTTP/1.1⏎Host: a.test⏎⏎';
const SMUGGLED_HEAD = 'HEAD /smuggled HTTP/1.1⏎Host: a.test⏎⏎';
const SECOND = `${GET}⏎`;

/** Bytes, `⏎` counted as the two that it is. */
const lengthOf = (text: string) => text.replaceAll('⏎', '\r\n').length;

/** Chunks end before the request that stands in the body; the length, as it is written, covers both. */
function endsEarly(framing: (length: number) => string, smuggled = SMUGGLED): string {
  const body = `0⏎⏎${smuggled}`;
  return `${POST}${framing(lengthOf(body))}⏎⏎${body}`;
}

/** The length covers only the size of the first chunk, which holds a request. */
function beginsInChunk(): string {
  const inner = 'GET /smuggled HTTP/1.1⏎Host: a.test⏎Content-Length: 7⏎⏎';
  const size = lengthOf(inner).toString(16);
  return `${POST}Transfer-Encoding: chunked⏎Content-Length: ${size.length + 2}⏎⏎${size}⏎${inner}⏎0⏎⏎`;
}

const PREFIX = GET;

const WHITE_SPACE =
  'RFC 9110 §5.5 leaves white space around a value out of it; the upstream gets the length without it.';
const ZEROS =
  'RFC 9110 §8.6 allows any digits. The upstream gets a length of our own writing, without zeros before it.';
const TRAILERS = 'Trailers are read and left out, whatever they say.';

/** Http11Probe, category Smuggling: framings that two readers could read differently (RFC 9112 section 11.2). */
export const SMUGGLING: readonly Row[] = [
  row(
    'SMUG-CL-TE-BOTH',
    'a length beside chunks is refused',
    '9112 §6.1',
    `${POST}Content-Length: 23⏎Transfer-Encoding: chunked⏎⏎D⏎hello-bananas⏎0⏎⏎`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-DUPLICATE-CL',
    'two different lengths are refused',
    '9110 §8.6',
    `${POST}Content-Length: 5⏎Content-Length: 10⏎⏎helloworld`,
  ),
  row(
    'SMUG-CL-LEADING-ZEROS',
    'a length with leading zeros is decimal, and forwarded without them',
    '9110 §8.6',
    `${POST}Content-Length: 005⏎⏎hello`,
    { debatable: ['2xx'], answer: '200 kept', body: 'hello', forwards: /^Content-Length: 5$/m, differs: ZEROS },
  ),
  row('SMUG-TE-XCHUNKED', 'xchunked is not chunked', '9112 §6.1', `${POST}Transfer-Encoding: xchunked⏎${FIVE}`, {
    expect: [...REFUSED, '501'],
  }),
  row(
    'SMUG-TE-TRAILING-SPACE',
    'chunked with a space behind it beside a length is refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: chunked ⏎${FIVE}`,
    { expect: [...REFUSED, '501'], debatable: ['2xx closed'] },
  ),
  row(
    'SMUG-TE-SP-BEFORE-COLON',
    'a space between Transfer-Encoding and its colon is refused',
    '9112 §5.1',
    `${POST}Transfer-Encoding : chunked⏎${FIVE}`,
  ),
  row('SMUG-CL-NEGATIVE', 'a negative length is refused', '9110 §8.6', `${POST}Content-Length: -1⏎⏎`),
  row(
    'SMUG-CLTE-PIPELINE',
    'a length that ends within the last chunk is refused',
    '9112 §6.1',
    `${POST}Content-Length: 4⏎Transfer-Encoding: chunked⏎⏎0⏎⏎`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-TECL-PIPELINE',
    'a length that goes beyond the last chunk is refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: chunked⏎Content-Length: 30⏎⏎0⏎⏎`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-CL-TRAILING-SPACE',
    'white space behind a length is no part of it',
    '9110 §5.5',
    `${POST}Content-Length: 5 ⏎⏎hello`,
    { debatable: ['2xx'], answer: '200 kept', body: 'hello', forwards: /^Content-Length: 5$/m, differs: WHITE_SPACE },
  ),
  row(
    'SMUG-TE-DOUBLE-CHUNKED',
    'chunked twice is refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: chunked, chunked⏎${FIVE}`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-CL-EXTRA-LEADING-SP',
    'two spaces before a length are no part of it',
    '9110 §5.5',
    `${POST}Content-Length:  5⏎⏎hello`,
    { debatable: ['2xx'], answer: '200 kept', body: 'hello', forwards: /^Content-Length: 5$/m, differs: WHITE_SPACE },
  ),
  row(
    'SMUG-TE-CASE-MISMATCH',
    'Chunked with a capital beside a length is refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: Chunked⏎${FIVE}`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-CL-COMMA-DIFFERENT',
    'a list of two different lengths is refused',
    '9110 §8.6',
    `${POST}Content-Length: 5, 10⏎⏎hello`,
  ),
  row(
    'SMUG-TE-NOT-FINAL-CHUNKED',
    'chunked that is not the last coding is refused',
    '9112 §6.3',
    `${POST}Transfer-Encoding: chunked, gzip⏎⏎0⏎⏎`,
  ),
  row(
    'SMUG-TE-HTTP10',
    'Transfer-Encoding in HTTP/1.0 is refused',
    '9112 §6.1',
    `POST / HTTP/1.0⏎Host: a.test⏎Transfer-Encoding: chunked⏎${FIVE}`,
  ),
  row(
    'SMUG-CHUNK-BARE-SEMICOLON',
    'a chunk extension without a name is refused',
    '9112 §7.1.1',
    `${CHUNKED}5;⏎hello⏎0⏎⏎`,
  ),
  row(
    'SMUG-CHUNK-EXT-INVALID-TOKEN',
    'a bracket in the name of a chunk extension is refused',
    '9112 §7.1.1',
    `${CHUNKED}5;bad[=x⏎hello⏎0⏎⏎`,
  ),
  row(
    'SMUG-BARE-CR-HEADER-VALUE',
    'a lone CR in a value is refused',
    '9112 §2.2',
    `${POST}Content-Length: 5⏎X-Test: val\rue⏎⏎hello`,
  ),
  row('SMUG-CL-OCTAL', 'a length written as octal is refused', '9110 §8.6', `${POST}Content-Length: 0o5⏎⏎hello`),
  row(
    'SMUG-CHUNK-UNDERSCORE',
    'an underscore in a chunk size is refused',
    '9112 §7.1',
    `${CHUNKED}1_0⏎hello world!!!!!⏎0⏎⏎`,
  ),
  row(
    'SMUG-TE-EMPTY-VALUE',
    'an empty Transfer-Encoding is refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: ⏎${FIVE}`,
  ),
  row(
    'SMUG-TE-LEADING-COMMA',
    'a comma before chunked, beside a length, is refused',
    '9110 §5.6.1',
    `${POST}Transfer-Encoding: , chunked⏎${FIVE}`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-TE-DUPLICATE-HEADERS',
    'two Transfer-Encodings beside a length are refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: chunked⏎Transfer-Encoding: identity⏎${FIVE}`,
  ),
  row('SMUG-CHUNK-HEX-PREFIX', 'a chunk size with 0x is refused', '9112 §7.1', `${CHUNKED}0x5⏎hello⏎0⏎⏎`),
  row('SMUG-CHUNK-SIZE-PLUS', 'a chunk size with a plus sign is refused', '9112 §7.1', `${CHUNKED}+5⏎hello⏎0⏎⏎`),
  row(
    'SMUG-CHUNK-SIZE-TRAILING-OWS',
    'white space behind a chunk size is refused',
    '9112 §7.1',
    `${CHUNKED}5 ⏎hello⏎0⏎⏎`,
  ),
  row('SMUG-CL-HEX-PREFIX', 'a length with 0x is refused', '9110 §8.6', `${POST}Content-Length: 0x5⏎⏎hello`),
  row(
    'SMUG-CL-INTERNAL-SPACE',
    'a space within a length is refused',
    '9110 §8.6',
    `${POST}Content-Length: 1 0⏎⏎hello12345`,
  ),
  row('SMUG-CHUNK-LEADING-SP', 'a space before a chunk size is refused', '9112 §7.1', `${CHUNKED} 5⏎hello⏎0⏎⏎`),
  row('SMUG-CHUNK-MISSING-TRAILING-CRLF', 'a chunk without its CRLF is refused', '9112 §7.1', `${CHUNKED}5⏎hello0⏎⏎`),
  row(
    'SMUG-CHUNK-EXT-LF',
    'a chunk extension that ends with LF alone is refused',
    '9112 §7.1.1',
    `${CHUNKED}5;\nhello⏎0⏎⏎`,
    { debatable: ['2xx'] },
  ),
  row('SMUG-CHUNK-SPILL', 'a chunk that is longer than its size is refused', '9112 §7.1', `${CHUNKED}5⏎hello!!⏎0⏎⏎`),
  row('SMUG-CHUNK-LF-TERM', 'LF alone behind a chunk is refused', '9112 §2.2', `${CHUNKED}5⏎hello\n0⏎⏎`, {
    debatable: ['2xx'],
  }),
  row('SMUG-CHUNK-EXT-CTRL', 'NUL in a chunk extension is refused', '9112 §7.1.1', `${CHUNKED}5;\x00ext⏎hello⏎0⏎⏎`),
  row('SMUG-CHUNK-EXT-CR', 'a lone CR in a chunk extension is refused', '9112 §7.1.1', `${CHUNKED}5;a\rX⏎hello⏎0⏎⏎`),
  row(
    'SMUG-TE-VTAB',
    'a vertical tab before chunked is refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: \x0bchunked⏎${FIVE}`,
  ),
  row(
    'SMUG-TE-FORMFEED',
    'a form feed before chunked is refused',
    '9112 §6.1',
    `${POST}Transfer-Encoding: \x0cchunked⏎${FIVE}`,
  ),
  row('SMUG-TE-NULL', 'NUL behind chunked is refused', '9112 §6.1', `${POST}Transfer-Encoding: chunked\x00⏎${FIVE}`),
  row('SMUG-CHUNK-LF-TRAILER', 'LF alone behind the last chunk is refused', '9112 §2.2', `${CHUNKED}5⏎hello⏎0⏎\n`, {
    debatable: ['2xx'],
  }),
  row(
    'SMUG-TE-IDENTITY',
    'the coding identity, which is no more, is refused beside a length',
    '9112 §7',
    `${POST}Transfer-Encoding: identity⏎${FIVE}`,
    { expect: [...REFUSED, '501'] },
  ),
  row('SMUG-CHUNK-NEGATIVE', 'a negative chunk size is refused', '9112 §7.1', `${CHUNKED}-1⏎hello⏎0⏎⏎`),
  row(
    'SMUG-TRANSFER_ENCODING',
    'Transfer_Encoding is another field, and one that reaches no service',
    '9112 §6.1',
    `${POST}Transfer_Encoding: chunked⏎${FIVE}`,
    {
      debatable: ['2xx'],
      answer: '200 kept',
      body: 'hello',
      withholds: /chunked/i,
      differs:
        'It is a field name like any other. Names with an underscore are left out, so no service can misread it.',
    },
  ),
  row(
    'SMUG-CL-COMMA-SAME',
    'a list of two equal lengths is refused',
    '9110 §8.6',
    `${POST}Content-Length: 5, 5⏎⏎hello`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-CL-COMMA-TRIPLE',
    'a list of three equal lengths is refused',
    '9110 §8.6',
    `${POST}Content-Length: 5, 5, 5⏎⏎hello`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-CHUNKED-WITH-PARAMS',
    'chunked with a parameter is refused',
    '9112 §7',
    `${POST}Transfer-Encoding: chunked;ext=val⏎${FIVE}`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-EXPECT-100-CL',
    'a body that comes with its 100-continue is read as that body',
    '9110 §10.1.1',
    `${POST}Content-Length: 5⏎Expect: 100-continue⏎⏎hello`,
    {
      debatable: ['2xx'],
      answer: '100 200 kept',
      body: 'hello',
      differs: 'The expectation is met: 100, the body, 200. To refuse it would be to refuse every such client.',
    },
  ),
  row(
    'SMUG-TRAILER-CL',
    'Content-Length in a trailer is refused',
    '9110 §6.5.1',
    `${CHUNKED}5⏎hello⏎0⏎Content-Length: 50⏎⏎`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-TRAILER-TE',
    'Transfer-Encoding in a trailer is refused',
    '9110 §6.5.1',
    `${CHUNKED}5⏎hello⏎0⏎Transfer-Encoding: chunked⏎⏎`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-TRAILER-HOST',
    'Host in a trailer means nothing, and goes no further',
    '9110 §6.5.1',
    `${CHUNKED}5⏎hello⏎0⏎Host: evil.test⏎⏎`,
    { debatable: ['2xx'], answer: '200 kept', body: 'hello', withholds: /evil/, differs: TRAILERS },
  ),
  row(
    'SMUG-TRAILER-AUTH',
    'Authorization in a trailer means nothing, and goes no further',
    '9110 §6.5.1',
    `${CHUNKED}5⏎hello⏎0⏎Authorization: Bearer evil⏎⏎`,
    { debatable: ['2xx'], answer: '200 kept', body: 'hello', withholds: /evil/, differs: TRAILERS },
  ),
  row('SMUG-HEAD-CL-BODY', 'HEAD with a body is refused', '9110 §9.3.2', `HEAD / HTTP/1.1⏎Host: a.test⏎${FIVE}`, {
    debatable: ['2xx'],
  }),
  row('SMUG-OPTIONS-CL-BODY', 'OPTIONS with a body is refused', '9110 §9.3.7', `${OPTIONS}${FIVE}`, {
    debatable: ['2xx'],
  }),
  row(
    'SMUG-CL-UNDERSCORE',
    'an underscore in a length is refused',
    '9110 §8.6',
    `${POST}Content-Length: 1_0⏎⏎helloworld`,
  ),
  row('SMUG-CL-NEGATIVE-ZERO', 'a length of minus zero is refused', '9110 §8.6', `${POST}Content-Length: -0⏎⏎`),
  row('SMUG-CL-DOUBLE-ZERO', 'a length of 00 is none, and forwarded as 0', '9110 §8.6', `${POST}Content-Length: 00⏎⏎`, {
    debatable: ['2xx'],
    answer: '200 kept',
    body: '',
    forwards: /^Content-Length: 0$/m,
    differs: ZEROS,
  }),
  row(
    'SMUG-CL-LEADING-ZEROS-OCTAL',
    'a length of 0200 is 200 and never 128, and forwarded as 200',
    '9110 §8.6',
    `${POST}Content-Length: 0200⏎⏎${'A'.repeat(200)}`,
    {
      debatable: ['2xx'],
      answer: '200 kept',
      body: 'A'.repeat(200),
      forwards: /^Content-Length: 200$/m,
      differs: ZEROS,
    },
  ),
  row(
    'SMUG-TE-OBS-FOLD',
    'a folded Transfer-Encoding beside a length is refused',
    '9112 §5.2',
    `${POST}Transfer-Encoding:⏎ chunked⏎${FIVE}`,
    { debatable: ['2xx closed'] },
  ),
  row(
    'SMUG-TE-TRAILING-COMMA',
    'a comma behind chunked, beside a length, is refused',
    '9110 §5.6.1',
    `${POST}Transfer-Encoding: chunked,⏎${FIVE}`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-TE-TAB-BEFORE-VALUE',
    'a tab before chunked, beside a length, is refused',
    '9110 §5.5',
    `${POST}Transfer-Encoding:\tchunked⏎${FIVE}`,
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-ABSOLUTE-URI-HOST-MISMATCH',
    'a URL of another host than Host names is refused',
    '9112 §3.2.2',
    'GET http://other.test/ HTTP/1.1⏎Host: a.test⏎⏎',
    { debatable: ['2xx'] },
  ),
  row(
    'SMUG-MULTIPLE-HOST-COMMA',
    'a list of Hosts is refused',
    '9110 §7.2',
    'GET / HTTP/1.1⏎Host: a.test, other.test⏎⏎',
  ),
  row(
    'SMUG-CHUNK-BARE-CR-TERM',
    'a chunk size that ends with CR alone is refused',
    '9112 §2.2',
    `${CHUNKED}5\rhello⏎0⏎⏎`,
  ),
  row(
    'SMUG-TRAILER-CONTENT-TYPE',
    'Content-Type in a trailer means nothing, and goes no further',
    '9110 §6.5.1',
    `${CHUNKED}5⏎hello⏎0⏎Content-Type: text/evil⏎⏎`,
    { debatable: ['2xx'], answer: '200 kept', body: 'hello', withholds: /evil/, differs: TRAILERS },
  ),
  row(
    'SMUG-CLTE-CONN-CLOSE',
    'no request is read behind one with a length beside chunks',
    '9112 §6.1',
    [`${POST}Content-Length: 5⏎Transfer-Encoding: chunked⏎⏎0⏎⏎`, SECOND],
    { expect: [...REFUSED, '2xx closed'] },
  ),
  row(
    'SMUG-TECL-CONN-CLOSE',
    'no request is read behind one with chunks beside a length',
    '9112 §6.1',
    [`${POST}Transfer-Encoding: chunked⏎Content-Length: 5⏎⏎0⏎⏎`, SECOND],
    { expect: [...REFUSED, '2xx closed'] },
  ),
  row(
    'SMUG-CLTE-DESYNC',
    'a byte behind the chunks, within the length, spoils no next request',
    '9112 §6.1',
    [`${POST}Content-Length: 6⏎Transfer-Encoding: chunked⏎⏎0⏎⏎X`, SECOND],
    { expect: [...REFUSED, '2xx closed'] },
  ),
  row(
    'SMUG-CLTE-SMUGGLED-GET',
    'a request behind the chunks, within the length, is never served',
    '9112 §6.1',
    endsEarly((length) => `Content-Length: ${length}⏎Transfer-Encoding: chunked`),
  ),
  row(
    'SMUG-CLTE-SMUGGLED-GET-CL-PLUS',
    'a request behind the chunks is never served: a plus sign in the length',
    '9112 §6.1',
    endsEarly((length) => `Content-Length: +${length}⏎Transfer-Encoding: chunked`),
  ),
  row(
    'SMUG-CLTE-SMUGGLED-GET-CL-NON-NUMERIC',
    'a request behind the chunks is never served: a letter in the length',
    '9112 §6.1',
    endsEarly((length) => `Content-Length: ${length}x⏎Transfer-Encoding: chunked`),
  ),
  row(
    'SMUG-CLTE-SMUGGLED-GET-TE-OBS-FOLD',
    'a request behind the chunks is never served: a folded Transfer-Encoding',
    '9112 §5.2',
    endsEarly((length) => `Transfer-Encoding:⏎ chunked⏎Content-Length: ${length}`),
  ),
  row(
    'SMUG-CLTE-SMUGGLED-HEAD',
    'a HEAD behind the chunks, within the length, is never served',
    '9112 §6.1',
    endsEarly((length) => `Content-Length: ${length}⏎Transfer-Encoding: chunked`, SMUGGLED_HEAD),
  ),
  row(
    'SMUG-CLTE-SMUGGLED-GET-TE-TRAILING-SPACE',
    'a request behind the chunks is never served: a space behind chunked',
    '9112 §6.1',
    endsEarly((length) => `Content-Length: ${length}⏎Transfer-Encoding: chunked `),
  ),
  row(
    'SMUG-CLTE-SMUGGLED-GET-TE-LEADING-COMMA',
    'a request behind the chunks is never served: a comma before chunked',
    '9112 §6.1',
    endsEarly((length) => `Content-Length: ${length}⏎Transfer-Encoding: , chunked`),
  ),
  row(
    'SMUG-CLTE-SMUGGLED-GET-TE-CASE-MISMATCH',
    'a request behind the chunks is never served: a capital in Chunked',
    '9112 §6.1',
    endsEarly((length) => `Content-Length: ${length}⏎Transfer-Encoding: Chunked`),
  ),
  row(
    'SMUG-TE-DUPLICATE-HEADERS-SMUGGLED-GET',
    'a request behind the chunks is never served: two Transfer-Encodings',
    '9112 §6.1',
    endsEarly((length) => `Transfer-Encoding: chunked⏎Transfer-Encoding: identity⏎Content-Length: ${length}`),
  ),
  row(
    'SMUG-TECL-SMUGGLED-GET',
    'a request within a chunk, behind the length, is never served',
    '9112 §6.1',
    beginsInChunk(),
  ),
  row(
    'SMUG-DUPLICATE-CL-SMUGGLED-GET',
    'a request behind the shorter of two lengths is never served',
    '9110 §8.6',
    `${POST}Content-Length: 4⏎Content-Length: ${lengthOf(`PING${SMUGGLED}`)}⏎⏎PING${SMUGGLED}`,
  ),
  row(
    'SMUG-GET-CL-PREFIX-DESYNC',
    'half a request as the body of a GET is never made whole by the next bytes',
    '9110 §9.3.1',
    [`${GET}Content-Length: ${lengthOf(PREFIX)}⏎⏎${PREFIX}`, `⏎${SECOND}`],
    { expect: [...REFUSED, '2xx closed', '2xx 2xx', '2xx 400'], debatable: ['not 400'] },
  ),
  row(
    'SMUG-TECL-DESYNC',
    'a byte behind the chunks, before the end of the length, spoils no next request',
    '9112 §6.1',
    [`${POST}Transfer-Encoding: chunked⏎Content-Length: 30⏎⏎0⏎⏎X`, SECOND],
    { expect: [...REFUSED, '2xx closed'] },
  ),
  row(
    'SMUG-CL0-BODY-POISON',
    'a byte behind a body of length 0 begins the next request, and spoils it',
    '9112 §6.2',
    [`${POST}Content-Length: 0⏎⏎X`, SECOND],
    {
      debatable: ['2xx 4xx', '2xx 2xx'],
      answer: '200 400 closed',
      differs:
        'The first request is complete. What is behind it begins the next one, which is refused: XGET is no method.',
    },
  ),
  row(
    'SMUG-GET-CL-BODY-DESYNC',
    'the body of a GET never passes for the next request',
    '9110 §9.3.1',
    [`${GET}${FIVE}`, SECOND],
    { expect: [...REFUSED, '2xx closed', '2xx 2xx'], debatable: ['2xx 4xx'] },
  ),
  row(
    'SMUG-OPTIONS-CL-BODY-DESYNC',
    'the body of an OPTIONS never passes for the next request',
    '9110 §9.3.7',
    [`${OPTIONS}${FIVE}`, SECOND],
    { expect: [...REFUSED, '2xx closed', '2xx 2xx'], debatable: ['2xx 4xx'] },
  ),
  row(
    'SMUG-EXPECT-100-CL-DESYNC',
    'a body that did not wait for its 100 never passes for the next request',
    '9110 §10.1.1',
    [`${POST}Content-Length: 5⏎Expect: 100-continue⏎⏎hello`, SECOND],
    { expect: [...REFUSED, '417', '2xx closed', '2xx 2xx'], debatable: ['2xx 4xx'], answer: '100 200 200 kept' },
  ),
  row(
    'SMUG-OPTIONS-TE-OBS-FOLD',
    'no request is read behind an OPTIONS with a folded Transfer-Encoding',
    '9112 §5.2',
    [`${OPTIONS}Transfer-Encoding:⏎ chunked⏎${FIVE}`, SECOND],
    { expect: [...REFUSED, '2xx closed'] },
  ),
  row(
    'SMUG-CHUNK-INVALID-SIZE-DESYNC',
    'no request is read behind a chunk size of +0',
    '9112 §7.1',
    [`${CHUNKED}+0⏎⏎X`, SECOND],
    { expect: [...REFUSED, '2xx closed'] },
  ),
  row('SMUG-PIPELINE-SAFE', 'two requests on one connection are both served', '9112 §9.3', [SECOND, SECOND], {
    expect: ['2xx 2xx'],
    debatable: ['2xx closed', '2xx 4xx'],
    answer: '200 200 kept',
  }),
];
