import { visible } from '../identify/visible.ts';
import { type Answer, refuse } from './answer.ts';

/** A page of a list that is asked for. */
export interface Page {
  readonly limit: number;
  readonly cursor: string | null;
}

const DEFAULT_PAGE = 100;
const LARGEST_PAGE = 1_000;

/**
 * Reads the query of a list: `limit` and `cursor`, and whatever else this one has.
 * @param more further parameters; each is null in `given` where it was not sent
 */
export function readPage<More extends string>(
  query: URLSearchParams,
  more: readonly More[],
): (Page & { readonly given: Readonly<Record<More, string | null>> }) | { readonly refusal: Answer } {
  const known: readonly string[] = ['limit', 'cursor', ...more];
  for (const name of query.keys()) {
    if (!known.includes(name)) {
      return wrong(`There is no parameter "${visible(name)}"; there are ${known.join(', ')}.`);
    }
    if (query.getAll(name).length > 1) return wrong(`${name} is given more than once.`);
  }
  const limit = query.get('limit') ?? String(DEFAULT_PAGE);
  if (!/^[1-9][0-9]{0,3}$/.test(limit) || Number(limit) > LARGEST_PAGE) {
    return wrong(`limit must be a whole number from 1 to ${LARGEST_PAGE}.`);
  }
  const given = Object.fromEntries(more.map((name) => [name, query.get(name)])) as Record<More, string | null>;
  return { limit: Number(limit), cursor: query.get('cursor'), given };
}

/** The field that leads to the next page of a list (RFC 8288). */
export function linkToNext(path: string, query: URLSearchParams, cursor: string | null): Record<string, string> {
  if (cursor === null) return {};
  const next = new URLSearchParams(query);
  next.set('cursor', cursor);
  return { Link: `<${path}?${next}>; rel="next"` };
}

export function wrong(message: string): { readonly refusal: Answer } {
  return { refusal: refuse('invalid_request', message) };
}
