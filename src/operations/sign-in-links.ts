import { createHmac, hash } from 'node:crypto';
import { isSameDigest } from '../identify/api-key.ts';
import type { KeyStore } from '../identify/record-store.ts';

/*
 * The one-time links that sign in to the console, which a command on the store of the gateways makes: `tollgate console`, and
 * `tollgate start` for its own gateway unless the admin port is on loopback (`src/operations/start-link.ts`). Any gateway on the store takes them, so a link needs no running gateway when it is made.
 *
 * Attack: a program that may write to the store, but does not know the pepper, or knows the pepper and not the store, signs itself in
 * as an admin. So a code has a MAC under the pepper, and is valid only while the store has the offer that was written with it.
 *
 * Attack: a stranger tries codes. One without the MAC is refused without a call to the store.
 */

/** How long a link is valid, by the store's clock. */
export const LINK_LIFETIME_MS = 10 * 60_000;
/** 128 bits each; 16 bytes are 22 characters of base64url. */
const SECRET_BYTES = 16;
const SECRET_LENGTH = 22;
const CODE = /^[\w-]{44}$/;
/** Reserved in place of an offer that does not exist. No name of an operator is the same. */
const NO_OFFER = '-';

interface LinkSources {
  readonly keys: Pick<KeyStore, 'reserve'>;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly random: (bytes: number) => Buffer;
}

/**
 * Makes the code of a link that signs in once, as an admin, within ten minutes.
 * @param operator the name under which the link signs in, for the record of changes
 * @throws Failure `store_unavailable`
 */
export async function offerSignIn(operator: string, { keys, peppers, random }: LinkSources): Promise<string> {
  const secret = random(SECRET_BYTES).toString('base64url');
  const code = secret + macOf(secret, peppers[0]!);
  await keys.reserve(digestOf('offered', code), operator, LINK_LIFETIME_MS);
  return code;
}

/**
 * Uses the code of a link up.
 * @returns the name of the operator whom it signs in; null for a code that is wrong, used or too old
 * @throws Failure `store_unavailable`
 */
export async function takeSignIn(code: string, { keys, peppers, random }: LinkSources): Promise<string | null> {
  if (!CODE.test(code)) return null;
  const [secret, mac] = [code.slice(0, SECRET_LENGTH), code.slice(SECRET_LENGTH)];
  if (!peppers.some((pepper) => isSameDigest(macOf(secret, pepper), mac))) return null;
  const operator = await keys.reserve(digestOf('offered', code), NO_OFFER, LINK_LIFETIME_MS);
  if (operator === NO_OFFER) return null;
  // The first of several at the same time gets its own token back. It outlives the offer, which was made earlier.
  const own = random(SECRET_BYTES).toString('base64url');
  return (await keys.reserve(digestOf('used', code), own, LINK_LIFETIME_MS)) === own ? operator : null;
}

/** The input never has the length of a SHA-256, so this is never the digest of a secret of a key. */
function macOf(secret: string, pepper: string): string {
  const mac = createHmac('sha256', pepper).update(`tollgate sign-in link ${secret}`).digest();
  return mac.subarray(0, SECRET_BYTES).toString('base64url');
}

function digestOf(what: 'offered' | 'used', code: string): string {
  return hash('sha256', `tollgate sign-in link ${what} ${code}`, 'base64url');
}
