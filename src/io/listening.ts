import type { Server } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { Failure } from '../failure.ts';

/**
 * Listens on an address.
 * @param variable the environment variable, or the setting, that chooses another port
 * @throws Failure `cannot_listen`, with the reason
 */
export function listening(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
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
    server.listen(port, host, 4096, resolve);
  });
}

/** How long clients that keep connecting may delay the end of a listener. */
const TAKE_MS = 1_000;

/**
 * Stops listening once every connection is accepted that the system holds ready. It resets those that are left when a listener
 * closes, although their clients have sent a request already.
 */
export async function closeOnceAccepted(server: Server): Promise<void> {
  const untilMs = performance.now() + TAKE_MS;
  let hasAccepted = true;
  server.on('connection', () => {
    hasAccepted = true;
  });
  // Node accepts one connection each time it reads what has arrived, which it does between the first turn and the second.
  while (hasAccepted && performance.now() < untilMs) {
    hasAccepted = false;
    await turn();
    await turn();
  }
  server.close();
}

/** The URL of a listener for programs on this machine. A listener on every address is reached over loopback. */
export function urlOfListener(host: string, port: number, scheme: 'http' | 'https' = 'http'): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
