import type { DatabaseSync } from 'node:sqlite';
import {
  type AccountChange,
  changed,
  changeWords,
  type ResetUsage,
  resetUsage,
  type TopUpTerms,
  toppedUp,
  topUpUndone,
  type UndoneTopUp,
} from '../../admit/account-changes.ts';
import { accountIdsOf, historiesOf, historyBehind, inUnit } from '../../admit/account-id.ts';
import { type AccountState, accountsAfter, decide, type Outcome, UNSEEN } from '../../admit/decide.ts';
import {
  type DecisionRequest,
  DURABLE,
  type Durability,
  type FoundBan,
  foreignAccount,
  type Ledger,
  type LedgerView,
  type MadeOnce,
  NothingDone,
  type SettlementOutcome,
  topUpIdOf,
  type UnitSettlement,
} from '../../admit/ledger.ts';
import type { Allowance } from '../../admit/plan.ts';
import { settled } from '../../admit/settle.ts';
import type { TopUp, TopUpNote, WindowLimit } from '../../admit/windows.ts';
import { Failure, type FailureCode } from '../../failure.ts';
import type { StoreChange } from '../../identify/record-store.ts';
import type { WindowName } from '../../model/values.ts';
import { AccountsTable, bansIn, type Once, type PendingChange } from './accounts.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import { answering, BUSY_TIMEOUT_MS, isHeldByAnother, tryWrite } from './database.ts';
import { createHistoryTables, dropEndedHistories, Histories, removeHistory } from './history.ts';

/** A crash loses the counts of at most this time. */
const SNAPSHOT_EVERY_MS = 500;
/** Pause before a snapshot is tried again that another process, such as an import, has blocked. */
const HELD_AGAIN_MS = 20;
/** Maximum rows that are written, or checked, in one turn of the event loop: a few milliseconds. */
const ROWS_PER_TURN = 1_000;

/** Codes of failures with which a rule refuses a change of an account. */
const BY_RULE: readonly FailureCode[] = ['refused', 'conflict', 'not_found'];

interface EmbeddedLedgerOptions {
  readonly db: DatabaseSync;
  /** The store's clock: Unix milliseconds. */
  readonly wallMs: () => number;
  /** Called when an operator has changed an account. */
  readonly onAccountChange?: (change: StoreChange) => void;
  /** While the disk accepts no writes: true (the default) decides in memory and writes later, false decides nothing. */
  readonly decidesWhileAway?: boolean;
  /** Called when the disk accepts no writes, with the reason as a sentence; and when everything has been written again. */
  readonly onChange?: (state: 'present' | 'away', reason?: string) => void;
  /** Called once per write that failed. */
  readonly onFailedWrite?: (error: unknown) => void;
  /** Called before each snapshot. Throws if another gateway owns the store. */
  readonly insistOnOwner?: () => void;
  /** Called with each account, change and history that cannot be read, and with counts that could not be written before the end. */
  readonly onLoss?: (failure: Failure) => void;
}

interface Account {
  /** Null: the row cannot be read. It stays until a reset or its end, and nothing is decided about it. */
  readonly state: AccountState | null;
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
  /** How many requests are in flight by account, as last reported: this is the only process that has any. */
  readonly #inFlight = new Map<string, number>();
  readonly #dirty = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  readonly #writes: AcknowledgedWrites;
  #outage: Outage | null = null;
  /** Since when another process has locked the database, monotonic milliseconds; null if none has. */
  #heldSinceMs: number | null = null;
  #again: NodeJS.Timeout | undefined;
  /** The changes of commands that were applied in memory and not yet removed from the table, oldest first. */
  #applied: readonly PendingChange[] = [];
  /** The changes of commands that cannot be read, as last looked at. */
  #unreadable: readonly PendingChange[] = [];
  #sweep: Iterator<[string, Account]> | null = null;

  constructor(options: EmbeddedLedgerOptions) {
    this.#options = options;
    this.#table = new AccountsTable(options.db);
    this.histories = new Histories(options.db, options.onLoss);
    this.#writes = new AcknowledgedWrites(options.db);
    this.#load();
    this.applyChanges();
    this.#timer = setInterval(() => this.#tick(), SNAPSHOT_EVERY_MS);
    this.#timer.unref();
  }

