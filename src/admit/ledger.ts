import { hash } from 'node:crypto';
import type { UndoneTopUp } from '../engine/operator-changes.ts';
import type { AccountState, Amounts, Decision, LeaseTerms } from '../engine/types.ts';
import { Failure } from '../failure.ts';
import type { SliceCounts, TopUp, TopUpNote } from '../model/account.ts';
import type { WindowName } from '../model/values.ts';
import type { ResetUsage, TopUpTerms } from './account-changes.ts';
import type { AccountIds } from './account-id.ts';
import type { Allowance } from './allowance.ts';
import type { SettledWindow } from './decision.ts';
import type { WindowLimit } from './windows.ts';

export const DURABLE: Durability = { kind: 'durable' };

/**
 * How an attempt to make a change durable ended. `superseded`: a failover undid it, and the store did not repeat it, because a
 * later change of the same record had replaced it. `given_up`: the store still cannot say.
 */
export type FinalDurability = 'durable' | 'superseded' | 'given_up';

/**
 * Says whether a change survives a failover of the server that made it. `unknown`: the server made the change, and a failover may
 * still undo it. The store then continues to secure the change and repeats it if a failover has undone it. `final` tells how that
 * ended, and never rejects.
 */
export type Durability =
  | { readonly kind: 'durable' }
  | { readonly kind: 'unknown'; readonly final: Promise<FinalDurability> };

/** `n` requests of one consumer that the store decides together. */
export interface DecisionRequest {
  /** The id of the consumer's own account (account-id.ts). */
  readonly consumerId: string;
  readonly allowance: Allowance;
  /** The accounts of its budgets, as `accountIdsOf` makes them; left out if the caller has not made them. */
  readonly accountIds?: AccountIds;
  /** Whole number from 1. */
  readonly cost: number;
  /** The reserve of each request in budgets in units of their own; left out if the allowance has no such budget. */
  readonly amounts?: Amounts;
  /** Whole number from 0; with 0 the decision only has the present state. */
  readonly n: number;
  /**
   * The number of requests that this process has in flight in each account before the call, in the order of the budgets; left out
   * if the allowance has no limit on them. The ledger adds those that earlier requests of the same call have begun.
   */
  readonly inFlight?: readonly number[];
  /** The units that the gateway borrows and returns; left out if it does neither. A ledger without leases ignores it. */
  readonly leaseTerms?: LeaseTerms;
}

/**
 * The store of counters, strikes and bans. Owned by admit, implemented by stores/embedded and stores/redis;
 * test/contracts/ledger.ts tests both.
 */
export interface Ledger extends LedgerView, InFlightReports, SettlementSink {
  /**
   * Decides each request atomically, all windows and the ban together, by the store's own clock. A failure for one consumer does
   * not affect the others.
   * @returns for each request, in order: its decision; or null if the store holds a foreign value for this consumer, or may have
   *   counted the request and did not answer. Rejects with NothingDone if the store has certainly counted nothing, else with
   *   Failure `store_unavailable` if the store does not answer in time; it may then have counted the requests.
   */
  decide(requests: readonly DecisionRequest[]): Promise<readonly (Decision | null)[]>;
  /**
   * The number of consumers whose decisions the ledger keeps in memory because it cannot write them at present. Left out by ledgers
   * that write every decision.
   */
  readonly backlogSize?: number;
}

/** What the requests of one account have used of a unit beyond their reserve; negative if they used less. */
export interface Settlement {
  /** An account in a unit of its own. */
  readonly accountId: string;
  /** The units to add to the windows; negative for units to give back. */
  readonly delta: number;
  /** The windows in which the reserve was counted. */
  readonly windows: readonly SettledWindow[];
  /** The histories of the unit that have the requests, and the hour since 1970 in which they have them. */
  readonly histories: readonly string[];
  readonly hour: number;
  /**
   * True if the store certainly counted the requests in their histories too. Then the store settles nothing for a key or a customer
   * without a history (`historyBehind`): an operator has deleted it meanwhile, and a new count would stay.
   */
  readonly isRecorded: boolean;
}

/** `unsent`: the store has certainly done nothing. `lost`: the store did not answer, or holds a foreign value. */
export type SettlementOutcome = 'settled' | 'unsent' | 'lost';

/** Takes settlements to the store. */
export interface SettlementSink {
  /** Settles each by itself, at most once, before any decision that the gateway asks for later. Never rejects. */
  settle(settlements: readonly Settlement[]): Promise<readonly SettlementOutcome[]>;
}

/** Tells the store how many requests this process has in flight, between two decisions. */
export interface InFlightReports {
  /** Rejects if the store does not answer. */
  reportInFlight(counts: readonly { readonly accountId: string; readonly count: number }[]): Promise<void>;
}

/** The store is away and has certainly done nothing: it never received the requests, or refused them as a whole. */
export class NothingDone extends Failure {
  /**
   * If only a part of the store is away: the decisions from the other parts, by request and in order. The store did nothing for the
   * requests whose entry is undefined or missing.
   */
  readonly decisions: readonly (Decision | null | undefined)[];

  constructor(message: string, cause?: unknown, decisions: readonly (Decision | null | undefined)[] = []) {
    super('store_unavailable', message, cause);
    this.decisions = decisions;
  }
}

/**
 * Adds usage to the store that a gateway admitted locally while the store was away (contract section 6). Owned by admit,
 * implemented by stores/redis.
 */
export interface UsageReconciler {
  /** Adds deferred usage to the windows that are still open. Never rejects, and sends nothing twice. */
  reconcile(deferred: readonly DeferredUsage[]): Promise<readonly ReconciledUsage[]>;
}

