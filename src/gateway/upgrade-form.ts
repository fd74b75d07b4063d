import { type ErrorAnswer, errorAnswer } from '../annotate/error.ts';
import type { Head } from '../listen/head.ts';

/** What a request says about leaving HTTP. */
export type UpgradeForm =
  /** Nothing, or something that is not done here: it is served as plain HTTP (RFC 9110 section 7.8 lets a server ignore it). */
  | { readonly kind: 'none' }
  | { readonly kind: 'upgrade'; readonly protocol: string; readonly key: string | null }
  | { readonly kind: 'fault'; readonly error: ErrorAnswer };

const NONE: UpgradeForm = { kind: 'none' };
const PROTOCOL = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:\/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$/;
/** 16 bytes in base64: the last of 22 digits has four bits that are nothing. */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/;

/**
 * Protocols that carry HTTP, or hide what they carry.
 *
 * Attack: a connection that is switched to HTTP/2 in clear text (`h2c`) brings any number of requests to the upstream
 * that nobody has identified or counted.
 */
const CARRIES_HTTP = /^(?:h[23]|http|tls|ssl|spdy|quic)/i;

/**
 * Reads whether a request asks for an upgrade, and whether it does so properly: RFC 6455 section 4.2.1 for a WebSocket.
 * Whatever else wants to be one is refused rather than served in part.
 */
export function upgradeForm(head: Head): UpgradeForm {
  if (head.httpVersion !== '1.1' || !head.connectionNames.has('upgrade')) return NONE;
  const asked = readFields(head.rawHeaders);
  const protocols = asked.upgrade.flatMap((value) => value.split(',')).map((name) => name.trim());
  const isWebSocket = protocols.some((name) => /^websocket(?:\/|$)/i.test(name));
  if (isWebSocket) return webSocketForm(head, asked);
  const [protocol = ''] = protocols;
  const isTunnel = protocols.length === 1 && PROTOCOL.test(protocol) && !CARRIES_HTTP.test(protocol);
  return isTunnel && head.method === 'GET' && head.body === 'none' ? { kind: 'upgrade', protocol, key: null } : NONE;
}

interface Asked {
  readonly upgrade: readonly string[];
  readonly keys: readonly string[];
  readonly versions: readonly string[];
}

function readFields(rawHeaders: readonly string[]): Asked {
  const valuesOf = (name: string) =>
    rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name);
  return {
    upgrade: valuesOf('upgrade'),
    keys: valuesOf('sec-websocket-key'),
    versions: valuesOf('sec-websocket-version'),
  };
}

function webSocketForm({ method, body, connectionNames }: Head, { upgrade, keys, versions }: Asked): UpgradeForm {
  const [protocol = ''] = upgrade;
  const [key = ''] = keys;
  if (upgrade.length !== 1 || protocol.toLowerCase() !== 'websocket') return fault('Upgrade must be websocket alone.');
  if (method !== 'GET' || body !== 'none') return fault('A WebSocket is asked for with GET, without a body.');
  if ([...connectionNames].some((name) => name.startsWith('sec-websocket-'))) {
    return fault('Connection must not list a field of the WebSocket handshake.');
  }
  if (versions.length !== 1 || versions[0] !== '13') {
    // RFC 6455 section 4.4: what is spoken is told.
    return fault('Sec-WebSocket-Version must come once and be 13.', ['Sec-WebSocket-Version', '13']);
  }
  if (keys.length !== 1 || !KEY.test(key)) return fault('Sec-WebSocket-Key must come once: 16 bytes in base64.');
  return { kind: 'upgrade', protocol, key };
}

function fault(message: string, fields: readonly string[] = []): UpgradeForm {
  return { kind: 'fault', error: errorAnswer('invalid_request', message, { fields }) };
}
