import { useEffect, useRef } from 'preact/hooks';
import { type Children, html } from '../html.ts';
import { navigate, usePlace } from '../router.ts';

/**
 * A form whose fields are in the address, by their names. They are applied when one changes and when the form is
 * submitted, unless one of them is invalid. The fields get their values from here: they need neither `value` nor state.
 * @param path the screen
 */
export function Filters({ path, label, children }: { path: string; label: string; children: Children }) {
  const form = useRef<HTMLFormElement>(null);
  const { query } = usePlace();
  const shown = query.toString();
  useEffect(() => {
    for (const field of fieldsOf(form.current!)) field.value = query.get(field.name) ?? '';
  }, [shown]);
  const apply = (event: Event) => {
    event.preventDefault();
    if (!form.current!.checkValidity()) return;
    const next = new URLSearchParams();
    for (const { name, value } of fieldsOf(form.current!)) if (value.trim() !== '') next.set(name, value.trim());
    navigate(`${path}${next.size === 0 ? '' : `?${next}`}`, 'replace');
  };
  return html`<form ref=${form} class="filters" role="search" aria-label=${label} onChange=${apply} onSubmit=${apply}>
    ${children}
    <button type="submit">Apply</button>
    ${shown !== '' && html`<button type="button" class="quiet" onClick=${() => navigate(path, 'replace')}>Clear filters</button>`}
  </form>`;
}

type Named = HTMLInputElement | HTMLSelectElement;

function fieldsOf(form: HTMLFormElement): readonly Named[] {
  return [...form.elements].filter((field): field is Named => 'name' in field && field.name !== '');
}

/** The pattern of the ids of callers. A secret pasted by mistake does not match it, so it never reaches the address. */
export const CALLER_PATTERN = '(key_[0-9A-Za-z]{1,16}|jwt_[A-Za-z0-9_\\-]{32})';

export function isCallerId(text: string): boolean {
  return new RegExp(`^${CALLER_PATTERN}$`).test(text);
}
