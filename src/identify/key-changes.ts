import type { Limits, Plan } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import { digestOf, mint, newKeyId, type Random } from './api-key.ts';
import { digestsOf, type StoredKey, type StoredSecret } from './key-store.ts';
import { visible } from './visible.ts';

/** What a new key is to be. */
export interface KeyWishes {
  readonly plan: string;
  readonly limits: Limits;
  readonly name: string | null;
  readonly owner: string | null;
  /** Absent: none. */
  readonly notes?: string | null;
  readonly expiresAtMs: number | null;
}

/** What making keys needs from outside. */
export interface Means {
  /** Of plans.yaml. */
  readonly plans: ReadonlyMap<string, Plan>;
  readonly pepper: string;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

const LONGEST_NAME = 100;
const LONGEST_NOTES = 1_000;
/** Secrets of one key that work at the same time. A bound, so that a record cannot grow without end. */
const MOST_SECRETS = 8;
/**
 * Retired digests that a key keeps, for the same reason. Half are the first ones: the secret that came with an import is
 * among them, and those that were made here afterwards are in no file.
 */
const MOST_RETIRED = 32;

/**
 * Makes a key that can be used: its plan is there and every custom window has a number (contract sections 2 and 5).
 * @returns the record for the store, and the secret, which nobody can show again
 * @throws Failure `refused`
 */
export function newKey(wishes: KeyWishes, means: Means): { readonly key: StoredKey; readonly secret: string } {
  refuseWishes(wishes, means);
  const { secret, stored } = newSecret(means);
  const key = keyOf(wishes, { id: newKeyId(means.random), createdAtMs: means.nowMs, secret: stored });
  return { key, secret };
}

/**
 * @throws Failure `refused` where a key made by these wishes now could not be used
 */
export function refuseWishes(wishes: KeyWishes, { plans, nowMs }: Pick<Means, 'plans' | 'nowMs'>): void {
  refuseUnusable(wishes, plans);
  refusePast(wishes.expiresAtMs, nowMs);
}

/**
 * The record of a key with what distinguishes it; whether it can be used is not looked at.
 * @throws Failure `refused` for a name, owner or notes that cannot be kept
 */
export function keyOf(
  { plan, limits, name, owner, notes, expiresAtMs }: KeyWishes,
  { id, createdAtMs, secret }: { readonly id: string; readonly createdAtMs: number; readonly secret: StoredSecret },
): StoredKey {
  return {
    id,
    plan,
    limits,
    name: label('name', name),
    owner: label('owner', owner),
    ...noted(notes ?? null),
    createdAtMs,
    expiresAtMs,
    revokedAtMs: null,
    secrets: [secret],
  };
}

/** A fresh secret, and what the store keeps of it. */
export function newSecret({ random, pepper, nowMs }: Pick<Means, 'random' | 'pepper' | 'nowMs'>): {
  readonly secret: string;
  readonly stored: StoredSecret;
} {
  const secret = mint(random);
  return { secret, stored: storedSecret(secret, pepper, nowMs) };
}

/** What the store keeps of a secret. */
export function storedSecret(secret: string, pepper: string, createdAtMs: number): StoredSecret {
  return { digest: digestOf(secret, pepper), last4: secret.slice(-4), createdAtMs, expiresAtMs: null };
}

/**
 * Gives a key a second secret and lets the present ones live for `overlapMs` at most; with 0 they end at once.
 * Secrets that have already ended are dropped, and their digests retired.
 * @throws Failure `conflict` for a key that is revoked or expired, or has too many secrets
 */
export function rotated(key: StoredKey, fresh: StoredSecret, overlapMs: number, nowMs: number): StoredKey {
  refuseDead(key, nowMs, 'rotated');
  const endsAtMs = nowMs + overlapMs;
  const before = key.secrets.map((secret) => ({
    ...secret,
    expiresAtMs: Math.min(secret.expiresAtMs ?? endsAtMs, endsAtMs),
  }));
  const [live, ended] = [before.filter((it) => it.expiresAtMs > nowMs), before.filter((it) => it.expiresAtMs <= nowMs)];
  if (live.length >= MOST_SECRETS) {
    throw new Failure(
      'conflict',
      `Key ${key.id} has ${live.length} secrets that still work, the most there can be. Rotate with an overlap of 0s to end them, or wait.`,
    );
  }
  const secrets = [fresh, ...live];
  return ended.length === 0 ? { ...key, secrets } : retiring({ ...key, secrets }, ended);
}

function retiring(key: StoredKey, ended: readonly { readonly digest: string }[]): StoredKey {
  const retired = [...(key.retired ?? []), ...ended.map(({ digest }) => digest)];
  if (retired.length <= MOST_RETIRED) return { ...key, retired };
  const half = MOST_RETIRED / 2;
  return { ...key, retired: [...retired.slice(0, half), ...retired.slice(-half)] };
}

/**
 * Puts a secret that was recognised as one of this key's under the newest pepper, so that it is recognised by that alone:
 * in the place of its digest under an older one, or among the retired ones where the key has no digest of it at all.
 * @param digests of the secret under every pepper, the newest first
 */
export function recognised(key: StoredKey, digests: readonly string[]): StoredKey {
  const [newest, ...older] = digests as [string, ...string[]];
  const own = digestsOf(key);
  if (own.includes(newest)) return key;
  if (!own.some((digest) => older.includes(digest))) return retiring(key, [{ digest: newest }]);
  const renewed = (digest: string) => (older.includes(digest) ? newest : digest);
  const secrets = key.secrets.map((secret) => ({ ...secret, digest: renewed(secret.digest) }));
  return { ...key, secrets, ...(key.retired === undefined ? {} : { retired: key.retired.map(renewed) }) };
}

/** Ends a key for good. A key that is revoked already stays as it is, so that revoking twice is no mistake. */
export function revoked(key: StoredKey, nowMs: number): StoredKey {
  return key.revokedAtMs === null ? { ...key, revokedAtMs: nowMs } : key;
}

/**
 * What is left of a key that is deleted for good: its id, and the digests of its secrets as retired ones, as far as a key keeps
 * those (`MOST_RETIRED`). To an earlier version of Tollgate it is a revoked key without secrets.
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
    deletedAtMs: nowMs,
  };
  return retiring(tombstone, key.secrets.toReversed());
}

/** What is to be different. What is absent stays; in `limits`, null goes back to the plan's own number. */
export interface KeyEdits {
  readonly plan?: string;
  readonly name?: string | null;
  readonly owner?: string | null;
  readonly notes?: string | null;
  readonly limits?: Readonly<Partial<Record<keyof Limits, Limits[keyof Limits] | null>>>;
  readonly expiresAtMs?: number | null;
}

/**
 * Changes what a key is, not what it is known by.
 * @throws Failure `conflict` for a revoked key, `refused` where the outcome could not be used
 */
export function edited(
  key: StoredKey,
  edits: KeyEdits,
  { plans, nowMs }: { readonly plans: ReadonlyMap<string, Plan>; readonly nowMs: number },
): StoredKey {
  if (key.revokedAtMs !== null) throw new Failure('conflict', `Key ${key.id} is revoked; make a new one instead.`);
  if (edits.expiresAtMs !== undefined) refusePast(edits.expiresAtMs, nowMs);
  const limits = Object.fromEntries(
    Object.entries({ ...key.limits, ...edits.limits }).filter(([, limit]) => limit !== null),
  );
  const { notes: notesBefore, ...rest } = key;
  const next: StoredKey = {
    ...rest,
    ...noted(edits.notes === undefined ? (notesBefore ?? null) : edits.notes),
    plan: edits.plan ?? key.plan,
    limits,
    name: edits.name === undefined ? key.name : label('name', edits.name),
    owner: edits.owner === undefined ? key.owner : label('owner', edits.owner),
    expiresAtMs: edits.expiresAtMs === undefined ? key.expiresAtMs : edits.expiresAtMs,
  };
  // A plan that has left plans.yaml must not keep anybody from renaming a key; a new plan or limit must fit.
  if (edits.plan !== undefined || edits.limits !== undefined) refuseUnusable(next, plans);
  return next;
}

function refuseUnusable({ plan: name, limits }: Pick<StoredKey, 'plan' | 'limits'>, plans: ReadonlyMap<string, Plan>) {
  const plan = plans.get(name);
  if (plan === undefined) {
    const known = [...plans.keys()].join(', ');
    throw new Failure('refused', `There is no plan '${visible(name)}' in plans.yaml. The plans are: ${known}.`);
  }
  const missing = Object.entries(plan.limits)
    .filter(([window, limit]) => limit === 'custom' && limits[window as keyof Limits] === undefined)
    .map(([window]) => window);
  if (missing.length === 0) return;
  throw new Failure(
    'refused',
    `Each key of the plan '${name}' brings its own numbers, and this one has none for: ${missing.join(', ')}. Give a limit for each, such as ${missing[0]}=1000.`,
  );
}

function refuseDead(key: StoredKey, nowMs: number, what: string): void {
  const why =
    key.revokedAtMs !== null ? 'revoked' : key.expiresAtMs !== null && nowMs >= key.expiresAtMs ? 'expired' : null;
  if (why !== null) throw new Failure('conflict', `Key ${key.id} is ${why} and cannot be ${what}.`);
}

function refusePast(expiresAtMs: number | null, nowMs: number): void {
  if (expiresAtMs === null || expiresAtMs > nowMs) return;
  throw new Failure('refused', 'The time at which the key is to expire has already passed; give one in the future.');
}

/** Names go into tables, logs and headers of answers to operators: one line of visible text, bounded. Empty is none. */
function label(what: 'name' | 'owner', text: string | null): string | null {
  if (text === null || text === '') return null;
  if ([...text].length <= LONGEST_NAME && text.isWellFormed() && !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text)) return text;
  throw new Failure(
    'refused',
    `The ${what} must be at most ${LONGEST_NAME} characters in one line, without control characters.`,
  );
}

/** Notes are for people who look after keys: text of several lines, bounded. Empty is none. */
function noted(text: string | null): Pick<StoredKey, 'notes'> {
  if (text === null || text === '') return {};
  if ([...text].length <= LONGEST_NOTES && text.isWellFormed() && !/(?![\n\t])[\p{Cc}\p{Cf}]/u.test(text)) {
    return { notes: text };
  }
  throw new Failure(
    'refused',
    `The notes must be at most ${LONGEST_NOTES} characters, without control characters other than line breaks and tabs.`,
  );
}
