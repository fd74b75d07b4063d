import { REFUSED, type Row, row } from './http1-row.ts';

const GET = 'GET / HTTP/1.1⏎Host: a.test⏎';
const ECHO = 'GET /echo HTTP/1.1⏎Host: a.test⏎';
const CHUNKED = 'POST / HTTP/1.1⏎Host: a.test⏎Transfer-Encoding: chunked⏎⏎';
const A_LOT = 100_000;

/** The cases of Http11Probe whose request is too long to be written out. */
export const LONG: readonly Row[] = [
  row(
    'COMP-LONG-URL-OK',
    'a request line of nearly 8000 bytes is served',
    '9112 §3',
    `GET /${'a'.repeat(7_900)} HTTP/1.1⏎Host: a.test⏎⏎`,
    { expect: ['not 414'], debatable: ['closed'], answer: '200 kept' },
  ),
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
  row('COOK-OVERSIZED', 'a cookie of 64 KiB is refused', '9110 §5.4', `${ECHO}Cookie: big=${'A'.repeat(65_536)}⏎⏎`, {
    expect: [...REFUSED, '431', '2xx'],
    answer: '431 closed',
  }),
  row(
    'COOK-MANY-PAIRS',
    '1000 cookies in one field are passed on',
    null,
    `${ECHO}Cookie: ${Array.from({ length: 1_000 }, (_, i) => `k${i}=v${i}`).join('; ')}⏎⏎`,
    { expect: [...REFUSED, '431', '2xx'], answer: '200 kept', forwards: /^Cookie: k0=v0; .*; k999=v999$/m },
  ),
];
