import type { DatabaseSync } from 'node:sqlite';
import {
  type AccountChange,
  changed,
  changeWords,
  type ResetUsage,
  resetUsage,
  type TopUpTerms,
  toppedUp,
  undoTopUp,
} from '../../admit/account-changes.ts';
import { accountIdsOf, historiesOf, historyBehind, inUnit } from '../../admit/account-id.ts';
import type { Allowance } from '../../admit/allowance.ts';
import { accountsAfter, decide, settled } from '../../admit/decision.ts';
import {
  type DecisionRequest,
  DURABLE,
  type Durability,
  type FoundBan,
  foreignAccount,
  type Ledger,
  type MadeOnce,
  NothingDone,
  type Settlement,
  type SettlementOutcome,
  topUpIdOf,
} from '../../admit/ledger.ts';
import type { WindowLimit } from '../../admit/windows.ts';
import { UNSEEN } from '../../engine/decide.ts';
import type { UndoneTopUp } from '../../engine/operator-changes.ts';
import type { AccountState, Decision } from '../../engine/types.ts';
import { Failure, type FailureCode } from '../../failure.ts';
import type { StoreChange } from '../../identify/record-store.ts';
import type { TopUp, TopUpNote } from '../../model/account.ts';
import type { WindowName } from '../../model/values.ts';
import { type Account, type Accounts, AccountsTable, bansIn, endOf, type Once } from './accounts.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import { answering, BUSY_TIMEOUT_MS, isHeldByAnother, markOwned, unmarkOwned, waitAgain } from './database.ts';
import {
  applyEarlierChanges,
  damagedChanges,
  earlierChanges,
  removeDamagedChanges,
  removeEarlierChanges,
} from './earlier-changes.ts';
import { dropEndedHistories, Histories, removeHistory } from './history.ts';

/** A crash loses the counts of at most this time. */
const SNAPSHOT_EVERY_MS = 500;
/** Pause before the next attempt at a snapshot that another process, such as an import, has blocked. */
const HELD_AGAIN_MS = 20;
/** Maximum rows that the ledger writes, or checks, in one turn of the event loop: a few milliseconds. */
const ROWS_PER_TURN = 1_000;

/** The codes of failures with which a rule refuses a change of an account. */
const BY_RULE: readonly FailureCode[] = ['refused', 'conflict', 'not_found'];

interface EmbeddedLedgerOptions {
  readonly db: DatabaseSync;
  /** The store's clock: Unix milliseconds. */
  readonly wallMs: () => number;
  /** The accounts of a command. A gateway leaves it out: its accounts are in memory, loaded at the start and written twice a second. */
  readonly accounts?: Accounts;
  /** Called when an operator has changed an account. */
  readonly onAccountChange?: (change: StoreChange) => void;
  /** What happens while the disk accepts no writes: true (the default) decides in memory and writes later, false decides nothing. */
  readonly decidesWhileAway?: boolean;
  /** Called when the disk accepts no writes, with the reason as a sentence; and when the ledger has written everything again. */
  readonly onChange?: (state: 'present' | 'away', reason?: string) => void;
  /** Called once for each write that failed. */
  readonly onFailedWrite?: (error: unknown) => void;
  /** Called before each snapshot and in each change. Throws unless this process owns the store. */
  readonly insistOnOwner?: () => void;
  /** Called with each unreadable account, change and history, and with the counts that the ledger could not write before its end. */
  readonly onLoss?: (failure: Failure) => void;
}

/** An outage of the disk. */
interface Outage {
  readonly reason: string;
  /** The number of accounts that the ledger must still write before the outage is over; null while the disk accepts no writes. */
  behind: number | null;
}

/**
 * The ledger of the process that owns the store (`ownStore`). A gateway has counters and bans in memory. It writes a snapshot of
 * changed accounts twice a second and at `close`. A command reads and writes those on the disk. A command that does not own the
 * store only reads.
 *
 * Fault: the disk is full, read-only or broken, or an operator has deleted the folder. The gateway would look healthy, and its next
 * start would forget all counts since then. So after a failed write the store is away until the ledger has written everything.
 */
