import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { urlOfListener } from '../io/listening.ts';

/** A page, a style or a picture. */
export interface SiteAnswer {
  readonly type: string;
  readonly body: string | Buffer;
}

type Answer = (path: string, q: string | null) => SiteAnswer | null;

function answered({ method, url = '/', headers }: IncomingMessage, answer: Answer): SiteAnswer & { status: number } {
  const text = (status: number, body: string) => ({ status, type: 'text/plain', body: `${body}\n` });
  // Attack: a page of the internet that is open in the same browser has given 127.0.0.1 a name of its own.
  if (!/^(?:127\.0\.0\.1|localhost)(?::\d+)?$/.test(headers.host ?? '')) return text(421, 'Ask for 127.0.0.1.');
  const { pathname, searchParams } = URL.parse(url, 'http://localhost') ?? new URL('http://localhost/');
  try {
    const found = method === 'GET' || method === 'HEAD' ? answer(pathname, searchParams.get('q')) : null;
    return found === null ? text(404, 'There is no such page.') : { status: 200, ...found };
  } catch (error) {
    // An upgrade may replace the files at this moment.
    return text(500, `This page cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Serves pages for the browser of the person who started the command, on loopback until SIGINT or SIGTERM.
 * @param answer makes the answer to a path, with `q` of its query; null if there is no such page
 * @param port 0 for a free one
 * @throws Error with a `code` such as EADDRINUSE
 */
export async function serveSite(
  answer: Answer,
  port: number,
): Promise<{ readonly url: string; readonly ended: Promise<void> }> {
  const server = createServer((request, response) => {
    const { status, type, body } = answered(request, answer);
    response.writeHead(status, {
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
