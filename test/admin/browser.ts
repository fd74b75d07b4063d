import { request as httpRequest, type OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';

export interface Seen {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  // biome-ignore lint/suspicious/noExplicitAny: a response is looked at as a stranger would, member by member
  readonly body: any;
}

/** Sends a request with exactly these fields, as a browser could. An array sends a field several times. */
export function send(
  url: string,
  method = 'GET',
  headers: OutgoingHttpHeaders = {},
  {
    body,
    ca,
    own = {},
  }: { readonly body?: unknown; readonly ca?: string; readonly own?: { cert?: string; key?: string } } = {},
): Promise<Seen> {
  const { promise, resolve, reject } = Promise.withResolvers<Seen>();
  const text = body === undefined ? '' : JSON.stringify(body);
  const length = body === undefined ? {} : { 'Content-Length': Buffer.byteLength(text) };
  const options = {
    method,
    agent: false as const,
    headers: { ...length, ...headers },
    ...(ca === undefined ? {} : { ca }),
    ...own,
  };
  const request = (url.startsWith('https') ? httpsRequest : httpRequest)(url, options, (response) => {
    let answer = '';
    response.setEncoding('utf8').on('data', (part: string) => {
      answer += part;
    });
    response.on('end', () => {
      const isJson = response.headers['content-type'] === 'application/json' && answer !== '';
      resolve({ status: response.statusCode!, headers: response.headers, body: isJson ? JSON.parse(answer) : answer });
    });
  });
  request.on('error', reject);
  request.end(text);
  return promise;
}

export const JSON_TYPE = { 'Content-Type': 'application/json' };
/** What a browser adds to a request of the console's own page. */
export const SAME_ORIGIN = { ...JSON_TYPE, 'Sec-Fetch-Site': 'same-origin' };

/** Signs in, and gives the cookie as a browser would send it. */
export async function signIn(origin: string, token: string, ca?: string): Promise<string> {
  const { status, headers } = await send(`${origin}/admin/session`, 'POST', SAME_ORIGIN, {
    body: { token },
    ...(ca === undefined ? {} : { ca }),
  });
  const [field = ''] = headers['set-cookie'] ?? [];
  if (status !== 200) throw new Error(`The sign-in was answered ${status}.`);
  return String(field).split(';')[0]!;
}
