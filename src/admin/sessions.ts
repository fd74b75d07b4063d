import { hash } from 'node:crypto';
import type { Role } from '../config/admin-tokens-file.ts';
import { CONSOLE_COOKIE } from '../http1/console-cookies.ts';
import { type Identity, personOf } from './call.ts';

const MINUTE_MS = 60_000;
/** How long a session lasts without a request. */
export const IDLE_SECONDS = 1_800;
/** How long a session lasts after the sign-in. */
const LIFETIME_MS = 8 * 60 * MINUTE_MS;
/** Sessions at a time. A new one beyond that ends the session that has been idle longest, of the holder with most sessions. */
export const MAX_SESSIONS = 1_000;
/** 256 bits, in base64url. */
const SECRET_BYTES = 32;

interface SessionsOptions {
  readonly random: (bytes: number) => Buffer;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** Who signs in. */
export type SessionHolder = Pick<Identity, 'name' | 'role' | 'kind' | 'signal'>;

/** A signed-in person. */
export class Session implements Identity {
  readonly name: string;
  readonly role: Role;
  readonly kind: Identity['kind'];
  readonly via = 'session';
  readonly beganAtMs: number;
  /** When it ends even if it is in use, in Unix milliseconds. */
  readonly expiresAtMs: number;
  readonly #ended = new AbortController();
  #usedAtMs: number;

  constructor({ name, role, kind }: SessionHolder, nowMs: number) {
    this.name = name;
    this.role = role;
    this.kind = kind;
    this.beganAtMs = nowMs;
    this.expiresAtMs = nowMs + LIFETIME_MS;
    this.#usedAtMs = nowMs;
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Unix milliseconds. */
  get usedAtMs(): number {
    return this.#usedAtMs;
  }

  isOver(nowMs: number): boolean {
    return nowMs >= this.expiresAtMs || nowMs - this.#usedAtMs >= IDLE_SECONDS * 1_000;
  }

  use(nowMs: number): void {
    this.#usedAtMs = nowMs;
  }

  end(): void {
    this.#ended.abort();
  }
}

/**
 * The sessions of the admin listener (contract section 7), in the memory of one process. Of the secret in a cookie only the
 * SHA-256 is kept, so that a copy of the memory opens no session.
 *
 * Attacks: session fixation, so each sign-in makes a new secret; replay of a cookie after the sign-out or after its token was
 * removed, so what ends a session forgets it here and not in the browser alone.
 */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #sessions = new Map<string, Session>();

