import { createServer, type IncomingMessage, type Server } from 'node:http';
import { Duplex } from 'node:stream';
import fc from 'fast-check';
import { SimpleReader } from '../../src/listen/fast-path/simple-request.ts';
import { type Bytes, mutated } from './mutate.ts';

const TARGETS = ['/', '/v1/pets', '/v1/pets?a=b&c=%zz', '/a#b', '//x', '/%2e%2e/x', '/a\'b;c|d^e`{}"<>'];
const PLAIN_FIELDS = [
  'Host: a',
  'Authorization: Bearer key',
  'Accept: */*',
  'X-Empty:',
  'X-Spaces: \t a \t b \t ',
  'X-Colons: a:b: c',
  'Connection: keep-alive',
  'Connection: Keep-Alive ',
  'TE: trailers',
  'Keep-Alive: timeout=5',
  'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA',
  'Max-Forwards: 0',
  "!#$%&'*+-.^_`|~: token",
];
const OTHER_FIELDS = [
  'Connection: close',
  'Connection: keep-alive, upgrade',
  'Upgrade: h2c',
  'Expect: 100-continue',
  'Content-Length: 0',
  'Content-Length: 5',
  'Transfer-Encoding: chunked',
  'Trailer: X-After',
  'Proxy-Connection: close',
  'X-High: \xe9',
];
const PIECES = [
  ...['GET ', 'HEAD ', 'POST ', 'PUT ', 'DELETE ', ' HTTP/1.1', ' HTTP/1.0', '\r\n ', '\r\n\t', 'x'],
  ...['Content-Length: 3\r\n', 'Content-Length:', '\r\nContent-Length: 0\r\n\r\n', '+', '0', '0x', ', 5', '1e'],
];
const BODY_METHODS = ['POST', 'PUT', 'PATCH', 'DELETE'];
const ALL_BYTES = String.fromCharCode(...Array(256).keys());
/** What a client may say of the length of its body, most of it wrong or in a way of its own. */
const LENGTHS: readonly ((length: number) => string)[] = [
  ...['', ' ', '  ', '\t', ' +', ' -', ' 0', ' 00', ' 0x', ' "'].map((before) => (it: number) => `${before}${it}`),
  ...[' ', '\t', ',', ';', '.0', 'e0', 'n', '_', '\x0b', '\xa0', '\0'].map((after) => (it: number) => ` ${it}${after}`),
  ...[1, -1, 5, 65_536, 4_294_967_296].map((more) => (it: number) => ` ${it + more}`),
  (it) => ` ${it}, ${it}`,
  (it) => ` ${it}\r\nContent-Length: ${it}`,
  (it) => ` ${it}\r\ncontent-length:${it + 1}`,
  (it) => ` ${it}\r\nTransfer-Encoding: chunked`,
  () => ' ',
  () => '',
];

const field = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom(...PLAIN_FIELDS) },
  { weight: 1, arbitrary: fc.constantFrom(...OTHER_FIELDS) },
);

const target = fc.constantFrom(...TARGETS);
const fields = fc.array(field, { maxLength: 5 });
const behind = fc.constantFrom('', '', '', '', '', '', 'G', '\r\n', 'GET / HTTP/1.1\r\n\r\n');

