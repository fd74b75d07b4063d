import type { KeptRefusal, LastCalls } from '../../model/refusal.ts';
import type { Finding } from './shapes.ts';

/** Maximum refusals that are reported of one request id, which clients may repeat, and of one caller. */
const MAX_OF_ID = 10;
const MAX_OF_CALLER = 50;
/** Maximum of those that are requests during a ban, but for the one that began it: all 50 would soon be, and hide what led to it. */
const MAX_DURING_BANS = 5;

/** Maximum of those that failed. Else a service that fails hides what was refused. */
const MAX_FAILED = 10;
/** The status that is logged where the client left (gateway/exchange.ts), below those of failures. */
const CLIENT_LEFT = 499;

/** What several processes or gateways remember of the same, as one. */
export function joinedFound<R extends KeptRefusal>(all: readonly Finding<R>[]): Finding<R> {
  const calls = all.flatMap((one) => one.calls ?? []);
  const refusals = all.flatMap((one) => one.refusals).sort((a, b) => (a.at < b.at ? 1 : -1));
  if (calls.length === 0) return { refusals: refusals.slice(0, MAX_OF_ID), calls: null };
  return { refusals: reportedOfCaller(refusals), calls: joinedCalls(calls) };
}

/** Which refusals of one caller are reported. */
export function reportedOfCaller<R extends Pick<KeptRefusal, 'judgement' | 'imposedBan' | 'status'>>(
  newestFirst: Iterable<R>,
): R[] {
  const reported: R[] = [];
  let [duringBans, failed] = [0, 0];
  for (const one of newestFirst) {
    if (one.judgement === 'banned' && !one.imposedBan && ++duringBans > MAX_DURING_BANS) continue;
    if (one.judgement === 'admitted' && one.status >= CLIENT_LEFT && ++failed > MAX_FAILED) continue;
    if (reported.push(one) === MAX_OF_CALLER) break;
  }
  return reported;
}

/** The last calls of several callers, or of one caller to several processes, as one. */
export function joinedCalls(all: readonly LastCalls[]): LastCalls {
  const last = latest(all.flatMap((one) => one.last ?? []).map((one) => [one.at, one] as const));
  const admittedAt = latest(all.flatMap(({ admittedAt: at }) => (at === null ? [] : [[at, at] as const])));
  const refusedSince = all.flatMap((one) => sinceOf(one, admittedAt) ?? []).sort()[0] ?? null;
  return { last, admittedAt, refusedSince };
}

/**
 * When the first refusal came to one process that no admitted request has followed anywhere. If its refusals began before another
 * process admitted one, that moment is what is known.
 */
function sinceOf({ last, refusedSince }: LastCalls, admittedAt: string | null): string | null {
  if (refusedSince === null || admittedAt === null || refusedSince > admittedAt) return refusedSince;
  return last !== null && last.at > admittedAt ? admittedAt : null;
}

function latest<T>(all: readonly (readonly [at: string, T])[]): T | null {
  return all.reduce<readonly [string, T] | null>((a, b) => (a === null || b[0] > a[0] ? b : a), null)?.[1] ?? null;
}
