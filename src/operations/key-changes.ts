import { hash } from 'node:crypto';
import { accountIdOf } from '../admit/account-id.ts';
import { Failure } from '../failure.ts';
import { mint, newKeyId, OWN_FORM, type Random } from '../identify/api-key.ts';
import { type Hashed, hashedUnder } from '../identify/secret-marks.ts';
import { type AttributeEdits, type Attributes, changedAttributes, withoutAttributes } from '../model/attributes.ts';
import type { Limits, Plan } from '../model/plan.ts';
import { type AppliedEntry, digestsOf, type StoredKey, type StoredSecret } from '../model/record.ts';
import { workingSecrets } from './key-report.ts';
import { visible } from './operation-values.ts';
import { type suspensionOf, withoutSuspension, withSuspension } from './suspensions.ts';

/** What a new key is to have. */
export interface KeyAttributes extends AttributeEdits {
  readonly plan: string;
  readonly limits: Limits;
  readonly expiresAtMs: number | null;
  /** The id of the customer that the key belongs to; absent for a key without one. `plan` is then the customer's. */
  readonly customer?: string;
}

/** What `newKey` needs besides the attributes. */
interface SecretSources {
  /** The plans of plans.yaml by name. */
  readonly plans: ReadonlyMap<string, Plan>;
  readonly pepper: string;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** How many secrets of one key may work at the same time. The bound keeps its record from growing without end. */
const MAX_SECRETS = 8;
/**
 * How many retired digests a key keeps, for the same reason: half of them the oldest, half the newest. An imported secret is
 * among the oldest, so a second import of the same file still recognises it. No file holds the secrets that Tollgate made.
 */
const MAX_RETIRED = 32;

/**
 * Makes a key. Its plan must exist, and every `custom` window must have a limit (contract sections 2 and 5).
 * @returns the record for the store, and the secret, which cannot be shown again
 * @throws Failure `refused`
 */
export function newKey(
  attributes: KeyAttributes,
  sources: SecretSources,
): { readonly key: StoredKey; readonly secret: string } {
  validateAttributes(attributes, sources);
  const { secret, stored } = newSecret(sources);
  const key = keyOf(attributes, { id: newKeyId(sources.random), createdAtMs: sources.nowMs, secret: stored });
  return { key, secret };
}

/**
 * Checks that a key with these attributes could be used.
 * @throws Failure `refused` if it could not
 */
export function validateAttributes(
  attributes: KeyAttributes,
  { plans, nowMs }: Pick<SecretSources, 'plans' | 'nowMs'>,
): void {
  refuseUnusable(attributes, plans);
  refusePast(attributes.expiresAtMs, nowMs, 'key');
  changedAttributes({}, attributes);
}

/**
 * The record of a new key. It does not check that the key could be used; `validateAttributes` does.
 * @throws Failure `refused` for a fault in an attribute
 */
export function keyOf(
  { plan, limits, expiresAtMs, customer, ...attributes }: KeyAttributes,
  { id, createdAtMs, secret }: { readonly id: string; readonly createdAtMs: number; readonly secret: StoredSecret },
): StoredKey {
  return {
    id,
    plan,
    limits,
    ...changedAttributes({}, attributes),
    createdAtMs,
    expiresAtMs,
    revokedAtMs: null,
    secrets: [secret],
    ...(customer === undefined ? {} : { customer }),
  };
}

/** A new secret, and the record of it for the store. */
export function newSecret({ random, pepper, nowMs }: Pick<SecretSources, 'random' | 'pepper' | 'nowMs'>): {
  readonly secret: string;
  readonly stored: StoredSecret;
} {
  const secret = mint(random);
  return { secret, stored: storedSecret(secret, pepper, nowMs) };
}

/** The record of a secret that Tollgate has made, for the store: its digest and last four characters, not the secret itself. */
export function storedSecret(secret: string, pepper: string, createdAtMs: number): StoredSecret {
  const known = { last4: secret.slice(-4), createdAtMs, form: OWN_FORM };
  return storedHash(hash('sha256', secret, 'buffer'), pepper, known);
}

/** The record of a secret of which no more is known than its SHA-256 and this. */
export function storedHash(
  sha256: Uint8Array,
  pepper: string,
  known: Pick<StoredSecret, 'last4' | 'createdAtMs' | 'form'>,
): StoredSecret {
  return { ...hashedUnder(sha256, pepper), ...known, expiresAtMs: null };
}

/**
 * Adds a new secret to a key. The present secrets work for at most another `overlapMs`; with 0 they end at once. Secrets
 * that have ended are dropped, and their digests are retired.
 * @throws Failure `conflict` for a key that is revoked or expired, or has too many secrets
 */
export function rotated(key: StoredKey, fresh: StoredSecret, overlapMs: number, nowMs: number): StoredKey {
  refuseDead(key, nowMs, 'rotated');
  const endsAtMs = nowMs + overlapMs;
  const before = key.secrets.map((secret) => ({
    ...secret,
    expiresAtMs: Math.min(secret.expiresAtMs ?? endsAtMs, endsAtMs),
  }));
  const live = before.filter((secret) => secret.expiresAtMs > nowMs);
  const ended = before.filter((secret) => secret.expiresAtMs <= nowMs);
  if (live.length >= MAX_SECRETS) {
    throw new Failure(
      'conflict',
      `Key ${key.id} has ${live.length} secrets that still work, the most there can be. Rotate with an overlap of 0s to end them, or wait.`,
    );
  }
  const secrets = [fresh, ...live];
  return ended.length === 0 ? { ...key, secrets } : withRetired({ ...key, secrets }, ended);
}

/**
 * Ends one of several secrets of a key at once, and retires its digest. The others, the plan and the counts stay.
 * @param last4 its last four characters; empty for a secret of which only the hash is known
 * @throws Failure `not_found` if no secret that works ends so; `conflict` for a revoked key, if several secrets end so, and for the
 *   last secret that works
 */
export function withSecretEnded(key: StoredKey, last4: string, nowMs: number): StoredKey {
  if (key.revokedAtMs !== null) {
    throw new Failure('conflict', `Key ${key.id} is revoked: none of its secrets works any more.`);
  }
  const working = workingSecrets(key, nowMs);
  const [found, ...others] = working.filter((secret) => secret.last4 === last4);
  if (found === undefined) {
    throw new Failure('not_found', `Key ${key.id} has no secret that works and ends with these characters.`);
  }
  if (working.length === 1) {
    throw new Failure(
      'conflict',
      `This is the only secret of key ${key.id} that works. Rotate the key to replace it, or revoke the key.`,
    );
  }
  if (others.length > 0) {
    throw new Failure(
      'conflict',
      `Several secrets of key ${key.id} end with these characters. Rotate the key as leaked: that ends all of its secrets and makes a new one.`,
    );
  }
  return withRetired({ ...key, secrets: key.secrets.filter((secret) => secret !== found) }, [found]);
}

function withRetired(key: StoredKey, ended: readonly { readonly digest: string }[]): StoredKey {
  const retired = [...(key.retired ?? []), ...ended.map(({ digest }) => digest)];
  if (retired.length <= MAX_RETIRED) return { ...key, retired };
  const half = MAX_RETIRED / 2;
  return { ...key, retired: [...retired.slice(0, half), ...retired.slice(-half)] };
}

/**
 * Stores the digest of a recognised secret under the newest pepper, so that the older peppers can be dropped. The new digest
 * replaces the one under an older pepper, or becomes a retired digest if the key has no digest of the secret.
 * @param newest the secret under the newest pepper
 * @param older its digests under the others
 */
export function recognised(key: StoredKey, newest: Hashed, older: readonly string[]): StoredKey {
  const own = digestsOf(key);
  if (own.includes(newest.digest)) return key;
  if (!own.some((digest) => older.includes(digest))) return withRetired(key, [newest]);
  const renewed = (digest: string) => (older.includes(digest) ? newest.digest : digest);
  const secrets = key.secrets.map((secret) => (older.includes(secret.digest) ? { ...secret, ...newest } : secret));
  return { ...key, secrets, ...(key.retired === undefined ? {} : { retired: key.retired.map(renewed) }) };
}

/** Ends a key for good. Revoking a key twice is no error; the second time changes nothing. */
export function revoked(key: StoredKey, nowMs: number): StoredKey {
  return key.revokedAtMs === null ? { ...key, revokedAtMs: nowMs } : key;
}

/**
 * Suspends a key or a customer, or gives a suspended one another end and reason. It returns the same object if nothing differs.
 * @throws Failure `conflict` for a revoked key; `refused` as `suspensionOf`
 */
export function suspended<T extends Suspendable>(
  record: T,
  given: Parameters<typeof suspensionOf>[1],
  nowMs: number,
): T {
  refuseRevoked(record, 'suspended');
  return withSuspension(record, given, nowMs);
}

/** Ends the suspension of a key or a customer; without one nothing changes. @throws Failure `conflict` for a revoked key */
export function resumed<T extends Suspendable>(record: T): T {
  refuseRevoked(record, 'resumed');
  return withoutSuspension(record) as T;
}

type Suspendable = Pick<StoredKey, 'id' | 'suspended'> & { readonly revokedAtMs?: number | null };

function refuseRevoked({ id, revokedAtMs = null }: Suspendable, what: string): void {
  if (revokedAtMs !== null) throw new Failure('conflict', `Key ${id} is revoked and cannot be ${what}.`);
}

/**
 * The tombstone of a deleted key: its id, and the digests of its secrets among its retired digests (at most `MAX_RETIRED`).
 * An earlier version of Tollgate reads it as a revoked key without secrets.
 * @throws Failure `conflict` for a key that can still be used
 */
export function deleted(key: StoredKey, nowMs: number): StoredKey {
  if (key.deletedAtMs !== undefined) return key;
  const hasExpired = key.expiresAtMs !== null && nowMs >= key.expiresAtMs;
  if (key.revokedAtMs === null && !hasExpired) {
    throw new Failure('conflict', `Key ${key.id} can still be used. Revoke it first, then delete it.`);
  }
  const tombstone: StoredKey = {
    id: key.id,
    plan: '',
    limits: {},
    name: null,
    owner: null,
    createdAtMs: key.createdAtMs,
    expiresAtMs: null,
    revokedAtMs: key.revokedAtMs ?? nowMs,
    secrets: [],
    ...(key.retired === undefined ? {} : { retired: key.retired }),
    // A gateway forgets the accounts of the key when it reads of the deletion.
    ...(key.customer === undefined ? {} : { customer: key.customer }),
    ...(key.formerAccounts === undefined ? {} : { formerAccounts: key.formerAccounts }),
    deletedAtMs: nowMs,
  };
  return withRetired(tombstone, key.secrets.toReversed());
}

/** What is to change in a key or a customer. Absent members stay; in `limits`, null restores the plan's own number. */
export interface RecordEdits extends AttributeEdits {
  readonly plan?: string;
  readonly limits?: Readonly<Partial<Record<keyof Limits, Limits[keyof Limits] | null>>>;
  readonly expiresAtMs?: number | null;
  /** The entry of keys.yaml that manages it from now on. */
  readonly applied?: AppliedEntry;
}

/** What a key and a customer have in common. */
interface Editable extends Attributes, Pick<StoredKey, 'id' | 'plan' | 'limits' | 'expiresAtMs' | 'applied'> {
  readonly revokedAtMs?: number | null;
  readonly customer?: string;
}

/**
 * Changes the attributes of a key, or of a customer. Its id and secrets stay.
 * @throws Failure `conflict` for a revoked key, and for the plan of a key that belongs to a customer; `refused` if the changed one could
 *   not be used
 */
export function edited<T extends Editable>(
  record: T,
  edits: RecordEdits,
  { plans, nowMs }: { readonly plans: ReadonlyMap<string, Plan>; readonly nowMs: number },
  what: 'key' | 'customer' = 'key',
): T {
  if ((record.revokedAtMs ?? null) !== null) {
    throw new Failure('conflict', `Key ${record.id} is revoked; make a new one instead.`);
  }
  if (edits.plan !== undefined && record.customer !== undefined) {
    const message = `Key ${record.id} belongs to customer ${record.customer}, which has the plan. Change the plan of the customer, or move the key.`;
    throw new Failure('conflict', message);
  }
  if (edits.expiresAtMs !== undefined) refusePast(edits.expiresAtMs, nowMs, what);
  const limits = Object.fromEntries(
    Object.entries({ ...record.limits, ...edits.limits }).filter(([, limit]) => limit !== null),
  );
  const next = {
    ...withoutAttributes(record),
    ...changedAttributes(record, edits),
    plan: edits.plan ?? record.plan,
    limits,
    expiresAtMs: edits.expiresAtMs === undefined ? record.expiresAtMs : edits.expiresAtMs,
    ...(edits.applied === undefined ? {} : { applied: edits.applied }),
  } as unknown as T;
  // Operators can rename a key whose plan is no longer in plans.yaml. A new plan or limit is checked.
  if (edits.plan !== undefined || edits.limits !== undefined) refuseUnusable(next, plans, what);
  return next;
}

/** @throws Failure `conflict` for a revoked key */
export function refuseMoveOf(key: StoredKey): void {
  refuseRevoked(key, 'moved');
}

/** Former accounts that a key keeps, so that its record stays bounded: those of its last moves. */
const MAX_FORMER = 8;

/**
 * Moves a key to a customer, or away from its own. Its counts start anew, under another account.
 * @param to `plan`: that of the customer, or the plan of the key from now on
 * @param plans null: the key is put back, as it was, whatever the plans are by now
 * @throws Failure `conflict` for a revoked key; `refused` if the key could not be used without a customer
 */
export function moved(
  key: StoredKey,
  to: { readonly customer: string | null; readonly plan: string },
  plans: ReadonlyMap<string, Plan> | null,
): StoredKey {
  refuseMoveOf(key);
  const { customer, formerAccounts = [], ...rest } = key;
  if ((customer ?? null) === to.customer) return key;
  const present = accountIdOf(key.id, to.customer);
  const former = [accountIdOf(key.id, customer ?? null), ...formerAccounts].filter((id) => id !== present);
  const next: StoredKey = {
    ...rest,
    plan: to.plan,
    ...(to.customer === null ? {} : { customer: to.customer }),
    formerAccounts: former.slice(0, MAX_FORMER),
  };
  if (plans !== null) refuseUnusable(next, plans);
  return next;
}

/** @throws Failure `refused` for a plan that does not exist, or one with `custom` windows that the limits lack */
export function refuseUnusable(
  { plan: name, limits, customer }: Pick<StoredKey, 'plan' | 'limits' | 'customer'>,
  plans: ReadonlyMap<string, Plan>,
  what: 'key' | 'customer' = 'key',
): void {
  const plan = plans.get(name);
  if (plan === undefined) {
    const known = [...plans.keys()].join(', ');
    throw new Failure('refused', `There is no plan '${visible(name)}'. The plans are: ${known}.`);
  }
  // The customer of a key brings the numbers of the plan.
  if (customer !== undefined) return;
  const missing = Object.entries(plan.limits)
    .filter(([window, limit]) => limit === 'custom' && limits[window as keyof Limits] === undefined)
    .map(([window]) => window);
  if (missing.length === 0) return;
  const options = missing.map((window) => `--limit ${window}=1000`).join(' ');
  throw new Failure(
    'refused',
    `Each ${what} of the plan '${name}' brings its own numbers, and this one has none for: ${missing.join(', ')}. Give a limit for each; in a command: ${options}.`,
  );
}

function refuseDead(key: StoredKey, nowMs: number, what: string): void {
  const why =
    key.revokedAtMs !== null ? 'revoked' : key.expiresAtMs !== null && nowMs >= key.expiresAtMs ? 'expired' : null;
  if (why !== null) throw new Failure('conflict', `Key ${key.id} is ${why} and cannot be ${what}.`);
}

/** @throws Failure `refused` */
export function refusePast(expiresAtMs: number | null, nowMs: number, what: 'key' | 'customer'): void {
  if (expiresAtMs === null || expiresAtMs > nowMs) return;
  throw new Failure(
    'refused',
    `The time at which the ${what} is to expire has already passed; give one in the future.`,
  );
}
