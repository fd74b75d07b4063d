import { useState } from 'preact/hooks';
import { html } from '../html.ts';
import { momentText } from './format.ts';

/** A date, with a time of the day or without one: `2026-12-31 18:00`. */
const MOMENT = '\\s*\\d{4}-\\d\\d-\\d\\d([ T]\\d\\d:\\d\\d)?\\s*';

/** @returns the moment that the text of a MomentField names in the reader's zone; null if it is empty or none */
export function momentIn(text: string): Date | null {
  if (!new RegExp(`^${MOMENT}$`).test(text)) return null;
  const [day, time = '00:00'] = text.trim().split(/[ T]/);
  const date = new Date(`${day}T${time}`);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** A moment as the field has it, in the reader's zone. */
export function momentFieldText(date: Date): string {
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16).replace('T', ' ');
}

/** A field for a moment. It is text, so that it looks, reads and is typed alike in every browser, and says what it was read as. */
export function MomentField({
  id,
  name,
  label,
  empty,
  value = '',
}: {
  id: string;
  name: string;
  label: string;
  /** What no moment means: `until it is resumed`; left out if a moment is required. */
  empty?: string;
  value?: string | undefined;
}) {
  const [text, setText] = useState(value);
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const moment = momentIn(text);
  const hint =
    moment === null
      ? `In ${zone}.${empty === undefined ? '' : ` Empty: ${empty}.`}`
      : `${momentText(moment.toISOString())}, ${zone}`;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    <input id=${id} name=${name} value=${text} required=${empty === undefined} pattern=${MOMENT} title="A date and a time such as 2026-12-31 18:00" placeholder="YYYY-MM-DD HH:MM"
      autocomplete="off" spellcheck="false" aria-describedby="${id}-hint" onInput=${(event: Event) => setText((event.target as HTMLInputElement).value)} />
    <p class="hint" id="${id}-hint">${hint}</p>
  </div>`;
}
