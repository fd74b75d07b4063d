import { randomFillSync } from 'node:crypto';

const ID_BYTES = 16;
const IDS = 256;

/**
 * Ids for requests that bring none: 128 random bits in hexadecimal, as nginx makes them. Not counted,
 * so that nobody can tell from two of them how many requests lie between; and not UUIDs, which take three times as long.
 */
export class RequestIds {
  readonly #random = Buffer.allocUnsafeSlow(ID_BYTES * IDS);
  #at = this.#random.length;

  next(): string {
    if (this.#at === this.#random.length) {
      randomFillSync(this.#random);
      this.#at = 0;
    }
    const from = this.#at;
    this.#at += ID_BYTES;
    return this.#random.toString('hex', from, this.#at);
  }
}
