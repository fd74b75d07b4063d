/*
 * Buffers that are used again. The more new memory buffers take, the more often V8 marks its whole heap: with new memory for each read,
 * that was three quarters of what an upload of 5 MB cost.
 */

export const BUFFER_BYTES = 64 * 1024;
/** Buffers that are kept for reuse, 4 MiB in total. */
const MAX_KEPT = 64;

/**
 * A pool of buffers for pieces of large bodies. A new buffer for each piece would be garbage outside V8's heap.
 * Measured: with responses of 100 KiB the garbage collector took two fifths of all time.
 */
export class Buffers {
  readonly #kept: Buffer[] = [];

  /** @returns a buffer of `BUFFER_BYTES` with arbitrary contents */
  take(): Buffer {
    return this.#kept.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES);
  }

  /** @param buffer no longer read by any code: its next bytes may be another client's */
  give(buffer: Buffer): void {
    if (this.#kept.length < MAX_KEPT) this.#kept.push(buffer);
  }
}

/**
 * Copies bytes into memory of their own.
 *
 * Attack: Node takes the memory for small copies from a pool, where a single byte that waits keeps 8 KiB in use. A client
 * that sends single bytes would make the gateway hold thousands of times as much.
 */
export function ownCopy(bytes: Buffer): Buffer {
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}

/**
 * Frees the memory of a piece that has all of it, in place of the garbage collector: node:http copies each piece of a body into new memory.
 * Measured: an upload of 5 MiB cost two to three times as much without.
 * @param piece no longer read by any code, nor by the operating system
 */
export function freeNow(piece: Buffer): void {
  const { buffer, length } = piece;
  if (length >= MIN_GIVEN_BYTES && length === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer?.(0);
}

/** Smaller pieces have memory of their own, because each would keep its whole buffer in use. */
export const MIN_GIVEN_BYTES = 16 * 1024;

/**
 * Copies of what was read that pass through streams, and whose last reader may give their memory back. A piece that is cut, kept or
 * dropped on its way is left to the garbage collector.
 */
class ReturnablePieces {
  readonly #buffers = new Buffers();
  /** How long the piece is that was copied into it, by memory. */
  readonly #lengths = new WeakMap<ArrayBufferLike, number>();

  /** @returns a copy that uses no memory of another piece */
  copy(bytes: Buffer): Buffer {
    if (bytes.length < MIN_GIVEN_BYTES || bytes.length > BUFFER_BYTES) return ownCopy(bytes);
    const own = this.#buffers.take().subarray(0, bytes.length);
    bytes.copy(own);
    this.#lengths.set(own.buffer, own.length);
    return own;
  }

  /** @param piece no longer read by any code, and never given back before */
  giveBack(piece: Buffer): void {
    if (piece.length < MIN_GIVEN_BYTES || this.#lengths.get(piece.buffer) !== piece.length) return;
    this.#lengths.delete(piece.buffer);
    this.#buffers.give(Buffer.from(piece.buffer));
  }
}

export const PIECES = new ReturnablePieces();
