import type { IncomingMessage } from 'node:http';
import { packetBeingParsed } from '../io/node-internals.ts';

/** A request target in origin form. */
export interface RequestTarget {
  readonly kind: 'target';
  /** Path and query exactly as received, so that what is routed is what is forwarded. */
  readonly target: string;
  /** The target without its query. */
  readonly path: string;
}

export interface TargetFault {
  readonly kind: 'fault';
  readonly message: string;
}

/**
 * Reads a request target (RFC 9112 section 3.2). Nothing is decoded, normalised or repaired.
 *
 * Attack: `/v1/pets/../admin`, `/v1/%2e%2e/admin`, `//admin`, `/v1\admin` or `/v1%2fadmin` look like one path to the
 * router and like another to the service behind it. So every path that is ambiguous on any route is refused here; one
 * that would match a different route once it is decoded is refused by the router.
 *
 * @param host the Host field; a target in absolute form is accepted only if its authority is the same
 */
export function readRequestTarget(url: string, method: string, host: string | null): RequestTarget | TargetFault {
  if (url === '*') {
    return method === 'OPTIONS'
      ? { kind: 'target', target: '*', path: '*' }
      : fault('Only OPTIONS may have * as its target.');
  }
  const target = url.startsWith('/') ? url : originForm(url, host);
  if (target === null) {
    return fault('The request target must be a path, or a URL of the host that the Host field names.');
  }
  const query = target.indexOf('?');
  const path = query === -1 ? target : target.slice(0, query);
  if (!VISIBLE.test(target)) return fault('The request target has a character that is not allowed in a URL.');
  if (target.includes('#')) return fault('The request target must not have a fragment.');
  const message = faultOfPath(path);
  return message === null ? { kind: 'target', target, path } : fault(message);
}

const VISIBLE = /^[\x21-\x7e]+$/;
/** Matches most paths: those without anything that needs a closer look. */
const PLAIN_PATH = /^(?:\/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,;=:@-]*)+\/?$/;
/**
 * A segment that a service may take for an empty one, for `.` or for `..`.
 *
 * Attack: `/v1/users/;x` is `/v1/users/` to Tomcat, Jetty and Spring, which drop what follows a `;`, and so is
 * `/v1/users/%20` to Spring before 4.3, which trims segments. Windows drops the blanks at the end of a name, so that
 * `..%20` may climb. A name with more than these passes: whether `/v1/users/7;x` is another path is for the
 * service to say.
 */
export const EMPTY_TO_SERVICES = /\/(?:;|%3b|(?:(?:%20)+|(?:%20)*(?:\.|%2e){1,2}(?:%20)*)(?:\/|;|%3b|$))/i;

/** Why a path is refused, as a sentence; null if it is accepted. @param path visible ASCII that begins with a slash */
export function faultOfPath(path: string): string | null {
  if (PLAIN_PATH.test(path) || path === '/') return null;
  if (/%(?![0-9A-Fa-f]{2})/.test(path)) return 'The path has a % that is not followed by two hexadecimal digits.';
  if (/%(?:2f|5c)|\\/i.test(path)) return 'The path must not have a backslash, nor an encoded slash or backslash.';
  if (/%(?:[01][0-9a-f]|7f)/i.test(path)) return 'The path must not have an encoded control character.';
  if (path.includes('//')) return 'The path must not have an empty segment.';
  if (EMPTY_TO_SERVICES.test(path)) {
    return 'The path must not have a segment `.` or `..`, nor one of nothing but blanks or path parameters (`;…`).';
  }
  return null;
}

/** Reduces `http://authority/path` to `/path` if the authority is the Host. */
function originForm(url: string, host: string | null): string | null {
  const parts = /^https?:\/\/([^/?#\\@]+)(\/.*)?$/i.exec(url);
  if (parts === null || host === null || parts[1]!.toLowerCase() !== host.toLowerCase()) return null;
  return parts[2] ?? '/';
}

function fault(message: string): TargetFault {
  return { kind: 'fault', message };
}

const SPACE = 0x20;
const CAPITAL_H = 0x48;

/**
 * Whether a request line is anything but `METHOD SP target SP HTTP/x.y`, preceded by nothing but complete CRLFs
 * (RFC 9112 sections 2.2 and 3).
 *
 * Attack: Node's parser also accepts several spaces between the parts, a lone CR or LF before them, and `RTSP/1.0` or
 * `ICE/1.0` as the protocol, and does not report this. A proxy in front of this gateway may read such a line differently.
 * So the line is checked as it was received, in the packet that is being parsed, at the cost of a copy of that packet
 * (about 1 µs). A line that was split across packets cannot be checked, and this function is then as lenient as the
 * parser.
 *
 * Must be called while node:http announces the request, because the packet is gone afterwards.
 */
export function isNonConformingRequestLine(request: IncomingMessage): boolean {
  const { socket, method = '', url = '' } = request;
  const packet = packetBeingParsed(request);
  // A line that cannot be checked is not trusted.
  if (packet === undefined) return true;
  if (isStrictAtStart(packet, method, url)) return false;
  return isNonConformingIn(packet.toString('latin1'), method, url, socket.bytesRead > packet.length);
}

/** The quick check, which nearly every request passes: the packet begins with its line, and each part is in its place. */
function isStrictAtStart(packet: Buffer, method: string, url: string): boolean {
  const target = method.length + 1;
  const end = target + url.length;
  return (
    packet[0] === method.charCodeAt(0) &&
    packet[target - 1] === SPACE &&
    packet[target] === url.charCodeAt(0) &&
    packet[end - 1] === url.charCodeAt(url.length - 1) &&
    packet[end] === SPACE &&
    packet[end + 1] === CAPITAL_H
  );
}

function isNonConformingIn(text: string, method: string, url: string, isLaterPacket: boolean): boolean {
  const strict = `${method} ${url} HTTP/`;
  const lineEnds = /^[\r\n]*/.exec(text)![0];
  if (isLineAt(text, lineEnds.length, method, url)) {
    // If a packet begins with an LF, the packet before may have ended with its CR.
    const areComplete = (isLaterPacket ? /^\n?(?:\r\n)*$/ : /^(?:\r\n)*$/).test(lineEnds);
    return !areComplete || !text.startsWith(strict, lineEnds.length);
  }
  // The line follows another request, or an earlier packet had it.
  if (text.includes(strict)) return false;
  for (let at = text.indexOf(`${method} `); at !== -1; at = text.indexOf(`${method} `, at + 1)) {
    // The packet may end partway through the next request's line, too early to judge it.
    if (isLineAt(text, at, method, url) && !strict.startsWith(text.slice(at))) return true;
  }
  return false;
}

/** Whether the method and the target are at this position, with any number of spaces between them. */
function isLineAt(text: string, at: number, method: string, url: string): boolean {
  if (!text.startsWith(`${method} `, at)) return false;
  let target = at + method.length;
  while (text.charCodeAt(target) === SPACE) target++;
  return text.startsWith(`${url} `, target);
}
