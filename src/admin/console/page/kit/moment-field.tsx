import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Chips } from './chips.tsx';
import { momentText, ownZone } from './format.tsx';

/** The latest moment that the API accepts in every zone. */
const LATEST = new Date('9999-12-30T00:00');

const LENGTHS: Readonly<Record<string, number>> = { min: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const WEEK = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

/** What a click enters, ahead and in the past. */
const AHEAD = ['end of today', 'tomorrow 09:00', 'Monday', 'in 7 d'];
export const PAST = ['today', 'yesterday', '7 d ago', '30 d ago'];

/**
 * @returns the moment that the text of a MomentField names in the reader's zone: `2026-12-31 18:00`, `2026-12-31`, `tomorrow 09:00`,
 * `Monday`, `end of today`, `in 7 d`, `7 d ago`; null if it names none
 */
export function momentIn(text: string): Date | null {
  const words = text.trim().toLowerCase();
  const [, count, unit, ago] = /^(?:in |\+)?(\d{1,4}) ?(min|h|d|w)( ago)?$/.exec(words) ?? [];
  const sign = ago === undefined ? 1 : -1;
  const date = unit === undefined ? dayIn(words) : new Date(Date.now() + sign * Number(count) * LENGTHS[unit]!);
  return date !== null && date <= LATEST ? date : null;
}

function dayIn(words: string): Date | null {
  if (words === 'end of today') return dayIn('tomorrow');
  const [, name = '', time = '00:00'] = /^(\S+?)(?:[ t](\d\d:\d\d))?$/.exec(words) ?? [];
  const today = new Date();
  const ofWeek = name.length < 3 ? -1 : WEEK.findIndex((one) => one.startsWith(name));
  const named = ['yesterday', 'today', 'tomorrow'].indexOf(name);
  // The next day of that name, not today.
  const days = ofWeek !== -1 ? ((ofWeek - today.getDay() + 6) % 7) + 1 : named === -1 ? null : named - 1;
  const date = new Date(today.getFullYear(), today.getMonth(), today.getDate() + (days ?? 0));
  const day = days === null ? name : momentFieldText(date).slice(0, 10);
  if (!/^\d{4}-\d\d-\d\d$/.test(day)) return null;
  const at = new Date(`${day}T${time}`);
  // A browser may read 30 February as 2 March.
  return !Number.isNaN(at.getTime()) && momentFieldText(at).startsWith(day) ? at : null;
}

/** A moment as the field has it, in the reader's zone. */
export function momentFieldText(date: Date): string {
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16).replace('T', ' ');
}

interface MomentFieldProps {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  /** What no moment means: `until it is resumed`; left out if a moment is required. */
  readonly empty?: string;
  readonly value?: string | undefined;
  /** What a click enters. */
  readonly often?: readonly string[];
}

/** A field for a moment. It is text, so that it looks, reads and is typed alike in every browser, and says what it was read as. */
export function MomentField({ id, name, label, empty, value = '', often = AHEAD }: MomentFieldProps) {
  const [text, setText] = useState(value);
  const zone = ownZone();
  const moment = momentIn(text);
  const input = useRef<HTMLInputElement>(null);
  const isNone = text !== '' && moment === null;
  // Its form is not sent then: a text that names no moment must not be taken for an empty field.
  useLayoutEffect(() => input.current!.setCustomValidity(isNone ? 'There is no such moment.' : ''), [isNone]);
  const choose = (often: string) => {
    input.current!.value = momentFieldText(momentIn(often)!);
    // As if it was typed: a fault that was shown goes.
    input.current!.dispatchEvent(new Event('input', { bubbles: true }));
  };
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
        title="Give a date and a time such as 2026-12-31 18:00, or tomorrow 09:00, Monday, 7 d"
        placeholder="YYYY-MM-DD HH:MM, Monday, 7 d"
        autocomplete="off"
        spellcheck={false}
        aria-describedby={`${id}-hint`}
        onInput={(event: Event) => setText((event.target as HTMLInputElement).value)}
      />
      <Chips label="Common moments" of={often} choose={choose} />
      <p class="hint" id={`${id}-hint`}>
        {hint}
      </p>
    </div>
  );
}
