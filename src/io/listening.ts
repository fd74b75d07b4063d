import type { Server } from 'node:net';
import { Failure } from '../failure.ts';

export interface ListeningAt {
  readonly host: string;
  readonly port: number;
}

interface ListeningOptions extends ListeningAt {
  /** Connections that may wait to be accepted. */
  readonly backlog?: number;
  /** Whether other listeners of this user may be on the same port. */
  readonly reusePort?: boolean;
}

/** The environment variable, or the setting, that chooses another port. */
type PortVariable = 'PORT' | 'ADMIN_PORT' | 'listen.tls.acme.httpPort';

/**
 * Listens on an address.
 * @throws Failure `cannot_listen`, with the reason
 */
export function listening(
  server: Server,
  { host, port, backlog = 4_096, reusePort = false }: ListeningOptions,
  variable: PortVariable,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(cannotListen({ host, port }, variable, error)));
    server.listen({ port, host, backlog, reusePort }, resolve);
  });
}

/** Listens on a Unix socket. @throws the error of the system */
export function listeningAtPath(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path }, resolve);
  });
}

export function cannotListen(
  { host, port }: ListeningAt,
  variable: PortVariable,
  error: NodeJS.ErrnoException,
): Failure {
  const why =
    error.code === 'EADDRINUSE'
      ? `it is in use; stop what uses it or choose another port in ${variable}`
      : `${error.code ?? error.message}`;
  return new Failure('cannot_listen', `Cannot listen on ${host}:${port}: ${why}.`, error);
}

/** The URL of a listener for programs on this machine. A listener on every address is reached over loopback. */
export function urlOfListener(host: string, port: number, scheme: 'http' | 'https' = 'http'): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
