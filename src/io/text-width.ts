import stringWidth from 'string-width';

// How many cells of a terminal a text takes.

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
