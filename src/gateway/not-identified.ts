import { type ErrorAnswer, errorAnswer, plainError, tooManyFailedAttempts, unauthorized } from '../annotate/error.ts';
import type { Budget } from '../identify/failed-attempts.ts';
import type { Identified } from './caller.ts';
import type { Judgement } from './exchange.ts';
import type { Origin, Parts } from './parts.ts';

/** A request that is answered before admission. */
export interface Refusal {
  readonly judgement: Judgement;
  readonly error: ErrorAnswer;
  /** The rate-limit fields, where they have been made already. */
  readonly told: string[] | null;
  /** What broke, for operators; left out where nothing did. */
  readonly cause?: string | undefined;
}

/**
 * 401, or 429 where the address has used up what it may fail; 400 for two Authorization fields; 503 where it cannot be
 * said who calls, and 500 where plans.yaml has no plan for its key, which are no failures of the caller's and count as
 * none (contract section 4).
 * @param waitedMs how long the request has waited for the store before
 */
export function notIdentified(
  { failedAttempts, rateLimitFields, wallMs }: Parts,
  { address, trustedPeer }: Origin,
  identified: Exclude<Identified, { kind: 'caller' }>,
  waitedMs: number,
): Refusal | Promise<Refusal> {
  if (identified.kind === 'ambiguous') {
    const error = errorAnswer('invalid_request', 'Authorization must come once.');
    return { judgement: 'malformed', error, told: null };
  }
  if (identified.kind === 'unavailable') {
    return { judgement: 'undecided', error: plainError(identified.code, identified.retryAfterMs), told: null };
  }
  if (identified.kind === 'planless') {
    const cause = `plans.yaml has no usable plan '${identified.plan}' for ${identified.id}`;
    return { judgement: 'undecided', error: plainError('internal_error'), told: null, cause };
  }
  const { code, token, cause } = identified;
  const answer = (budget: Budget): Refusal => {
    const nowMs = wallMs();
    // An address without credit left loses the connection too; a trusted proxy's carries the requests of others.
    const error = budget.allowed
      ? unauthorized(code, token)
      : { ...tooManyFailedAttempts(budget, nowMs), closes: !trustedPeer, endsSession: !trustedPeer };
    return { judgement: 'unauthenticated', error, told: rateLimitFields.ofBudget(budget, nowMs), cause };
  };
  const budget = failedAttempts.fail(address, waitedMs);
  return budget instanceof Promise ? budget.then(answer) : answer(budget);
}
