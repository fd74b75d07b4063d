import { z } from 'zod';
import { valuesOf } from '../http1/fields.ts';
import { readTexts } from '../operations/catalogue/input.ts';
import { timeOf } from '../operations/key-report.ts';
import { flag } from '../operations/operation-values.ts';
import { TokenIdentity } from './admin-tokens.ts';
import type { AdminAuthenticator, AdminRequest, Authorised } from './authenticator.ts';
import type { Identity } from './call.ts';
import { signInRefusal } from './cross-origin.ts';
import { textsOf } from './endpoints.ts';
import { type AdminResponse, errorResponse, jsonResponse } from './response.ts';
import { clearCookie, IDLE_SECONDS, secretInCookies, setCookie } from './sessions.ts';

// `/admin/session`: sign-in, what is known of the sender, sign-out. Only a link needs the store, so a token also signs in during an outage.

export const SESSION_METHODS = ['GET', 'POST', 'DELETE'] as const;

/** The size limit of its body. Anybody may send one, so it is as small as a token with escapes allows. */
export const SIGN_IN_BYTES = 8 * 1024;
/** How long its body may take, milliseconds. */
export const SIGN_IN_MS = 2_000;

export const SIGN_IN = z.union([
  z.strictObject({ token: z.string().min(1).max(1_024) }),
  z.strictObject({ code: z.string().min(1).max(1_024) }),
]);

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

/**
 * Signs in: begins a session for a token or the code of a link. A session that the request already has ends, so that its cookie is of no
 * more use to anybody.
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
  const refusal = signInRefusal(request);
  if (refusal !== null) return { response: refusal, identity: null };
  const read = SIGN_IN.safeParse(body);
  if (!read.success) {
    const message =
      'The body must be a JSON object with either token, an admin token, or code, the code of a sign-in link.';
    return { response: errorResponse('invalid_request', message), identity: null };
  }
  const credential = read.data;
  const holder =
    'token' in credential ? authenticator.holderOf(credential.token) : ofLink(await takeLink(credential.code, request));
  if (holder === null || typeof holder === 'string') {
    const message = holder ?? 'This is not an admin token.';
    return { response: await authenticator.wrong(request.address, message), identity: null };
  }
  const { sessions } = authenticator;
  const before = secretOf(request);
  if (before !== null) sessions.end(before);
  const { session, secret } = sessions.begin(holder);
  const fields = { 'Set-Cookie': setCookie(secret, request.isTls) };
  return { response: jsonResponse(200, reportOf(session, session.expiresAtMs), fields), identity: session };
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
  { name, via }: Identity,
): AdminResponse {
  const { everywhere } = readTexts(SIGN_OUT, textsOf(query, ['everywhere']));
  const secret = secretOf(request);
  let ended = 0;
  // A person whom a proxy has signed in has no sessions here, and a token may have the same name.
  if (everywhere && via !== 'proxy') ended = sessions.signOutEverywhere(name);
  else if (via === 'session' && secret !== null) ended = sessions.end(secret);
  return jsonResponse(200, { ended }, { 'Set-Cookie': clearCookie(request.isTls) });
}

function secretOf({ rawHeaders, isTls }: AdminRequest): string | null {
  return secretInCookies(valuesOf(rawHeaders, 'cookie'), isTls);
}

function reportOf({ name, role, via }: Identity, expiresAtMs: number | null): SessionReport {
  const idleSeconds = via === 'session' ? IDLE_SECONDS : null;
  return { name, role, via, expiresAt: timeOf(expiresAtMs), idleSeconds };
}
