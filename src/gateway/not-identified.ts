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
}

/**
 * 401, or 429 where the address has used up what it may fail; 400 for two Authorization fields; 503 where it cannot be
 * said who calls, which is no failure of the caller's and counts as none (contract section 4).
 * @param waitedMs how long the request has waited for the store before
 */
export function notIdentified(
  { failedAttempts, rateLimitFields, wallMs }: Parts,
  { address }: Origin,
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
  const { code, token } = identified;
  const answer = (budget: Budget): Refusal => {
    const nowMs = wallMs();
    const error = budget.allowed ? unauthorized(code, token) : tooManyFailedAttempts(budget, nowMs);
    return { judgement: 'unauthenticated', error, told: rateLimitFields.ofBudget(budget, nowMs) };
  };
  const budget = failedAttempts.fail(address, waitedMs);
  return budget instanceof Promise ? budget.then(answer) : answer(budget);
}
