import { Failure } from '../failure.ts';
import type { Durability } from '../identify/key-store.ts';
import type { AccountState, Outcome } from './decide.ts';
import type { Allowance, WindowName } from './plan.ts';

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
   * @returns per ask, in order, its outcome, or null where the store has something foreign in this consumer's place, or
   *   may have counted it and did not tell. Rejects with NothingDone when nothing has been counted for certain, else
   *   with Failure `store_unavailable` when the store does not answer in time; what was asked may then have been
   *   counted or not.
   */
  decide(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]>;
  /**
   * Consumers about whom it has decided and cannot keep it at present: it will when the store is back. Left out where
   * nothing is decided that is not kept.
   */
  readonly owing?: number;
}

/** The store is away and has done nothing of what was asked, for certain: it was never sent, or refused as a whole. */
export class NothingDone extends Failure {
  /**
   * Where a part of the store is away and another answered: what was asked of that, by ask and in order. Nothing was
   * done of those that have no entry here.
   */
  readonly butFor: readonly (Outcome | null | undefined)[];

  constructor(message: string, cause?: unknown, butFor: readonly (Outcome | null | undefined)[] = []) {
    super('store_unavailable', message, cause);
    this.butFor = butFor;
  }
}

/**
 * Where a gateway brings what it admitted alone while the store was away (contract section 6). Owned by admit,
 * implemented by stores/redis.
 */
export interface Returns {
  /** Adds each debt to the windows that are still open. Never rejects, and sends nothing twice. */
  giveBack(debts: readonly Debt[]): Promise<readonly Returned[]>;
}

/** What one gateway has admitted of one consumer, by window. */
export interface Debt {
  readonly consumerId: string;
  readonly windows: readonly OwedWindow[];
  /**
   * Null: the ends are by the store's clock. Else what the gateway takes for the present, Unix milliseconds, and the ends
   * are by its own clock: it had never heard the store's when it decided.
   */
  readonly ownNowMs: number | null;
}

export interface OwedWindow {
  readonly window: WindowName;
  readonly lengthMs: number;
  readonly spent: number;
  readonly endsAtMs: number;
}

/** What became of a debt. */
export type Returned =
  /** `added`: the windows that it was added to; the others had ended. */
  | { readonly kind: 'added'; readonly added: readonly WindowName[] }
  /** Nothing was done, for certain: it may be brought again. */
  | { readonly kind: 'refused' }
  /** It was sent and not answered: it counts as added and is never brought again. */
  | { readonly kind: 'lost' };

/** What an operator sees of a ledger and may do to it, whether or not a gateway runs. What it tells is at most 1 s old. */
export interface LedgerView {
  /** The present state of a consumer: an outcome of 0 requests. Null where the store has something foreign. */
  present(consumerId: string, allowance: Allowance): Promise<Outcome | null>;
  /**
   * Lifts a ban that is in force: strikes cleared, the rung taken back, every gateway told.
   * @returns null when the consumer is not banned.
   */
  lift(consumerId: string): Promise<Durability | null>;
  /** Removes all that is known of a consumer: what was counted, strikes, ban. Nothing where there is nothing. */
  forget(consumerId: string): Promise<void>;
  /** The bans in force, in no order. */
  bans(): Promise<readonly BanInForce[]>;
}

export interface BanInForce {
  readonly consumerId: string;
  readonly ban: NonNullable<AccountState['ban']>;
}
