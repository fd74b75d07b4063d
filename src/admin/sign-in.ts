import { z } from 'zod';
import { valuesOf } from '../http1/fields.ts';
import { readTexts } from '../operations/catalogue/input.ts';
import { timeOf } from '../operations/key-report.ts';
import { flag } from '../operations/operation-values.ts';
import { TokenIdentity } from './admin-tokens.ts';
import type { AdminAuthenticator, AdminRequest, Authorised } from './authenticator.ts';
import type { Identity } from './call.ts';
import { pageOriginOf, signInRefusal } from './cross-origin.ts';
import { textsOf } from './endpoints.ts';
import { OIDC_SIGN_IN, type OidcSignIn } from './oidc.ts';
import { type AdminResponse, errorResponse, jsonResponse } from './response.ts';
import { type Cookie, clearCookie, IDLE_SECONDS, type SessionHolder, secretInCookies, setCookie } from './sessions.ts';

// `/admin/session`: sign-in, what is known of the sender, sign-out. Only a link needs the store, so tokens and people also sign in during an outage.

export const SESSION_METHODS = ['GET', 'POST', 'DELETE'] as const;

/** The size limit of its body. Anybody may send one, so it is as small as a token with escapes allows. */
export const SIGN_IN_BYTES = 8 * 1024;
/** How long its body may take, milliseconds. */
export const SIGN_IN_MS = 2_000;

export const SIGN_IN = z.union([
  z.strictObject({ token: z.string().min(1).max(1_024) }),
  z.strictObject({ code: z.string().min(1).max(1_024) }),
  z.strictObject({
    oidc: z
      .string()
      .min(1)
      .max(6_000)
      .describe('The query, without its question mark, with which the OpenID provider sent the browser back.'),
  }),
]);

/** Where people sign in at the OpenID provider. */
export const oidcBegun = z
  .strictObject({ url: z.string().describe('Where the browser goes: the authorization endpoint of the provider.') })
  .meta({ id: 'BegunSignIn', examples: [{ url: 'https://id.example.com/authorize?client_id=tollgate&…' }] });

export const SIGN_OUT = z.strictObject({
  everywhere: flag.describe(
    "True ends all sessions of the sender's name, on the other gateways of the store within a few seconds.",
  ),
});

/** Who sends a request. */
export const session = z
  .strictObject({
    name: z.string(),
    role: z.enum(['viewer', 'operator', 'admin']),
    via: z.enum(['token', 'session', 'proxy', 'shell']),
    expiresAt: z
      .string()
      .nullable()
      .describe('When the session, or the token of the proxy, ends at the latest. Null for a token.')
      .meta({ format: 'date-time' }),
    idleSeconds: z
      .int()
      .nullable()
      .describe('A session ends after this many seconds without a request. Null without a session.'),
  })
  .meta({
    id: 'Session',
    examples: [
      { name: 'jo', role: 'operator', via: 'session', expiresAt: '2026-11-23T18:00:00.000Z', idleSeconds: 1800 },
    ],
  });

/** The name under which the code of a link signs its user in, or the reason why the gateway refuses the code. */
export type LinkTaken = { readonly name: string } | { readonly refused: 'used' | 'elsewhere' };

const NEW_LINK =
  'Run `tollgate console` for a new one, in a clone `npm run -s tollgate -- console`, or sign in with a token.';

const REFUSED_LINKS = {
  used: `This sign-in link has been used or is too old. ${NEW_LINK}`,
  elsewhere: `This sign-in link works only on the machine of the gateway, and not through a proxy. ${NEW_LINK}`,
} as const;

export type SessionReport = z.output<typeof session>;
export type BegunSignIn = z.output<typeof oidcBegun>;

/**
 * Signs in: begins a session for a token, the code of a link, or what an OpenID provider says of a person. A session that the request already
 * has ends, so that its cookie is of no more use to anybody.
 * @param body the parsed JSON
 * @param takeLink uses the code of a sign-in link, and uses it up if it is a one-time code
 * @returns the response, and the identity of the person; null if the credential was refused
 */
export async function signIn(
  authenticator: AdminAuthenticator,
  request: AdminRequest,
  body: unknown,
  takeLink: (code: string, request: AdminRequest) => Promise<LinkTaken>,
): Promise<{ readonly response: AdminResponse; readonly identity: Identity | null }> {
  const refused = (response: AdminResponse) => ({ response, identity: null });
  const refusal = signInRefusal(request);
  if (refusal !== null) return refused(refusal);
  const read = SIGN_IN.safeParse(body);
  if (!read.success) {
    const message =
      'The body must be a JSON object with one of token, an admin token, code, the code of a sign-in link, and oidc, the response of the OpenID provider.';
    return refused(errorResponse('invalid_request', message));
  }
  const credential = read.data;
  const found =
    'token' in credential
      ? (authenticator.holderOf(credential.token) ?? 'This is not an admin token.')
      : 'code' in credential
        ? ofLink(await takeLink(credential.code, request))
        : await ofProvider(authenticator.oidc, request, credential.oidc);
  if (typeof found === 'string') return refused(await authenticator.wrong(request.address, found));
  if ('status' in found) return refused(found);
  const { sessions } = authenticator;
  const before = secretOf(request);
  if (before !== null) sessions.end(before);
  const { session, secret } = sessions.begin(found);
  const cookie = setCookie(secret, request.isTls);
  // The provider's response is of no more use.
  const both = 'oidc' in credential ? [cookie, clearCookie(request.isTls, OIDC_SIGN_IN)] : cookie;
  const fields = { 'Set-Cookie': both };
  return { response: jsonResponse(200, reportOf(session, session.expiresAtMs), fields), identity: session };
}