const bare: fc.Arbitrary<Bytes> = fc
  .record({ method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', ...BODY_METHODS), target, fields, behind })
  .map((it) => `${[`${it.method} ${it.target} HTTP/1.1`, ...it.fields].join('\r\n')}\r\n\r\n${it.behind}`);

const body = fc.oneof(
  fc.constantFrom('', '{}', '\r\n', '\r\n\r\n', '0\r\n\r\n', ALL_BYTES, 'b'.repeat(3_000)),
  fc.constantFrom('GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'Content-Length: 0\r\n\r\nPOST / HTTP/1.1\r\n\r\n'),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
);

const withBody: fc.Arbitrary<Bytes> = fc
  .record({
    method: fc.constantFrom(...BODY_METHODS, ...BODY_METHODS, 'GET', 'HEAD'),
    target,
    fields,
    behind,
    body,
    name: fc.constantFrom('Content-Length', 'Content-Length', 'content-length', 'CONTENT-LENGTH', 'Content_Length'),
    length: fc.oneof(
      { weight: 4, arbitrary: fc.constant((it: number) => ` ${it}`) },
      { weight: 1, arbitrary: fc.constantFrom(...LENGTHS) },
    ),
    at: fc.nat({ max: 5 }),
  })
  .map((it) => {
    const all = it.fields.toSpliced(it.at, 0, `${it.name}:${it.length(it.body.length)}`);
    return `${[`${it.method} ${it.target} HTTP/1.1`, ...all].join('\r\n')}\r\n\r\n${it.body}${it.behind}`;
  });

/** Requests near the simplest form. The capital of a byte may be no byte. */
const requests: fc.Arbitrary<Bytes> = mutated(fc.oneof(bare, withBody), PIECES, 2).map((text) =>
  Buffer.from(text, 'latin1').toString('latin1'),
);

/**
 * Reads generated requests as the fast path does and with node:http: what the fast path takes, node:http must take for the
 * same, whole and with nothing behind it. The other way round the fast path leaves much to node:http.
 * @returns disagreements, how many requests the fast path took, and how many of them had a body
 */
export function compareWithNode({ requests: count, seed }: { requests: number; seed: number }) {
  const server = createServer({ requireHostHeader: false, optimizeEmptyRequests: true });
  const problems: string[] = [];
  const taken = { all: 0, withBody: 0 };
  const kept = new SimpleReader();
  try {
    fc.assert(
      fc.property(requests, (bytes) => {
        const ours = new SimpleReader().read(bytes);
        for (const request of [bytes, ...withOtherLines(bytes)]) assertSame(request, kept);
        if (ours === null) return;
        taken.all++;
        if (ours.body !== null) taken.withBody++;
        const theirs = readByNode(server, bytes);
        const { method, url, fields, body } = ours;
        const read = { method, url, rawHeaders: fields.rawHeaders, httpVersion: '1.1', body: body ?? '', left: '' };
        const meant = [{ event: 'request', ...read, complete: true, keepsAlive: true }];
        const same = JSON.stringify(theirs) === JSON.stringify(meant);
        if (!same)
          throw new Error(`ours ${JSON.stringify(ours)}, Node ${JSON.stringify(theirs)}: ${JSON.stringify(bytes)}`);
      }),
      { numRuns: count, seed },
    );
  } catch (error) {
    problems.push((error as Error).message);
  }
  return { problems, taken: taken.all, withBody: taken.withBody };
}

/** Requests with the same fields, and so those that a reader may know already. */
function withOtherLines(bytes: Bytes): Bytes[] {
  const end = bytes.indexOf('\r\n');
  if (end === -1) return [];
  const rest = bytes.slice(end);
  return [`GET /other HTTP/1.1${rest}`, `POST /other HTTP/1.1${rest}x`, `PUT / HTTP/1.1${rest.slice(0, -1)}`, bytes];
}

/** @throws Error where a reader that has read other requests before takes one for something else than a fresh one does */
function assertSame(bytes: Bytes, kept: SimpleReader): void {
  const [fresh, again] = [new SimpleReader().read(bytes), kept.read(bytes)].map((read) => JSON.stringify(read));
  if (fresh !== again) throw new Error(`first ${fresh}, behind others ${again}: ${JSON.stringify(bytes)}`);
}

/** What node:http makes of the bytes: each request, and each fault. */
function readByNode(server: Server, bytes: Bytes): unknown[] {
  const found: (() => unknown)[] = [];
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  const noteAs = (event: string) => (request: IncomingMessage, response: { shouldKeepAlive?: boolean }) => {
    const { method, url, rawHeaders, httpVersion } = request;
    const keepsAlive = response.shouldKeepAlive === true;
    found.push(() => {
      const body: string = request.read()?.toString('latin1') ?? '';
      const left = bytes.slice(bytes.indexOf('\r\n\r\n') + 4 + body.length);
      const read = { method, url, rawHeaders, httpVersion, body, left };
      return { event, ...read, complete: request.complete, keepsAlive };
    });
  };
  const events = ['request', 'upgrade', 'connect', 'checkContinue', 'checkExpectation'];
  const listeners = events.map((event) => [event, noteAs(event)] as const);
  for (const [event, note] of listeners) server.on(event, note);
  const noteFault = ({ code }: NodeJS.ErrnoException) => found.push(() => code);
  server.on('clientError', noteFault);
  server.emit('connection', socket);
  socket.emit('data', Buffer.from(bytes, 'latin1'));
  socket.emit('end');
  for (const [event, note] of listeners) server.off(event, note);
  server.off('clientError', noteFault);
  socket.destroy();
  // Only now it is known whether it is complete.
  return found.map((it) => it());
}
