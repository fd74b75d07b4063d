import type { Bound, Exchange, Subject } from '../exchange.ts';
import { describedBound, isCounted, outcomeOf } from './verdict.ts';

/** One window of one subject, put together from the answers that told of it. */
export interface SeenWindow {
  readonly bound: Bound;
  /** Unix seconds, rounded up, which is how a window is told from the next. */
  readonly endsAtS: number;
  /** What was counted in it, and what remained after each. */
  readonly counted: { readonly exchange: Exchange; readonly remaining: number }[];
  /** What it refused. */
  readonly refused: Exchange[];
  /** True where further requests may have been counted in it whose answers did not say in which window. */
  clouded: boolean;
}

/** A window of a minute or more may be told by any answer, to the second or two. */
const LONG_MS = 60_000;
const SLACK_S = 1;

/**
 * Sorts answers into windows that are not sliding. X-RateLimit-Reset names a window without doubt: the next one ends at least its length
 * later, which is at least one second. Of windows that the X- fields do not describe only `RateLimit` tells, in seconds
 * from a moment that is known to a second or so: enough for long windows and not for those of a second.
 */
export function windowsOf(subject: Subject, exchanges: readonly Exchange[]): SeenWindow[] {
  return subject.limits
    .filter(({ limit, slices }) => limit >= subject.cost && slices === undefined)
    .flatMap((bound) => windowsOfBound(subject, bound, exchanges));
}

function windowsOfBound(subject: Subject, bound: Bound, exchanges: readonly Exchange[]): SeenWindow[] {
  const windows: SeenWindow[] = [];
  const hidden: Exchange[] = [];
  const at = (endsAtS: number) => {
    const apartS = bound.lengthMs >= LONG_MS ? bound.lengthMs / 4_000 : 0.5;
    const known = windows.find((window) => Math.abs(window.endsAtS - endsAtS) < apartS);
    if (known !== undefined) return known;
    const fresh: SeenWindow = { bound, endsAtS, counted: [], refused: [], clouded: false };
    windows.push(fresh);
    return fresh;
  };
  for (const exchange of exchanges) {
    const counted = isCounted(subject, exchange);
    if (!counted && outcomeOf(exchange) !== 'refused') continue;
    const told = toldOf(subject, bound, exchange);
    if (told === null) {
      if (counted) hidden.push(exchange);
    } else if (counted) at(told.endsAtS).counted.push({ exchange, remaining: told.remaining });
    else if (told.described) at(told.endsAtS).refused.push(exchange);
  }
  for (const window of windows) window.clouded = hidden.some((exchange) => mayFallInto(window, exchange));
  return windows;
}

function toldOf(subject: Subject, bound: Bound, exchange: Exchange) {
  const { fields, receivedAtMs } = exchange;
  if (describedBound(subject, exchange) === bound && fields.resetAtS !== null) {
    return { endsAtS: fields.resetAtS, remaining: fields.remaining!, described: true };
  }
  const told = fields.windows?.find(({ window }) => window === bound.window);
  if (told === undefined || bound.lengthMs < LONG_MS) return null;
  return { endsAtS: Math.ceil(receivedAtMs / 1000) + told.resetInS, remaining: told.remaining, described: false };
}

function mayFallInto({ bound, endsAtS }: SeenWindow, { sentAtMs, receivedAtMs }: Exchange): boolean {
  const opensAtS = endsAtS - 1 - bound.lengthMs / 1000 - SLACK_S;
  return receivedAtMs / 1000 > opensAtS && sentAtMs / 1000 < endsAtS + SLACK_S;
}
