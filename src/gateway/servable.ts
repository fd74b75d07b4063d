import { brownoutEndMs } from '../annotate/brownout.ts';
import { isPastSunset } from '../annotate/deprecation.ts';
import { type ErrorAnswer, endpointAway, endpointRemoved, errorAnswer } from '../annotate/error.ts';
import type { Head } from '../listen/head.ts';
import type { Deprecation, Match } from './route.ts';

/** Longest piece of a path that is repeated in an answer. */
const SHOWN_PATH = 200;

/**
 * What is left to find wrong with an admitted request: no route, another method, nobody left to ask, a route that is gone.
 * @param nowMs Unix milliseconds
 */
export function servable(
  match: Match | null,
  head: Head,
  nowMs: number,
): { readonly kind: 'match'; readonly match: Match } | { readonly kind: 'error'; readonly error: ErrorAnswer } {
  if (match === null) {
    const message = `There is no route for ${head.path.slice(0, SHOWN_PATH)}.`;
    return { kind: 'error', error: errorAnswer('route_not_found', message) };
  }
  const { allow, route } = match;
  if (!route.methods.includes(head.method)) {
    const error = errorAnswer('method_not_allowed', `This route allows ${allow}.`, { fields: ['Allow', allow] });
    return { kind: 'error', error };
  }
  if (head.endsHere) {
    const others = route.methods.filter((method) => method !== head.method).join(', ');
    const message = 'Max-Forwards is 0, so this gateway has to answer, and it has no OPTIONS of its own.';
    return { kind: 'error', error: errorAnswer('method_not_allowed', message, { fields: ['Allow', others] }) };
  }
  const gone = route.deprecated === null ? null : goneAt(route.deprecated, nowMs);
  return gone === null ? { kind: 'match', match } : { kind: 'error', error: gone };
}

/** Null where a deprecated route still serves. One whose brownout lasts until its sunset does not come back. */
function goneAt(deprecation: Deprecation, nowMs: number): ErrorAnswer | null {
  const { brownouts, successor, sunsetMs } = deprecation;
  if (isPastSunset(deprecation, nowMs)) return endpointRemoved(successor);
  const untilMs = brownoutEndMs(brownouts, nowMs);
  if (untilMs === null) return null;
  return sunsetMs !== null && untilMs >= sunsetMs
    ? endpointRemoved(successor)
    : endpointAway(successor, untilMs, nowMs);
}
