import {
  ATTRIBUTES,
  type Attributes,
  FIRST_ATTRIBUTES,
  LISTED,
  type RecordKind,
  wordOf,
} from '../../model/attributes.ts';
import { limitsCell } from '../../model/plan.ts';
import type { KeyReport } from '../../operations/key-report.ts';
import type { CellsOf } from '../reading-command.ts';

// The text form of what a key has, for every command under `keys`.

type ListedRecord = { readonly [A in (typeof LISTED)[number]]?: Attributes[A] | null | undefined };

const isFirst = (name: string) => (FIRST_ATTRIBUTES as readonly string[]).includes(name);

/** The columns of the attributes that lists have had since the first version, where programs expect them. */
export function firstColumns(kind: RecordKind): readonly CellsOf<ListedRecord>[] {
  return LISTED.filter(isFirst).map((name) => columnOf(kind, name));
}

/** Those of further attributes, which come last. Without a record that has one the table is that of earlier versions. */
export function furtherColumns(kind: RecordKind): readonly CellsOf<ListedRecord>[] {
  const further = LISTED.filter((name) => !isFirst(name));
  return further.map((name) => ({ ...columnOf(kind, name), isThere: (record) => record[name] != null }));
}

function columnOf(kind: RecordKind, name: (typeof LISTED)[number]): CellsOf<ListedRecord> {
  return { head: wordOf(name), rank: ATTRIBUTES[name].rank[kind], cell: (record) => record[name] ?? '-' };
}

/** The limits that a key or a customer is held to; those that are set, if no request of it is admitted. */
export function heldText({ limits, heldTo }: Pick<KeyReport, 'limits' | 'heldTo'>): string {
  return limitsCell(heldTo ?? limits);
}

/** The column of the customers of keys. Without a customer among them the table is that of earlier versions. */
export const CUSTOMER: CellsOf<{ readonly customer?: CustomerOfKey | undefined }> = {
  head: 'customer',
  rank: 2.5,
  cell: ({ customer }) => (customer === undefined ? '-' : (customer.name ?? customer.id)),
  isThere: ({ customer }) => customer !== undefined,
};
type CustomerOfKey = { readonly id: string; readonly name: string | null };

interface Stated extends Pick<KeyReport, 'expiresAt' | 'suspended' | 'customer'> {
  readonly revokedAt?: string | null;
}

/** Whether a key, or the keys of a customer, can be used at `nowMs`: `active`, or a word that says why not. */
export function stateOf({ revokedAt = null, expiresAt, suspended, customer }: Stated, nowMs: number): string {
  if (revokedAt !== null) return 'revoked';
  if (expiresAt !== null && nowMs >= Date.parse(expiresAt)) return 'expired';
  if (suspended !== undefined) return 'suspended';
  return customer === undefined || customer.state === 'active' ? 'active' : `${customer.state} with its customer`;
}

/** What identifies a secret to operators without showing it: its last four characters, if they are known. */
export function secretLabelOf({ last4 }: { readonly last4: string | null }): string {
  return last4 === null || last4 === '' ? 'known by its hash' : `…${last4}`;
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
