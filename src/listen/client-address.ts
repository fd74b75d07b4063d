import { isIPv4, isIPv6, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import ipaddr from 'ipaddr.js';
import type { ClientAddress, ClientCertificate, ClientRequest, ServesHost } from '../http1/client.ts';
import { valuesOf } from '../http1/fields.ts';
import { Networks, parseAddress } from '../io/networks.ts';
import { clientCertificateOf } from '../model/client-certificates.ts';
import { takeFirstBytes } from './first-bytes.ts';

/**
 * Finds the client's address: the address of the peer or, if the peer is a trusted proxy, the rightmost address in
 * X-Forwarded-For that does not belong to a trusted proxy. IPv4-mapped IPv6 addresses become IPv4, so that each address
 * has one form. With the PROXY protocol, the peer is the client that the PROXY header names, not the proxy that sent
 * the header.
 *
 * Attack: a client sends its own X-Forwarded-For to get a new failed-authentication budget with each request, or to
 * have another client's address logged. So the field is read only if the peer itself is trusted, and only from right to
 * left.
 */
export class ClientAddresses {
  readonly #trusted: Networks;
  /** By connection. The peer of a connection does not change, so its address is read once. */
  readonly #peers = new WeakMap<object, ClientAddress>();
  /** By TLS connection. */
  readonly #certificates = new WeakMap<object, ClientCertificate | null>();

  /** @param trusted addresses and networks (`10.0.0.0/8`, `::1`), already checked */
  constructor(trusted: readonly string[]) {
    this.#trusted = new Networks(trusted);
  }

  of(request: Pick<ClientRequest, 'socket' | 'rawHeaders'>): ClientAddress {
    const peer = this.#peerOf(request);
    return peer.trustedPeer ? { ...peer, address: this.#addressBehind(peer.address, request.rawHeaders) } : peer;
  }

  #peerOf({ socket }: Pick<ClientRequest, 'socket'>): ClientAddress {
    const known = this.#peers.get(socket);
    if (known !== undefined) return known;
    const address = oneForm(socket.remoteAddress ?? '') ?? '0.0.0.0';
    const { encrypted, httpVersion = null } = socket as { encrypted?: boolean; httpVersion?: string };
    const scheme = encrypted === true ? 'https' : 'http';
    const connection = (socket as { carrier?: object }).carrier ?? socket;
    const peer: ClientAddress = {
      address,
      peer: address,
      trustedPeer: this.#trusted.has(address),
      scheme,
      httpVersion,
      certificate: this.#certificateOf(connection),
      servesHost: (connection as { servesHost?: ServesHost | null }).servesHost ?? null,
    };
    this.#peers.set(socket, peer);
    return peer;
  }

  /** @param connection that of a session for a stream of HTTP/2: its certificate is read once, not for each stream */
  #certificateOf(connection: Partial<TLSSocket>): ClientCertificate | null {
    // Node.js sets it only where a certificate was asked for, and found no fault in it.
    if (connection.authorized !== true) return null;
    const known = this.#certificates.get(connection);
    if (known !== undefined) return known;
    const shown = connection.getPeerX509Certificate?.();
    const certificate = shown === undefined ? null : clientCertificateOf(shown);
    this.#certificates.set(connection, certificate);
    return certificate;
  }

  #addressBehind(peer: string, rawHeaders: readonly string[]): string {
    const hops = valuesOf(rawHeaders, 'x-forwarded-for').flatMap((value) => value.split(','));
    let client = peer;
    for (const hop of hops.reverse()) {
      const address = oneForm(hop.trim());
      if (address === null) break;
      client = address;
      if (!this.#trusted.has(address)) break;
    }
    return client;
  }
}

/** `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]:443`; some proxies write the port. */
const FORMS =
  /^(?:([0-9.]+)(?::[0-9]{1,5})?|\[([0-9a-fA-F:.]+(?:%[^\]]*)?)\](?::[0-9]{1,5})?|([0-9a-fA-F.]*:[0-9a-fA-F:.]*)(?:%.*)?)$/;
/** Four decimal numbers: ipaddr.js would also read `010.1.1.1` as octal, and `10` as an address. */
const IPV4 = /^(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})$/;
const CANONICAL_IPV4 =
  /^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$/;

/**
 * The one form of an address: IPv4-mapped IPv6 becomes IPv4; brackets, port and zone are removed. Null if not an
 * address.
 */
export function oneForm(text: string): string | null {
  // The form in which most addresses come. ipaddr.js takes 5 KB and 5 µs to find that.
  if (CANONICAL_IPV4.test(text)) return text;
  const [, ipv4, bracketed, ipv6] = FORMS.exec(text) ?? [];
  const bare = (ipv4 ?? bracketed ?? ipv6)?.split('%')[0];
  if (bare === undefined || (ipv4 !== undefined && !IPV4.test(ipv4)) || !ipaddr.isValid(bare)) return null;
  const address = parseAddress(bare);
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress();
  return (isMapped ? address.toIPv4Address() : address).toString();
}

/** The client of a connection, as a proxy names it. */
export interface Source {
  /** In its one form. */
  readonly address: string;
  readonly port: number;
}

type ProxyHeader =
  /** Valid so far, but incomplete. */
  | { readonly kind: 'partial' }
  | { readonly kind: 'fault' }
  /**
   * `source` is null if the header names none (LOCAL, UNKNOWN, Unix sockets); the socket's own address then applies.
   */
  | { readonly kind: 'header'; readonly bytes: number; readonly source: Source | null };

