import { tonumber } from './script-globals.ts';

/** The largest number that Lua and the gateway count exactly. */
export const MOST = 9_007_199_254_740_992;

/** Undefined if the text is not a whole number that a gateway can have written. */
export function wholeIn(text: string): number | undefined {
  const number = tonumber(text);
  if (number === undefined || number < 0 || number > MOST || number !== Math.floor(number)) return undefined;
  return number;
}
