import { LRUCache } from 'lru-cache';

/**
 * A table that evicts the least recently used of its entries.
 *
 * Fault: lru-cache makes room for all entries at once where it is told their maximum number: the empty tables of a gateway took
 * 35 ms of each start and 7 MB. A table that is bounded by the sum of their sizes grows with its entries.
 */
export class RecentlyUsed<V extends object | string> extends LRUCache<string, V> {
  /** @param most how many entries are kept */
  constructor(most: number, dispose?: LRUCache.Disposer<string, V>) {
    super({ maxSize: most, sizeCalculation: one, ...(dispose && { dispose }) });
  }
}

function one(): number {
  return 1;
}