/** The usage that one gateway has admitted locally for one consumer, by window. */
export interface DeferredUsage {
  readonly consumerId: string;
  readonly windows: readonly DeferredWindow[];
  /** The cost that a history lacks, by hour, in hours since 1970. Left out if the store keeps no history. */
  readonly hours?: ReadonlyMap<number, number>;
  /**
   * Null: `endsAtMs` is by the store's clock. Else the present by the gateway's own clock, Unix milliseconds, and `endsAtMs` is by
   * that clock too: the store had never answered when the gateway decided.
   */
  readonly ownNowMs: number | null;
}

export interface DeferredWindow extends Omit<WindowLimit, 'limit'> {
  readonly spent: number;
  readonly endsAtMs: number;
  /** Of a sliding window: `spent` by slice, so that the store does not add slices that have left the window. */
  readonly parts?: SliceCounts;
}

/** The result of adding deferred usage. */
export type ReconciledUsage =
  /** `added`: the windows to which the store added it; the others had ended. */
  | { readonly kind: 'added'; readonly added: readonly WindowName[] }
  /** The store has certainly added nothing: the usage may be sent again. */
  | { readonly kind: 'refused' }
  /** The store did not answer: the usage counts as added and is never sent again. */
  | { readonly kind: 'lost' };

/** What operators read from a ledger and change in it, whether or not a gateway runs. The data are at most 1 s old. */
export interface LedgerView {
  /** The present state of a consumer: a decision about 0 requests. Null if the store holds a foreign value for it. */
  present(consumerId: string, allowance: Allowance): Promise<Decision | null>;
  /**
   * Lifts a ban that is in force: clears the strikes, takes the rung back, and notifies every gateway.
   * @returns null if the consumer is not banned
   */
  lift(consumerId: string): Promise<Durability | null>;
  /**
   * Adds `amount` to the limit of a window until that window ends, or as `terms` say, and notifies every gateway.
   * @param id the ledger makes the change once for each id of a consumer
   * @returns the sum of the top-ups of the window
   * @throws Failure `refused` if the limit would be too large; `conflict` if a top-up with another end is in force;
   *   `store_corrupt` if the store holds a foreign value
   */
  topUp(consumerId: string, of: WindowLimit, amount: number, id: string, terms?: TopUpTerms): Promise<MadeOnce<TopUp>>;
  /**
   * Takes top-ups of a window back, and notifies every gateway. The counts stay.
   * @param topUpId of one top-up (`topUpIdOf`); null for all of the window that are in force
   * @param id the ledger makes the change once for each id of a consumer
   * @throws Failure `not_found` if no such top-up is in force; `store_corrupt` if the store holds a foreign value
   */
  undoTopUp(consumerId: string, window: WindowName, topUpId: string | null, id: string): Promise<MadeOnce<UndoneTopUp>>;
  /** The top-ups of a consumer one by one, oldest first. Some may have ended. Top-ups that earlier versions made are missing. */
  topUpNotes(consumerId: string): Promise<readonly TopUpNote[]>;
  /**
   * Resets the counts of some windows to 0, clears the strikes, and notifies every gateway. A ban stays. Removes windows, strikes,
   * bans and top-ups that the store cannot read.
   * @param id the ledger makes the change once for each id of a consumer
   */
  resetUsage(consumerId: string, windows: readonly WindowName[], id: string): Promise<MadeOnce<ResetUsage>>;
  /**
   * Copies a ban that is in force on one account, with its number, to another account that has none or one that ends earlier, and
   * notifies every gateway. The first account keeps its ban. For a key that an operator moves: it must not escape its ban.
   */
  carryBan(fromAccountId: string, toAccountId: string): Promise<void>;
  /** Removes the counts, strikes, bans and histories of these accounts, if there are any. */
  forget(...accountIds: readonly string[]): Promise<void>;
  /** The bans in force, in no order. */
  bans(): Promise<readonly FoundBan[]>;
  /** Where the store has an account, for operators: `tg:a:{key_1} in Redis`. */
  placeOf(consumerId: string): string;
}

export interface BanInForce {
  readonly consumerId: string;
  readonly ban: NonNullable<AccountState['ban']>;
}

/** `ban` is null if the store cannot read the value in its place, so that the consumer may be banned. */
export type FoundBan = Pick<BanInForce, 'consumerId'> & { readonly ban: BanInForce['ban'] | null };

/** A store keeps the ids of changes that it makes once for this long, milliseconds. */
export const MADE_ONCE_MS = 86_400_000;

/** The outcome of a change with an id. */
export type MadeOnce<T> =
  | { readonly kind: 'made'; readonly value: T; readonly durability: Durability }
  /** The ledger made the same change under this id before, at most `MADE_ONCE_MS` ago. It has changed nothing now. */
  | { readonly kind: 'repeated'; readonly durability: Durability }
  /** The ledger made another change under this id before. It has changed nothing now. */
  | { readonly kind: 'reused' };

/** The id of the top-up that an operation with this id makes: always the same, so that a repetition names the same top-up. */
export function topUpIdOf(id: string): string {
  return `top_${hash('sha256', id, 'base64url').slice(0, 16)}`;
}

/** @param place where the account is, for operators */
export function foreignAccount(consumerId: string, place: string): Failure {
  return new Failure(
    'store_corrupt',
    `What was counted for ${consumerId} cannot be read: ${place} holds something else. \`tollgate usage reset\` for its key or customer sets that to nothing.`,
  );
}
