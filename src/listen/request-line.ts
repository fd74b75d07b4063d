import type { IncomingMessage } from 'node:http';

const SPACE = 0x20;
const CAPITAL_H = 0x48;

/**
 * Whether a request line is other than `METHOD SP target SP HTTP/x.y`, with nothing but whole CRLFs before it
 * (RFC 9112 sections 2.2 and 3).
 *
 * Attack: Node's parser also takes several spaces between the parts, a lone CR or LF before them, and `RTSP/1.0` or
 * `ICE/1.0` where the protocol stands, and tells of none of it. A proxy before this gateway may read such a line in
 * another way. So the line is looked at as it came, in the packet that is being parsed: that costs a copy of the packet,
 * about 1 µs. Where a line came in pieces nothing is found; then it is as lenient as the parser.
 *
 * To be called while the request is being announced: the packet is gone afterwards.
 */
export function isLooseRequestLine({ socket, method = '', url = '' }: IncomingMessage): boolean {
  // Not a documented part of Node: without it, its parser alone decides.
  const { parser } = socket as { parser?: { getCurrentBuffer?: () => Buffer | undefined } };
  const packet = parser?.getCurrentBuffer?.();
  if (packet === undefined || isStrictAtStart(packet, method, url)) return false;
  return isLooseIn(packet.toString('latin1'), method, url, socket.bytesRead > packet.length);
}

/** What is true of nearly every request: the packet begins with its line, and its parts stand where they must. */
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

function isLooseIn(text: string, method: string, url: string, isLaterPacket: boolean): boolean {
  const strict = `${method} ${url} HTTP/`;
  const ends = /^[\r\n]*/.exec(text)![0];
  if (isLineAt(text, ends.length, method, url)) {
    // The CR of an LF that begins a packet may have ended the one before.
    const areWhole = (isLaterPacket ? /^\n?(?:\r\n)*$/ : /^(?:\r\n)*$/).test(ends);
    return !areWhole || !text.startsWith(strict, ends.length);
  }
  // Behind another request, or the rest of a head whose line came before.
  if (text.includes(strict)) return false;
  for (let at = text.indexOf(`${method} `); at !== -1; at = text.indexOf(`${method} `, at + 1)) {
    // The packet may end within the line of the next request, before it shows how it goes on.
    if (isLineAt(text, at, method, url) && !strict.startsWith(text.slice(at))) return true;
  }
  return false;
}

/** Whether method and target stand here, however many spaces part them. */
function isLineAt(text: string, at: number, method: string, url: string): boolean {
  if (!text.startsWith(`${method} `, at)) return false;
  let target = at + method.length;
  while (text.charCodeAt(target) === SPACE) target++;
  return text.startsWith(`${url} `, target);
}