  get backlogSize(): number {
    return this.#outage === null ? 0 : this.#dirty.size;
  }

  async decide(requests: readonly DecisionRequest[]): Promise<readonly (Outcome | null)[]> {
    if (this.#outage !== null && this.#options.decidesWhileAway === false) throw new NothingDone(this.#outage.reason);
    const nowMs = this.#options.wallMs();
    const begun = new Map<string, number>();
    return requests.map((request) => this.#decide(request, nowMs, begun));
  }

  /** @param begun how many requests this call has admitted so far, by account, where those in flight are bounded */
  #decide(
    { consumerId, allowance, accountIds, cost, amounts, n, held }: DecisionRequest,
    nowMs: number,
    begun: Map<string, number>,
  ): Outcome | null {
    const ids = accountIds ?? accountIdsOf(consumerId, allowance);
    const before = this.#statesOf(ids);
    if (before === null) return null;
    const inFlight = held?.map((count, i) => count + (begun.get(ids[i]!) ?? 0));
    const outcome = decide(before, allowance, nowMs, cost, n, inFlight, amounts);
    if (n === 0) return outcome;
    for (const [i, count] of outcome.inFlight?.entries() ?? []) {
      if (count === null) continue;
      const id = ids[i]!;
      begun.set(id, (begun.get(id) ?? 0) + outcome.admitted);
      this.#noteInFlight(id, count);
    }
    const after = accountsAfter(before, outcome, allowance);
    for (let i = 0; i < ids.length; i++) this.#keepState(ids[i]!, after[i]!, allowance);
    const used = cost * (allowance.history === 'all' ? n : outcome.admitted);
    if (allowance.history !== undefined && used > 0) {
      for (let i = 0; i < ids.length; i++)
        if (allowance.budgets[i]!.isWhole) this.histories.admitted(ids[i]!, nowMs, used);
      for (const unit of allowance.inUnits ?? [])
        this.#recordUnit(consumerId, unit, nowMs, (used / cost) * (amounts?.[unit] ?? 0));
    }
    return outcome;
  }

  #recordUnit(consumerId: string, unit: string, nowMs: number, amount: number): void {
    if (amount === 0) return;
    for (const id of historiesOf(consumerId)) this.histories.admitted(inUnit(id, unit), nowMs, amount);
  }

  async settle(settlements: readonly UnitSettlement[]): Promise<readonly SettlementOutcome[]> {
    const nowMs = this.#options.wallMs();
    return settlements.map((one) => {
      try {
        return this.#settle(one, nowMs);
      } catch (error) {
        // A history that is not in memory could not be read.
        this.failed(error);
        return 'lost';
      }
    });
  }

