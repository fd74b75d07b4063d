import { ATTRIBUTES } from '../attributes.js';
import { Field } from '../kit/dialog.tsx';
import type { Key, KeyEdits } from '../types.ts';

// The attributes of keys and customers: the fields of their form, the facts on their screens, the filters and columns of their lists.

type Words = (typeof ATTRIBUTES)[number];
type Attributes = Partial<Pick<Key, Words['name']>>;
type Value = Attributes[Words['name']];
type Kind = 'key' | 'customer';

function ofKind(kind: Kind): readonly Words[] {
  return ATTRIBUTES.filter(({ isOfKeysAlone }) => kind === 'key' || !isOfKeysAlone);
}

/** The attributes by which lists can be filtered. */
export const FILTERED = ATTRIBUTES.filter(({ isFilter }) => isFilter);
/** The attributes with a column in lists, beside the name, which is a part of the first column. */
const COLUMNS = ATTRIBUTES.filter(({ hasColumn, name }) => hasColumn && name !== 'name');

export const ATTRIBUTE_COLUMNS = COLUMNS.map(({ name, label }) => ({
  title: label,
  share: 18,
  of: (record: Attributes) => linesOf(record[name]).join(' ') || null,
}));

/** The text of each field: one element a line. */
export function attributeValuesOf(kind: Kind, record: Attributes): Readonly<Record<string, string>> {
  return Object.fromEntries(ofKind(kind).map(({ name }) => [name, linesOf(record[name]).join('\n')]));
}

function linesOf(value: Value): readonly string[] {
  if (value == null || Array.isArray(value)) return value ?? [];
  if (typeof value === 'string') return [value];
  return Object.entries(value).map(([name, text]) => `${name}=${text}`);
}

/**
 * @param changed the new text of a field; undefined if it is as it was
 * @param before the text of each field before
 */
export function attributeChangesOf(
  changed: (name: string) => string | undefined,
  before: Readonly<Record<string, string>>,
): Pick<KeyEdits, Words['name']> {
  const given = ATTRIBUTES.flatMap(({ name, form }): (readonly [string, unknown])[] => {
    const text = changed(name);
    if (text === undefined) return [];
    if (form === 'pairs') return [[name, pairEdits(before[name] ?? '', text)] as const];
    if (form === 'list') return [[name, text.split(/\s+/).filter((line) => line !== '')] as const];
    return [[name, text.trim() === '' ? null : text.trim()] as const];
  });
  return Object.fromEntries(given);
}

/** A pair that is no longer in the text is removed. */
function pairEdits(before: string, text: string): Readonly<Record<string, string | null>> {
  const pairsOf = (lines: string) =>
    lines
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => {
        const [name = '', ...value] = line.trim().split('=');
        return [name, value.join('=')] as const;
      });
  return Object.fromEntries([...pairsOf(before).map(([name]) => [name, null] as const), ...pairsOf(text)]);
}

/** What a change has set, in words: `scopes orders:read orders:write`, `no owner`, `new notes`. Null: no attribute. */
export function attributeChangeText(name: string, value: unknown): string | null {
  const words = ATTRIBUTES.find((one) => one.name === name);
  if (words === undefined) return null;
  const what = words.label.toLowerCase();
  const lines = linesOf(value as Value);
  if (words.form !== 'pairs' && lines.length === 0) return `no ${what}`;
  return words.form === 'pairs' || words.form === 'text' ? `new ${what}` : `${what} ${lines.join(' ')}`;
}

/** The fields of one line. */
export function LineFields({ kind, values }: { kind: Kind; values: Readonly<Record<string, string>> }) {
  return (
    <div class="grid">
      {ofKind(kind).map(
        (words) => words.form === 'line' && <AttributeField key={words.name} of={words} values={values} />,
      )}
    </div>
  );
}

/** The fields of all attributes but those of one line, text at the end. */
export function FurtherFields({ kind, values }: { kind: Kind; values: Readonly<Record<string, string>> }) {
  const fieldOf = (words: Words) => <AttributeField key={words.name} of={words} values={values} />;
  const [lists, texts] = [
    ofKind(kind).filter(({ form }) => form !== 'line' && form !== 'text'),
    ofKind(kind).filter(({ form }) => form === 'text'),
  ];
  return (
    <>
      <fieldset>
        <legend>Who may call what</legend>
        {lists.map(fieldOf)}
      </fieldset>
      {texts.map(fieldOf)}
    </>
  );
}

function AttributeField({ of: words, values }: { of: Words; values: Readonly<Record<string, string>> }) {
  const { name, label, hint, form, max } = words;
  const id = `key-${name}`;
  const given = {
    id,
    name,
    defaultValue: values[name],
    ...(hint === undefined ? {} : { 'aria-describedby': `${id}-hint` }),
  };
  return (
    <Field id={id} label={label} hint={hint}>
      {form === 'line' ? (
        <input {...given} maxlength={max} autocomplete="off" />
      ) : form === 'text' ? (
        <textarea {...given} rows={3} maxlength={max}></textarea>
      ) : (
        <textarea {...given} rows={2} spellcheck={false}></textarea>
      )}
    </Field>
  );
}

/** The facts about a key or a customer that its lists have as well. */
export function ListedFacts({ of: record }: { of: Attributes }) {
  return ATTRIBUTES.filter(({ hasColumn }) => hasColumn).map(({ name, label }) => (
    <>
      <dt>{label}</dt>
      <dd>
        <bdi>{linesOf(record[name]).join(' ') || '–'}</bdi>
      </dd>
    </>
  ));
}

/** Its other attributes, those that it has. */
export function FurtherFacts({ of: record }: { of: Attributes }) {
  return ATTRIBUTES.filter(({ name, hasColumn }) => !hasColumn && record[name] != null).map(({ name, label }) => (
    <>
      <dt>{label}</dt>
      <dd class="pre">
        <bdi>{linesOf(record[name]).join('\n')}</bdi>
      </dd>
    </>
  ));
}
