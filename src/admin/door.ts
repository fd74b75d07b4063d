import { hash, timingSafeEqual } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { authorizationOf } from '../identify/bearer.ts';
import type { FailedAttempts } from '../identify/failed-attempts.ts';
import { type Answer, refuse } from './answer.ts';

/** Wrong tokens that one address may send in a minute. Those beyond are answered that there were too many. */
export const WRONG_TOKENS_PER_MINUTE = 10;
/** How long a wrong token waits for its answer. */
const SLOWED_MS = 250;
/** Requests that wait so at a time. A flood of wrong tokens must not pile up here, so those beyond are answered at once. */
const MAX_SLOWED = 32;

export interface DoorOptions {
  /** Null: nobody comes in (contract section 7). */
  readonly token: string | null;
  /** Of this listener alone, with a limit of `WRONG_TOKENS_PER_MINUTE`. */
  readonly attempts: FailedAttempts;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/**
 * Lets in requests that have the admin token (contract section 7).
 *
 * Attack: wrong tokens, sent from the address of an operator (a shared proxy, a load balancer), in order to lock the
 * operator out. So the right token always passes, at once. That tells a guesser which guess was right; the settings refuse
 * tokens that are short or monotonous, and guessing any other takes longer than anybody has. Wrong ones are slowed down
 * and counted.
 */
export class Door {
  readonly #options: DoorOptions;
  readonly #digest: Buffer | null;
  #slowed = 0;

  constructor(options: DoorOptions) {
    this.#options = options;
    this.#digest = options.token === null ? null : digestOf(options.token);
  }

  /** @returns null for who may come in, else what to tell */
  async refusalFor(rawHeaders: readonly string[], address: string): Promise<Answer | null> {
    if (this.#digest === null) {
      return refuse('forbidden', 'There is no admin token: set ADMIN_TOKEN to use the admin API.');
    }
    const value = authorizationOf(rawHeaders);
    if (value === null) return refuse('invalid_request', 'There is more than one Authorization field; send one.');
    const token = value === undefined ? null : tokenOf(value);
    if (token === null) {
      return refuse('missing_admin_token', 'Send the admin token as `Authorization: Bearer TOKEN`.', {
        'WWW-Authenticate': 'Bearer realm="tollgate admin"',
      });
    }
    // Of digests, so that not even the length shows in the time that it takes.
    if (timingSafeEqual(digestOf(token), this.#digest)) return null;
    const { allowed, resetAtMs } = await this.#options.attempts.fail(address);
    if (this.#slowed < MAX_SLOWED) {
      this.#slowed++;
      await delay(SLOWED_MS);
      this.#slowed--;
    }
    if (!allowed) return this.#tooMany(resetAtMs);
    return refuse('invalid_admin_token', 'This is not the admin token.', {
      'WWW-Authenticate': 'Bearer realm="tollgate admin", error="invalid_token"',
    });
  }

  #tooMany(resetAtMs: number): Answer {
    const seconds = Math.max(1, Math.ceil((resetAtMs - this.#options.nowMs()) / 1000));
    const message = `Too many wrong admin tokens have come. Retry after ${seconds} s.`;
    return refuse('too_many_failed_attempts', message, { 'Retry-After': String(seconds) });
  }
}

/** What follows the scheme: an admin token may have characters that a bearer token of RFC 6750 has not. */
function tokenOf(authorization: string): string | null {
  return /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? null;
}

function digestOf(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
