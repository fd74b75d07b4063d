import { plainError } from '../annotate/error.ts';
import type { Head } from '../listen/head.ts';
import type { Caller } from './caller.ts';
import type { Refusal } from './not-identified.ts';
import type { Parts } from './parts.ts';
import type { Match } from './route.ts';
import { servable } from './servable.ts';
import type { ToldUsage } from './usage.ts';

/**
 * What `GET /usage` is answered (contract section 4): where the caller stands, or 405 for another method, or 503 where the
 * store does not answer. Nothing is counted.
 * @param waitedMs how long this request has waited for the store before
 */
export function tellUsage(
  { usage, wallMs }: Parts,
  match: Match | null,
  head: Head,
  { id, allowance }: Caller,
  waitedMs: number,
): ToldUsage | Refusal | Promise<ToldUsage | Refusal> {
  const found = servable(match, head, wallMs());
  if (found.kind === 'error') return { judgement: 'usage', error: found.error, told: null };
  const told = usage.of(id, allowance, waitedMs);
  return told instanceof Promise ? told.then(orUndecided) : orUndecided(told);
}

function orUndecided(told: ToldUsage | null): ToldUsage | Refusal {
  return told ?? { judgement: 'undecided', error: plainError('store_unavailable'), told: null };
}
