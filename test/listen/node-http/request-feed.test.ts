import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UNREAD_FOR_MS } from '../../../src/listen/node-http/request-feed.ts';
import { cutInto } from '../../../tools/fuzz/mutate.ts';
import { eventually } from '../../support/conditions.ts';
import { holdTime } from '../../support/hold-time.ts';
import { feedingTo, Wire } from '../fast-path/wire.ts';

interface Served {
  readonly method: string;
  readonly url: string;
  readonly body: string;
}

/** A connection that node:http reads through a feed. */
function open(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(answer);
  const wire = new Wire();
  const feed = feedingTo(server).feed(wire as unknown as Socket);
  return { wire, feed, send: (bytes: Buffer | string) => wire.push(Buffer.from(bytes as string, 'latin1')) };
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
/** What a reader might take for the end of a head. */
const body = fc
  .array(fc.constantFrom('\r', '\n', '\r\n', '\r\n\r\n', 'x', 'GET / HTTP/1.1'), { maxLength: 8 })
  .map((parts) => parts.join(''));
const request = fc.oneof(
  fc.record({
    method: fc.constantFrom('GET', 'HEAD', 'DELETE'),
    url: fc.webPath(),
    framing: fc.constant('none'),
    body: fc.constant(''),
  }),
  fc.record({
    method: fc.constant('POST'),
    url: fc.webPath(),
    framing: fc.constantFrom('length', 'chunked', 'trailers'),
    body,
  }),
);

function bytesOf({
  method,
  url,
  framing,
  body,
}: {
  method: string;
  url: string;
  framing: string;
  body: string;
}): string {
  const head = `${method} /${url.slice(1)} HTTP/1.1\r\nHost: a\r\n`;
  if (framing === 'none') return `${head}\r\n`;
  if (framing === 'length') return `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
  const chunks = [...body.matchAll(/.{1,3}/gs)]
    .map(([chunk]) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
    .join('');
  return `${head}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n${framing === 'trailers' ? 'A: b\r\n' : ''}\r\n`;
}

test('any requests, cut anywhere, are announced one at a time, each when the one before it has been answered (reliability 20, 23)', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(request, { minLength: 1, maxLength: 6 }),
      fc.array(fc.nat({ max: 900 })),
      async (made, cuts) => {
        const served: Served[] = [];
        let [current, most] = [0, 0];
        const { wire, send } = open(async (incoming, response) => {
          most = Math.max(most, ++current);
          const body = Buffer.concat(await incoming.toArray()).toString('latin1');
          served.push({ method: incoming.method!, url: incoming.url!, body });
          await new Promise(setImmediate);
          current--;
          response.end();
        });
        for (const piece of cutInto(Buffer.from(made.map(bytesOf).join(''), 'latin1'), cuts)) {
          send(Buffer.from(piece).toString('latin1'));
          await new Promise(setImmediate);
        }
        await eventually(() => expect(served).toHaveLength(made.length));
        expect(served).toEqual(made.map(({ method, url, body }) => ({ method, url: `/${url.slice(1)}`, body })));
        expect(most).toBe(1);
        wire.destroy();
      },
    ),
    { numRuns: 150, seed: 20_261_122 },
  );
});

// Attack: thousands of requests in one packet, each refused at once, occupy the event loop until all of them are answered.
test('a pipeline is served one request in a turn of the event loop, so that other connections have theirs', async () => {
  const { wire, send } = open((_, response) => response.end());
  send(GET.repeat(50));
  for (let turns = 1; turns <= 10; turns++) {
    await new Promise(setImmediate);
    expect(wire.text.split('200 OK').length - 1).toBeLessThanOrEqual(turns + 1);
  }
  await eventually(() => expect(wire.text.split('200 OK').length - 1).toBe(50));
  wire.destroy();
});

test('more than 64 KiB behind a request are not read until it is answered, and all of them are served (reliability 308)', async () => {
  const responses: ServerResponse[] = [];
  const { wire, send } = open((_, response) => responses.push(response));
  for (let i = 0; i < 3_000; i++) send(GET);
  await eventually(() => expect(wire.isPaused()).toBe(true));
  for (let i = 0; i < 3_000; i++) {
    while (responses.length <= i) await new Promise(setImmediate);
    responses[i]!.end();
  }
  await eventually(() => expect(wire.text.split('200 OK')).toHaveLength(3_001));
  expect(wire.text).not.toContain('Connection: close');
  wire.destroy();
});

// Fault: over TLS a write ends a turn after the client may have read it, so the next request came while the last was still served.
test('a request that comes before the end of the last response is noticed is no pipeline: none of it is lost (reliability 308)', async () => {
  const bodies: number[] = [];
  const { wire, send } = open((request, response) => {
    let bytes = 0;
    request.on('data', (piece: Buffer) => {
      bytes += piece.length;
    });
    request.on('end', () => {
      bodies.push(bytes);
      response.end();
    });
  });
  wire.takes = false;
  send(GET);
  await eventually(() => expect(wire.text).toContain('200 OK'));
  send(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(40_000)}`);
  for (let i = 40_000; i < 500_000; i += 20_000) send('x'.repeat(20_000));
  await new Promise(setImmediate);
  wire.go();
  await eventually(() => expect(bodies).toEqual([0, 500_000]));
  await eventually(() => expect(wire.text.split('200 OK')).toHaveLength(3));
  expect(wire.destroyed || wire.writableEnded).toBe(false);
  wire.destroy();
});

