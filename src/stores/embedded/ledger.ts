import type { DatabaseSync } from 'node:sqlite';
import { type AccountState, decide, lift, type Outcome, UNSEEN } from '../../admit/decide.ts';
import { type Ask, type BanInForce, type Ledger, type LedgerView, NothingDone } from '../../admit/ledger.ts';
import type { Allowance } from '../../admit/plan.ts';
import { Failure } from '../../failure.ts';
import { type Change, DURABLE, type Durability } from '../../identify/key-store.ts';
import { AccountsTable } from './accounts.ts';
import { answering, FilesInPlace, tryWrite } from './database.ts';

/** A crash forgets at most this much (contract: a restart forgets at most a second). */
const SNAPSHOT_EVERY_MS = 500;
/** Rows written, or looked at, in one turn of the event loop: a few milliseconds. */
const ROWS_A_TURN = 1_000;

export interface EmbeddedLedgerOptions {
  readonly db: DatabaseSync;
  /** The store's clock: Unix milliseconds. */
  readonly wallMs: () => number;
  /** Tells the gateway itself: a ban was lifted. */
  readonly onLift?: (change: Change) => void;
  /** While nothing can be written: true (unless told) goes on in memory and writes it down later, false decides nothing. */
  readonly decidesWhileAway?: boolean;
  /** The disk takes no writes, and the reason as a sentence; or it has taken all that had not been written. */
  readonly onChange?: (state: 'present' | 'away', reason?: string) => void;
  /** Called once per write that failed. */
  readonly onFailedWrite?: (error: unknown) => void;
  /** Told of what is lost: an account that cannot be read, or what could not be written by the end. */
  readonly onLoss?: (failure: Failure) => void;
}

interface Account {
  readonly state: AccountState;
  readonly expiresAtMs: number;
}

/** Why nothing can be written. */
interface Outage {
  readonly reason: string;
  /** Accounts that are still to be written before the outage is over, since the disk takes writes again; null: it does not. */
  behind: number | null;
}

/**
 * The ledger of a gateway that runs alone: counters and bans in memory, with a snapshot of what changed twice a second
 * and at `close`. Only the process that owns the embedded store may make one (owner.ts).
 *
 * Attack: the disk is full, read-only or broken, or somebody has deleted the folder. The gateway looks healthy, and at its
 * next start all that it has counted since then is forgotten. So a write that fails makes the store away, until everything
 * that is not on the disk has been written.
 */
export class EmbeddedLedger implements Ledger {
  readonly #options: EmbeddedLedgerOptions;
  readonly #table: AccountsTable;
  readonly #accounts = new Map<string, Account>();
  readonly #dirty = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  readonly #files: FilesInPlace;
  #outage: Outage | null = null;
  /** The last lift that was obeyed and is not yet known on the disk to be; 0 where there is none. */
  #obeyed = 0;
  #sweep: Iterator<[string, Account]> | null = null;

  constructor(options: EmbeddedLedgerOptions) {
    this.#options = options;
    this.#table = new AccountsTable(options.db);
    this.#files = new FilesInPlace(options.db);
    this.#load();
    this.applyLifts();
    this.#timer = setInterval(() => this.#tick(), SNAPSHOT_EVERY_MS);
    this.#timer.unref();
  }

  get owing(): number {
    return this.#outage === null ? 0 : this.#dirty.size;
  }

