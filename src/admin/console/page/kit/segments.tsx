import { Act } from './act.tsx';
/** A choice of one of a few, all of which are in sight. */
export function Segments<Value extends string>({
  label,
  options,
  value,
  choose,
}: {
  label: string;
  options: readonly (readonly [value: Value, text: string])[];
  value: Value;
  choose: (value: Value) => void;
}) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset groups the fields of a form, and these are buttons
    <div class="segments" role="group" aria-label={label}>
      {options.map(([one, text]) => (
        <Act text={text} key={one} aria-pressed={one === value} on={() => choose(one)} />
      ))}
    </div>
  );
}
