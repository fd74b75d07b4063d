import type { Admission } from './admit.ts';
import type { Debts } from './debts.ts';
import { decide } from './decide.ts';
import type { Memories } from './memory.ts';
import type { Allowance } from './plan.ts';
import { standingVerdict, verdictOf } from './verdict.ts';

/** What the settings say about quotas while the store does not answer (contract section 6). */
export type OnFailure = 'local' | 'closed' | 'open';

/**
 * How requests that were decided without the store are counted. `owed`: admitted, to be added to the store; `sent`:
 * admitted while a call that was given up may have counted them, so they are not added again; `uncounted`: refused, or
 * let through by `open`.
 */
export type AloneCount = 'owed' | 'sent' | 'uncounted';

export interface AloneOptions {
  readonly onFailure: OnFailure;
  readonly memories: Memories;
  /** Null where nothing is to be given back. */
  readonly debts: Debts | null;
  readonly onAlone?: (count: AloneCount, requests: number) => void;
}

/** `n` requests of one consumer that the store did not decide. */
export interface Undecided {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly cost: number;
  readonly n: number;
  /** Nothing of it was counted in the store, for certain. */
  readonly isUncounted: boolean;
}

/**
 * Decides by the settings and what is known here, because the store does not answer.
 * @returns the admission of each of the `n`, in order
 */
export function decideAlone(undecided: Undecided, options: AloneOptions): (index: number) => Admission {
  const { consumerId, allowance, cost, n, isUncounted } = undecided;
  const { onFailure, memories, debts, onAlone } = options;
  if (onFailure === 'closed') return () => ({ kind: 'unavailable' });
  const known = memories.known(consumerId);
  const { nowMs } = known;
  const present = decide(known.state, allowance, nowMs, cost, 0).state;
  const isBanned = present.ban !== null && nowMs < present.ban.untilMs;
  if (onFailure === 'open' && !isBanned) {
    const verdict = standingVerdict(present, allowance, nowMs, cost);
    onAlone?.('uncounted', n);
    return () => ({ kind: 'decided', verdict, source: 'local' });
  }
  const outcome = decide(known.state, allowance, nowMs, cost, n);
  memories.decidedAlone(consumerId, outcome.state, known);
  if (isUncounted) debts?.owe(consumerId, outcome, allowance, known.isOwnClock);
  if (outcome.admitted > 0) onAlone?.(isUncounted && debts !== null ? 'owed' : 'sent', outcome.admitted);
  if (outcome.admitted < n) onAlone?.('uncounted', n - outcome.admitted);
  return (index) => ({ kind: 'decided', verdict: verdictOf(outcome, allowance, index), source: 'local' });
}
