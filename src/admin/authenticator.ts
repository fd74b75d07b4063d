import { hash, timingSafeEqual } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { authorizationOf } from '../identify/bearer.ts';
import type { FailedAttempts } from '../identify/failed-attempts.ts';
import { type AdminResponse, errorResponse } from './response.ts';

/** Wrong tokens that one address may send in a minute. Further ones get 429. */
export const WRONG_TOKENS_PER_MINUTE = 10;
/** How long the response to a wrong token is delayed. */
const DELAY_MS = 250;
/** Responses that are delayed at a time. Further ones are sent at once, so that a flood of wrong tokens does not pile up. */
const MAX_DELAYED = 32;

export interface AdminAuthenticatorOptions {
  /** Null: every request is refused with 403 (contract section 7). */
  readonly token: string | null;
  /** Counts wrong tokens by address, apart from the failed authentications of callers. */
  readonly attempts: FailedAttempts;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/**
 * Admits requests that have the admin token (contract section 7).
 *
 * Attack: an attacker sends wrong tokens from the address of an operator (a shared proxy, a load balancer) in order to lock
 * the operator out. So the right token always passes, and without delay. That also tells an attacker at once when a guess
 * was right, but the settings refuse tokens that are short or repetitive, and guessing any other one takes too long. Wrong
 * tokens are counted, and their responses are delayed.
 */
export class AdminAuthenticator {
  readonly #options: AdminAuthenticatorOptions;
  readonly #digest: Buffer | null;
  #delayed = 0;

  constructor(options: AdminAuthenticatorOptions) {
    this.#options = options;
    this.#digest = options.token === null ? null : digestOf(options.token);
  }

  /** @returns null for a request with the admin token, else the response that refuses it */
  async refusalFor(rawHeaders: readonly string[], address: string): Promise<AdminResponse | null> {
    if (this.#digest === null) {
      return errorResponse('forbidden', 'There is no admin token: set ADMIN_TOKEN to use the admin API.');
    }
    const value = authorizationOf(rawHeaders);
    if (value === null)
      return errorResponse('invalid_request', 'There is more than one Authorization field; send one.');
    const token = value === undefined ? null : tokenOf(value);
    if (token === null) {
      return errorResponse('missing_admin_token', 'Send the admin token as `Authorization: Bearer TOKEN`.', {
        'WWW-Authenticate': 'Bearer realm="tollgate admin"',
      });
    }
    // Comparing digests of equal length hides even the length of the token from an attacker who measures time.
    if (timingSafeEqual(digestOf(token), this.#digest)) return null;
    const { allowed, resetAtMs } = await this.#options.attempts.fail(address);
    if (this.#delayed < MAX_DELAYED) {
      this.#delayed++;
      await delay(DELAY_MS);
      this.#delayed--;
    }
    if (!allowed) return this.#tooMany(resetAtMs);
    return errorResponse('invalid_admin_token', 'This is not the admin token.', {
      'WWW-Authenticate': 'Bearer realm="tollgate admin", error="invalid_token"',
    });
  }

  #tooMany(resetAtMs: number): AdminResponse {
    const seconds = Math.max(1, Math.ceil((resetAtMs - this.#options.nowMs()) / 1000));
    const message = `Too many wrong admin tokens have come. Retry after ${seconds} s.`;
    return errorResponse('too_many_failed_attempts', message, { 'Retry-After': String(seconds) });
  }
}

/** The token behind the scheme. Unlike a bearer token of RFC 6750, an admin token may have any visible character. */
function tokenOf(authorization: string): string | null {
  return /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? null;
}

function digestOf(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
