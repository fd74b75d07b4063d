/*
 * How services read the name of a query parameter.
 *
 * Attack: the parameter `limit` is checked, or removed because it has a key, and `limit[]`, `Limit`, `+limit`, `limit%00` or
 * `a=1;limit=2` passes, which qs, Rack, PHP, ASP.NET or Spring hands to the program as `limit`.
 *
 * Header fields are folded by other rules, those of CGI: `reservedByFolding` in forwarded-fields.ts.
 */

/** Names of query parameters, and the other spellings under which a service may read them. */
export class QueryNames {
  readonly #exact: ReadonlySet<string>;
  readonly #others: readonly string[];
  readonly #byReading = new Map<string, string>();

  /**
   * @param names decoded
   * @param others names that are not another spelling of these, with what they have in brackets: `filter` and `filter[name]`
   */
  constructor(names: Iterable<string>, others: readonly string[] = []) {
    this.#exact = new Set(names);
    // The parts of one whose parts are names themselves are compared with these.
    this.#others = others.filter((other) => !this.#exact.values().some((name) => name.startsWith(`${other}[`)));
    for (const name of this.#exact) for (const reading of readingsOf(name)) this.#byReading.set(reading, name);
  }

  /**
   * The name as which a service may read a parameter although it is spelled differently; null if no service would. A parameter
   * that has one of the names exactly is not another spelling.
   * @param parameter a name with its value, as they stand between two `&` of a query
   */
  misspelt(parameter: string): string | null {
    const name = nameOf(parameter);
    const isExact = this.#exact.has(name) && !isDecodedLeniently(parameter);
    const found = isExact || this.#isOther(name) ? null : this.#readAs(name);
    if (found !== null || !parameter.includes(';')) return found;
    // Some services begin another parameter at each `;`.
    const [, ...others] = parameter.split(';');
    for (const other of others) {
      const inner = nameOf(other);
      const read = this.#exact.has(inner) ? inner : this.#readAs(inner);
      if (read !== null) return read;
    }
    return null;
  }

  #isOther(name: string): boolean {
    return this.#others.some((other) => name === other || name.startsWith(`${other}[`));
  }

  #readAs(name: string): string | null {
    // Most names differ from a plain one by their case at most.
    if (PLAIN.test(name)) return this.#byReading.get(name.toLowerCase()) ?? null;
    for (const reading of readingsOf(name)) {
      // `limit[$gt]` is a part of `limit`.
      for (let end = reading.length; end > 0; end = reading.lastIndexOf(PART, end - 1)) {
        const found = this.#byReading.get(reading.slice(0, end));
        if (found !== undefined) return found;
      }
    }
    return null;
  }
}

const PLAIN = /^[A-Za-z0-9_-]*$/;
/** Between the parts of a reading. No reading has it otherwise, because it ends a name. */
const PART = '\0';
/** A service may read a name only so far. */
const MAX_LENGTH = 1_024;

/** The name of a parameter, decoded as far as it can be: also `%u006c`, of IIS, and a name that is not UTF-8. */
function nameOf(parameter: string): string {
  const equals = parameter.indexOf('=');
  const text = (equals === -1 ? parameter : parameter.slice(0, equals)).replaceAll('+', ' ');
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    const escaped = text.replace(/%u([0-9A-Fa-f]{4})/gi, (_, hex: string) =>
      encodeURIComponent(String.fromCharCode(Number.parseInt(hex, 16)).toWellFormed()),
    );
    const bytes = escaped.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return Buffer.from(bytes, 'latin1').toString().replaceAll('\u{fffd}', '');
  }
}

/** Whether a name has an encoding that strict services, and the gateway, do not read as that name. */
function isDecodedLeniently(parameter: string): boolean {
  if (!parameter.includes('%')) return false;
  try {
    decodeURIComponent(parameter.split('=', 1)[0]!);
    return false;
  } catch {
    return true;
  }
}

/**
 * What services make of a name, in lower case and letters of one width. A reading is a list of parts: `filter[name]` and
 * `filter.name` are `name` of `filter`, and `ids[]` and `ids[0]` are `ids`.
 */
function readingsOf(name: string): readonly string[] {
  // Spring reads `!name` as the default of `name`.
  const front = name
    .slice(0, MAX_LENGTH)
    .normalize('NFKC')
    .toLowerCase()
    .replace(/^[\s\0?!]+/, '');
  const [cut = ''] = front.split('\0', 1);
  const text = cut.replace(/[\x01-\x08\x0e-\x1f\x7f]/g, '');
  // PHP writes `_` for a blank, a dot, and a bracket that is not closed.
  const bracket = text.includes(']') ? text.indexOf('[') : -1;
  const variable = (bracket === -1 ? text : text.slice(0, bracket)).replace(/[\s.[]/g, '_');
  const inner = bracket === -1 ? '' : text.slice(bracket);
  return [partsOf(text), partsOf(variable + inner), partsOf(text.trimEnd().replace(/[\s.[]/g, '_'))];
}

/** Parts that are empty or number the items of a list are left out. */
function partsOf(name: string): string {
  const parts = name.split(/[[\].()]/).map((part) => part.trim());
  return parts.filter((part, i) => part !== '' && (i === 0 || !/^\d+$/.test(part))).join(PART);
}
