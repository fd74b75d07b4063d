import { REFUSED, type Row, row } from './http1-row.ts';

const GET = 'GET / HTTP/1.1⏎Host: a.test⏎';
const POST = 'POST / HTTP/1.1⏎Host: a.test⏎';
const ECHO = 'GET /echo HTTP/1.1⏎Host: a.test⏎';
const COOKIE = 'GET /cookie HTTP/1.1⏎Host: a.test⏎';
const NAMED = 'POST /echo HTTP/1.1⏎Host: a.test⏎Content-Length: 11⏎';
const CHUNKED = `${POST}Transfer-Encoding: chunked⏎⏎`;
const A_LOT = 100_000;
const MODIFIED = 'Fri, 05 Dec 2025 00:00:00 GMT';

/** 256 bytes of no meaning, the same each time. */
const GARBAGE = String.fromCharCode(...Array.from({ length: 256 }, (_, i) => (i * i * 37 + i * 11 + 129) % 256));

/** Http11Probe, category MalformedInput. */
export const MALFORMED: readonly Row[] = [
  row('MAL-BINARY-GARBAGE', 'bytes of no meaning are refused', null, GARBAGE, { expect: [...REFUSED, 'waits'] }),
  row(
    'MAL-LONG-URL',
    'a target of 100 KB is refused',
    '9110 §15.5.15',
    `GET /${'A'.repeat(A_LOT)} HTTP/1.1⏎Host: a.test⏎⏎`,
    {
      expect: [...REFUSED, '414', '431'],
      answer: '414 closed',
      // A known limit: which of line and fields was too long cannot be told from a packet in the middle of either.
      inPieces: '431 closed',
    },
  ),
  row('MAL-LONG-HEADER-VALUE', 'a value of 100 KB is refused', '9110 §5.4', `${GET}X-Big: ${'B'.repeat(A_LOT)}⏎⏎`, {
    expect: [...REFUSED, '431'],
    answer: '431 closed',
  }),
  row(
    'MAL-MANY-HEADERS',
    '10,000 fields are refused',
    '9110 §5.4',
    `${GET}${Array.from({ length: 10_000 }, (_, i) => `X-H-${i}: value⏎`).join('')}⏎`,
    { expect: [...REFUSED, '431'], answer: '431 closed' },
  ),
  row('MAL-NUL-IN-URL', 'NUL in the target is refused', '9112 §3.2', 'GET /\x00test HTTP/1.1⏎Host: a.test⏎⏎'),
  row(
    'MAL-CONTROL-CHARS-HEADER',
    'control characters in a value are refused',
    '9110 §5.5',
    `${GET}X-Test: abc\x07\x08\x0bdef⏎⏎`,
  ),
  row(
    'MAL-INCOMPLETE-REQUEST',
    'a head that does not end is waited for, and never served',
    null,
    `${GET}X-Test: value`,
    { expect: [...REFUSED, 'waits'], answer: '408 closed' },
  ),
  row('MAL-EMPTY-REQUEST', 'a connection that brings nothing ends at the deadline', null, '', {
    expect: [...REFUSED, 'waits'],
    answer: '408 closed',
  }),
  row('MAL-LONG-HEADER-NAME', 'a field name of 100 KB is refused', '9110 §5.4', `${GET}${'A'.repeat(A_LOT)}: val⏎⏎`, {
    expect: [...REFUSED, '431'],
    answer: '431 closed',
  }),
  row(
    'MAL-LONG-METHOD',
    'a method of 100 KB is refused',
    '9112 §3.1',
    `${'A'.repeat(A_LOT)} / HTTP/1.1⏎Host: a.test⏎⏎`,
  ),
  row('MAL-NON-ASCII-HEADER-NAME', 'UTF-8 in a field name is refused', '9110 §5.6.2', `${GET}X-T\xc3\xabst: value⏎⏎`),
  row('MAL-NON-ASCII-URL', 'UTF-8 in the target is refused', '9112 §3.2', 'GET /caf\xc3\xa9 HTTP/1.1⏎Host: a.test⏎⏎'),
  row(
    'MAL-CL-OVERFLOW',
    'a length beyond 64 bits is refused',
    '9110 §8.6',
    `${POST}Content-Length: 99999999999999999999⏎⏎`,
  ),
  row('MAL-WHITESPACE-ONLY-LINE', 'a line of spaces is no request', null, '   ⏎⏎', { expect: [...REFUSED, 'waits'] }),
  row('MAL-NUL-IN-HEADER-VALUE', 'NUL in a value is refused', '9110 §5.5', `${GET}X-Test: val\x00ue⏎⏎`),
  row(
    'MAL-CHUNK-SIZE-OVERFLOW',
    'a chunk size beyond 64 bits is refused',
    '9112 §7.1',
    `${CHUNKED}FFFFFFFFFFFFFFFF0⏎hello⏎0⏎⏎`,
  ),
  row(
    'MAL-H2-PREFACE',
    'the preface of HTTP/2 is refused where only HTTP/1.1 is spoken',
    '9113 §3.4',
    'PRI * HTTP/2.0⏎⏎SM⏎⏎',
    { expect: [...REFUSED, '505', 'waits'] },
  ),
  row('MAL-CL-EMPTY', 'an empty length is refused', '9110 §8.6', `${POST}Content-Length: ⏎⏎`),
  row(
    'MAL-CL-TAB-BEFORE-VALUE',
    'a tab before a length is no part of it',
    '9110 §5.5',
    `${POST}Content-Length:\t5⏎⏎hello`,
    {
      debatable: ['2xx'],
      answer: '200 kept',
      body: 'hello',
      forwards: /^Content-Length: 5$/m,
      differs: 'RFC 9110 §5.5 leaves white space around a value out of it; the upstream gets the length without it.',
    },
  ),
  row(
    'MAL-URL-BACKSLASH',
    'a backslash in the path is refused',
    '9112 §3.2',
    'GET /path\\file HTTP/1.1⏎Host: a.test⏎⏎',
    { debatable: ['2xx', '3xx', '4xx'] },
  ),
  row(
    'MAL-URL-OVERLONG-UTF8',
    'a slash in overlong UTF-8 is refused',
    '9112 §3.2',
    'GET /\xc0\xaf HTTP/1.1⏎Host: a.test⏎⏎',
  ),
  row(
    'MAL-URL-PERCENT-NULL',
    'an encoded NUL in the path is refused',
    null,
    'GET /path%00.html HTTP/1.1⏎Host: a.test⏎⏎',
    { debatable: ['2xx', '3xx', '4xx'] },
  ),
  row(
    'MAL-URL-PERCENT-CRLF',
    'an encoded line end in the path is refused',
    null,
    'GET /path%0d%0aX-Injected:%20true HTTP/1.1⏎Host: a.test⏎⏎',
    { debatable: ['2xx', '3xx', '4xx'] },
  ),
  row(
    'MAL-CHUNK-EXT-64K',
    'a chunk extension of 64 KiB is refused',
    '9112 §7.1.1',
    `${CHUNKED}5;ext=${'a'.repeat(65_536)}⏎hello⏎0⏎⏎`,
    {
      expect: [...REFUSED, '431'],
      debatable: ['2xx'],
      answer: '413 closed',
      differs: 'It is more than is read of a body, and 413 says so; the suite knows 400 and 431 alone.',
    },
  ),
  row(
    'MAL-RANGE-OVERLAPPING',
    'a Range of 1000 parts reaches the service, which has to refuse it',
    '9110 §14.2',
    `${GET}Range: bytes=${Array.from({ length: 1_000 }, () => '0-').join(',')}⏎⏎`,
    {
      expect: ['closed'],
      debatable: ['200', '206', '400', '416', '431'],
      answer: '200 kept',
      forwards: /^Range: bytes=0-,0-/m,
      differs: 'Ranges are the service’s: only it knows the representation. The field is within maxHeaderBytes.',
    },
  ),
  row(
    'MAL-POST-CL-HUGE-NO-BODY',
    'a body of 1 GB that is only announced costs nothing',
    '9110 §15.5.14',
    `${POST}Content-Length: 999999999⏎⏎`,
    {
      expect: [...REFUSED, 'waits'],
      answer: '413 closed',
      differs: 'It is larger than maxBodyBytes, which is what 413 is for: said at once, before any of it is read.',
    },
  ),
];

