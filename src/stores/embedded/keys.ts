import { randomUUID } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import {
  type ChangeFeed,
  type Deleted,
  digestsOf,
  type KeyPage,
  type KeyScan,
  type KeyStore,
  readStoredKey,
  type StoreChange,
  type StoredKey,
  type Updated,
} from '../../identify/key-store.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import { answering, whenFree } from './database.ts';

/*
 * API keys in the embedded store, and the table of changes from which gateways learn of what commands changed.
 */

interface EmbeddedKeysOptions {
  readonly db: DatabaseSync;
  readonly changes: EmbeddedChanges;
  /** The store's clock: Unix milliseconds. Date.now by default. */
  readonly wallMs?: () => number;
  /** Called with the error of each change that could not be written. Such a change has not been made. */
  readonly onFailedWrite?: (error: unknown) => void;
}

/** API keys in the embedded store. Each change is one transaction: record, digests and the row for other processes. */
export class EmbeddedKeys implements KeyStore {
  readonly #db: DatabaseSync;
  readonly #writes: AcknowledgedWrites;
  readonly #changes: EmbeddedChanges;
  readonly #wallMs: () => number;
  readonly #onFailedWrite: EmbeddedKeysOptions['onFailedWrite'];
  readonly #byDigest: StatementSync;
  readonly #byId: StatementSync;
  readonly #afterPosition: StatementSync;

