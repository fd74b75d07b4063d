import type { z } from 'zod';
import type { Durability } from '../admit/ledger.ts';
import { Failure } from '../failure.ts';

/**
 * A record of the store that is there and cannot be read: a damaged one, or a value of another program under its name. Lists have it
 * in the place of the record, so that a caller has to say what it does with it. Whoever asks for this record alone gets it thrown.
 *
 * Fault: lists left such records out, and a backup without them looked complete. A look-up beside a list threw, and one record
 * ended the whole list.
 */
export class UnreadableRecord extends Failure {
  readonly id: string;

  constructor(id: string, message: string) {
    super('store_corrupt', message);
    this.id = id;
  }
}

/** A caller is known to the store, and its record, or that of its customer, cannot be read. */
export interface UnreadableIdentity {
  readonly kind: 'unreadable';
  /** For operators alone: which record, and what is wrong with it. */
  readonly cause: string;
}

export function unreadable({ message }: UnreadableRecord): UnreadableIdentity {
  return { kind: 'unreadable', cause: message };
}

/** A record as lists have it. */
export type Listed<T> = T | UnreadableRecord;

export function isReadable<T>(record: Listed<T>): record is T {
  return !(record instanceof UnreadableRecord);
}

/** The records that can be read, and the others. */
export function byReadability<T>(records: readonly Listed<T>[]) {
  return {
    readable: records.filter(isReadable),
    unreadable: records.filter((record) => record instanceof UnreadableRecord),
  };
}

/** A record that a list refers to. The list continues without it if it cannot be read. */
export async function orUnreadable<T>(record: Promise<T>): Promise<Listed<T>> {
  try {
    return await record;
  } catch (error) {
    if (error instanceof UnreadableRecord) return error;
    throw error;
  }
}

/** What every record has. */
export interface StoredRecord {
  readonly id: string;
  readonly createdAtMs: number;
  /** Of a tombstone; absent for other records. */
  readonly deletedAtMs?: number;
}

/** A page of records in the order of their creation. `cursor` is the id of its last record, and null on the last page. */
export interface RecordPage<T> {
  readonly records: readonly Listed<T>[];
  readonly cursor: string | null;
}

/** A record after a change. */
export interface Updated<T> {
  readonly record: T;
  readonly durability: Durability;
}

export interface Deleted<T> {
  /** The record before the deletion; its tombstone if it had been deleted already. */
  readonly before: T;
  readonly durability: Durability;
}

/**
 * A store of records of one kind, keys or customers. Implemented by stores/embedded and stores/redis; test/contracts tests both. Every
 * method rejects with Failure `store_unavailable` if the store does not answer, and with UnreadableRecord if it is asked for one
 * record that cannot be read. Lists have that in the place of the record.
 */
export interface RecordStore<T> {
  /** A deleted record, its tombstone, is found only with `evenDeleted`. */
  get(id: string, options?: { readonly evenDeleted: boolean }): Promise<T | null>;
  /** The records after the one with the id `cursor`. New ones do not move it. Rejects with `refused` for an unknown cursor. */
  list(page: { readonly limit: number; readonly cursor: string | null }): Promise<RecordPage<T>>;
  /** Stores a new record atomically. Rejects with `refused` if another has its id, even a deleted one. */
  create(record: T): Promise<Durability>;
  /**
   * Replaces a record by `change(record)` atomically and notifies every gateway. Two concurrent changes both take effect, one
   * after the other: `change` may run more than once and must be pure. If `change` throws, nothing is stored and the promise rejects
   * with its error.
   * @returns null if there is no such record
   */
  update(id: string, change: (record: T) => T): Promise<Updated<T> | null>;
  /**
   * Replaces a record by its tombstone `bury(record)` and removes it from the list, with the same atomicity and durability as
   * `update`. For a record that is already deleted it completes what an earlier deletion left undone. If `bury` throws,
   * nothing is changed and the promise rejects with its error.
   * @returns null if there is no such record
   */
  delete(id: string, bury: (record: T) => T): Promise<Deleted<T> | null>;
}

/** How a store reads the records of one kind. */
export interface RecordForm<T> {
  /** @throws Failure `store_corrupt` */
  readonly read: (text: string) => T;
  /** Where a record is, for operators: `tg:key:{key_1} in Redis`. */
  readonly placeOf: (id: string) => string;
}

/**
 * Reads what a store has under the name of a record.
 * @param text null: something that is no text
 */
export function listedRecord<T extends { readonly id: string }>(
  text: string | null,
  id: string,
  { read, placeOf }: RecordForm<T>,
): Listed<T> {
  try {
    const record = text === null ? null : read(text);
    if (record?.id === id) return record;
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'store_corrupt') throw error;
  }
  return new UnreadableRecord(
    id,
    `The record of ${id} cannot be read: ${placeOf(id)} holds something else. Put it right there, or remove it and restore ${id} from a backup.`,
  );
}

/** The same for a record that was asked for alone. @throws UnreadableRecord */
export function insistedRecord<T extends { readonly id: string }>(
  text: string | null,
  id: string,
  form: RecordForm<T>,
): T {
  const record = listedRecord(text, id, form);
  if (record instanceof UnreadableRecord) throw record;
  return record;
}

/** Whether a text looks like the record of this id, without the cost of parsing it. A damaged record may look like one. */
export function looksLikeRecord(text: string, id: string): boolean {
  return text.startsWith(`{"id":"${id}"`) && text.endsWith('}');
}

/**
 * Parses a record, JSON.
 * @param what it should be, for the sentence
 * @throws Failure `store_corrupt` if it is not
 */
export function readRecord<T>(text: string, schema: z.ZodType<T>, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The syntax error is dropped: it quotes the text, which may be anything.
  }
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  throw new Failure('store_corrupt', `The store holds a value that is not ${what} under the name of one.`);
}
