import { connect as connectTcp, isIP, type NetConnectOpts, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { ReplyDeadlines } from '../../io/deadlines.ts';
import { outliveFailedWrites } from '../../io/node-internals.ts';
import { type Intake, SharedBufferSocket } from '../../io/read-buffers.ts';
import { type Lookup, NAMES } from '../../io/resolver.ts';
import { NO_PAYER, TlsCarrier } from '../../io/tls-carrier.ts';
import { DeadlineError } from '../faults.ts';

/** How the gateway checks an upstream's certificate, and the certificate it presents itself. In PEM form. */
export interface UpstreamTls {
  /** Null for the authorities that Node trusts. */
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  /** The name that the certificate must have; null for the target's host. */
  readonly serverName: string | null;
  readonly verify: boolean;
}

/** What a target speaks: HTTP/1.1, or HTTP/2 over TLS (`h2`) or without it (`h2c`, with prior knowledge: RFC 9113 section 3.3). */
type UpstreamProtocol = 'http1' | 'h2' | 'h2c';

export interface DialOptions {
  /** Left out for HTTP/1.1. */
  readonly protocol?: UpstreamProtocol;
  readonly connectTimeoutMs: number;
  /** Null for Node's defaults, with verification. */
  readonly tls: UpstreamTls | null;
  /** Resolves the host name of each new connection; by default with the other names of this process. */
  readonly lookup?: Lookup;
}

/** The address of a target, parsed from gateway.yaml. `base` comes in front of each path: `/store`, mostly empty. */
export type UpstreamAddress =
  | {
      readonly kind: 'http' | 'https';
      readonly host: string;
      readonly port: number;
      readonly authority: string;
      readonly base: string;
    }
  | { readonly kind: 'unix'; readonly path: string; readonly authority: string; readonly base: string };

/** @param target `http://host:port`, `https://host:port/base` or `unix:/path/to.sock`, already checked */
export function addressOf(target: string): UpstreamAddress {
  if (target.startsWith('unix:')) return { kind: 'unix', path: target.slice(5), authority: 'localhost', base: '' };
  const { protocol, hostname, port, host } = new URL(target);
  const kind = protocol === 'https:' ? 'https' : 'http';
  // As it was written: `URL` would change some characters.
  const base = target.replace(/^https?:\/\/[^/]+/, '').replace(/\/$/, '');
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return { kind, host: bare, port: Number(port) || (kind === 'https' ? 443 : 80), authority: host, base };
}

/**
 * A handshake may take this much of a service: a chain has 2 to 16 KiB, and a service that asks for a certificate may name its authorities.
 *
 * Attack: OpenSSL checks a chain of certificates at once, before any JavaScript runs. 66 of them with a long exponent took 320 ms.
 */
const HANDSHAKE_BYTES = 32 * 1024;

/** A stall of this thread counts as 25 ms at most, because a handshake takes several replies, one after the other. */
const DEADLINES = new ReplyDeadlines();

/**
 * Opens a connection, including the TLS handshake, within `connectTimeoutMs`. Calls either `connected` or `failed`,
 * once, and never before this function returns.
 * @param intake delivers the bytes received, over https from the handshake on; null if the socket is read as a stream, in turn as those of clients
 * @returns a function that gives up, after which neither callback is called
 */
export function dial(
  address: UpstreamAddress,
  options: DialOptions,
  connected: (socket: Socket) => void,
  failed: (error: Error) => void,
  intake: Intake | null = null,
): () => void {
  const socket = open(address, options, intake);
  // This listener stays until the socket is closed. The users of the socket add and remove their own, and an error
  // without any listener would end the process.
  socket.on('error', () => {});
  const readyEvent = address.kind === 'https' ? 'secureConnect' : 'connect';
  const removeListeners = () => {
    deadline.cancel();
    socket.removeListener('error', fail);
    socket.removeListener('close', onClose);
    socket.removeListener(readyEvent, onReady);
  };
  const fail = (error: Error) => {
    removeListeners();
    socket.destroy();
    failed(error);
  };
  const onClose = () => fail(new Error('the connection was closed before it stood'));
  const onReady = () => {
    removeListeners();
    connected(socket);
  };
  const onLate = () => {
    const host = address.kind === 'unix' ? '' : address.host;
    fail(new DeadlineError('connect', options.connectTimeoutMs, NAMES.isAsking(host) ? host : null));
  };
  const deadline = DEADLINES.set(onLate, options.connectTimeoutMs);
  socket.on('error', fail);
  socket.on('close', onClose);
  socket.on(readyEvent, onReady);
  return () => {
    removeListeners();
    socket.destroy();
  };
}

function open(address: UpstreamAddress, options: DialOptions, intake: Intake | null): Socket {
  const { protocol = 'http1', tls, lookup = NAMES.lookup } = options;
  const connectTo = (to: NetConnectOpts) => {
    // node:http2 reads it below JavaScript.
    if (protocol === 'h2c') return connectTcp(to);
    return intake === null ? SharedBufferSocket.to(to) : connectTcp({ ...to, onread: intake.onread });
  };
  if (address.kind === 'unix') return connectTo({ path: address.path });
  const { host, port } = address;
  const to = { host, port, noDelay: true, keepAlive: true, lookup };
  if (address.kind === 'http') return connectTo(to);
  const ALPNProtocols = [protocol === 'h2' ? 'h2' : 'http/1.1'];
  return encrypted(SharedBufferSocket.to(to), { host, ALPNProtocols, ...tlsOptions(host, tls) });
}

function encrypted(raw: SharedBufferSocket, options: ConnectionOptions): Socket {
  // The user of the encrypted side decides whether it outlives a failed write, and closes both.
  outliveFailedWrites(raw, () => true);
  const carrier = new TlsCarrier(raw, () => {}, NO_PAYER, HANDSHAKE_BYTES);
  const socket = connectTls({ ...options, socket: carrier });
  socket.allowHalfOpen = false;
  return socket.once('secureConnect', () => carrier.secure(socket));
}

/** Node's options for certificates. The target's certificate is checked unless the settings turn that off. */
export function tlsOptions(host: string, tls: UpstreamTls | null): ConnectionOptions {
  const servername = tls?.serverName ?? (isIP(host) === 0 ? host : undefined);
  return {
    rejectUnauthorized: tls?.verify ?? true,
    ...(servername === undefined ? {} : { servername }),
    ...(tls?.ca ? { ca: tls.ca } : {}),
    ...(tls?.cert && tls.key ? { cert: tls.cert, key: tls.key } : {}),
  };
}
