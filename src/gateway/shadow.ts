import type { Admitter } from '../admit/admit.ts';
import { UNSEEN } from '../admit/decide.ts';
import { type Allowance, shadowIdOf } from '../admit/plan.ts';
import { type Admitted, standingVerdict } from '../admit/verdict.ts';
import type { Caller } from './caller.ts';
import type { Shadow } from './exchange.ts';

/**
 * Counts an admitted request against the limits of its caller that are only watched (contract section 2, `enforce` and
 * `shadow`). It refuses nobody, and nobody waits for it but the record of the request.
 * @returns null where there are no such limits; resolves to null where the store did not answer. Never rejects.
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
 * What a caller of a plan that is not enforced is told: that nothing bounds it.
 * @param nowMs Unix milliseconds
 */
export function uncounted(allowance: Allowance, nowMs: number, cost: number): Admitted {
  return standingVerdict(UNSEEN, allowance, nowMs, cost);
}
