import { visible } from '../operations/input-values.ts';
import { type AdminResponse, errorResponse } from './response.ts';

/** Which page of a list a request asks for. */
export interface Page {
  readonly limit: number;
  readonly cursor: string | null;
}

const DEFAULT_PAGE = 100;
const LARGEST_PAGE = 1_000;

/**
 * Reads the query of a list: `limit`, `cursor`, and the further parameters of this list.
 * @param more the names of the further parameters; in `given`, each is null if the client did not send it
 */
export function readPage<More extends string>(
  query: URLSearchParams,
  more: readonly More[],
): (Page & { readonly given: Readonly<Record<More, string | null>> }) | { readonly refusal: AdminResponse } {
  const known: readonly string[] = ['limit', 'cursor', ...more];
  for (const name of query.keys()) {
    if (!known.includes(name)) {
      return invalidQuery(`There is no parameter "${visible(name)}"; there are ${known.join(', ')}.`);
    }
    if (query.getAll(name).length > 1) return invalidQuery(`${name} is given more than once.`);
  }
  const limit = query.get('limit') ?? String(DEFAULT_PAGE);
  if (!/^[1-9][0-9]{0,3}$/.test(limit) || Number(limit) > LARGEST_PAGE) {
    return invalidQuery(`limit must be a whole number from 1 to ${LARGEST_PAGE}.`);
  }
  const given = Object.fromEntries(more.map((name) => [name, query.get(name)])) as Record<More, string | null>;
  return { limit: Number(limit), cursor: query.get('cursor'), given };
}

/** The Link field with the URL of the next page (RFC 8288). */
export function linkToNext(path: string, query: URLSearchParams, cursor: string | null): Record<string, string> {
  if (cursor === null) return {};
  const next = new URLSearchParams(query);
  next.set('cursor', cursor);
  return { Link: `<${path}?${next}>; rel="next"` };
}

export function invalidQuery(message: string): { readonly refusal: AdminResponse } {
  return { refusal: errorResponse('invalid_request', message) };
}