export class EmbeddedLedger implements Ledger {
  readonly #options: EmbeddedLedgerOptions;
  readonly #table: AccountsTable;
  /** The histories of consumers, which the ledger writes together with their accounts. */
  readonly histories: Histories;
  readonly #accounts: Accounts;
  /** The last reported number of requests in flight, by account. Only this process has any. */
  readonly #inFlight = new Map<string, number>();
  readonly #dirty = new Set<string>();
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #writes: AcknowledgedWrites;
  #outage: Outage | null = null;
  /** Another process has locked the database since this time, monotonic milliseconds; null if none has. */
  #heldSinceMs: number | null = null;
  #again: NodeJS.Timeout | undefined;
  /** The unreadable changes that commands of an earlier version have left. */
  #damaged: ReturnType<typeof damagedChanges>;
  #sweep: Iterator<readonly [string, Account]> | null = null;

  constructor(options: EmbeddedLedgerOptions) {
    this.#options = options;
    this.#table = new AccountsTable(options.db);
    this.histories = new Histories(options.db, options.onLoss);
    this.#writes = new AcknowledgedWrites(options.db);
    this.#accounts = options.accounts ?? new Map();
    this.#damaged = damagedChanges(options.db);
    if (options.accounts !== undefined) return;
    this.#load();
    this.#timer = setInterval(() => this.#tick(), SNAPSHOT_EVERY_MS);
    this.#timer.unref();
  }

  get backlogSize(): number {
    return this.#outage === null ? 0 : this.#dirty.size;
  }

  async decide(requests: readonly DecisionRequest[]): Promise<readonly (Decision | null)[]> {
    if (this.#outage !== null && this.#options.decidesWhileAway === false) throw new NothingDone(this.#outage.reason);
    const nowMs = this.#options.wallMs();
    const begun = new Map<string, number>();
    return requests.map((request) => this.#decide(request, nowMs, begun));
  }

  /** @param begun the requests that this call has admitted up to now, by account, for accounts with a limit on requests in flight */
  #decide(
    { consumerId, allowance, accountIds, cost, amounts, n, inFlight: ownInFlight }: DecisionRequest,
    nowMs: number,
    begun: Map<string, number>,
  ): Decision | null {
    const ids = accountIds ?? accountIdsOf(consumerId, allowance);
    const before = this.#statesOf(ids);
    if (before === null) return null;
    const inFlight = ownInFlight?.map((count, i) => count + (begun.get(ids[i]!) ?? 0));
    const decision = decide(before, allowance, nowMs, cost, n, inFlight, amounts);
    if (n === 0) return decision;
    for (const [i, count] of decision.inFlight?.entries() ?? []) {
      if (count < 0) continue;
      const id = ids[i]!;
      begun.set(id, (begun.get(id) ?? 0) + decision.admitted);
      this.#noteInFlight(id, count);
    }
    const after = accountsAfter(before, decision, allowance);
    for (let i = 0; i < ids.length; i++) this.#keepState(ids[i]!, after[i]!, allowance);
    const used = cost * (allowance.history === 'all' ? n : decision.admitted);
    if (allowance.history !== undefined && used > 0) {
      for (let i = 0; i < ids.length; i++)
        if (allowance.budgets[i]!.isWhole) this.histories.admitted(ids[i]!, nowMs, used);
      for (const unit of allowance.inUnits ?? [])
        this.#recordUnit(consumerId, unit, nowMs, (used / cost) * (amounts?.[unit] ?? 0));
    }
    return decision;
  }

  #recordUnit(consumerId: string, unit: string, nowMs: number, amount: number): void {
    if (amount === 0) return;
    for (const id of historiesOf(consumerId)) this.histories.admitted(inUnit(id, unit), nowMs, amount);
  }

  async settle(settlements: readonly Settlement[]): Promise<readonly SettlementOutcome[]> {
    const nowMs = this.#options.wallMs();
    return settlements.map((one) => {
      try {
        return this.#settle(one, nowMs);
      } catch (error) {
        // The store could not read a history that is not in memory.
        this.failed(error);
        return 'lost';
      }
    });
  }

  #settle({ accountId, delta, windows, histories, hour, isRecorded }: Settlement, nowMs: number): SettlementOutcome {
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