/** Begins a sign-in at the OpenID provider, which ends with {@link signIn}. */
export async function beginAtProvider({ oidc }: AdminAuthenticator, request: AdminRequest): Promise<AdminResponse> {
  const refusal = signInRefusal(request);
  if (refusal !== null) return refusal;
  if (oidc === null) return errorResponse('not_found', NO_PROVIDER);
  const redirectUri = redirectUriOf(request);
  if (redirectUri === null) return errorResponse('invalid_request', NO_ORIGIN);
  const begun = await oidc.begin(redirectUri);
  if ('kind' in begun) return responseTo(begun);
  return jsonResponse(200, { url: begun.url }, { 'Set-Cookie': setCookie(begun.secret, request.isTls, OIDC_SIGN_IN) });
}

const NO_PROVIDER = 'No OpenID provider is configured: set `admin.oidc` in gateway.yaml.';
const NO_ORIGIN = 'The page that signs in must be in a browser, which sends Origin.';

/** The person whom the provider names, the message that refuses a wrong response, or the response that refuses another one. */
async function ofProvider(
  oidc: OidcSignIn | null,
  request: AdminRequest,
  answer: string,
): Promise<SessionHolder | string | AdminResponse> {
  if (oidc === null) return errorResponse('not_found', NO_PROVIDER);
  const redirectUri = redirectUriOf(request);
  if (redirectUri === null) return errorResponse('invalid_request', NO_ORIGIN);
  const found = await oidc.end(secretOf(request, OIDC_SIGN_IN), redirectUri, answer);
  // The session of a person ends by its own rules alone: the gateway does not learn what becomes of the account.
  if ('person' in found) return { ...found.person, kind: 'person', signal: new AbortController().signal };
  return found.kind === 'refused' ? found.why : responseTo(found);
}

/** The page that the provider sends the browser to. It is what the browser says itself, so it is right behind a proxy, too. */
function redirectUriOf(request: AdminRequest): string | null {
  const origin = pageOriginOf(request);
  return origin === null ? null : `${origin}/console/sign-in`;
}

function responseTo({ kind, why }: Exclude<Awaited<ReturnType<OidcSignIn['begin']>>, { url: string }>): AdminResponse {
  if (kind === 'busy') return errorResponse('busy', why, { 'Retry-After': '1' });
  if (kind === 'unavailable') return errorResponse('identity_unavailable', why, { 'Retry-After': '5' });
  return errorResponse('forbidden', why);
}

/** The admin whom a link signs in, or the message that refuses it. */
function ofLink(taken: LinkTaken): TokenIdentity | string {
  return 'name' in taken ? new TokenIdentity({ name: taken.name, role: 'admin' }) : REFUSED_LINKS[taken.refused];
}

/** Says who the sender is and until when. */
export function showSession({ identity, expiresAtMs }: Exclude<Authorised, { refusal: unknown }>): AdminResponse {
  return jsonResponse(200, reportOf(identity, expiresAtMs));
}

/**
 * Ends the session of the request or, with `everywhere=true`, all sessions of the sender. The cookie is removed.
 * @throws Failure, Refused for a wrong query
 */
export function signOut(
  { sessions }: AdminAuthenticator,
  request: AdminRequest,
  query: URLSearchParams,
  identity: Identity,
): AdminResponse {
  const { via } = identity;
  const { everywhere } = readTexts(SIGN_OUT, textsOf(query, ['everywhere']));
  const secret = secretOf(request);
  let ended = 0;
  // A person whom a proxy has signed in has no sessions here.
  if (everywhere && via !== 'proxy') ended = sessions.signOutEverywhere(identity);
  else if (via === 'session' && secret !== null) ended = sessions.end(secret);
  return jsonResponse(200, { ended }, { 'Set-Cookie': clearCookie(request.isTls) });
}

function secretOf({ rawHeaders, isTls }: AdminRequest, cookie?: Cookie): string | null {
  return secretInCookies(valuesOf(rawHeaders, 'cookie'), isTls, cookie);
}

function reportOf({ name, role, via }: Identity, expiresAtMs: number | null): SessionReport {
  const idleSeconds = via === 'session' ? IDLE_SECONDS : null;
  return { name, role, via, expiresAt: timeOf(expiresAtMs), idleSeconds };
}
