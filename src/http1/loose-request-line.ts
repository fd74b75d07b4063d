import type { IncomingMessage } from 'node:http';
import { packetBeingParsed } from '../io/node-internals.ts';

const SPACE = 0x20;

/**
 * Whether a request line is anything but `METHOD SP target SP HTTP/x.y`, preceded by nothing but complete CRLFs
 * (RFC 9112 sections 2.2 and 3).
 *
 * Attack: Node's parser also accepts several spaces between the parts, a lone CR or LF before them, and `RTSP/1.0` or
 * `ICE/1.0` as the protocol, and reports no fault. A proxy in front of this gateway may read such a line differently.
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

/**
 * The quick check, which nearly every request passes: the packet begins with its line. Nothing is copied.
 *
 * Attack: `GET /xa HTTP/1.1` and `GET  /ya HTTP/1.1` in one packet. The first line was taken for that of the second request,
 * because only the ends of method and target were compared.
 */
function isStrictAtStart(packet: Buffer, method: string, url: string): boolean {
  const target = method.length + 1;
  return (
    isTextAt(packet, 0, method) &&
    packet[method.length] === SPACE &&
    isTextAt(packet, target, url) &&
    isTextAt(packet, target + url.length, ' HTTP/')
  );
}

function isTextAt(packet: Buffer, at: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (packet[at + i] !== text.charCodeAt(i)) return false;
  return true;
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
