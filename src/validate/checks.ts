import { RE2JS } from 're2js';
import { isOfFormat } from './formats.ts';

/*
 * What the generated checks of a description call.
 */

/** A check that took too much work. */
export class ExcessError extends Error {}

/**
 * How much work one request may cause: schemas that are entered, and characters that are compared with a pattern.
 *
 * Attack: alternatives (`oneOf`) within alternatives are tried one after the other, so that a small body that is nested
 * deeply in a recursive schema takes twice the time for each level.
 */
const MAX_STEPS = 1_000_000;
/** A schema that is entered. An alternative that fails takes a microsecond or two, a character with a pattern a fifth of it. */
const SCHEMA_STEPS = 5;
/** The longest text that is compared with a pattern. RE2 takes some milliseconds for as much. */
const MAX_PATTERN_TEXT = 16_384;

/** The values of an `enum`, in the form of `textOf`. */
interface Allowed {
  readonly texts: ReadonlySet<string>;
  readonly hasObjects: boolean;
}

interface Expression {
  readonly test: (text: string) => boolean;
  readonly toString: () => string;
}

/** The functions that generated code uses, by the names under which it asks for them. One for each description. */
export class Checks {
  readonly #patterns = new Map<string, RE2JS>();
  readonly #allowed = new WeakMap<readonly string[], Allowed>();
  #left = 0;

  /** Begins to count the work of a request anew. */
  begin(): void {
    this.#left = MAX_STEPS;
  }

  readonly step = (): true => {
    this.#spend(SCHEMA_STEPS);
    return true;
  };

  /** @param types of JSON Schema */
  readonly type = (value: unknown, types: readonly string[]): boolean => types.some((type) => isOfType(value, type));

  readonly number = (value: unknown, rules: NumberRules): boolean =>
    (typeof value !== 'number' && typeof value !== 'bigint') || fits(value, rules);

  readonly format = (value: unknown, name: string): boolean => {
    if (typeof value !== 'string') return true;
    this.#spend(value.length);
    return isOfFormat(value, name);
  };

  /** Whether a value is one of those listed, each in the form of `textOf`. */
  readonly listed = (value: unknown, texts: readonly string[]): boolean => {
    let allowed = this.#allowed.get(texts);
    if (allowed === undefined) {
      allowed = { texts: new Set(texts), hasObjects: texts.some((text) => /^[[{]/.test(text)) };
      this.#allowed.set(texts, allowed);
    }
    if (typeof value === 'object' && value !== null && !allowed.hasObjects) return false;
    return allowed.texts.has(this.#textOf(value));
  };

  /** Whether all items of a list differ. The time it takes grows with the list, not with its square. */
  readonly unique = (value: unknown): boolean => {
    if (!Array.isArray(value)) return true;
    const seen = new Set<string>();
    for (const item of value) {
      const text = this.#textOf(item);
      if (seen.has(text)) return false;
      seen.add(text);
    }
    return true;
  };

  /** An expression as ajv uses one. By `toString` it knows two that are the same, and makes one of them. */
  readonly pattern = (source: string): Expression => {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      pattern = patternOf(source);
      this.#patterns.set(source, pattern);
    }
    const compiled = pattern;
    return {
      test: (text) => {
        if (text.length > MAX_PATTERN_TEXT) throw new ExcessError();
        this.#spend(text.length);
        return compiled.test(text);
      },
      toString: () => source,
    };
  };

  /** The characters of a text, where a pair of surrogates is one. */
  readonly length = (text: string): number => {
    let length = text.length;
    for (let i = 0; i < text.length - 1; i++) {
      const code = text.charCodeAt(i);
      if (code < 0xd800 || code > 0xdbff) continue;
      const next = text.charCodeAt(i + 1);
      if (next >= 0xdc00 && next <= 0xdfff) {
        length--;
        i++;
      }
    }
    return length;
  };

  #textOf(value: unknown): string {
    const text = textOf(value);
    this.#spend(text.length >> 2);
    return text;
  }

  #spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new ExcessError();
  }
}

