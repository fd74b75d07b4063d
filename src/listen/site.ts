import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { urlOfListener } from '../io/listening.ts';

/** A page, a style or a picture. */
export interface SiteAnswer {
  readonly type: string;
  readonly body: string | Buffer;
}

/**
 * Serves pages for the browser of the person who started the command, on loopback until SIGINT or SIGTERM.
 * @param answer makes the answer to a path, with `q` of its query; null if there is no such page
 * @param port 0 for a free one
 * @throws Error EADDRINUSE
 */
export async function serveSite(
  answer: (path: string, q: string | null) => SiteAnswer | null,
  port: number,
): Promise<{ readonly url: string; readonly ended: Promise<void> }> {
  const server = createServer((request, response) => {
    // Attack: a page of the internet that is open in the same browser has a name for 127.0.0.1 and reads along. It learns what everyone may read.
    const { pathname, searchParams } =
      URL.parse(request.url ?? '/', 'http://localhost') ?? new URL('http://localhost/');
    const found = request.method === 'GET' ? answer(pathname, searchParams.get('q')) : null;
    const { type, body } = found ?? { type: 'text/plain', body: 'There is no such page.\n' };
    response.writeHead(found === null ? 404 : 200, {
      'Content-Type': type,
      'Content-Security-Policy': "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'",
      'X-Content-Type-Options': 'nosniff',
    });
    response.end(body);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const ended = new Promise<void>((resolve) => {
    const end = () => {
      server.closeAllConnections();
      server.close(() => resolve());
    };
    process.once('SIGINT', end);
    process.once('SIGTERM', end);
  });
  return { url: urlOfListener('127.0.0.1', (server.address() as AddressInfo).port), ended };
}
