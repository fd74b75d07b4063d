import { setTimeout as delay } from 'node:timers/promises';
import { errors } from 'jose';
import { FairShares, type Share } from '../io/fair-shares.ts';
import { RecentlyUsed } from '../io/recently-used.ts';
import { TokenBucket } from '../io/token-bucket.ts';
import { ClientNetworks, type FailedAttempts } from './failed-attempts.ts';

/** Signatures that are verified at a time: as many as Node has pool threads, which also look up names and compress. */
const MAX_AT_A_TIME = 4;
/** The part of them, and of those that wait, that one client address may have. */
const FAIR_SHARE = 0.5;
const MAX_WAITING = 1_000;
/**
 * Signatures of one client address that may fail in a second, once it has spent its failed attempts. The dearest algorithm,
 * ES512, takes 3 ms.
 */
const FAILURES_PER_SECOND = 10;
const ADDRESSES = 10_000;
/** The errors of jose after the work of a verification. A token without a known key, or without a form, costs little. */
const VERIFIED = [errors.JWSSignatureVerificationFailed, errors.JWTClaimValidationFailed, errors.JWTExpired];

/** Why a signature was not verified: `spent`, the address has spent its failed attempts; `busy`, too many are verified. */
export class NotVerified extends Error {
  readonly why: 'spent' | 'busy';

  constructor(why: 'spent' | 'busy') {
    super(`a signature was not verified: ${why}`);
    this.why = why;
  }
}

interface VerificationsOptions {
  readonly attempts: Pick<FailedAttempts, 'peek'>;
  /** What happens to the signatures of an address beyond `FAILURES_PER_SECOND`: `wait` verifies them that much more slowly. */
  readonly whenSpent: 'refuse' | 'wait';
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
}

/**
 * Bounds the work of verifying signatures.
 *
 * Attack: a client without a key sends tokens with random signatures. Each cost 3 ms, also after the address had spent its
 * failed attempts, because a signature was verified before the attempts were asked. So an address that has spent them may
 * have a few failures a second. What verifies is not charged: a good token of a customer behind the same address passes
 * while the few last, and a known one always, because it is not verified again.
 */
export class Verifications {
  readonly #options: VerificationsOptions;
  readonly #networks = new ClientNetworks(ADDRESSES);
  readonly #failures = new RecentlyUsed<TokenBucket>(ADDRESSES);
  readonly #turns = new FairShares<() => void>({
    maxConnections: MAX_AT_A_TIME,
    maxQueue: MAX_WAITING,
    fairShare: FAIR_SHARE,
  });

  constructor(options: VerificationsOptions) {
    this.#options = options;
  }

  /**
   * Runs `verify` when it is the turn of the client address.
   * @param verify rejects if the signature or what it signs is wrong
   * @throws NotVerified, or what `verify` throws
   */
  async of<T>(clientAddress: string, verify: () => Promise<T>): Promise<T> {
    const network = this.#networks.of(clientAddress);
    const isRefused = () => this.#options.whenSpent === 'refuse' && this.#isSpent(clientAddress, network);
    if (isRefused()) throw new NotVerified('spent');
    const share = this.#turns.takePlace(network);
    if (share === null) throw new NotVerified('busy');
    try {
      await this.#turn(share);
      try {
        // Others of the address may have failed while this one waited.
        if (isRefused()) throw new NotVerified('spent');
        if (this.#isSpent(clientAddress, network)) await delay(1_000 / FAILURES_PER_SECOND);
        return await this.#verified(network, verify);
      } finally {
        this.#turns.release(share);
        this.#turns.takeForNext()?.();
      }
    } finally {
      share.release();
    }
  }

  async #verified<T>(network: string, verify: () => Promise<T>): Promise<T> {
    try {
      return await verify();
    } catch (error) {
      if (VERIFIED.some((one) => error instanceof one)) this.#charge(network);
      throw error;
    }
  }

  #charge(network: string): void {
    const nowMs = this.#options.monotonicMs();
    let bucket = this.#failures.get(network);
    if (bucket === undefined) {
      bucket = new TokenBucket(FAILURES_PER_SECOND, FAILURES_PER_SECOND, nowMs);
      this.#failures.set(network, bucket);
    }
    if (bucket.hasOne(nowMs)) bucket.spend(1, nowMs);
  }

  /** Resolves when a signature of this share may be verified. */
  #turn(share: Share<() => void>): Promise<void> | undefined {
    if (this.#turns.take(share)) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (!this.#turns.queue(share, resolve)) throw new NotVerified('busy');
    return promise;
  }

  #isSpent(clientAddress: string, network: string): boolean {
    const bucket = this.#failures.get(network);
    if (bucket === undefined || bucket.hasOne(this.#options.monotonicMs())) return false;
    return !this.#options.attempts.peek(clientAddress).allowed;
  }
}
