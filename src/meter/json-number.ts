import { AMOUNT, type Value } from './cost.ts';

/** Of how many lists and objects in one another the kind is kept. Deeper ones are counted, and passed over. */
const MAX_DEPTH = 512;
/** The longest text of a number that is kept, in characters: one more than an amount may have. */
const MAX_NUMBER = 41;
/** The longest text that is kept, in bytes: more than a row of a table may have as its name, in any spelling. */
const MAX_TEXT = 2048;
/** A byte of a name has at most six in a JSON text: `\u0061`. */
const BYTES_PER_BYTE = 6;
/** How much of a name is kept, in bytes: another spelling has hyphens and underscores that the name of the path has not. */
const keptOf = (name: Buffer) => 2 * BYTES_PER_BYTE * name.length + 256;

/**
 * What a JSON text has at a pointer; a text of digits is that number. `absent`: nothing, or null. `invalid`: something else than an
 * amount, or the text has a name of the path twice or in another spelling, or is no longer JSON behind the number. `no_json`: the text is not JSON, or ends too early, and no
 * number was found before.
 */
export type NumberReading = number | 'absent' | 'invalid' | 'no_json';

// What may come next.
const VALUE = 0;
const FIRST_ITEM = 1;
const FIRST_NAME = 2;
const NAME = 3;
const COLON = 4;
/** `,`, the end of the list or object, or of the text. */
const AFTER_VALUE = 5;
// What has begun.
const IN_NAME = 6;
const IN_TEXT = 7;
const IN_NUMBER = 8;
const IN_WORD = 9;
/** A text at the pointer, of digits or of any characters. */
const IN_DIGITS = 10;
const IN_VALUE = 11;
/** The result is certain, or the text cannot be read. */
const OVER = 12;
type State = number;

const [TAB, LF, CR, SPACE, QUOTE, COMMA] = [0x09, 0x0a, 0x0d, 0x20, 0x22, 0x2c] as const;
const [COLON_MARK, BACKSLASH, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [
  0x3a, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d,
] as const;
const [MINUS, ZERO, NINE, SMALL_N, CAPITAL_I] = [0x2d, 0x30, 0x39, 0x6e, 0x49] as const;
const [UNDERSCORE, SMALL_K, SMALL_S, IS_SMALL] = [0x5f, 0x6b, 0x73, 0x20] as const;
const [IS_NUMBER, IS_SPACE] = [1, 2] as const;
/** A text in which every backslash begins an escape of JSON. */
const VALID_ESCAPES = /^(?:[^\\"\0-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*$/;
/** Python writes the last two, and -Infinity, for numbers that JSON lacks. */
const WORDS: readonly Buffer[] = ['true', 'false', 'null', 'NaN', 'Infinity'].map((word) => Buffer.from(word));
const INFINITY = WORDS[4]!;
/** For each byte: whether it can be part of a number, or is white space. */
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === TAB || byte === LF || byte === CR || byte === SPACE) return IS_SPACE;
  return '+-.0123456789Ee'.includes(String.fromCharCode(byte)) ? IS_NUMBER : 0;
});
/** From how many bytes of a text the rest is searched natively. In a text of 1 KiB that takes a fifth of the time of a loop. */
const SHORT_TEXT = 32;

interface Path {
  readonly names: readonly Buffer[];
  /** Of each token the index into a list; -1 if it cannot be one. */
  readonly indices: readonly number[];
}

const paths = new WeakMap<readonly string[], Path>();

/** The tokens of a pointer as they are looked for. A route has the same pointer for all of its answers. */
function pathOf(pointer: readonly string[]): Path {
  const known = paths.get(pointer);
  if (known !== undefined) return known;
  const path = {
    names: pointer.map((token) => Buffer.from(token)),
    indices: pointer.map((token) => (/^(?:0|[1-9][0-9]{0,8})$/.test(token) ? Number(token) : -1)),
  };
  paths.set(pointer, path);
  return path;
}

