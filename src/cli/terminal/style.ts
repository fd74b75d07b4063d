import { styleText } from 'node:util';

/** Colours that a terminal shows in its own palette, so that they fit light and dark ones. */
export type Tone = 'bold' | 'green' | 'yellow' | 'red';

/** Gives text a tone, or returns it as it is. The text says the same without. */
export type Style = (tone: Tone, text: string) => string;

/**
 * The style for what is written to a stream. NO_COLOR decides unless it is empty (no-color.org); after it Node's `styleText`, by
 * FORCE_COLOR, by TERM, and by whether the stream is a terminal. Node alone would prefer FORCE_COLOR.
 */
export function styleFor(stream: NodeJS.WriteStream, { NO_COLOR = '' }: NodeJS.ProcessEnv): Style {
  if (NO_COLOR !== '') return (_, text) => text;
  return (tone, text) => (text === '' ? text : styleText(tone, text, { stream }));
}

const TONES: Readonly<Record<string, Tone>> = {
  ok: 'green',
  active: 'green',
  done: 'green',
  warn: 'yellow',
  warning: 'yellow',
  unknown: 'yellow',
  expired: 'yellow',
  refused: 'yellow',
  fail: 'red',
  revoked: 'red',
  banned: 'red',
  ban: 'red',
};

/** The tone of a status such as `active`, `ban 2` or `refused (not_found)`, by its first word; null for one without. */
function toneOf(status: string): Tone | null {
  const [word] = /^[a-z]+/.exec(status) ?? [''];
  return Object.hasOwn(TONES, word) ? TONES[word]! : null;
}

/** A status with its tone. */
export function tonedStatus(status: string, style: Style | undefined, shown = status): string {
  const tone = toneOf(status);
  return tone === null || style === undefined ? shown : style(tone, shown);
}

/** Gives the word at the beginning of a message its tone: `warning: …`. */
export function withTonedLead(text: string, style: Style): string {
  return text.replace(/^warning:/, (lead) => style('yellow', lead));
}
