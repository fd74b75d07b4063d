import { styleText } from 'node:util';

// Text on a terminal: which characters may reach it, and colours. How many cells it takes is in text-width.ts.

/** Control, format and bidirectional characters, line ends, halves of characters, and what is invisible by definition. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}[\p{Default_Ignorable_Code_Point}--\p{Variation_Selector}]]/v;
const EVERY_UNSEEN = new RegExp(UNSEEN, 'gv');

/**
 * Makes untrusted text safe to show.
 *
 * Attack: a client sends a path, or a team names a key, with escape sequences, which would recolour, rewrite or retitle the
 * operator's terminal, or with bidirectional characters, which would show another text. Each of these characters becomes its code
 * point, such as `\u{1b}`.
 */
export function escapedText(text: string): string {
  return UNSEEN.test(text) ? text.replace(EVERY_UNSEEN, escaped) : text;
}

function escaped(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`;
}

/** Colours that a terminal shows in its own palette, so that they fit light and dark ones. */
export type Tone = 'bold' | 'dim' | 'green' | 'cyan' | 'yellow' | 'red';

/** Gives text a tone, or returns it as it is. The text says the same without. */
export type Style = (tone: Tone, text: string) => string;

/**
 * The style for what is written to a stream. NO_COLOR decides unless it is empty (no-color.org); after it Node's `styleText`, by
 * FORCE_COLOR, by TERM, and by whether the stream is a terminal. Node alone would prefer FORCE_COLOR.
 */
export function styleFor(stream: NodeJS.WriteStream, { NO_COLOR = '' }: NodeJS.ProcessEnv): Style {
  if (NO_COLOR !== '') return PLAIN;
  return (tone, text) => (text === '' ? text : styleText(tone, text, { stream }));
}

export const PLAIN: Style = (_, text) => text;
