import { RE2JS } from 're2js';
import { isOfFormat, stepsOfFormat } from './formats.ts';
import { costOf, leaveOutAutomaton } from './pattern-cost.ts';
import { translated } from './schema-pattern.ts';
import {
  CHARACTERS_PER_STEP,
  ExcessError,
  MEMBER_STEPS,
  NAME_STEPS,
  SCHEMA_STEPS,
  VALUE_STEPS,
  type Work,
} from './work.ts';

/*
 * What the generated checks of a description call.
 */

/** The values of an `enum`, in the form of `textOf`. */
interface EnumValues {
  readonly texts: ReadonlySet<string>;
  readonly hasObjects: boolean;
}

interface Expression {
  readonly test: (text: string) => boolean;
  readonly toString: () => string;
}

/** The functions that generated code uses, by the names under which it asks for them. One for each description. */
export class Checks {
  readonly #work: Work;
  readonly #automata: ReadonlySet<string>;
  readonly #patterns = new Map<string, RE2JS>();
  readonly #allowed = new WeakMap<readonly string[], EnumValues>();

  /** @param automata the patterns that have a small automaton (`Program`) */
  constructor(work: Work, automata: readonly string[]) {
    this.#work = work;
    this.#automata = new Set(automata);
  }

  /** A schema is entered. @param names how many names of properties it asks for */
  readonly step = (_value: unknown, names: number): true => {
    this.#work.spend(SCHEMA_STEPS + NAME_STEPS * names);
    return true;
  };

  /** A schema is entered that looks at all members of an object. */
  readonly members = (value: unknown, names: number): true => {
    this.step(value, names);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return true;
    let members = 0;
    for (const _ in value) members++;
    this.#work.spend(VALUE_STEPS * members);
    return true;
  };

  /** @param types of JSON Schema */
  readonly type = (value: unknown, types: readonly string[]): boolean => types.some((type) => isOfType(value, type));

  readonly number = (value: unknown, rules: NumberRules): boolean =>
    (typeof value !== 'number' && typeof value !== 'bigint') || fits(value, rules);

  readonly format = (value: unknown, name: string): boolean => {
    if (typeof value !== 'string') return true;
    this.#work.spend(stepsOfFormat(value, name));
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
    return allowed.texts.has(textOf(value, this.#work));
  };

  /** Whether all items of a list differ. The time it takes grows with the list, not with its square. */
  readonly unique = (value: unknown): boolean => {
    if (!Array.isArray(value)) return true;
    const seen = new Set<string>();
    for (const item of value) {
      const text = textOf(item, this.#work);
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
      if (!this.#automata.has(source)) leaveOutAutomaton(pattern);
      this.#patterns.set(source, pattern);
    }
    const compiled = pattern;
    const { stepsPerCharacter, maxCharacters } = costOf(pattern, this.#automata.has(source));
    return {
      test: (text) => {
        if (text.length > maxCharacters) throw new ExcessError();
        // Before it is compared, because nothing can stop it then.
        this.#work.spend(VALUE_STEPS + stepsPerCharacter * (text.length + 1));
        return compiled.test(text);
      },
      toString: () => source,
    };
  };

  /** The characters of a text, where a pair of surrogates is one. */
  readonly length = (text: string): number => {
    this.#work.spend(Math.ceil(text.length / CHARACTERS_PER_STEP));
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
}

/**
 * An expression of a description.
 *
 * Attack: `^(a+)+$` takes a backtracking engine minutes for thirty characters. RE2 takes time in proportion to the text,
 * and refuses what it cannot do so: look-around and back-references.
 * @throws PatternFault
 * @throws Error if RE2 cannot use it
 */
export function patternOf(source: string): RE2JS {
  return RE2JS.compile(translated(source));
}

/**
 * A text that is the same for values that JSON Schema takes for equal.
 * @param work of the request; null for what the operator has written
 */
export function textOf(value: unknown, work: Work | null = null): string {
  const text = writtenOut(value, work);
  // On each level, because the text of a list is made of those of its items.
  work?.spend(VALUE_STEPS + Math.ceil(text.length / CHARACTERS_PER_STEP));
  return text;
}

function writtenOut(value: unknown, work: Work | null): string {
  if (Array.isArray(value)) return `[${value.map((item) => textOf(item, work)).join()}]`;
  if (typeof value === 'object' && value !== null) {
    const object = value as Record<string, unknown>;
    const members = Object.keys(object).sort();
    // Sorting compares each with some others.
    work?.spend(MEMBER_STEPS * members.length);
    return `{${members.map((name) => `${JSON.stringify(name)}:${textOf(object[name], work)}`).join()}}`;
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
