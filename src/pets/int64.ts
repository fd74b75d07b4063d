/**
 * Reads an int64 from its one way of being written: decimal digits with an optional minus sign. Null for everything
 * else, so for `1.0`, `1e3`, `-0`, `007`, quoted numbers, and numbers outside -2^63 to 2^63 - 1 (interface section 2,
 * "integer, int64"). What it accepts is written back by `toJson` character for character.
 */
export function parseInt64(text: string): bigint | null {
  // At most 19 digits are converted: BigInt() on a megabyte of digits would be slow enough to be an attack.
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return null;
  const value = BigInt(text);
  return value >= INT64_MIN && value <= INT64_MAX ? value : null;
}

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** JSON with every `bigint` in it as a plain number with all of its digits (contract section 8: beyond 2^53 too). */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_name, member) => (typeof member === 'bigint' ? JSON.rawJSON(String(member)) : member));
}

declare global {
  interface JSON {
    /** ECMAScript "JSON.parse source text access": stringified as exactly this text. */
    rawJSON(text: string): unknown;
  }
}
