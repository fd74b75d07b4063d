import type { DatabaseSync } from 'node:sqlite';
import { type AccountState, decide, lift, type Outcome, UNSEEN } from '../../admit/decide.ts';
import {
  type BanInForce,
  type DecisionRequest,
  DURABLE,
  type Durability,
  type Ledger,
  type LedgerView,
  NothingDone,
} from '../../admit/ledger.ts';
import type { Allowance } from '../../admit/plan.ts';
import { Failure } from '../../failure.ts';
import type { StoreChange } from '../../identify/key-store.ts';
import { AccountsTable } from './accounts.ts';
import { answering, BUSY_TIMEOUT_MS, FilesInPlace, isHeldByAnother, tryWrite, withoutWaiting } from './database.ts';
import { createHistoryTables, dropEndedHistories, Histories, removeHistory } from './history.ts';

/** A crash loses the counts of at most this time. */
const SNAPSHOT_EVERY_MS = 500;
/** Pause before a snapshot is tried again that another process, such as an import, has blocked. */
const HELD_AGAIN_MS = 20;
/** Most rows that are written, or checked, in one turn of the event loop: a few milliseconds. */
const ROWS_PER_TURN = 1_000;

export interface EmbeddedLedgerOptions {
  readonly db: DatabaseSync;
  /** The store's clock: Unix milliseconds. */
  readonly wallMs: () => number;
  /** Called when a ban was lifted. */
  readonly onLift?: (change: StoreChange) => void;
  /** While the disk accepts no writes: true (the default) decides in memory and writes later, false decides nothing. */
  readonly decidesWhileAway?: boolean;
  /** Called when the disk accepts no writes, with the reason as a sentence; and when everything has been written again. */
  readonly onChange?: (state: 'present' | 'away', reason?: string) => void;
  /** Called once per write that failed. */
  readonly onFailedWrite?: (error: unknown) => void;
  /** Called with each loss: an account that cannot be read, or counts that could not be written before the end. */
  readonly onLoss?: (failure: Failure) => void;
}

interface Account {
  readonly state: AccountState;
  readonly expiresAtMs: number;
}

/** An outage of the disk. */
interface Outage {
  readonly reason: string;
  /** How many accounts must still be written before the outage is over; null while the disk accepts no writes. */
  behind: number | null;
}

/**
 * The ledger of a single gateway: counters and bans in memory, with a snapshot of changed accounts twice a second and at
 * `close`. Only the process that owns the embedded store may create one (`ownStore`).
 *
 * Fault: the disk is full, read-only or broken, or an operator has deleted the folder. The gateway would look healthy, and
 * its next start would forget all counts since then. So after a failed write the store is away until everything has been
 * written.
 */
export class EmbeddedLedger implements Ledger {
  readonly #options: EmbeddedLedgerOptions;
  readonly #table: AccountsTable;
  /** What consumers have used, written with their accounts. */
  readonly histories: Histories;
  readonly #accounts = new Map<string, Account>();
  readonly #dirty = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  readonly #files: FilesInPlace;
  #outage: Outage | null = null;
  /** Since when another process has locked the database, monotonic milliseconds; null if none has. */
  #heldSinceMs: number | null = null;
  #again: NodeJS.Timeout | undefined;
  /** The number of the last lift that was applied in memory and not yet removed from the table; 0 if there is none. */
  #applied = 0;
  #sweep: Iterator<[string, Account]> | null = null;

  constructor(options: EmbeddedLedgerOptions) {
    this.#options = options;
    this.#table = new AccountsTable(options.db);
    this.histories = new Histories(options.db);
    this.#files = new FilesInPlace(options.db);
    this.#load();
    this.applyLifts();
    this.#timer = setInterval(() => this.#tick(), SNAPSHOT_EVERY_MS);
    this.#timer.unref();
  }

  get backlogSize(): number {
    return this.#outage === null ? 0 : this.#dirty.size;
  }

