import { withAllBudgets } from '../admit/allowance.ts';
import { askedUnit } from '../admit/history-report.ts';
import { type ErrorResponse, errorResponse, plainError } from '../annotate/errors.ts';
import type { Head } from '../http1/request-head.ts';
import type { UnreadableIdentity } from '../identify/record-store.ts';
import type { Match } from '../routing/router.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import type { UsageBody } from './own-usage.ts';
import { type Refusal, routeRefusal } from './refusals.ts';

/**
 * Room for `?history&step=day&unit=tokens` and a key in the query (`keys.from`).
 *
 * Attack: thousands of parameters, whose reading took ten times as long as the answer, with a key that has no quota left.
 */
const MAX_USAGE_QUERY = 500;

/**
 * The response to a request for `/usage` (contract section 4): the caller's usage, with `?history` what it used by hour or
 * day, of requests or of a unit; 405 for a method other than GET, 404 if no history is kept, 400 for a unit that its plan
 * lacks and for a longer query than it has use for, or 503 if the store does not answer. Nothing is counted.
 * @param waitedMs how long this request has already waited for the store
 */
export function usageResponse(
  { usage, wallMs }: GatewayDeps,
  match: Match | null,
  head: Head,
  { id, allowance: base }: Caller,
  waitedMs: number,
): UsageBody | Refusal | Promise<UsageBody | Refusal> {
  const found = routeRefusal(match, head, wallMs());
  if (found.kind === 'error') return { judgement: 'usage', error: found.error };
  const allowance = withAllBudgets(base);
  const text = head.target.slice(head.path.length);
  const refused = (error: ErrorResponse) => ({ judgement: 'usage' as const, error });
  if (text.length > MAX_USAGE_QUERY) {
    const message = `The query of /usage is longer than ${MAX_USAGE_QUERY} characters. It has history, step and unit.`;
    return refused(errorResponse('invalid_request', message));
  }
  const query = new URLSearchParams(text);
  if (query.has('history')) {
    const step = query.get('step') ?? 'hour';
    if (step !== 'hour' && step !== 'day') {
      return refused(errorResponse('invalid_request', 'step must be hour or day.'));
    }
    if (allowance.history === undefined && allowance.shadow?.history === undefined) {
      return refused(plainError('no_usage_history'));
    }
    const asked = askedUnit(query.get('unit'), base.units?.names ?? []);
    if ('fault' in asked) return refused(errorResponse('invalid_request', asked.fault));
    return usage.historyOf(id, allowance, step, asked.unit, waitedMs).then(orUndecided);
  }
  const body = usage.of(id, allowance, waitedMs);
  return body instanceof Promise ? body.then(orUndecided) : orUndecided(body);
}

function orUndecided(found: UsageBody | UnreadableIdentity | null): UsageBody | Refusal {
  if (found !== null && !('kind' in found)) return found;
  const judgement = 'undecided';
  if (found === null) return { judgement, error: plainError('store_unavailable') };
  return { judgement, error: plainError('internal_error'), cause: found.cause };
}
