import type { AdmissionListener, Admitter } from '../admit/admit.ts';
import { UNSEEN } from '../admit/decide.ts';
import { shadowIdOf } from '../admit/plan.ts';
import { type Admission, verdictOnBudgets } from '../admit/verdict.ts';
import type { Caller, Shadow } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';

/**
 * Counts an admitted request against the limits of its caller that are only watched (contract section 2, `enforce` and
 * `shadow`). It refuses no request, and only the request's record waits for it.
 * @returns null without such limits; resolves to null if the store did not answer. Never rejects.
 */
export function countInShadow(
  admitter: Pick<Admitter, 'admit'>,
  { id, allowance }: Caller,
  cost: number,
): Promise<Shadow | null> | null {
  if (allowance.shadow === undefined) return null;
  return (async () => {
    const admission = await admitter.admit(shadowIdOf(id), allowance.shadow!, cost);
    if (admission.kind === 'unavailable') return null;
    const { kind, binding } = admission.verdict;
    return { judgement: kind, window: kind === 'admitted' ? null : binding.window };
  })();
}

/**
 * Decides about a request, or asks the store to. If the caller's plan is not enforced, the verdict is one without
 * limits.
 * @param waitedMs how long the request has already waited for the store
 * @returns null if `listener` is called later
 */
export function admissionOf(
  { admitter, wallMs }: Pick<GatewayDeps, 'admitter' | 'wallMs'>,
  { id, allowance }: Caller,
  cost: number,
  waitedMs: number,
  listener: AdmissionListener,
): Admission | null {
  if (!allowance.isShadowOnly) return admitter.ask(id, allowance, cost, waitedMs, listener);
  return { kind: 'decided', verdict: verdictOnBudgets(UNSEEN, allowance, wallMs(), cost), source: null };
}
