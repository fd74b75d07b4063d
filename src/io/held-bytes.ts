/**
 * Of the bytes that a client sends before the response to its request is complete, how many are held before its
 * connection is no longer read. What arrives with the last of them is held as well.
 */
const FULL_BYTES = 64 * 1024;
const MAX_BYTES = 4 * FULL_BYTES;
/** How many bytes may be held for all connections of a listener together, and for all bodies that are checked. */
export const MAX_TOTAL_BYTES = 64 * 1024 * 1024;

const NOTHING = Buffer.alloc(0);

/** Memory that holders share. */
export interface HeldMemory {
  /** @returns false if there are not as many bytes left */
  take(bytes: number): boolean;
  /** Gives back what was taken. @param bytes negative for what was taken although it was not left */
  release(bytes: number): void;
}

/** The memory that all connections of a listener hold together. */
export class HeldBytesBudget implements HeldMemory {
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
 * Bytes that are held in one piece of memory: those of a body that is read whole, or unparsed ones of a connection that
 * wait until its current request has been answered.
 *
 * Attack: requests that are parsed early take far more memory than their bytes: 39 KB of pipelined requests held 500 KB
 * of heap, and a client needs no key to send them. So no request is parsed early, and the bytes themselves are bounded
 * for each connection and for all connections together.
 *
 * Attack: a client sends a body in chunks of one byte. Each would be an object of its own, and a body of 1 MB took
 * 340 MB. So the bytes are copied.
 */
export class HeldBytes {
  readonly #budget: HeldMemory;
  readonly #maxBytes: number;
  #bytes: Buffer = NOTHING;
  /** How many are held. Only this class changes it. */
  length = 0;

  constructor(budget: HeldMemory, maxBytes = MAX_BYTES) {
    this.#budget = budget;
    this.#maxBytes = maxBytes;
  }

  /** Whether its connection should not be read for now. */
  get isFull(): boolean {
    return this.length >= FULL_BYTES;
  }

  /** Appends a copy of the bytes. @returns false, and appends nothing, if that would be too many */
  add(bytes: Buffer): boolean {
    if (this.length + bytes.length > this.#maxBytes || !this.#hasRoomFor(bytes.length, false)) return false;
    this.#append(bytes);
    return true;
  }

  /** Appends a copy of bytes that may not be dropped, even if the memory is used up. Their connection must not be read on. */
  addAnyway(bytes: Buffer): void {
    this.#hasRoomFor(bytes.length, true);
    this.#append(bytes);
  }

  #append(bytes: Buffer): void {
    bytes.copy(this.#bytes, this.length);
    this.length += bytes.length;
  }

  /** All held bytes. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Returns all held bytes and holds none from then on. */
  take(): Buffer {
    const { bytes } = this;
    this.drop();
    return bytes;
  }

  drop(): void {
    this.#budget.release(this.#bytes.length);
    this.#bytes = NOTHING;
    this.length = 0;
  }

  #hasRoomFor(more: number, anyway: boolean): boolean {
    const length = this.length + more;
    const before = this.#bytes.length;
    if (length <= before) return true;
    // Twice what is needed, so that a client that sends byte by byte does not cause a copy for each byte.
    const after = Math.max(length, Math.min(2 * length, this.#maxBytes));
    if (!this.#budget.take(after - before)) {
      if (!anyway) return false;
      this.#budget.release(before - after);
    }
    const larger = Buffer.allocUnsafeSlow(after);
    this.#bytes.copy(larger, 0, 0, this.length);
    this.#bytes = larger;
    return true;
  }
}
