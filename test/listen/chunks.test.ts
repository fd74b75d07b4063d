import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { rawExchange } from '../support/raw-http.ts';
import { attackedGateway, type Refused, SMUGGLED } from './attacks.ts';

// Attacks on the syntax of chunks (RFC 9112 section 7.1): where one parser sees the end of a chunk and another does not.

const world = attackedGateway();
const chunked = (body: string) => `POST /v1/pets HTTP/1.1\r\n${world.own()}Transfer-Encoding: chunked\r\n\r\n${body}`;
/** A chunk whose line is this. */
const line = (text: string): Refused => [
  `the line ${JSON.stringify(text)}`,
  () => chunked(`${text}{}\r\n0\r\n\r\n${SMUGGLED}`),
];
const body = (text: string): Refused => [JSON.stringify(text), () => chunked(text + SMUGGLED)];
const end = (trailers: string): Refused => [
  `the end ${JSON.stringify(trailers)}`,
  () => chunked(`2\r\n{}\r\n${trailers}${SMUGGLED}`),
];

world.refuses('A size that only some parsers can read, or that overflows (reliability 10)', [
  ...['0x2', '-2', '+2', '0_2', ' 2', '\t2', '', '2 ', '2\t', 'g', '2.0', '"2"', '\xb2', ',2', '\r\n2'].map((size) =>
    line(`${size}\r\n`),
  ),
  ...['ffffffffffffffff1', '10000000000000002', '1'.padEnd(40, '0')].map((size) => line(`${size}\r\n`)),
]);

world.refuses('An extension that hides a line end: TERM.EXT, EXT.TERM (reliability 11)', [
  ...['2;\n', '2;a\n', '2;a\n\r\n', '2;a\r', '2;a\r\r\n', '2;a\x00b\r\n', '2;\x00\r\n', '2;a\x7f\r\n'].map(line),
  ...['2;a="b\r\nc"\r\n', '2;a="b\nc"\r\n', '2;a="b\r\n', '2 ;a\r\n', '2; a\r\n', '2;a b\r\n', '2;\r\n', ';a\r\n'].map(
    line,
  ),
  ...['2\n', '2\r', '2\r\r\n', '2,a\r\n'].map(line),
]);

world.refuses('An extension of 20 kB costs as much as a body and counts as none (reliability 12)', [
  ['one', () => chunked(`2;${'a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`), [400, 413]],
  ['one with a value', () => chunked(`2;a=${'b'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`), [400, 413]],
  ['one in quotes', () => chunked(`2;a="${'b'.repeat(20_000)}"\r\n{}\r\n0\r\n\r\n`), [400, 413]],
  ['twenty thousand', () => chunked(`2${';a'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`), [400, 413]],
  ['one at the last chunk', () => chunked(`2\r\n{}\r\n0;${'a'.repeat(20_000)}\r\n\r\n`), [400, 413]],
]);

world.refuses('Data that is longer than its size, or ends in less than CRLF (reliability 13)', [
  ...['2\r\n{}0\r\n\r\n', '2\r\n{}}\r\n0\r\n\r\n', '2\r\n{}\n0\r\n\r\n', '2\r\n{}\r0\r\n\r\n'].map(body),
  ...['2\n{}\n0\n\n', '2\r\n{}\r\n\r\n0\r\n\r\n', '2\r\n{}\r\n0\n\n', '2\r\n{}\r\n0\r\n\n', '2\r\n{}\r\n0\r\r\n'].map(
    body,
  ),
]);

world.refuses('A trailer that would change the framing, or is no field (reliability 15)', [
  ...['Content-Length: 3', 'Transfer-Encoding: chunked', ': b', 'X-A : b', 'X-A', 'X-A: a\nX-B: c', 'X-A: b\x00'].map(
    (trailer) => end(`0\r\n${trailer}\r\n\r\n`),
  ),
  ...['0\r\nX-A: b\r\n c\r\n\r\n', '0\r\n c\r\n\r\n', '0\r\nX(: b\r\n\r\n'].map(end),
  ['60 kB of trailers', () => chunked(`2\r\n{}\r\n0\r\nX-A: ${'a'.repeat(60_000)}\r\n\r\n`), [400, 431]],
  ['3,000 trailers', () => chunked(`2\r\n{}\r\n0\r\n${'a:\r\n'.repeat(3_000)}\r\n`), [400, 431]],
]);

world.refuses('A body in chunks of one byte, which cost a hundred times as much as to send them (reliability 218)', [
  ['twenty thousand', () => chunked(`${'1\r\na\r\n'.repeat(20_000)}0\r\n\r\n`), [413]],
  ['with extensions', () => chunked(`${'1;a=b\r\na\r\n'.repeat(20_000)}0\r\n\r\n`), [413]],
]);

world.serves('What chunks may look like (reliability 10, 11)', [
  ['extensions', () => chunked('2;a=b;c="d"\r\n{}\r\n0;e\r\n\r\n'), '{}'],
  ['sizes with zeros and capitals', () => chunked('00A\r\n0123456789\r\n000\r\n\r\n'), '0123456789'],
  [
    'any number of chunks of 64 bytes',
    () => chunked(`${`40\r\n${'a'.repeat(64)}\r\n`.repeat(15_000)}0\r\n\r\n`),
    'a'.repeat(960_000),
  ],
  ['a body in one-byte chunks', () => chunked(`${'1\r\na\r\n'.repeat(5_000)}0\r\n\r\n`), 'a'.repeat(5_000)],
]);

test('A body in too many chunks is broken off with 413, whether it is forwarded or held (reliability 218)', async () => {
  const { responses, closed } = await rawExchange(world.gateway.port, chunked('1\r\na\r\n'.repeat(20_000)), {
    until: 'closed',
  });
  expect(JSON.parse(responses[0]!.body.toString())).toMatchObject({ code: 'payload_too_large', status: 413 });
  expect(closed).toBe(true);
  await eventually(async () => expect(await world.upstream.requests.at(-1)?.whole).toBe(false));
});

test.each([
  'X-Consumer-Id: root',
  'Authorization: Bearer x',
  'Host: b',
  'X-A: b\r\nX-Forwarded-For: 1.2.3.4',
  'Via: 1.1 x',
])('A trailer that plays a field of the head (%s) is dropped, never merged (reliability 15)', async (trailer) => {
  const bytes = chunked(`2\r\n{}\r\n0\r\n${trailer}\r\n\r\n`);
  expect((await rawExchange(world.gateway.port, bytes)).responses[0]?.status).toBe(200);
  const request = world.upstream.requests.at(-1);
  expect(request?.body.toString()).toBe('{}');
  expect(request?.rawHeaders).not.toContain(trailer.split(': ').at(-1));
});

test('Chunks that go wrong later: what was forwarded is broken off, never completed (reliability 14)', async () => {
  const broken = ['oops', 'zz\r\n', '2\r\n{}}', '2\n{}\r\n', '0\r\nContent-Length: 1\r\n\r\n', '2;\x00\r\n', '-1\r\n'];
  for (const [i, last] of broken.entries()) {
    const head = chunked('2\r\n{}\r\n').replace('/v1/pets', `/v1/pets?later${i}`);
    const request = () => world.upstream.requests.find(({ url }) => url.endsWith(`?later${i}`))!;
    const parts = [head, '2\r\n{}\r\n', () => request().body.length > 1, last];
    const { responses, closed } = await rawExchange(world.gateway.port, parts, { until: 'closed' });
    expect(
      responses.map(({ status }) => status),
      last,
    ).toEqual([400]);
    expect(closed).toBe(true);
    expect(await request().whole, last).toBe(false);
  }
});
