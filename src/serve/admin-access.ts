import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { AdminTokens } from '../admin/admin-tokens.ts';
import { AdminAuthenticator, WRONG_TOKENS_PER_MINUTE } from '../admin/authenticator.ts';
import { consoleAssets } from '../admin/console/console-assets.ts';
import type { RequestHandler } from '../admin/listener.ts';
import { OidcSignIn } from '../admin/oidc.ts';
import { ProxyIdentities } from '../admin/proxy-identity.ts';
import { Sessions } from '../admin/sessions.ts';
import { followAdminTokens, readAdminTokens } from '../config/admin-tokens-file.ts';
import type { OidcSettings, ProxyIdentitySettings } from '../config/identification.ts';
import { readSecret, signatureOf } from '../config/read-file.ts';
import type { Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import { FailedAttempts } from '../identify/failed-attempts.ts';
import { openJwtKeys } from '../identify/jwt-keys.ts';
import { MemoryAttemptCounter } from '../identify/memory-attempts.ts';
import { Verifications } from '../identify/verifications.ts';
import { Certificates } from '../listen/tls.ts';
import type { Fleet } from '../operations/fleet/fleet.ts';
import type { StartLink } from '../operations/start-link.ts';

/** Who may use the admin listener, and its certificate. It belongs to the process that has the listener. */
export interface AdminAccess {
  readonly authenticator: AdminAuthenticator;
  /** Null: plain HTTP. */
  readonly tls: (NonNullable<Settings['admin']['tls']> & { readonly certificates: Certificates }) | null;
  /** The link of `npm start`, which keeps the console on without a token; else null. */
  readonly startLink: StartLink | null;
  readonly close: () => void;
}

interface AdminAccessOptions extends Pick<AdminAccess, 'startLink'> {
  readonly logger: Logger;
}

const SWEEP_EVERY_MS = 1_000;

/**
 * Reads the tokens and opens what identifies operators.
 * @throws Failure `bad_settings` with every fault of ADMIN_TOKENS_FILE on a line of its own, or if the certificate, the keys of
 *   the authenticating proxy or the secret of the OpenID provider cannot be used
 */
export async function openAdminAccess(
  { token, tokensFile, tls, identity, oidc }: Settings['admin'],
  { logger, startLink }: AdminAccessOptions,
): Promise<AdminAccess> {
  const nowMs = () => Date.now();
  const signature = tokensFile === null ? '' : signatureOf([tokensFile]);
  const read = tokensFile === null ? { tokens: null } : readAdminTokens(tokensFile);
  if ('faults' in read) throw new Failure('bad_settings', read.faults.join('\n'));
  const tokens = new AdminTokens({ adminToken: token, tokens: read.tokens, hasLinks: startLink !== null });
  const certificates = tls === null ? null : await Certificates.open(tls, nowMs, 'admin.tls');
  const sessions = new Sessions({ random: randomBytes, nowMs });
  const attempts = new FailedAttempts({
    counter: new MemoryAttemptCounter(),
    limit: () => WRONG_TOKENS_PER_MINUTE,
    monotonicMs: () => performance.now(),
    wallMs: nowMs,
  });
  const provider = oidc === null ? null : openOidcSignIn(oidc, logger);
  const proxy = identity === null ? null : openProxyIdentities(identity, attempts, logger);
  const stopFollowing = tokensFile === null ? () => {} : follow(tokensFile, signature, tokens, logger);
  if (certificates !== null) followCertificates(certificates, logger);
  const sweeping = setInterval(() => sessions.sweep(), SWEEP_EVERY_MS).unref();
  return {
    authenticator: new AdminAuthenticator({ tokens, sessions, proxy, oidc: provider, attempts, nowMs }),
    tls: tls === null || certificates === null ? null : { ...tls, certificates },
    startLink,
    close: () => {
      clearInterval(sweeping);
      stopFollowing();
      certificates?.close();
    },
  };
}

function follow(file: string, signature: string, tokens: AdminTokens, logger: Logger): () => void {
  return followAdminTokens(file, signature, {
    onChange: (found) => {
      tokens.replace(found);
      logger.info({ tokens: found.length }, 'the admin tokens in force');
    },
    onRefused: (faults) => {
      for (const fault of faults) logger.error({ fault }, 'new admin tokens rejected, keeping the old ones');
    },
  });
}

/** Logs each new certificate, and each one that cannot be used. */
function followCertificates(certificates: Certificates, logger: Logger): void {
  const expiryOf = ({ expiresAtMs }: { expiresAtMs: number }) => ({ expires: new Date(expiresAtMs).toISOString() });
  logger.info(expiryOf(certificates.current), 'the TLS certificate of the admin port in force');
  certificates.follow({
    onLoaded: (certificate) => logger.info(expiryOf(certificate), 'the TLS certificate of the admin port in force'),
    onRefused: (why) =>
      logger.error({ why }, 'the new TLS certificate of the admin port cannot be used, the one before stays in force'),
  });
}

function openProxyIdentities(
  settings: ProxyIdentitySettings,
  attempts: FailedAttempts,
  logger: Logger,
): ProxyIdentities {
  const { jwks } = settings;
  const at = jwks.kind === 'url' ? jwks.url : jwks.path;
  const onTrouble = (error: Error | null) => {
    if (error === null) logger.info({ jwks: at }, 'the keys of the authenticating proxy are available again');
    else logger.error({ jwks: at, err: error }, 'the keys of the authenticating proxy cannot be fetched or used');
  };
  const monotonicMs = () => performance.now();
  const keys = openJwtKeys(jwks, { monotonicMs, onTrouble }, 'admin.identity.jwks');
  const verifications = new Verifications({ attempts, whenSpent: 'wait', monotonicMs });
  return new ProxyIdentities({ settings, keys, verifications, monotonicMs, nowMs: () => Date.now() });
}

/**
 * Opens the sign-in at an OpenID provider, which is not asked yet.
 * @throws Failure `bad_settings` if the file of the client secret cannot be used
 */
function openOidcSignIn(settings: OidcSettings, logger: Logger): OidcSignIn {
  const clientSecret = clientSecretOf(settings);
  const onTrouble = (reason: string) => logger.error({ issuer: settings.issuer, reason }, OIDC_TROUBLE);
  return new OidcSignIn({ settings, clientSecret, random: randomBytes, nowMs: () => Date.now(), onTrouble });
}

const OIDC_TROUBLE = 'somebody could not sign in at the OpenID provider';

/**
 * The secret of the client at the OpenID provider; null for a public client.
 * @throws Failure `bad_settings` if its file cannot be used
 */
export function clientSecretOf({ clientSecretFile }: OidcSettings): string | null {
  if (clientSecretFile === null) return null;
  const read = readSecret(clientSecretFile);
  if ('text' in read) return read.text;
  throw new Failure('bad_settings', `admin.oidc.clientSecretFile ${read.fault}.`);
}

export interface AdminAddress {
  readonly adminHost: string;
  readonly adminPort: number;
  /** The scheme of the admin listener. */
  readonly adminScheme: 'http' | 'https';
}

/** Where the admin listener is. A worker has no listener of its own. */
export function adminAddressOf(
  { host, port }: { readonly host: string; readonly port: number },
  access: AdminAccess | null,
): AdminAddress {
  const adminScheme = access === null || access.tls === null ? 'http' : 'https';
  return { adminHost: host, adminPort: port, adminScheme };
}

/** Lets a sign-out everywhere end the sessions of a name on all gateways, and those of other gateways end the sessions here. */
export function shareSignOuts({ authenticator: { sessions } }: AdminAccess, { sessionEnds }: Fleet): void {
  sessions.onSignedOutEverywhere((name, beforeMs) => sessionEnds.end(name, beforeMs));
  sessionEnds.onEnd((name, beforeMs) => sessions.endSessionsOf(name, beforeMs));
}

/** The handler of `/console`; null if there is no way to sign in. */
export function consoleOf({ authenticator }: AdminAccess): RequestHandler | null {
  return authenticator.isOpen ? consoleAssets() : null;
}
