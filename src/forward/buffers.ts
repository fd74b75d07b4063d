export const BUFFER_BYTES = 64 * 1024;
/** What is kept for the next ones: 4 MiB. */
const MOST_KEPT = 64;

/**
 * Buffers for pieces of large bodies. Made anew for each piece they would be garbage that V8 sees only from outside: for
 * answers of 100 KiB its collector took two fifths of all time.
 */
export class Buffers {
  readonly #kept: Buffer[] = [];

  /** @returns one of `BUFFER_BYTES` with anything in it */
  take(): Buffer {
    return this.#kept.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES);
  }

  /** @param buffer that nobody will read any more: its next bytes may be another client's */
  give(buffer: Buffer): void {
    if (this.#kept.length < MOST_KEPT) this.#kept.push(buffer);
  }
}
