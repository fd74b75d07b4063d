import type { Allowance } from '../admit/allowance.ts';
import type { Banned, Refused } from '../admit/verdict.ts';
import { responseLinesOf } from '../http1/fields.ts';
import type { ResponseLines } from '../http1/response-head.ts';
import { type ErrorResponse, refusal } from './errors.ts';
import { type RateLimitFields, resetSecond, retryAfterSeconds, secondsUntil } from './rate-limit.ts';

/** The response to a refused request, without what differs from request to request. */
export interface RefusalResponse {
  readonly error: ErrorResponse;
  readonly bodyBytes: number;
  /** Its fields, without X-Request-Id, as lines. */
  readonly lines: ResponseLines;
}

interface Made {
  /** The last that got this response: those of a millisecond are the same object (AccountCache). */
  verdict: Refused | Banned;
  readonly response: RefusalResponse;
}

/** Policies choose costs of their own. */
const MAX_COSTS = 16;

/**
 * Keeps the last response to a refusal, and repeats it while a verdict says the same: its times are in whole seconds, so a caller that
 * keeps sending gets one response for up to a second. Measured with a banned key: a quarter less memory for each request.
 */
export class RefusalLines {
  readonly #rateLimitFields: RateLimitFields;
  /** By allowance, and by the cost of the request. */
  readonly #last = new WeakMap<Allowance, Map<number, Made>>();

  constructor(rateLimitFields: RateLimitFields) {
    this.#rateLimitFields = rateLimitFields;
  }

  of(verdict: Refused | Banned): RefusalResponse {
    let ofCosts = this.#last.get(verdict.allowance);
    const last = ofCosts?.get(verdict.cost);
    if (last !== undefined && saysTheSame(last.verdict, verdict)) {
      last.verdict = verdict;
      return last.response;
    }
    if (ofCosts === undefined || ofCosts.size === MAX_COSTS) {
      ofCosts = new Map();
      this.#last.set(verdict.allowance, ofCosts);
    }
    const response = this.#responseTo(verdict);
    ofCosts.set(verdict.cost, { verdict, response });
    return response;
  }

  #responseTo(verdict: Refused | Banned): RefusalResponse {
    const error = refusal(verdict);
    const bodyBytes = Buffer.byteLength(error.body);
    const own = [...error.fields, 'Content-Type', 'application/json', 'Content-Length', String(bodyBytes)];
    const text = this.#rateLimitFields.linesOfVerdict(verdict) + responseLinesOf(own);
    return { error, bodyBytes, lines: { text, hasDate: false, hasLength: true } };
  }
}

/** Whether the responses to two verdicts of one allowance and cost are the same: `refusal` and `linesOfVerdict` use nothing else. */
function saysTheSame(one: Refused | Banned, other: Refused | Banned): boolean {
  if (one === other) return true;
  if (one.inFlight !== null || other.inFlight !== null) return false;
  if (!isSameRefusal(one, other) || !isSameWindow(one, one.binding, other, other.binding)) return false;
  for (let i = 0; i < one.windows.length; i++) {
    if (!isSameWindow(one, one.windows[i]!, other, other.windows[i]!)) return false;
  }
  return true;
}

function isSameRefusal(one: Refused | Banned, other: Refused | Banned): boolean {
  if (retryIn(one) !== retryIn(other)) return false;
  if (one.kind === 'refused' || other.kind === 'refused') return one.kind === other.kind;
  return (
    one.number === other.number && one.scope === other.scope && resetSecond(one.untilMs) === resetSecond(other.untilMs)
  );
}

function retryIn({ retryAtMs, nowMs }: Refused | Banned): number | null {
  return retryAtMs === null ? null : retryAfterSeconds(retryAtMs, nowMs);
}

type Windows = Refused['windows'];

function isSameWindow(
  { nowMs }: Refused | Banned,
  a: Windows[number],
  other: Refused | Banned,
  b: Windows[number],
): boolean {
  if (a.name !== b.name || a.limit !== b.limit || a.remaining !== b.remaining || a.needed !== b.needed) return false;
  if (resetSecond(a.resetAtMs) !== resetSecond(b.resetAtMs)) return false;
  return secondsUntil(a.resetAtMs, nowMs) === secondsUntil(b.resetAtMs, other.nowMs);
}
