import type { DatabaseSync } from 'node:sqlite';
import type { z } from 'zod';
import { type FoundBan, MADE_ONCE_MS } from '../../admit/ledger.ts';
import type { AccountState } from '../../engine/types.ts';
import { account, type StoredAccount } from '../../model/account.ts';
import { answering } from './database.ts';

export interface Account {
  /** Null: the store cannot read the row. It stays until a reset or its end, and the store decides nothing about it. */
  readonly state: AccountState | null;
  /** The store forgets the account at this time, when its last window, strike or ban has ended, Unix milliseconds. */
  readonly expiresAtMs: number;
}

/** The accounts of a process. A gateway has them in memory, in a Map; a command has them in the table alone. */
export interface Accounts {
  get(consumerId: string): Account | undefined;
  set(consumerId: string, account: Account): void;
  delete(consumerId: string): void;
  entries(): IteratorObject<readonly [consumerId: string, account: Account]>;
}

/** One row of the table of accounts. */
interface AccountRow extends Account {
  readonly consumerId: string;
}

/** The id of a change that the store makes once, and the change in words. */
export interface Once {
  readonly id: string;
  readonly words: string;
}

/** The accounts as a process last wrote them. */
export class AccountsTable {
  readonly #db: DatabaseSync;

  constructor(db: DatabaseSync) {
    this.#db = db;
    answering(() =>
      db.exec(`
      CREATE TABLE IF NOT EXISTS accounts (
        consumer_id TEXT PRIMARY KEY, state TEXT NOT NULL, expires_at_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
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
      yield { consumerId: String(consumer_id), state: stateIn(state), expiresAtMs: Number(expires_at_ms) };
    }
  }

  /** Undefined if there is no row. */
  get(consumerId: string): Account | undefined {
    const row = this.#db.prepare('SELECT state, expires_at_ms FROM accounts WHERE consumer_id = ?').get(consumerId);
    return row === undefined ? undefined : { state: stateIn(row.state), expiresAtMs: Number(row.expires_at_ms) };
  }

  /**
   * Writes rows; the caller has a transaction open.
   * @param ended consumers whose rows are removed
   */
  save(rows: readonly AccountRow[], ended: readonly string[] = []): void {
    const put = this.#db.prepare('INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)');
    for (const { consumerId, state, expiresAtMs } of rows) put.run(consumerId, textOf(state), expiresAtMs);
    const remove = this.#db.prepare('DELETE FROM accounts WHERE consumer_id = ?');
    for (const consumerId of ended) remove.run(consumerId);
  }

  /** Writes a changed account, and the id of the change; the caller has a transaction open. */
  saveChanged(row: AccountRow, { id, words }: Once, nowMs: number): void {
    this.save([row]);
    this.#db.prepare('DELETE FROM made_once WHERE at_ms <= ?').run(nowMs - MADE_ONCE_MS);
    this.#db.prepare('INSERT OR REPLACE INTO made_once VALUES (?, ?, ?, ?)').run(row.consumerId, id, words, nowMs);
  }

  /** Removes the rows that have expired by `nowMs`. */
  dropEnded(nowMs: number): void {
    answering(() => this.#db.prepare('DELETE FROM accounts WHERE expires_at_ms <= ?').run(nowMs));
  }

  /** The words of the change that an operation made under an id; null if no operation used it in the last `MADE_ONCE_MS`. */
  madeOnce(consumerId: string, id: string, nowMs: number): string | null {
    const row = this.#db
      .prepare('SELECT words FROM made_once WHERE consumer_id = ? AND id = ? AND at_ms > ?')
      .get(consumerId, id, nowMs - MADE_ONCE_MS);
    return row === undefined ? null : String(row.words);
  }
}

/** The accounts of a command. The transaction of a change writes them. */
export class AccountsOnDisk implements Accounts {
  readonly #table: AccountsTable;
  readonly #wallMs: () => number;

  constructor(table: AccountsTable, wallMs: () => number) {
    this.#table = table;
    this.#wallMs = wallMs;
  }

  get(consumerId: string): Account | undefined {
    const found = answering(() => this.#table.get(consumerId));
    return found === undefined || found.expiresAtMs <= this.#wallMs() ? undefined : found;
  }

  entries(): IteratorObject<readonly [string, Account]> {
    return this.#table.load(this.#wallMs()).map(({ consumerId, ...rest }) => [consumerId, rest] as const);
  }

  set(): void {}

  delete(): void {}
}

/**
 * The bans in force, with the consumers that may be banned because the store cannot read their account.
 * @param damaged further consumers that may be banned
 */
export function bansIn(
  accounts: Pick<Accounts, 'entries'>,
  damaged: readonly { readonly consumerId: string }[],
  nowMs: number,
): FoundBan[] {
  const found = new Map<string, FoundBan>();
  for (const { consumerId } of damaged) found.set(consumerId, { consumerId, ban: null });
  for (const [consumerId, { state }] of accounts.entries()) {
    const ban = state?.ban ?? null;
    if (state === null || (ban !== null && nowMs < ban.untilMs)) found.set(consumerId, { consumerId, ban });
  }
  return [...found.values()];
}

/** The end of an account, Unix milliseconds: of its windows, strikes and top-ups, and `forgetMs` after its ban. */
export function endOf({ windows, strikes, ban, topUps = {} }: AccountState, forgetMs: number): number {
  let latest = Math.max(strikes?.endsAtMs ?? 0, ban === undefined ? 0 : ban.untilMs + forgetMs);
  for (const window of Object.values(windows)) latest = Math.max(latest, window.endsAtMs);
  for (const { untilMs } of Object.values(topUps)) latest = Math.max(latest, untilMs);
  return latest;
}

const NO_STRIKES: StoredAccount['strikes'] = Object.freeze({ count: 0, endsAtMs: 0 });

function stateIn(text: unknown): AccountState | null {
  const stored = parsed<StoredAccount>(String(text), account);
  if (stored === null) return null;
  const { strikes, ban, ...others } = stored;
  return { ...others, strikes: strikes.count === 0 ? undefined : strikes, ban: ban ?? undefined };
}

/** Null if the store has written the row for an account that it cannot read. */
function textOf(state: AccountState | null): string {
  if (state === null) return 'null';
  const { windows, strikes = NO_STRIKES, ban = null, topUps, topUpNotes } = state;
  return JSON.stringify({ windows, strikes, ban, topUps, topUpNotes } satisfies StoredText);
}

/** What JSON leaves out may be undefined. */
type StoredText = { [K in keyof StoredAccount]: StoredAccount[K] | undefined };

/** Null if the text is not of the schema. */
export function parsed<T>(text: string, schema: z.ZodType<unknown>): T | null {
  try {
    return schema.parse(JSON.parse(text)) as T;
  } catch {
    return null;
  }
}
