import { Failure } from '../../failure.ts';
import type { RecordStore } from '../../identify/record-store.ts';
import type { RecordKind } from '../../model/attributes.ts';
import {
  kindOf,
  type Listed,
  orUnreadable,
  type StoredCustomer,
  type StoredKey,
  type StoredRecord,
  UnreadableRecord,
} from '../../model/record.ts';

// What imports, backups and keys.yaml do with keys and customers alike.

/** `1 key`, `2 customers`. */
export function numberOf(count: number, kind: RecordKind): string {
  return `${count} ${kind}${count === 1 ? '' : 's'}`;
}

type Stores<M extends keyof RecordStore<StoredRecord>> = {
  readonly keys: Pick<RecordStore<StoredKey>, M>;
  readonly customers: Pick<RecordStore<StoredCustomer>, M>;
};

/** The store of the record with this id. */
export function storeOf<M extends keyof RecordStore<StoredRecord>>(id: string, { keys, customers }: Stores<M>) {
  return (kindOf(id) === 'key' ? keys : customers) as Pick<RecordStore<StoredRecord>, M>;
}

/** The record with this id, even a deleted one. */
export function found(id: string, stores: Stores<'get'>): Promise<Listed<StoredRecord> | null> {
  return orUnreadable(storeOf(id, stores).get(id, { evenDeleted: true }));
}

/** Whether an error is about one record alone, so that the others are written all the same. */
export function isRefusal(error: unknown): error is Failure {
  if (error instanceof UnreadableRecord) return true;
  return error instanceof Failure && ['refused', 'conflict', 'not_found'].includes(error.code);
}

/** At most this many records of a file are in one slice. They also wait together until the replicas and the disk of the store have them. */
export const MAX_SLICE = 1_000;
/** A slice ends before the record with which its JSON would exceed this size, in bytes. One record has at most 400 KB. */
const SLICE_BYTES = 512 * 1024;
/** The body of a request with a slice. */
export const MAX_SLICE_BYTES = 1024 * 1024;

/** The records of a file in slices that an operation takes. If what is read fails, what was read before comes first. */
export async function* inSlices<T>(
  all: AsyncIterable<T> | Iterable<T>,
  most = MAX_SLICE,
): AsyncGenerator<readonly T[]> {
  let slice: T[] = [];
  let bytes = 0;
  try {
    for await (const one of all) {
      const own = Buffer.byteLength(JSON.stringify(one));
      if (slice.length === most || (slice.length > 0 && bytes + own > SLICE_BYTES)) {
        yield slice;
        [slice, bytes] = [[], 0];
      }
      slice.push(one);
      bytes += own;
    }
  } catch (error) {
    if (slice.length > 0) yield slice;
    throw error;
  }
  if (slice.length > 0) yield slice;
}
