import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { momentText, ownZone } from './format.tsx';

/** A date, with a time of the day or without one: `2026-12-31 18:00`. */
const MOMENT = '\\s*\\d{4}-\\d\\d-\\d\\d([ T]\\d\\d:\\d\\d)?\\s*';

/** The latest moment that the API accepts in every zone. */
const LATEST = new Date('9999-12-30T00:00');

/** @returns the moment that the text of a MomentField names in the reader's zone; null if it names none */
export function momentIn(text: string): Date | null {
  if (!new RegExp(`^${MOMENT}$`).test(text)) return null;
  const [day, time = '00:00'] = text.trim().split(/[ T]/) as [string, string?];
  const date = new Date(`${day}T${time}`);
  // A browser may read 30 February as 2 March.
  const isOnDay = !Number.isNaN(date.getTime()) && momentFieldText(date).startsWith(day);
  return isOnDay && date <= LATEST ? date : null;
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
  const zone = ownZone();
  const moment = momentIn(text);
  const input = useRef<HTMLInputElement>(null);
  const isNone = text !== '' && moment === null;
  // Its form is not sent then: a text that names no moment must not be taken for an empty field.
  useLayoutEffect(() => input.current!.setCustomValidity(isNone ? 'There is no such moment.' : ''), [isNone]);
  const hint =
    moment === null
      ? `In ${zone}.${empty === undefined ? '' : ` Empty: ${empty}.`}`
      : `${momentText(moment.toISOString())}, ${zone}`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        ref={input}
        id={id}
        name={name}
        value={text}
        required={empty === undefined}
        pattern={MOMENT}
        title="A date and a time such as 2026-12-31 18:00"
        placeholder="YYYY-MM-DD HH:MM"
        autocomplete="off"
        spellcheck={false}
        aria-describedby={`${id}-hint`}
        onInput={(event: Event) => setText((event.target as HTMLInputElement).value)}
      />
      <p class="hint" id={`${id}-hint`}>
        {hint}
      </p>
    </div>
  );
}
