import type { DatabaseSync } from 'node:sqlite';
import { type AccountState, lift, NO_STRIKES } from '../../admit/decide.ts';
import type { BanInForce } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { answering, transaction } from './database.ts';

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

  *load(nowMs: number): Generator<[string, AccountState]> {
    const rows = this.#db.prepare('SELECT consumer_id, state FROM accounts WHERE expires_at_ms > ?').iterate(nowMs);
    for (const { consumer_id, state } of rows) yield [String(consumer_id), parseState(String(state))];
  }

  get(consumerId: string): AccountState | null {
    const row = this.#db.prepare('SELECT state FROM accounts WHERE consumer_id = ?').get(consumerId);
    return row === undefined ? null : parseState(String(row.state));
  }

  /** Writes states whole or not at all; a null state removes the row. */
  save(states: Iterable<readonly [string, AccountState | null, number]>): void {
    const put = this.#db.prepare('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)');
    const remove = this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?');
    // A counter need not outlive a power cut by more than the disk's own haste; a key must. So no waiting for the disk here.
    this.#db.exec('PRAGMA synchronous = NORMAL');
    try {
      transaction(this.#db, () => {
        for (const [consumerId, state, expiresAtMs] of states) {
          if (state === null) remove.run(consumerId);
          else put.run(consumerId, JSON.stringify(state), expiresAtMs);
        }
      });
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
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

  /** Takes the lifts that commands have left. */
  takeLifts(): readonly string[] {
    if (this.#db.prepare('SELECT 1 FROM lifts LIMIT 1').get() === undefined) return [];
    return this.#db
      .prepare('DELETE FROM lifts RETURNING consumer_id')
      .all()
      .map((row) => String(row.consumer_id));
  }

  bans(nowMs: number): BanInForce[] {
    const found: BanInForce[] = [];
    for (const [consumerId, { ban }] of this.load(nowMs)) {
      if (ban !== null && nowMs < ban.untilMs) found.push({ consumerId, ban });
    }
    return found;
  }
}

function parseState(text: string): AccountState {
  try {
    const { windows, strikes, ban } = JSON.parse(text) as AccountState;
    return { windows: windows ?? {}, strikes: strikes ?? NO_STRIKES, ban: ban ?? null };
  } catch (cause) {
    throw new Failure('store_corrupt', 'A counter in the embedded store cannot be read.', cause);
  }
}
