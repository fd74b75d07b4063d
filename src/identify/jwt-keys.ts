import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';

/** The issuer's keys, as they were read at one time. As long as they do not change, it is the same object. */
export interface KeySet {
  readonly find: JWTVerifyGetKey;
}

/** There are no keys that could be used now. */
export interface KeysAway {
  readonly retryAfterMs: number;
}

export interface JwtKeysOptions {
  /** Gets the JSON Web Key Set as text. Has a deadline of its own. */
  readonly read: () => Promise<string>;
  /** What was read already. @throws where it is no key set */
  readonly first?: string;
  /** Keys that are older are read again, and used meanwhile. */
  readonly freshMs: number;
  /** Keys that are older are used only when they cannot be read again. */
  readonly waitMs: number;
  /** Keys that are older are not used any more. */
  readonly staleMs: number;
  /** After they were read, an unknown key is no reason to read them again for this long. */
  readonly cooldownMs: number;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Told once of each trouble that is new, and with null when it is over. */
  readonly onTrouble?: (error: Error | null) => void;
}

/** After a failure it is not tried again for this long, then for twice as long, up to the longest. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 5_000;
/** Different faults that are logged before the issuer has recovered. */
const MOST_TROUBLES = 20;

/**
 * Keeps the keys of the issuer (contract section 5): read before they are needed, again when they are old or a token
 * names one that is not there, kept for a while when the issuer is away. However many tokens come, there is one reading
 * at a time, and a pause after it.
 *
 * The attack: a flood of tokens that name made-up keys, each of which would be asked of the issuer.
 */
export class JwtKeys {
  readonly #options: JwtKeysOptions;
  #set: KeySet | null = null;
  #text = '';
  /** The last one that had a key that could not be used. */
  #broken: KeySet | null = null;
  /** Monotonic milliseconds, as all that follow. */
  #readAtMs = 0;
  #failures = 0;
  #pausedUntilMs = 0;
  #underWay: Promise<void> | null = null;
  /** The messages of those that were told and are not over. */
  readonly #troubles = new Set<string>();

  /** @throws Error where `first` is no key set */
  constructor(options: JwtKeysOptions) {
    this.#options = options;
    if (options.first === undefined) void this.#read();
    else this.#use(options.first, options.monotonicMs());
  }

  /** Whether keys are there and the last look at them went well. Those that cannot be read again are used for a while yet. */
  get isUp(): boolean {
    return this.#set !== null && this.#failures === 0 && this.#troubles.size === 0;
  }

  /** The keys in force; at once where they are young enough. Never rejects. */
  current(): KeySet | KeysAway | Promise<KeySet | KeysAway> {
    const nowMs = this.#options.monotonicMs();
    const ageMs = nowMs - this.#readAtMs;
    const isUsable = this.#set !== null && ageMs < this.#options.staleMs;
    if (isUsable && ageMs < this.#options.freshMs) return this.#set!;
    if (nowMs < this.#pausedUntilMs) return isUsable ? this.#set! : { retryAfterMs: this.#pausedUntilMs - nowMs };
    const reading = this.#read();
    if (isUsable && ageMs < this.#options.waitMs) return this.#set!;
    return reading.then(() => this.#present());
  }

  /**
   * The keys after a look for newer ones than `seen`, in which a key was not found; the same where there are none, or
   * there was a look just now. Away where the look failed: whether the key is good cannot be told. Never rejects.
   */
  async newerThan(seen: KeySet): Promise<KeySet | KeysAway> {
    if (this.#set !== null && this.#set !== seen) return this.#set;
    const nowMs = this.#options.monotonicMs();
    if (this.#failures === 0 && nowMs - this.#readAtMs < this.#options.cooldownMs) return seen;
    if (nowMs >= this.#pausedUntilMs) await this.#read();
    return this.#failures === 0 ? this.#present() : this.#away();
  }

  /** A key of this set cannot be used: tells of it, and looks for newer ones as an unknown key makes it. */
  unusable(seen: KeySet, error: unknown): KeysAway {
    this.#broken = seen;
    this.#tell(error);
    const nowMs = this.#options.monotonicMs();
    if (nowMs >= this.#pausedUntilMs && nowMs - this.#readAtMs >= this.#options.cooldownMs) void this.#read();
    return { retryAfterMs: FIRST_PAUSE_MS };
  }

  #present(): KeySet | KeysAway {
    const isUsable = this.#set !== null && this.#options.monotonicMs() - this.#readAtMs < this.#options.staleMs;
    return isUsable ? this.#set! : this.#away();
  }

  #away(): KeysAway {
    return { retryAfterMs: Math.max(this.#pausedUntilMs - this.#options.monotonicMs(), 0) };
  }

  /** One reading at a time, whoever asks for it. */
  #read(): Promise<void> {
    this.#underWay ??= this.#readNow().finally(() => {
      this.#underWay = null;
    });
    return this.#underWay;
  }

  async #readNow(): Promise<void> {
    const askedAtMs = this.#options.monotonicMs();
    try {
      this.#use(await this.#options.read(), askedAtMs);
      this.#failures = 0;
      // To have read once more what cannot be used is no better.
      if (this.#set === this.#broken) return;
      if (this.#troubles.size > 0) this.#options.onTrouble?.(null);
      this.#troubles.clear();
    } catch (error) {
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, LONGEST_PAUSE_MS);
      this.#failures++;
      this.#pausedUntilMs = this.#options.monotonicMs() + pauseMs;
      this.#tell(error);
    }
  }

  #use(text: string, askedAtMs: number): void {
    if (this.#set === null || text !== this.#text) {
      this.#set = { find: createLocalJWKSet(JSON.parse(text) as JSONWebKeySet) };
      this.#text = text;
    }
    this.#readAtMs = askedAtMs;
  }

  /**
   * Attack: a client sends tokens that name two broken keys in turn, and each token would write a line to the log. So
   * each fault is logged once until all are over.
   */
  #tell(error: unknown): void {
    const trouble = error instanceof Error ? error : new Error(String(error));
    if (this.#troubles.has(trouble.message) || this.#troubles.size === MOST_TROUBLES) return;
    this.#troubles.add(trouble.message);
    this.#options.onTrouble?.(trouble);
  }
}
