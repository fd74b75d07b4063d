import { constants, readFileSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose';
import { Failure } from '../failure.ts';
import { messageOf } from '../io/connection-error.ts';
import { exchange, LargeBodyError, MAX_BYTES } from '../io/http-exchange.ts';

/** The issuer's keys. JwtKeys hands out the same object until a reading finds other keys. */
export interface KeySet {
  readonly find: JWTVerifyGetKey;
}

/** There are no usable keys at present. */
export interface KeysAway {
  readonly retryAfterMs: number;
}

interface JwtKeysOptions {
  /** Gets the JSON Web Key Set as text. Has a deadline of its own. */
  readonly read: () => Promise<string>;
  /** The key set as text, if the caller has already read it. */
  readonly first?: string;
  /** Keys older than this are read again in the background and stay in use meanwhile. */
  readonly freshMs: number;
  /** Keys older than this are read again before they are used; requests wait. They stay in use if the reading fails. */
  readonly waitMs: number;
  /** Keys older than this are no longer used. */
  readonly staleMs: number;
  /** For this long after a reading, a token that names an unknown key causes no further reading. */
  readonly cooldownMs: number;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** Called once for each new fault, and with null when all faults are over. */
  readonly onTrouble?: (error: Error | null) => void;
}

/** The pause after a failed reading. It doubles with each further failure, up to the longest. */
const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 5_000;
/** Different faults that are logged before the issuer has recovered. */
const MAX_TROUBLES = 20;

/**
 * Caches the keys of the issuer (contract section 5). It reads them before the first token arrives, and again when they
 * are old or a token names an unknown key, and keeps them for a while when the issuer is away.
 *
 * Attack: a flood of tokens that name made-up keys. Each would cause a request to the issuer. So there is one
 * reading at a time, and a pause after it.
 */
export class JwtKeys {
  readonly #options: JwtKeysOptions;
  #set: KeySet | null = null;
  #text = '';
  /** The last key set in which `unusable` found a key. */
  #broken: KeySet | null = null;
  /** Monotonic milliseconds, as all that follow. */
  #readAtMs = 0;
  #failures = 0;
  #pausedUntilMs = 0;
  #reading: Promise<void> | null = null;
  /** The messages of the faults that were reported and are not over. */
  readonly #troubles = new Set<string>();

  /** @throws Error if `first` is not a key set */
  constructor(options: JwtKeysOptions) {
    this.#options = options;
    if (options.first === undefined) void this.#read();
    else this.#use(options.first, options.monotonicMs());
  }

  /** Whether there are keys and the last reading succeeded. If it failed, older keys may still be in use. */
  get isUp(): boolean {
    return this.#set !== null && this.#failures === 0 && this.#troubles.size === 0;
  }

  /** The keys in force, synchronously if they are young enough. Never rejects. */
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
   * Looks for keys newer than `seen`, in which a token's key was not found. Never rejects.
   * @returns `seen` again if the issuer has no newer keys or was asked just now; KeysAway if the reading failed, since
   *   the gateway then cannot know whether the token's key is good
   */
  async newerThan(seen: KeySet): Promise<KeySet | KeysAway> {
    if (this.#set !== null && this.#set !== seen) return this.#set;
    const nowMs = this.#options.monotonicMs();
    if (this.#failures === 0 && nowMs - this.#readAtMs < this.#options.cooldownMs) return seen;
    if (nowMs >= this.#pausedUntilMs) await this.#read();
    return this.#failures === 0 ? this.#present() : this.#away();
  }

  /** A key of `seen` cannot be used: reports the fault, and reads the keys again as for an unknown key. */
  unusable(seen: KeySet, error: unknown): KeysAway {
    this.#broken = seen;
    this.#report(error);
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

  /** Callers share the reading that is under way. */
  #read(): Promise<void> {
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readNow(): Promise<void> {
    const askedAtMs = this.#options.monotonicMs();
    try {
      this.#use(await this.#options.read(), askedAtMs);
      this.#failures = 0;
      // The issuer still publishes the key that cannot be used, so the fault is not over.
      if (this.#set === this.#broken) return;
      if (this.#troubles.size > 0) this.#options.onTrouble?.(null);
      this.#troubles.clear();
    } catch (error) {
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, MAX_PAUSE_MS);
      this.#failures++;
      this.#pausedUntilMs = this.#options.monotonicMs() + pauseMs;
      this.#report(error);
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
   * Attack: a client sends tokens that name two broken keys in turn, and each token would add a line to the log. So each
   * fault is reported once until all faults are over.
   */
  #report(error: unknown): void {
    const trouble = error instanceof Error ? error : new Error(String(error));
    if (this.#troubles.has(trouble.message) || this.#troubles.size === MAX_TROUBLES) return;
    this.#troubles.add(trouble.message);
    this.#options.onTrouble?.(trouble);
  }
}

/** Where the issuer's JSON Web Key Set is (RFC 7517 section 5). */
export type JwksSource =
  /** https, or http on this machine. */
  | { readonly kind: 'url'; readonly url: string }
  /** Absolute path. */
  | { readonly kind: 'file'; readonly path: string };

/** Maximum key set that is read from a file, as from a URL; large issuers publish about 20 KB. */
const MAX_RESPONSE_BYTES = MAX_BYTES;
/** For the issuer's whole answer: requests may be waiting for it. */
const TIMEOUT_MS = 3_000;

const MINUTE_MS = 60_000;
const URL_AGES = { freshMs: 5 * MINUTE_MS, waitMs: 10 * MINUTE_MS, staleMs: 60 * MINUTE_MS, cooldownMs: 10_000 };
/** A changed file takes effect within a second, as every change does. */
const FILE_AGES = { freshMs: 1_000, waitMs: 1_000, staleMs: 60 * MINUTE_MS, cooldownMs: 1_000 };

/**
 * Opens the issuer's keys. A file must exist at start; the keys of a URL are read in the background.
 * @param setting the setting that names them, for the message
 * @throws Failure `bad_settings` if the file cannot be read or is not a key set
 */
export function openJwtKeys(
  source: JwksSource,
  surroundings: Pick<JwtKeysOptions, 'monotonicMs' | 'onTrouble'>,
  setting = 'jwt.jwks',
): JwtKeys {
  if (source.kind === 'url') return new JwtKeys({ ...surroundings, ...URL_AGES, read: () => fetchText(source.url) });
  const { path } = source;
  try {
    const found = statSync(path);
    if (!found.isFile() || found.size > MAX_RESPONSE_BYTES) throw tooLarge();
    const first = readFileSync(path, 'utf8');
    return new JwtKeys({ ...surroundings, ...FILE_AGES, first, read: () => readText(path) });
  } catch (error) {
    const message = `${path}, the file of \`${setting}\`, cannot be read as a JSON Web Key Set. It must be JSON such as {"keys":[…]}.`;
    throw new Failure('bad_settings', message, error);
  }
}

async function readText(path: string): Promise<string> {
  // O_NONBLOCK: opening a pipe that an operator named by mistake must not block a thread for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(MAX_RESPONSE_BYTES + 1);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length);
      length += bytesRead;
      if (length > MAX_RESPONSE_BYTES) throw tooLarge();
      if (bytesRead === 0) return buffer.toString('utf8', 0, length);
    }
  } finally {
    await file.close();
  }
}

/** One GET that follows no redirect: only the server that the settings name may supply the issuer's keys. */
async function fetchText(url: string): Promise<string> {
  const headers = { Accept: 'application/jwk-set+json, application/json' };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const server = 'the server of the JSON Web Key Set';
  const { status, text } = await exchange({ url, method: 'GET', headers, signal }).catch((error: Error) => {
    if (error instanceof LargeBodyError) throw tooLarge();
    if (signal.aborted) throw new Error(`${server} did not answer within ${TIMEOUT_MS / 1000} s`, { cause: error });
    throw new Error(`${server} cannot be reached: ${messageOf(error)}`, { cause: error });
  });
  if (status !== 200) throw new Error(`${server} answered ${status}`);
  return text;
}

function tooLarge(): Error {
  return new Error(`the JSON Web Key Set is no file, or larger than ${MAX_RESPONSE_BYTES} bytes`);
}
