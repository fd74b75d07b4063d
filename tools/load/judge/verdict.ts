import type { Outcome } from '../../kit/report/outcomes.ts';
import type { Bound, Exchange, Subject } from '../exchange.ts';

/** Statuses that are given without counting (contract section 3); 429 and 401 are told apart before. */
const UNCOUNTED = [400, 408, 413, 414, 417, 431, 501, 505, 508];

/** What became of one request. */
export function outcomeOf({ status, refusal: { code } }: Exchange): Outcome {
  if (status === 0) return 'lost';
  if (status === 401) return 'unauthenticated';
  if (status === 429) return code === 'api_key_banned' ? 'banned' : 'refused';
  return UNCOUNTED.includes(status) || code === 'store_unavailable' ? 'uncounted' : 'admitted';
}

/** Whether a request took something from the counters of its subject. A failed authentication is what an address spends. */
export function isCounted({ kind }: Subject, exchange: Exchange): boolean {
  return outcomeOf(exchange) === (kind === 'key' ? 'admitted' : 'unauthenticated');
}

/**
 * The limit that the X- fields describe. Null where they describe none of the subject's, or could be any of several.
 */
export function describedBound({ limits }: Subject, { fields }: Exchange): Bound | null {
  const candidates = limits.filter(
    ({ window, limit }) =>
      limit === fields.limit &&
      (fields.windows === null ||
        fields.windows.some((told) => told.window === window && told.remaining === fields.remaining)),
  );
  return candidates.length === 1 ? candidates[0]! : null;
}

/** A moment in the words of a finding. */
export function clock(atMs: number): string {
  return new Date(atMs).toISOString().slice(11, 23);
}
