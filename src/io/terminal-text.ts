import { styleText } from 'node:util';
import stringWidth from 'string-width';

// Text on a terminal: which characters may reach it, how many cells it takes, and colours.

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

/** The cells of a terminal that text takes: two for wide characters, such as those of East Asia, and none for combining marks. */
export const widthOf: (text: string) => number = stringWidth;

const CUT = '…';
const GRAPHEMES = new Intl.Segmenter();

/** The beginning of a text, with `…` if it is not the whole, in at most `width` cells; empty without any. */
export function shortened(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  if (width < 1) return '';
  let shown = '';
  for (const { segment } of GRAPHEMES.segment(text)) {
    if (widthOf(shown + segment + CUT) > width) break;
    shown += segment;
  }
  return shown + CUT;
}

/** Fills text with spaces to `width` cells. */
export function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

/** Breaks a text between words into lines of at most `width` cells; a longer word has a line for itself, so that it can be copied. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const longer = lines.length === 0 ? word : `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && widthOf(longer) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
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
