import { hash, timingSafeEqual } from 'node:crypto';
import { authorizationOf } from '../identify/bearer.ts';
import type { FailedAttempts } from '../identify/failed-attempts.ts';
import { type Answer, refuse } from './answer.ts';
import { OneByOne } from './one-by-one.ts';

/** Wrong tokens that one address may present in a minute. */
export const WRONG_TOKENS_PER_MINUTE = 10;

export interface DoorOptions {
  /** Null: nobody comes in (contract section 7). */
  readonly token: string | null;
  /** Of this listener alone, with a limit of `WRONG_TOKENS_PER_MINUTE`. */
  readonly attempts: FailedAttempts;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/**
 * Lets in who has the admin token (contract section 7). An operator chooses that token, so it may be one that can be
 * guessed: an address that has presented too many wrong ones is not listened to until its minute is over, a right one
 * included, because a guesser would otherwise see which guess was right.
 */
export class Door {
  readonly #options: DoorOptions;
  readonly #digest: Buffer | null;
  readonly #judgements = new OneByOne();

  constructor(options: DoorOptions) {
    this.#options = options;
    this.#digest = options.token === null ? null : digestOf(options.token);
  }

  /**
   * One after the other. The attack: many guesses at once, all of which would be looked at before the first wrong one is
   * counted.
   * @returns null for who may come in, else what to tell
   */
  refusalFor(rawHeaders: readonly string[], address: string): Promise<Answer | null> {
    return this.#judgements.run(() => this.#judge(rawHeaders, address));
  }

  async #judge(rawHeaders: readonly string[], address: string): Promise<Answer | null> {
    if (this.#digest === null) {
      return refuse('forbidden', 'There is no admin token: set ADMIN_TOKEN to use the admin API.');
    }
    const value = authorizationOf(rawHeaders);
    if (value === null) return refuse('invalid_request', 'There is more than one Authorization field; send one.');
    const budget = this.#options.attempts.peek(address);
    if (!budget.allowed) return this.#tooMany(budget.resetAtMs);
    const token = value === undefined ? null : tokenOf(value);
    if (token === null) {
      return refuse('missing_admin_token', 'Send the admin token as `Authorization: Bearer TOKEN`.', {
        'WWW-Authenticate': 'Bearer realm="tollgate admin"',
      });
    }
    // Of digests, so that not even the length shows in the time that it takes.
    if (timingSafeEqual(digestOf(token), this.#digest)) return null;
    const { allowed, resetAtMs } = await this.#options.attempts.fail(address);
    if (!allowed) return this.#tooMany(resetAtMs);
    return refuse('invalid_admin_token', 'This is not the admin token.', {
      'WWW-Authenticate': 'Bearer realm="tollgate admin", error="invalid_token"',
    });
  }

  #tooMany(resetAtMs: number): Answer {
    const seconds = Math.max(1, Math.ceil((resetAtMs - this.#options.nowMs()) / 1000));
    const message = `Too many wrong admin tokens came from this address. Retry after ${seconds} s.`;
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
