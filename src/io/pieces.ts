/**
 * Pieces of a body that are held until everything that arrived with them has been read, and are then written as one.
 * Written one by one, chunks of one byte would cost 200 times their size on a connection that does not accept them.
 */
export class Pieces {
  /** Mostly the only one. */
  #first: Buffer | null = null;
  #others: Buffer[] | null = null;
  #bytes = 0;

  /** How many bytes are held. */
  get bytes(): number {
    return this.#bytes;
  }

  /** @returns how many pieces are now held */
  add(piece: Buffer): number {
    this.#bytes += piece.length;
    if (this.#first === null) {
      this.#first = piece;
      return 1;
    }
    this.#others ??= [this.#first];
    return this.#others.push(piece);
  }

  /** All pieces as one; null if there are none. */
  take(): Buffer | null {
    const [first, others] = [this.#first, this.#others];
    this.#first = null;
    this.#others = null;
    this.#bytes = 0;
    return others === null ? first : Buffer.concat(others);
  }
}
