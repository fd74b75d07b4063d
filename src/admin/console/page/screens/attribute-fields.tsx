import type { ComponentChildren } from 'preact';
import { ATTRIBUTES } from '../attributes.js';
import { Chips } from '../kit/chips.tsx';
import type { CsvRows } from '../kit/csv.ts';
import { Field, Fold } from '../kit/dialog.tsx';
import type { Filter } from '../kit/filters.tsx';
import { ifKnown } from '../reading.ts';
import { useResource } from '../requests.ts';
import type { Key, KeyEdits, KeyOrCustomer, ScopeList } from '../types.ts';

// The attributes of keys and customers: the fields of their form, the facts on their screens, the filters and columns of their lists.

type Words = (typeof ATTRIBUTES)[number];
type Attributes = Partial<Pick<Key, Words['name']>>;
type Value = Attributes[Words['name']];
type Kind = 'key' | 'customer';

function ofKind(kind: Kind): readonly Words[] {
  return ATTRIBUTES.filter(({ isOfKeysAlone }) => kind === 'key' || !isOfKeysAlone);
}

/** The attributes by which lists can be filtered. */
export const FILTERED: readonly Filter[] = ATTRIBUTES.filter(({ isFilter }) => isFilter).map(({ name, label }) => ({
  name,
  label,
}));
/** The attributes with a column in lists, beside the name, which is a part of the first column. */
const COLUMNS = ATTRIBUTES.filter(({ hasColumn, name }) => hasColumn && name !== 'name');

export const ATTRIBUTE_COLUMNS = COLUMNS.map(({ name, label }) => ({
  title: label,
  share: 18,
  of: (record: Attributes) => linesOf(record[name]).join(' ') || null,
}));

/** Keys or customers as the rows of a file. */
export function recordRows(records: readonly KeyOrCustomer[]): CsvRows {
  const head = ['id', ...ATTRIBUTES.map(({ name }) => name), 'plan', 'customer', 'created', 'expires', 'revoked'];
  const rows = records.map((one) => [
    ...[one.id, ...ATTRIBUTES.map(({ name }) => linesOf((one as Attributes)[name]).join(' '))],
    ...[one.plan, 'customer' in one ? one.customer?.id : null, one.createdAt, one.expiresAt],
    'revokedAt' in one ? one.revokedAt : null,
  ]);
  return [head, ...rows];
}

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
    if (form === 'list') return [[name, text.split(/[\s,]+/).filter((line) => line !== '')] as const];
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

/** Which fields stand in which fold of a form. */
const FOLDS = [
  ['Who may call what', ({ form }: Words) => form === 'list' || form === 'word'],
  ['Owner, metadata and notes', ({ name, form }: Words) => name !== 'name' && form !== 'list' && form !== 'word'],
] as const;

/** The fields of all attributes but the name, in folds. @param isOpen whether they are shown at once */
export function FurtherFields({ kind, values, isOpen }: { kind: Kind; values: Texts; isOpen: boolean }) {
  return FOLDS.map(([title, isIn]) => (
    <Fold key={title} title={title} isOpen={isOpen}>
      {ofKind(kind).map((words) => isIn(words) && <AttributeField key={words.name} of={words} values={values} />)}
    </Fold>
  ));
}

export function NameField({ values }: { values: Texts }) {
  return <AttributeField of={ATTRIBUTES.find(({ name }) => name === 'name')!} values={values} />;
}

/** The text of each field. */
type Texts = Readonly<Record<string, string>>;

function AttributeField({ of: { name, label, hint, form, max }, values }: { of: Words; values: Texts }) {
  const id = `key-${name}`;
  const described = hint === undefined ? {} : { 'aria-describedby': `${id}-hint` };
  const given = { id, name, defaultValue: values[name], ...described };
  return (
    <Field id={id} label={label} hint={hint}>
      {form === 'line' ? (
        <input {...given} maxlength={max} autocomplete="off" />
      ) : form === 'text' ? (
        <textarea {...given} rows={3} maxlength={max}></textarea>
      ) : (
        <textarea {...given} rows={2} spellcheck={false}></textarea>
      )}
      {name === 'scopes' && <ScopeChips id={id} />}
    </Field>
  );
}

/** The scopes that routes require, for the field with this id. */
function ScopeChips({ id }: { id: string }) {
  const scopes = ifKnown(useResource<ScopeList>('/admin/scopes').reading)?.scopes ?? [];
  const add = (scope: string) => {
    const field = document.getElementById(id) as HTMLTextAreaElement;
    const given = field.value.split(/[\s,]+/).filter((one) => one !== '' && one !== scope);
    field.value = [...given, scope].join('\n');
  };
  return <Chips label="Required by routes" of={scopes} choose={add} />;
}

type Fact = readonly [title: string, ComponentChildren];

/** The facts about a key or a customer that its lists have as well. */
export function listedFacts(record: Attributes): readonly Fact[] {
  return ATTRIBUTES.filter(({ hasColumn }) => hasColumn).map(({ name, label }) => [
    label,
    <bdi>{linesOf(record[name]).join(' ') || '–'}</bdi>,
  ]);
}

/** Its other attributes, those that it has. */
export function furtherFacts(record: Attributes): readonly Fact[] {
  return ATTRIBUTES.filter(({ name, hasColumn }) => !hasColumn && record[name] != null).map(({ name, label }) => [
    label,
    <bdi class="pre">{linesOf(record[name]).join('\n')}</bdi>,
  ]);
}