  async decide(requests: readonly DecisionRequest[]): Promise<readonly (Outcome | null)[]> {
    if (this.#outage !== null && this.#options.decidesWhileAway === false) throw new NothingDone(this.#outage.reason);
    const nowMs = this.#options.wallMs();
    return requests.map(({ consumerId, allowance, cost, n }) => {
      const before = this.#accounts.get(consumerId);
      const outcome = decide(before?.state ?? UNSEEN, allowance, nowMs, cost, n);
      if (n > 0) {
        const state = withUncounted(before?.state ?? UNSEEN, outcome.state, allowance, nowMs);
        const endsAtMs = endOf(state, allowance.bans?.forgetMs ?? 0);
        this.#keep(consumerId, { state, expiresAtMs: Math.max(endsAtMs, before?.expiresAtMs ?? 0) });
        const used = cost * (allowance.history === 'all' ? n : outcome.admitted);
        if (allowance.history !== undefined && used > 0) this.histories.admitted(consumerId, nowMs, used);
      }
      return outcome;
    });
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    return decide(this.#accounts.get(consumerId)?.state ?? UNSEEN, allowance, this.#options.wallMs(), 1, 0);
  }

  /** Writes the lift to disk first. If that fails, the lift is refused and the ban stays. */
  async lift(consumerId: string): Promise<Durability | null> {
    const lifted = this.#lifted(consumerId);
    if (lifted === null) return null;
    try {
      this.#files.insist();
      answering(() => this.#table.save([{ consumerId, ...lifted }]));
      this.#files.insist();
    } catch (error) {
      this.failed(error);
      throw error;
    }
    this.#accounts.set(consumerId, lifted);
    this.#dirty.delete(consumerId);
    this.#options.onLift?.({ kind: 'ban', keyId: consumerId });
    return DURABLE;
  }

  async forget(consumerId: string): Promise<void> {
    answering(() => {
      this.#table.remove(consumerId);
      this.histories.forget(consumerId);
    });
    this.#accounts.delete(consumerId);
    this.#dirty.delete(consumerId);
  }

  async bans(): Promise<readonly BanInForce[]> {
    const nowMs = this.#options.wallMs();
    const found: BanInForce[] = [];
    for (const [consumerId, { state }] of this.#accounts) {
      if (state.ban !== null && nowMs < state.ban.untilMs) found.push({ consumerId, ban: state.ban });
    }
    return found;
  }

  /** Applies the lifts that commands have written to the database. Called on every change from the feed. */
  applyLifts(): void {
    try {
      const lifts = this.#table.lifts().filter(({ number }) => number > this.#applied);
      if (lifts.length === 0) return;
      for (const { consumerId } of lifts) {
        const lifted = this.#lifted(consumerId);
        if (lifted === null) continue;
        this.#keep(consumerId, lifted);
        this.#options.onLift?.({ kind: 'ban', keyId: consumerId });
      }
      this.#applied = lifts.at(-1)!.number;
      // In one transaction with the lifted accounts: a crash in between would restore the bans.
      this.#write(lifts.map(({ consumerId }) => consumerId).filter((id) => this.#dirty.has(id)));
    } catch (error) {
      this.failed(error);
    }
  }

  /** Begins an outage: a write to the database has failed, here or elsewhere in this process. */
  failed(error: unknown): void {
    this.#options.onFailedWrite?.(error);
    if (this.#outage !== null) {
      this.#outage.behind = null;
      return;
    }
    this.#outage = { reason: error instanceof Error ? error.message : String(error), behind: null };
    this.#options.onChange?.('away', this.#outage.reason);
  }

  /** Stops the snapshots and writes the rest. What cannot be written is lost, and reported to `onLoss`. */
  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#again);
    try {
      if (this.#dirty.size === 0 && !this.histories.isDirty) return;
      this.#files.insist();
      this.#write([...this.#dirty], Number.POSITIVE_INFINITY);
    } catch (error) {
      this.failed(error);
      this.#options.onLoss?.(unwritten(this.#dirty.size, error));
    }
  }

  #load(): void {
    const nowMs = this.#options.wallMs();
    try {
      this.#table.dropEnded(nowMs);
      dropEndedHistories(this.#options.db, nowMs);
      answering(() => tryWrite(this.#options.db));
    } catch (error) {
      // The gateway starts even if the disk is full, since the accounts can be read.
      this.failed(error);
    }
    for (const { consumerId, state, expiresAtMs } of this.#table.load(nowMs)) {
      if (state !== null) this.#accounts.set(consumerId, { state, expiresAtMs });
      else this.#options.onLoss?.(unreadable(consumerId));
    }
  }

  /** The account of a consumer without its ban; null if no ban is in force. */
  #lifted(consumerId: string): Account | null {
    const account = this.#accounts.get(consumerId);
    const nowMs = this.#options.wallMs();
    if (account === undefined || account.state.ban === null || nowMs >= account.state.ban.untilMs) return null;
    return { state: lift(account.state, nowMs), expiresAtMs: account.expiresAtMs };
  }

  #keep(consumerId: string, account: Account): void {
    this.#accounts.set(consumerId, account);
    this.#dirty.add(consumerId);
  }

  #tick(): void {
    try {
      withoutWaiting(this.#options.db, () => this.#snapshot());
      this.#heldSinceMs = null;
      if (this.#dirty.size > 0 || this.histories.isDirty) setImmediate(() => this.#tick());
    } catch (error) {
      if (!this.#isHeldForNow(error)) this.failed(error);
    }
    this.#forgetSome();
  }

  #snapshot(): void {
    this.#files.insist();
    if (this.#dirty.size > 0 || this.#applied > 0 || this.histories.isDirty)
      this.#write(Iterator.from(this.#dirty).take(ROWS_PER_TURN).toArray());
    else if (this.#outage !== null) {
      answering(() => tryWrite(this.#options.db));
      this.#written(0);
    }
  }

  /** Whether another process holds the database, and not for so long that the store is away. Then it is tried again soon. */
  #isHeldForNow(error: unknown): boolean {
    if (!isHeldByAnother(error)) return false;
    this.#heldSinceMs ??= performance.now();
    if (performance.now() - this.#heldSinceMs > BUSY_TIMEOUT_MS) return false;
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.#tick(), HELD_AGAIN_MS).unref();
    return true;
  }

  #write(ids: readonly string[], mostHistories = ROWS_PER_TURN): void {
    const rows = ids.flatMap((consumerId) => {
      const account = this.#accounts.get(consumerId);
      return account === undefined ? [] : [{ consumerId, ...account }];
    });
    const ended = ids.filter((id) => !this.#accounts.has(id));
    let historiesWritten = () => {};
    answering(() =>
      this.#table.save(rows, ended, this.#applied, () => {
        historiesWritten = this.histories.write(mostHistories);
      }),
    );
    historiesWritten();
    this.#applied = 0;
    for (const id of ids) this.#dirty.delete(id);
    this.#written(ids.length);
  }

  /** Ends the outage when all accounts have been written that were waiting at the first successful write. */
  #written(accounts: number): void {
    if (this.#outage === null) return;
    this.#outage.behind = (this.#outage.behind ?? this.#dirty.size + accounts) - accounts;
    if (this.#outage.behind > 0 && this.#dirty.size > 0) return;
    this.#outage = null;
    this.#options.onChange?.('present');
  }

  /** Drops expired accounts, some at a time. */
  #forgetSome(): void {
    const nowMs = this.#options.wallMs();
    this.#sweep ??= this.#accounts.entries();
    for (let i = 0; i < ROWS_PER_TURN; i++) {
      const { done, value } = this.#sweep.next();
      if (done === true) {
        this.#sweep = null;
        return;
      }
      const [id, { expiresAtMs }] = value;
      if (expiresAtMs > nowMs) continue;
      this.#accounts.delete(id);
      // During an outage the row is not marked for removal, so that `#dirty` stays bounded. The next start ignores expired rows.
      if (this.#outage === null) this.#dirty.add(id);
      else this.#dirty.delete(id);
    }
  }
}

/** The same store for commands: reads the snapshot, and lifts bans whether or not a gateway runs. */
export class EmbeddedLedgerView implements LedgerView {
  readonly #db: DatabaseSync;
  readonly #table: AccountsTable;
  readonly #wallMs: () => number;

  constructor({ db, wallMs }: { readonly db: DatabaseSync; readonly wallMs: () => number }) {
    this.#db = db;
    createHistoryTables(db);
    this.#table = new AccountsTable(db);
    this.#wallMs = wallMs;
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    const state = answering(() => this.#table.get(consumerId));
    return state === null ? null : decide(state, allowance, this.#wallMs(), 1, 0);
  }

  async lift(consumerId: string): Promise<Durability | null> {
    return answering(() => this.#table.lift(consumerId, this.#wallMs())) ? DURABLE : null;
  }

  /** A running gateway learns of the key's deletion from the change feed, and forgets the account (serve/gateway-stores.ts). */
  async forget(consumerId: string): Promise<void> {
    answering(() => {
      this.#table.remove(consumerId);
      removeHistory(this.#db, consumerId);
    });
  }

  async bans(): Promise<readonly BanInForce[]> {
    return answering(() => this.#table.bans(this.#wallMs()));
  }
}

/** Keeps what the allowance does not count (after a change of plans), since a decision returns only what it does. */
function withUncounted(before: AccountState, after: AccountState, { limits }: Allowance, nowMs: number): AccountState {
  const uncounted = Object.entries(before.windows).filter(([name]) => !limits.some(({ window }) => window === name));
  const topUps = Object.entries(before.topUps ?? {}).filter(([, { untilMs }]) => nowMs < untilMs);
  if (uncounted.length === 0 && topUps.length === 0) return after;
  return {
    ...after,
    windows: { ...Object.fromEntries(uncounted), ...after.windows },
    ...(topUps.length === 0 ? {} : { topUps: Object.fromEntries(topUps) }),
  };
}

function endOf({ windows, strikes, ban, topUps = {} }: AccountState, forgetMs: number): number {
  let latest = Math.max(strikes.endsAtMs, ban === null ? 0 : ban.untilMs + forgetMs);
  for (const window of Object.values(windows)) latest = Math.max(latest, window.endsAtMs);
  for (const { untilMs } of Object.values(topUps)) latest = Math.max(latest, untilMs);
  return latest;
}

function unreadable(consumerId: string): Failure {
  return new Failure(
    'store_corrupt',
    `What the embedded store holds for ${consumerId} cannot be read. Its windows, strikes and bans begin anew.`,
  );
}

function unwritten(accounts: number, cause: unknown): Failure {
  return new Failure(
    'store_unavailable',
    `The embedded store could not be written by the end: what ${accounts} accounts have counted since they were last written is lost.`,
    cause,
  );
}
