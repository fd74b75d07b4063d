import type { AccountState, Outcome } from './decide.ts';
import type { Allowance } from './plan.ts';

/** `n` requests of one consumer that are to be decided at once. */
export interface Ask {
  readonly consumerId: string;
  readonly allowance: Allowance;
  /** Whole number from 1. */
  readonly cost: number;
  /** Whole number from 0; with 0 the outcome only tells the present state. */
  readonly n: number;
}

/**
 * Where counters, strikes and bans live. Owned by admit, implemented by stores/embedded and stores/redis, held to by
 * test/contracts/ledger.ts.
 */
export interface Ledger extends LedgerView {
  /**
   * Decides each ask in one atomic step, all windows and the ban together, by the store's own clock. Asks of different
   * consumers do not disturb each other.
   * @returns per ask, in order, its outcome, or null where the store has something foreign in this consumer's place.
   *   Rejects with Failure `store_unavailable` when the store does not answer in time; what was asked may then have
   *   been counted or not.
   */
  decide(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]>;
}

/** What an operator sees of a ledger and may do to it, whether or not a gateway runs. What it tells is at most 1 s old. */
export interface LedgerView {
  /** The present state of a consumer: an outcome of 0 requests. Null where the store has something foreign. */
  present(consumerId: string, allowance: Allowance): Promise<Outcome | null>;
  /**
   * Lifts a ban that is in force: strikes cleared, the rung taken back, every gateway told.
   * @returns false when the consumer is not banned.
   */
  lift(consumerId: string): Promise<boolean>;
  /** The bans in force, in no order. */
  bans(): Promise<readonly BanInForce[]>;
}

export interface BanInForce {
  readonly consumerId: string;
  readonly ban: NonNullable<AccountState['ban']>;
}
