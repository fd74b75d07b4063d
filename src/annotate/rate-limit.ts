import type { Allowance } from '../admit/plan.ts';
import type { Verdict } from '../admit/verdict.ts';
import type { WindowLimit } from '../admit/windows.ts';
import { MAX_INTEGER } from '../http1/fields.ts';

/** The limit that is reported for unlimited windows. */
const UNBOUNDED = MAX_INTEGER;

/** The failed-authentication budget of a client address. */
export interface AddressBudget {
  readonly limit: number;
  readonly remaining: number;
  /** Unix milliseconds. */
  readonly resetAtMs: number;
}

/**
 * The rate-limit fields of answers (contract section 4): the X- fields for the binding window, the fields of
 * draft-ietf-httpapi-ratelimit-headers for all windows.
 */
export class RateLimitFields {
  readonly #draft: boolean;
  readonly #policies = new WeakMap<Allowance, string>();

  /** @param draft false leaves RateLimit and RateLimit-Policy out */
  constructor(draft: boolean) {
    this.#draft = draft;
  }

  /** @returns names and values in turn */
  ofVerdict(verdict: Verdict): string[] {
    const { binding, nowMs } = verdict;
    const fields =
      binding === null
        ? xFields(UNBOUNDED, UNBOUNDED, nowMs)
        : xFields(binding.limit, binding.remaining, binding.resetAtMs);
    if (!this.#draft) return fields;
    const policy = this.#policyOf(verdict);
    if (policy !== '') fields.push('RateLimit-Policy', policy, 'RateLimit', stateOf(verdict));
    return fields;
  }

  /** The same as text, each line with its CRLF. For the fast path: one template costs half as much as a list of fields. */
  linesOfVerdict(verdict: Verdict): string {
    const { binding, nowMs } = verdict;
    const { limit, remaining, resetAtMs } = binding ?? { limit: UNBOUNDED, remaining: UNBOUNDED, resetAtMs: nowMs };
    const lines =
      `X-RateLimit-Limit: ${limit}\r\nX-RateLimit-Remaining: ${remaining}\r\n` +
      `X-RateLimit-Reset: ${resetSecond(resetAtMs)}\r\n`;
    const policy = this.#draft ? this.#policyOf(verdict) : '';
    return policy === '' ? lines : `${lines}RateLimit-Policy: ${policy}\r\nRateLimit: ${stateOf(verdict)}\r\n`;
  }

  /** For a request without a known caller: the fields for the failed-authentication budget of its address. */
  ofBudget(budget: AddressBudget, nowMs: number): string[] {
    const { limit, remaining, resetAtMs } = budget;
    const fields = xFields(limit, remaining, resetAtMs);
    if (this.#draft) {
      const seconds = secondsUntil(resetAtMs, nowMs);
      fields.push('RateLimit-Policy', `"failed-authentication";q=${limit};w=60`);
      fields.push('RateLimit', `"failed-authentication";r=${remaining};t=${seconds}`);
    }
    return fields;
  }

  #policyOf({ allowance, standings }: Verdict): string {
    for (let i = 0; i < standings.length; i++) {
      // An operator has topped up a window.
      if (standings[i]!.limit !== allowance.limits[i]!.limit) return policyText(standings, allowance);
    }
    const known = this.#policies.get(allowance);
    if (known !== undefined) return known;
    const policy = policyText(allowance.limits, allowance);
    this.#policies.set(allowance, policy);
    return policy;
  }
}

function policyText(
  limits: readonly Pick<WindowLimit, 'window' | 'lengthMs' | 'limit'>[],
  { unlimited }: Allowance,
): string {
  return [
    ...limits.map(({ window, lengthMs, limit }) => `"${window}";q=${limit};w=${lengthMs / 1000}`),
    ...unlimited.map(({ window, lengthMs }) => `"${window}";q=${UNBOUNDED};w=${lengthMs / 1000}`),
  ].join(', ');
}

/** The value of Retry-After (RFC 9110 section 10.2.3): whole seconds, rounded up, at least 1, so that it is always enough. */
export function retryAfterSeconds(untilMs: number, nowMs: number): number {
  return Math.max(Math.ceil((untilMs - nowMs) / 1000), 1);
}

function xFields(limit: number, remaining: number, resetAtMs: number): string[] {
  return [
    'X-RateLimit-Limit',
    String(limit),
    'X-RateLimit-Remaining',
    String(remaining),
    'X-RateLimit-Reset',
    String(resetSecond(resetAtMs)),
  ];
}

/** Unix seconds, rounded up, so that the window has ended by then. */
function resetSecond(resetAtMs: number): number {
  return Math.ceil(resetAtMs / 1000);
}

function stateOf({ standings, allowance, nowMs, kind, binding }: Verdict): string {
  let state = '';
  for (const standing of standings) {
    const { window, remaining, resetAtMs } =
      kind === 'banned' && standing.window === binding.window ? binding : standing;
    state += `${state === '' ? '' : ', '}"${window}";r=${remaining};t=${secondsUntil(resetAtMs, nowMs)}`;
  }
  for (const { window } of allowance.unlimited) {
    state += `${state === '' ? '' : ', '}"${window}";r=${UNBOUNDED};t=0`;
  }
  return state;
}

function secondsUntil(atMs: number, nowMs: number): number {
  return Math.max(Math.ceil((atMs - nowMs) / 1000), 0);
}