  async present(consumerId: string, allowance: Allowance): Promise<Decision | null> {
    const ids = accountIdsOf(consumerId, allowance);
    const states = this.#damaged.some((one) => ids.includes(one.consumerId)) ? null : this.#statesOf(ids);
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
    const from = this.#accounts.get(fromAccountId);
    const ban = from?.state?.ban ?? null;
    if (from === undefined || ban === null || this.#options.wallMs() >= ban.untilMs) return;
    await this.#change(toAccountId, () => {
      const nowMs = this.#options.wallMs();
      const changed = this.#changed(toAccountId, { kind: 'ban', ban }, nowMs);
      if (changed === null || changed.state === this.#stateOf(toAccountId)) return { value: null, account: null };
      // The new account must last as long as the other account remembers the number of the ban.
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
    const made = await this.#makeOnce(consumerId, id, resetOnce(windows));
    this.#damaged = damagedChanges(this.#options.db);
    return made;
  }

  async forget(...accountIds: readonly string[]): Promise<void> {
    const { db, insistOnOwner } = this.#options;
    const remove = () => {
      insistOnOwner?.();
      this.#table.save([], accountIds);
      for (const id of accountIds) {
        removeEarlierChanges(db, id);
        removeHistory(db, id);
      }
    };
    await this.#writes.write(remove, () => {
      for (const id of accountIds) {
        this.histories.forget(id);
        this.#accounts.delete(id);
        this.#dirty.delete(id);
      }
    });
    this.#damaged = damagedChanges(db);
  }

  placeOf(consumerId: string): string {
    const change = this.#damaged.find((one) => one.consumerId === consumerId);
    return change === undefined
      ? `the row ${consumerId} of the table accounts in tollgate.db`
      : `the row ${change.number} of the table pending_changes in tollgate.db`;
  }

