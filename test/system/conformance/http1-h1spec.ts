import type { Row } from './http1-row.ts';

const GET = 'GET / HTTP/1.1⏎Host: example.com⏎';
const POST = 'POST / HTTP/1.1⏎Host: example.com⏎';

/** The request that the fragments are beginnings of. */
const WHOLE = 'GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n';

const fragment = (id: string, end: string, rfc: string): Row => {
  const sent = WHOLE.slice(0, WHOLE.indexOf(end) + end.length);
  const title = `the rest is waited for after ${JSON.stringify(sent)}`;
  return { id, title, rfc, sent, expect: ['waits'], answer: '408 closed' };
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
  {
    id: 'Request without HTTP version',
    title: 'a request line without a version is refused',
    rfc: '9112 §3',
    sent: 'GET / ⏎⏎',
    expect: ['4xx', '5xx'],
  },
  {
    id: 'Request with Expect header',
    title: '100-continue is answered by 100 or, where there is no body to wait for, by the answer itself',
    rfc: '9110 §10.1.1',
    sent: `${GET}Expect: 100-continue⏎⏎`,
    expect: ['2xx'],
    answer: '200 closed',
  },
  {
    id: 'Valid GET request',
    title: 'a plain GET is served',
    rfc: '9112 §3',
    sent: `${GET}⏎`,
    expect: ['2xx'],
    answer: '200 kept',
  },
  {
    id: 'Valid GET request with edge cases',
    title: 'names in any case, a tab as white space and an empty value are served',
    rfc: '9112 §5',
    sent: 'GET / HTTP/1.1⏎hoSt:\texample.com⏎empty:⏎⏎',
    expect: ['2xx'],
    answer: '200 kept',
  },
  {
    id: 'Invalid header characters',
    title: 'a field name with brackets is refused',
    rfc: '9110 §5.6.2',
    sent: `${GET}X-Invalid[]: test⏎⏎`,
    expect: ['4xx'],
  },
  {
    id: 'Missing Host header',
    title: 'a request of HTTP/1.1 without Host is refused',
    rfc: '9112 §3.2',
    sent: 'GET / HTTP/1.1⏎Content-Length: 5⏎⏎',
    expect: ['4xx'],
  },
  {
    id: 'Multiple Host headers',
    title: 'two Hosts are refused',
    rfc: '9112 §3.2',
    sent: `${GET}Host: example.org⏎⏎`,
    expect: ['4xx'],
  },
  {
    id: 'Overflowing negative Content-Length header',
    title: 'a negative length beyond 64 bits is refused',
    rfc: '9110 §8.6',
    sent: `${GET}Content-Length: -123456789123456789123456789⏎⏎`,
    expect: ['4xx'],
  },
  {
    id: 'Negative Content-Length header',
    title: 'a negative length is refused',
    rfc: '9110 §8.6',
    sent: `${GET}Content-Length: -1234⏎⏎`,
    expect: ['4xx'],
  },
  {
    id: 'Non-numeric Content-Length header',
    title: 'a length of letters is refused',
    rfc: '9110 §8.6',
    sent: `${GET}Content-Length: abc⏎⏎`,
    expect: ['4xx'],
  },
  {
    id: 'Empty header value',
    title: 'an empty value is served',
    rfc: '9110 §5.5',
    sent: `${GET}X-Empty-Header: ⏎⏎`,
    expect: ['2xx'],
    answer: '200 kept',
  },
  {
    id: 'Header containing invalid control character',
    title: 'a control character in a value is refused',
    rfc: '9110 §5.5',
    sent: `${GET}X-Bad-Control-Char: test\x07⏎⏎`,
    expect: ['4xx'],
  },
  {
    id: 'Invalid HTTP version',
    title: 'a version that does not exist is refused',
    rfc: '9112 §2.3',
    sent: 'GET / HTTP/9.9⏎Host: example.com⏎⏎',
    expect: ['4xx', '5xx'],
    answer: '505 closed',
    inPieces: '400 closed',
  },
  {
    id: 'Invalid prefix of request',
    title: 'words before the method are refused',
    rfc: '9112 §3',
    sent: 'Extra lineGET / HTTP/1.1⏎Host: example.com⏎⏎',
    expect: ['4xx', '5xx'],
  },
  {
    id: 'Invalid line ending',
    title: 'a lone CR where the head ends is refused',
    rfc: '9112 §2.2',
    sent: `${GET}\rSome-Header: Test⏎⏎`,
    expect: ['4xx'],
  },
  {
    id: 'Valid POST request with body',
    title: 'its body arrives',
    rfc: '9112 §6.2',
    sent: `${POST}Content-Length: 5⏎⏎hello`,
    expect: ['2xx', '404'],
    answer: '200 kept',
    body: 'hello',
  },
  {
    id: 'Chunked Transfer-Encoding',
    title: 'a body in one chunk arrives',
    rfc: '9112 §7.1',
    sent: `${POST}Transfer-Encoding: chunked⏎⏎c⏎HellO world1⏎0⏎⏎`,
    expect: ['2xx'],
    answer: '200 kept',
    body: 'HellO world1',
  },
  {
    id: 'Conflicting Transfer-Encoding and Content-Length in varying case',
    title: 'a length beside chunks is refused, however both are written',
    rfc: '9112 §6.1',
    sent: `${POST}content-LengtH: 5⏎TransFer-Encoding: chunked⏎⏎c⏎HellO world1⏎0⏎⏎`,
    expect: ['4xx', '2xx'],
  },
];
