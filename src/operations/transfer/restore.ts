import { isDeepStrictEqual } from 'node:util';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
import type { CustomerStore, StoredCustomer } from '../../identify/customer-store.ts';
import { digestsOf, type KeyStore, type StoredKey } from '../../identify/key-store.ts';
import { orUnreadable, UnreadableRecord } from '../../identify/stored-record.ts';
import { longerOf } from '../../identify/suspension.ts';
import { ATTRIBUTE_NAMES, changedAttributes, withoutAttributes } from '../../model/attributes.ts';

/** What became of one key, or one customer, of a backup. */
export interface RestoredKey {
  readonly id: string;
  /**
   * `restored`: the store lacked it. `same`: the store has it so. `left`: the store has it otherwise, and it was left as it is.
   * `replaced`: the store had it otherwise, and its attributes are those of the backup now. `unknown`: written, but a failover may
   * undo that. `refused`: it was deleted for good, or another key has one of its secrets. `unreadable`: the store has something under
   * its name that cannot be read, which was left as it is.
   */
  readonly kind: 'restored' | 'same' | 'left' | 'replaced' | 'unknown' | 'refused' | 'unreadable';
  /** A sentence about it; null if there is nothing to say. */
  readonly why: string | null;
}

interface RestoreOptions {
  readonly keys: Pick<KeyStore, 'get' | 'ownerOf' | 'createEach' | 'update'>;
  /** Whether the attributes of keys that the store has otherwise are replaced. */
  readonly force: boolean;
  /** If true, nothing is written, and the outcomes are those that would be. */
  readonly dryRun: boolean;
}

const BATCH_KEYS = 1_000;

/**
 * Writes the keys of a backup to the store. Restoring twice is the same as once, so after an interruption the operator starts again.
 *
 * A key that the store has is newer than the backup. It is left as it is unless `force` is set, and even then:
 * - a key that was revoked or deleted since is not brought back,
 * - a secret that was rotated away since does not work again,
 * - a key or a customer that was suspended since is not resumed: of two suspensions the one that ends last counts,
 * - a record that cannot be read is not replaced, because it may say that the key was revoked.
 * Attack: a key leaked and was revoked or rotated. A restore of an earlier backup would let its thief in again.
 * @throws Failure `store_unavailable`; the keys reported until then are done
 */
export async function* restoreKeys(
  backup: AsyncIterable<StoredKey>,
  options: RestoreOptions,
): AsyncGenerator<RestoredKey> {
  let batch: StoredKey[] = [];
  for await (const key of backup) {
    batch.push(key);
    if (batch.length < BATCH_KEYS) continue;
    yield* await restoreBatch(batch, options);
    batch = [];
  }
  yield* await restoreBatch(batch, options);
}

/**
 * Writes the customers of a backup to the store, before its keys. The same rules apply: one that is there is left as it is unless
 * `force` is set, and one that was deleted since does not come back.
 * @throws Failure `store_unavailable`; the customers reported until then are done
 */
export async function* restoreCustomers(
  backup: AsyncIterable<StoredCustomer>,
  { customers, force, dryRun }: Pick<RestoreOptions, 'force' | 'dryRun'> & { readonly customers: CustomerStore },
): AsyncGenerator<RestoredKey> {
  const comparison: Comparison<StoredCustomer> = {
    differences: differencesOfCustomer,
    putBack: putBackAttributes,
    update: (id, change) => customers.update(id, change),
  };
  for await (const customer of backup) {
    const { id } = customer;
    const there = await orUnreadable(customers.get(id, { evenDeleted: true }));
    if (there instanceof UnreadableRecord) yield unreadable(there);
    else if (there === null) {
      const durability = dryRun ? DURABLE : await customers.create(customer);
      yield durability.kind === 'durable' ? { id, kind: 'restored', why: null } : { id, kind: 'unknown', why: UNKNOWN };
    } else yield await compare(customer, there, comparison, { force, dryRun });
  }
}

/** How a kind of record is compared with the one of the backup, and put back. */
interface Comparison<T> {
  /** What differs, in words for operators. */
  readonly differences: (stored: T, there: T) => string[];
  /** The record of the store with what the backup may give back to it. */
  readonly putBack: (stored: T, present: T) => T;
  readonly update: (id: string, change: (present: T) => T) => Promise<{ readonly durability: Durability } | null>;
}

/** Compares a record of the backup with the one that the store has, and puts it back where `force` asks for it. */
async function compare<T extends { readonly id: string; readonly deletedAtMs?: number }>(
  stored: T,
  there: T,
  { differences, putBack, update }: Comparison<T>,
  { force, dryRun }: Pick<RestoreOptions, 'force' | 'dryRun'>,
): Promise<RestoredKey> {
  const { id } = stored;
  if (there.deletedAtMs !== undefined) {
    return { id, kind: 'refused', why: 'was deleted here for good; it is not brought back.' };
  }
  const different = differences(stored, there);
  if (different.length === 0) return { id, kind: 'same', why: null };
  const text = different.join(', ');
  if (!force) return { id, kind: 'left', why: `differs in ${text}; left as it is. --force puts back what may be.` };
  const remaining = differences(stored, putBack(stored, there));
  if (remaining.length === different.length) {
    return { id, kind: 'left', why: `differs in ${text}, which is not put back; left as it is.` };
  }
  const updated = dryRun ? null : await update(id, (present) => putBack(stored, present));
  if (updated !== null && updated.durability.kind !== 'durable') return { id, kind: 'unknown', why: UNKNOWN };
  return { id, kind: 'replaced', why: whatChanged(different, remaining, dryRun) };
}

