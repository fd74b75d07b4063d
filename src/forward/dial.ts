import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { DeadlineError } from './faults.ts';
import type { Intake } from './intake.ts';

/** How an upstream's certificate is checked, and what the gateway shows of itself. PEM texts. */
export interface UpstreamTls {
  /** Null: the authorities that Node trusts. */
  readonly ca: string | null;
  readonly cert: string | null;
  readonly key: string | null;
  /** The name that the certificate must have; null: the target's host. */
  readonly serverName: string | null;
  readonly verify: boolean;
}

export interface DialOptions {
  readonly connectTimeoutMs: number;
  /** Null: as Node does it by itself, verification on. */
  readonly tls: UpstreamTls | null;
  /** Resolves names anew for each connection; Node's own where it is left out. */
  readonly lookup?: LookupFunction;
}

/** Where a target is, as it is written in gateway.yaml. */
export type Address =
  | { readonly kind: 'http' | 'https'; readonly host: string; readonly port: number; readonly authority: string }
  | { readonly kind: 'unix'; readonly path: string; readonly authority: string };

/**
 * @param target `http://host:port`, `https://host:port` or `unix:/path/to.sock`, checked before
 */
export function addressOf(target: string): Address {
  if (target.startsWith('unix:')) return { kind: 'unix', path: target.slice(5), authority: 'localhost' };
  const { protocol, hostname, port, host } = new URL(target);
  const kind = protocol === 'https:' ? 'https' : 'http';
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  return { kind, host: bare, port: Number(port) || (kind === 'https' ? 443 : 80), authority: host };
}

/**
 * Opens a connection, to the end of the TLS handshake, within `connectTimeoutMs`. One of the two is called, once, and
 * never before this returns.
 * @param intake where what comes on the connection goes, not for https; null: the socket is read as a stream
 * @returns a way to give up: neither is called after it
 */
export function dial(
  address: Address,
  options: DialOptions,
  connected: (socket: Socket) => void,
  failed: (error: Error) => void,
  intake: Intake | null = null,
): () => void {
  const socket = open(address, options, intake);
  // It stays until the socket is closed. The listeners of those who use the socket come and go, and an error at a moment
  // when there is none would end the process.
  socket.on('error', () => {});
  const standing = address.kind === 'https' ? 'secureConnect' : 'connect';
  const ended = () => {
    clearTimeout(timer);
    socket.removeListener('error', fail);
    socket.removeListener('close', onClose);
    socket.removeListener(standing, onStanding);
  };
  const fail = (error: Error) => {
    ended();
    socket.destroy();
    failed(error);
  };
  const onClose = () => fail(new Error('the connection was closed before it stood'));
  const onStanding = () => {
    ended();
    connected(socket);
  };
  const timer = setTimeout(
    () => fail(new DeadlineError('connect', options.connectTimeoutMs)),
    options.connectTimeoutMs,
  );
  socket.on('error', fail);
  socket.on('close', onClose);
  socket.on(standing, onStanding);
  return () => {
    ended();
    socket.destroy();
  };
}

function open(address: Address, { tls, lookup }: DialOptions, intake: Intake | null): Socket {
  const onread = intake === null ? {} : { onread: intake.onread };
  if (address.kind === 'unix') return connectTcp({ path: address.path, ...onread });
  const { host, port } = address;
  const to = { host, port, noDelay: true, keepAlive: true, ...(lookup === undefined ? {} : { lookup }) };
  if (address.kind === 'http') return connectTcp({ ...to, ...onread });
  return connectTls({ ...to, ALPNProtocols: ['http/1.1'], ...tlsOptions(host, tls) });
}

/** What Node is told of the certificates: the target's is checked unless the settings say otherwise. */
export function tlsOptions(host: string, tls: UpstreamTls | null): ConnectionOptions {
  const servername = tls?.serverName ?? (isIP(host) === 0 ? host : undefined);
  return {
    rejectUnauthorized: tls?.verify ?? true,
    ...(servername === undefined ? {} : { servername }),
    ...(tls?.ca ? { ca: tls.ca } : {}),
    ...(tls?.cert && tls.key ? { cert: tls.cert, key: tls.key } : {}),
  };
}
