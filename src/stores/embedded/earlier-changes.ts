import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type AccountChange, changed } from '../../admit/account-changes.ts';
import { windowLimit } from '../../admit/windows.ts';
import { UNSEEN } from '../../engine/decide.ts';
import { ban, moment } from '../../model/account.ts';
import type { WindowForm } from '../../model/plan.ts';
import { WINDOWS } from '../../model/values.ts';
import { type AccountsTable, endOf, parsed } from './accounts.ts';
import { answering } from './database.ts';

// The table `pending_changes` has changes of accounts that a command of an earlier version has written for a gateway to apply.
// Nothing else writes it. The owner of the store applies each once. One that it cannot read stays until a reset of its account.

interface EarlierChange {
  readonly number: number;
  readonly consumerId: string;
  /** Null if the row has no valid change. */
  readonly change: AccountChange | null;
  /** The time at which the operator made it, Unix milliseconds. */
  readonly atMs: number;
}

/** The waiting changes, oldest first. @param consumerId left out: those of all consumers */
export function earlierChanges(db: DatabaseSync, consumerId?: string): readonly EarlierChange[] {
  const hasTable = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'pending_changes'").get() !== undefined;
  if (!hasTable) return [];
  const rows = db
    .prepare(`SELECT * FROM pending_changes ${consumerId === undefined ? '' : 'WHERE consumer_id = ?'} ORDER BY number`)
    .all(...(consumerId === undefined ? [] : [consumerId]));
  return rows.map(({ number, consumer_id, change, at_ms }) => ({
    number: Number(number),
    consumerId: String(consumer_id),
    change: parsed<AccountChange>(String(change), CHANGE),
    atMs: Number(at_ms),
  }));
}

/** The changes that the store cannot read. */
export function damagedChanges(db: DatabaseSync): readonly EarlierChange[] {
  return answering(() => earlierChanges(db)).filter(({ change }) => change === null);
}

/** Applies the readable changes to readable accounts. The caller owns the store and has a transaction open. */
export function applyEarlierChanges(db: DatabaseSync, table: AccountsTable, of?: string): void {
  for (const { number, consumerId, change, atMs } of earlierChanges(db, of)) {
    const { state, expiresAtMs } = table.get(consumerId) ?? { state: UNSEEN, expiresAtMs: 0 };
    const before = state ?? (change?.kind === 'reset' ? UNSEEN : null);
    if (change === null || before === null) continue;
    const after = changed(before, change, atMs);
    table.save([{ consumerId, state: after, expiresAtMs: Math.max(expiresAtMs, endOf(after, 0)) }]);
    remove(db, number);
  }
}

/** Removes the unreadable changes of a consumer; the caller has a transaction open. */
export function removeDamagedChanges(db: DatabaseSync, consumerId: string): void {
  for (const { number, change } of earlierChanges(db, consumerId)) if (change === null) remove(db, number);
}

/** Removes the changes of a consumer; the caller has a transaction open. */
export function removeEarlierChanges(db: DatabaseSync, consumerId: string): void {
  for (const { number } of earlierChanges(db, consumerId)) remove(db, number);
}

function remove(db: DatabaseSync, number: number): void {
  db.prepare('DELETE FROM pending_changes WHERE number = ?').run(number);
}

const FORM = z.object({
  slices: z.int().min(1).max(30).optional(),
  calendar: z
    .object({ unit: z.enum(['hour', 'day', 'week', 'month']), zone: z.string(), anchor: z.int().min(1).max(31) })
    .optional(),
});
const CHANGE = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('lift') }),
  z.object({ kind: z.literal('ban'), ban }),
  z.object({
    kind: z.literal('top-up'),
    of: z
      .object({ window: z.enum(WINDOWS), limit: z.int().min(0), form: FORM })
      .transform(({ window, limit, form }) => windowLimit(window, limit, form as WindowForm)),
    amount: z.int().min(1),
    terms: z.object({ id: z.string(), untilMs: moment.optional(), reason: z.string().optional() }).optional(),
  }),
  z.object({ kind: z.literal('undo-top-up'), window: z.enum(WINDOWS), id: z.string().nullable() }),
  z.object({ kind: z.literal('reset'), windows: z.array(z.enum(WINDOWS)) }),
]);