  constructor({ db, changes, wallMs = Date.now, onFailedWrite }: EmbeddedKeysOptions) {
    this.#db = db;
    this.#wallMs = wallMs;
    // Not created by a migration, so that an earlier version can still open the file.
    answering(() =>
      db.exec(
        'CREATE TABLE IF NOT EXISTS reserved (name TEXT PRIMARY KEY, id TEXT NOT NULL, until_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID',
      ),
    );
    this.#writes = new AcknowledgedWrites(db);
    this.#changes = changes;
    this.#onFailedWrite = onFailedWrite;
    this.#byDigest = db.prepare(
      'SELECT record FROM digests JOIN keys ON keys.id = digests.key_id WHERE digests.digest = ?',
    );
    this.#byId = db.prepare('SELECT record FROM keys WHERE id = ?');
    this.#afterPosition = db.prepare(
      'SELECT id, record FROM keys WHERE (created_at_ms, id) > (?, ?) ORDER BY created_at_ms, id LIMIT ?',
    );
  }

  async findByDigest(digest: string): Promise<StoredKey | null> {
    const key = await this.ownerOf(digest);
    return key?.secrets.some((secret) => secret.digest === digest) ? key : null;
  }

  async ownerOf(digest: string): Promise<StoredKey | null> {
    return answering(() => keyOf(this.#byDigest.get(digest)));
  }

  async get(id: string, { evenDeleted } = { evenDeleted: false }): Promise<StoredKey | null> {
    const key = answering(() => keyOf(this.#byId.get(id)));
    return key?.deletedAtMs === undefined || evenDeleted ? key : null;
  }

  async list({ limit, cursor }: { readonly limit: number; readonly cursor: string | null }): Promise<KeyPage> {
    return answering(() => {
      const last = this.#positionOf(cursor);
      const rows = this.#db
        .prepare(
          `SELECT id, record FROM keys WHERE (created_at_ms, id) > (?, ?)
           AND CASE WHEN json_valid(record) THEN json_type(record, '$.deletedAtMs') END IS NULL
           ORDER BY created_at_ms, id LIMIT ?`,
        )
        // One row more than the limit shows whether there is another page.
        .all(last.createdAtMs, last.id, limit + 1);
      const page = rows.slice(0, limit);
      return {
        keys: page.map(readableKeyOf).filter((key) => key !== null),
        cursor: rows.length > limit ? String(page.at(-1)!.id) : null,
      };
    });
  }

  async scan({ most, cursor, mayMatch }: Parameters<KeyStore['scan']>[0]): Promise<KeyScan> {
    return answering(() => {
      const last = this.#positionOf(cursor);
      // One row more shows whether there is another part.
      const rows = this.#afterPosition.all(last.createdAtMs, last.id, most + 1);
      const part = rows.slice(0, most);
      const found = part.flatMap((row, i) => {
        const key = mayMatch(String(row.record)) ? readableKeyOf(row) : null;
        return key === null || key.deletedAtMs !== undefined ? [] : [{ key, place: i + 1 }];
      });
      return { found, searched: part.length, cursor: rows.length > most ? String(part.at(-1)!.id) : null };
    });
  }

  async create(key: StoredKey): Promise<Durability> {
    await this.#change(
      () => {
        this.#insert(key);
        this.#changes.note({ kind: 'key', keyId: key.id });
      },
      () => this.#changes.announce({ kind: 'key', keyId: key.id }),
    );
    return DURABLE;
  }

  async reserve(name: string, id: string, forMs: number): Promise<string> {
    return this.#change(() => {
      const nowMs = this.#wallMs();
      this.#db.prepare('DELETE FROM reserved WHERE until_ms <= ?').run(nowMs);
      this.#db.prepare('INSERT INTO reserved VALUES (?, ?, ?) ON CONFLICT DO NOTHING').run(name, id, nowMs + forMs);
      return String(this.#db.prepare('SELECT id FROM reserved WHERE name = ?').get(name)!.id);
    });
  }

  /** One transaction for all keys: each commit waits for the disk, so thousands of commits would take minutes. */
  async createEach(keys: readonly StoredKey[]): Promise<readonly ('created' | 'taken')[]> {
    return this.#change(() => keys.map((key) => this.#insertIfFree(key)));
  }

  async update(id: string, change: (key: StoredKey) => StoredKey): Promise<Updated | null> {
    const changed = await this.#replace(id, (key) => (key.deletedAtMs === undefined ? change(key) : null));
    return changed === null ? null : { key: changed.next, durability: DURABLE };
  }

  async delete(id: string, bury: (key: StoredKey) => StoredKey): Promise<Deleted | null> {
    const changed = await this.#replace(id, bury);
    return changed === null ? null : { before: changed.key, durability: DURABLE };
  }

  /** @param change returns null to change nothing @returns null if there is no such key or nothing was changed */
  async #replace(id: string, change: (key: StoredKey) => StoredKey | null) {
    return this.#change(
      () => {
        const key = keyOf(this.#byId.get(id));
        const next = key === null ? null : change(key);
        if (key === null || next === null) return null;
        this.#db.prepare('UPDATE keys SET record = ? WHERE id = ?').run(JSON.stringify(next), id);
        this.#db.prepare('DELETE FROM digests WHERE key_id = ?').run(id);
        this.#point(next);
        this.#changes.note({ kind: 'key', keyId: id });
        return { key, next };
      },
      (changed) => {
        if (changed !== null) this.#changes.announce({ kind: 'key', keyId: id });
      },
    );
  }

  /** @param made called with the commit: the change is in force, also if it cannot be acknowledged */
  async #change<T>(work: () => T, made?: (value: T) => void): Promise<T> {
    try {
      return await this.#writes.write(work, made);
    } catch (error) {
      if (isOfStore(error)) this.#onFailedWrite?.(error);
      throw error;
    }
  }

  #insertIfFree(key: StoredKey): 'created' | 'taken' {
    this.#db.exec('SAVEPOINT one_key');
    try {
      this.#insert(key);
      return 'created';
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'refused') throw error;
      this.#db.exec('ROLLBACK TO one_key');
      return 'taken';
    } finally {
      this.#db.exec('RELEASE one_key');
    }
  }

  #insert(key: StoredKey): void {
    if (this.#byId.get(key.id) !== undefined) throw taken('id');
    this.#db.prepare('INSERT INTO keys VALUES (?, ?, ?)').run(key.id, key.createdAtMs, JSON.stringify(key));
    this.#point(key);
  }

  #point(key: StoredKey): void {
    const insert = this.#db.prepare('INSERT INTO digests VALUES (?, ?) ON CONFLICT DO NOTHING');
    for (const digest of new Set(digestsOf(key))) {
      if (insert.run(digest, key.id).changes === 0) throw taken('secret');
    }
  }

  #positionOf(cursor: string | null): { readonly createdAtMs: number; readonly id: string } {
    if (cursor === null) return { createdAtMs: Number.MIN_SAFE_INTEGER, id: '' };
    const row = this.#db.prepare('SELECT created_at_ms FROM keys WHERE id = ?').get(cursor);
    if (row === undefined) throw new Failure('refused', 'Unknown cursor.');
    return { createdAtMs: Number(row.created_at_ms), id: cursor };
  }
}

type Row = Record<string, unknown> | undefined;

function keyOf(row: Row): StoredKey | null {
  return row === undefined ? null : readStoredKey(String(row.record));
}

/** For lists: null for a damaged record, so that it does not hide the others. */
function readableKeyOf(row: Row): StoredKey | null {
  try {
    return keyOf(row);
  } catch {
    return null;
  }
}

/** Whether a change failed because of the store, and not because a rule refused it. */
function isOfStore(error: unknown): boolean {
  return error instanceof Failure && (error.code === 'store_unavailable' || error.code === 'store_corrupt');
}

function taken(what: 'id' | 'secret'): Failure {
  return new Failure('refused', `There is already a key with this ${what}.`);
}

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
