import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { navigate, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { Field, faultOf } from './dialog.tsx';
import { usePlansInForce } from './plans-in-force.ts';

/**
 * A form whose fields are in the address, by their names. They are applied when one changes and when the form is
 * submitted, unless one of them is invalid. The fields get their values from here: they need neither `value` nor state.
 * @param path the screen
 */
export function Filters({ path, label, children }: { path: string; label: string; children: ComponentChildren }) {
  const form = useRef<HTMLFormElement>(null);
  const { query } = usePlace();
  const shown = query.toString();
  const [fault, setFault] = useState<string | null>(null);
  useEffect(() => {
    for (const field of fieldsOf(form.current!)) {
      field.value = query.get(field.name) ?? '';
      field.classList.toggle('is-set', field.value !== '');
    }
  }, [shown]);
  const apply = (event: Event) => {
    event.preventDefault();
    const wrong = fieldsOf(form.current!).find((field) => !field.checkValidity());
    setFault(wrong === undefined ? null : faultOf(wrong));
    if (wrong !== undefined) return;
    const next = new URLSearchParams();
    for (const { name, value } of fieldsOf(form.current!)) if (value.trim() !== '') next.set(name, value.trim());
    navigate(`${path}${next.size === 0 ? '' : `?${next}`}`, 'replace');
  };
  return (
    <search aria-label={label}>
      <form ref={form} class="filters" noValidate onChange={apply} onSubmit={apply}>
        {children}
        {shown !== '' && (
          <button type="button" class="quiet" onClick={() => navigate(path, 'replace')}>
            Clear filters
          </button>
        )}
        {fault !== null && (
          <p class="problem-line wide" role="alert">
            {fault}
          </p>
        )}
      </form>
    </search>
  );
}

/**
 * A choice of Filters, or of a form of its own with `onChange`: a chip that names what it filters and by what. A link may name
 * another value than those offered.
 */
export function Choice({
  id,
  name,
  label,
  any,
  options,
  onChange,
}: {
  id: string;
  name: string;
  label: string;
  /** The text if nothing is chosen. */
  any: string;
  options: readonly (readonly [value: string, text: string])[];
  onChange?: ((value: string) => void) | undefined;
}) {
  const value = usePlace().query.get(name) ?? '';
  const isOffered = value === '' || options.some(([one]) => one === value);
  const choose = (event: Event) => onChange?.((event.target as HTMLSelectElement).value);
  return (
    <Field id={id} label={label}>
      <select id={id} name={name} class={value === '' ? '' : 'is-set'} value={value} onChange={choose}>
        <option value="">
          {label}: {any}
        </option>
        {[...options, ...(isOffered ? [] : [[value, value]])].map(([one, text]) => (
          <option key={one} value={one}>
            {label}: {text}
          </option>
        ))}
      </select>
    </Field>
  );
}

/** A choice among the plans in force. */
export function PlanChoice({ id, onChange }: { id: string; onChange?: (value: string) => void }) {
  const plans = ifKnown(usePlansInForce().reading)?.plans;
  const options = (plans ?? []).map(({ name }) => [name, name] as const);
  return <Choice id={id} name="plan" label="Plan" any="all" options={options} onChange={onChange} />;
}

type FormField = HTMLInputElement | HTMLSelectElement;

function fieldsOf(form: HTMLFormElement): readonly FormField[] {
  return [...form.elements].filter((field): field is FormField => 'name' in field && field.name !== '');
}

/** The pattern of the ids of callers. */
const CALLER_PATTERN = '(key_[0-9A-Za-z]{1,16}|jwt_[A-Za-z0-9_\\-]{32})';

/** The same with the ids of customers. */
const RECORD_PATTERN = `(cus_[0-9A-Za-z]{1,16}|${CALLER_PATTERN})`;

export function isCallerId(text: string): boolean {
  return new RegExp(`^${CALLER_PATTERN}$`).test(text);
}

/** Whether a text is the id of a caller or of a customer. */
export function isRecordId(text: string): boolean {
  return new RegExp(`^${RECORD_PATTERN}$`).test(text);
}
