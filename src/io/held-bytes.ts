/**
 * How many bytes may be held for one connection, which its client sends before the response to its request is complete.
 */
const MAX_BYTES = 64 * 1024;
/** How many bytes may be held for all connections of a listener together. */
const MAX_TOTAL_BYTES = 64 * 1024 * 1024;

const NOTHING = Buffer.alloc(0);

/** The memory that all connections of a listener hold together. */
export class HeldBytesBudget {
  #left = MAX_TOTAL_BYTES;

  take(bytes: number): boolean {
    if (bytes > this.#left) return false;
    this.#left -= bytes;
    return true;
  }

  release(bytes: number): void {
    this.#left += bytes;
  }
}

/**
 * Unparsed bytes of a connection that wait until its current request has been answered.
 *
 * Attack: requests that are parsed early take far more memory than their bytes: 39 KB of pipelined requests held 500 KB
 * of heap, and a client needs no key to send them. So no request is parsed early, and the bytes themselves are bounded
 * for each connection and for all connections together.
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

  /** Appends a copy of the bytes. @returns false if that would be too many; all held bytes have then been dropped */
  add(bytes: Buffer): boolean {
    const length = this.#length + bytes.length;
    if (length > MAX_BYTES || !this.#hasRoomFor(length)) {
      this.drop();
      return false;
    }
    bytes.copy(this.#bytes, this.#length);
    this.#length = length;
    return true;
  }

  /** Returns all held bytes and holds none from then on. */
  take(): Buffer {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.drop();
    return bytes;
  }

  drop(): void {
    this.#budget.release(this.#bytes.length);
    this.#bytes = NOTHING;
    this.#length = 0;
  }

  #hasRoomFor(length: number): boolean {
    const before = this.#bytes.length;
    if (length <= before) return true;
    // Twice what is needed, so that a client that sends byte by byte does not cause a copy for each byte.
    const after = Math.min(2 * length, MAX_BYTES);
    if (!this.#budget.take(after - before)) return false;
    const larger = Buffer.allocUnsafeSlow(after);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
    return true;
  }
}
