import type { FieldBlock } from './field-block.ts';

/** Whether a request asks for another protocol. */
export type UpgradeForm =
  /** Asks for none, or for one that the gateway ignores and serves as plain HTTP (allowed by RFC 9110 section 7.8). */
  | { readonly kind: 'none' }
  | { readonly kind: 'upgrade'; readonly protocol: string; readonly key: string | null }
  /** @param fields of the response that refuses it, names and values alternating */
  | { readonly kind: 'fault'; readonly message: string; readonly fields: readonly string[] };

const NONE: UpgradeForm = { kind: 'none' };
const PROTOCOL = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:\/[!#$%&'*+.^_`|~0-9A-Za-z-]+)?$/;
/** 16 bytes in base64. Of the last of the 22 digits, four bits are unused and must be 0. */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/;

/**
 * Protocols that carry HTTP, or hide what they carry.
 *
 * Attack: over a connection that has switched to HTTP/2 in clear text (`h2c`), a client sends any number of requests to
 * the upstream that the gateway neither identifies nor counts.
 */
const CARRIES_HTTP = /^(?:h[23]|http|tls|ssl|spdy|quic)/i;

/**
 * Finds out whether a request asks for an upgrade, and whether it is valid: RFC 6455 section 4.2.1 for a WebSocket. A
 * malformed WebSocket handshake is refused rather than served in part.
 */
export function readUpgrade(
  method: string,
  httpVersion: string,
  body: 'none' | 'chunked' | 'length',
  connectionNames: ReadonlySet<string>,
  fields: FieldBlock,
): UpgradeForm {
  if (httpVersion !== '1.1' || !connectionNames.has('upgrade')) return NONE;
  const isPlainGet = method === 'GET' && body === 'none';
  const asked = readFields(fields.rawHeaders);
  const protocols = asked.upgrade.flatMap((value) => value.split(',')).map((name) => name.trim());
  const isWebSocket = protocols.some((name) => /^websocket(?:\/|$)/i.test(name));
  if (isWebSocket) return webSocketForm(isPlainGet, connectionNames, asked);
  const [protocol = ''] = protocols;
  const isTunnel = protocols.length === 1 && PROTOCOL.test(protocol) && !CARRIES_HTTP.test(protocol);
  return isTunnel && isPlainGet ? { kind: 'upgrade', protocol, key: null } : NONE;
}

interface UpgradeFields {
  readonly upgrade: readonly string[];
  readonly keys: readonly string[];
  readonly versions: readonly string[];
}

function readFields(rawHeaders: readonly string[]): UpgradeFields {
  const valuesOf = (name: string) =>
    rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name);
  return {
    upgrade: valuesOf('upgrade'),
    keys: valuesOf('sec-websocket-key'),
    versions: valuesOf('sec-websocket-version'),
  };
}

function webSocketForm(
  isPlainGet: boolean,
  connectionNames: ReadonlySet<string>,
  { upgrade, keys, versions }: UpgradeFields,
): UpgradeForm {
  const [protocol = ''] = upgrade;
  const [key = ''] = keys;
  if (upgrade.length !== 1 || protocol.toLowerCase() !== 'websocket') return fault('Upgrade must be websocket alone.');
  if (!isPlainGet) return fault('A WebSocket is asked for with GET, without a body.');
  if ([...connectionNames].some((name) => name.startsWith('sec-websocket-'))) {
    return fault('Connection must not list a field of the WebSocket handshake.');
  }
  if (versions.length !== 1 || versions[0] !== '13') {
    // The response names the supported version (RFC 6455 section 4.4).
    return fault('Sec-WebSocket-Version must come once and be 13.', ['Sec-WebSocket-Version', '13']);
  }
  if (keys.length !== 1 || !KEY.test(key)) return fault('Sec-WebSocket-Key must come once: 16 bytes in base64.');
  return { kind: 'upgrade', protocol, key };
}

function fault(message: string, fields: readonly string[] = []): UpgradeForm {
  return { kind: 'fault', message, fields };
}
