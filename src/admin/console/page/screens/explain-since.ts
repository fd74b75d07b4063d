import { countText, millisecondsOf, utcText } from '../kit/format.tsx';
import { limitText } from '../kit/limit-windows.tsx';
import type { Refusal, Usage } from '../types.ts';

// What would refuse a refused request now, and what to write to the customer about it.

/** What would refuse the same request now: the ban, and windows by their names. */
export function refusing({ ban, windows }: Usage, { cost, limits }: Refusal): readonly Refusing[] {
  // Only the windows that it charges can refuse it.
  const needs = new Map(limits.map(({ window, needed = cost }) => [window as string, needed]));
  const spent = Object.entries(windows).filter(
    ([name, { remaining }]) => remaining !== 'unlimited' && remaining < (needs.get(name) ?? 0),
  );
  return [
    ...(ban === null ? [] : [{ what: 'ban', until: ban.until }]),
    ...spent.map(([what, { resetAt }]) => ({ what, until: resetAt })),
  ];
}

interface Refusing {
  readonly what: string;
  /** Unix seconds. */
  readonly until: number;
}

/** Whether what refused a request then still refuses it. A later ban is another one. */
export function isInForce(now: readonly Refusing[], { code, window, ban }: Refusal): boolean {
  if (code !== 'api_key_banned') return now.some(({ what }) => what === window);
  const present = now.find(({ what }) => what === 'ban');
  return present !== undefined && ban !== null && Math.abs(present.until - wholeSecond(ban.until)!) <= SAME_END_S;
}

/** The API reports the end of a ban in seconds in one place and in milliseconds in another: the two differ by at most this, in seconds. */
const SAME_END_S = 2;

/** The moment from which on nothing of this refuses any more, in Unix seconds. */
function endOf(now: readonly Refusing[]): number {
  return Math.max(...now.map(({ until }) => until));
}

/** In Unix seconds, rounded up so that it is not too early. */
export function wholeSecond(at: string | null): number | null {
  return at === null ? null : Math.ceil(millisecondsOf(at) / 1_000);
}

/**
 * Two sentences for the customer, without internals; null if the refusal was for no limit.
 * @param usage what the caller has used since; null if that is unknown, or waiting does not help
 * @param ended why the key is refused now whatever its limits are; null if it is not
 */
export function answerOf(
  refusal: Refusal,
  { usage, ended }: { readonly usage: Usage | null; readonly ended: string | null },
): string | null {
  const { requestId, method, path, at, code, window, limits, retryAt, status, imposedBan } = refusal;
  const standing = limits.find((one) => one.window === window);
  if (window === null || standing === undefined || !(code === 'rate_limit_exceeded' || code === 'api_key_banned'))
    return null;
  const limit = limitText(standing.limit, window, standing.unit);
  const why =
    code === 'rate_limit_exceeded'
      ? usedUp(standing)
      : `${imposedBan ? 'it was one of too many requests' : 'there had been too many requests'} beyond your limit of ${limit}, after which all requests are blocked for a while`;
  const then =
    ended !== null
      ? `Requests are refused now, because ${ended}.`
      : usage !== null
        ? sinceForCustomer(usage, refusal)
        : retryAt === null
          ? 'Waiting does not help: please ask us for a higher limit.'
          : `Requests succeed again from ${utcText(wholeSecond(retryAt)!)} on, if you wait until then and stay below the limit.`;
  const what = path === null ? '' : ` (${method} ${path})`;
  return `Your request ${requestId}${what} at ${utcText(at)} got the response ${status} because ${why}. ${then}`;
}

function sinceForCustomer(usage: Usage, refusal: Refusal): string {
  const now = refusing(usage, refusal);
  if (now.length === 0)
    return `That is over: requests succeed again, as long as you stay below ${limitNow(usage, refusal)}.`;
  const over = isInForce(now, refusal) ? 'Requests' : 'That is over, but something else refuses requests now. They';
  return `${over} succeed again from ${utcText(endOf(now))} on, if you wait until then and stay below the limit.`;
}

/** The limit that refused, as it is with its top-up. */
function limitNow({ windows }: Usage, { window }: Refusal): string {
  const { limit, topUp, unit } = windows[window ?? ''] ?? {};
  if (limit === undefined || limit === 'unlimited' || topUp == null) return 'the limit';
  return `your limit, which is ${limitText(limit, window!, unit)} until ${utcText(topUp.until)}`;
}

function usedUp({ window, unit, limit, needed, remaining }: Refusal['limits'][number]): string {
  const of = limitText(limit, window, unit);
  if (unit === undefined || remaining === 0) return `you had used all ${of}`;
  return `it takes ${countText(needed ?? 1)} ${unit} in advance and you had ${countText(remaining)} of ${of} left`;
}
