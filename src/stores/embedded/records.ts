import type { DatabaseSync } from 'node:sqlite';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import type { StoreChange } from '../../identify/key-store.ts';
import type { Deleted, RecordPage, RecordStore, Updated } from '../../identify/stored-record.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import type { EmbeddedChanges } from './changes.ts';
import { answering, isOfStore } from './database.ts';
import { type Condition, RecordTable, type StoredRecord } from './record-table.ts';

export interface EmbeddedRecordsOptions {
  readonly db: DatabaseSync;
  readonly changes: EmbeddedChanges;
  /** Called with the error of each change that could not be written. Such a change has not been made. */
  readonly onFailedWrite?: (error: unknown) => void;
}

/** What sets the records of one kind apart. */
interface RecordKind<T> {
  readonly kind: 'key' | 'customer';
  /** @throws Failure `store_corrupt` */
  readonly read: (text: string) => T;
  /** Called in the transaction that has written a record. @throws Failure `refused` to undo it */
  readonly onWritten?: (record: T, isNew: boolean) => void;
}

/** Records of one kind. Each change is one transaction: the record, what leads to it, and the row for other processes. */
export class EmbeddedRecords<T extends StoredRecord> implements RecordStore<T> {
  readonly table: RecordTable<T>;
  readonly #writes: AcknowledgedWrites;
  readonly #options: EmbeddedRecordsOptions;
  readonly #kind: RecordKind<T>;

  constructor(options: EmbeddedRecordsOptions, kind: RecordKind<T>) {
    this.table = new RecordTable(options.db, `${kind.kind}s`, kind.read);
    this.#writes = new AcknowledgedWrites(options.db);
    this.#options = options;
    this.#kind = kind;
  }

  async get(id: string, { evenDeleted } = { evenDeleted: false }): Promise<T | null> {
    const record = answering(() => this.table.get(id));
    return record?.deletedAtMs === undefined || evenDeleted ? record : null;
  }

  async list(
    page: { readonly limit: number; readonly cursor: string | null },
    where?: readonly Condition[],
  ): Promise<RecordPage<T>> {
    return answering(() => this.table.list(page, where));
  }

  async create(record: T): Promise<Durability> {
    await this.#changeOf(record.id, () => {
      this.insert(record);
      return record;
    });
    return DURABLE;
  }

  async update(id: string, change: (record: T) => T): Promise<Updated<T> | null> {
    const changed = await this.#replace(id, (record) => (record.deletedAtMs === undefined ? change(record) : null));
    return changed === null ? null : { record: changed.next, durability: DURABLE };
  }

  async delete(id: string, bury: (record: T) => T): Promise<Deleted<T> | null> {
    const changed = await this.#replace(id, bury);
    return changed === null ? null : { before: changed.before, durability: DURABLE };
  }

  /** Only in a transaction. @throws Failure `refused` if the id is taken */
  insert(record: T): void {
    const { kind, onWritten } = this.#kind;
    if (this.table.has(record.id)) throw new Failure('refused', `There is already a ${kind} with this id.`);
    this.table.insert(record);
    onWritten?.(record, true);
  }

  /** @param made called with the commit: the change is in force, also if it cannot be acknowledged */
  async change<R>(work: () => R, made?: (value: R) => void): Promise<R> {
    try {
      return await this.#writes.write(work, made);
    } catch (error) {
      if (isOfStore(error)) this.#options.onFailedWrite?.(error);
      throw error;
    }
  }

  /** @param change returns null to change nothing @returns null if there is no such record or nothing was changed */
  #replace(id: string, change: (record: T) => T | null) {
    return this.#changeOf(id, () => {
      const before = this.table.get(id);
      const next = before === null ? null : change(before);
      if (before === null || next === null) return null;
      this.table.replace(next);
      this.#kind.onWritten?.(next, false);
      return { before, next };
    });
  }

  /** @param work returns null if it has changed nothing */
  #changeOf<R>(id: string, work: () => R): Promise<R> {
    const change: StoreChange = { kind: this.#kind.kind, keyId: id };
    const { changes } = this.#options;
    return this.change(
      () => {
        const made = work();
        if (made !== null) changes.note(change);
        return made;
      },
      (made) => {
        if (made !== null) changes.announce(change);
      },
    );
  }
}
