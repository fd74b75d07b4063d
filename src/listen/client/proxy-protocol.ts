import { isIPv4, isIPv6, type Socket } from 'node:net';
import { oneForm } from './address.ts';

/** The client of a connection, as a proxy names it. */
export interface Source {
  /** In its one form. */
  readonly address: string;
  readonly port: number;
}

export type ProxyHeader =
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
const LONGEST_1 = 107;
/** Maximum length of a version 2 header with all its TLVs. Every receiver must accept 536 bytes. */
const LONGEST_2 = 4_096;
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
  const end = bytes.subarray(0, LONGEST_1).indexOf('\r\n');
  if (end === -1) return bytes.length < LONGEST_1 ? PARTIAL : FAULT;
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
  if ((command !== 0x20 && command !== 0x21) || length > LONGEST_2) return FAULT;
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
  let held: Buffer = Buffer.alloc(0);
  const refuse = () => {
    refused();
    socket.destroy();
  };
  const late = setTimeout(refuse, timeoutMs);
  const leave = () => {
    clearTimeout(late);
    socket.removeListener('readable', look);
    socket.removeListener('end', refuse);
    socket.removeListener('close', leave);
  };
  const look = () => {
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) return;
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const header = readProxyHeader(held);
    if (header.kind === 'partial') return;
    leave();
    if (header.kind === 'fault') return refuse();
    if (header.bytes < held.length) socket.unshift(held.subarray(header.bytes));
    // Node has to notice first that the last `readable` listener was removed.
    process.nextTick(() => {
      if (!socket.destroyed) done(header.source);
    });
  };
  socket.on('readable', look);
  socket.once('end', refuse);
  socket.once('close', leave);
}

/** Sets the remote address and port of a connection. */
export function comesFrom(socket: Socket, { address, port }: Source): void {
  Object.defineProperties(socket, {
    remoteAddress: { value: address },
    remotePort: { value: port },
    remoteFamily: { value: isIPv6(address) ? 'IPv6' : 'IPv4' },
  });
}
