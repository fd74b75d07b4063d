import type { Checked, Compared, PlansFile, Simulated } from './types.ts';

// The draft of plans.yaml in this tab.

/** A draft, with the gateway's results about it. A result belongs to the text that it was asked for. */
export interface Draft {
  /** The file that the draft began from. */
  readonly of: PlansFile;
  readonly etag: string | null;
  /** With `\n` at the ends of lines, as a text area has it. */
  readonly text: string;
  readonly checked: Result<Checked> | null;
  readonly compared: Result<Compared> | null;
  readonly simulated: Result<Simulated> | null;
}

export interface Result<T> {
  readonly of: string;
  readonly result: T;
}

/** The draft outlives the screen and the sign-in form, but not the page: it is in no storage of the browser. */
export const kept: { draft: Draft | null } = { draft: null };

export function hasUnsavedDraft(): boolean {
  return kept.draft !== null && kept.draft.text !== linesOf(kept.draft.of.text);
}

export function keep(draft: Draft | null): void {
  kept.draft = draft;
  if (hasUnsavedDraft()) window.addEventListener('beforeunload', askBeforeLeaving);
  else window.removeEventListener('beforeunload', askBeforeLeaving);
}

function askBeforeLeaving(event: BeforeUnloadEvent): void {
  event.preventDefault();
}

/** A text area knows no other line ends than `\n`. */
export function linesOf(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}