  async bans(): Promise<readonly FoundBan[]> {
    return answering(() => bansIn(this.#accounts, this.#damaged, this.#options.wallMs()));
  }

  /**
   * Applies the changes that commands of an earlier version have left. Called once this process owns the store.
   * @throws Failure `store_unavailable`, `store_corrupt`
   */
  takeOver(): void {
    const { db } = this.#options;
    if (answering(() => earlierChanges(db)).length === 0) return;
    this.#writes.writeUnacknowledged(() => applyEarlierChanges(db, this.#table));
  }

  /** Begins an outage, because a write to the database has failed, here or elsewhere in this process. */
  failed(error: unknown): void {
    this.#options.onFailedWrite?.(error);
    if (this.#outage !== null) {
      this.#outage.behind = null;
      return;
    }
    this.#outage = { reason: error instanceof Error ? error.message : String(error), behind: null };
    this.#options.onChange?.('away', this.#outage.reason);
  }

  /** Stops the snapshots and writes the rest. It reports what it cannot write to `onLoss`, as lost. */
  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#again);
    const { db } = this.#options;
    try {
      // Fault: a command opened the database at this moment, which locked it, and the counts since the last snapshot were lost.
      waitAgain(db);
      if (this.#dirty.size > 0 || this.histories.isDirty) this.#write([...this.#dirty], Number.POSITIVE_INFINITY);
    } catch (error) {
      this.failed(error);
      this.#options.onLoss?.(unwritten(this.#dirty.size, error));
    }
    unmarkOwned(db);
  }

  #load(): void {
    const nowMs = this.#options.wallMs();
    try {
      this.#table.dropEnded(nowMs);
      dropEndedHistories(this.#options.db, nowMs);
      this.takeOver();
      answering(() => markOwned(this.#options.db));
    } catch (error) {
      // The gateway starts even if the disk is full, because it can read the accounts.
      this.failed(error);
    }
    for (const { consumerId, state, expiresAtMs } of this.#table.load(nowMs)) {
      this.#accounts.set(consumerId, { state, expiresAtMs });
      if (state === null) this.#options.onLoss?.(foreignAccount(consumerId, this.placeOf(consumerId)));
    }
    for (const { consumerId } of this.#damaged)
      this.#options.onLoss?.(foreignAccount(consumerId, this.placeOf(consumerId)));
  }

  /** Null if the ledger cannot read the account. */
  #stateOf(consumerId: string): AccountState | null {
    const account = this.#accounts.get(consumerId);
    return account === undefined ? UNSEEN : account.state;
  }

  /** Null if the ledger cannot read one of the accounts. */
  #statesOf(ids: readonly string[]): readonly AccountState[] | null {
    return allReadable(ids.map((id) => this.#stateOf(id)));
  }

  /** @throws Failure `store_corrupt` if the ledger cannot read the account */
  #readableOf(consumerId: string): AccountState {
    const state = this.#stateOf(consumerId);
    if (state === null) throw foreignAccount(consumerId, this.placeOf(consumerId));
    return state;
  }

  /** Null if the ledger cannot read the account, and the change is no reset, which begins it anew. */
  #changed(consumerId: string, change: AccountChange, nowMs: number): Account | null {
    const before = this.#stateOf(consumerId) ?? (change.kind === 'reset' ? UNSEEN : null);
    if (before === null) return null;
    const state = changed(before, change, nowMs);
    const expiresAtMs = Math.max(this.#accounts.get(consumerId)?.expiresAtMs ?? 0, endOf(state, 0));
    return { state, expiresAtMs };
  }

  #makeOnce<T>(consumerId: string, id: string, { change, resultOf }: ChangeOnce<T>): Promise<MadeOnce<T>> {
    // Reads the account before the change: the store is then as it was.
    if (change.kind !== 'reset') this.#readableOf(consumerId);
    return this.#change<MadeOnce<T>>(consumerId, () => {
      const nowMs = this.#options.wallMs();
      const once = { id, words: changeWords(change) };
      const before = madeBefore(this.#table, consumerId, once, nowMs);
      if (before !== null) return { value: before, account: null };
      const value = resultOf(this.#stateOf(consumerId) ?? UNSEEN, nowMs);
      const account = this.#changed(consumerId, change, nowMs)!;
      this.#table.saveChanged({ consumerId, ...account }, once, nowMs);
      const made = { kind: 'made', value, durability: DURABLE } as const;
      if (change.kind !== 'reset') return { value: made, account };
      removeDamagedChanges(this.#options.db, consumerId);
      // Applies the changes that waited because the ledger could not read the account.
      applyEarlierChanges(this.#options.db, this.#table, consumerId);
      return { value: made, account: this.#table.get(consumerId)! };
    });
  }

  /**
   * Writes a changed account to disk first. If that fails, it refuses the change and leaves the account as it was.
   * @param make called within a transaction, again for each attempt, because the ledger counts requests between two attempts;
   *   returns the changed account, or null if it changed nothing
   */
  async #change<T>(consumerId: string, make: () => { value: T; account: Account | null }): Promise<T> {
    try {
      const owned = () => {
        this.#options.insistOnOwner?.();
        return make();
      };
      const { value } = await this.#writes.write(owned, ({ account }) => {
        if (account === null) return;
        this.#accounts.set(consumerId, account);
        this.#dirty.delete(consumerId);
        this.#options.onAccountChange?.({ kind: 'account', keyId: consumerId });
      });
      return value;
    } catch (error) {
      // If a rule refuses a change, that says nothing about the store.
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
    if (this.#outage !== null) answering(() => markOwned(this.#options.db));
    if (this.#dirty.size > 0 || this.histories.isDirty)
      this.#write(Iterator.from(this.#dirty).take(ROWS_PER_TURN).toArray());
    else this.#written(0);
  }

  /** True if another process has locked the database for less time than makes the store away. The ledger then soon repeats the write. */
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
      return account === undefined || account.state === null ? [] : [{ consumerId, ...account }];
    });
    const ended = ids.filter((id) => this.#accounts.get(id) === undefined);
    // A power cut may undo the last snapshots of counters, so these writes do not wait for the disk. Writes of operators do.
    const historiesWritten = this.#writes.writeUnacknowledged(() => {
      this.#table.save(rows, ended);
      return this.histories.write(mostHistories, this.#options.wallMs());
    });
    historiesWritten();
    for (const id of ids) this.#dirty.delete(id);
    this.#written(ids.length);
  }

  /** Ends the outage when the ledger has written all accounts that were waiting at the first successful write. */
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
      // During an outage it does not mark the row for removal, so that `#dirty` stays bounded. The next start ignores expired rows.
      if (this.#outage === null) this.#dirty.add(id);
      else this.#dirty.delete(id);
    }
  }
}

/** A change that the ledger makes once for each id. */
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
    resultOf: (state, nowMs) => undoTopUp(state, window, topUpId, nowMs).undone,
  };
}

function resetOnce(windows: readonly WindowName[]): ChangeOnce<ResetUsage> {
  return {
    change: { kind: 'reset', windows },
    resultOf: (state, nowMs) => resetUsage(state, windows, nowMs).reset,
  };
}

/** The outcome of the earlier change under this id; null if there was none. */
function madeBefore(table: AccountsTable, consumerId: string, { id, words }: Once, nowMs: number) {
  const before = table.madeOnce(consumerId, id, nowMs);
  if (before === null) return null;
  if (before !== words) return { kind: 'reused' } as const;
  return { kind: 'repeated', durability: DURABLE } as const;
}

/** Null if the ledger cannot read one of the accounts. */
function allReadable(states: readonly (AccountState | null)[]): readonly AccountState[] | null {
  return states.every((state) => state !== null) ? states : null;
}

function unwritten(accounts: number, cause: unknown): Failure {
  return new Failure(
    'store_unavailable',
    `The embedded store could not be written by the end: what ${accounts} accounts have counted since they were last written is lost.`,
    cause,
  );
}
