/** The record of one change that an operator made or tried to make, as a store takes it. */
export interface AuditRecord {
  /** Different for each change. */
  readonly id: string;
  /** Which version of it this is, from 1. A later one replaces an earlier one, never the other way round. */
  readonly revision: number;
  /** JSON, without any secret or digest. */
  readonly text: string;
}

/** A record as a store keeps it. */
export interface KeptRecord extends Pick<AuditRecord, 'id' | 'text'> {
  /** Its place among all records, from 1: what came later has a higher one. */
  readonly number: number;
  /** When it was first written, by the store's clock; Unix milliseconds, never earlier than that of the record before it. */
  readonly atMs: number;
}

export interface PutOptions {
  /** What the first version was given; null where there is none, or where its answer was lost. */
  readonly number: number | null;
  /** Records that are kept, this one included; the oldest beyond that are removed. */
  readonly keep: number;
  /** False where nothing is waited for beyond the write itself: the change that it is about may be undone, too. */
  readonly isLasting: boolean;
}

/**
 * Where the changes that operators make are recorded: in the same store as the keys, so that every gateway and every command
 * on that store has one history. Implemented by stores/embedded and stores/redis, held to by test/contracts/audit-store.ts.
 * Both methods reject with Failure `store_unavailable` when the store does not answer.
 */
export interface AuditStore {
  /**
   * Writes a record behind all others, or in place of its earlier version. It is as durable as a change to a key: in the
   * embedded store on the disk, in Redis on the replicas that `redis.durability` names, and written again where a failover
   * has undone it.
   * @returns its number
   */
  put(record: AuditRecord, options: PutOptions): Promise<number>;
  /** Records with a number below `before` (null: all), the newest first, at most `limit`; fewer only where there are no more. */
  list(page: { readonly limit: number; readonly before: number | null }): Promise<readonly KeptRecord[]>;
}
