import { type Row, row } from './http1-row.ts';

const GET = 'GET / HTTP/1.1⏎Host: example.com⏎';
const POST = 'POST / HTTP/1.1⏎Host: example.com⏎';

/** The request that the fragments are beginnings of. */
const WHOLE = 'GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n';

const fragment = (id: string, end: string, rfc: string): Row => {
  const sent = WHOLE.slice(0, WHOLE.indexOf(end) + end.length);
  const title = `the rest is waited for after ${JSON.stringify(sent)}`;
  return row(id, title, rfc, sent, { expect: ['waits'], answer: '408 closed' });
};

/** Cases in which the server has to wait for more. */
export const FRAGMENTS: readonly Row[] = [
  fragment('Fragmented method', 'G', '9112 §3.1'),
  fragment('Fragmented URL 1', 'GET ', '9112 §3.2'),
  fragment('Fragmented URL 2', '/hello', '9112 §3.2'),
  fragment('Fragmented URL 3', '/hello ', '9112 §3.2'),
  fragment('Fragmented HTTP version', 'HTTP', '9112 §2.3'),
  fragment('Fragmented request line', 'HTTP/1.1', '9112 §3'),
  fragment('Fragmented request line newline 1', 'HTTP/1.1\r', '9112 §3'),
  fragment('Fragmented request line newline 2', 'HTTP/1.1\r\n', '9112 §3'),
  fragment('Fragmented field name', 'Hos', '9112 §5'),
  fragment('Fragmented field value 1', 'Host:', '9112 §5'),
  fragment('Fragmented field value 2', 'Host: ', '9112 §5'),
  fragment('Fragmented field value 3', 'localhost', '9112 §5'),
  fragment('Fragmented field value 4', 'localhost\r', '9112 §5'),
  fragment('Fragmented request', 'localhost\r\n', '9112 §2.1'),
  fragment('Fragmented request termination', 'localhost\r\n\r', '9112 §2.1'),
];

/** What is left to send after a fragment. */
export function restAfter({ sent }: Row): string {
  return WHOLE.slice(sent.length);
}

/** The other cases of h1spec. */
export const REQUESTS: readonly Row[] = [
  row('Request without HTTP version', 'a request line without a version is refused', '9112 §3', 'GET / ⏎⏎', {
    expect: ['4xx', '5xx'],
  }),
  row(
    'Request with Expect header',
    '100-continue is answered by 100 or, where there is no body to wait for, by the answer itself',
    '9110 §10.1.1',
    `${GET}Expect: 100-continue⏎⏎`,
    { expect: ['2xx'], answer: '200 closed' },
  ),
  row('Valid GET request', 'a plain GET is served', '9112 §3', `${GET}⏎`, { expect: ['2xx'], answer: '200 kept' }),
  row(
    'Valid GET request with edge cases',
    'names in any case, a tab as white space and an empty value are served',
    '9112 §5',
    'GET / HTTP/1.1⏎hoSt:\texample.com⏎empty:⏎⏎',
    { expect: ['2xx'], answer: '200 kept' },
  ),
  row(
    'Invalid header characters',
    'a field name with brackets is refused',
    '9110 §5.6.2',
    `${GET}X-Invalid[]: test⏎⏎`,
    { expect: ['4xx'] },
  ),
  row(
    'Missing Host header',
    'a request of HTTP/1.1 without Host is refused',
    '9112 §3.2',
    'GET / HTTP/1.1⏎Content-Length: 5⏎⏎',
    { expect: ['4xx'] },
  ),
  row('Multiple Host headers', 'two Hosts are refused', '9112 §3.2', `${GET}Host: example.org⏎⏎`, { expect: ['4xx'] }),
  row(
    'Overflowing negative Content-Length header',
    'a negative length beyond 64 bits is refused',
    '9110 §8.6',
    `${GET}Content-Length: -123456789123456789123456789⏎⏎`,
    { expect: ['4xx'] },
  ),
  row('Negative Content-Length header', 'a negative length is refused', '9110 §8.6', `${GET}Content-Length: -1234⏎⏎`, {
    expect: ['4xx'],
  }),
  row(
    'Non-numeric Content-Length header',
    'a length of letters is refused',
    '9110 §8.6',
    `${GET}Content-Length: abc⏎⏎`,
    { expect: ['4xx'] },
  ),
  row('Empty header value', 'an empty value is served', '9110 §5.5', `${GET}X-Empty-Header: ⏎⏎`, {
    expect: ['2xx'],
    answer: '200 kept',
  }),
  row(
    'Header containing invalid control character',
    'a control character in a value is refused',
    '9110 §5.5',
    `${GET}X-Bad-Control-Char: test\x07⏎⏎`,
    { expect: ['4xx'] },
  ),
  row(
    'Invalid HTTP version',
    'a version that does not exist is refused',
    '9112 §2.3',
    'GET / HTTP/9.9⏎Host: example.com⏎⏎',
    { expect: ['4xx', '5xx'], answer: '505 closed', inPieces: '400 closed' },
  ),
  row(
    'Invalid prefix of request',
    'words before the method are refused',
    '9112 §3',
    'Extra lineGET / HTTP/1.1⏎Host: example.com⏎⏎',
    { expect: ['4xx', '5xx'] },
  ),
  row('Invalid line ending', 'a lone CR where the head ends is refused', '9112 §2.2', `${GET}\rSome-Header: Test⏎⏎`, {
    expect: ['4xx'],
  }),
  row('Valid POST request with body', 'its body arrives', '9112 §6.2', `${POST}Content-Length: 5⏎⏎hello`, {
    expect: ['2xx', '404'],
    answer: '200 kept',
    body: 'hello',
  }),
  row(
    'Chunked Transfer-Encoding',
    'a body in one chunk arrives',
    '9112 §7.1',
    `${POST}Transfer-Encoding: chunked⏎⏎c⏎HellO world1⏎0⏎⏎`,
    { expect: ['2xx'], answer: '200 kept', body: 'HellO world1' },
  ),
  row(
    'Conflicting Transfer-Encoding and Content-Length in varying case',
    'a length beside chunks is refused, however both are written',
    '9112 §6.1',
    `${POST}content-LengtH: 5⏎TransFer-Encoding: chunked⏎⏎c⏎HellO world1⏎0⏎⏎`,
    { expect: ['4xx', '2xx'] },
  ),
];
