import type { BanRule } from '../../src/model/plan.ts';

/** One limit that a caller is held to. `window` is the name that RateLimit and RateLimit-Policy give it. */
export interface Bound {
  readonly window: string;
  readonly lengthMs: number;
  readonly limit: number;
  /** Slices per length of a sliding window. */
  readonly slices?: number;
  /** There for a calendar window. Its periods may be an hour longer than `lengthMs`. */
  readonly calendar?: object;
}

/**
 * From this limit on a busy gateway may borrow: a sixteenth of what is left, at least four. An answer then counts what others have
 * borrowed as used, and may say that less remains.
 */
export const LENT_FROM = 64;

/** Whoever has counters of its own at the gateway: an API key, or the address of callers without a good one. */
export interface Subject {
  /** What reports call it, such as `abusers 2`; never a secret. */
  readonly name: string;
  readonly plan: string;
  readonly kind: 'key' | 'address';
  /** Shortest first. */
  readonly limits: readonly Bound[];
  /** Null: bans are off. */
  readonly bans: BanRule | null;
  /** Statuses that may come of its requests. */
  readonly expected: readonly number[];
  /** What each of its requests counts for. */
  readonly cost: number;
  /** It waits for Retry-After and has fewer requests in flight than make a ban, so it must never be banned. */
  readonly waits: boolean;
  /** Nothing was ever counted for it before, so what is seen is all there is. */
  readonly fresh: boolean;
}

/** One window as `RateLimit` tells it. */
export interface ToldWindow {
  readonly window: string;
  readonly remaining: number;
  readonly resetInS: number;
}

/** One window as `RateLimit-Policy` tells it. */
export interface ToldPolicy {
  readonly window: string;
  readonly limit: number;
  readonly lengthS: number;
}

/** The fields that the judge reads. Null is a field that is missing, repeated or malformed. */
export interface ToldFields {
  readonly limit: number | null;
  readonly remaining: number | null;
  /** Unix seconds. */
  readonly resetAtS: number | null;
  readonly windows: readonly ToldWindow[] | null;
  readonly policy: readonly ToldPolicy[] | null;
  readonly retryAfterS: number | null;
  readonly requestId: string | null;
}

/** What the body of a refusal says beyond its fields. Null where it does not. */
export interface Refusal {
  readonly code: string | null;
  readonly resetAtS: number | null;
  readonly ban: { readonly number: number; readonly untilS: number } | null;
}

/** One request and what came of it. */
export interface Exchange {
  /** The client of the scenario that made it. */
  readonly client: string;
  /** Unix milliseconds. The gateway decided between the two. */
  readonly sentAtMs: number;
  readonly receivedAtMs: number;
  /** From the moment at which it was due, not from when it got its turn: a stall is not hidden by what it delayed. */
  readonly latencyMs: number;
  /** 0 where no whole answer came; `fault` then says why. */
  readonly status: number;
  readonly fields: ToldFields;
  readonly refusal: Refusal;
  readonly fault: string | null;
}

export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

export const NOTHING_TOLD: ToldFields = Object.freeze({
  limit: null,
  remaining: null,
  resetAtS: null,
  windows: null,
  policy: null,
  retryAfterS: null,
  requestId: null,
});

export const NO_REFUSAL: Refusal = Object.freeze({ code: null, resetAtS: null, ban: null });

/** @param headers as undici gives them: lower-case names, an array where a field came more than once */
export function toldFields(headers: Headers): ToldFields {
  const text = (name: string) => {
    const value = headers[name];
    return typeof value === 'string' ? value : null;
  };
  return {
    limit: whole(text('x-ratelimit-limit')),
    remaining: whole(text('x-ratelimit-remaining')),
    resetAtS: whole(text('x-ratelimit-reset')),
    windows: list(text('ratelimit'), /^"([a-z-]+)";r=(\d+);t=(\d+)$/, (window, remaining, resetInS) => ({
      window,
      remaining,
      resetInS,
    })),
    policy: list(text('ratelimit-policy'), /^"([a-z-]+)";q=(\d+);w=(\d+)$/, (window, limit, lengthS) => ({
      window,
      limit,
      lengthS,
    })),
    retryAfterS: whole(text('retry-after')),
    requestId: text('x-request-id'),
  };
}

/** Reads the interface's Error; what is none says nothing. */
export function refusalOf(body: string): Refusal {
  try {
    const { code, details } = JSON.parse(body) as Record<string, unknown>;
    const told = (typeof details === 'object' && details !== null ? details : {}) as Record<string, unknown>;
    const { resetAt, ban, bannedUntil } = told;
    return {
      code: typeof code === 'string' ? code : null,
      resetAtS: typeof resetAt === 'number' ? resetAt : null,
      ban: typeof ban === 'number' && typeof bannedUntil === 'number' ? { number: ban, untilS: bannedUntil } : null,
    };
  } catch {
    return NO_REFUSAL;
  }
}

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function list<T>(
  text: string | null,
  item: RegExp,
  read: (window: string, first: number, second: number) => T,
): T[] | null {
  if (text === null) return null;
  const items: T[] = [];
  for (const part of text.split(', ')) {
    const match = item.exec(part);
    if (match === null) return null;
    items.push(read(match[1]!, Number(match[2]), Number(match[3])));
  }
  return items;
}
