import { LRUCache } from 'lru-cache';
import { type CacheableRequest, type Policies, policiesBy, type StoredResponse, type Use } from './stored-response.ts';

/** What the cache knows for a request. */
export interface Found {
  readonly stored: StoredResponse;
  readonly use: Use;
}

/** Under which names a response is kept. */
export interface CacheKey {
  /** The route, the caller and everything else that distinguishes responses, apart from the fields that Vary names. */
  readonly whole: string;
  /** The upstream and the target, by which a change made through the gateway finds what it makes obsolete. */
  readonly target: string;
  /** The pattern of the route, by which operators purge. */
  readonly route: string;
  /** The path for the service without its query, by which operators purge. */
  readonly path: string;
  /** Whose share of the cache it takes. */
  readonly owner: string;
}

interface Entry {
  readonly key: CacheKey;
  /** Responses to requests that differ in the fields which Vary names, the latest first. */
  readonly variants: readonly StoredResponse[];
  readonly bytes: number;
}

/** Which responses an operator removes. */
interface Purge {
  /** The pattern of the route; null: of all routes. */
  readonly route: string | null;
  /** The path for the service, without its query; null: all paths. */
  readonly path: string | null;
}

/** A purge as one word of letters, digits, `-` and `_`. */
export function purgeText({ route, path }: Purge): string {
  return Buffer.from(JSON.stringify([route, path])).toString('base64url');
}

/** @returns the purge of everything for a text that cannot be read */
export function purgeIn(text: string | null): Purge {
  try {
    const [route, path] = JSON.parse(Buffer.from(text ?? '', 'base64url').toString());
    if ([route, path].every((one) => one === null || typeof one === 'string')) return { route, path };
  } catch {
    // Another program, or another version, has written it.
  }
  return { route: null, path: null };
}

/** A response on its way into the cache. */
export interface Arriving {
  readonly key: CacheKey;
  /** It is not stored after all. */
  abandon(): void;
}

/** What one caller has in the cache: its keys, the oldest first. */
interface OwnShare {
  bytes: number;
  readonly keys: Set<string>;
}

interface CacheBounds {
  /** Bytes of all responses. */
  readonly maxBytes: number;
  /** Bytes of the body of one response. */
  readonly maxBodyBytes: number;
}

/** Responses that differ by Vary, for each key. */
const MAX_VARIANTS = 16;
/** A caller may fill this part of the cache. */
const SHARE_OF_ONE = 1 / 4;
/** How long requests for a response that was not stored are not made to wait for each other, milliseconds. */
const PASS_MS = 10_000;
/** Characters of the keys that are known for that. */
const MAX_PASSES = 1024 * 1024;

/**
 * The responses of services that this process keeps in memory (RFC 9111), those least recently used making room for new ones.
 *
 * Attack: a caller asks for endless queries until nothing of the others is left in the cache. So one caller fills a quarter of it, and its
 * own oldest responses make room beyond that.
 */
export class ResponseCache {
  readonly maxBodyBytes: number;
  readonly policies: Policies;
  readonly #entries: LRUCache<string, Entry>;
  readonly #mostOfOne: number;
  /** Keys by their targets. */
  readonly #byTarget = new Map<string, Set<string>>();
  readonly #shares = new Map<string, OwnShare>();
  /** Keys of responses that were not stored. Requests for them do not wait for each other. */
  readonly #passes: LRUCache<string, true>;
  readonly #fetches = new Map<string, Fetch>();
  readonly #arriving = new Set<Arriving>();
  #heldBytes = 0;

