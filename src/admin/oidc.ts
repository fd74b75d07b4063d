import { createHmac } from 'node:crypto';
import type { ClientAuth, Configuration, CustomFetch } from 'openid-client';
import { isSource, type OidcSettings } from '../config/identification.ts';
import { OIDC_COOKIE } from '../http1/console-cookies.ts';
import { messageOf } from '../io/connection-error.ts';
import { exchange, LargeBodyError } from '../io/http-exchange.ts';
import { type Person, personIn } from './person.ts';
import type { Cookie } from './sessions.ts';

/** Loaded at the first sign-in: without `admin.oidc` it costs nothing. */
const loadLibrary = () => import('openid-client');
type Library = Awaited<ReturnType<typeof loadLibrary>>;

interface OidcOptions {
  readonly settings: OidcSettings;
  /** The content of `clientSecretFile`; null for a public client. */
  readonly clientSecret: string | null;
  readonly random: (bytes: number) => Buffer;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
  /** Called once for each kind of fault until a sign-in succeeds. */
  readonly onTrouble: (reason: string) => void;
}

/** Why the sign-in failed, as a sentence for the person at the browser. */
interface NotSignedIn {
  /**
   * `refused`: the response belongs to no sign-in of this browser, or does not verify. `forbidden`: the provider or the
   * settings refuse the person. `unavailable`: the provider cannot be used. `busy`: too many sign-ins run.
   */
  readonly kind: 'refused' | 'forbidden' | 'unavailable' | 'busy';
  readonly why: string;
}

/** Seconds within which the person has to come back from the provider. */
const SIGN_IN_SECONDS = 600;
/** Clocks of gateways on one store differ by less, seconds. */
const CLOCK_DIFFERENCE_SECONDS = 60;
/** For one request to the provider, milliseconds. */
const TIMEOUT_MS = 5_000;
/** How long what the provider says of its endpoints is used, milliseconds. */
const FRESH_MS = 60 * 60_000;
/** Sign-ins that ask the provider at a time. */
const MAX_AT_A_TIME = 8;
/** Kinds of faults that are logged before a sign-in succeeds. */
const MAX_TROUBLES = 20;
/** Bytes of the random part of the cookie. */
const SECRET_BYTES = 32;

/** The cookie that binds a sign-in at the provider to the browser in which it began: when that was, Unix seconds, and a secret. */
export const OIDC_SIGN_IN: Cookie = { names: OIDC_COOKIE, form: /^\d{10}-[\w-]{43}$/, maxAge: SIGN_IN_SECONDS };

/** The provider answers with something that the gateway cannot use, or not at all. */
class ProviderError extends Error {}

/**
 * Signs people in at an OpenID provider (OpenID Connect Core 1.0 section 3.1): authorization code with PKCE (RFC 7636). openid-client, which is
 * loaded at the first sign-in, makes and checks the messages.
 *
 * State, nonce and PKCE verifier of a sign-in are derived from the secret in a cookie of its browser. So the gateway keeps nothing, any
 * gateway on the store can complete a sign-in that another one began, and without the cookie a response cannot be made to fit.
 *
 * Attacks: login CSRF and swapped codes, where a browser brings the response to a sign-in of another one (state, nonce, verifier); a response of
 * another provider (`iss`, RFC 9207); an ID token that another party has signed or that is for another client (`enableNonRepudiationChecks`:
 * by itself the library trusts the connection to the token endpoint and verifies no signature).
 */
export class OidcSignIn {
  readonly #options: OidcOptions;
  #provider: { readonly asked: Promise<Provider>; readonly atMs: number } | null = null;
  #running = 0;
  readonly #troubles = new Set<string>();

  constructor(options: OidcOptions) {
    this.#options = options;
  }

  /** The name of the provider, for the sign-in page. */
  get name(): string {
    return this.#options.settings.name;
  }

