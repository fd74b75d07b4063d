import { createServer, type IncomingMessage, type Server } from 'node:http';
import { Duplex } from 'node:stream';
import fc from 'fast-check';
import { readSimpleRequest } from '../../src/listen/fast-path/simple-request.ts';
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
const PIECES = ['GET ', 'HEAD ', 'POST ', ' HTTP/1.1', ' HTTP/1.0', '\r\n ', '\r\n\t', 'Content-Length: 3\r\n', 'x'];

const field = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom(...PLAIN_FIELDS) },
  { weight: 1, arbitrary: fc.constantFrom(...OTHER_FIELDS) },
);

/** Requests near the simplest form. */
const requests: fc.Arbitrary<Bytes> = mutated(
  fc
    .record({
      method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST'),
      target: fc.constantFrom(...TARGETS),
      fields: fc.array(field, { maxLength: 5 }),
      behind: fc.constantFrom('', '', '', '', '', '', 'G', '\r\n', 'GET / HTTP/1.1\r\n\r\n'),
    })
    .map(({ method, target, fields, behind }) => {
      return `${[`${method} ${target} HTTP/1.1`, ...fields].join('\r\n')}\r\n\r\n${behind}`;
    }),
  PIECES,
  2,
);

/**
 * Reads generated requests as the fast path does and with node:http: what the fast path takes, node:http must take for the
 * same, whole and with nothing behind it. The other way round the fast path leaves much to node:http.
 * @returns disagreements, and how many requests the fast path took
 */
export function compareWithNode({ requests: count, seed }: { requests: number; seed: number }) {
  const server = createServer({ requireHostHeader: false, optimizeEmptyRequests: true });
  const problems: string[] = [];
  let taken = 0;
  try {
    fc.assert(
      fc.property(requests, (bytes) => {
        const ours = readSimpleRequest(bytes);
        if (ours === null) return;
        taken++;
        const theirs = readByNode(server, bytes);
        const meant = [{ event: 'request', ...ours, httpVersion: '1.1', complete: true, keepsAlive: true }];
        const same = JSON.stringify(theirs) === JSON.stringify(meant);
        if (!same)
          throw new Error(`ours ${JSON.stringify(ours)}, Node ${JSON.stringify(theirs)}: ${JSON.stringify(bytes)}`);
      }),
      { numRuns: count, seed },
    );
  } catch (error) {
    problems.push((error as Error).message);
  }
  return { problems, taken };
}

/** What node:http makes of the bytes: each request, and each fault. */
function readByNode(server: Server, bytes: Bytes): unknown[] {
  const found: (() => unknown)[] = [];
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  const noteAs = (event: string) => (request: IncomingMessage, response: { shouldKeepAlive?: boolean }) => {
    const { method, url, rawHeaders, httpVersion } = request;
    const keepsAlive = response.shouldKeepAlive === true;
    found.push(() => ({ event, method, url, rawHeaders, httpVersion, complete: request.complete, keepsAlive }));
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
