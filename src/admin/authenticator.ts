import { setTimeout as delay } from 'node:timers/promises';
import { ROLES, type Role } from '../config/admin-tokens-file.ts';
import { valuesOf } from '../http1/fields.ts';
import { authorizationOf } from '../identify/bearer.ts';
import type { FailedAttempts } from '../identify/failed-attempts.ts';
import type { AdminTokens, TokenIdentity } from './admin-tokens.ts';
import type { Identity } from './call.ts';
import { type BrowserRequest, crossOriginRefusal } from './cross-origin.ts';
import type { OidcSignIn } from './oidc.ts';
import type { ProxyIdentities } from './proxy-identity.ts';
import { type AdminResponse, errorResponse } from './response.ts';
import { type Session, type Sessions, secretInCookies } from './sessions.ts';

/** Wrong tokens that one address may send in a minute. Further ones get 429. */
export const WRONG_TOKENS_PER_MINUTE = 10;
/** How long the response to a wrong token is delayed. */
const DELAY_MS = 250;
/** Responses that are delayed at a time. Further ones are sent at once, so that a flood of wrong tokens does not pile up. */
const MAX_DELAYED = 32;

interface AdminAuthenticatorOptions {
  readonly tokens: AdminTokens;
  readonly sessions: Sessions;
  /** Null: no authenticating proxy is configured. */
  readonly proxy: ProxyIdentities | null;
  /** Null: no OpenID provider is configured. */
  readonly oidc: OidcSignIn | null;
  /** Counts wrong tokens by address, apart from the failed authentications of callers. */
  readonly attempts: FailedAttempts;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

export interface AdminRequest extends BrowserRequest {
  /** Without the query. */
  readonly path: string;
  readonly address: string;
}

/**
 * Who sent a request and until when that holds (Unix milliseconds; null: without end), or the response that refuses it. `identity` of
 * a refusal is the sender whose browser another page has made send the request; null if the sender is not identified.
 */
export type Authorised =
  | { readonly identity: Identity; readonly expiresAtMs: number | null }
  | { readonly refusal: AdminResponse; readonly identity: Identity | null };

/**
 * Identifies operators by a token, the cookie of a session, or the token of an authenticating proxy (contract section 7), in
 * this order. A request with a bearer token is that token's, whatever cookie comes with it.
 *
 * Attack: an attacker sends wrong tokens from the address of an operator (a shared proxy, a load balancer) in order to lock
 * the operator out. So the right token always passes, and without delay. That also shows an attacker at once when a guess
 * was right, but the settings refuse tokens that are short or repetitive, and guessing any other one takes too long. Wrong
 * tokens are counted, and their responses are delayed. A cookie that opens no session is not counted: every session ends, and a
 * secret of 256 random bits cannot be guessed.
 */
export class AdminAuthenticator {
  readonly #options: AdminAuthenticatorOptions;
  #delayed = 0;

  constructor(options: AdminAuthenticatorOptions) {
    this.#options = options;
  }

  get sessions(): Sessions {
    return this.#options.sessions;
  }

  get oidc(): OidcSignIn | null {
    return this.#options.oidc;
  }

  /** Whether there is any way to be identified. If not, everything is refused. */
  get isOpen(): boolean {
    return this.#options.tokens.isOpen || this.#options.proxy !== null || this.oidc !== null;
  }

