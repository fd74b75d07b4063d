import type { DatabaseSync } from 'node:sqlite';
import { historiesOf } from '../../admit/account-id.ts';
import { type History, lastHourOf, lastUsedMsOf } from '../../admit/history.ts';
import {
  type HistoryStore,
  keptRefusal,
  MAX_REFUSED,
  type ReadHistory,
  type Refusals,
  type RefusedConsumer,
} from '../../admit/history-store.ts';
import { HISTORY_BYTES, hourOf, LAST_HOUR_BYTES } from '../../engine/history-form.ts';
import { historyEndsAtMs } from '../../engine/history-moves.ts';
import { UnreadableRecord } from '../../model/record.ts';
import { answering, transaction } from './database.ts';
import { recordAdmitted, recordLate, recordRefused } from './history-costs.ts';

/** Maximum written histories that stay in memory. */
const REMEMBERED = 10_000;
/** A row without a readable history. The store adds nothing to it, and keeps it until it ends or an operator removes it. */
const UNREADABLE = 'unreadable';

/**
 * The usage of each consumer, for the gateway that owns the embedded store. Recently changed histories are in memory; all are in
 * the database, which gets them in the same transaction as the counters.
 */
export class Histories {
  readonly #db: DatabaseSync;
  readonly #recent = new Map<string, History>();
  readonly #dirty = new Set<string>();
  readonly #onUnreadable: ((history: UnreadableRecord) => void) | undefined;
  /** The unreadable histories that `onUnreadable` has had. */
  readonly #reported = new Set<string>();

  /** @param onUnreadable called once with each unreadable history, because the store records nothing more in it */
  constructor(db: DatabaseSync, onUnreadable?: (history: UnreadableRecord) => void) {
    this.#db = db;
    this.#onUnreadable = onUnreadable;
    createHistoryTables(db);
  }

  admitted(consumerId: string, nowMs: number, cost: number): void {
    const history = this.#find(consumerId);
    if (history !== UNREADABLE) this.#keep(consumerId, recordAdmitted(history, nowMs, cost));
  }

  /** Adds settled cost to the hour of an earlier request, or takes it back. */
  settled(consumerId: string, hour: number, cost: number, nowMs: number): void {
    const before = this.#find(consumerId);
    const history = before === UNREADABLE ? null : recordLate(before, hour, cost, hourOf(nowMs));
    if (history !== null) this.#keep(consumerId, history);
  }

  refused(consumerId: string, nowMs: number, refused: number, banned: number): void {
    const history = this.#find(consumerId);
    if (history !== UNREADABLE) this.#keep(consumerId, recordRefused(history, nowMs, refused, banned));
  }

  /** Null if the consumer has no history. */
  of(consumerId: string): History | null | typeof UNREADABLE {
    return this.#find(consumerId);
  }

  /** Undefined if the history is not in memory. */
  recent(consumerId: string): History | undefined {
    return this.#recent.get(consumerId);
  }

  get isDirty(): boolean {
    return this.#dirty.size > 0;
  }

  /** Drops a history from memory. `removeHistory` removes the row. */
  forget(consumerId: string): void {
    this.#recent.delete(consumerId);
    this.#dirty.delete(consumerId);
  }

  /**
   * Writes up to `most` changed histories and removes some expired ones, within the caller's transaction.
   * @returns a function that the caller calls after the commit
   */
  write(most: number, nowMs: number): () => void {
    this.#db
      .prepare(
        'DELETE FROM histories WHERE consumer_id IN (SELECT consumer_id FROM histories WHERE expires_at_ms <= ? LIMIT 100)',
      )
      .run(nowMs);
    const put = this.#db.prepare('INSERT OR REPLACE INTO histories VALUES (?, ?, ?)');
    const written = [...this.#dirty].slice(0, most);
    for (const consumerId of written) {
      const history = this.#recent.get(consumerId)!;
      put.run(consumerId, history, historyEndsAtMs(lastHourOf(history)));
    }
    return () => {
      for (const consumerId of written) this.#dirty.delete(consumerId);
      for (const consumerId of this.#recent.keys()) {
        if (this.#recent.size <= REMEMBERED) break;
        if (!this.#dirty.has(consumerId)) this.#recent.delete(consumerId);
      }
    };
  }

  #find(consumerId: string): History | null | typeof UNREADABLE {
    const history = this.#recent.get(consumerId) ?? readHistory(this.#db, consumerId);
    if (history === UNREADABLE && !this.#reported.has(consumerId)) {
      this.#reported.add(consumerId);
      this.#onUnreadable?.(unreadable(consumerId));
    }
    return history;
  }

  #keep(consumerId: string, history: History): void {
    // The Map begins with the least recently used history.
    this.#recent.delete(consumerId);
    this.#recent.set(consumerId, history);
    this.#dirty.add(consumerId);
  }
}

/** The histories in the database, and the index of the consumers that are refused now. A running gateway passes its own `Histories`. */
export class EmbeddedHistory implements HistoryStore {
  readonly #db: DatabaseSync;
  readonly #wallMs: () => number;
  readonly #live: Histories | null;

  constructor({ db, wallMs, live = null }: { db: DatabaseSync; wallMs: () => number; live?: Histories | null }) {
    this.#db = db;
    this.#wallMs = wallMs;
    this.#live = live;
    createHistoryTables(db);
  }

