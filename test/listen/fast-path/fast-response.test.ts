import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ClientResponse } from '../../../src/http1/client.ts';
import { TextWriter } from '../../../src/io/writes.ts';
import { FastResponse } from '../../../src/listen/fast-path/fast-response.ts';
import { Wire } from './wire.ts';

const IDLE_S = 65;
const DATE = /Date: [^\r]+/g;

/** A response of ours on a connection of its own. */
function fast(method = 'GET', wire = new Wire()) {
  const finished: FastResponse[] = [];
  const unread: boolean[] = [];
  const request = { method, httpVersion: '1.1', rawHeaders: [], headers: {}, complete: true, destroyed: false };
  const response = new FastResponse({ ...request, socket: wire as never } as never, {
    writer: new TextWriter(wire as never),
    date: () => new Date().toUTCString(),
    keepAlive: `Connection: keep-alive\r\nKeep-Alive: timeout=${IDLE_S}\r\n`,
    onUnread: () => unread.push(true),
    onFinished: (it) => finished.push(it),
  });
  return { wire, response, finished, unread };
}

interface Answer {
  readonly method: 'GET' | 'HEAD';
  readonly status: number;
  readonly fields: readonly string[];
  readonly pieces: readonly string[];
  readonly flushed: boolean;
  readonly lastAs: 'text' | 'latin1' | 'bytes' | 'nothing';
  readonly keepsAlive: boolean;
}

function give(response: ClientResponse, { status, fields, pieces, flushed, lastAs, keepsAlive }: Answer): void {
  response.shouldKeepAlive = keepsAlive;
  response.writeHead(status, [...fields]);
  if (flushed) response.flushHeaders();
  for (const piece of pieces.slice(0, -1)) response.write(Buffer.from(piece));
  const last = pieces.at(-1);
  if (last === undefined || lastAs === 'nothing') response.end();
  else if (lastAs === 'latin1') response.end(Buffer.from(last).toString('latin1'), 'latin1');
  else response.end(lastAs === 'text' ? last : Buffer.from(last));
}

/** What node:http writes. */
async function byNode(answer: Answer): Promise<string> {
  const server = createServer({ keepAliveTimeout: IDLE_S * 1000, keepAliveTimeoutBuffer: 0 });
  const wire = new Wire();
  const served = once(server, 'request');
  server.emit('connection', wire);
  wire.emit('data', Buffer.from(`${answer.method} / HTTP/1.1\r\nHost: a\r\n\r\n`));
  const [, response] = (await served) as [unknown, ServerResponse];
  const finished = once(response, 'finish');
  give(response, answer);
  await finished;
  wire.destroy();
  return comparable(wire.text);
}

/** With one date for all, and chunks joined: how a body is cut into them means nothing. */
function comparable(text: string): string {
  const dated = text.replace(DATE, 'Date: now');
  if (!/^transfer-encoding: chunked\r$/im.test(dated)) return dated;
  const end = dated.indexOf('\r\n\r\n') + 4;
  let body = '';
  for (let at = end; ; ) {
    const [line = '', size = ''] = /^([0-9a-f]+)\r\n/.exec(dated.slice(at, at + 20)) ?? [];
    const length = Number.parseInt(size, 16);
    expect(dated.slice(at + line.length + length, at + line.length + length + 2)).toBe('\r\n');
    body += dated.slice(at + line.length, at + line.length + length);
    at += line.length + length + 2;
    if (length > 0) continue;
    expect(at).toBe(dated.length);
    return dated.slice(0, end) + body;
  }
}