/**
 * An expression of a description.
 *
 * Attack: `^(a+)+$` takes a backtracking engine minutes for thirty characters. RE2 takes time in proportion to the text,
 * and refuses what it cannot do so: look-around and back-references.
 * @throws Error if RE2 cannot use it
 */
export function patternOf(source: string): RE2JS {
  return RE2JS.compile(RE2JS.translateRegExp(source));
}

/** A text that is the same for values that JSON Schema takes for equal. */
export function textOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(textOf).join()}]`;
  if (typeof value === 'object' && value !== null) {
    const object = value as Record<string, unknown>;
    const members = Object.keys(object).sort();
    return `{${members.map((name) => `${JSON.stringify(name)}:${textOf(object[name])}`).join()}}`;
  }
  return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? '');
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case 'integer':
      return typeof value === 'bigint' || Number.isInteger(value);
    case 'number':
      return typeof value === 'bigint' || typeof value === 'number';
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    default:
      return typeof value === type;
  }
}

/** Limits are inclusive unless they are called otherwise. Texts are whole numbers beyond 2^53. */
export interface NumberRules {
  readonly minimum?: number | string;
  readonly maximum?: number | string;
  readonly exclusiveMinimum?: number | string;
  readonly exclusiveMaximum?: number | string;
  readonly multipleOf?: number;
  readonly bits?: 32 | 64;
}

function fits(value: number | bigint, rules: NumberRules): boolean {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, bits } = rules;
  if (minimum !== undefined && value < limitOf(minimum)) return false;
  if (maximum !== undefined && value > limitOf(maximum)) return false;
  if (exclusiveMinimum !== undefined && value <= limitOf(exclusiveMinimum)) return false;
  if (exclusiveMaximum !== undefined && value >= limitOf(exclusiveMaximum)) return false;
  if (multipleOf !== undefined && !isMultiple(value, multipleOf)) return false;
  if (bits === undefined) return true;
  const half = bits === 32 ? 2n ** 31n : 2n ** 63n;
  return (typeof value === 'bigint' || Number.isInteger(value)) && value >= -half && value < half;
}

function limitOf(limit: number | string): number | bigint {
  return typeof limit === 'string' ? BigInt(limit) : limit;
}

function isMultiple(value: number | bigint, of: number): boolean {
  if (Number.isInteger(of) && (typeof value === 'bigint' || Number.isSafeInteger(value))) {
    return BigInt(value) % BigInt(of) === 0n;
  }
  // 0.3 is a multiple of 0.1, although 0.3 / 0.1 is 2.9999999999999996.
  const times = Number(value) / of;
  return Math.abs(times - Math.round(times)) <= 1e-9 * Math.max(1, Math.abs(times));
}

/** One generated check. It has `errors`, of ajv, after a value that does not fit. */
export interface Check {
  (value: unknown): boolean;
  readonly errors?: readonly CheckError[] | null;
}

export interface CheckError {
  /** JSON Pointer to the value that does not fit. */
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** The names under which generated code asks for its functions. */
export const RUNTIME = 'tollgate:checks';
const UCS2_LENGTH = 'ajv/dist/runtime/ucs2length';

/**
 * Runs a generated program.
 *
 * The code comes from a file that the operator named, through ajv, which writes every value of the file into it as a
 * literal. It gets no `require` but this one.
 */
export function exportsOf(code: string, checks: Checks): Readonly<Record<string, Check>> {
  const exported: Record<string, Check> = {};
  const module = { exports: exported };
  const known = (name: string): unknown => {
    if (name === RUNTIME) return checks;
    if (name === UCS2_LENGTH) return { default: checks.length };
    throw new Error(`the generated checks ask for ${name}`);
  };
  new Function('module', 'exports', 'require', code)(module, exported, known);
  return module.exports;
}
