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

/** If what is read fails, what was read before comes first. */
export async function* inBatches<T>(all: AsyncIterable<T>, size: number): AsyncGenerator<readonly T[]> {
  let batch: T[] = [];
  try {
    for await (const one of all) {
      if (batch.push(one) < size) continue;
      yield batch;
      batch = [];
    }
  } catch (error) {
    if (batch.length > 0) yield batch;
    throw error;
  }
  if (batch.length > 0) yield batch;
}
