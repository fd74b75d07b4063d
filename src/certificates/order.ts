import { X509Certificate } from 'node:crypto';
import type { Authorization, Client, Order } from 'acme-client';
import type { Acme } from '../config/settings.ts';
import { certificateBlocks } from '../listen/pem.ts';
import type { Account, Issued } from './acme-records.ts';
import { Directory, DirectoryError, printable } from './directory.ts';

/** The answer to one challenge: what the authority has to find. */
export interface ChallengeAnswer {
  /** The domain for TLS-ALPN-01, the token for HTTP-01. */
  readonly subject: string;
  /** The key authorization of RFC 8555 section 8.1. */
  readonly text: string;
}

export interface OrderOptions {
  readonly acme: Acme;
  /** PEM of `directoryCa`; null for the authorities that Node.js trusts. */
  readonly directoryCa: Buffer | null;
  /** The HMAC key of `eab`, base64url; null without one. */
  readonly hmacKey: string | null;
  /** The account of an earlier order; null if there is none. */
  readonly account: Account | null;
  /** Keeps the account. Its key is kept before the authority receives it, so that no account is lost. */
  readonly keepAccount: (account: Account) => Promise<void>;
  /** Resolves when every gateway can answer these challenges. */
  readonly publish: (answers: readonly ChallengeAnswer[]) => Promise<void>;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Gives up the order. */
  readonly signal: AbortSignal;
}

const MAX_POLLS = 60;
const FIRST_POLL_MS = 500;
const MAX_POLL_MS = 5_000;
const MAX_RETRY_AFTER_MS = 60_000;
/** How far in the future a certificate may begin, in milliseconds, because clocks differ. */
const CLOCK_DIFFERENCE_MS = 5 * 60_000;

/**
 * Orders one certificate: account, order, challenges, finalization, download. Nothing is stored here.
 * @throws DirectoryError; the reason of `signal`; the errors of `keepAccount` and `publish`
 */
export async function orderCertificate(options: OrderOptions): Promise<Issued> {
  const { default: library } = await import('acme-client');
  const { acme, signal, wallMs, sleep } = options;
  const directory = new Directory({ url: acme.directory, ca: options.directoryCa, wallMs, sleep, signal });
  const newKey = async () => (await library.crypto.createPrivateEcdsaKey('P-256')).toString();
  const clientOf = ({ key, url }: Account): Client => {
    const client = new library.Client({
      directoryUrl: acme.directory,
      accountKey: key,
      ...(url === null ? {} : { accountUrl: url }),
      ...(acme.eab === null || options.hmacKey === null
        ? {}
        : { externalAccountBinding: { kid: acme.eab.keyId, hmacKey: options.hmacKey } }),
    });
    useOwnHttp(client, directory);
    return client;
  };
  const client = await withAccount(options, clientOf, newKey);
  const identifiers = acme.domains.map((value) => ({ type: 'dns', value }));
  let order = checkedOrder(await client.createOrder({ identifiers }), acme);
  await prove(client, order, options, directory);
  order = await settled(client, order, directory, options, (status) => status !== 'pending');
  const key = await newKey();
  const [, csr] = await library.crypto.createCsr({ altNames: [...acme.domains] }, key);
  if (order.status === 'ready') await client.finalizeOrder(order, csr);
  order = await settled(client, order, directory, options, (status) => status === 'valid');
  const cert: unknown = await client.getCertificate(order);
  if (typeof cert !== 'string')
    throw new DirectoryError('The authority has answered with something that is no certificate.');
  const issued = { key, cert, domains: [...acme.domains] };
  const fault = faultOf(issued, wallMs());
  if (fault !== null) throw new DirectoryError(`The authority has issued a certificate that ${fault}`);
  return issued;
}

/**
 * Replaces the HTTP client of the library. Its types do not declare this member, so a version without it is refused rather than
 * used with a client that has no limits.
 */
function useOwnHttp(client: Client, directory: Directory): void {
  const { http } = client as unknown as { readonly http?: { request?: unknown } };
  if (typeof http?.request !== 'function')
    throw new Error('acme-client has no http.request: its HTTP client cannot be replaced.');
  http.request = (url: string, method: string, { data }: { readonly data?: unknown } = {}) =>
    directory.request(url, method, data);
}

/** A client with an account. If the authority no longer knows the account, its key gets a new one. */
async function withAccount(
  { account, acme, keepAccount }: OrderOptions,
  clientOf: (account: Account) => Client,
  newKey: () => Promise<string>,
): Promise<Client> {
  const contact = acme.email === null ? {} : { contact: [`mailto:${acme.email}`] };
  if (account?.url) {
    const client = clientOf(account);
    try {
      await client.updateAccount({ ...contact });
      return client;
    } catch (error) {
      if (!(error instanceof DirectoryError) || error.problem !== 'accountDoesNotExist') throw error;
    }
  }
  const key = account?.key ?? (await newKey());
  if (account === null) await keepAccount({ key, url: null });
  const client = clientOf({ key, url: null });
  await client.createAccount({ termsOfServiceAgreed: true, ...contact });
  await keepAccount({ key, url: client.getAccountUrl() });
  return client;
}

