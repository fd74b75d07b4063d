import type { DatabaseSync } from 'node:sqlite';
import { type AccountState, decide, lift, type Outcome, UNSEEN } from '../../admit/decide.ts';
import type { Ask, BanInForce, Ledger, LedgerView } from '../../admit/ledger.ts';
import type { Allowance } from '../../admit/plan.ts';
import { Failure } from '../../failure.ts';
import { type Change, DURABLE, type Durability } from '../../identify/key-store.ts';
import { AccountsTable } from './accounts.ts';
import { answering } from './database.ts';

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
  /** What could not be read or written. Nobody is kept waiting for it: counting goes on in memory. */
  readonly onFailure?: (error: unknown) => void;
}

interface Account {
  readonly state: AccountState;
  readonly expiresAtMs: number;
}

/**
 * The ledger of a gateway that runs alone: counters and bans in memory, with a snapshot of what changed twice a second
 * and at `close`. Only the process that owns the embedded store may make one (owner.ts).
 */
export class EmbeddedLedger implements Ledger {
  readonly #options: EmbeddedLedgerOptions;
  readonly #table: AccountsTable;
  readonly #accounts = new Map<string, Account>();
  readonly #dirty = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #sweep: Iterator<[string, Account]> | null = null;

  constructor(options: EmbeddedLedgerOptions) {
    this.#options = options;
    this.#table = new AccountsTable(options.db);
    this.#load();
    this.applyLifts();
    this.#timer = setInterval(() => this.#tick(), SNAPSHOT_EVERY_MS);
    this.#timer.unref();
  }

  async decide(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]> {
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

  async lift(consumerId: string): Promise<Durability | null> {
    if (!this.#lift(consumerId)) return null;
    answering(() => this.#write([consumerId]));
    return DURABLE;
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
      const lifts = this.#table.lifts();
      if (lifts.length === 0) return;
      for (const { consumerId } of lifts) this.#lift(consumerId);
      // In one step with the lifted accounts: a crash in between would bring the bans back.
      const changed = lifts.map(({ consumerId }) => consumerId).filter((id) => this.#dirty.has(id));
      this.#write(changed, lifts.at(-1)!.number);
    } catch (error) {
      this.#options.onFailure?.(error);
    }
  }

  /** Writes what is not yet written and stops. What cannot be written is told and lost. */
  close(): void {
    clearInterval(this.#timer);
    try {
      this.#snapshot(Number.POSITIVE_INFINITY);
    } catch (error) {
      this.#options.onFailure?.(error);
    }
  }

  #load(): void {
    const nowMs = this.#options.wallMs();
    this.#table.dropEnded(nowMs);
    for (const { consumerId, state, expiresAtMs } of this.#table.load(nowMs)) {
      if (state !== null) this.#accounts.set(consumerId, { state, expiresAtMs });
      else this.#options.onFailure?.(unreadable(consumerId));
    }
  }

  #lift(consumerId: string): boolean {
    const account = this.#accounts.get(consumerId);
    const nowMs = this.#options.wallMs();
    if (account === undefined || account.state.ban === null || nowMs >= account.state.ban.untilMs) return false;
    this.#keep(consumerId, { state: lift(account.state, nowMs), expiresAtMs: account.expiresAtMs });
    this.#options.onLift?.({ kind: 'ban', keyId: consumerId });
    return true;
  }

  #keep(consumerId: string, account: Account): void {
    this.#accounts.set(consumerId, account);
    this.#dirty.add(consumerId);
  }

  #tick(): void {
    try {
      this.#snapshot(ROWS_A_TURN);
      this.#forgetSome();
    } catch (error) {
      this.#options.onFailure?.(error);
    }
  }

  #snapshot(most: number): void {
    if (this.#dirty.size === 0) return;
    this.#write(Iterator.from(this.#dirty).take(most).toArray());
    if (this.#dirty.size > 0) setImmediate(() => this.#tick());
  }

  #write(ids: readonly string[], obeyed = 0): void {
    const rows = ids.flatMap((consumerId) => {
      const account = this.#accounts.get(consumerId);
      return account === undefined ? [] : [{ consumerId, ...account }];
    });
    const ended = ids.filter((id) => !this.#accounts.has(id));
    this.#table.save(rows, ended, obeyed);
    for (const id of ids) this.#dirty.delete(id);
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
      this.#dirty.add(id);
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
