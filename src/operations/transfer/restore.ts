import { setImmediate as nextTurn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Failure } from '../../failure.ts';
import { isSameDigest } from '../../identify/api-key.ts';
import { pepperCheckOf } from '../../identify/pepper-record.ts';
import type { CustomerStore, KeyStore } from '../../identify/record-store.ts';
import { ATTRIBUTE_NAMES, changedAttributes, withoutAttributes } from '../../model/attributes.ts';
import {
  digestsOf,
  isKey,
  type Listed,
  longerOf,
  orUnreadable,
  type StoredKey,
  type StoredRecord,
  UnreadableRecord,
} from '../../model/record.ts';
import { found, storeOf } from './keys-and-customers.ts';

/** What became of one record of a backup. */
export interface RestoredRecord {
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
  readonly customers: Pick<CustomerStore, 'get' | 'create' | 'update'>;
  /** Whether the attributes of records that the store has otherwise are replaced. */
  readonly force: boolean;
  /** If true, nothing is written, and the outcomes are those that would be. */
  readonly dryRun: boolean;
}

/** Records that are looked up in one turn of the event loop. */
const LOOKED_UP_AT_ONCE = 100;

/**
 * Writes records of a backup to the store, together. Restoring twice is the same as once, so after an interruption the operator starts again.
 *
 * A record that the store has is newer than the backup. It is left as it is unless `force` is set, and even then:
 * - a key that was revoked, and a record that was deleted since, is not brought back,
 * - a secret that was rotated away since does not work again,
 * - a key or a customer that was suspended since is not resumed: of two suspensions the one that ends last counts,
 * - a record that cannot be read is not replaced, because it may say that the key was revoked.
 * Attack: a key leaked and was revoked or rotated. A restore of an earlier backup would let its thief in again.
 * @returns the outcomes in the order of the records
 * @throws Failure `store_unavailable`; some of the records may be done
 */
export async function restoreRecords(
  records: readonly StoredRecord[],
  options: RestoreOptions,
): Promise<readonly RestoredRecord[]> {
  const there: (Listed<StoredRecord> | null)[] = [];
  for (let i = 0; i < records.length; i += LOOKED_UP_AT_ONCE) {
    await nextTurn();
    const part = records.slice(i, i + LOOKED_UP_AT_ONCE);
    there.push(...(await Promise.all(part.map(({ id }) => found(id, options)))));
  }
  const made = await create(
    records.filter((_, i) => there[i] === null),
    options,
  );
  return Promise.all(records.map((record, i) => made.get(record.id) ?? restoreOver(record, there[i]!, options)));
}

/**
 * How many of the peppers of a backup the store does not use.
 * @param checks a check value of each pepper of the backup
 * @param peppers those of the store
 * @throws Failure `conflict` if no key of the backup could work in the store
 */
export function lackedPeppers(checks: readonly string[], peppers: readonly string[]): number {
  const inUse = peppers.map(pepperCheckOf);
  const lacked = checks.filter((check) => !inUse.some((one) => isSameDigest(one, check))).length;
  if (lacked < checks.length) return lacked;
  throw new Failure(
    'conflict',
    'The keys of the backup were made under another pepper than that of this store, and none of them would work. ' +
      'Set KEY_PEPPER to the pepper of that time, or to `new,old` if it was changed since. A store that made its own pepper has it in ' +
      'its file tollgate.pepper.',
  );
}

