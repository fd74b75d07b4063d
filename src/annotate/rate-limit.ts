import type { Allowance } from '../admit/allowance.ts';
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

  #policyOf({ allowance, windows }: Verdict): string {
    const { limits } = allowance;
    for (let i = 0; i < windows.length; i++) {
      // An operator has topped up a window.
      if (windows[i]!.limit !== limits[i]!.limit) return policyText(windows, allowance);
    }
    const known = this.#policies.get(allowance);
    if (known !== undefined) return known;
    const policy = policyText(limits, allowance);
    this.#policies.set(allowance, policy);
    return policy;
  }
}

function policyText(
  limits: readonly Pick<WindowLimit, 'window' | 'name' | 'lengthMs' | 'limit'>[],
  allowance: Allowance,
): string {
  const units = new Map(allowance.budgets.flatMap(({ unit, limits: own }) => own.map(({ name }) => [name, unit])));
  const unitText = (unit: string | undefined) => (unit === undefined ? '' : `;qu="${unit}"`);
  return [
    ...limits.map(({ window, name = window, lengthMs, limit }) => {
      return `"${name}";q=${limit};w=${lengthMs / 1000}${unitText(units.get(name))}`;
    }),
    ...unlimitedIn(allowance).map(({ name, lengthMs, unit }) => {
      return `"${name}";q=${UNBOUNDED};w=${lengthMs / 1000}${unitText(unit)}`;
    }),
    ...boundsInFlight(allowance).map(({ name, limit }) => `"${name}";q=${limit};qu="concurrent-requests"`),
  ].join(', ');
}

/** The windows without a limit of all budgets. */
function unlimitedIn({ budgets }: Allowance) {
  return budgets.flatMap(({ prefix, unlimited, unit }) =>
    unlimited.map(({ window, lengthMs }) => ({ name: `${prefix}${window}`, lengthMs, unit })),
  );
}

/** The limits of requests in flight, each with the index of its budget. */
function boundsInFlight({ budgets }: Allowance) {
  return budgets.flatMap(({ prefix, inFlight: limit }, budget) => {
    return limit === undefined ? [] : [{ name: `${prefix}in-flight`, limit, budget }];
  });
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
export function resetSecond(resetAtMs: number): number {
  return Math.ceil(resetAtMs / 1000);
}

function stateOf(verdict: Verdict): string {
  const { windows, allowance, nowMs, kind, binding } = verdict;
  let state = '';
  for (const window of windows) {
    const { name, remaining, resetAtMs } = kind !== 'admitted' && window.name === binding?.name ? binding : window;
    state += `${state === '' ? '' : ', '}"${name}";r=${remaining};t=${secondsUntil(resetAtMs, nowMs)}`;
  }
  return allowance.boundsInFlight || hasUnlimited(allowance) ? stateWithMore(state, verdict) : state;
}

function hasUnlimited({ budgets }: Allowance): boolean {
  for (let i = 0; i < budgets.length; i++) if (budgets[i]!.unlimited.length > 0) return true;
  return false;
}

/** @param state of the windows that are counted */
function stateWithMore(state: string, { allowance, inFlight }: Verdict): string {
  const rest = unlimitedIn(allowance).map(({ name }) => `"${name}";r=${UNBOUNDED};t=0`);
  for (const { name, limit, budget } of boundsInFlight(allowance)) {
    rest.push(`"${name}";r=${Math.max(limit - (inFlight?.[budget] ?? 0), 0)}`);
  }
  return [...(state === '' ? [] : [state]), ...rest].join(', ');
}

export function secondsUntil(atMs: number, nowMs: number): number {
  return Math.max(Math.ceil((atMs - nowMs) / 1000), 0);
}
