/*
 * What a request cost, as the service's answer states it: where it stands, and what is known of it.
 */

/**
 * Where the cost of an answer stands. `bytes`: the length of its body as the service sends it. `milliseconds`: how long the
 * request was at the service. `pointer`: the tokens of a JSON Pointer, see `pointerOf`.
 */
export type CostSource =
  | { readonly kind: 'header'; readonly name: string /* in lower case */ }
  | BodySource
  | { readonly kind: 'bytes' }
  | { readonly kind: 'milliseconds' };

/** A number in a JSON text: the whole body, the data of an event of an event stream, or a line of newline-delimited JSON. */
export interface BodySource {
  readonly kind: 'json' | 'sse' | 'ndjson';
  readonly pointer: readonly string[];
}

/**
 * What is known of the cost in one unit. Amounts are whole numbers from 0 to `MAX_AMOUNT`.
 *
 * - `absent`: the answer does not state it
 * - `invalid`: it states it twice, or not as an amount
 * - `too_large`: what was measured is above `MAX_AMOUNT`
 * - `undecodable`: the Content-Encoding is unknown, or the body is not in it
 * - `busy`: the gateway stopped while the body was being decompressed
 * - `cut`: the answer did not arrive whole
 */
export type CostReading =
  | { readonly kind: 'known'; readonly amount: number }
  | {
      readonly kind: 'unknown';
      readonly why: 'absent' | 'invalid' | 'too_large' | 'undecodable' | 'busy' | 'cut';
      /** The last amount that was read nevertheless; null if there is none. */
      readonly seen: number | null;
    };

/** The largest cost of one request in one unit. */
export const MAX_AMOUNT = 1_000_000_000_000;

/** The longest text of an amount, in characters. */
const MAX_DIGITS = 40;
const JSON_NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/** The same of a text that is too long: a number from 0, as far as its beginning says. */
const LONG_NUMBER = /^[0-9][-+.0-9eE]*$/;

/**
 * Reads the text of a JSON number from 0 as a whole number; a fraction is rounded up.
 * @returns Infinity for one of more than 40 characters, which need not be whole; null if it is no such number
 */
export function wholeNumberOf(text: string): number | null {
  if (text.length > MAX_DIGITS) return LONG_NUMBER.test(text) ? Infinity : null;
  const number = JSON_NUMBER.test(text) ? Number(text) : -1;
  // `+ 0` turns -0 into 0.
  return number >= 0 ? Math.ceil(number) + 0 : null;
}

/** The same as an amount. @returns null unless it is between 0 and `MAX_AMOUNT`, in at most 40 characters */
export function amountOf(text: string): number | null {
  const number = wholeNumberOf(text);
  return number !== null && number <= MAX_AMOUNT ? number : null;
}

/**
 * The tokens of a JSON Pointer (RFC 6901) such as `/usage/total_tokens`, with their escapes decoded.
 * @returns null if it is malformed, or the empty pointer, which names the whole text
 */
export function pointerOf(text: string): readonly string[] | null {
  if (!text.startsWith('/') || !text.isWellFormed() || /~(?![01])/.test(text)) return null;
  return text
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}
