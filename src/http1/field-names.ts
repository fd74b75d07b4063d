/** A case-insensitive set of header field names. Most names outside it are ruled out by length and first letter alone. */
export class FieldNames {
  readonly #names: ReadonlySet<string>;
  /** For each length, a bit mask of the first letters of the names with that length. */
  readonly #firsts: number[] = [];

  /** @param names in lower case */
  constructor(names: Iterable<string>) {
    this.#names = new Set(names);
    for (const name of this.#names) {
      while (this.#firsts.length <= name.length) this.#firsts.push(0);
      this.#firsts[name.length]! |= bitOf(name.charCodeAt(0));
    }
  }

  /** False if no name in the set has this length and begins with this character. */
  mayHave(length: number, first: number): boolean {
    return length < this.#firsts.length && (this.#firsts[length]! & bitOf(first)) !== 0;
  }

  has(name: string): boolean {
    return this.mayHave(name.length, name.charCodeAt(0)) && this.#names.has(name.toLowerCase());
  }
}

/** The same bit for a letter in either case. */
function bitOf(code: number): number {
  return 1 << (code & 31);
}

/** Whether a name begins with this text, ignoring case. @param beginning in lower case */
export function beginsWith(name: string, beginning: string): boolean {
  // The first letter settles most names. Setting this bit lower-cases a letter and makes no other character a letter.
  if ((name.charCodeAt(0) | 0x20) !== beginning.charCodeAt(0)) return false;
  return name.slice(0, beginning.length).toLowerCase() === beginning;
}
