/** Names of header fields, found in whatever case they are written. Most others are told by length and first letter. */
export class FieldNames {
  readonly #names: ReadonlySet<string>;
  /** By length, a bit for each first letter that there is. */
  readonly #firsts: number[] = [];

  /** @param names in lower case */
  constructor(names: Iterable<string>) {
    this.#names = new Set(names);
    for (const name of this.#names) {
      while (this.#firsts.length <= name.length) this.#firsts.push(0);
      this.#firsts[name.length]! |= bitOf(name.charCodeAt(0));
    }
  }

  /** False where a name of this length that begins with this character is none of them. */
  mayHave(length: number, first: number): boolean {
    return length < this.#firsts.length && (this.#firsts[length]! & bitOf(first)) !== 0;
  }

  has(name: string): boolean {
    return this.mayHave(name.length, name.charCodeAt(0)) && this.#names.has(name.toLowerCase());
  }
}

/** The same for a letter in either case. */
function bitOf(code: number): number {
  return 1 << (code & 31);
}

/** Whether a name begins like this, in whatever case. @param beginning in lower case */
export function beginsWith(name: string, beginning: string): boolean {
  // Of most names the first letter tells. Setting this bit makes a letter small; what else it changes is no letter after.
  if ((name.charCodeAt(0) | 0x20) !== beginning.charCodeAt(0)) return false;
  return name.slice(0, beginning.length).toLowerCase() === beginning;
}