  /** @param wallMs Unix milliseconds */
  constructor({ maxBytes, maxBodyBytes }: CacheBounds, wallMs: () => number) {
    this.maxBodyBytes = maxBodyBytes;
    this.policies = policiesBy(wallMs);
    this.#mostOfOne = maxBytes * SHARE_OF_ONE;
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ bytes }) => bytes,
      dispose: (entry) => this.#forgotten(entry),
    });
    this.#passes = new LRUCache({ maxSize: MAX_PASSES, sizeCalculation: (_, key) => key.length, ttl: PASS_MS });
  }

  /** Bytes of all responses. */
  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  find({ whole }: CacheKey, request: CacheableRequest): Found | null {
    const stored = this.#entries.get(whole)?.variants.find((variant) => variant.matches(request));
    return stored === undefined ? null : { stored, use: stored.useFor(request) };
  }

  /** Keeps a response in place of the one that serves the same requests. @returns false if it is too large */
  keep(key: CacheKey, request: CacheableRequest, response: StoredResponse): boolean {
    const before = this.#entries.peek(key.whole)?.variants ?? [];
    const others = before.filter((variant) => !variant.matches(request)).slice(0, MAX_VARIANTS - 1);
    const variants = [response, ...others];
    const names = 2 * (key.whole.length + key.target.length);
    const bytes = variants.reduce((sum, variant) => sum + variant.bytes, names);
    if (bytes > this.#mostOfOne) return false;
    this.#entries.delete(key.whole);
    this.#makeRoom(key.owner, bytes);
    this.#entries.set(key.whole, { key, variants, bytes });
    const share = this.#shares.get(key.owner) ?? { bytes: 0, keys: new Set() };
    this.#shares.set(key.owner, share);
    share.bytes += bytes;
    share.keys.add(key.whole);
    const keys = this.#byTarget.get(key.target) ?? new Set();
    this.#byTarget.set(key.target, keys.add(key.whole));
    return true;
  }

  /** A response whose head has arrived, and that will be stored. Call `left` in the end. */
  arrives(response: Arriving): void {
    this.#arriving.add(response);
  }

  left(response: Arriving): void {
    this.#arriving.delete(response);
  }

  /**
   * Takes room for a piece of a response that arrives.
   *
   * Attack: thousands of requests for large responses are under way, each held until it is whole.
   * @returns false if there is none
   */
  hold(bytes: number): boolean {
    if (this.#heldBytes + bytes > this.#mostOfOne) return false;
    this.#heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#heldBytes -= bytes;
  }

  /** A service has changed what is at a target, by a request through this process (RFC 9111 section 4.4). */
  changed(target: string): void {
    // What arrives may be from before the change.
    for (const one of this.#arriving) if (one.key.target === target) one.abandon();
    for (const whole of [...(this.#byTarget.get(target) ?? [])]) this.#entries.delete(whole);
  }

  /** Removes responses. @returns how many */
  purge({ route, path }: Purge): number {
    let removed = 0;
    const isMeant = (key: CacheKey) => (route === null || key.route === route) && (path === null || key.path === path);
    for (const one of this.#arriving) if (isMeant(one.key)) one.abandon();
    for (const { key, variants } of [...this.#entries.values()]) {
      if (!isMeant(key)) continue;
      removed += variants.length;
      this.#entries.delete(key.whole);
    }
    return removed;
  }

  /** The request to the service for which others with this key wait; null if none is under way. */
  fetchOf({ whole }: CacheKey): Fetch | null {
    return this.#fetches.get(whole) ?? null;
  }

  /**
   * Begins a request to the service.
   * @returns for others to wait for; null if they should not wait for it, because responses with this key are not stored or another
   *   request is under way
   */
  begin({ whole }: CacheKey): Fetch | null {
    if (this.#passes.has(whole) || this.#fetches.has(whole)) return null;
    const fetch = new Fetch((outcome) => {
      this.#fetches.delete(whole);
      if (outcome === 'not_stored') this.#passes.set(whole, true);
    });
    this.#fetches.set(whole, fetch);
    return fetch;
  }

  #makeRoom(owner: string, bytes: number): void {
    const share = this.#shares.get(owner);
    if (share === undefined) return;
    for (const oldest of share.keys) {
      if (share.bytes + bytes <= this.#mostOfOne) return;
      this.#entries.delete(oldest);
    }
  }

  #forgotten({ key, bytes }: Entry): void {
    const share = this.#shares.get(key.owner)!;
    share.bytes -= bytes;
    share.keys.delete(key.whole);
    if (share.keys.size === 0) this.#shares.delete(key.owner);
    const keys = this.#byTarget.get(key.target);
    keys?.delete(key.whole);
    if (keys?.size === 0) this.#byTarget.delete(key.target);
  }
}

/** `failed`: no response came that says whether it may be stored; `left`: nor can one, because the client has left. */
export type FetchOutcome = 'stored' | 'not_stored' | 'failed' | 'left';

/** A request to the service for whose response others wait (RFC 9111 section 4). */
export class Fetch {
  readonly #onEnd: (outcome: FetchOutcome) => void;
  readonly #waiting = new Set<(outcome: FetchOutcome) => void>();
  #hasEnded = false;

  constructor(onEnd: (outcome: FetchOutcome) => void) {
    this.#onEnd = onEnd;
  }

  /** @returns a function that stops waiting */
  wait(next: (outcome: FetchOutcome) => void): () => void {
    this.#waiting.add(next);
    return () => this.#waiting.delete(next);
  }

  /** Those who wait look into the cache. Further calls do nothing. */
  end(outcome: FetchOutcome): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onEnd(outcome);
    for (const next of this.#waiting) next(outcome);
  }
}

/** The name under which the cache finds what a change of this target makes obsolete. */
export function targetKey(upstream: string, target: string): string {
  return `${upstream} ${target}`;
}
