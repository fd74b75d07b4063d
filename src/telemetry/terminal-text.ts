// Text on a terminal: which characters may reach it, how many columns they take, and colours.

/**
 * Everything that a terminal may obey, hide, reorder or join instead of printing it: control characters (ESC, CSI and the like),
 * format characters (bidi, zero width, tags), surrogates, private and unassigned characters, separators other than the plain space,
 * combining marks, and characters that fonts leave out.
 */
const UNSAFE = /[\p{C}\p{M}\p{Default_Ignorable_Code_Point}]|(?! )\p{Z}/gu;

/**
 * Returns text in which each character is printed where it stands.
 *
 * Attack: a client sends a path with escape sequences, which would recolour, rewrite or retitle the operator's terminal, or with
 * bidi characters, which would show another text. Each of these characters becomes an escape such as `\u{1b}`.
 */
export function printable(text: string): string {
  // Composed first, so that `e` with a combining accent stays the letter that it is.
  return text.normalize('NFC').replace(UNSAFE, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}

/** What some terminals draw in two columns: the scripts of East Asia, and symbols that may be drawn as pictures. */
const WIDE = /[\u{1100}-\u{1dff}\u{2e80}-\u{10ffff}]|(?![\u{0}-\u{ff}])\p{Extended_Pictographic}/u;
const ASCII = /^[\x20-\x7e]*$/;

/** The columns that one printable character takes at most. A few narrow characters count as wide, so that no line wraps. */
function columnsOf(character: string): number {
  return WIDE.test(character) ? 2 : 1;
}

/** The columns that printable text takes at most. */
export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += columnsOf(character);
  return width;
}

/** Cuts printable text to `width` columns; `…` stands for what is cut off. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = '';
  let used = 1;
  for (const character of text) {
    used += columnsOf(character);
    if (used > width) break;
    kept += character;
  }
  return width < 1 ? '' : `${kept}…`;
}

/** Fills printable text with spaces to `width` columns. */
export function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

/**
 * Breaks printable text into lines of at most `width` columns, between words where it can.
 * @param most lines; the last one is cut
 */
export function wrapped(text: string, width: number, most: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line === '' || widthOf(longer) <= width) line = longer;
    else {
      lines.push(line);
      line = word;
    }
    while (widthOf(line) > width) {
      let kept = '';
      for (const character of line) {
        if (kept !== '' && widthOf(kept) + columnsOf(character) > width) break;
        kept += character;
      }
      lines.push(kept);
      line = line.slice(kept.length);
    }
  }
  lines.push(line);
  if (lines.length <= most) return lines;
  return [...lines.slice(0, most - 1), cut(`${lines.slice(most - 1).join(' ')}`, width)];
}

/** A way to print a text. Only the sixteen colours that the person has chosen for the terminal, so that they suit its background. */
export type Style = 'plain' | 'bold' | 'dim' | 'good' | 'moved' | 'refused' | 'broken';

const CODES: Readonly<Record<Exclude<Style, 'plain'>, string>> = {
  bold: '1',
  dim: '2',
  good: '32',
  moved: '36',
  refused: '33',
  broken: '31',
};

/** Puts a style around a text that has no line feed. */
export type Paint = (style: Style, text: string) => string;

export const PLAIN: Paint = (_, text) => text;
export const COLOURED: Paint = (style, text) =>
  style === 'plain' || text === '' ? text : `\x1b[${CODES[style]}m${text}\x1b[0m`;

/**
 * Whether a terminal gets colours: not with NO_COLOR (https://no-color.org) or TERM=dumb. FORCE_COLOR beats both, as for Node.js;
 * `0` and `false` turn colours off.
 */
export function isColoured({ FORCE_COLOR, NO_COLOR, TERM }: NodeJS.ProcessEnv): boolean {
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return !NO_COLOR && TERM !== 'dumb';
}