/** Http11Probe, category Normalization: names that some server takes for Content-Length or Transfer-Encoding. */
export const NORMALIZATION: readonly Row[] = [
  row(
    'NORM-UNDERSCORE-CL',
    'Content_Length never becomes Content-Length, and reaches no service',
    null,
    `${NAMED}Content_Length: 99⏎⏎hello world`,
    { expect: ['4xx', '5xx', 'closed', '2xx'], answer: '200 kept', withholds: /: 99$/m },
  ),
  row(
    'NORM-SP-BEFORE-COLON-CL',
    'a space between Content-Length and its colon is refused',
    '9112 §5.1',
    `${NAMED}Content-Length : 5⏎⏎hello world`,
    { expect: ['4xx', '5xx', 'closed', '2xx'] },
  ),
  row(
    'NORM-TAB-IN-NAME',
    'a tab within a field name is refused',
    '9112 §5',
    `${NAMED}Content\tLength: 99⏎⏎hello world`,
    { expect: ['4xx', '5xx', 'closed', '2xx'] },
  ),
  row(
    'NORM-CASE-TE',
    'TRANSFER-ENCODING in capitals is that field: beside a length it is refused',
    '9110 §5.1',
    `${NAMED}TRANSFER-ENCODING: chunked⏎⏎hello world`,
    { expect: ['4xx', '5xx', 'closed', '2xx'] },
  ),
  row(
    'NORM-UNDERSCORE-TE',
    'Transfer_Encoding never becomes Transfer-Encoding, and reaches no service',
    null,
    `${NAMED}Transfer_Encoding: chunked⏎⏎hello world`,
    { expect: ['4xx', '5xx', 'closed', '2xx'], answer: '200 kept', withholds: /chunked/i },
  ),
];

