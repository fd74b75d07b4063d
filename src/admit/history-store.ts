import { isLimitName, type LimitName } from '../model/values.ts';
import type { History } from './history.ts';

/** What the store keeps of each consumer's use besides its counters. Implemented by stores/embedded and stores/redis. */
export interface HistoryStore {
  /** Null if nothing is kept of the consumer. @throws Failure `store_unavailable`; UnreadableRecord with the id if what is kept cannot be read */
  of(consumerId: string): Promise<ReadHistory | null>;
  /**
   * The beginning of the hour in which something of a consumer was counted last, Unix milliseconds, for each of these ids;
   * null if nothing is kept, undefined if what is kept cannot be read. @throws Failure `store_unavailable`; `refused` if the store can keep no history
   */
  lastUsedMs(consumerIds: readonly string[]): Promise<readonly (number | null | undefined)[]>;
  /** The ids that have a history and begin like this, those of shadows too; in no order, and an id may come twice. */
  consumerIds(prefix: string): AsyncIterable<string>;
  /** Adds refusals to the present hour, and notes until when these consumers are refused. @throws Failure `store_unavailable` */
  addRefusals(refusals: readonly Refusals[]): Promise<void>;
  /**
   * The consumers that were refused and, by the Retry-After of their last refusal, would still be. The longest first, at most
   * `MAX_REFUSED`. A limit may have been raised or a ban lifted since. @throws Failure `store_unavailable`
   */
  refusedNow(): Promise<readonly RefusedConsumer[]>;
}

export interface ReadHistory {
  readonly history: History;
  /** The store's clock, Unix milliseconds. */
  readonly nowMs: number;
}

/** The last refusal of a consumer. */
export interface RefusedConsumer {
  /** The id of its account (account-id.ts). */
  readonly consumerId: string;
  readonly plan: string;
  readonly kind: 'refused' | 'banned';
  readonly window: LimitName;
  /** What the refused request would have cost, in the unit of `window`. */
  readonly cost: number;
  /** Unix milliseconds. */
  readonly untilMs: number;
}

/** What is kept of a refusal; as of a request that costs one if that is damaged, because the present state of its caller says the rest. */
export function keptRefusal(
  kind: string,
  window: string,
  cost: number,
  plan: string,
): Pick<RefusedConsumer, 'kind' | 'window' | 'cost' | 'plan'> {
  if (isLimitName(window) && (kind === 'refused' || kind === 'banned') && Number.isSafeInteger(cost))
    return { kind, window, cost, plan };
  return { kind: 'refused', window: 'minute', cost: 1, plan: '' };
}

/** The refusals of a consumer since the last report. */
export interface Refusals extends RefusedConsumer {
  /** Requests refused for a limit. */
  readonly refused: number;
  /** Requests refused for a ban. */
  readonly banned: number;
}

/**
 * Maximum refused consumers in the store, and in one report of a gateway. The store drops those first whose refusal ends
 * first.
 */
export const MAX_REFUSED = 10_000;
