import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type AccountState, lift, UNSEEN } from '../../admit/decide.ts';
import type { BanInForce } from '../../admit/ledger.ts';
import { WINDOWS } from '../../admit/windows.ts';
import { answering, transaction } from './database.ts';

/** One row of the table of accounts. */
export interface AccountRow {
  readonly consumerId: string;
  /** Null if the row does not hold a valid account. */
  readonly state: AccountState | null;
  /** When the last window, strike or ban has ended and is forgotten, Unix milliseconds. */
  readonly expiresAtMs: number;
}

/** A lift that a command has written and the gateway has not yet applied. */
export interface PendingLift {
  readonly number: number;
  readonly consumerId: string;
}

/**
 * The snapshot of the accounts, and the lifts that commands have written for the running gateway. A command lifts a ban
 * in both tables: in the snapshot in case no gateway runs, and in `lifts` for a running gateway, whose next snapshot would
 * otherwise restore the ban.
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
      CREATE TABLE IF NOT EXISTS lifts (consumer_id TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT;
    `),
    );
  }

  *load(nowMs: number): Generator<AccountRow> {
    const rows = this.#db.prepare('SELECT * FROM accounts WHERE expires_at_ms > ?').iterate(nowMs);
    for (const { consumer_id, state, expires_at_ms } of rows) {
      yield { consumerId: String(consumer_id), state: parseState(String(state)), expiresAtMs: Number(expires_at_ms) };
    }
  }

  /** Null if the row does not hold a valid account. */
  get(consumerId: string): AccountState | null {
    const row = this.#db.prepare('SELECT state FROM accounts WHERE consumer_id = ?').get(consumerId);
    return row === undefined ? UNSEEN : parseState(String(row.state));
  }

  /**
   * Writes rows in one transaction.
   * @param ended consumers whose rows are removed
   * @param applied the number of the last lift that the gateway has applied; lifts up to it are removed. 0: none
   * @param also called within the transaction
   */
  save(rows: readonly AccountRow[], ended: readonly string[] = [], applied = 0, also: () => void = () => {}): void {
    const put = this.#db.prepare('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)');
    const remove = this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?');
    // NORMAL: a power cut may undo the last snapshots of counters, so these commits do not wait for the disk. Those of keys do.
    this.#db.exec('PRAGMA synchronous = NORMAL');
    try {
      transaction(this.#db, () => {
        for (const { consumerId, state, expiresAtMs } of rows) put.run(consumerId, JSON.stringify(state), expiresAtMs);
        for (const consumerId of ended) remove.run(consumerId);
        if (applied > 0) this.#db.prepare('DELETE FROM lifts WHERE rowid <= ?').run(applied);
        also();
      });
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
  }

  remove(consumerId: string): void {
    this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?').run(consumerId);
  }

  /** Removes the rows that have expired by `nowMs`. */
  dropEnded(nowMs: number): void {
    answering(() => this.#db.prepare('DELETE FROM accounts WHERE expires_at_ms <= ?').run(nowMs));
  }

  /** Lifts a ban for a running gateway and for one that starts later. @returns false if no ban is in force */
  lift(consumerId: string, nowMs: number): boolean {
    return transaction(this.#db, () => {
      const state = this.get(consumerId);
      if (state === null || state.ban === null || nowMs >= state.ban.untilMs) return false;
      this.#db
        .prepare('UPDATE accounts SET state = ? WHERE consumer_id = ?')
        .run(JSON.stringify(lift(state, nowMs)), consumerId);
      this.#db.prepare('INSERT INTO lifts VALUES (?, ?)').run(consumerId, nowMs);
      return true;
    });
  }

  /** The lifts that commands have written, oldest first. They stay until `save` removes them as applied. */
  lifts(): readonly PendingLift[] {
    const rows = this.#db.prepare('SELECT rowid AS number, consumer_id FROM lifts ORDER BY rowid').all();
    return rows.map(({ number, consumer_id }) => ({ number: Number(number), consumerId: String(consumer_id) }));
  }

  bans(nowMs: number): BanInForce[] {
    const found: BanInForce[] = [];
    for (const { consumerId, state } of this.load(nowMs)) {
      const ban = state?.ban ?? null;
      if (ban !== null && nowMs < ban.untilMs) found.push({ consumerId, ban });
    }
    return found;
  }
}

const count = z.int().min(0);
const moment = z.number().min(0);
const slices = z
  .object({ per: z.int().min(1).max(30), startsAtMs: moment, first: count, counts: z.array(count).min(1).max(31) })
  .refine(({ per, first }) => first < per);
const STATE = z.object({
  windows: z.partialRecord(z.enum(WINDOWS), z.object({ used: count, endsAtMs: moment, slices: slices.optional() })),
  strikes: z.object({ count, endsAtMs: moment }),
  ban: z.object({ number: z.int().min(1), untilMs: moment, window: z.enum(WINDOWS) }).nullable(),
  topUps: z.partialRecord(z.enum(WINDOWS), z.object({ amount: z.int().min(1), untilMs: moment })).optional(),
});

function parseState(text: string): AccountState | null {
  try {
    return STATE.parse(JSON.parse(text)) as AccountState;
  } catch {
    return null;
  }
}