  async of(consumerId: string): Promise<ReadHistory | null> {
    const history = answering(() =>
      this.#live === null ? readHistory(this.#db, consumerId) : this.#live.of(consumerId),
    );
    if (history === UNREADABLE) throw unreadable(consumerId);
    return history === null ? null : { history, nowMs: this.#wallMs() };
  }

  async lastUsedMs(consumerIds: readonly string[]): Promise<readonly (number | null | undefined)[]> {
    const read = this.#db.prepare(
      `SELECT substr(history, 1, ${LAST_HOUR_BYTES}) AS hour FROM histories WHERE consumer_id = ?`,
    );
    return answering(() =>
      consumerIds.map((id) => {
        const hour = this.#live?.recent(id) ?? read.get(id)?.hour;
        if (hour === undefined) return null;
        return hour instanceof Uint8Array && hour.length >= LAST_HOUR_BYTES ? lastUsedMsOf(hour) : undefined;
      }),
    );
  }

  async *consumerIds(prefix: string): AsyncGenerator<string> {
    const next = this.#db.prepare(
      'SELECT consumer_id AS id FROM histories WHERE consumer_id > ? AND consumer_id < ? ORDER BY consumer_id LIMIT 1000',
    );
    let after = prefix;
    for (;;) {
      const ids = answering(() => next.all(after, `${prefix}\u{10ffff}`)).map(({ id }) => String(id));
      yield* ids;
      if (ids.length === 0) return;
      after = ids.at(-1)!;
    }
  }

  async addRefusals(refusals: readonly Refusals[]): Promise<void> {
    const nowMs = this.#wallMs();
    // Writes them in one transaction that does not wait for the disk: all requests would wait with it.
    this.#db.exec('PRAGMA synchronous = NORMAL');
    try {
      answering(() => transaction(this.#db, () => this.#note(refusals, nowMs)));
    } finally {
      this.#db.exec('PRAGMA synchronous = FULL');
    }
    // Comes last, because the gateway reports the counts of a failed write once more.
    for (const { consumerId, refused, banned } of refusals) {
      // A scan that found a ban notes it without a refusal.
      if (refused + banned === 0) continue;
      for (const id of historiesOf(consumerId)) this.#live?.refused(id, nowMs, refused, banned);
    }
  }

  #note(refusals: readonly Refusals[], nowMs: number): void {
    const put = this.#db.prepare('INSERT OR REPLACE INTO refused_now VALUES (?, ?, ?, ?, ?, ?)');
    for (const { consumerId, untilMs, kind, window, cost, plan } of refusals) {
      put.run(consumerId, untilMs, kind, window, cost, plan);
    }
    this.#db.prepare('DELETE FROM refused_now WHERE until_ms <= ?').run(nowMs);
    this.#db
      .prepare(
        'DELETE FROM refused_now WHERE consumer_id NOT IN (SELECT consumer_id FROM refused_now ORDER BY until_ms DESC LIMIT ?)',
      )
      .run(MAX_REFUSED);
  }

  async refusedNow(): Promise<readonly RefusedConsumer[]> {
    const rows = answering(() =>
      this.#db
        .prepare('SELECT * FROM refused_now WHERE until_ms > ? ORDER BY until_ms DESC LIMIT ?')
        .all(this.#wallMs(), MAX_REFUSED),
    );
    return rows.map(({ consumer_id, until_ms, kind, window, cost, plan }): RefusedConsumer => {
      const refusal = keptRefusal(String(kind), String(window), Number(cost), String(plan));
      return { consumerId: String(consumer_id), untilMs: Number(until_ms), ...refusal };
    });
  }
}

function createHistoryTables(db: DatabaseSync): void {
  answering(() =>
    db.exec(`
      CREATE TABLE IF NOT EXISTS histories (
        consumer_id TEXT PRIMARY KEY, history BLOB NOT NULL, expires_at_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS histories_by_end ON histories (expires_at_ms);
      CREATE TABLE IF NOT EXISTS refused_now (
        consumer_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, kind TEXT NOT NULL, window TEXT NOT NULL,
        cost INTEGER NOT NULL, plan TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
    `),
  );
}

function readHistory(db: DatabaseSync, consumerId: string): History | null | typeof UNREADABLE {
  const row = db.prepare('SELECT history FROM histories WHERE consumer_id = ?').get(consumerId);
  if (row === undefined) return null;
  return row.history instanceof Uint8Array && row.history.length === HISTORY_BYTES ? row.history : UNREADABLE;
}

function unreadable(consumerId: string): UnreadableRecord {
  return new UnreadableRecord(
    consumerId,
    `The usage history of ${consumerId} cannot be read: its row of the table histories in tollgate.db holds something else, and nothing is recorded in it. Put it right there, or remove it, so that a new one begins.`,
  );
}

/** Removes the history of a consumer. */
export function removeHistory(db: DatabaseSync, consumerId: string): void {
  db.prepare('DELETE FROM histories WHERE consumer_id = ?').run(consumerId);
}

/** Removes the expired histories. */
export function dropEndedHistories(db: DatabaseSync, nowMs: number): void {
  answering(() => db.prepare('DELETE FROM histories WHERE expires_at_ms <= ?').run(nowMs));
}