test('behind a request that takes long, what is too much to hold is dropped, and the response says that the connection ends (reliability 308)', async () => {
  const responses: ServerResponse[] = [];
  const { wire, send } = open((_, response) => responses.push(response));
  for (let i = 0; i < 3_000; i++) send(GET);
  await eventually(() => expect(wire.isPaused()).toBe(true));
  await eventually(() => expect(wire.isPaused()).toBe(false));
  responses[0]!.end('done');
  await eventually(() => expect(wire.writableEnded).toBe(true));
  expect(responses).toHaveLength(1);
  expect(wire.text).toContain('Connection: close');
  wire.destroy();
});

// Fault: the time of an answered request ended the one behind it, or ended between the two and no request was given up any more.
test('each request of a pipeline has its own time before what is behind it is dropped (reliability 308)', async () => {
  const pass = holdTime();
  const responses: ServerResponse[] = [];
  const { wire, send } = open((_, response) => responses.push(response));
  // As much as waits behind several requests, in one piece.
  send(GET.repeat(6_000));
  for (let i = 0; i < 3; i++) {
    await pass(UNREAD_FOR_MS - 100);
    expect([responses.length, wire.isPaused()]).toEqual([i + 1, true]);
    responses[i]!.end();
    while (responses.length === i + 1) await new Promise(setImmediate);
  }
  await pass(UNREAD_FOR_MS + 1);
  expect(wire.isPaused()).toBe(false);
  responses[3]!.end();
  while (!wire.writableEnded) await new Promise(setImmediate);
  expect(responses).toHaveLength(4);
  wire.destroy();
});

test('a body that is not read holds up what is behind it, and nothing is lost when it is read on', async () => {
  const requests: IncomingMessage[] = [];
  const { wire, send } = open(async (request, response) => {
    requests.push(request);
    if (request.method === 'POST') await new Promise<void>((resolve) => request.once('released', resolve));
    response.end(String(Buffer.concat(await request.toArray()).length));
  });
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
  send(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk('x'.repeat(100_000))}`);
  send(`${chunk('\r\n\r\n')}0\r\n\r\n${GET}`);
  await eventually(() => expect(wire.isPaused()).toBe(true));
  expect(requests).toHaveLength(1);
  requests[0]!.emit('released');
  await eventually(() => expect(requests).toHaveLength(2));
  await eventually(() => expect(wire.text.split('200 OK')).toHaveLength(3));
  expect(wire.text).toContain('100004');
  wire.destroy();
});

test('a body with a length waits while its consumer is beyond its share, and arrives whole (reliability 311)', async () => {
  const server = createServer((request, response) => {
    let bytes = 0;
    request.on('data', (piece: Buffer) => {
      bytes += piece.length;
    });
    request.on('end', () => response.end(String(bytes)));
  });
  const later: (() => void)[] = [];
  let isBeyond = true;
  const wire = new Wire();
  feedingTo(server, {
    read: (_, work) => {
      if (!isBeyond) work();
      return !isBeyond;
    },
    readLater: (_, work) => later.push(work),
  }).feed(wire as unknown as Socket);
  wire.push(Buffer.from('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n'));
  await new Promise(setImmediate);
  for (let sent = 0; sent < 300_000; sent += 50_000) wire.push(Buffer.alloc(50_000));
  await eventually(() => expect(later).toHaveLength(1));
  expect(wire.isPaused()).toBe(true);
  later.shift()!();
  await eventually(() => expect(later).toHaveLength(1));
  isBeyond = false;
  later.shift()!();
  await eventually(() => expect(wire.text).toContain('300000'));
  wire.destroy();
});