/** Http11Probe, category Cookies. A gateway reads none: each goes on byte for byte, or is refused as any field would be. */
export const COOKIES: readonly Row[] = [
  row('COOK-ECHO', 'a cookie reaches the service', null, `${ECHO}Cookie: foo=bar⏎⏎`, {
    expect: ['2xx'],
    answer: '200 kept',
    forwards: /^Cookie: foo=bar$/m,
  }),
  row('COOK-OVERSIZED', 'a cookie of 64 KiB is refused', '9110 §5.4', `${ECHO}Cookie: big=${'A'.repeat(65_536)}⏎⏎`, {
    expect: [...REFUSED, '431', '2xx'],
    answer: '431 closed',
  }),
  row('COOK-EMPTY', 'an empty Cookie is passed on', null, `${ECHO}Cookie: ⏎⏎`, {
    expect: [...REFUSED, '2xx'],
    answer: '200 kept',
    forwards: /^Cookie: $/m,
  }),
  row('COOK-NUL', 'NUL in a cookie is refused', '9110 §5.5', `${ECHO}Cookie: foo=\x00bar⏎⏎`, {
    expect: [...REFUSED, '2xx'],
  }),
  row(
    'COOK-CONTROL-CHARS',
    'control characters in a cookie are refused',
    '9110 §5.5',
    `${ECHO}Cookie: foo=\x01\x02\x03⏎⏎`,
    { expect: [...REFUSED, '2xx'] },
  ),
  row(
    'COOK-MANY-PAIRS',
    '1000 cookies in one field are passed on',
    null,
    `${ECHO}Cookie: ${Array.from({ length: 1_000 }, (_, i) => `k${i}=v${i}`).join('; ')}⏎⏎`,
    { expect: [...REFUSED, '431', '2xx'], answer: '200 kept', forwards: /^Cookie: k0=v0; .*; k999=v999$/m },
  ),
  row('COOK-MALFORMED', 'a cookie that is none is passed on as it is', null, `${ECHO}Cookie: ===;;;⏎⏎`, {
    expect: [...REFUSED, '2xx'],
    answer: '200 kept',
    forwards: /^Cookie: ===;;;$/m,
  }),
  row(
    'COOK-MULTI-HEADER',
    'two Cookie fields both reach the service',
    '6265 §5.4',
    `${ECHO}Cookie: a=1⏎Cookie: b=2⏎⏎`,
    { expect: ['2xx'], debatable: ['400', 'closed'], answer: '200 kept', forwards: /^Cookie: a=1\nCookie: b=2$/m },
  ),
  row('COOK-PARSED-BASIC', 'the service reads one cookie as it was sent', null, `${COOKIE}Cookie: foo=bar⏎⏎`, {
    expect: ['2xx'],
    debatable: ['404', '400', 'closed'],
    answer: '200 kept',
    forwards: /^Cookie: foo=bar$/m,
  }),
  row(
    'COOK-PARSED-MULTI',
    'the service reads three cookies as they were sent',
    null,
    `${COOKIE}Cookie: a=1; b=2; c=3⏎⏎`,
    { expect: ['2xx'], debatable: ['404', '400', 'closed'], answer: '200 kept', forwards: /^Cookie: a=1; b=2; c=3$/m },
  ),
  row(
    'COOK-PARSED-EMPTY-VAL',
    'the service reads a cookie without a value as it was sent',
    null,
    `${COOKIE}Cookie: foo=⏎⏎`,
    { expect: ['2xx', '400'], debatable: ['404', 'closed'], answer: '200 kept', forwards: /^Cookie: foo=$/m },
  ),
  row(
    'COOK-PARSED-SPECIAL',
    'the service reads cookies with spaces and = in them as they were sent',
    null,
    `${COOKIE}Cookie: a=hello world; b=x=y⏎⏎`,
    {
      expect: ['2xx', '400'],
      debatable: ['404', 'closed'],
      answer: '200 kept',
      forwards: /^Cookie: a=hello world; b=x=y$/m,
    },
  ),
];

