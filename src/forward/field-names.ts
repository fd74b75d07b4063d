/** Names of header fields, found in whatever case they are written. Most others are told by their length alone. */
export class FieldNames {
  readonly #names: ReadonlySet<string>;
  /** By length, whether there is a name as long. */
  readonly #lengths: boolean[] = [];

  /** @param names in lower case */
  constructor(names: Iterable<string>) {
    this.#names = new Set(names);
    for (const { length } of this.#names) {
      while (this.#lengths.length <= length) this.#lengths.push(false);
      this.#lengths[length] = true;
    }
  }

  has(name: string): boolean {
    return name.length < this.#lengths.length && this.#lengths[name.length]! && this.#names.has(name.toLowerCase());
  }
}

/** Whether a name begins like this, in whatever case. @param beginning in lower case */
export function beginsWith(name: string, beginning: string): boolean {
  // Of most names the first letter tells. Setting this bit makes a letter small; what else it changes is no letter after.
  if ((name.charCodeAt(0) | 0x20) !== beginning.charCodeAt(0)) return false;
  return name.slice(0, beginning.length).toLowerCase() === beginning;
}
