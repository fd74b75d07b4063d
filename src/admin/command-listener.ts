import { createServer } from 'node:http';
import { listeningAtPath } from '../io/listening.ts';
import { visible } from '../operations/operation-values.ts';
import type { AdminApi } from './api.ts';
import type { Identity } from './call.ts';

/** How long requests that are under way when the gateway stops may take, milliseconds. */
const CLOSING_MS = 2_000;
/** As on the admin port. Node.js looks for late requests once in the interval. */
const TIMEOUTS = { headersTimeout: 5_000, requestTimeout: 10_000, connectionsCheckingInterval: 1_000 };
/**
 * Fault: a script runs a thousand commands at once, or opens connections and leaves them. They would take the open files of the callers.
 */
export const COMMAND_CONNECTIONS = 64;

/**
 * Serves the admin API on a Unix socket, to the commands of the user who may connect there. That user can read the store as well, so no token
 * is asked for, and the record of changes has the user whom the command names.
 * @returns a function that stops it, waits for requests that are under way, and removes the socket by its path
 * @throws errors of the system
 */
export async function listenForCommands(path: string, api: AdminApi): Promise<() => Promise<void>> {
  const server = createServer(TIMEOUTS, (request, response) => {
    void api(request, response, undefined, shellOf(request.headers['tollgate-shell']));
  });
  server.maxConnections = COMMAND_CONNECTIONS;
  await listeningAtPath(server, path);
  return () =>
    new Promise((resolve) => {
      const cut = setTimeout(() => server.closeAllConnections(), CLOSING_MS);
      server.close(() => {
        clearTimeout(cut);
        resolve();
      });
      server.closeIdleConnections();
    });
}

/** Who runs a command, by what it says of itself: `user=jo&host=web-1`. */
function shellOf(field: string | readonly string[] = ''): Identity {
  const said = new URLSearchParams(String(field));
  const named = (part: string) => visible(said.get(part) || 'unknown');
  const shell = { kind: 'shell', user: named('user'), host: named('host') } as const;
  const { signal } = new AbortController();
  return { name: `${shell.user}@${shell.host}`, role: 'admin', kind: 'token', via: 'shell', shell, signal };
}
