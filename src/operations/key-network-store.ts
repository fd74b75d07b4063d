/** The networks of keys in the store, one record (key-networks.ts) for each key, without what is in it. Implemented by stores/embedded and stores/redis. */
export interface KeyNetworkStore {
  /** The record of each key; null for one without a record. @throws Failure `store_unavailable` */
  read(keyIds: readonly string[]): Promise<readonly (string | null)[]>;
  /**
   * Writes each of these records, and says which were written: false where another gateway has changed the record since it was read.
   * @throws Failure `store_unavailable`
   */
  swap(swaps: readonly NetworksSwap[]): Promise<readonly boolean[]>;
  /** Removes the record of a key. @throws Failure `store_unavailable` */
  forget(keyId: string): Promise<void>;
}

export interface NetworksSwap {
  readonly keyId: string;
  /** What was read; null if there was no record. */
  readonly before: string | null;
  readonly after: string;
}

/** How long a record is kept after the last call, in days: until the last of its periods is over. */
export const NETWORKS_KEPT_DAYS = 41;
