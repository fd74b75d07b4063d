/**
 * Pieces of a body that are held back until all that came with them has been read, and leave as one. Written one by one,
 * chunks of a byte would cost 200 times their bytes on a connection that does not take them.
 */
export class Pieces {
  #held: Buffer[] = [];

  /** @returns how many are held now */
  add(piece: Buffer): number {
    return this.#held.push(piece);
  }

  /** All of them as one; null where there are none. */
  take(): Buffer | null {
    const held = this.#held;
    if (held.length === 0) return null;
    this.#held = [];
    return held.length === 1 ? held[0]! : Buffer.concat(held);
  }
}
