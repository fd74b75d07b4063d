const MARK = [0xef, 0xbb, 0xbf];

/** The byte order mark that may be at the beginning of a text in UTF-8, which arrives in pieces. */
export class ByteOrderMark {
  /** How many of its bytes have passed. */
  #passed = 0;

  /** @returns where the text begins in its next piece */
  end(bytes: Uint8Array): number {
    let at = 0;
    while (this.#passed < MARK.length && at < bytes.length) {
      if (bytes[at] === MARK[this.#passed]) {
        this.#passed++;
        at++;
      } else this.#passed = MARK.length;
    }
    return at;
  }
}