/** Compares a record of the backup with the one that the store has, and puts it back over that where `force` asks for it. */
async function restoreOver(
  stored: StoredRecord,
  there: Listed<StoredRecord>,
  options: RestoreOptions,
): Promise<RestoredRecord> {
  const { id } = stored;
  const { force, dryRun } = options;
  const outcome = (kind: RestoredRecord['kind'], why: string | null = null) => ({ id, kind, why });
  if (there instanceof UnreadableRecord) return outcome('unreadable', `was left as it is. ${there.message}`);
  if (there.deletedAtMs !== undefined) return outcome('refused', 'was deleted here for good; it is not brought back.');
  const different = differences(stored, there);
  if (different.length === 0) return outcome('same');
  const text = different.join(', ');
  if (!force) return outcome('left', `differs in ${text}; left as it is. --force puts back what may be.`);
  const remaining = differences(stored, putBack(stored, there));
  if (remaining.length === different.length) {
    return outcome('left', `differs in ${text}, which is not put back; left as it is.`);
  }
  const updated = dryRun ? null : await storeOf<'update'>(id, options).update(id, (now) => putBack(stored, now));
  if (updated !== null && updated.durability.kind !== 'durable') return outcome('unknown', UNKNOWN);
  const rest = remaining.length === 0 ? '' : `; not put back: ${remaining.join(', ')}`;
  const changed = different.filter((name) => !remaining.includes(name)).join(', ');
  return outcome('replaced', `${dryRun ? 'would get' : 'has'} the backup's ${changed}${rest}.`);
}

const UNKNOWN = 'was written, but a failover of Redis may still undo it; restore again to be sure.';

/** Writes the records that the store lacks. @returns the outcomes by id */
async function create(
  missing: readonly StoredRecord[],
  { keys, customers, dryRun }: RestoreOptions,
): Promise<ReadonlyMap<string, RestoredRecord>> {
  const missingKeys = missing.filter(isKey);
  const others = missing.filter((record) => !isKey(record));
  const storedCustomers = await Promise.all(
    others.map(async (customer) =>
      dryRun || (await customers.create(customer)).kind === 'durable' ? 'created' : 'unknown',
    ),
  );
  const storedKeys = dryRun
    ? await Promise.all(missingKeys.map(async (key) => ((await isTaken(key, keys)) ? 'taken' : 'created')))
    : await keys.createEach(missingKeys);
  const stored = [...storedCustomers, ...storedKeys];
  const outcomes = [...others, ...missingKeys].map(({ id }, i): RestoredRecord => {
    if (stored[i] === 'created') return { id, kind: 'restored', why: null };
    if (stored[i] === 'unknown') return { id, kind: 'unknown', why: UNKNOWN };
    return { id, kind: 'refused', why: 'another key has one of its secrets; it was not restored.' };
  });
  return new Map(outcomes.map((outcome) => [outcome.id, outcome]));
}

async function isTaken(key: StoredKey, keys: RestoreOptions['keys']): Promise<boolean> {
  const owners = await Promise.all(digestsOf(key).map((digest) => orUnreadable(keys.ownerOf(digest))));
  return owners.some((owner) => owner !== null);
}

/** The record of the store with the attributes of the backup. Its secrets stay, and so does a revocation or a suspension on either side. */
function putBack(stored: StoredRecord, present: StoredRecord): StoredRecord {
  const { plan, limits, expiresAtMs } = stored;
  const longer = longerOf(present.suspended, stored.suspended);
  const revocation = isKey(stored) && isKey(present) ? { revokedAtMs: present.revokedAtMs ?? stored.revokedAtMs } : {};
  return {
    ...withoutAttributes<StoredRecord>(present),
    ...{ plan, limits, expiresAtMs },
    ...changedAttributes(stored, {}),
    ...(longer === undefined ? {} : { suspended: longer }),
    ...revocation,
  } as unknown as StoredRecord;
}

/** What differs, in words for operators. What only keys have is absent in both of two customers. */
function differences(stored: StoredRecord, there: StoredRecord): string[] {
  const [one, other] = [partsOf(stored), partsOf(there)];
  return Object.keys(one).filter((name) => !isDeepStrictEqual(one[name], other[name]));
}

function partsOf(record: StoredRecord): Readonly<Record<string, unknown>> {
  const { plan, limits, expiresAtMs, suspended } = record;
  const { revokedAtMs, customer, secrets }: Partial<StoredKey> = isKey(record) ? record : {};
  return {
    ...{ plan, limits },
    ...Object.fromEntries(ATTRIBUTE_NAMES.map((name) => [name, record[name]])),
    ...{ end: expiresAtMs, revocation: revokedAtMs, suspension: suspended, customer },
    // Without digests: after a change of the pepper, the same secrets have others.
    secrets: secrets?.map(({ last4, createdAtMs, expiresAtMs }) => ({ last4, createdAtMs, expiresAtMs })),
  };
}
