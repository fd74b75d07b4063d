import { CHARACTERS_PER_STEP, MEMBER_STEPS, VALUE_STEPS, type Work } from './work.ts';

/** How deep lists and objects of a body may be nested. */
const MAX_DEPTH = 64;

/** Why a text is not read as JSON, as the end of a sentence that starts with where. It quotes nothing of the text. */
export class JsonFault extends Error {
  /** JSON Pointer (RFC 6901) to the value that is wrong, or that surrounds it. */
  readonly pointer: string;

  constructor(message: string, pointer: string) {
    super(message);
    this.pointer = pointer;
  }
}

/**
 * Reads JSON (RFC 8259) strictly. Unlike JSON.parse it keeps whole numbers beyond 2^53 exact, as a bigint, so that an
 * `int64` is checked as it was sent; and objects have no prototype, so that `constructor` is not a property of theirs.
 *
 * Attack: an object has one name twice. The gateway checks the last value and the service uses the first, so that a value
 * that was not checked gets through. So a name that is there twice is refused, compared after its escapes are decoded.
 *
 * Attack: a body of `[[[[…`, or of one object in another ten thousand times. What recurses over the value would exhaust the
 * stack, so the depth is bounded here.
 *
 * Attack: a body of a megabyte has half a million values. So each is counted as work, and a list takes only the memory of its
 * items: one that grows by `push` has room for 17 after the first.
 * @param work of the request; null for what the operator has written
 * @throws JsonFault
 * @throws ExcessError
 */
export function readJson(text: string, work: Work | null = null): unknown {
  return new JsonReader(text, work).read();
}