const SIGNATURE_1 = Buffer.from('PROXY ');
const SIGNATURE_2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
/** Maximum length of a version 1 header, including its CRLF. */
const MAX_V1_BYTES = 107;
/** Maximum length of a version 2 header with all its TLVs. Every receiver must accept 536 bytes. */
const MAX_V2_BYTES = 4_096;
const HEADER_2_BYTES = 16;

const FAULT: ProxyHeader = { kind: 'fault' };
const PARTIAL: ProxyHeader = { kind: 'partial' };

/**
 * Reads the header with which a connection begins under HAProxy's PROXY protocol, version 1 or 2
 * (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt). A doubtful header is a fault: nothing is guessed.
 */
export function readProxyHeader(bytes: Buffer): ProxyHeader {
  if (startsLike(bytes, SIGNATURE_1)) return bytes.length < SIGNATURE_1.length ? PARTIAL : readVersion1(bytes);
  if (startsLike(bytes, SIGNATURE_2)) return bytes.length < HEADER_2_BYTES ? PARTIAL : readVersion2(bytes);
  return FAULT;
}

/** Whether the bytes received so far match the signature. */
function startsLike(bytes: Buffer, signature: Buffer): boolean {
  const length = Math.min(bytes.length, signature.length);
  return bytes.compare(signature, 0, length, 0, length) === 0;
}

const ADDRESSES_1 = /^PROXY TCP([46]) ([0-9a-fA-F.:]{2,39}) ([0-9a-fA-F.:]{2,39}) ([0-9]{1,5}) ([0-9]{1,5})$/;

function readVersion1(bytes: Buffer): ProxyHeader {
  const end = bytes.subarray(0, MAX_V1_BYTES).indexOf('\r\n');
  if (end === -1) return bytes.length < MAX_V1_BYTES ? PARTIAL : FAULT;
  const line = bytes.toString('latin1', 0, end);
  if (line === 'PROXY UNKNOWN' || line.startsWith('PROXY UNKNOWN ')) {
    return { kind: 'header', bytes: end + 2, source: null };
  }
  const [, family, from = '', to = '', fromPort = '', toPort = ''] = ADDRESSES_1.exec(line) ?? [];
  const isAddress = family === '4' ? isIPv4 : isIPv6;
  if (family === undefined || !isAddress(from) || !isAddress(to) || !isPort(fromPort) || !isPort(toPort)) return FAULT;
  return { kind: 'header', bytes: end + 2, source: { address: oneForm(from)!, port: Number(fromPort) } };
}

function isPort(digits: string): boolean {
  return /^(?:0|[1-9][0-9]*)$/.test(digits) && Number(digits) <= 65_535;
}

function readVersion2(bytes: Buffer): ProxyHeader {
  const [command, family, length] = [bytes[12]!, bytes[13]!, HEADER_2_BYTES + bytes.readUInt16BE(14)];
  if ((command !== 0x20 && command !== 0x21) || length > MAX_V2_BYTES) return FAULT;
  const source = command === 0x20 ? NOWHERE : SOURCES_2[family];
  if (source === undefined || length < HEADER_2_BYTES + source.least) return FAULT;
  return bytes.length < length ? PARTIAL : { kind: 'header', bytes: length, source: source.read(bytes) };
}

interface Family {
  /** Bytes that the addresses and ports of this family take. */
  readonly least: number;
  read(bytes: Buffer): Source | null;
}

const NOWHERE: Family = { least: 0, read: () => null };

/** By the byte for family and transport. Datagram transports are left out, because this connection is a stream. */
const SOURCES_2: Readonly<Record<number, Family>> = {
  0: NOWHERE,
  17: {
    least: 12,
    read: (bytes) => ({ address: [...bytes.subarray(16, 20)].join('.'), port: bytes.readUInt16BE(24) }),
  },
  33: {
    least: 36,
    read: (bytes) => {
      const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(16 + 2 * i).toString(16));
      return { address: oneForm(groups.join(':'))!, port: bytes.readUInt16BE(48) };
    },
  },
  49: { least: 216, read: () => null },
};

/**
 * Reads the PROXY header of a connection, and nothing after it.
 *
 * Attack: a peer that may send this header chooses the address that is logged and whose budgets are used. So the header
 * is read only from trusted proxies, and each of them must begin every connection with it. If a proxy sends anything
 * else, or no complete header in time, its connection is closed without a response.
 *
 * @param done called with the client that the header names; the next byte read from the connection is the one after the
 * header
 */
export function takeProxyHeader(
  socket: Socket,
  { timeoutMs, refused, done }: { timeoutMs: number; refused: () => void; done: (source: Source | null) => void },
): void {
  const read = (held: Buffer) => {
    const header = readProxyHeader(held);
    return header.kind === 'header' ? { value: header.source, bytes: header.bytes } : header.kind;
  };
  takeFirstBytes(socket, { timeoutMs, refused, read, done });
}

/** Says for which hosts a connection is; null: for all. */
export function isFor(socket: Socket, servesHost: ServesHost | null): void {
  Object.defineProperty(socket, 'servesHost', { value: servesHost });
}

/** Sets the remote address and port of a connection. */
export function comesFrom(socket: Socket, { address, port }: Source): void {
  Object.defineProperties(socket, {
    remoteAddress: { value: address },
    remotePort: { value: port },
    remoteFamily: { value: isIPv6(address) ? 'IPv6' : 'IPv4' },
  });
}