/**
 * Reads the number, or a text that stands for one, at a pointer in a JSON text that arrives in pieces. It makes no values and keeps
 * nothing of the text but the beginnings of a name and of that value, so that its memory is bounded however long the text is.
 *
 * Numbers elsewhere, and escapes and control characters in texts, are not checked: they do not change where something begins or
 * ends.
 *
 * Attack: a client sends lists nested in one another, which the service repeats in its answer, so that its cost is not found. So
 * what is deeper than `MAX_DEPTH` is passed over, and only its texts and brackets are read.
 *
 * Attack: an object has a name twice. The gateway reads the first value, the service and its client the last one. So a name
 * of the path that is there twice is `invalid`.
 *
 * Attack: a client sends a value that its service repeats as NaN, or as what is no JSON at all, behind the cost. So NaN and the
 * infinities are values off the path, and the largest number that was read is kept (`seen`), whatever follows.
 */
export class JsonNumber {
  readonly #value: Value;
  readonly #isStrict: boolean;
  readonly #tokens: readonly string[];
  readonly #names: readonly Buffer[];
  readonly #indices: readonly number[];
  #state: State = VALUE;
  /** How many lists and objects are open, and how many of them, from the outside, the path leads through. */
  #depth = 0;
  #onPath = 0;
  /** How many more are open within the deepest that is kept. */
  #deeper = 0;
  /** How many tokens of the path were found. */
  #reached = 0;
  /** Of each open list or object whether it is an object. */
  readonly #isObject: boolean[] = [];
  /** Of the innermost list on the path: the index of its next item. */
  #index = 0;
  /** The value that comes belongs to the last name on the path. */
  #isNamed = false;
  /** The last byte was a backslash in a text. */
  #isEscaped = false;
  /** The name that is being read has escapes. */
  #hasEscapes = false;
  /** The name of which a part was in earlier pieces, as bytes. */
  #name = '';
  /** The number that is being read, if it is at the pointer. */
  #number: string | null = null;
  #word: Buffer = WORDS[0]!;
  #wordAt = 0;
  #found: NumberReading = 'absent';
  #seen: number | null = null;
  /** A name of the path is there twice, or in another spelling. */
  #isTwice = false;
  #hasBegun = false;

  /**
   * @param pointer its tokens, see `pointerOf`
   * @param value what stands there
   * @param isStrict whether another spelling of a name of the path is `invalid`
   */
  constructor(pointer: readonly string[], value = AMOUNT, isStrict = false) {
    this.#value = value;
    this.#isStrict = isStrict;
    const { names, indices } = pathOf(pointer);
    this.#tokens = pointer;
    this.#names = names;
    this.#indices = indices;
  }

  /** Begins another text. */
  reset(): void {
    this.#state = VALUE;
    this.#depth = 0;
    this.#onPath = 0;
    this.#deeper = 0;
    this.#reached = 0;
    this.#isEscaped = false;
    this.#number = null;
    this.#found = 'absent';
    this.#seen = null;
    this.#isTwice = false;
    this.#hasBegun = false;
  }

  /** Whether nothing that follows changes what was found. */
  get isOver(): boolean {
    return this.#state === OVER;
  }

  /** The largest amount whose number has been read to its end; null if there is none. */
  get seen(): number | null {
    return this.#seen;
  }

  /** Reads the next piece of the text, which is at `from` to `to` of `bytes`. */
  add(bytes: Buffer, from: number, to: number): void {
    let at = from;
    while (at < to) {
      switch (this.#state) {
        case IN_TEXT:
          at = this.#readText(bytes, at, to);
          break;
        case IN_NAME:
          at = this.#readName(bytes, at, to);
          break;
        case IN_NUMBER:
          at = this.#readNumber(bytes, at, to);
          break;
        case IN_WORD:
          at = this.#readWord(bytes, at, to);
          break;
        case IN_DIGITS:
          at = this.#readDigits(bytes, at, to);
          break;
        case IN_VALUE:
          at = this.#readValue(bytes, at, to);
          break;
        case OVER:
          return;
        default:
          at = this.#deeper === 0 ? this.#readMarks(bytes, at, to) : this.#passDeeper(bytes, at, to);
      }
    }
  }