  #settle(
    { accountId, delta, windows, histories, hour, isRecorded }: UnitSettlement,
    nowMs: number,
  ): SettlementOutcome {
    const before = this.#stateOf(accountId);
    if (before === null) return 'lost';
    const isDeleted = (id: string) => isRecorded && this.histories.of(historyBehind(id)) === null;
    if (windows.length > 0 && !isDeleted(accountId)) {
      const state = settled(before, delta, windows, nowMs);
      const expiresAtMs = Math.max(endOf(state, 0), this.#accounts.get(accountId)?.expiresAtMs ?? 0);
      this.#keep(accountId, { state, expiresAtMs });
    }
    for (const id of histories) if (!isDeleted(id)) this.histories.settled(id, hour, delta, nowMs);
    return 'settled';
  }

  #keepState(accountId: string, state: AccountState, { bans }: Allowance): void {
    const expiresAtMs = Math.max(endOf(state, bans?.forgetMs ?? 0), this.#accounts.get(accountId)?.expiresAtMs ?? 0);
    this.#keep(accountId, { state, expiresAtMs });
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    const ids = accountIdsOf(consumerId, allowance);
    const states = this.#statesOf(ids);
    if (states === null) return null;
    const inFlight = ids.map((id) => this.#inFlight.get(id) ?? 0);
    return decide(states, allowance, this.#options.wallMs(), 1, 0, inFlight);
  }

  async reportInFlight(counts: readonly { readonly accountId: string; readonly count: number }[]): Promise<void> {
    for (const { accountId, count } of counts) this.#noteInFlight(accountId, count);
  }

  #noteInFlight(accountId: string, count: number): void {
    if (count === 0) this.#inFlight.delete(accountId);
    else this.#inFlight.set(accountId, count);
  }

  async lift(consumerId: string): Promise<Durability | null> {
    const isBanned = () => this.#options.wallMs() < (this.#stateOf(consumerId)?.ban?.untilMs ?? 0);
    if (!isBanned()) return null;
    return this.#change(consumerId, () => {
      const nowMs = this.#options.wallMs();
      if (!isBanned()) return { value: null, account: null };
      const account = this.#changed(consumerId, { kind: 'lift' }, nowMs);
      if (account !== null) this.#table.save([{ consumerId, ...account }]);
      return { value: account === null ? null : DURABLE, account };
    });
  }

  async carryBan(fromAccountId: string, toAccountId: string): Promise<void> {
    this.applyChanges();
    const from = this.#accounts.get(fromAccountId);
    const ban = from?.state?.ban ?? null;
    if (from === undefined || ban === null || this.#options.wallMs() >= ban.untilMs) return;
    await this.#change(toAccountId, () => {
      const nowMs = this.#options.wallMs();
      const changed = this.#changed(toAccountId, { kind: 'ban', ban }, nowMs);
      if (changed === null || changed.state === this.#stateOf(toAccountId)) return { value: null, account: null };
      // As long as the other account remembers the number of the ban.
      const account = { ...changed, expiresAtMs: Math.max(changed.expiresAtMs, from.expiresAtMs) };
      this.#table.save([{ consumerId: toAccountId, ...account }]);
      return { value: null, account };
    });
  }

  async topUp(consumerId: string, of: WindowLimit, amount: number, id: string, terms: TopUpTerms = {}) {
    return this.#makeOnce(consumerId, id, topUpOnce(of, amount, { ...terms, id: topUpIdOf(id) }));
  }

  async undoTopUp(consumerId: string, window: WindowName, topUpId: string | null, id: string) {
    return this.#makeOnce(consumerId, id, undoOnce(window, topUpId));
  }

  async topUpNotes(consumerId: string): Promise<readonly TopUpNote[]> {
    return this.#readableOf(consumerId).topUpNotes ?? [];
  }

  async resetUsage(consumerId: string, windows: readonly WindowName[], id: string): Promise<MadeOnce<ResetUsage>> {
    return this.#makeOnce(consumerId, id, resetOnce(windows));
  }

  async forget(...accountIds: readonly string[]): Promise<void> {
    const drop = () => {
      for (const id of accountIds) {
        this.histories.forget(id);
        this.#accounts.delete(id);
        this.#dirty.delete(id);
      }
    };
    // At once as well: while the write waits for another process, a snapshot must not write what a command has removed.
    drop();
    await this.#writes.write(() => forgetIn(this.#options.db, this.#table, accountIds), drop);
  }

  placeOf(consumerId: string): string {
    return this.#table.placeOf(consumerId);
  }

  async bans(): Promise<readonly FoundBan[]> {
    const states = this.#accounts.entries().map(([id, { state }]) => [id, state] as const);
    return bansIn(states, this.#unreadable, this.#options.wallMs());
  }

  /**
   * Applies the changes that commands have written to the database. Called on every change from the feed.
   *
   * Fault: one change is damaged. No change of any account was applied any more. So those that can be applied are, and the others
   * stay in the table until a reset.
   */
  applyChanges(): void {
    const applied: PendingChange[] = [];
    try {
      const before = new Set(this.#applied.map(({ number }) => number));
      const pending = this.#table.pending().filter(({ number }) => !before.has(number));
      this.#report(pending.filter(({ change }) => change === null));
      for (const one of pending) {
        const account = one.change === null ? null : this.#changed(one.consumerId, one.change, one.atMs);
        if (account === null) continue;
        this.#keep(one.consumerId, account);
        applied.push(one);
      }
      if (applied.length === 0) return;
      this.#applied = [...this.#applied, ...applied];
      this.#write([]);
    } catch (error) {
      // The next snapshot writes them as well.
      if (!isHeldByAnother(error)) this.failed(error);
    }
    // Last of all: a listener may call this method again, and each change counts once.
    for (const { consumerId } of applied) this.#options.onAccountChange?.({ kind: 'account', keyId: consumerId });
  }

  #report(unreadable: readonly PendingChange[]): void {
    const reported = new Set(this.#unreadable.map(({ number }) => number));
    this.#unreadable = unreadable;
    for (const { number, consumerId } of unreadable)
      if (!reported.has(number)) this.#options.onLoss?.(foreignAccount(consumerId, this.placeOf(consumerId)));
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
      this.#accounts.set(consumerId, { state, expiresAtMs });
      if (state === null) this.#options.onLoss?.(foreignAccount(consumerId, this.placeOf(consumerId)));
    }
  }

  /** Null if the account cannot be read. */
  #stateOf(consumerId: string): AccountState | null {
    const account = this.#accounts.get(consumerId);
    return account === undefined ? UNSEEN : account.state;
  }

  /** Null if one of the accounts cannot be read. */
  #statesOf(ids: readonly string[]): readonly AccountState[] | null {
    return allReadable(ids.map((id) => this.#stateOf(id)));
  }

  /** @throws Failure `store_corrupt` if the account cannot be read */
  #readableOf(consumerId: string): AccountState {
    const state = this.#stateOf(consumerId);
    if (state === null) throw foreignAccount(consumerId, this.placeOf(consumerId));
    return state;
  }

  /** Null if the account cannot be read; a reset begins such a one anew. */
  #changed(consumerId: string, change: AccountChange, nowMs: number): Account | null {
    const before = this.#stateOf(consumerId) ?? (change.kind === 'reset' ? UNSEEN : null);
    if (before === null) return null;
    const state = changed(before, change, nowMs);
    const expiresAtMs = Math.max(this.#accounts.get(consumerId)?.expiresAtMs ?? 0, endOf(state, 0));
    return { state, expiresAtMs };
  }

  #makeOnce<T>(consumerId: string, id: string, { change, resultOf }: ChangeOnce<T>): Promise<MadeOnce<T>> {
    this.applyChanges();
    // Not within the change: the store is as it was.
    if (change.kind !== 'reset') this.#readableOf(consumerId);
    return this.#change<MadeOnce<T>>(consumerId, () => {
      const nowMs = this.#options.wallMs();
      const once = { id, words: changeWords(change) };
      const before = madeBefore(this.#table, consumerId, once, nowMs);
      if (before !== null) return { value: before, account: null };
      const value = resultOf(this.#stateOf(consumerId) ?? UNSEEN, nowMs);
      const account = this.#changed(consumerId, change, nowMs)!;
      if (change.kind === 'reset') this.#table.removeUnreadable(consumerId);
      this.#table.saveChanged({ consumerId, ...account }, once, nowMs);
      return { value: { kind: 'made', value, durability: DURABLE }, account };
    });
  }

  /**
   * Writes a changed account to disk first. If that fails, the change is refused and the account stays as it was.
   * @param make called within a transaction, again for each attempt, because requests are counted between two attempts;
   *   returns the changed account, or null if nothing was changed
   */
  async #change<T>(consumerId: string, make: () => { value: T; account: Account | null }): Promise<T> {
    try {
      const { value } = await this.#writes.write(make, ({ account }) => {
        if (account === null) return;
        this.#accounts.set(consumerId, account);
        this.#dirty.delete(consumerId);
        this.#options.onAccountChange?.({ kind: 'account', keyId: consumerId });
      });
      return value;
    } catch (error) {
      // A rule that refuses a change says nothing about the store.
      if (!(error instanceof Failure && BY_RULE.includes(error.code))) this.failed(error);
      throw error;
    }
  }

  #keep(consumerId: string, account: Account): void {
    this.#accounts.set(consumerId, account);
    this.#dirty.add(consumerId);
  }

  #tick(): void {
    try {
      this.#snapshot();
      this.#heldSinceMs = null;
      if (this.#dirty.size > 0 || this.histories.isDirty) setImmediate(() => this.#tick());
    } catch (error) {
      if (!this.#isHeldForNow(error)) this.failed(error);
    }
    this.#forgetSome();
  }

  #snapshot(): void {
    this.#writes.insist();
    this.#options.insistOnOwner?.();
    if (this.#dirty.size > 0 || this.#applied.length > 0 || this.histories.isDirty)
      this.#write(Iterator.from(this.#dirty).take(ROWS_PER_TURN).toArray());
    else if (this.#outage !== null) {
      answering(() => tryWrite(this.#options.db));
      this.#written(0);
    }
  }

  /** Whether another process holds the database, but not yet for the time after which the store is away. The write is then soon tried again. */
  #isHeldForNow(error: unknown): boolean {
    if (!isHeldByAnother(error)) return false;
    this.#heldSinceMs ??= performance.now();
    if (performance.now() - this.#heldSinceMs > BUSY_TIMEOUT_MS) return false;
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.#tick(), HELD_AGAIN_MS).unref();
    return true;
  }

  /** Writes these accounts, and those that commands have changed, in one transaction: a crash undoes no change. */
  #write(some: readonly string[], mostHistories = ROWS_PER_TURN): void {
    const ids = [...new Set([...some, ...this.#applied.map(({ consumerId }) => consumerId)])];
    const rows = ids.flatMap((consumerId) => {
      const account = this.#accounts.get(consumerId);
      return account === undefined || account.state === null ? [] : [{ consumerId, ...account }];
    });
    const ended = ids.filter((id) => !this.#accounts.has(id));
    // A power cut may undo the last snapshots of counters, so these writes do not wait for the disk. Those of operators do.
    const historiesWritten = this.#writes.writeUnacknowledged(() => {
      this.#table.save(rows, ended, this.#applied);
      return this.histories.write(mostHistories, this.#options.wallMs());
    });
    historiesWritten();
    this.#applied = [];
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

/** The same store for commands: reads the snapshot, and changes accounts whether or not a gateway runs. */
export class EmbeddedLedgerView implements LedgerView {
  readonly #db: DatabaseSync;
  readonly #table: AccountsTable;
  readonly #writes: AcknowledgedWrites;
  readonly #wallMs: () => number;

  constructor({ db, wallMs }: { readonly db: DatabaseSync; readonly wallMs: () => number }) {
    this.#db = db;
    createHistoryTables(db);
    this.#table = new AccountsTable(db);
    this.#writes = new AcknowledgedWrites(db);
    this.#wallMs = wallMs;
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    const ids = accountIdsOf(consumerId, allowance);
    const states = allReadable(answering(() => ids.map((id) => this.#table.readable(id))));
    return states === null ? null : decide(states, allowance, this.#wallMs(), 1, 0);
  }

  async lift(consumerId: string): Promise<Durability | null> {
    const nowMs = this.#wallMs();
    return this.#writes.write(() => {
      const ban = this.#table.get(consumerId)?.ban ?? null;
      if (ban === null || nowMs >= ban.untilMs) return null;
      this.#table.addPending({ consumerId, change: { kind: 'lift' }, atMs: nowMs });
      return DURABLE;
    });
  }

  async carryBan(fromAccountId: string, toAccountId: string): Promise<void> {
    const nowMs = this.#wallMs();
    await this.#writes.write(() => {
      const ban = this.#table.get(fromAccountId)?.ban ?? null;
      const to = this.#table.get(toAccountId);
      // Not compared with the ban of the other account: a lift of that one may be pending.
      if (ban === null || to === null || nowMs >= ban.untilMs) return;
      this.#table.addPending({ consumerId: toAccountId, change: { kind: 'ban', ban }, atMs: nowMs });
    });
  }

  async topUp(consumerId: string, of: WindowLimit, amount: number, id: string, terms: TopUpTerms = {}) {
    return this.#makeOnce(consumerId, id, topUpOnce(of, amount, { ...terms, id: topUpIdOf(id) }));
  }

  async undoTopUp(consumerId: string, window: WindowName, topUpId: string | null, id: string) {
    return this.#makeOnce(consumerId, id, undoOnce(window, topUpId));
  }

  async topUpNotes(consumerId: string): Promise<readonly TopUpNote[]> {
    const state = answering(() => this.#table.get(consumerId));
    if (state === null) throw foreignAccount(consumerId, this.placeOf(consumerId));
    return state.topUpNotes ?? [];
  }

  async resetUsage(consumerId: string, windows: readonly WindowName[], id: string): Promise<MadeOnce<ResetUsage>> {
    return this.#makeOnce(consumerId, id, resetOnce(windows));
  }

  /** A running gateway learns of the key's deletion from the change feed, and forgets the account (open.ts). */
  async forget(...accountIds: readonly string[]): Promise<void> {
    await this.#writes.write(() => forgetIn(this.#db, this.#table, accountIds));
  }

  placeOf(consumerId: string): string {
    return this.#table.placeOf(consumerId);
  }

  async bans(): Promise<readonly FoundBan[]> {
    return answering(() => this.#table.bans(this.#wallMs()));
  }

  #makeOnce<T>(consumerId: string, id: string, { change, resultOf }: ChangeOnce<T>): Promise<MadeOnce<T>> {
    const nowMs = this.#wallMs();
    const once = { id, words: changeWords(change) };
    return this.#writes.write(() => {
      const before = madeBefore(this.#table, consumerId, once, nowMs);
      if (before !== null) return before;
      if (change.kind === 'reset') this.#table.removeUnreadable(consumerId);
      const state = this.#table.get(consumerId);
      if (state === null) throw foreignAccount(consumerId, this.placeOf(consumerId));
      const value = resultOf(state, nowMs);
      this.#table.addPending({ consumerId, change, atMs: nowMs }, once);
      return { kind: 'made', value, durability: DURABLE };
    });
  }
}

function forgetIn(db: DatabaseSync, table: AccountsTable, accountIds: readonly string[]): void {
  for (const id of accountIds) {
    table.remove(id);
    removeHistory(db, id);
  }
}

/** A change that is made once for each id. */
interface ChangeOnce<T> {
  readonly change: AccountChange;
  /** Returns the result for the caller. @throws Failure if a rule refuses the change */
  readonly resultOf: (state: AccountState, nowMs: number) => T;
}

function topUpOnce(of: WindowLimit, amount: number, terms: TopUpTerms & { readonly id: string }): ChangeOnce<TopUp> {
  return {
    change: { kind: 'top-up', of, amount, terms },
    resultOf: (state, nowMs) => toppedUp(state, of, amount, nowMs, terms).topUp,
  };
}

function undoOnce(window: WindowName, topUpId: string | null): ChangeOnce<UndoneTopUp> {
  return {
    change: { kind: 'undo-top-up', window, id: topUpId },
    resultOf: (state, nowMs) => topUpUndone(state, window, topUpId, nowMs).undone,
  };
}

function resetOnce(windows: readonly WindowName[]): ChangeOnce<ResetUsage> {
  return {
    change: { kind: 'reset', windows },
    resultOf: (state, nowMs) => resetUsage(state, windows, nowMs).reset,
  };
}

/** The outcome of the change that was made under its id before; null if none was. */
function madeBefore(table: AccountsTable, consumerId: string, { id, words }: Once, nowMs: number) {
  const before = table.madeOnce(consumerId, id, nowMs);
  if (before === null) return null;
  if (before !== words) return { kind: 'reused' } as const;
  return { kind: 'repeated', durability: DURABLE } as const;
}

/** Null if one of the accounts cannot be read. */
function allReadable(states: readonly (AccountState | null)[]): readonly AccountState[] | null {
  return states.every((state) => state !== null) ? states : null;
}

function endOf({ windows, strikes, ban, topUps = {} }: AccountState, forgetMs: number): number {
  let latest = Math.max(strikes.endsAtMs, ban === null ? 0 : ban.untilMs + forgetMs);
  for (const window of Object.values(windows)) latest = Math.max(latest, window.endsAtMs);
  for (const { untilMs } of Object.values(topUps)) latest = Math.max(latest, untilMs);
  return latest;
}

function unwritten(accounts: number, cause: unknown): Failure {
  return new Failure(
    'store_unavailable',
    `The embedded store could not be written by the end: what ${accounts} accounts have counted since they were last written is lost.`,
    cause,
  );
}