  /**
   * Begins a sign-in. Never rejects.
   * @param redirectUri where the provider sends the browser afterwards
   * @returns the URL at the provider, and what the cookie `OIDC_SIGN_IN` holds
   */
  begin(redirectUri: string): Promise<{ readonly url: string; readonly secret: string } | NotSignedIn> {
    return this.#bounded(async () => {
      const { settings, random, nowMs } = this.#options;
      const { library, configuration } = await this.#ask();
      const secret = `${Math.floor(nowMs() / 1000)}-${random(SECRET_BYTES).toString('base64url')}`;
      const url = library.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: [...new Set(['openid', ...settings.scopes])].join(' '),
        state: derived(secret, 'state'),
        nonce: derived(secret, 'nonce'),
        code_challenge: await library.calculatePKCECodeChallenge(derived(secret, 'verifier')),
        code_challenge_method: 'S256',
      });
      if (!isSource(url.href)) throw new ProviderError('its authorization endpoint is not https://');
      return { url: url.href, secret };
    });
  }

  /**
   * Ends a sign-in. Never rejects.
   * @param secret of the cookie; null if the browser has none
   * @param response the query with which the provider sent the browser back
   * @returns the person
   */
  end(
    secret: string | null,
    redirectUri: string,
    response: string,
  ): Promise<{ readonly person: Person } | NotSignedIn> {
    return this.#bounded(async () => {
      const began = Number(secret?.split('-', 1)[0]);
      const age = this.#options.nowMs() / 1000 - began;
      if (secret === null || age > SIGN_IN_SECONDS || age < -CLOCK_DIFFERENCE_SECONDS) return refused(NOT_BEGUN);
      // Before the provider is asked, so that links of strangers cost nothing. The library compares it once more.
      const state = derived(secret, 'state');
      if (new URLSearchParams(response).get('state') !== state) return refused(NOT_BEGUN);
      const { settings } = this.#options;
      const { library, configuration } = await this.#ask();
      const tokens = await library.authorizationCodeGrant(configuration, new URL(`${redirectUri}?${response}`), {
        expectedState: state,
        expectedNonce: derived(secret, 'nonce'),
        pkceCodeVerifier: derived(secret, 'verifier'),
        idTokenExpected: true,
      });
      const claims = await this.#claimsOf(tokens.claims()!, tokens.access_token, configuration, library);
      if ([settings.nameClaim, settings.roleClaim].includes('email') && String(claims.email_verified) === 'false')
        return { kind: 'forbidden', why: 'The provider has not verified your email address.' };
      const person = personIn(claims, settings, 'your account at the provider');
      if ('why' in person) return { kind: 'forbidden', why: person.why };
      this.#troubles.clear();
      return { person };
    });
  }

  /** The claims of the ID token, and those that it lacks from the UserInfo endpoint: Keycloak and Okta can have groups there alone. */
  async #claimsOf(
    claims: Readonly<Record<string, unknown>> & { readonly sub: string },
    accessToken: string,
    configuration: Configuration,
    library: Library,
  ): Promise<Readonly<Record<string, unknown>>> {
    const { nameClaim, roleClaim } = this.#options.settings;
    const hasAll = [nameClaim, roleClaim].every((name) => Object.hasOwn(claims, name));
    if (hasAll || configuration.serverMetadata().userinfo_endpoint === undefined) return claims;
    try {
      return { ...(await library.fetchUserInfo(configuration, accessToken, claims.sub)), ...claims };
    } catch (error) {
      this.#report('the UserInfo endpoint of the provider cannot be used', error);
      return claims;
    }
  }

  /** Does the work of a sign-in unless too many run, and says why it failed. */
  async #bounded<T>(work: () => Promise<T | NotSignedIn>): Promise<T | NotSignedIn> {
    if (this.#running >= MAX_AT_A_TIME) return { kind: 'busy', why: 'Too many sign-ins run at the moment. Try again.' };
    this.#running++;
    try {
      return await work();
    } catch (error) {
      const found = notSignedIn(await loadLibrary(), error);
      this.#report(found.kind === 'unavailable' ? 'the OpenID provider cannot be used' : 'a sign-in is refused', error);
      return found;
    } finally {
      this.#running--;
    }
  }

  /** What the provider says of itself. Asked once for all who wait. */
  #ask(): Promise<Provider> {
    const nowMs = this.#options.nowMs();
    const age = this.#provider === null ? Number.POSITIVE_INFINITY : nowMs - this.#provider.atMs;
    if (this.#provider !== null && age >= 0 && age < FRESH_MS) return this.#provider.asked;
    const asked = this.#discover();
    const provider = { asked, atMs: nowMs };
    this.#provider = provider;
    asked.catch(() => {
      if (this.#provider === provider) this.#provider = null;
    });
    return asked;
  }

  async #discover(): Promise<Provider> {
    const library = await loadLibrary();
    const { settings, clientSecret } = this.#options;
    const isPlain = settings.issuer.startsWith('http:');
    const configuration = await library.discovery(
      new URL(settings.issuer),
      settings.clientId,
      undefined,
      authenticationOf(library, clientSecret),
      {
        timeout: TIMEOUT_MS / 1000,
        execute: [library.enableNonRepudiationChecks, ...(isPlain ? [library.allowInsecureRequests] : [])],
        [library.customFetch]: ask,
      },
    );
    return { library, configuration };
  }

  /** Attack: a stranger sends wrong responses, and each would add a line to the log. So each kind is logged once until a sign-in succeeds. */
  #report(what: string, error: unknown): void {
    const reason = `${what}: ${reasonOf(error)}`;
    if (this.#troubles.has(reason) || this.#troubles.size >= MAX_TROUBLES) return;
    this.#troubles.add(reason);
    this.#options.onTrouble(reason);
  }
}

