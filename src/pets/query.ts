import { type Checked, fault, passed } from './checked.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';
import { INT64_MIN } from './int64.ts';
import { isPetStatus, PET_STATUSES, type PetStatus } from './pet.ts';

/** What `GET /v1/pets` is asked for. `status` null: animals in any state. `firstId`: where the page begins. */
export interface ListQuery {
  readonly limit: number;
  readonly status: PetStatus | null;
  readonly firstId: bigint;
}

/**
 * Reads the query of `GET /v1/pets` (interface section 4.1: limit 1 to 100, default 20; contract section 8: cursor).
 * A parameter given twice is refused, because which one counts would be a guess. Parameters that are not listed are
 * ignored: the interface does not forbid them, and clients add their own (cache busters, tracking).
 * @param search what stands after the question mark, or the empty string
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
 * The Link field that leads to the page beginning at `nextId` (RFC 8288). The reference is a path without a host, so it
 * is right behind a gateway too, and it keeps the limit and the filter of the page it stands on.
 */
export function linkToNext(query: ListQuery, nextId: bigint): string {
  const next = new URLSearchParams({ limit: String(query.limit) });
  if (query.status !== null) next.set('status', query.status);
  next.set('cursor', encodeCursor(nextId));
  return `</v1/pets?${next}>; rel="next"`;
}
