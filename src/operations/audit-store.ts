/** The record of one change that an operator made or tried to make, as the gateway gives it to the store. */
export interface AuditRecord {
  /** Different for each change. */
  readonly id: string;
  /** From 1. The store replaces an earlier revision by a later one, and never a later one by an earlier one. */
  readonly revision: number;
  /** JSON, without any secret or digest. */
  readonly text: string;
}

/** A record as a store keeps it. If something else is in its place, `id` is the number and `atMs` is null. */
export interface KeptRecord extends Pick<AuditRecord, 'id' | 'text'> {
  /** From 1, rising in the order in which the records were first written. */
  readonly number: number;
  /** When it was first written, Unix milliseconds by the store's clock: earlier than the record before it if that clock was set back. */
  readonly atMs: number | null;
}

export interface PutOptions {
  /** The number that the store gave the first revision; null for the first revision, or if the answer to it was lost. */
  readonly number: number | null;
  /**
   * How many records the store keeps, this one included. It removes the oldest ones beyond that. Null: it removes none, because
   * the change may yet be refused, and a refusal must not remove the record of a change that was made.
   */
  readonly keep: number | null;
  /** True if the store must confirm that the record is durable. False if the change itself may still be undone. */
  readonly isLasting: boolean;
}

/** One refused attempt to change something, as the gateway gives it to the store. */
export interface Refusal {
  /** Becomes the id of the entry if this is the first attempt that it counts. */
  readonly id: string;
  /** Up to 64 letters, digits, `-` and `_` that are different for each actor. */
  readonly actor: string;
  readonly action: string;
  /** JSON, without any secret or digest. The store keeps that of the last attempt. */
  readonly text: string;
}

/**
 * The refused attempts of one actor at one action in one minute, as a store keeps them. Times are Unix milliseconds by its clock. If
 * something else is in their place, `id` is its name there and `firstMs` is null.
 */
export interface KeptRefusals extends Pick<Refusal, 'id' | 'text'> {
  readonly count: number;
  readonly firstMs: number | null;
  readonly lastMs: number;
}

/** Entries of refused attempts that a store keeps. Beyond that the oldest of the actor that has most of them goes. */
export const MAX_REFUSALS = 1_000;

/**
 * The record of changes. It is in the same store as the keys, so that all gateways and commands on that store share one
 * history. stores/embedded and stores/redis implement it; test/contracts/audit-store.ts tests both.
 * All methods reject with Failure `store_unavailable` if the store does not answer.
 */
export interface AuditStore {
  /** Where the records and the entries of refused attempts are, for operators: `tg:audit in Redis`. */
  readonly places: { readonly records: string; readonly refusals: string };
  /**
   * Appends a record, or replaces its earlier revision. A lasting record is as durable as a change to a key: the embedded
   * store syncs it to the disk; with Redis it reaches the replicas that `redis.durability` asks for, and is written again if a
   * failover has undone it.
   * @returns the number of the record
   */
  put(record: AuditRecord, options: PutOptions): Promise<number>;
  /** Lists records with a number below `before` (null: all), the newest first. Fewer than `limit` are the last ones. */
  list(page: { readonly limit: number; readonly before: number | null }): Promise<readonly KeptRecord[]>;
  /**
   * Removes the record of a change that was refused after it had been begun.
   * @param number as for `put`
   */
  remove(id: string, number: number | null): Promise<void>;
  /**
   * Counts a refused attempt in the entry of its actor, its action and this minute. Such entries are apart from the records.
   *
   * Attack: an operator whose role allows no change tries thousands of them, each with a record, until the records of the changes
   * that were made are gone.
   */
  refuse(refusal: Refusal): Promise<void>;
  /** Lists all entries of refused attempts, in no order. */
  refusals(): Promise<readonly KeptRefusals[]>;
  /**
   * Replaces what the gateways on this store last recorded of a file, if that is `from` or nothing, in one step: of several
   * gateways that read the same change, one finds `from`. What is `to` already stays. Each replacement has a number, and the last `KEPT_LOADS` are kept.
   */
  exchangeLoad(file: string, load: LoadStep): Promise<LoadReply>;
}

/** How many states of a file are kept, so that a gateway that was cut off finds what the others have recorded. */
export const KEPT_LOADS = 20;

/** A state of a file that a gateway has found. */
export interface LoadStep {
  /** The state before it; null: whatever was recorded. */
  readonly from: string | null;
  /** Up to 64 characters without line feeds. */
  readonly to: string;
  /** The number of the last state that this gateway knows to be recorded. Nothing is replaced if `to` was recorded since. Null: unknown. */
  readonly since: number | null;
}

interface LoadReply {
  /** What was recorded last, null if nothing was. */
  readonly found: string | null;
  /** The number of the recorded state; 0 if no state is recorded. */
  readonly number: number;
  /** The number under which `to` was recorded after `since`, the first; null if it was not. */
  readonly known: number | null;
}
