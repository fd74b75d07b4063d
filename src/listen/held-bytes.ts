/** What may be held of one connection: what its client sends before it has the answer to its request. */
const MOST_BYTES = 64 * 1024;
/** What may be held of all connections of a listener together. */
const MOST_BYTES_IN_ALL = 64 * 1024 * 1024;

const NOTHING = Buffer.alloc(0);

/** The memory that all connections of a listener hold together. */
export class HeldBytesBudget {
  #left = MOST_BYTES_IN_ALL;

  take(bytes: number): boolean {
    if (bytes > this.#left) return false;
    this.#left -= bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#left += bytes;
  }
}

/**
 * Raw bytes of a connection that wait until its current request has been answered.
 *
 * Attack: requests that are parsed before their turn take far more memory than their bytes: 39 KB of pipelined requests
 * held 500 KB of heap, and a client needs no key to send them. So nothing is parsed ahead. The bytes themselves are
 * bounded for each connection and for all connections together.
 */
export class HeldBytes {
  readonly #budget: HeldBytesBudget;
  #bytes: Buffer = NOTHING;
  #length = 0;

  constructor(budget: HeldBytesBudget) {
    this.#budget = budget;
  }

  get length(): number {
    return this.#length;
  }

  /**
   * Copies bytes behind those that are held.
   * @returns false when they are too many: then all that was held has been dropped
   */
  add(bytes: Buffer): boolean {
    const length = this.#length + bytes.length;
    if (length > MOST_BYTES || !this.#hasRoomFor(length)) {
      this.drop();
      return false;
    }
    bytes.copy(this.#bytes, this.#length);
    this.#length = length;
    return true;
  }

  /** Hands over all that is held. */
  take(): Buffer {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.drop();
    return bytes;
  }

  drop(): void {
    this.#budget.giveBack(this.#bytes.length);
    this.#bytes = NOTHING;
    this.#length = 0;
  }

  #hasRoomFor(length: number): boolean {
    const before = this.#bytes.length;
    if (length <= before) return true;
    // Twice what is needed: a client that sends byte by byte must not cause a copy for each of them.
    const after = Math.min(2 * length, MOST_BYTES);
    if (!this.#budget.take(after - before)) return false;
    const larger = Buffer.allocUnsafeSlow(after);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
    return true;
  }
}
