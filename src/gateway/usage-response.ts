import { plainError } from '../annotate/errors.ts';
import type { Head } from '../http1/request-head.ts';
import type { Match } from '../routing/router.ts';
import type { Caller } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import { type Refusal, routeRefusal } from './refusals.ts';
import type { UsageBody } from './usage.ts';

/**
 * The response to a request for `/usage` (contract section 4): the caller's usage, 405 for a method other than GET, or
 * 503 if the store does not answer. Nothing is counted.
 * @param waitedMs how long this request has already waited for the store
 */
export function usageResponse(
  { usage, wallMs }: GatewayDeps,
  match: Match | null,
  head: Head,
  { id, allowance }: Caller,
  waitedMs: number,
): UsageBody | Refusal | Promise<UsageBody | Refusal> {
  const found = routeRefusal(match, head, wallMs());
  if (found.kind === 'error') return { judgement: 'usage', error: found.error, limitFields: null };
  const body = usage.of(id, allowance, waitedMs);
  return body instanceof Promise ? body.then(orUndecided) : orUndecided(body);
}

function orUndecided(body: UsageBody | null): UsageBody | Refusal {
  return body ?? { judgement: 'undecided', error: plainError('store_unavailable'), limitFields: null };
}
