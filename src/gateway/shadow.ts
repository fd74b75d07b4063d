import type { Admission, Admitter, Asker } from '../admit/admit.ts';
import { UNSEEN } from '../admit/decide.ts';
import { shadowIdOf } from '../admit/plan.ts';
import { standingVerdict } from '../admit/verdict.ts';
import type { Caller } from './caller.ts';
import type { Shadow } from './exchange.ts';
import type { Parts } from './parts.ts';

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
 * Admits a request, or asks the store whether to. A caller of a plan that is not enforced is told that nothing bounds it.
 * @param waitedMs how long it has waited for the store before
 * @returns null where `asker` is told later
 */
export function admissionOf(
  { admitter, wallMs }: Pick<Parts, 'admitter' | 'wallMs'>,
  { id, allowance }: Caller,
  cost: number,
  waitedMs: number,
  asker: Asker,
): Admission | null {
  if (!allowance.isShadowOnly) return admitter.ask(id, allowance, cost, waitedMs, asker);
  return { kind: 'decided', verdict: standingVerdict(UNSEEN, allowance, wallMs(), cost), source: null };
}
