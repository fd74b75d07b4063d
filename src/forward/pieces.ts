/**
 * Pieces of a body that are held back until all that came with them has been read, and leave as one. Written one by one,
 * chunks of a byte would cost 200 times their bytes on a connection that does not take them.
 */
export class Pieces {
  /** Most often there is one. */
  #first: Buffer | null = null;
  #others: Buffer[] | null = null;
  #bytes = 0;

  /** Held now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @returns how many are held now */
  add(piece: Buffer): number {
    this.#bytes += piece.length;
    if (this.#first === null) {
      this.#first = piece;
      return 1;
    }
    this.#others ??= [this.#first];
    return this.#others.push(piece);
  }

  /** All of them as one; null where there are none. */
  take(): Buffer | null {
    const [first, others] = [this.#first, this.#others];
    this.#first = null;
    this.#others = null;
    this.#bytes = 0;
    return others === null ? first : Buffer.concat(others);
  }
}
