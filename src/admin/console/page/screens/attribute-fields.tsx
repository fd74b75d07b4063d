import type { ComponentChildren } from 'preact';
import { ATTRIBUTES } from '../attributes.js';
import type { CsvRows } from '../kit/csv.ts';
import type { Filter } from '../kit/filters.tsx';
import type { Key, KeyOrCustomer } from '../types.ts';

// The attributes of keys and customers: the facts on their screens, the filters and columns of their lists.

type Words = (typeof ATTRIBUTES)[number];
type Attributes = Partial<Pick<Key, Words['name']>>;
type Value = Attributes[Words['name']];

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

/** A value, one element a line. */
export function linesOf(value: Value): readonly string[] {
  if (value == null || Array.isArray(value)) return value ?? [];
  if (typeof value === 'string') return [value];
  return Object.entries(value).map(([name, text]) => `${name}=${text}`);
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
