/*
 * Patterns of a description (ECMA-262, as JSON Schema says) in the syntax of RE2.
 */

/** A range of code points, both ends included. */
type Range = readonly [first: number, last: number];

const LAST = 0x10ffff;
/** The escapes of sets of characters, in ascending order. Those in upper case are the rest. */
const SETS: Readonly<Record<string, readonly Range[]>> = {
  d: [[0x30, 0x39]],
  w: [
    [0x30, 0x39],
    [0x41, 0x5a],
    [0x5f, 0x5f],
    [0x61, 0x7a],
  ],
  // WhiteSpace and LineTerminator of ECMA-262; RE2 has those of ASCII alone, and without the vertical tab.
  s: [
    [0x09, 0x0d],
    [0x20, 0x20],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
    [0x2028, 0x2029],
    [0x202f, 0x202f],
    [0x205f, 0x205f],
    [0x3000, 0x3000],
    [0xfeff, 0xfeff],
  ],
};
/** Outside of a class `\b` is a boundary, and never comes here. */
const CONTROLS: Readonly<Record<string, number>> = { b: 8, t: 9, n: 10, v: 11, f: 12, r: 13 };
const NO_LINE_END = '[^\\x{a}\\x{d}\\x{2028}\\x{2029}]';
/** The classes `[^]` and `[]`, for which RE2 has no syntax. */
const ANYTHING = '[\\x{0}-\\x{10ffff}]';
const NOTHING = '[^\\x{0}-\\x{10ffff}]';
const QUANTIFIER = /[*+?]\??|\{[0-9]+(?:,[0-9]*)?\}\??/y;
const BOUNDARY = /\\[bB]/y;
const HEX = /\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}))/y;
const LONG_HEX = /\\u\{([0-9A-Fa-f]+)\}/y;
const LOW_HALF = /\\u(d[c-f][0-9a-f]{2})/iy;
/** RE2 has the names of scripts without `Script=`, of the same version of Unicode. */
const PROPERTY = /\\([pP])\{(?:(?:Script|sc)=)?([^}]*)\}/y;
const GROUP = /\((?:\?(?::|<(?![=!])[^>]*>))?/y;

/**
 * Writes a pattern of ECMA-262 for RE2, so that both match the same texts: `.` matches no line end, `\s` matches all white space,
 * `^` and `$` are the ends of the text, and a character beyond U+FFFF is one character, as with the flag `u`.
 *
 * A pattern that ECMA-262 reads only without `u` is accepted too (`\-`, `{` for itself), but not if it escapes a letter or a
 * digit that means nothing there: its author had another dialect in mind, where `\z` and `\A` are the ends of the text.
 * @returns the pattern for RE2, which may still refuse it
 * @throws PatternFault
 */
export function translated(source: string): string {
  const isUnicode = compiles(source, 'u');
  if (!isUnicode && !compiles(source, '')) throw new PatternFault('is no pattern of ECMA-262');
  return new Translator(source, isUnicode).whole();
}

/** Why a pattern is refused, as the end of a sentence. */
export class PatternFault extends Error {}

function compiles(source: string, flags: string): boolean {
  try {
    return RegExp(source, flags) !== null;
  } catch {
    return false;
  }
}

/** Walks over a pattern that the engine of Node has accepted, so that its syntax is not checked again. */
class Translator {
  readonly #source: string;
  readonly #isUnicode: boolean;
  #at = 0;

  constructor(source: string, isUnicode: boolean) {
    this.#source = source;
    this.#isUnicode = isUnicode;
  }

  whole(): string {
    let written = '';
    while (this.#at < this.#source.length) written += this.#term();
    return written;
  }

  #term(): string {
    const source = this.#source;
    switch (source[this.#at]) {
      case '.':
        this.#at++;
        return NO_LINE_END;
      case '^':
        this.#at++;
        return '\\A';
      case '$':
        this.#at++;
        return '\\z';
      case '|':
      case ')':
        return source[this.#at++]!;
      case '(':
        this.#take(GROUP);
        if (source[this.#at] === '?') throw refusedGroup(source.slice(this.#at));
        return '(?:';
      case '[':
        return this.#set();
      case '\\':
        if (/[bB]/.test(source[this.#at + 1]!)) return this.#take(BOUNDARY)![0];
        return `[${this.#escape()}]`;
      default: {
        const repeated = this.#take(QUANTIFIER)?.[0];
        return repeated ?? this.#character();
      }
    }
  }

  /** A class `[…]`. */
  #set(): string {
    this.#at++;
    const isNegated = this.#source[this.#at] === '^';
    if (isNegated) this.#at++;
    let members = '';
    while (this.#source[this.#at] !== ']') {
      const from = this.#member();
      members += from;
      if (this.#source[this.#at] !== '-' || this.#source[this.#at + 1] === ']') continue;
      this.#at++;
      const to = this.#member();
      // Without `u`, a `-` beside a set is itself: `[\w-.]`.
      members += isCharacter(from) && isCharacter(to) ? `-${to}` : `\\x{2d}${to}`;
    }
    this.#at++;
    if (members === '') return isNegated ? ANYTHING : NOTHING;
    return `[${isNegated ? '^' : ''}${members}]`;
  }

  #member(): string {
    return this.#source[this.#at] === '\\' ? this.#escape() : this.#character();
  }

  #character(): string {
    const code = this.#source.codePointAt(this.#at)!;
    this.#at += code > 0xffff ? 2 : 1;
    return characterOf(code);
  }

  /** An escape as members of a class. */
  #escape(): string {
    if (this.#isUnicode) {
      const property = this.#take(PROPERTY);
      if (property !== null) return `\\${property[1]}{${property[2]}}`;
      const long = this.#take(LONG_HEX);
      if (long !== null) return characterOf(Number.parseInt(long[1]!, 16));
    }
    const hex = this.#take(HEX);
    if (hex !== null) return this.#ofUnit(Number.parseInt(hex[1] ?? hex[2]!, 16), hex[2] !== undefined);
    const letter = this.#source[this.#at + 1]!;
    this.#at++;
    if (!/[A-Za-z0-9]/.test(letter)) return this.#character();
    this.#at++;
    const set = SETS[letter.toLowerCase()];
    if (set !== undefined) return membersOf(letter === letter.toLowerCase() ? set : complementOf(set));
    const control = CONTROLS[letter];
    if (control !== undefined) return characterOf(control);
    const next = this.#source[this.#at] ?? '';
    if (letter === '0' && !/[0-9]/.test(next)) return characterOf(0);
    if (letter === 'c' && /[A-Za-z]/.test(next)) {
      this.#at++;
      return characterOf(next.charCodeAt(0) % 32);
    }
    if (letter === 'k' || /[1-9]/.test(letter)) throw new PatternFault('must have no back-reference');
    throw new PatternFault(`has \`\\${letter}\`, which means nothing here in ECMA-262`);
  }

  /** @param mayBeHalf whether this escape and the next one may be the halves of one character */
  #ofUnit(unit: number, mayBeHalf: boolean): string {
    const low = mayBeHalf && unit >= 0xd800 && unit <= 0xdbff ? this.#take(LOW_HALF) : null;
    if (low === null) return characterOf(unit);
    return characterOf(String.fromCharCode(unit, Number.parseInt(low[1]!, 16)).codePointAt(0)!);
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }
}

function refusedGroup(rest: string): PatternFault {
  return /^\?<?[=!]/.test(rest)
    ? new PatternFault('must have no look-around (`(?=`, `(?!`, `(?<=`, `(?<!`)')
    : new PatternFault('must have no flags within it (`(?i:`); write both cases');
}

/** Whether members of a class are one character. */
function isCharacter(member: string): boolean {
  return /^\\x\{[0-9a-f]+\}$/.test(member);
}

function complementOf(ranges: readonly Range[]): readonly Range[] {
  const rest: Range[] = [];
  let next = 0;
  for (const [first, last] of ranges) {
    if (first > next) rest.push([next, first - 1]);
    next = last + 1;
  }
  return [...rest, [next, LAST]];
}

function characterOf(code: number): string {
  return `\\x{${code.toString(16)}}`;
}

function membersOf(ranges: readonly Range[]): string {
  return ranges.map(([first, last]) => `${characterOf(first)}-${characterOf(last)}`).join('');
}
