import { createServer, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { ClientRequest, ClientResponse } from '../../../src/http1/client.ts';
import { FastPath } from '../../../src/listen/fast-path/fast-path.ts';
import { eventually } from '../../support/conditions.ts';
import { feedingTo, Wire } from './wire.ts';

// Requests with a body begin on the fast path where all of it has come with the head, and with node:http everywhere else.

const MAX_BYTES = 16 * 1024;
const ALL_BYTES = String.fromCharCode(...Array(256).keys());

interface Read {
  readonly by: 'us' | 'node:http';
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** A connection both readers of which note what they read, and answer it by default otherwise. */
function open({ answers = true, maxUrlBytes = 8_192, maxHeaderBytes = 16_384 } = {}) {
  const reads: Read[] = [];
  const responses: ClientResponse[] = [];
  const note = (by: Read['by'], { method, url, rawHeaders }: ClientRequest, body: string) =>
    reads.push({ by, method, url, rawHeaders, body });
  let handedOver = 0;
  const node = createServer(async (request: IncomingMessage, response) => {
    const pieces: Buffer[] = await request.toArray().catch(() => []);
    if (request.complete) note('node:http', request, Buffer.concat(pieces).toString('latin1'));
    response.end();
  });
  node.on('connection', () => {
    handedOver++;
  });
  const wire = new Wire();
  const path = new FastPath({
    maxUrlBytes,
    maxHeaderBytes,
    headersTimeoutMs: 60_000,
    idleTimeoutMs: 60_000,
    writeTimeoutMs: 60_000,
    wallMs: () => 0,
    ...feedingTo(node),
    handler: {
      handle: (request, response) => {
        note('us', request, request.wholeBody ?? '');
        responses.push(response);
        if (answers) answer(response);
      },
    },
    onSilent: () => {},
  });
  path.take(wire as unknown as Socket);
  const send = (bytes: string) => wire.push(Buffer.from(bytes, 'latin1'));
  return { wire, reads, responses, send, isHandedOver: () => handedOver === 1 };
}

function answer(response: ClientResponse | undefined): void {
  response?.writeHead(204, []);
  response?.end();
}

const post = (body: string, fields = `Content-Length: ${body.length}`, line = 'POST /a?b HTTP/1.1') =>
  `${[line, 'Host: a', ...(fields === '' ? [] : [fields])].join('\r\n')}\r\n\r\n${body}`;

/** A body that makes the whole request as long as told. */
function filled(bytes: number): string {
  const empty = post('', 'Content-Length: 00000').length;
  return 'b'.repeat(bytes - empty);
}

describe('is read at once, body and all:', () => {
  test.each([
    ...['POST', 'PUT', 'PATCH', 'DELETE'].flatMap((method): [string, string, string][] => [
      [`${method} with a body`, post('{"a":1}', 'Content-Length: 7', `${method} /a?b HTTP/1.1`), '{"a":1}'],
      [`${method} with a length of 0`, post('', 'Content-Length: 0', `${method} /a?b HTTP/1.1`), ''],
      [`${method} without a length`, post('', '', `${method} /a?b HTTP/1.1`), ''],
    ]),
    ['a body of all bytes', post(ALL_BYTES), ALL_BYTES],
    ['a body that looks like a request', post(post('')), post('')],
    ['a body that begins like the end of a head', post('\r\n\r\n'), '\r\n\r\n'],
    ['a body of one byte', post('\0'), '\0'],
    ['a name in another case, and no space behind its colon', post('{}', 'cOnTeNt-LeNgTh:2'), '{}'],
    ['as much as is ever read at once', post(filled(MAX_BYTES)), filled(MAX_BYTES)],
  ])('%s', async (_, bytes, body) => {
    const { wire, reads, send, isHandedOver } = open();
    send(bytes);
    await eventually(() => expect(reads).toHaveLength(1));
    expect(reads).toEqual([expect.objectContaining({ by: 'us', method: bytes.split(' ')[0], url: '/a?b', body })]);
    expect(isHandedOver()).toBe(false);
    expect(wire.text).toContain('HTTP/1.1 204');
    wire.destroy();
  });
});

// Attack: what one reader takes for a length and the next for another is a request of the attacker's between the two.
describe('is for Node’s parser:', () => {
  const lengths = ['+5', '-5', '05', '00', '0x5', '5 ', ' 5', '\t5', '5\t', '5, 5', '5,5', '5;', '"5"', '5.0', '5e0'];
  test.each([
    ...[...lengths, '', '\x0b5', '5\0', '\xb9', '4', '6', '100000', '4294967301', 'NaN'].map((length) => [
      `a length of ${JSON.stringify(length)}`,
      post('12345', `Content-Length: ${length}`),
    ]),
    ['a length twice', post('{}', 'Content-Length: 2\r\nContent-Length: 2')],
    ['two lengths', post('{}', 'Content-Length: 2\r\nX: y\r\ncontent-length: 0')],
    ['two lengths of 0', post('', 'Content-Length: 0\r\nContent-Length: 0')],
    ['a length on a line that goes on', post('12345', 'Content-Length:\r\n 5')],
    ['a length and chunks', post('0\r\n\r\n', 'Content-Length: 5\r\nTransfer-Encoding: chunked')],
    ['chunks', post('0\r\n\r\n', 'Transfer-Encoding: chunked')],
    ['Expect', post('12345', 'Expect: 100-continue\r\nContent-Length: 5')],
    ['an upgrade', post('12345', 'Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 5')],
    ['a trailer', post('12345', 'Trailer: X\r\nContent-Length: 5')],
    ['Connection: close', post('12345', 'Connection: close\r\nContent-Length: 5')],
    ['HTTP/1.0', post('12345', 'Content-Length: 5', 'POST /a HTTP/1.0')],
    ['a byte behind the body', `${post('12345')}x`],
    ['a line end behind the body', `${post('12345')}\r\n`],
    ['a byte behind a head without a length', post('x', '')],
    ['a byte behind a head with a length of 0', post('x', 'Content-Length: 0')],
    ['a field name that only looks like it', post('12345', 'Content_Length: 5')],
    ['a white space before the colon', post('12345', 'Content-Length : 5')],
    ['a method of another case', post('12345', 'Content-Length: 5', 'post /a HTTP/1.1')],
    ['a method that begins like one', post('12345', 'Content-Length: 5', 'PUTT /a HTTP/1.1')],
    ['OPTIONS with a body', post('12345', 'Content-Length: 5', 'OPTIONS /a HTTP/1.1')],
    ['GET with a body', post('12345', 'Content-Length: 5', 'GET /a HTTP/1.1')],
    ['GET with a length of 0', post('', 'Content-Length: 0', 'GET /a HTTP/1.1')],
    ['HEAD with a length of 0', post('', 'Content-Length: 0', 'HEAD /a HTTP/1.1')],
    ['a bare line end in the head', post('12345').replace('\r\nHost', '\nHost')],
    ['a byte beyond ASCII in the head', post('12345', 'X-High: \xe9\r\nContent-Length: 5')],
    ['more than a hundred fields', post('12345', `${'X: y\r\n'.repeat(99)}Content-Length: 5`)],
    ['more than is ever read at once', post(filled(MAX_BYTES + 1))],
    ['two in one go', post('12345') + post('67890')],
    ['and a GET in one go', `${post('12345')}GET / HTTP/1.1\r\nHost: a\r\n\r\n`],
  ])('%s', async (_, bytes) => {
    const { wire, reads, send, isHandedOver } = open();
    send(bytes);
    await eventually(() => expect(isHandedOver()).toBe(true));
    expect(reads.filter(({ by }) => by === 'us')).toEqual([]);
    wire.destroy();
  });

  test('a request that is longer than its limits together, short as it is', async () => {
    const { wire, send, isHandedOver } = open({ maxUrlBytes: 100, maxHeaderBytes: 200 });
    send(post('b'.repeat(400)));
    await eventually(() => expect(isHandedOver()).toBe(true));
    wire.destroy();
  });
});

test('a request cut in two anywhere is read by node:http, once and as it was sent', async () => {
  const bytes = post(`\r\n\r\n${ALL_BYTES}`, 'X-Field: \t a \r\nContent-Length: 260');
  const whole = open();
  whole.send(bytes);
  await eventually(() => expect(whole.reads).toHaveLength(1));
  await Promise.all(
    Array.from({ length: bytes.length - 1 }, async (_, i) => {
      const { wire, reads, send, isHandedOver } = open();
      send(bytes.slice(0, i + 1));
      await eventually(() => expect(isHandedOver()).toBe(true));
      send(bytes.slice(i + 1));
      await eventually(() => expect(reads).toHaveLength(1));
      expect(reads).toEqual([{ ...whole.reads[0], by: 'node:http' }]);
      wire.destroy();
    }),
  );
  whole.wire.destroy();
});

test('requests in one packet are each read once, with a body of its own', async () => {
  for (const second of [post('67890'), 'GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n']) {
    const { wire, reads, send } = open();
    send(post('12345') + second);
    await eventually(() => expect(reads).toHaveLength(2));
    // Node hands them out together, and that without a body is noted first.
    expect(reads.map(({ by, body }) => `${by} ${body}`).sort()).toEqual(
      ['node:http 12345', `node:http ${second.startsWith('POST') ? '67890' : ''}`].sort(),
    );
    wire.destroy();
  }
});

test('a request that came while another was served waits for its turn, and keeps its body', async () => {
  const { wire, reads, responses, send, isHandedOver } = open({ answers: false });
  send(post('first'));
  await eventually(() => expect(reads).toHaveLength(1));
  const second = post(ALL_BYTES);
  for (const piece of [second.slice(0, 20), second.slice(20, 100), second.slice(100)]) {
    send(piece);
    await new Promise(setImmediate);
  }
  expect(reads).toHaveLength(1);
  answer(responses[0]);
  await eventually(() => expect(reads).toHaveLength(2));
  expect(reads.map(({ by, body }) => [by, body])).toEqual([
    ['us', 'first'],
    ['us', ALL_BYTES],
  ]);
  expect(isHandedOver()).toBe(false);
  wire.destroy();
});
