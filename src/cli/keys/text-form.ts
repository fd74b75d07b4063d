import { Failure } from '../../failure.ts';
import { limitsCell } from '../../model/plan.ts';
import { isSuspended, type StoredKey, type UnreadableRecord } from '../../model/record.ts';
import type { KeyReport } from '../../operations/key-report.ts';
import { DURATION_RULE, durationFrom } from '../../operations/values.ts';
import type { CellsOf } from '../reading-command.ts';
import type { Column } from '../terminal/table.ts';

// The text form of what a key has, for every command under `keys`.

/**
 * Reads the duration of an option, such as `30m`, `24h`, `90d` or `0s`.
 * @returns milliseconds
 * @throws Failure `bad_usage`
 */
export function readDuration(option: string, text: string): number {
  const ms = durationFrom(text);
  if (ms !== null) return ms;
  throw new Failure('bad_usage', `${option} is '${text}'; it ${DURATION_RULE}.`);
}

/** The limits that a key or a customer is held to; those that are set, if no request of it is admitted. */
export function heldText({ limits, heldTo }: Pick<KeyReport, 'limits' | 'heldTo'>): string {
  return limitsCell(heldTo ?? limits);
}

/** The column of the customers of keys. Without a customer among them the table is that of earlier versions. */
export const CUSTOMER: CellsOf<{ readonly customer?: CustomerOfKey | undefined }> = {
  head: 'customer',
  rank: 2.5,
  cell: ({ customer }) => customerCell(customer),
  isThere: ({ customer }) => customer !== undefined,
};
type CustomerOfKey = { readonly id: string; readonly name: string | null };

export function customerCell(customer: CustomerOfKey | undefined): string {
  return customer === undefined ? '-' : (customer.name ?? customer.id);
}

/** Whether a key can be used at `nowMs`: `active`, or a word that says why not. */
export function stateOf(
  { revokedAtMs, expiresAtMs, suspended }: StoredKey,
  customer: KeyReport['customer'],
  nowMs: number,
): string {
  if (revokedAtMs !== null) return 'revoked';
  if (expiresAtMs !== null && nowMs >= expiresAtMs) return 'expired';
  if (isSuspended(suspended, nowMs)) return 'suspended';
  return customer === undefined || customer.state === 'active' ? 'active' : `${customer.state} with its customer`;
}

/** What identifies a secret to operators without showing it: its last four characters, if they are known. */
export function secretLabelOf({ last4 }: { readonly last4: string | null }): string {
  return last4 === null || last4 === '' ? 'known by its hash' : `…${last4}`;
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** What lists print of a record that cannot be read, in JSON. */
export function unreadableEntry({ id, message }: UnreadableRecord) {
  return { id, unreadable: message };
}

/** The row of a table for it: its id, and its state, outcome or ban where the table has one. */
export function unreadableCells(id: string, columns: readonly Column[]): string[] {
  return columns.map(({ head }) =>
    head === 'id' ? id : ['state', 'outcome', 'ban'].includes(head) ? 'unreadable' : '-',
  );
}