const answers: fc.Arbitrary<Answer> = fc
  .record({
    method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD'),
    status: fc.constantFrom(200, 201, 204, 206, 299, 304, 401, 429, 503, 599),
    fields: fc.subarray([
      ['Content-Type', 'application/json'],
      ['X-Empty', ''],
      ['Set-Cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['date', 'Sat, 01 Jan 2000 00:00:00 GMT'],
      ['Trailing', 'a\tb'],
    ]),
    pieces: fc.array(fc.constantFrom('a', '{"a":1}', 'gr\u00fc\u00df', '\u20ac', 'b'.repeat(70_000)), { maxLength: 3 }),
    tellsLength: fc.boolean(),
    flushed: fc.boolean(),
    lastAs: fc.constantFrom('text', 'latin1', 'bytes', 'nothing'),
    keepsAlive: fc.boolean(),
  })
  .map(({ fields, tellsLength, ...answer }) => {
    const pieces = answer.lastAs === 'nothing' ? answer.pieces.slice(0, -1) : answer.pieces;
    const length = pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
    return { ...answer, fields: [...fields.flat(), ...(tellsLength ? ['Content-Length', String(length)] : [])] };
  }) as fc.Arbitrary<Answer>;

test('an answer is byte for byte what node:http makes of it', async () => {
  await fc.assert(
    fc.asyncProperty(answers, async (answer) => {
      const { wire, response, finished } = fast(answer.method);
      give(response, answer);
      expect(comparable(wire.text)).toBe(await byNode(answer));
      expect(response).toMatchObject({ statusCode: answer.status, headersSent: true });
      expect(finished).toEqual([response]);
    }),
    { numRuns: 500, seed: 20_261_121 },
  );
});

// node:http encodes them as UTF-8 where the head leaves alone, or with a text.
test.each(['text', 'latin1', 'bytes', 'nothing'] as const)(
  'a field value beyond ASCII leaves as it came, with a body as %s',
  (lastAs) => {
    const { wire, response } = fast();
    const [fields, pieces] = [['X-High', '\xe9\xff'], ['\u20ac']];
    give(response, {
      method: 'GET',
      status: 200,
      fields,
      pieces,
      flushed: lastAs === 'nothing',
      lastAs,
      keepsAlive: true,
    });
    expect(wire.text).toContain('\r\nX-High: \xe9\xff\r\n');
    if (lastAs !== 'nothing') expect(wire.text).toContain(Buffer.from('\u20ac').toString('latin1'));
  },
);

describe('a head and a small body', () => {
  test.each([
    ['of a known length', ['Content-Length', '2']],
    ['in chunks', []],
  ])('%s leave in one write', (_, fields) => {
    const { wire, response } = fast();
    let writes = 0;
    const write = wire._write.bind(wire);
    wire._write = (...args) => {
      writes++;
      write(...args);
    };
    response.writeHead(200, fields);
    response.end('{}');
    expect(writes).toBe(1);
  });
});

// Attack: a value with a line end is a second field, or a second answer; a character above U+00FF becomes another one.
test.each(['a\nb: c', 'a\r\n\r\nHTTP/1.1 200 OK', 'a\0b', '\u010d\u010a', '\x7f'])(
  'a field value that cannot be sent as it is (%j) is a defect, and nothing is written',
  (value) => {
    const { wire, response } = fast();
    expect(() => response.writeHead(200, ['X-Field', value])).toThrow(TypeError);
    expect(response.headersSent).toBe(false);
    expect(wire.text).toBe('');
  },
);

test('a piece of nothing does not end an answer in chunks', () => {
  const { wire, response } = fast();
  response.writeHead(200, []);
  response.write(Buffer.alloc(0));
  response.write(Buffer.from('a'));
  response.write(Buffer.alloc(0));
  response.end('b');
  expect(wire.text).toMatch(/\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n$/);
});

describe('a client that does not take it all', () => {
  test('is told of by `write`, and `drain` comes when there is room, once', async () => {
    const { wire, response } = fast();
    wire.takes = false;
    response.writeHead(200, []);
    expect(response.write(Buffer.alloc(100_000))).toBe(false);
    let drained = 0;
    response.once('drain', () => drained++);
    const room = once(wire, 'drain');
    wire.go();
    await room;
    wire.emit('drain');
    expect(drained).toBe(1);
  });

  test('has its answer finished when the system has taken the last byte, and `close` says so', async () => {
    const { wire, response, finished, unread } = fast();
    wire.takes = false;
    response.writeHead(200, ['Content-Length', '2']);
    response.end('{}');
    expect(unread).toEqual([true]);
    expect(finished).toEqual([]);
    const closed = new Promise<void>((resolve) => response.once('close', resolve));
    wire.go();
    await closed;
    expect(finished).toEqual([response]);
  });

  test('and leaves: `close` comes once, and no other listener than those that are left is called', () => {
    const { response } = fast();
    const calls: string[] = [];
    const first = () => calls.push('first');
    response.once('close', first);
    response.once('close', () => calls.push('second'));
    response.removeListener('close', first);
    response.closed();
    response.closed();
    expect(calls).toEqual(['second']);
    expect(response.destroyed).toBe(true);
    expect(() => response.end('late')).not.toThrow();
  });
});
