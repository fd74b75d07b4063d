import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type AccountChange, changed } from '../../admit/account-changes.ts';
import { type AccountState, UNSEEN } from '../../admit/decide.ts';
import { type FoundBan, MADE_ONCE_MS } from '../../admit/ledger.ts';
import { windowLimit } from '../../admit/windows.ts';
import { account, ban, moment } from '../../model/account.ts';
import type { WindowForm } from '../../model/plan.ts';
import { WINDOWS } from '../../model/values.ts';
import { answering } from './database.ts';

/** One row of the table of accounts. */
interface AccountRow {
  readonly consumerId: string;
  /** Null if the row does not hold a valid account. */
  readonly state: AccountState | null;
  /** When the last window, strike or ban has ended and is forgotten, Unix milliseconds. */
  readonly expiresAtMs: number;
}

/** A change that a command has written and the gateway has not yet applied. */
export interface PendingChange {
  readonly number: number;
  readonly consumerId: string;
  /** Null if the row does not hold a valid change. */
  readonly change: AccountChange | null;
  /** When the operator made it, Unix milliseconds. */
  readonly atMs: number;
}

/** The id of a change that is made once, and the change in words. */
export interface Once {
  readonly id: string;
  readonly words: string;
}

/**
 * The snapshot of the accounts, and the changes that commands have written for the gateway. A command leaves the snapshot as
 * it is, because a running gateway overwrites it: an account is its snapshot with the pending changes applied. The gateway
 * removes a change from the table in the same transaction in which it writes the changed account.
 */
