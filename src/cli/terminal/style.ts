import type { Style, Tone } from '../../io/terminal-text.ts';

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
