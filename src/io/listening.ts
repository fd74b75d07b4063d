import type { Server } from 'node:net';
import { Failure } from '../failure.ts';

interface ListeningOptions {
  readonly host: string;
  readonly port: number;
  /** Connections that may wait to be accepted. */
  readonly backlog?: number;
  /** Whether other listeners of this user may be on the same port. */
  readonly reusePort?: boolean;
}

/**
 * Listens on an address.
 * @param variable the environment variable, or the setting, that chooses another port
 * @throws Failure `cannot_listen`, with the reason
 */
export function listening(
  server: Server,
  { host, port, backlog = 4_096, reusePort = false }: ListeningOptions,
  variable: 'PORT' | 'ADMIN_PORT' | 'listen.tls.acme.httpPort',
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const why =
        error.code === 'EADDRINUSE'
          ? `it is in use; stop what uses it or choose another port in ${variable}`
          : `${error.code ?? error.message}`;
      reject(new Failure('cannot_listen', `Cannot listen on ${host}:${port}: ${why}.`, error));
    });
    server.listen({ port, host, backlog, reusePort }, resolve);
  });
}

/** The URL of a listener for programs on this machine. A listener on every address is reached over loopback. */
export function urlOfListener(host: string, port: number, scheme: 'http' | 'https' = 'http'): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