/** Publishes the answers to all challenges that are open, and asks the authority to check them. */
async function prove(client: Client, order: Order, options: OrderOptions, directory: Directory): Promise<void> {
  const { acme } = options;
  const open = (await client.getAuthorizations(order)).filter(({ status }) => status !== 'valid');
  const answers: ChallengeAnswer[] = [];
  const challenges = [];
  for (const { identifier, challenges: offered = [] } of open) {
    if (!acme.domains.includes(identifier?.value)) {
      throw new DirectoryError('The authority asks for the proof of a domain that was not ordered.');
    }
    const challenge = offered.find(({ type }) => type === acme.challenge);
    if (challenge === undefined) {
      throw new DirectoryError(
        `The authority does not offer ${acme.challenge} for ${identifier.value}; set \`challenge\` to another.`,
      );
    }
    // Section 8.1 of RFC 8555. The token becomes part of a name in the store.
    if (!/^[A-Za-z0-9_-]{1,256}$/.test(challenge.token))
      throw new DirectoryError('The authority has sent a token of another form.');
    const subject = acme.challenge === 'http-01' ? challenge.token : identifier.value;
    answers.push({ subject, text: await client.getChallengeKeyAuthorization(challenge) });
    challenges.push(challenge);
  }
  if (answers.length === 0) return;
  await options.publish(answers);
  for (const challenge of challenges) await client.completeChallenge(challenge);
  for (const authorization of open) await proven(client, order, authorization, directory, options);
}

/** Waits until the authority has decided about one domain. */
async function proven(
  client: Client,
  order: Order,
  { url }: Authorization,
  directory: Directory,
  { sleep, signal, acme }: OrderOptions,
): Promise<void> {
  for (let poll = 0; poll < MAX_POLLS; poll++) {
    const now = (await client.getAuthorizations(order)).find((one) => one.url === url);
    if (now?.status === 'valid') return;
    if (now?.status !== 'pending') {
      const refused = now?.challenges?.find(({ type }) => type === acme.challenge) as
        | { error?: { detail?: unknown } }
        | undefined;
      const detail =
        typeof refused?.error?.detail === 'string' ? printable(refused.error.detail, 300) : 'no reason given';
      throw new DirectoryError(`The authority could not validate ${now?.identifier.value ?? 'a domain'}: ${detail}`);
    }
    await sleep(pauseOf(poll, directory), signal);
  }
  throw new DirectoryError('The authority has not finished the validation in time.');
}

async function settled(
  client: Client,
  before: Order,
  directory: Directory,
  { acme, sleep, signal }: OrderOptions,
  isDone: (status: string) => boolean,
): Promise<Order> {
  for (let poll = 0; poll < MAX_POLLS; poll++) {
    const order = checkedOrder(await client.getOrder(before), acme);
    if (order.status === 'invalid') {
      const { error } = order as { readonly error?: { readonly detail?: unknown } };
      const detail = typeof error?.detail === 'string' ? printable(error.detail, 300) : 'no reason given';
      throw new DirectoryError(`The authority has given up the order: ${detail}`);
    }
    if (isDone(order.status)) return order;
    await sleep(pauseOf(poll, directory), signal);
  }
  throw new DirectoryError('The authority has not finished the order in time.');
}

/** Milliseconds until the next look: half a second, then longer, and what the authority asks for up to a minute. */
function pauseOf(poll: number, { lastRetryAfterMs }: Directory): number {
  const ownMs = Math.min(FIRST_POLL_MS * (poll + 1), MAX_POLL_MS);
  return Math.max(ownMs, Math.min(lastRetryAfterMs, MAX_RETRY_AFTER_MS));
}

/**
 * Attack: an order with thousands of authorizations, which the library asks for all at once, each on a connection of its own, until
 * the gateway has no file left for its callers. There is one for each domain (RFC 8555 section 7.1.3).
 */
function checkedOrder(order: Order, { domains }: Acme): Order {
  if (
    typeof order !== 'object' ||
    order === null ||
    typeof order.status !== 'string' ||
    !Array.isArray(order.authorizations)
  ) {
    throw new DirectoryError('The authority has answered with something that is no order.');
  }
  if (order.authorizations.length > domains.length)
    throw new DirectoryError('The authority asks for more proofs than domains were ordered.');
  return order;
}

const MAX_CERTIFICATES = 10;

/** What makes an issued certificate unusable, the end of a sentence; null if nothing does. @param nowMs Unix milliseconds */
export function faultOf({ cert, domains }: Issued, nowMs: number): string | null {
  const blocks = certificateBlocks(cert);
  if (blocks.length === 0 || blocks.length > MAX_CERTIFICATES) return 'is no certificate in PEM form.';
  let leaf: X509Certificate;
  try {
    [leaf] = blocks.map((block) => new X509Certificate(block)) as [X509Certificate];
  } catch {
    return 'is no certificate in PEM form.';
  }
  const missing = domains.find(
    (domain) => leaf.checkHost(domain, { subject: 'never', wildcards: false }) === undefined,
  );
  if (missing !== undefined) return `is not for ${missing}.`;
  if (leaf.validFromDate.getTime() > nowMs + CLOCK_DIFFERENCE_MS)
    return 'is not valid yet. Check the clock of this machine.';
  if (leaf.validToDate.getTime() <= nowMs) return 'has expired. Check the clock of this machine.';
  return null;
}