/** The record of the store with the attributes of the backup. A suspension on either side stays. */
function putBackAttributes<T extends StoredCustomer | StoredKey>(stored: T, present: T): T {
  const { plan, limits, expiresAtMs } = stored;
  const longer = longerOf(present.suspended, stored.suspended);
  return {
    ...withoutAttributes<T>(present),
    ...{ plan, limits, expiresAtMs },
    ...changedAttributes(stored, {}),
    ...(longer === undefined ? {} : { suspended: longer }),
  } as unknown as T;
}

function differencesOfCustomer(customer: StoredCustomer, there: StoredCustomer): string[] {
  const different: string[] = ATTRIBUTES.filter((member) => !isDeepStrictEqual(customer[member], there[member]));
  if (customer.expiresAtMs !== there.expiresAtMs) different.push('end');
  if (!isDeepStrictEqual(customer.suspended, there.suspended)) different.push('suspension');
  return different;
}

/** What a restore has put back, and what it has left. */
function whatChanged(different: readonly string[], remaining: readonly string[], dryRun: boolean): string {
  const rest = remaining.length === 0 ? '' : `; not put back: ${remaining.join(', ')}`;
  const changed = different.filter((name) => !remaining.includes(name)).join(', ');
  return `${dryRun ? 'would get' : 'has'} the backup's ${changed}${rest}.`;
}

async function restoreBatch(batch: readonly StoredKey[], options: RestoreOptions): Promise<RestoredKey[]> {
  const there = await Promise.all(batch.map(({ id }) => orUnreadable(options.keys.get(id, { evenDeleted: true }))));
  const missing = batch.filter((_, i) => there[i] === null);
  const comparison: Comparison<StoredKey> = {
    differences: differencesOf,
    putBack,
    update: (id, change) => options.keys.update(id, change),
  };
  const made = new Map((await create(missing, options)).map((outcome) => [outcome.id, outcome]));
  return Promise.all(
    batch.map((key, i) => {
      const present = there[i] ?? null;
      if (present instanceof UnreadableRecord) return unreadable(present);
      return present === null ? made.get(key.id)! : compare(key, present, comparison, options);
    }),
  );
}

async function create(
  missing: readonly StoredKey[],
  { keys, dryRun }: RestoreOptions,
): Promise<readonly RestoredKey[]> {
  const stored = dryRun
    ? await Promise.all(missing.map(async (key) => ((await isTaken(key, keys)) ? 'taken' : 'created')))
    : await keys.createEach(missing);
  return missing.map(({ id }, i): RestoredKey => {
    if (stored[i] === 'created') return { id, kind: 'restored', why: null };
    if (stored[i] === 'unknown') return { id, kind: 'unknown', why: UNKNOWN };
    return { id, kind: 'refused', why: 'another key has one of its secrets; it was not restored.' };
  });
}

async function isTaken(key: StoredKey, keys: RestoreOptions['keys']): Promise<boolean> {
  const owners = await Promise.all(digestsOf(key).map((digest) => orUnreadable(keys.ownerOf(digest))));
  return owners.some((owner) => owner !== null);
}

function unreadable({ id, message }: UnreadableRecord): RestoredKey {
  return { id, kind: 'unreadable', why: `was left as it is. ${message}` };
}

const UNKNOWN = 'was written, but a failover of Redis may still undo it; restore again to be sure.';

/** The key of the store with the attributes of the backup. Its secrets stay, and so does a revocation on either side. */
function putBack(key: StoredKey, present: StoredKey): StoredKey {
  return { ...putBackAttributes(key, present), revokedAtMs: present.revokedAtMs ?? key.revokedAtMs };
}

const ATTRIBUTES = ['plan', 'limits', ...ATTRIBUTE_NAMES] as const;

/** What differs, in words for operators. */
function differencesOf(key: StoredKey, there: StoredKey): string[] {
  const different: string[] = ATTRIBUTES.filter((name) => !isDeepStrictEqual(key[name], there[name]));
  if (key.expiresAtMs !== there.expiresAtMs) different.push('end');
  if (key.revokedAtMs !== there.revokedAtMs) different.push('revocation');
  if (!isDeepStrictEqual(key.suspended, there.suspended)) different.push('suspension');
  if (key.customer !== there.customer) different.push('customer');
  if (!isDeepStrictEqual(secretsOf(key), secretsOf(there))) different.push('secrets');
  return different;
}

/** Without digests: after a change of the pepper, the same secrets have others. */
function secretsOf({ secrets }: StoredKey) {
  return secrets.map(({ last4, createdAtMs, expiresAtMs }) => ({ last4, createdAtMs, expiresAtMs }));
}