  /** The text has ended. */
  end(): NumberReading {
    if (this.#state === IN_NUMBER) this.#endNumber();
    const isWhole = this.#depth === 0 && (this.#state === AFTER_VALUE || !this.#hasBegun);
    if (!isWhole) this.#stop('no_json');
    else if (this.#isTwice) this.#found = 'invalid';
    return this.#found;
  }

  /** Reads marks and white space up to where a text, a number or a word begins. */
  #readMarks(bytes: Buffer, from: number, to: number): number {
    for (let at = from; at < to; at++) {
      const byte = bytes[at]!;
      if ((KINDS[byte]! & IS_SPACE) !== 0) continue;
      const state = this.#state;
      if (byte === QUOTE && (state === NAME || state === FIRST_NAME)) {
        this.#beginName();
        return at + 1;
      }
      if (byte === COLON_MARK && state === COLON) this.#state = VALUE;
      else if (byte === COMMA && state === AFTER_VALUE && this.#depth > 0) {
        this.#state = this.#isObject[this.#depth] ? NAME : VALUE;
      } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) this.#close(byte);
      else if (state === VALUE || state === FIRST_ITEM) {
        const next = this.#beginValue(byte, at);
        if (this.#state >= IN_NAME || this.#deeper > 0) return next;
      } else this.#stop('no_json');
      if (this.#state === OVER) return to;
    }
    return to;
  }

  /** Passes over what is deeper than what is kept. */
  #passDeeper(bytes: Buffer, from: number, to: number): number {
    for (let at = from; at < to; at++) {
      const byte = bytes[at]!;
      if (byte === QUOTE) {
        this.#state = IN_TEXT;
        return at + 1;
      }
      if (byte === OPEN_OBJECT || byte === OPEN_LIST) this.#deeper++;
      else if ((byte === CLOSE_OBJECT || byte === CLOSE_LIST) && --this.#deeper === 0) return at + 1;
    }
    return to;
  }

  /** @returns where the value is read on */
  #beginValue(byte: number, at: number): number {
    this.#hasBegun = true;
    const isOnPath = this.#depth === this.#onPath && this.#isNextOnPath();
    const isTarget = isOnPath && this.#depth === this.#tokens.length;
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      if (isTarget) this.#stop('invalid');
      else this.#open(byte === OPEN_OBJECT, isOnPath);
      return at + 1;
    }
    if (byte === QUOTE) {
      this.#state = !isTarget ? IN_TEXT : this.#value.isText ? IN_VALUE : IN_DIGITS;
      this.#number = isTarget ? '' : null;
      this.#hasEscapes = false;
      return at + 1;
    }
    if (isTarget && this.#value.isText && byte !== SMALL_N) {
      this.#stop('invalid');
      return at + 1;
    }
    if (byte === MINUS || (byte >= ZERO && byte <= NINE)) {
      this.#state = IN_NUMBER;
      this.#number = isTarget ? '' : null;
      return at;
    }
    const word = WORDS.find(([first]) => first === byte);
    if (word === undefined) this.#stop('no_json');
    else if (isTarget && byte !== SMALL_N) this.#stop('invalid');
    else this.#beginWord(word);
    return at;
  }

  /** Whether the value that begins is on the path, if all that surrounds it is. */
  #isNextOnPath(): boolean {
    const depth = this.#depth;
    if (depth === 0) return true;
    if (this.#isObject[depth]) return this.#isNamed;
    // Behind the item on the path the index may be that of a list within the item.
    if (this.#reached >= depth || this.#index++ !== this.#indices[depth - 1]) return false;
    this.#reached = depth;
    return true;
  }

  #open(isObject: boolean, isOnPath: boolean): void {
    if (this.#depth === MAX_DEPTH) {
      this.#deeper = 1;
      this.#state = AFTER_VALUE;
      return;
    }
    const depth = ++this.#depth;
    this.#isObject[depth] = isObject;
    if (isOnPath) {
      this.#onPath = depth;
      this.#index = 0;
    }
    this.#state = isObject ? FIRST_NAME : FIRST_ITEM;
  }

  #close(byte: number): void {
    const isObject = byte === CLOSE_OBJECT;
    const isEmpty = this.#state === (isObject ? FIRST_NAME : FIRST_ITEM);
    const mayEnd = isEmpty || (this.#state === AFTER_VALUE && this.#isObject[this.#depth] === isObject);
    if (this.#depth === 0 || !mayEnd) {
      this.#stop('no_json');
      return;
    }
    const depth = --this.#depth;
    if (this.#onPath > depth) this.#onPath = depth;
    this.#state = AFTER_VALUE;
  }

  #beginName(): void {
    this.#state = IN_NAME;
    this.#name = '';
    this.#hasEscapes = false;
  }

