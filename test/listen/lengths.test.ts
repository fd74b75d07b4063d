import { expect, test } from 'vitest';
import { rawExchange } from '../support/raw-http.ts';
import { attackedGateway, type Refused, SMUGGLED } from './attacks.ts';

// Attacks on Content-Length (RFC 9112 section 6): a length that two parsers read differently makes what one takes for a
// body a request to the other.

const world = attackedGateway();
const post = (fields: string, body = '') => `POST /v1/pets HTTP/1.1\r\n${world.own()}${fields}\r\n\r\n${body}`;
const length = (value: string): Refused => [
  `Content-Length: ${value}`,
  () => post(`Content-Length: ${value}`, `{}${SMUGGLED}`),
  [400, 413],
];

world.refuses('A length and chunks together: the next hop believes the other of the two (reliability 1)', [
  ['CL.TE', () => post('Content-Length: 6\r\nTransfer-Encoding: chunked', `0\r\n\r\n${SMUGGLED}`)],
  ['TE.CL', () => post('Transfer-Encoding: chunked\r\nContent-Length: 4', `5c\r\n${SMUGGLED}0\r\n\r\n`)],
  ['CL.TE of a length of 0', () => post('Content-Length: 0\r\nTransfer-Encoding: chunked', `0\r\n\r\n${SMUGGLED}`)],
  ['TE.CL of a length of 0', () => post('Transfer-Encoding: chunked\r\nContent-Length: 0', `0\r\n\r\n${SMUGGLED}`)],
  ['CL.TE with identity', () => post('Content-Length: 2\r\nTransfer-Encoding: identity', `{}${SMUGGLED}`)],
  ['CL.TE with an empty coding', () => post('Content-Length: 2\r\nTransfer-Encoding:', `{}${SMUGGLED}`)],
  ['CL.TE with a coding nobody knows', () => post('Content-Length: 2\r\nTransfer-Encoding: cow', `{}${SMUGGLED}`)],
  ['both, and the length bare', () => post('Transfer-Encoding: chunked\r\nContent-Length:', `0\r\n\r\n${SMUGGLED}`)],
  ['both on GET', () => post('Content-Length: 6\r\nTransfer-Encoding: chunked', '0\r\n\r\nG').replace('POST', 'GET')],
]);

world.refuses('Two lengths: the first parser takes one, the second the other (reliability 2)', [
  ['two lengths', () => post('Content-Length: 0\r\nContent-Length: 44', SMUGGLED)],
  ['two lengths, the longer first', () => post('Content-Length: 44\r\nContent-Length: 0', SMUGGLED)],
  ['two lengths, other fields between', () => post('Content-Length: 2\r\nX-A: b\r\ncontent-length: 3', '{}')],
  ['the same length twice', () => post('Content-Length: 2\r\nContent-Length: 2', '{}')],
  ['a list of lengths', () => post('Content-Length: 2, 2', '{}')],
  ['a list of lengths without a space', () => post('Content-Length: 2,3', '{}')],
  ['a length and an empty one', () => post('Content-Length: 2\r\nContent-Length:', '{}')],
]);

world.refuses('A length that is no plain number is 2 to one parser, 0 or an error to another (reliability 3)', [
  ...['+2', '-1', '-0', '0x2', '0b10', '0o2', '1_0', '2 0', '2 2', '2;', '"2"', "'2'", '(2)', '2.0', '1e1', '2L'].map(
    length,
  ),
  ...['18446744073709551618', '18446744073709551615', '9223372036854775808', '9007199254740993', '4294967298'].map(
    length,
  ),
  ...['9'.repeat(40), '0'.repeat(30), ',2', '2,', 'NaN', 'Infinity', '2\x00', '2\x0b', '2\x85', '\xb2', '2\r\n 2'].map(
    length,
  ),
  ['an empty length', () => post('Content-Length: ', SMUGGLED)],
  ['an empty length on the next line', () => post('Content-Length:\r\n 2', SMUGGLED)],
  ['a space before the colon', () => post('Content-Length : 2', `{}${SMUGGLED}`)],
  ['a NUL before the colon', () => post('Content-Length\x00: 2', `{}${SMUGGLED}`)],
]);

world.serves('Lengths that mean the same to everybody (reliability 3)', [
  ['a zero before the number', () => post('Content-Length: 02', '{}'), '{}'],
  ['white space around the number', () => post('Content-Length:\t 2 \t', '{}'), '{}'],
  ['a name in capitals', () => post('CONTENT-LENGTH:2', '{}'), '{}'],
]);

test('CL.0: a POST without a length has no body; what follows needs a key of its own (reliability 20)', () =>
  world.expectStatuses(post('X-A: b', SMUGGLED), [200, 401]));

test('CL.0: a field that only looks like a length is none; what follows needs a key of its own (reliability 20)', () =>
  world.expectStatuses(post(`Content_Length: ${SMUGGLED.length}`, SMUGGLED), [200, 401]));

test('Bytes behind a declared length are a request that needs a key of its own (reliability 20)', () =>
  world.expectStatuses(post('Content-Length: 2', `{}${SMUGGLED}`), [200, 401]));

test('A client that is refused while it sends its body gets to read why: it is not reset (reliability 22, 58)', async () => {
  const { responses, closed, reset } = await rawExchange(
    world.gateway.port,
    [
      'POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n',
      'a'.repeat(100_000),
      SMUGGLED,
      'a'.repeat(50_000),
    ],
    { until: 'closed', pauseMs: 20 },
  );
  expect(responses.map(({ status }) => status)).toEqual([401]);
  expect([closed, reset]).toEqual([true, false]);
});
