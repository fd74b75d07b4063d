import {
  type Checked,
  fault,
  INT64_MIN,
  isPetStatus,
  PET_STATUSES,
  type PetStatus,
  parseInt64,
  passed,
} from './pet.ts';

/** The parameters of `GET /v1/pets`. `status` null: animals in any state. `firstId`: the lowest id of the page. */
export interface ListQuery {
  readonly limit: number;
  readonly status: PetStatus | null;
  readonly firstId: bigint;
}

/**
 * Parses the query of `GET /v1/pets` (interface section 4.1: limit 1 to 100, default 20; contract section 8: cursor).
 * A parameter that is given twice is refused as ambiguous. Unknown parameters are ignored: the interface does not forbid
 * them, and clients add their own (cache busters, tracking).
 * @param search the query without its question mark, or the empty string
 */
export function parseListQuery(search: string): Checked<ListQuery> {
  const given = new URLSearchParams(search);
  for (const name of ['limit', 'status', 'cursor']) {
    if (given.getAll(name).length > 1) return fault(`${name} is given more than once in the query.`);
  }
  const limit = given.get('limit') ?? '20';
  if (!/^(?:[1-9]\d?|100)$/.test(limit)) return fault('limit must be an integer from 1 to 100.');
  const status = given.get('status');
  if (status !== null && !isPetStatus(status)) return fault(`status must be one of ${PET_STATUSES.join(', ')}.`);
  const cursor = given.get('cursor');
  const firstId = cursor === null ? INT64_MIN : decodeCursor(cursor);
  if (firstId === null) return fault('cursor is not one that this service gave out; begin again without it.');
  return passed({ limit: Number(limit), status, firstId });
}

/**
 * The Link field that leads to the next page (RFC 8288). The reference is a path without a host, so that it also works
 * behind a gateway, and it keeps the limit and the filter of the present page.
 * @param nextId the first id of the next page
 */
export function linkToNext(query: ListQuery, nextId: bigint): string {
  const next = new URLSearchParams({ limit: String(query.limit) });
  if (query.status !== null) next.set('status', query.status);
  next.set('cursor', encodeCursor(nextId));
  return `</v1/pets?${next}>; rel="next"`;
}

/**
 * The cursor of a page: the id of its first animal, in an opaque form. It has base64url characters only, so it needs no
 * escaping in a query.
 */
export function encodeCursor(firstId: bigint): string {
  return Buffer.from(`pet:${firstId}`).toString('base64url');
}

/** The id in a cursor; null for a text that `encodeCursor` did not make. */
export function decodeCursor(cursor: string): bigint | null {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const firstId = text.startsWith('pet:') ? parseInt64(text.slice('pet:'.length)) : null;
  // Node decodes base64url leniently (padding, spaces, stray bits), but a cursor has one form only.
  return firstId !== null && encodeCursor(firstId) === cursor ? firstId : null;
}