  /** Reads a name, and whether it is the next one of the path. */
  #readName(bytes: Buffer, from: number, to: number): number {
    const end = this.#endOfText(bytes, from, to);
    if (this.#depth === this.#onPath) {
      if (end < 0) this.#keepName(bytes, from, to);
      else this.#nameRead(bytes, from, end);
    }
    if (end < 0) return to;
    if (this.#state !== OVER) this.#state = COLON;
    return end + 1;
  }

  #nameRead(bytes: Buffer, from: number, end: number): void {
    const depth = this.#depth;
    const name = this.#names[depth - 1]!;
    if (this.#name === '' && !this.#hasEscapes) {
      this.#isNamed = end - from === name.length && isAt(bytes, from, name);
      if (this.#isStrict && !this.#isNamed) this.#isTwice ||= isLike(bytes, from, end, name);
    } else {
      this.#keepName(bytes, from, end);
      const decoded = decodedText(this.#name, this.#hasEscapes);
      this.#isNamed = decoded === this.#tokens[depth - 1];
      if (this.#isStrict && !this.#isNamed && decoded !== null)
        this.#isTwice ||= isLike(Buffer.from(decoded), 0, Infinity, name);
    }
    if (!this.#isNamed) return;
    this.#isTwice ||= this.#reached >= depth;
    this.#reached = depth;
  }

  /** Keeps what may be a name of the path, of which a part is in another piece or has escapes. */
  #keepName(bytes: Buffer, from: number, to: number): void {
    const max = keptOf(this.#names[this.#depth - 1]!);
    this.#name += bytes.toString('latin1', from, Math.min(to, from + max - this.#name.length));
  }

  #readText(bytes: Buffer, from: number, to: number): number {
    const near = Math.min(to, from + SHORT_TEXT);
    const end = this.#endOfText(bytes, from, near);
    if (end < 0) return near === to ? to : this.#readLongText(bytes, near, to);
    this.#state = AFTER_VALUE;
    return end + 1;
  }

  /** @returns where the text is read on; behind its end, if the state has changed */
  #readLongText(bytes: Buffer, from: number, to: number): number {
    const start = this.#isEscaped ? from + 1 : from;
    // The search must end at `to`, or a piece of many long texts would take quadratic time.
    const quote = (to === bytes.length ? bytes : bytes.subarray(0, to)).indexOf(QUOTE, start);
    const end = quote < 0 ? to : quote;
    let backslashesAt = end;
    while (backslashesAt > start && bytes[backslashesAt - 1] === BACKSLASH) backslashesAt--;
    const isEscaped = (end - backslashesAt) % 2 === 1;
    this.#isEscaped = quote < 0 && isEscaped;
    if (quote < 0) return to;
    if (!isEscaped) this.#state = AFTER_VALUE;
    return quote + 1;
  }

  /** @returns where the quote is that ends a text or a name; -1 if it is in a later piece */
  #endOfText(bytes: Buffer, from: number, to: number): number {
    let at = from;
    if (this.#isEscaped) {
      this.#isEscaped = false;
      at++;
    }
    for (; at < to; at++) {
      const byte = bytes[at]!;
      if (byte === QUOTE) return at;
      if (byte !== BACKSLASH) continue;
      this.#hasEscapes = true;
      at++;
    }
    // The byte behind the last backslash is in the next piece.
    this.#isEscaped = at > to;
    return -1;
  }

  #readNumber(bytes: Buffer, from: number, to: number): number {
    let at = from;
    while (at < to && (KINDS[bytes[at]!]! & IS_NUMBER) !== 0) at++;
    this.#keepNumber(bytes, from, at);
    if (at === to) return at;
    if (bytes[at] === CAPITAL_I && this.#number === null) this.#beginWord(INFINITY);
    else this.#endNumber();
    return at;
  }