export class AccountsTable {
  readonly #db: DatabaseSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    answering(() =>
      db.exec(`
      CREATE TABLE IF NOT EXISTS accounts (
        consumer_id TEXT PRIMARY KEY, state TEXT NOT NULL, expires_at_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS pending_changes (
        number INTEGER PRIMARY KEY AUTOINCREMENT, consumer_id TEXT NOT NULL, change TEXT NOT NULL, at_ms INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE IF NOT EXISTS made_once (
        consumer_id TEXT NOT NULL, id TEXT NOT NULL, words TEXT NOT NULL, at_ms INTEGER NOT NULL,
        PRIMARY KEY (consumer_id, id)
      ) STRICT, WITHOUT ROWID;
    `),
    );
  }

  *load(nowMs: number): Generator<AccountRow> {
    const rows = this.#db.prepare('SELECT * FROM accounts WHERE expires_at_ms > ?').iterate(nowMs);
    for (const { consumer_id, state, expires_at_ms } of rows) {
      yield {
        consumerId: String(consumer_id),
        state: parsed<AccountState>(String(state), account),
        expiresAtMs: Number(expires_at_ms),
      };
    }
  }

  /** The account with its pending changes that can be read. Null if the row does not hold a valid account. */
  get(consumerId: string): AccountState | null {
    const row = this.#db.prepare('SELECT state FROM accounts WHERE consumer_id = ?').get(consumerId);
    const state = row === undefined ? UNSEEN : parsed<AccountState>(String(row.state), account);
    return state === null ? null : withPending(state, this.pending(consumerId));
  }

  /** The same for reports: null also if one of the changes cannot be read. */
  readable(consumerId: string): AccountState | null {
    return this.pending(consumerId).some(({ change }) => change === null) ? null : this.get(consumerId);
  }

  /**
   * Writes rows. Only in a transaction.
   * @param ended consumers whose rows are removed
   * @param applied changes that the gateway has applied, which are removed
   */
  save(rows: readonly AccountRow[], ended: readonly string[] = [], applied: readonly PendingChange[] = []): void {
    const put = this.#db.prepare('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)');
    const remove = this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?');
    for (const { consumerId, state, expiresAtMs } of rows) put.run(consumerId, JSON.stringify(state), expiresAtMs);
    for (const consumerId of ended) remove.run(consumerId);
    const removeChange = this.#db.prepare('DELETE FROM pending_changes WHERE number = ?');
    for (const { number } of applied) removeChange.run(number);
  }

  /** Writes an account that was changed, and the id under which it was. Only in a transaction. */
  saveChanged(row: AccountRow, once: Once, nowMs: number): void {
    this.save([row]);
    this.#remember(row.consumerId, once, nowMs);
  }

  /** Only in a transaction. */
  remove(consumerId: string): void {
    this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?').run(consumerId);
    this.#db.prepare('DELETE FROM pending_changes WHERE consumer_id = ?').run(consumerId);
  }

  /** Removes what a reset replaces: the changes of a consumer that cannot be read, and its account if that cannot. Only in a transaction. */
  removeUnreadable(consumerId: string): void {
    const unreadable = this.pending(consumerId).filter(({ change }) => change === null);
    this.save([], this.get(consumerId) === null ? [consumerId] : [], unreadable);
  }

  /** Where the account is, for operators; or the first of its changes that cannot be read. */
  placeOf(consumerId: string): string {
    const change = this.pending(consumerId).find((one) => one.change === null);
    return change === undefined
      ? `the row ${consumerId} of the table accounts in tollgate.db`
      : `the row ${change.number} of the table pending_changes in tollgate.db`;
  }

  /** Removes the rows that have expired by `nowMs`. */
  dropEnded(nowMs: number): void {
    answering(() => this.#db.prepare('DELETE FROM accounts WHERE expires_at_ms <= ?').run(nowMs));
  }

  /** Writes a change for the gateway, running or not. Only in a transaction. @param once the id under which it is made */
  addPending(
    { consumerId, change, atMs }: Omit<PendingChange, 'number'> & { readonly change: AccountChange },
    once?: Once,
  ): void {
    this.#db
      .prepare('INSERT INTO pending_changes (consumer_id, change, at_ms) VALUES (?, ?, ?)')
      .run(consumerId, textOf(change), atMs);
    if (once !== undefined) this.#remember(consumerId, once, atMs);
  }

  /**
   * The changes that commands have written, oldest first. They stay until `save` removes them as applied.
   * @param consumerId left out: of all consumers
   */
  pending(consumerId?: string): readonly PendingChange[] {
    const of = consumerId === undefined ? '' : 'WHERE consumer_id = ?';
    const rows = this.#db
      .prepare(`SELECT * FROM pending_changes ${of} ORDER BY number`)
      .all(...(consumerId === undefined ? [] : [consumerId]));
    return rows.map(({ number, consumer_id, change, at_ms }) => ({
      number: Number(number),
      consumerId: String(consumer_id),
      change: parsed<AccountChange>(String(change), CHANGE),
      atMs: Number(at_ms),
    }));
  }

  /** The words of the change that was made under an id; null if none was in the last `MADE_ONCE_MS`. */
  madeOnce(consumerId: string, id: string, nowMs: number): string | null {
    const row = this.#db
      .prepare('SELECT words FROM made_once WHERE consumer_id = ? AND id = ? AND at_ms > ?')
      .get(consumerId, id, nowMs - MADE_ONCE_MS);
    return row === undefined ? null : String(row.words);
  }

  #remember(consumerId: string, { id, words }: Once, nowMs: number): void {
    this.#db.prepare('DELETE FROM made_once WHERE at_ms <= ?').run(nowMs - MADE_ONCE_MS);
    this.#db.prepare('INSERT OR REPLACE INTO made_once VALUES (?, ?, ?, ?)').run(consumerId, id, words, nowMs);
  }

  bans(nowMs: number): FoundBan[] {
    const changes = this.pending();
    const pending = Map.groupBy(changes, ({ consumerId }) => consumerId);
    const states = this.load(nowMs).map(({ consumerId, state }): [string, AccountState | null] => {
      return [consumerId, state === null ? null : withPending(state, pending.get(consumerId) ?? [])];
    });
    return bansIn(states, changes, nowMs);
  }
}

/** The bans in force, and who may be banned: those whose account, or a change of whom, cannot be read. */
export function bansIn(
  states: Iterable<readonly [consumerId: string, state: AccountState | null]>,
  changes: readonly PendingChange[],
  nowMs: number,
): FoundBan[] {
  const found = new Map<string, FoundBan>();
  for (const { consumerId, change } of changes) if (change === null) found.set(consumerId, { consumerId, ban: null });
  for (const [consumerId, state] of states) {
    const ban = state?.ban ?? null;
    if (state === null || (ban !== null && nowMs < ban.untilMs)) found.set(consumerId, { consumerId, ban });
  }
  return [...found.values()];
}

function withPending(state: AccountState, pending: readonly PendingChange[]): AccountState {
  return pending.reduce(
    (before, { change, atMs }) => (change === null ? before : changed(before, change, atMs)),
    state,
  );
}

/** The form of a window stands beside its limit in the text, because a calendar is not plain data. */
function textOf(change: AccountChange): string {
  if (change.kind !== 'top-up') return JSON.stringify(change);
  const { window, limit, slices, calendar } = change.of;
  return JSON.stringify({ ...change, of: { window, limit, form: { slices, calendar: calendar?.form } } });
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

/** Null if the text is not of the schema. */
function parsed<T>(text: string, schema: z.ZodType<unknown>): T | null {
  try {
    return schema.parse(JSON.parse(text)) as T;
  } catch {
    return null;
  }
}