interface Provider {
  readonly library: Library;
  readonly configuration: Configuration;
}

const NOT_BEGUN =
  'This sign-in did not begin in this browser, or it began more than ten minutes ago, or another one has begun since. Sign in again.';
const NOT_ACCEPTED =
  'What the provider says about this sign-in is not accepted. Sign in again; if that is refused too, the log of the gateway has the reason.';

function refused(why: string): NotSignedIn {
  return { kind: 'refused', why };
}

function unavailable(why = 'The provider does not answer'): NotSignedIn {
  return {
    kind: 'unavailable',
    why: `${why}. The log of the gateway has the reason. Other ways to sign in still work.`,
  };
}

/** A value of a sign-in that follows from its secret and does not reveal it. */
function derived(secret: string, use: 'state' | 'nonce' | 'verifier'): string {
  return createHmac('sha256', secret).update(use).digest('base64url');
}

/** How the gateway proves to the provider that it is the client: in the body if the provider takes that, because fewer of them misread it there. */
function authenticationOf(library: Library, secret: string | null): ClientAuth {
  if (secret === null) return library.None();
  const [inBody, inHeader] = [library.ClientSecretPost(secret), library.ClientSecretBasic(secret)];
  return (server, ...rest) => {
    const isTaken = server.token_endpoint_auth_methods_supported?.includes('client_secret_post') === true;
    (isTaken ? inBody : inHeader)(server, ...rest);
  };
}

/** Sends a request of the library: no redirect is followed, the response is bounded, and only this machine is asked without TLS. */
const ask: CustomFetch = async (url, { method, headers, body }) => {
  if (!isSource(url)) throw new ProviderError(`it names ${new URL(url).origin}, which is not https://`);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const text = body === undefined || body === null ? '' : String(body);
  const response = await exchange({ url, method, headers, body: text, signal }).catch((error) => {
    const reason = error instanceof LargeBodyError ? error.message : `it cannot be reached: ${messageOf(error)}`;
    const why = signal.aborted ? `it did not answer within ${TIMEOUT_MS / 1000} s` : reason;
    throw new ProviderError(why, { cause: error });
  });
  const sent = ['content-type', 'www-authenticate'].flatMap((name) => {
    const value = response.headers[name];
    return typeof value === 'string' ? [[name, value] as [string, string]] : [];
  });
  return new Response(response.text === '' ? null : response.text, { status: response.status, headers: sent });
};

/** Why a sign-in failed, by the error of the library. */
function notSignedIn(library: Library, error: unknown): NotSignedIn {
  if (error instanceof library.AuthorizationResponseError)
    return { kind: 'forbidden', why: `The provider has refused the sign-in (${shown(error.error)}).` };
  if (error instanceof library.ResponseBodyError) {
    if (error.error === 'invalid_grant') return refused(NOT_ACCEPTED);
    return unavailable(`The provider refuses this gateway (${shown(error.error)})`);
  }
  if (error instanceof library.WWWAuthenticateChallengeError) return unavailable('The provider refuses this gateway');
  const isWrong = error instanceof library.ClientError && WRONG.includes(error.code ?? '');
  return isWrong ? refused(NOT_ACCEPTED) : unavailable();
}

/** The codes of openid-client for a response or an ID token that is wrong. */
const WRONG: readonly string[] = [
  'OAUTH_INVALID_RESPONSE',
  'OAUTH_JWT_CLAIM_COMPARISON_FAILED',
  'OAUTH_JWT_TIMESTAMP_CHECK_FAILED',
  'OAUTH_UNSUPPORTED_OPERATION',
  'OAUTH_KEY_SELECTION_FAILED',
];

/** A code of OAuth, which comes from outside. */
function shown(code: string): string {
  return /^[a-z_]{1,64}$/.test(code) ? code : 'unknown reason';
}

/** The innermost reason that is known. */
function reasonOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof ProviderError || !(at.cause instanceof Error)) return at.message;
  }
  return String(error);
}