  /** Reads a text of digits: some services write large numbers so (OData with `IEEE754Compatible=true`). */
  #readDigits(bytes: Buffer, from: number, to: number): number {
    let at = from;
    while (at < to && bytes[at]! >= ZERO && bytes[at]! <= NINE) at++;
    this.#keepNumber(bytes, from, at);
    if (at === to) return at;
    if (bytes[at] === QUOTE) this.#endNumber();
    else this.#stop('invalid');
    return at + 1;
  }

  /** Reads a text of any characters. */
  #readValue(bytes: Buffer, from: number, to: number): number {
    const end = this.#endOfText(bytes, from, to);
    const kept = this.#number!;
    this.#number = kept + bytes.toString('latin1', from, Math.min(end < 0 ? to : end, from + MAX_TEXT - kept.length));
    if (end < 0) return to;
    const text = decodedText(this.#number, this.#hasEscapes);
    this.#number = null;
    this.#endValue(text === null ? null : this.#value.read(text));
    return end + 1;
  }

  #keepNumber(bytes: Buffer, from: number, to: number): void {
    if (this.#number === null) return;
    this.#number += bytes.toString('latin1', from, Math.min(to, from + MAX_NUMBER - this.#number.length));
  }

  #endNumber(): void {
    this.#state = AFTER_VALUE;
    if (this.#number === null) return;
    const found = this.#value.read(this.#number);
    this.#number = null;
    this.#endValue(found);
  }

  #endValue(found: number | null): void {
    this.#found = found ?? 'invalid';
    this.#state = found === null ? OVER : AFTER_VALUE;
    if (found !== null) this.#seen = Math.max(found, this.#seen ?? 0);
  }

  #beginWord(word: Buffer): void {
    this.#state = IN_WORD;
    this.#word = word;
    this.#wordAt = 0;
  }

  #readWord(bytes: Buffer, from: number, to: number): number {
    const word = this.#word;
    let at = from;
    for (; at < to && this.#wordAt < word.length; at++) {
      if (bytes[at] !== word[this.#wordAt++]) {
        this.#stop('no_json');
        return to;
      }
    }
    if (this.#wordAt === word.length) this.#state = AFTER_VALUE;
    return at;
  }

  /** The text cannot be read on, or there is no amount in it. A number that was found in what is not JSON is `invalid`. */
  #stop(why: 'invalid' | 'no_json'): void {
    if (this.#state === OVER) return;
    this.#state = OVER;
    this.#found = why === 'no_json' && this.#found !== 'absent' ? 'invalid' : why;
  }
}

/** A text that was kept as bytes. @returns null if its escapes are invalid */
function decodedText(kept: string, hasEscapes: boolean): string | null {
  const text = Buffer.from(kept, 'latin1').toString();
  if (!hasEscapes) return text;
  // `JSON.parse` would find that too, but its error takes 5 us. It may also be too long, and have been kept in part.
  return VALID_ESCAPES.test(text) ? (JSON.parse(`"${text}"`) as string) : null;
}

/** By hand: a call of the system's comparison takes five times as long for a name of ten bytes. */
function isAt(bytes: Buffer, from: number, name: Buffer): boolean {
  for (let i = 0; i < name.length; i++) if (bytes[from + i] !== name[i]) return false;
  return true;
}

/**
 * Whether a lenient service may read a name as another one: Go and ASP.NET ignore case, and JSON of Protobuf has `maxTokens` for
 * `max_tokens`. The two letters beyond ASCII that Go takes for one of ASCII are U+017F and U+212A.
 */
function isLike(bytes: Buffer, from: number, to: number, name: Buffer): boolean {
  const end = Math.min(to, bytes.length);
  let i = 0;
  for (let at = from; at < end; at++) {
    let byte = bytes[at]!;
    if (byte === UNDERSCORE || byte === MINUS) continue;
    if (byte === 0xc5 && bytes[at + 1] === 0xbf) [byte, at] = [SMALL_S, at + 1];
    else if (byte === 0xe2 && bytes[at + 1] === 0x84 && bytes[at + 2] === 0xaa) [byte, at] = [SMALL_K, at + 2];
    while (name[i] === UNDERSCORE || name[i] === MINUS) i++;
    if (i === name.length || (byte | IS_SMALL) !== (name[i]! | IS_SMALL)) return false;
    i++;
  }
  while (name[i] === UNDERSCORE || name[i] === MINUS) i++;
  return i === name.length;
}