const SPACE = /[ \t\n\r]*/y;
const PLAIN = /[^"\\\0-\x1f]*/y;
const STRING = /(?:[^"\\\0-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const [ZERO, NINE, DOT, E, e] = [0x30, 0x39, 0x2e, 0x45, 0x65];
/** As many digits are always exact. */
const SHORT_DIGITS = 15;
/** Digits of a whole number. More cannot be in the range of any format, and would take long to turn into a bigint. */
const MAX_DIGITS = 400;

/** An object without members and prototype. `Object.create(null)` makes a hash table, which takes six times the memory. */
const Bare = function (this: object) {} as unknown as new () => object;
Bare.prototype = Object.create(null);

class JsonReader {
  readonly #text: string;
  readonly #work: Work | null;
  readonly #path: (string | number)[] = [];
  /** The items of the lists that are being read, those of the innermost last. */
  readonly #items: unknown[] = [];
  /** How many of them there are; further ones are of lists that have ended. */
  #itemCount = 0;
  #at = 0;

  constructor(text: string, work: Work | null) {
    this.#text = text;
    this.#work = work;
  }

  read(): unknown {
    this.#work?.spend(Math.ceil(this.#text.length / CHARACTERS_PER_STEP));
    this.#skip();
    const value = this.#value();
    if (this.#at < this.#text.length) throw this.#fault('has something after its end');
    return value;
  }

  /** Reads a value and the white space after it. */
  #value(): unknown {
    if (this.#path.length > MAX_DEPTH) throw this.#fault(`is nested deeper than ${MAX_DEPTH} levels`);
    this.#work?.spend(VALUE_STEPS);
    const value = this.#bare();
    this.#skip();
    return value;
  }

  #bare(): unknown {
    switch (this.#text[this.#at]) {
      case '{':
        return this.#object();
      case '[':
        return this.#list();
      case '"':
        this.#at++;
        return this.#string();
      case 't':
        return this.#word('true', true);
      case 'f':
        return this.#word('false', false);
      case 'n':
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #object(): object {
    this.#at++;
    this.#skip();
    if (this.#takes('}')) return new Bare();
    const object = Object.create(null) as Record<string, unknown>;
    const depth = this.#path.length;
    do {
      if (this.#text[this.#at] !== '"') throw this.#fault('is not JSON: a name in quotes is missing');
      this.#at++;
      const name = this.#string();
      this.#path[depth] = name;
      if (name in object) throw this.#fault('is there twice');
      this.#skip();
      if (!this.#takes(':')) throw this.#fault('is not JSON: `:` is missing');
      this.#work?.spend(MEMBER_STEPS);
      object[name] = this.#value();
      this.#path.length = depth;
    } while (this.#takes(','));
    if (this.#text[this.#at] !== '}') throw this.#fault('is not JSON: `,` or `}` is missing');
    this.#at++;
    return object;
  }

  #list(): unknown[] {
    this.#at++;
    this.#skip();
    if (this.#takes(']')) return [];
    const depth = this.#path.length;
    const first = this.#itemCount;
    do {
      this.#path[depth] = this.#itemCount - first;
      const item = this.#value();
      this.#items[this.#itemCount++] = item;
    } while (this.#takes(','));
    this.#path.length = depth;
    if (this.#text[this.#at] !== ']') throw this.#fault('is not JSON: `,` or `]` is missing');
    this.#at++;
    const list = this.#items.slice(first, this.#itemCount);
    this.#itemCount = first;
    return list;
  }

  /** Reads the rest of a string after its opening quote. */
  #string(): string {
    const from = this.#at;
    PLAIN.lastIndex = from;
    PLAIN.test(this.#text);
    const end = PLAIN.lastIndex;
    if (this.#text[end] === '"') {
      this.#at = end + 1;
      return this.#text.slice(from, end);
    }
    STRING.lastIndex = from;
    if (!STRING.test(this.#text))
      throw this.#fault('is not JSON: a text has no end, or a character that must be escaped');
    this.#at = STRING.lastIndex;
    return JSON.parse(this.#text.slice(from - 1, this.#at)) as string;
  }

  #number(): number | bigint {
    const short = this.#shortNumber();
    if (short !== null) return short;
    NUMBER.lastIndex = this.#at;
    const found = NUMBER.exec(this.#text);
    if (found === null) throw this.#fault(this.#at < this.#text.length ? 'is not JSON' : 'ends too early');
    const [digits, fraction, exponent] = found;
    this.#at = NUMBER.lastIndex;
    if (digits.length > MAX_DIGITS) throw this.#fault('is a number with too many digits');
    const number = Number(digits);
    // The service may read it as infinite, or as the largest number that it has.
    if (!Number.isFinite(number)) throw this.#fault('is a number beyond the range of 64 bits');
    if (fraction !== undefined || exponent !== undefined || Number.isSafeInteger(number)) return number;
    return BigInt(digits);
  }

  /** Reads a whole number of 1 to 15 digits, as most are. @returns null if it is not one */
  #shortNumber(): number | null {
    const text = this.#text;
    const from = this.#at;
    let at = from;
    let number = 0;
    let code = text.charCodeAt(from);
    while (isDigit(code) && at - from < SHORT_DIGITS) {
      number = number * 10 + code - ZERO;
      code = text.charCodeAt(++at);
    }
    const isOther = at === from || isDigit(code) || code === DOT || code === E || code === e;
    if (isOther || (at - from > 1 && text.charCodeAt(from) === ZERO)) return null;
    this.#at = at;
    return number;
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) throw this.#fault('is not JSON');
    this.#at += word.length;
    return value;
  }

  /** Passes over a mark and the white space after it. */
  #takes(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    this.#skip();
    return true;
  }

  #skip(): void {
    const code = this.#text.charCodeAt(this.#at);
    if (code > 0x20) return;
    SPACE.lastIndex = this.#at;
    SPACE.test(this.#text);
    this.#at = SPACE.lastIndex;
  }

  #fault(message: string): JsonFault {
    return new JsonFault(message, pointerOf(this.#path));
  }
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

/** JSON Pointer (RFC 6901) to a value. */
function pointerOf(path: readonly (string | number)[]): string {
  return path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
