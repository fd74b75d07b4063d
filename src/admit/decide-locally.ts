import type { Amounts } from '../engine/types.ts';
import type { AccountCache } from './account-cache.ts';
import { accountIdsOf } from './account-id.ts';
import type { Allowance } from './allowance.ts';
import { accountsAfter, banInForce, decide } from './decision.ts';
import type { InFlightCounts } from './in-flight.ts';
import type { UsageBacklog } from './usage-backlog.ts';
import { type AdmissionResult, verdictOnBudgets, verdictsOf } from './verdict.ts';

/** How the gateway applies limits while the store does not answer (contract section 6). */
export type OnFailure = 'local' | 'closed' | 'open';

/**
 * How the gateway counts requests that it decided without the store. `owed`: admitted, and to be added to the store. `sent`:
 * admitted after a call timed out that may have counted them, so they are not added again. `uncounted`: refused, or admitted by
 * `open`.
 */
export type LocalCount = 'owed' | 'sent' | 'uncounted';

interface LocalDecisionOptions {
  readonly onFailure: OnFailure;
  readonly accounts: AccountCache;
  /** Null if the gateway adds nothing to the store later. */
  readonly backlog: UsageBacklog | null;
  readonly inFlight: InFlightCounts;
  readonly onLocalDecision?: (count: LocalCount, requests: number) => void;
}

/** `n` requests of one consumer that the store did not decide. */
export interface Undecided {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly cost: number;
  readonly amounts?: Amounts | undefined;
  readonly n: number;
  /** True if the store has certainly counted no part of them. */
  readonly isUncounted: boolean;
}

/**
 * Decides by the settings and the state that this gateway knows, because the store does not answer.
 * @returns the result of each of the `n`, in order
 */
export function decideLocally(undecided: Undecided, options: LocalDecisionOptions): (index: number) => AdmissionResult {
  const { consumerId, allowance, cost, amounts, n, isUncounted } = undecided;
  const { onFailure, accounts, backlog, inFlight, onLocalDecision } = options;
  if (onFailure === 'closed') return () => ({ kind: 'unavailable' });
  const ids = accountIdsOf(consumerId, allowance);
  const known = accounts.known(ids);
  const { nowMs } = known;
  const present = decide(known.accounts, allowance, nowMs, cost, 0).accounts;
  if (onFailure === 'open' && banInForce(present, nowMs) === null) {
    const verdict = verdictOnBudgets(present, allowance, nowMs, cost);
    onLocalDecision?.('uncounted', n);
    inFlight.began(allowance, ids, n);
    return () => ({ kind: 'decided', verdict, source: 'local' });
  }
  const counts = inFlight.countsOf(allowance, ids);
  // The gateway cannot know which part of them the store has counted when it settles them.
  const decided = decide(known.accounts, allowance, nowMs, cost, n, counts, amounts);
  const decision = amounts === undefined ? decided : ({ ...decided, isUncertain: true } as const);
  inFlight.began(allowance, ids, decision.admitted);
  accounts.rememberLocal(ids, accountsAfter(known.accounts, decision, allowance), known);
  if (isUncounted) backlog?.defer(ids, decision, allowance, known.isOwnClock);
  if (decision.admitted > 0) onLocalDecision?.(isUncounted && backlog !== null ? 'owed' : 'sent', decision.admitted);
  if (decision.admitted < n) onLocalDecision?.('uncounted', n - decision.admitted);
  const verdictAt = verdictsOf(decision, allowance);
  return (index) => ({ kind: 'decided', verdict: verdictAt(index), source: 'local' });
}
