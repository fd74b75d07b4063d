import type { Bound, Exchange, Subject, ToldWindow } from '../exchange.ts';
import type { Notes } from './notes.ts';
import { clock, outcomeOf } from './verdict.ts';

/** How far the gateway's clock, or the moment it last heard from its store, may be from ours. */
export const TOLERANCE_MS = 250;

/** Holds the fields of one answer against each other, the plan and the clock (contract section 4). */
export function judgeFields(subject: Subject, exchange: Exchange, notes: Notes): void {
  // A 5xx is a fault by itself, and may come from a load balancer that knows nothing of limits.
  if (exchange.status === 0 || exchange.status >= 500) return;
  notes.looked('fields');
  for (const [kind, complaint] of complaints(subject, exchange)) {
    notes.fault('fields', subject.name, kind, `${exchange.status} at ${clock(exchange.receivedAtMs)}: ${complaint}.`);
  }
}

function* complaints(subject: Subject, exchange: Exchange): Complaints {
  const { fields, refusal, status } = exchange;
  const { limit, remaining, resetAtS, windows, policy } = fields;
  if (fields.requestId === null) yield ['request id', 'X-Request-Id is missing'];
  if (status === 429 && (fields.retryAfterS ?? 0) < 1) yield ['retry-after', 'Retry-After is missing or below 1'];
  if (limit === null || remaining === null || resetAtS === null) {
    return yield ['x', 'an X-RateLimit field is missing or malformed'];
  }
  if (windows === null || policy === null) {
    return yield ['draft', 'RateLimit or RateLimit-Policy is missing or malformed'];
  }
  if (remaining > limit) yield ['remaining', `${remaining} remain of a limit of ${limit}`];
  yield* faultsOfPolicy(subject, exchange);
  yield* faultsOfWindows(subject, windows);
  if (resetAtS * 1000 < exchange.sentAtMs - TOLERANCE_MS) {
    yield ['past', `X-RateLimit-Reset is ${exchange.sentAtMs / 1000 - resetAtS} s in the past`];
  }
  if (refusal.resetAtS !== null && refusal.resetAtS !== resetAtS) {
    yield ['body', `the body says it resets at ${refusal.resetAtS}, X-RateLimit-Reset ${resetAtS}`];
  }
  yield* faultsOfBinding(subject, exchange, windows);
}

type Complaints = Generator<readonly [kind: string, complaint: string]>;

function* faultsOfPolicy(subject: Subject, { fields }: Exchange): Complaints {
  const told = fields.policy!.map(({ window, limit, lengthS }) => `${window} ${limit}/${lengthS} s`).join(', ');
  const planned = subject.limits.map((it) => `${it.window} ${it.limit}/${it.lengthMs / 1000} s`).join(', ');
  if (told !== planned) yield ['policy', `RateLimit-Policy says ${told}, the plan ${planned}`];
}

function* faultsOfWindows({ limits }: Subject, windows: readonly ToldWindow[]): Complaints {
  for (const { window, remaining, resetInS } of windows) {
    const bound = limits.find((it) => it.window === window);
    if (bound === undefined) yield ['window', `RateLimit tells of a ${window}, which the plan has not`];
    else if (remaining > bound.limit) yield ['r', `${remaining} remain in the ${window}, of ${bound.limit}`];
    // A ban's end is told in place of its window's, and may be further away.
    else if (remaining > 0 && resetInS * 1000 > longestMs(bound))
      yield ['t', `the ${window} is to reset in ${resetInS} s`];
  }
}

/** How far away the reset of a window may be: the oldest slice of a sliding one leaves a length after its end. */
function longestMs({ lengthMs, slices, calendar }: Bound): number {
  if (slices !== undefined) return Math.ceil((lengthMs * (1 + 1 / slices)) / 1000) * 1000;
  return calendar === undefined ? lengthMs : lengthMs + 3_600_000;
}

/** The X- fields describe one window of RateLimit, the one that binds, and say the same of it. */
function* faultsOfBinding(subject: Subject, exchange: Exchange, windows: readonly ToldWindow[]): Complaints {
  const { fields, sentAtMs, receivedAtMs } = exchange;
  const binding = bindingOf(subject, exchange, windows);
  const same = binding.filter(
    ({ window, remaining }) =>
      remaining === fields.remaining &&
      subject.limits.some((bound) => bound.window === window && bound.limit === fields.limit),
  );
  const said = `X-RateLimit says ${fields.remaining} of ${fields.limit}`;
  if (same.length === 0) {
    const right = binding.map(({ window, remaining }) => `${window} with ${remaining} remaining`).join(' or ');
    return yield ['binding', `${said}, RateLimit that what binds is the ${right || 'no window'}`];
  }
  // Both are rounded up from the same moment, which lies between sending and receiving.
  const agrees = same.some(({ resetInS }) => {
    const earliest = Math.ceil((sentAtMs - TOLERANCE_MS) / 1000) + resetInS - 1;
    const latest = Math.ceil((receivedAtMs + TOLERANCE_MS) / 1000) + resetInS;
    return fields.resetAtS! >= earliest && fields.resetAtS! <= latest;
  });
  if (!agrees) {
    const inS = (fields.resetAtS! - receivedAtMs / 1000).toFixed(3);
    yield ['reset', `X-RateLimit-Reset is in ${inS} s, RateLimit says in ${same[0]!.resetInS} s`];
  }
}

/**
 * The windows that may bind: with the fewest requests left, of those that reset last; on a refusal, of those that refuse
 * the ones that reset last. Seconds are coarse, so there may be several.
 */
function bindingOf({ cost }: Subject, exchange: Exchange, windows: readonly ToldWindow[]): readonly ToldWindow[] {
  const outcome = outcomeOf(exchange);
  // Under a ban: the window whose refusal made it, with nothing left. Which one that was only the gateway knows.
  if (outcome === 'banned') return windows.filter(({ remaining }) => remaining === 0);
  const fewest = Math.min(...windows.map(({ remaining }) => remaining));
  const candidates = windows.filter(({ remaining }) =>
    outcome === 'refused' ? remaining < cost : remaining === fewest,
  );
  const last = Math.max(...candidates.map(({ resetInS }) => resetInS));
  return candidates.filter(({ resetInS }) => resetInS === last);
}
