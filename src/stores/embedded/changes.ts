import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { ChangeFeed, StoreChange } from '../../identify/record-store.ts';
import { answering, whenFree } from './database.ts';

interface EmbeddedChangesOptions {
  readonly db: DatabaseSync;
  /** How often to poll for the changes of other processes; 250 ms by default. */
  readonly pollEveryMs?: number;
}

/** How many rows are kept. A process that has missed more than this assumes that anything may have changed. */
const KEPT = 1_000;

/**
 * Notifies listeners of changes to keys and bans in the embedded store: of this process's own changes at once, and of
 * those of other processes (commands) when a poll shows that another connection has written to the database.
 */
export class EmbeddedChanges implements ChangeFeed {
  readonly #db: DatabaseSync;
  readonly #pollEveryMs: number;
  /** Marks the rows of this process, whose listeners already know about them. */
  readonly #author = randomUUID();
  readonly #listeners: ((change: StoreChange) => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  #version = 0;
  #seen = 0;

  constructor({ db, pollEveryMs }: EmbeddedChangesOptions) {
    this.#db = db;
    this.#pollEveryMs = pollEveryMs ?? 250;
  }

  /** Adds a row for other processes, in the transaction that makes the change. The caller calls `announce` after the commit. */
  note({ kind, keyId }: StoreChange): void {
    const { lastInsertRowid } = this.#db
      .prepare('INSERT INTO changes (kind, key_id, author) VALUES (?, ?, ?)')
      .run(kind, keyId, this.#author);
    this.#db.prepare('DELETE FROM changes WHERE number <= ?').run(Number(lastInsertRowid) - KEPT);
  }

  /** Notifies the listeners of this process. */
  announce(change: StoreChange): void {
    for (const listener of this.#listeners) listener(change);
  }

  async publish(change: StoreChange): Promise<void> {
    await whenFree(() => answering(() => this.note(change)));
    this.announce(change);
  }

  subscribe(listener: (change: StoreChange) => void): void {
    this.#listeners.push(listener);
    if (this.#timer !== null) return;
    this.#version = this.#dataVersion();
    this.#seen = this.#latest();
    this.#timer = setInterval(() => this.#poll(), this.#pollEveryMs);
    this.#timer.unref();
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  #poll(): void {
    try {
      const version = this.#dataVersion();
      if (version === this.#version) return;
      for (const change of this.#missed()) this.announce(change);
      this.#version = version;
    } catch {
      // The database is locked or gone, so anything may have changed. The next poll tries again.
      this.announce({ kind: 'any', keyId: null });
    }
  }

  /** The changes since the last poll. A write that adds no row here, such as lifting a ban, may have changed anything. */
  #missed(): readonly StoreChange[] {
    const rows = this.#db
      .prepare('SELECT number, kind, key_id, author FROM changes WHERE number > ? ORDER BY number')
      .all(this.#seen);
    const isWhole = rows.length === 0 || Number(rows[0]!.number) === this.#seen + 1;
    this.#seen = Number(rows.at(-1)?.number ?? this.#seen);
    const others = rows.filter(({ author }) => author !== this.#author);
    if (others.length === 0 || !isWhole) return [{ kind: 'any', keyId: null }];
    return others.map(({ kind, key_id }) => ({ kind: kind as StoreChange['kind'], keyId: key_id as string | null }));
  }

  #latest(): number {
    return Number(this.#db.prepare('SELECT max(number) AS latest FROM changes').get()?.latest ?? 0);
  }

  /** A number that changes whenever another connection writes to the database. */
  #dataVersion(): number {
    return Number(this.#db.prepare('PRAGMA data_version').get()?.data_version);
  }
}