/** Http11Probe, category Capabilities: conditional requests pass through, and so do their answers. */
export const CAPABILITIES: readonly Row[] = [
  row(
    'CAP-ETAG-304',
    'If-None-Match reaches the service, and its 304 comes back',
    '9110 §13.1.2',
    [`${GET}⏎`, `${GET}If-None-Match: "v1"⏎⏎`],
    { expect: ['2xx 304'], debatable: ['2xx 2xx', '2xx closed'], answer: '200 304 kept' },
  ),
  row(
    'CAP-LAST-MODIFIED-304',
    'If-Modified-Since reaches the service, and its 304 comes back',
    '9110 §13.1.3',
    [`${GET}⏎`, `${GET}If-Modified-Since: ${MODIFIED}⏎⏎`],
    { expect: ['2xx 304'], debatable: ['2xx 2xx', '2xx closed'], answer: '200 304 kept' },
  ),
  row(
    'CAP-ETAG-IN-304',
    'the ETag of a 304 comes back with it',
    '9110 §15.4.5',
    [`${GET}⏎`, `${GET}If-None-Match: "v1"⏎⏎`],
    { expect: ['2xx 304'], debatable: ['2xx 2xx', '2xx closed'], answer: '200 304 kept', has: { ETag: /^"v1"$/ } },
  ),
  row(
    'CAP-INM-PRECEDENCE',
    'both conditions reach the service, which has to prefer If-None-Match',
    '9110 §13.1.3',
    [`${GET}⏎`, `${GET}If-None-Match: "v1"⏎If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT⏎⏎`],
    { expect: ['2xx 304'], debatable: ['2xx 2xx', '2xx closed'], answer: '200 304 kept' },
  ),
  row(
    'CAP-INM-WILDCARD',
    'If-None-Match: * reaches the service',
    '9110 §13.1.2',
    [`${GET}⏎`, `${GET}If-None-Match: *⏎⏎`],
    { expect: ['2xx 304'], debatable: ['2xx 2xx', '2xx closed'], answer: '200 304 kept' },
  ),
  row(
    'CAP-IMS-FUTURE',
    'an If-Modified-Since of the future reaches the service as it is',
    '9110 §13.1.3',
    [`${GET}⏎`, `${GET}If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT⏎⏎`],
    {
      expect: ['2xx 2xx'],
      debatable: ['2xx 304', '2xx closed'],
      answer: '200 200 kept',
      forwards: /^If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT$/m,
    },
  ),
  row(
    'CAP-IMS-INVALID',
    'an If-Modified-Since that is no date reaches the service as it is',
    '9110 §13.1.3',
    [`${GET}⏎`, `${GET}If-Modified-Since: not-a-date⏎⏎`],
    {
      expect: ['2xx 2xx'],
      debatable: ['2xx 304', '2xx closed'],
      answer: '200 200 kept',
      forwards: /^If-Modified-Since: not-a-date$/m,
    },
  ),
  row(
    'CAP-INM-UNQUOTED',
    'an If-None-Match without quotes reaches the service as it is',
    '9110 §8.8.3',
    [`${GET}⏎`, `${GET}If-None-Match: v1⏎⏎`],
    {
      expect: ['2xx 2xx'],
      debatable: ['2xx 304', '2xx closed'],
      answer: '200 200 kept',
      forwards: /^If-None-Match: v1$/m,
    },
  ),
  row(
    'CAP-ETAG-WEAK',
    'a weak tag reaches the service as it is, and its 304 comes back',
    '9110 §13.1.2',
    [`${GET}⏎`, `${GET}If-None-Match: W/"v1"⏎⏎`],
    {
      expect: ['2xx 304'],
      debatable: ['2xx 2xx', '2xx closed'],
      answer: '200 304 kept',
      forwards: /^If-None-Match: W\/"v1"$/m,
    },
  ),
];
