/** An animal of the store (interface section 2). Ids are int64 and therefore `bigint` throughout. */
export interface Pet extends NewPet {
  readonly id: bigint;
}

/** The body of a request that adds an animal, with the default of `status` filled in (contract section 8). */
export interface NewPet {
  readonly name: string;
  readonly categoryId: bigint;
  readonly status: PetStatus;
}

export type PetStatus = (typeof PET_STATUSES)[number];

export const PET_STATUSES = ['available', 'pending', 'sold'] as const;

/** Whether a value is one of the three states of an animal (interface section 2, PetStatus). */
export function isPetStatus(value: unknown): value is PetStatus {
  return PET_STATUSES.some((status) => status === value);
}

/**
 * Parses an int64 in its canonical form: decimal digits with an optional minus sign. Null for everything else, such as
 * `1.0`, `1e3`, `-0`, `007`, quoted numbers, and numbers outside -2^63 to 2^63 - 1 (interface section 2, "integer,
 * int64"). `toJson` writes every accepted value back character for character.
 */
export function parseInt64(text: string): bigint | null {
  // Attack: a megabyte of digits, which BigInt() converts slowly. So at most 19 digits are converted.
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return null;
  const value = BigInt(text);
  return value >= INT64_MIN && value <= INT64_MAX ? value : null;
}

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** JSON in which every `bigint` is a number with all its digits, also beyond 2^53 (contract section 8). */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_name, member) => (typeof member === 'bigint' ? JSON.rawJSON(String(member)) : member));
}

declare global {
  interface JSON {
    /** ECMAScript proposal "JSON.parse source text access": a value that JSON.stringify writes as exactly this text. */
    rawJSON(text: string): unknown;
  }
}

/** The result of checking a client's input: the value, or one sentence that names the field at fault. */
export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

export function passed<T>(value: T): Checked<T> {
  return { ok: true, value };
}

export function fault(sentence: string): Checked<never> {
  return { ok: false, fault: sentence };
}
