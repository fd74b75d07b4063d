import type { Style, Tone } from '../../io/terminal-text.ts';

/** The words with which a status begins, by their tone. */
const WORDS: readonly (readonly [tone: Tone, ...words: string[]])[] = [
  ['green', 'ok', 'active', 'done'],
  ['yellow', 'warn', 'warning', 'unknown', 'expired', 'suspended', 'refused'],
  ['red', 'fail', 'revoked', 'banned', 'ban'],
];

/** The tone of a status such as `active`, `ban 2` or `refused (not_found)`, by its first word; null for one without. */
function toneOf(status: string): Tone | null {
  const [word] = /^[a-z]+/.exec(status) ?? [''];
  return WORDS.find(([, ...words]) => words.includes(word))?.[0] ?? null;
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
