import { Act } from './act.tsx';

interface ChipsProps {
  readonly label: string;
  readonly of: readonly string[];
  readonly choose: (value: string) => void;
}

/** Values that a field is often given, each with one click. */
export function Chips({ label, of, choose }: ChipsProps) {
  if (of.length === 0) return null;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset groups the fields of a form, and these are buttons
    <div class="row chips" role="group" aria-label={label}>
      {of.map((value) => (
        <Act text={value} key={value} on={() => choose(value)} />
      ))}
    </div>
  );
}
