/** The record of one change that an operator made or tried to make, as the gateway gives it to the store. */
export interface AuditRecord {
  /** Different for each change. */
  readonly id: string;
  /** From 1. The store replaces an earlier revision by a later one, and never a later one by an earlier one. */
  readonly revision: number;
  /** JSON, without any secret or digest. */
  readonly text: string;
}

/** A record as a store keeps it. */
export interface KeptRecord extends Pick<AuditRecord, 'id' | 'text'> {
  /** From 1, rising in the order in which the records were first written. */
  readonly number: number;
  /** When it was first written, Unix milliseconds by the store's clock: earlier than the record before it if that clock was set back. */
  readonly atMs: number;
}

export interface PutOptions {
  /** The number that the store gave the first revision; null for the first revision, or if the answer to it was lost. */
  readonly number: number | null;
  /** How many records the store keeps, this one included. It removes the oldest ones beyond that. */
  readonly keep: number;
  /** True if the store must confirm that the record is durable. False if the change itself may still be undone. */
  readonly isLasting: boolean;
}

/**
 * The record of changes. It is in the same store as the keys, so that all gateways and commands on that store share one
 * history. stores/embedded and stores/redis implement it; test/contracts/audit-store.ts tests both.
 * Both methods reject with Failure `store_unavailable` if the store does not answer.
 */
export interface AuditStore {
  /**
   * Appends a record, or replaces its earlier revision. A lasting record is as durable as a change to a key: the embedded
   * store syncs it to the disk; with Redis it reaches the replicas that `redis.durability` asks for, and is written again if a
   * failover has undone it.
   * @returns the number of the record
   */
  put(record: AuditRecord, options: PutOptions): Promise<number>;
  /** Lists records with a number below `before` (null: all), the newest first. Fewer than `limit` are the last ones. */
  list(page: { readonly limit: number; readonly before: number | null }): Promise<readonly KeptRecord[]>;
}
