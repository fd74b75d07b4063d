import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { Change, ChangeFeed } from '../../identify/key-store.ts';
import { answering } from './database.ts';

export interface EmbeddedChangesOptions {
  readonly db: DatabaseSync;
  /** How often other processes' changes are looked for, 250 ms unless told. */
  readonly pollEveryMs?: number;
}

/** Rows kept: whoever was away for longer assumes that anything has changed. */
const KEPT = 1_000;

/**
 * Tells of changes to keys and bans through the embedded store: those of this process at once, those of others (commands)
 * when the database says that somebody else has written to it.
 */
export class EmbeddedChanges implements ChangeFeed {
  readonly #db: DatabaseSync;
  readonly #pollEveryMs: number;
  /** Marks what this process wrote: it has told that already. */
  readonly #author = randomUUID();
  readonly #listeners: ((change: Change) => void)[] = [];
  #timer: NodeJS.Timeout | null = null;
  #version = 0;
  #seen = 0;

  constructor({ db, pollEveryMs }: EmbeddedChangesOptions) {
    this.#db = db;
    this.#pollEveryMs = pollEveryMs ?? 250;
  }

  /** Writes a change down for other processes. Part of the transaction that makes it; `tell` follows once that is done. */
  note({ kind, keyId }: Change): void {
    const { lastInsertRowid } = this.#db
      .prepare('INSERT INTO changes (kind, key_id, author) VALUES (?, ?, ?)')
      .run(kind, keyId, this.#author);
    this.#db.prepare('DELETE FROM changes WHERE number <= ?').run(Number(lastInsertRowid) - KEPT);
  }

  /** Tells this process's own listeners. */
  tell(change: Change): void {
    for (const listener of this.#listeners) listener(change);
  }

  async publish(change: Change): Promise<void> {
    answering(() => this.note(change));
    this.tell(change);
  }

  subscribe(listener: (change: Change) => void): void {
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
      for (const change of this.#missed()) this.tell(change);
      this.#version = version;
    } catch {
      // Locked or gone: what cannot be read may hold anything, and the next look comes soon.
      this.tell({ kind: 'any', keyId: null });
    }
  }

  /** What was written since the last look. Somebody may have changed what has no row here (a lift): then, anything. */
  #missed(): readonly Change[] {
    const rows = this.#db
      .prepare('SELECT number, kind, key_id, author FROM changes WHERE number > ? ORDER BY number')
      .all(this.#seen);
    const isWhole = rows.length === 0 || Number(rows[0]!.number) === this.#seen + 1;
    this.#seen = Number(rows.at(-1)?.number ?? this.#seen);
    const others = rows.filter(({ author }) => author !== this.#author);
    if (others.length === 0 || !isWhole) return [{ kind: 'any', keyId: null }];
    return others.map(({ kind, key_id }) => ({ kind: kind as Change['kind'], keyId: key_id as string | null }));
  }

  #latest(): number {
    return Number(this.#db.prepare('SELECT max(number) AS latest FROM changes').get()?.latest ?? 0);
  }

  /** Moves with each write of another connection to the database. */
  #dataVersion(): number {
    return Number(this.#db.prepare('PRAGMA data_version').get()?.data_version);
  }
}
