import { FairShares, type Share } from './fair-shares.ts';

/** How many of Node's four pool threads compress and decompress at a time. Look-ups of names and reads of files need the others. */
const MAX_THREADS = 2;

/** Work that waits for a thread. */
export interface PoolWork {
  onThread(): void;
}

/** The work of one consumer. */
export type PoolShare = Share<PoolWork>;

/**
 * The pool threads that compress responses, and decompress those that are read for their cost.
 *
 * Attack: one consumer asks for large responses on all the connections that it may have, and small responses of others wait behind
 * all of its pieces. So the threads serve consumers in turn.
 */
export class PoolThreads {
  /** A single consumer may use all of them while no other waits. Those who want threads bound how much of it may wait. */
  readonly #threads = new FairShares<PoolWork>({
    maxConnections: MAX_THREADS,
    maxQueue: Number.POSITIVE_INFINITY,
    fairShare: 1,
  });

  /** Call `release` of the share when its work has ended. */
  takePlace(name: string): PoolShare {
    return this.#threads.takePlace(name)!;
  }

  /** Calls `onThread`, now or once a thread is free and it is the consumer's turn; then call `done`. */
  want(share: PoolShare, work: PoolWork): void {
    if (this.#threads.take(share)) work.onThread();
    else this.#threads.queue(share, work);
  }

  /** It no longer waits for a thread. */
  forget(share: PoolShare, work: PoolWork): void {
    this.#threads.withdraw(share, work);
  }

  done(share: PoolShare): void {
    this.#threads.release(share);
    this.#threads.takeForNext()?.onThread();
  }
}
