import { type Row, row } from './http1-row.ts';

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
