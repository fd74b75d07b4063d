import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { type AccountState, lift, UNSEEN } from '../../admit/decide.ts';
import type { BanInForce } from '../../admit/ledger.ts';
import { WINDOWS } from '../../admit/plan.ts';
import { answering, transaction } from './database.ts';

/** One account as it is kept. */
export interface AccountRow {
  readonly consumerId: string;
  /** Null where the row holds something that is no account. */
  readonly state: AccountState | null;
  /** When the last thing in it loses its meaning, Unix milliseconds. */
  readonly expiresAtMs: number;
}

/** A lift that a command has written and the gateway has not yet obeyed. */
export interface PendingLift {
  readonly number: number;
  readonly consumerId: string;
}

/**
 * The table of the counters' snapshot, and the lifts that a command has written for the gateway that runs.
 * A command lifts a ban in both: in the snapshot for when no gateway runs, in `lifts` for the one that does, whose
 * next snapshot would otherwise bring the ban back.
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

  /** Null where the row holds something that is no account. */
  get(consumerId: string): AccountState | null {
    const row = this.#db.prepare('SELECT state FROM accounts WHERE consumer_id = ?').get(consumerId);
    return row === undefined ? UNSEEN : parseState(String(row.state));
  }

  /**
   * Writes rows whole or not at all, and with them that lifts up to a number have been obeyed.
   * @param ended consumers whose rows are removed
   */
  save(rows: readonly AccountRow[], ended: readonly string[] = [], obeyed = 0): void {
    const put = this.#db.prepare('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)');
    const remove = this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?');
    // A counter need not outlive a power cut by more than the disk's own haste; a key must. So no waiting for the disk here.
    this.#db.exec('PRAGMA synchronous = NORMAL');
    try {
      transaction(this.#db, () => {
        for (const { consumerId, state, expiresAtMs } of rows) put.run(consumerId, JSON.stringify(state), expiresAtMs);
        for (const consumerId of ended) remove.run(consumerId);
        if (obeyed > 0) this.#db.prepare('DELETE FROM lifts WHERE rowid <= ?').run(obeyed);
      });
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
  }

  remove(consumerId: string): void {
    this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?').run(consumerId);
  }

  /** Removes what had lost its meaning by `nowMs`. */
  dropEnded(nowMs: number): void {
    answering(() => this.#db.prepare('DELETE FROM accounts WHERE expires_at_ms <= ?').run(nowMs));
  }

  /** Lifts a ban for the gateway that runs and for one that starts later. False when there is no ban in force. */
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

  /** The lifts that commands have left, the oldest first. They stay until `save` is told that they were obeyed. */
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
const STATE = z.object({
  windows: z.partialRecord(z.enum(WINDOWS), z.object({ used: count, endsAtMs: moment })),
  strikes: z.object({ count, endsAtMs: moment }),
  ban: z.object({ number: z.int().min(1), untilMs: moment, window: z.enum(WINDOWS) }).nullable(),
});

function parseState(text: string): AccountState | null {
  try {
    return STATE.parse(JSON.parse(text)) as AccountState;
  } catch {
    return null;
  }
}
