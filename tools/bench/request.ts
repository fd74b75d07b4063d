/** Which keys a load comes with: good ones, one whose day is spent, one that is banned, or made-up ones. */
export type KeyKind = 'good' | 'spent' | 'banned' | 'made-up' | 'unknown';

/** What stands for the key in the target or in a header field. */
export const KEY = '{key}';

/** The request that a load repeats. */
export interface LoadRequest {
  readonly method: 'GET' | 'POST';
  /** Path and query. */
  readonly target: string;
  /** Without Host and Content-Length. */
  readonly headers: Readonly<Record<string, string>>;
  /** ASCII; empty: none. */
  readonly body: string;
}

/** What each answer must be. */
export interface Expected {
  readonly status: number;
  /** A header field that must be there with this value, its name as the gateway writes it; null: any. */
  readonly field: readonly [name: string, value: string] | null;
  /** Length of the body once it is decoded; null where it differs from answer to answer. */
  readonly bodyBytes: number | null;
}

/** The load on one contestant. */
export interface OwnLoad {
  readonly request: LoadRequest;
  readonly keyKind: Extract<KeyKind, 'good' | 'spent'>;
  /** Each answer is compared with this, so that a measurement of wrong answers is invalid. */
  readonly expects: Expected;
}

interface Requesting {
  readonly method: LoadRequest['method'];
  readonly path: string;
  readonly bodyBytes: number;
}

/** The request of a scenario whose contestants all have the same load. */
export function requestOf({ method, path, bodyBytes }: Requesting): LoadRequest {
  const type = bodyBytes > 0 ? { 'Content-Type': 'application/json' } : {};
  return { method, target: path, headers: { ...bearer(), ...type }, body: 'x'.repeat(bodyBytes) };
}

/** The field in which a key usually comes. */
export function bearer(): { readonly Authorization: string } {
  return { Authorization: `Bearer ${KEY}` };
}

/** The request as HTTP/1.1, with `{key}` still in it: loaders/wrk.lua puts the keys there. */
export function messageOf({ method, target, headers, body }: LoadRequest, port: number): string {
  const fields = Object.entries({ Host: `127.0.0.1:${port}`, ...headers });
  if (body !== '') fields.push(['Content-Length', String(body.length)]);
  return `${method} ${target} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`;
}

/** The request with a key in it. */
export function withKey(request: LoadRequest, key: string): LoadRequest {
  const put = (text: string) => text.replaceAll(KEY, key);
  const headers = Object.entries(request.headers).map(([name, value]) => [name, put(value)] as const);
  return { ...request, target: put(request.target), headers: Object.fromEntries(headers) };
}
