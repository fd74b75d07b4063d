/** Who reads what comes on a connection. */
export interface Reader {
  /** @param isLent whether the bytes must be copied where they are to outlive this call */
  onBytes(chunk: Buffer, isLent: boolean): void;
  /** Whether a body has begun of which more is to come. */
  readonly isAmidBody: boolean;
}

const BYTES = 64 * 1024;
/** What is smaller than this is copied out of its buffer, which would be held whole for it. */
const WORTH_GIVING = 16 * 1024;
/** Read into by all connections: what has come is dealt with before anything else is read. */
const LENT = Buffer.allocUnsafeSlow(BYTES);

/**
 * Where a connection's bytes go. Left to itself Node makes a buffer of 64 KiB for each read, which costs more than
 * reading a small answer does. So all read into one; only a body of which much is to come gets buffers of its own, that
 * need not be copied.
 */
export class Intake {
  #reader: Reader | null = null;
  #own: Buffer | null = null;

  /** For `onread` of node:net. */
  readonly onread = {
    buffer: (): Buffer => {
      if (this.#reader?.isAmidBody !== true) {
        this.#own = null;
        return LENT;
      }
      this.#own ??= Buffer.allocUnsafeSlow(BYTES);
      return this.#own;
    },
    callback: (bytes: number, buffer: Uint8Array): boolean => {
      const chunk = (buffer as Buffer).subarray(0, bytes);
      const isLent = buffer !== this.#own || bytes < WORTH_GIVING;
      if (!isLent) this.#own = null;
      this.#reader?.onBytes(chunk, isLent);
      return true;
    },
  };

  into(reader: Reader): void {
    this.#reader = reader;
  }
}
