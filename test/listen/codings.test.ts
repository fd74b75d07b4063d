import { attackedGateway, type Refused, SMUGGLED } from './attacks.ts';

// Attacks on Transfer-Encoding (RFC 9112 section 6.1): a coding that one parser takes for chunked and another passes
// over. Whatever is not chunked, once and alone, is refused, and never falls back to a length.

const world = attackedGateway();
const post = (fields: string, body = `2\r\n{}\r\n0\r\n\r\n${SMUGGLED}`) =>
  `POST /v1/pets HTTP/1.1\r\n${world.own()}${fields}\r\n\r\n${body}`;
const coding = (value: string): Refused => [
  `Transfer-Encoding: ${JSON.stringify(value)}`,
  () => post(`Transfer-Encoding: ${value}`),
  [400, 501],
];
const line = (text: string): Refused => [JSON.stringify(text), () => post(text), [400, 501]];

world.refuses('A coding disguised so that only one of two parsers knows it for chunked (reliability 4)', [
  ...['xchunked', 'chunk', 'cow', 'identity', 'chunked, identity', 'identity, chunked', 'chunked;q=1'].map(coding),
  ...[
    'chunked;a=b',
    'chunked;',
    ';chunked',
    '"chunked"',
    "'chunked'",
    '{chunked}',
    '%63hunked',
    '=?utf-8?B?Y2g=?=',
  ].map(coding),
  ...['chunked,', 'chunked,,', ', chunked', ',chunked', 'chunked chunked', ''].map(coding),
  ...['\x0bchunked', 'chunked\x0b', 'chunked\x0c', 'chunked\xff', '\xa0chunked', 'chunked\xa0', 'chunked\x85'].map(
    coding,
  ),
  ...['chu\x00nked', 'chunked\x00', '\x00chunked', 'chun\x7fked', 'chunKed\x17', '\r\n chunked', '\n chunked'].map(
    coding,
  ),
  ...['Transfer-Encoding : chunked', 'Transfer-Encoding\t: chunked', 'Transfer-Encoding\x0b: chunked'].map(line),
  ...[
    ' Transfer-Encoding: chunked',
    'Transfer-Encoding;: chunked',
    'Transfer-Encoding',
    'Transfer-Encoding=chunked',
  ].map(line),
  ...['Transfer-\r\nEncoding: chunked', 'X-A: b\rTransfer-Encoding: chunked', 'X-A: b\nTransfer-Encoding: chunked'].map(
    line,
  ),
  ...['Content-Length: 5\r\nTransfer-Encoding : chunked', 'Content-Length: 5\r\nTransfer-Encoding: x'].map(line),
]);

world.refuses('chunked twice: which of the two layers of chunks is the framing? (reliability 5)', [
  ...['chunked, chunked', 'chunked,chunked', 'chunked, gzip, chunked'].map(coding),
  ...['chunked', 'identity', 'gzip', ''].flatMap((other) => [
    line(`Transfer-Encoding: chunked\r\nTransfer-Encoding: ${other}`),
    line(`Transfer-Encoding: ${other}\r\nTransfer-Encoding: chunked`),
  ]),
]);

world.refuses('A compressed body would pass uninspected, or end nowhere (reliability 6)', [
  ...['gzip, chunked', 'deflate,chunked', 'br , chunked'].map(
    (value): Refused => [value, () => post(`Transfer-Encoding: ${value}`), [501]],
  ),
  ...['gzip', 'chunked, gzip', 'foo, chunked'].map(coding),
]);

world.refuses('Chunks in HTTP/1.0, where a proxy of that age reads to the end or takes the length (reliability 7)', [
  ...['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked\r\nConnection: keep-alive', 'Transfer-Encoding: x'].map(
    (fields): Refused => [fields, () => post(fields).replace('HTTP/1.1', 'HTTP/1.0')],
  ),
]);

world.serves('chunked as everybody writes it (reliability 4)', [
  ['another case', () => post('transfer-encoding: Chunked', '2\r\n{}\r\n0\r\n\r\n'), '{}'],
  ['no space, and some behind', () => post('Transfer-Encoding:chunked ', '2\r\n{}\r\n0\r\n\r\n'), '{}'],
  ['a TE beside it', () => post('Transfer-Encoding: chunked\r\nTE: trailers', '2\r\n{}\r\n0\r\n\r\n'), '{}'],
]);
