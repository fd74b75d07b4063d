/*
 * What a client prefers: fields such as Accept and Accept-Encoding (RFC 9110 section 12.4.2), lists of names with
 * weights.
 */

/** A weight of RFC 9110 section 12.4.2. */
const WEIGHT = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/** The parts of a list that are read; those behind them are ignored. Browsers send a dozen at most. */
const MAX_PARTS = 100;

/**
 * The weight of each name in a field, from 0 (not acceptable) to 1. Parameters other than the weight are ignored, and of
 * several weights of one name the highest counts. A malformed weight is 0, so that it never selects anything.
 * @param text the values of the field, joined with commas
 * @returns names in lower case
 */
export function weightsOf(text: string): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const element of split(text, ',')) {
    const [name = '', ...parameters] = split(element, ';').map((part) => part.trim());
    if (name === '') continue;
    const weight = parameters.find((parameter) => /^q=/i.test(parameter))?.slice(2) ?? '1';
    const value = WEIGHT.test(weight) ? Number(weight) : 0;
    const lower = name.toLowerCase();
    weights.set(lower, Math.max(value, weights.get(lower) ?? 0));
  }
  return weights;
}

/**
 * Splits a text at a separator outside quoted strings, in one pass: a pattern would look for the end of each again.
 *
 * Attack: a field of 15 KiB with a thousand elements took longer to read than all else that the gateway does for a request.
 * So no more than `MAX_PARTS` are read.
 */
function split(text: string, separator: string): string[] {
  const parts: string[] = [];
  let [from, isQuoted] = [0, false];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted && character === '\\') at++;
    else if (!isQuoted && character === separator) {
      parts.push(text.slice(from, at));
      if (parts.length === MAX_PARTS) return parts;
      from = at + 1;
    }
  }
  parts.push(text.slice(from));
  return parts;
}
