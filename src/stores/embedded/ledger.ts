import type { DatabaseSync } from 'node:sqlite';
import { type AccountState, decide, lift, type Outcome, UNSEEN } from '../../admit/decide.ts';
import type { Ask, BanInForce, Ledger, LedgerView } from '../../admit/ledger.ts';
import type { Allowance } from '../../admit/plan.ts';
import type { Change } from '../../identify/key-store.ts';
import { AccountsTable } from './accounts.ts';

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
  readonly onSnapshotFailure?: (error: unknown) => void;
}

/**
 * The ledger of a gateway that runs alone: counters and bans in memory, with a snapshot of what changed twice a second
 * and at `close`. Only the process that owns the embedded store may make one (owner.ts).
 */
export class EmbeddedLedger implements Ledger {
  readonly #options: EmbeddedLedgerOptions;
  readonly #table: AccountsTable;
  readonly #accounts: Map<string, { state: AccountState; forgetMs: number }>;
  readonly #dirty = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #sweep: Iterator<[string, { state: AccountState; forgetMs: number }]> | null = null;

  constructor(options: EmbeddedLedgerOptions) {
    this.#options = options;
    this.#table = new AccountsTable(options.db);
    this.#accounts = new Map();
    for (const [id, state] of this.#table.load(options.wallMs()))
      this.#accounts.set(id, { state, forgetMs: LADDER_MS });
    this.applyLifts();
    this.#timer = setInterval(() => this.#tick(), SNAPSHOT_EVERY_MS);
    this.#timer.unref();
  }

  async decide(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]> {
    const nowMs = this.#options.wallMs();
    return asks.map(({ consumerId, allowance, cost, n }) => {
      const before = this.#accounts.get(consumerId)?.state ?? UNSEEN;
      const outcome = decide(before, allowance, nowMs, cost, n);
      if (n > 0)
        this.#keep(consumerId, withUncounted(before, outcome.state, allowance), allowance.bans?.forgetMs ?? LADDER_MS);
      return outcome;
    });
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    return decide(this.#accounts.get(consumerId)?.state ?? UNSEEN, allowance, this.#options.wallMs(), 1, 0);
  }

  async lift(consumerId: string): Promise<boolean> {
    return this.#lift(consumerId);
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
    for (const consumerId of this.#table.takeLifts()) this.#lift(consumerId);
  }

  /** Writes what is not yet written and stops. */
  close(): void {
    clearInterval(this.#timer);
    this.#snapshot(Number.POSITIVE_INFINITY);
  }

  #lift(consumerId: string): boolean {
    const account = this.#accounts.get(consumerId);
    const nowMs = this.#options.wallMs();
    if (account === undefined || account.state.ban === null || nowMs >= account.state.ban.untilMs) return false;
    this.#keep(consumerId, lift(account.state, nowMs), account.forgetMs);
    this.#options.onLift?.({ kind: 'ban', keyId: consumerId });
    return true;
  }

  #keep(consumerId: string, state: AccountState, forgetMs: number): void {
    this.#accounts.set(consumerId, { state, forgetMs });
    this.#dirty.add(consumerId);
  }

  #tick(): void {
    try {
      this.#snapshot(ROWS_A_TURN);
      this.#forgetSome();
    } catch (error) {
      this.#options.onSnapshotFailure?.(error);
    }
  }

  #snapshot(most: number): void {
    if (this.#dirty.size === 0) return;
    const rows: [string, AccountState | null, number][] = [];
    for (const id of this.#dirty) {
      if (rows.length >= most) break;
      const account = this.#accounts.get(id);
      rows.push([id, account?.state ?? null, account === undefined ? 0 : endOf(account.state, account.forgetMs)]);
    }
    this.#table.save(rows);
    for (const [id] of rows) this.#dirty.delete(id);
    if (this.#dirty.size > 0) setImmediate(() => this.#tick());
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
      const [id, { state, forgetMs }] = value;
      if (endOf(state, forgetMs) > nowMs) continue;
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
    return decide(this.#table.get(consumerId) ?? UNSEEN, allowance, this.#wallMs(), 1, 0);
  }

  async lift(consumerId: string): Promise<boolean> {
    return this.#table.lift(consumerId, this.#wallMs());
  }

  async bans(): Promise<readonly BanInForce[]> {
    return this.#table.bans(this.#wallMs());
  }
}

/** How long a ladder is remembered where the plan in force does not say. */
const LADDER_MS = 86_400_000;

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
