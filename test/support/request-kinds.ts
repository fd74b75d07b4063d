import { PREFACE, settings } from './http2-frames.ts';
import { HANDSHAKE } from './web-socket-handshake.ts';

/** What a client may send on a connection: a request of one form, or what is none. */
export interface RequestKind {
  readonly name: string;
  /** A character for each byte. @param target a path; with a WebSocket route of the same name below `/live` */
  readonly bytes: (target: string, key: string) => string;
  /** Whether the service may get it. */
  readonly mayPass: boolean;
  /** Whether what stands behind it is no request of the connection, whatever it looks like. */
  readonly isLast: boolean;
}

const head = (line: string, key: string, fields = '') =>
  `${line}\r\nHost: gateway.test\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`;

/** More than all that a test may send behind it. */
const NEVER_WHOLE = 60_000;

type Options = Partial<Pick<RequestKind, 'mayPass' | 'isLast'>>;

function kind(
  name: string,
  bytes: RequestKind['bytes'],
  { mayPass = true, isLast = false }: Options = {},
): RequestKind {
  return { name, bytes, mayPass, isLast };
}

/** One of each kind that is read, refused, handed over or waited for in a way of its own. */
export const REQUEST_KINDS: readonly RequestKind[] = [
  kind('GET', (target, key) => head(`GET ${target} HTTP/1.1`, key)),
  kind('GET without a key', (target) => `GET ${target} HTTP/1.1\r\nHost: gateway.test\r\n\r\n`, { mayPass: false }),
  kind('HEAD', (target, key) => head(`HEAD ${target} HTTP/1.1`, key)),
  kind('POST', (target, key) => `${head(`POST ${target} HTTP/1.1`, key, 'Content-Length: 4\r\n')}body`),
  kind(
    'half a POST',
    (target, key) => `${head(`POST ${target} HTTP/1.1`, key, `Content-Length: ${NEVER_WHOLE}\r\n`)}half`,
  ),
  kind('POST in chunks', (target, key) => {
    return `${head(`POST ${target} HTTP/1.1`, key, 'Transfer-Encoding: chunked\r\n')}4\r\nbody\r\n0\r\n\r\n`;
  }),
  kind('half a POST in chunks', (target, key) => {
    return `${head(`POST ${target} HTTP/1.1`, key, 'Transfer-Encoding: chunked\r\n')}${NEVER_WHOLE.toString(16)}\r\nhalf`;
  }),
  kind('Expect with the body', (target, key) => {
    return `${head(`POST ${target} HTTP/1.1`, key, 'Expect: 100-continue\r\nContent-Length: 4\r\n')}body`;
  }),
  kind('Expect that waits', (target, key) => {
    return head(`POST ${target} HTTP/1.1`, key, `Expect: 100-continue\r\nContent-Length: ${NEVER_WHOLE}\r\n`);
  }),
  kind('another Expect', (target, key) => head(`GET ${target} HTTP/1.1`, key, 'Expect: more\r\n'), { mayPass: false }),
  kind('CONNECT', (_target, key) => head('CONNECT a:1 HTTP/1.1', key), { mayPass: false, isLast: true }),
  kind('WebSocket', (target, key) => head(`GET /live${target} HTTP/1.1`, key, HANDSHAKE), { isLast: true }),
  kind(
    'WebSocket that speaks at once',
    (target, key) => `${head(`GET /live${target} HTTP/1.1`, key, HANDSHAKE)}\x89\x00`,
    {
      isLast: true,
    },
  ),
  kind('WebSocket on another route', (target, key) => head(`GET ${target} HTTP/1.1`, key, HANDSHAKE), { isLast: true }),
  kind(
    'h2c',
    (target, key) =>
      head(
        `GET ${target} HTTP/1.1`,
        key,
        'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n',
      ),
    { isLast: true },
  ),
  kind('HTTP/1.0', (target, key) => head(`GET ${target} HTTP/1.0`, key), { isLast: true }),
  kind('close', (target, key) => head(`GET ${target} HTTP/1.1`, key, 'Connection: close\r\n'), { isLast: true }),
  kind('malformed line', (target, key) => head(`GET ${target}`, key), { mayPass: false, isLast: true }),
  kind(
    'two lengths',
    (target, key) =>
      `${head(`POST ${target} HTTP/1.1`, key, 'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n')}0\r\n\r\n`,
    { mayPass: false, isLast: true },
  ),
  kind(
    'TLS hello',
    () => '\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x00\x00\x02\x13\x01\x01\x00',
    {
      mayPass: false,
      isLast: true,
    },
  ),
  kind('HTTP/2 preface', () => Buffer.concat([PREFACE, settings()]).toString('latin1'), {
    mayPass: false,
    isLast: true,
  }),
  kind('half a head', (target, key) => head(`GET ${target} HTTP/1.1`, key).slice(0, -4)),
  kind('empty lines', () => '\r\n\r\n', { mayPass: false }),
];
