import { isLimitName, type LimitName } from '../model/values.ts';
import type { History } from './history.ts';

/** Keeps each consumer's usage by hour and day, and the last refusals. Implemented by stores/embedded and stores/redis. */
export interface HistoryStore {
  /**
   * Reads a history; null if the store keeps no history of the consumer. @throws Failure `store_unavailable`; UnreadableRecord with the
   * id if it cannot read it
   */
  of(consumerId: string): Promise<ReadHistory | null>;
  /**
   * The beginning of the last hour in which the store counted something of a consumer, Unix milliseconds, for each of these ids;
   * null if it keeps no history of it, undefined if it cannot read it.
   * @throws Failure `store_unavailable`; `refused` if the store can keep no history
   */
  lastUsedMs(consumerIds: readonly string[]): Promise<readonly (number | null | undefined)[]>;
  /**
   * The ids with a history that begin with `prefix`, those of shadows too; in no order, and an id may come twice.
   * @param again accepts the ids that a call found in the last minute: to find them, Redis looks at each of its names
   */
  consumerIds(prefix: string, again: boolean): AsyncIterable<string>;
  /** Adds refusals to the present hour, and notes the end of each consumer's last refusal. @throws Failure `store_unavailable` */
  addRefusals(refusals: readonly Refusals[]): Promise<void>;
  /**
   * The consumers whose last refusal has not ended by its Retry-After. The longest first, at most `MAX_REFUSED`. An operator may
   * have raised a limit or lifted a ban since.
   * @throws Failure `store_unavailable`
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

/** Reads a stored refusal. A damaged one becomes that of a request with cost 1, because the present state of its caller says the rest. */
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

/** Maximum refused consumers in the store, and in one report of a gateway. The store drops those first whose refusal ends first. */
export const MAX_REFUSED = 10_000;