  #tellOthers: (holder: string, beforeMs: number) => void = () => {};

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Begins a session, which ends at the latest when the signal of its holder says so. @returns it with the cookie's secret */
  begin(holder: SessionHolder): { readonly session: Session; readonly secret: string } {
    if (this.#sessions.size >= MAX_SESSIONS) this.#makeRoom();
    const secret = this.#secret();
    const digest = digestOf(secret);
    const session = new Session(holder, this.#options.nowMs());
    this.#sessions.set(digest, session);
    const end = () => this.#end(digest, session);
    if (holder.signal.aborted) end();
    else holder.signal.addEventListener('abort', end, { signal: session.signal });
    return { session, secret };
  }

  /**
   * The session of a cookie; null if there is none or it is over.
   * @param isActivity whether the request keeps the session from becoming idle
   */
  find(secret: string, isActivity: boolean): Session | null {
    const [digest, nowMs] = [digestOf(secret), this.#options.nowMs()];
    const session = this.#sessions.get(digest);
    if (session === undefined) return null;
    if (session.isOver(nowMs)) {
      this.#end(digest, session);
      return null;
    }
    if (isActivity) session.use(nowMs);
    return session;
  }

  /** Ends the session of a cookie. @returns how many sessions ended: 0 or 1 */
  end(secret: string): number {
    const digest = digestOf(secret);
    const session = this.#sessions.get(digest);
    if (session !== undefined) this.#end(digest, session);
    return session === undefined ? 0 : 1;
  }

  /** @param tellOthers called after all sessions of a holder have ended on this gateway, so that other gateways end theirs */
  onSignedOutEverywhere(tellOthers: (holder: string, beforeMs: number) => void): void {
    this.#tellOthers = tellOthers;
  }

  /** Ends all sessions of a holder on this gateway and says so to the others. @returns how many ended here */
  signOutEverywhere(identity: Pick<Identity, 'name' | 'kind'>): number {
    const holder = holderOf(identity);
    // None can have begun later, except on a clock that was set back since.
    const ended = this.endSessionsOf(holder, Number.POSITIVE_INFINITY);
    this.#tellOthers(holder, this.#options.nowMs());
    return ended;
  }

  /**
   * Ends the sessions of a holder that began at a time or before it.
   * @param beforeMs Unix milliseconds
   * @returns how many ended
   */
  endSessionsOf(holder: string, beforeMs: number): number {
    const found = [...this.#sessions].filter(([, one]) => holderOf(one) === holder && one.beganAtMs <= beforeMs);
    for (const [digest, session] of found) this.#end(digest, session);
    return found.length;
  }

  /** Ends what is over. Called regularly, because a stream learns the end of its session from `signal` alone. */
  sweep(): void {
    const nowMs = this.#options.nowMs();
    for (const [digest, session] of this.#sessions) if (session.isOver(nowMs)) this.#end(digest, session);
  }

  #secret(): string {
    return this.#options.random(SECRET_BYTES).toString('base64url');
  }

  #end(digest: string, session: Session): void {
    this.#sessions.delete(digest);
    session.end();
  }

  /** Attack: the holder of one token signs in again and again, and would end the sessions of everyone else. */
  #makeRoom(): void {
    const counts = new Map<string, number>();
    for (const one of this.#sessions.values()) counts.set(personOf(one), (counts.get(personOf(one)) ?? 0) + 1);
    const most = Math.max(...counts.values());
    let idlest: [string, Session] | null = null;
    for (const entry of this.#sessions) {
      if (counts.get(personOf(entry[1])) !== most) continue;
      if (idlest === null || entry[1].usedAtMs < idlest[1].usedAtMs) idlest = entry;
    }
    if (idlest !== null) this.#end(...idlest);
  }
}

/**
 * Whose sessions end together, as gateways tell each other. Names of tokens have no blank, apart from those of links, so no token has that of
 * a person.
 */
function holderOf({ name, kind }: Pick<Identity, 'name' | 'kind'>): string {
  return kind === 'token' ? name : `person ${name}`;
}

function digestOf(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

/**
 * The cookies of the admin listener. A browser accepts a name with `__Host-` only over TLS, without a Domain and with Path=/, so no other
 * host of the domain can set it.
 */
export interface Cookie {
  readonly names: { readonly plain: string; readonly encrypted: string };
  /** What the cookie may hold. */
  readonly form: RegExp;
  /** Seconds; null: the cookie goes when the browser is closed. */
  readonly maxAge: number | null;
}

const SESSION: Cookie = { names: CONSOLE_COOKIE, form: /^[\w-]{43}$/, maxAge: null };

function nameOf({ names }: Cookie, isTls: boolean): string {
  return isTls ? names.encrypted : names.plain;
}

/** The Set-Cookie field of a cookie, that of a session unless given. */
export function setCookie(secret: string, isTls: boolean, cookie: Cookie = SESSION): string {
  const age = cookie.maxAge === null ? '' : `; Max-Age=${cookie.maxAge}`;
  return `${nameOf(cookie, isTls)}=${secret}; HttpOnly; SameSite=Strict; Path=/${isTls ? '; Secure' : ''}${age}`;
}

/** The Set-Cookie field that removes a cookie. */
export function clearCookie(isTls: boolean, cookie: Cookie = SESSION): string {
  return setCookie('', isTls, { ...cookie, maxAge: 0 });
}

/**
 * The secret in the Cookie fields of a request (RFC 6265 section 5.4); null if there is none, or if there are several.
 *
 * Attack: another host of the domain sets a second cookie of the name, so that the operator works in the attacker's session.
 */
export function secretInCookies(fields: readonly string[], isTls: boolean, cookie: Cookie = SESSION): string | null {
  const prefix = `${nameOf(cookie, isTls)}=`;
  const found = fields
    .flatMap((field) => field.split(';'))
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(prefix));
  const secret = found[0]?.slice(prefix.length) ?? '';
  return found.length === 1 && cookie.form.test(secret) ? secret : null;
}
