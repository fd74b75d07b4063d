import { html } from '../html.ts';

/** A choice of one of a few, all of which are in sight. */
export function Segments({
  label,
  options,
  value,
  choose,
}: {
  label: string;
  options: readonly (readonly [value: string, text: string])[];
  value: string;
  choose: (value: string) => void;
}) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(([one, text]) => html`<button key=${one} type="button" aria-pressed=${one === value} onClick=${() => choose(one)}>${text}</button>`)}
  </div>`;
}