  async authorise(request: AdminRequest): Promise<Authorised> {
    if (!this.isOpen) return refused(closedResponse());
    const authorization = authorizationOf(request.rawHeaders);
    if (authorization === null)
      return refused(errorResponse('invalid_request', 'There is more than one Authorization field; send one.'));
    const token = authorization === undefined ? null : tokenOf(authorization);
    if (token !== null) {
      const holder = this.#options.tokens.find(token);
      return holder === null
        ? refused(await this.wrong(request.address, 'This is not an admin token.'))
        : { identity: holder, expiresAtMs: null };
    }
    const session = this.sessionOf(request);
    if (session !== null) return byBrowser(request, session);
    return (
      (await this.#byProxy(request)) ?? refused(missingToken(request.path === '/admin/session' ? this.oidc : null))
    );
  }

  /** The session of a request's cookie. Streams of events, and what other pages send, do not keep it from becoming idle. */
  sessionOf(request: BrowserRequest & Pick<AdminRequest, 'path'>): Session | null {
    const { method, path, rawHeaders, isTls } = request;
    const secret = secretInCookies(valuesOf(rawHeaders, 'cookie'), isTls);
    if (secret === null) return null;
    const isStream = method === 'GET' && path.startsWith('/admin/events/');
    return this.sessions.find(secret, !isStream && crossOriginRefusal(request) === null);
  }

  /** Whom a token signs in; null if it is wrong. */
  holderOf(token: string): TokenIdentity | null {
    return this.#options.tokens.find(token);
  }

  /** Counts a wrong token or code. @returns the delayed response: 401, or 429 after too many from the address */
  async wrong(address: string, message: string): Promise<AdminResponse> {
    const { allowed, resetAtMs } = await this.#options.attempts.fail(address);
    if (this.#delayed < MAX_DELAYED) {
      this.#delayed++;
      await delay(DELAY_MS);
      this.#delayed--;
    }
    if (!allowed) return this.#tooMany(resetAtMs);
    return errorResponse('invalid_admin_token', message, {
      'WWW-Authenticate': 'Bearer realm="tollgate admin", error="invalid_token"',
    });
  }

  /** @returns null if the request has no token of a proxy */
  async #byProxy(request: AdminRequest): Promise<Authorised | null> {
    const { proxy } = this.#options;
    const tokens = proxy === null ? [] : valuesOf(request.rawHeaders, proxy.header);
    if (proxy === null || tokens.length === 0) return null;
    // Attack: a client sends the field itself, and the proxy adds its own instead of replacing it.
    if (tokens.length > 1)
      return refused(errorResponse('invalid_request', 'The field with the token of the proxy comes more than once.'));
    const outcome = await proxy.identify(tokens[0]!, request.address);
    switch (outcome.kind) {
      case 'person':
        return byBrowser(request, outcome.identity);
      case 'forbidden':
        return refused(errorResponse('forbidden', outcome.why));
      case 'unavailable': {
        const seconds = Math.max(1, Math.ceil(outcome.retryAfterMs / 1000));
        const message = 'The keys that verify the token of the proxy cannot be had at the moment. Retry shortly.';
        return refused(errorResponse('identity_unavailable', message, { 'Retry-After': String(seconds) }));
      }
      default:
        return refused(await this.wrong(request.address, 'The token of the proxy is not accepted or has expired.'));
    }
  }

  #tooMany(resetAtMs: number): AdminResponse {
    const seconds = Math.max(1, Math.ceil((resetAtMs - this.#options.nowMs()) / 1000));
    const message = `Too many wrong admin tokens have come. Retry after ${seconds} s.`;
    return errorResponse('too_many_failed_attempts', message, { 'Retry-After': String(seconds) });
  }
}

/** What a browser added by itself counts only if a page of this listener has sent the request. */
function byBrowser(request: BrowserRequest, identity: Identity & { readonly expiresAtMs: number }): Authorised {
  const refusal = crossOriginRefusal(request);
  return refusal === null ? { identity, expiresAtMs: identity.expiresAtMs } : { refusal, identity };
}

function refused(refusal: AdminResponse): Authorised {
  return { refusal, identity: null };
}

/** The response to everything while there is no way to be identified. */
function closedResponse(): AdminResponse {
  return errorResponse(
    'forbidden',
    'There is no admin token: set ADMIN_TOKEN or ADMIN_TOKENS_FILE to use the admin API and the console.',
  );
}

/** @param oidc the provider at which the sender may sign in, for the sign-in page */
function missingToken(oidc: OidcSignIn | null): AdminResponse {
  const message = 'Send an admin token as `Authorization: Bearer TOKEN`, or sign in.';
  const response = errorResponse('missing_admin_token', message, {
    'WWW-Authenticate': 'Bearer realm="tollgate admin"',
  });
  return oidc === null ? response : { ...response, body: { ...response.body, oidc: { name: oidc.name } } };
}

/** @returns the response that refuses an identity whose role is too low; null if it may */
export function roleRefusal({ name, role }: Identity, needed: Role): AdminResponse | null {
  if (ROLES.indexOf(role) >= ROLES.indexOf(needed)) return null;
  return errorResponse('forbidden', `This needs the role ${needed}, and ${name} has the role ${role}.`);
}

/** The token behind the scheme. Unlike a bearer token of RFC 6750, an admin token may have any visible character. */
function tokenOf(authorization: string): string | null {
  return /^bearer +(\S+)$/i.exec(authorization)?.[1] ?? null;
}