  async decide(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]> {
    if (this.#outage !== null && this.#options.decidesWhileAway === false) throw new NothingDone(this.#outage.reason);
    const nowMs = this.#options.wallMs();
    return asks.map(({ consumerId, allowance, cost, n }) => {
      const before = this.#accounts.get(consumerId);
      const outcome = decide(before?.state ?? UNSEEN, allowance, nowMs, cost, n);
      if (n > 0) {
        const state = withUncounted(before?.state ?? UNSEEN, outcome.state, allowance);
        const endsAtMs = endOf(state, allowance.bans?.forgetMs ?? 0);
        this.#keep(consumerId, { state, expiresAtMs: Math.max(endsAtMs, before?.expiresAtMs ?? 0) });
      }
      return outcome;
    });
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    return decide(this.#accounts.get(consumerId)?.state ?? UNSEEN, allowance, this.#options.wallMs(), 1, 0);
  }

  /** On the disk first: a lift that cannot be written is refused, and the ban stands. */
  async lift(consumerId: string): Promise<Durability | null> {
    const lifted = this.#lifted(consumerId);
    if (lifted === null) return null;
    try {
      answering(() => this.#table.save([{ consumerId, ...lifted }]));
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
    answering(() => this.#table.remove(consumerId));
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

  /** Obeys the lifts that a command has written into the database. Called on every change that the feed tells of. */
  applyLifts(): void {
    try {
      const lifts = this.#table.lifts().filter(({ number }) => number > this.#obeyed);
      if (lifts.length === 0) return;
      for (const { consumerId } of lifts) {
        const lifted = this.#lifted(consumerId);
        if (lifted === null) continue;
        this.#keep(consumerId, lifted);
        this.#options.onLift?.({ kind: 'ban', keyId: consumerId });
      }
      this.#obeyed = lifts.at(-1)!.number;
      // In one step with the lifted accounts: a crash in between would bring the bans back.
      this.#write(lifts.map(({ consumerId }) => consumerId).filter((id) => this.#dirty.has(id)));
    } catch (error) {
      this.failed(error);
    }
  }

  /** A write to the database has failed, here or elsewhere in this process: nothing is taken for kept until one succeeds. */
  failed(error: unknown): void {
    this.#options.onFailedWrite?.(error);
    if (this.#outage !== null) {
      this.#outage.behind = null;
      return;
    }
    this.#outage = { reason: error instanceof Error ? error.message : String(error), behind: null };
    this.#options.onChange?.('away', this.#outage.reason);
  }

  /** Writes what is not yet written and stops. What cannot be written is told and lost. */
  close(): void {
    clearInterval(this.#timer);
    try {
      if (this.#dirty.size === 0) return;
      this.#files.insist();
      this.#write([...this.#dirty]);
    } catch (error) {
      this.failed(error);
      this.#options.onLoss?.(unwritten(this.#dirty.size, error));
    }
  }

  #load(): void {
    const nowMs = this.#options.wallMs();
    try {
      this.#table.dropEnded(nowMs);
      answering(() => tryWrite(this.#options.db));
    } catch (error) {
      // A full disk is no reason not to start: what is on it can be read.
      this.failed(error);
    }
    for (const { consumerId, state, expiresAtMs } of this.#table.load(nowMs)) {
      if (state !== null) this.#accounts.set(consumerId, { state, expiresAtMs });
      else this.#options.onLoss?.(unreadable(consumerId));
    }
  }

  /** The account of a consumer without its ban; null where no ban is in force. */
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
      this.#files.insist();
      if (this.#dirty.size > 0 || this.#obeyed > 0) this.#write(Iterator.from(this.#dirty).take(ROWS_A_TURN).toArray());
      else if (this.#outage !== null) {
        answering(() => tryWrite(this.#options.db));
        this.#written(0);
      }
      if (this.#dirty.size > 0) setImmediate(() => this.#tick());
    } catch (error) {
      this.failed(error);
    }
    this.#forgetSome();
  }

  #write(ids: readonly string[]): void {
    const rows = ids.flatMap((consumerId) => {
      const account = this.#accounts.get(consumerId);
      return account === undefined ? [] : [{ consumerId, ...account }];
    });
    const ended = ids.filter((id) => !this.#accounts.has(id));
    answering(() => this.#table.save(rows, ended, this.#obeyed));
    this.#obeyed = 0;
    for (const id of ids) this.#dirty.delete(id);
    this.#written(ids.length);
  }

  /** The outage is over when all is written that was not when the first write succeeded. */
  #written(accounts: number): void {
    if (this.#outage === null) return;
    this.#outage.behind = (this.#outage.behind ?? this.#dirty.size + accounts) - accounts;
    if (this.#outage.behind > 0 && this.#dirty.size > 0) return;
    this.#outage = null;
    this.#options.onChange?.('present');
  }

  /** Drops accounts that have lost their meaning, a few at a time. */
  #forgetSome(): void {
    const nowMs = this.#options.wallMs();
    this.#sweep ??= this.#accounts.entries();
    for (let i = 0; i < ROWS_A_TURN; i++) {
      const { done, value } = this.#sweep.next();
      if (done === true) {
        this.#sweep = null;
        return;
      }
      const [id, { expiresAtMs }] = value;
      if (expiresAtMs > nowMs) continue;
      this.#accounts.delete(id);
      // A row that has ended is ignored, and gone at the next start. In an outage nothing may grow with each caller there was.
      if (this.#outage === null) this.#dirty.add(id);
      else this.#dirty.delete(id);
    }
  }
}

/** The same store seen from a command: reads the snapshot, and lifts bans whether or not a gateway runs. */
export class EmbeddedLedgerView implements LedgerView {
  readonly #table: AccountsTable;
  readonly #wallMs: () => number;

  constructor({ db, wallMs }: { readonly db: DatabaseSync; readonly wallMs: () => number }) {
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

  /** The gateway that runs hears that the key was deleted, and forgets it too (gateway-stores.ts). */
  async forget(consumerId: string): Promise<void> {
    answering(() => this.#table.remove(consumerId));
  }

  async bans(): Promise<readonly BanInForce[]> {
    return answering(() => this.#table.bans(this.#wallMs()));
  }
}

/** A decision tells only of the windows that its allowance counts; the others (a plan changed) stay as they were. */
function withUncounted(before: AccountState, after: AccountState, { limits }: Allowance): AccountState {
  const uncounted = Object.entries(before.windows).filter(([name]) => !limits.some(({ window }) => window === name));
  return uncounted.length === 0 ? after : { ...after, windows: { ...Object.fromEntries(uncounted), ...after.windows } };
}

function endOf({ windows, strikes, ban }: AccountState, forgetMs: number): number {
  let latest = Math.max(strikes.endsAtMs, ban === null ? 0 : ban.untilMs + forgetMs);
  for (const window of Object.values(windows)) latest = Math.max(latest, window.endsAtMs);
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
