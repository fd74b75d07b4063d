import { BUFFER_BYTES, type Buffers } from './buffers.ts';

/** Who reads what comes on a connection. */
export interface Reader {
  /**
   * @param isLent whether the bytes must be copied where they are to outlive this call
   * @returns whether nobody needs what was kept of them any more
   */
  onBytes(chunk: Buffer, isLent: boolean): boolean;
  /** Whether a body has begun of which more is to come. */
  readonly isAmidBody: boolean;
}

/** What is smaller than this is copied out of its buffer, which would be held whole for it. */
const WORTH_GIVING = 16 * 1024;
/** Read into by all connections: what has come is dealt with before anything else is read. */
const LENT = Buffer.allocUnsafeSlow(BUFFER_BYTES);

/**
 * Where a connection's bytes go. Left to itself Node makes a buffer of 64 KiB for each read, which costs more than
 * reading a small answer does. So all read into one; only a body of which much is to come gets a buffer of its own, that
 * need not be copied, and is read into again when the client's connection has taken what was in it.
 */
export class Intake {
  readonly #buffers: Buffers;
  #reader: Reader | null = null;
  #own: Buffer | null = null;
  /** Where a large piece was copied to that has just been read. */
  #copy: Buffer | null = null;

  constructor(buffers: Buffers) {
    this.#buffers = buffers;
  }

  /** For `onread` of node:net. */
  readonly onread = {
    buffer: (): Buffer => {
      if (this.#reader?.isAmidBody === true) {
        this.#own ??= this.#buffers.take();
        return this.#own;
      }
      if (this.#own !== null) this.#buffers.give(this.#own);
      this.#own = null;
      return LENT;
    },
    callback: (bytes: number, buffer: Uint8Array): boolean => {
      const chunk = (buffer as Buffer).subarray(0, bytes);
      const isLent = buffer !== this.#own || bytes < WORTH_GIVING;
      const isFree = this.#reader?.onBytes(chunk, isLent) === true;
      if (!isLent && !isFree) this.#own = null;
      if (this.#copy !== null && isFree) this.#buffers.give(this.#copy);
      this.#copy = null;
      return true;
    },
  };

  into(reader: Reader): void {
    this.#reader = reader;
  }

  /** @returns the same bytes, to be kept */
  copyOf(chunk: Buffer): Buffer {
    if (chunk.length < WORTH_GIVING || this.#copy !== null) return Buffer.from(chunk);
    this.#copy = this.#buffers.take();
    chunk.copy(this.#copy);
    return this.#copy.subarray(0, chunk.length);
  }
}
