import { Failure } from '../../failure.ts';
import type { StoredCustomer } from '../../identify/customer-store.ts';
import type { StoredKey } from '../../identify/key-store.ts';
import { type Listed, orUnreadable, type RecordStore, UnreadableRecord } from '../../identify/stored-record.ts';
import type { RecordKind } from '../../model/attributes.ts';

// The records that files have: keys, and the customers that some of them belong to.

export type StoredRecord = StoredKey | StoredCustomer;

/** In the order in which records are written: the keys of a new customer belong to it. */
export const KINDS = ['customer', 'key'] as const satisfies readonly RecordKind[];

export function kindOf(id: string): RecordKind {
  return id.startsWith('cus_') ? 'customer' : 'key';
}

export function isKey(record: StoredRecord): record is StoredKey {
  return kindOf(record.id) === 'key';
}

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
