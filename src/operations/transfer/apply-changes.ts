import { setImmediate as nextTurn } from 'node:timers/promises';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { digestOf, mint, type Random } from '../../identify/api-key.ts';
import type { CustomerStore, KeyStore, Updated } from '../../identify/record-store.ts';
import {
  type AppliedEntry,
  digestsOf,
  isKey,
  isReadable,
  kindOf,
  orUnreadable,
  type StoredKey,
  type StoredRecord,
} from '../../model/record.ts';
import { takenBack } from '../create-once.ts';
import { revoked, storedSecret } from '../key-changes.ts';
import { type ApplyPlan, isPrunable, type PlannedChange } from './apply-plan.ts';
import { appliedTo, type Compared, idOf } from './entries.ts';
import { isRefusal, storeOf } from './keys-and-customers.ts';
import type { SecretFolder } from './secret-folder.ts';

/** A change that was made, or that was no longer needed. */
export interface MadeChange extends Updated<StoredRecord> {
  /** Null if the change made the record. */
  readonly before: StoredRecord | null;
  /** True if nothing was changed: another command had done so, or the key is no longer one of the set. */
  readonly isSame: boolean;
  /** A sentence for the operator; null if there is nothing to say. */
  readonly why: string | null;
}

/** What became of a planned change. `unknown`: it was made, and a failover of the store may undo it. */
export interface ApplyOutcome {
  readonly change: PlannedChange;
  readonly kind: 'done' | 'same' | 'unknown' | 'refused';
  readonly why: string | null;
}

export interface ApplyDeps extends Pick<Compared, 'plans'> {
  readonly keys: Pick<KeyStore, 'createEach' | 'delete' | 'get' | 'update'>;
  readonly customers: Pick<CustomerStore, 'create' | 'get' | 'update'>;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly random: Random;
  readonly nowMs: () => number;
  /** Where the secrets of new keys go; null if the plan makes none. */
  readonly secrets: SecretFolder | null;
  /** Makes a change with an entry in the record of changes. */
  readonly recorded: (change: PlannedChange, work: () => Promise<MadeChange>) => Promise<MadeChange>;
}

/** Changes that are made at the same time. */
const AT_ONCE = 64;

/**
 * Makes the planned changes, those of customers before those of keys, each in whole or not at all, and each only if it is still the
 * right one: an entry is compared with its record once more, within the store's atomic update. After an interruption the operator
 * applies the same file again.
 *
 * The secret of a new key is on the disk before the store has the key. See SecretFolder.
 * @throws Failure `store_unavailable`, `audit_unavailable`, or `refused` if a secret cannot be written; the changes reported until then
 *   are made
 */
export async function* applyChanges(plan: ApplyPlan, deps: ApplyDeps): AsyncGenerator<ApplyOutcome> {
  for (const changes of Map.groupBy(plan.changes, ({ id }) => kindOf(id)).values()) {
    for (let i = 0; i < changes.length; i += AT_ONCE) {
      const part = changes.slice(i, i + AT_ONCE);
      const batch = {
        plan,
        secrets: await preparedSecrets(plan.file.set, part, deps),
        created: createdTogether(deps.keys),
      };
      const settled = await Promise.allSettled(
        part.map((change) => outcomeOf(change, () => deps.recorded(change, () => make(change, batch, deps)))),
      );
      for (const result of settled) if (result.status === 'fulfilled') yield result.value;
      for (const result of settled) if (result.status === 'rejected') throw result.reason;
    }
  }
}

/** The secrets of the keys that a batch creates, by the name of the entry, all of them on the disk. */
async function preparedSecrets(
  set: string,
  batch: readonly PlannedChange[],
  { secrets, random }: ApplyDeps,
): Promise<ReadonlyMap<string, string>> {
  const created = batch.filter(({ kind, id }) => kind === 'create' && kindOf(id) === 'key');
  if (created.length === 0 || secrets === null) return new Map();
  const prepared = await Promise.all(
    created.map(async ({ name }) => [name, await secrets.prepare({ set, name }, mint(random))] as const),
  );
  await secrets.sync();
  return new Map(prepared);
}

async function outcomeOf(change: PlannedChange, work: () => Promise<MadeChange>): Promise<ApplyOutcome> {
  try {
    const { durability, isSame, why } = await work();
    if (durability.kind !== 'durable') return { change, kind: 'unknown', why: MAY_BE_UNDONE_TEXT };
    return { change, kind: isSame ? 'same' : 'done', why };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { change, kind: 'refused', why: error.message };
  }
}

const MAY_BE_UNDONE_TEXT = 'a failover of Redis may still undo it; apply again to be sure.';

/** What the changes of a batch have in common. */
interface Batch {
  readonly plan: ApplyPlan;
  /** By the name of the entry. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly created: (key: StoredKey) => Promise<CreateOutcome>;
}

async function make(change: PlannedChange, batch: Batch, deps: ApplyDeps): Promise<MadeChange> {
  const { id, name } = change;
  const { customersOfFile, file } = batch.plan;
  const { set } = file;
  const as = { set, name };
  const nowMs = deps.nowMs();
  if (change.kind === 'create') {
    const record = { ...change.after, createdAtMs: nowMs };
    if (isKey(record)) return create({ as, secret: batch.secrets.get(name)!, created: batch.created }, record, deps);
    return made(record, await deps.customers.create(record));
  }
  let before: StoredRecord | null = null;
  const updated = await storeOf<'update'>(id, deps).update(id, (present) => {
    before = present;
    if (change.kind === 'update') {
      return appliedTo(present, as, change.entry, { plans: deps.plans, customersOfFile, nowMs });
    }
    const isStill = isKey(present) && isPrunable(present, set) && present.applied!.name === name;
    return isStill ? revoked(present, nowMs) : present;
  });
  if (updated === null || before === null) {
    const noun = kindOf(id) === 'key' ? 'Key' : 'Customer';
    throw new Failure('not_found', `${noun} ${id} was deleted meanwhile.`);
  }
  return { before, ...updated, isSame: updated.record === before, why: null };
}

function made(record: StoredRecord, durability: Durability, why: string | null = null): MadeChange {
  return { before: null, record, durability, isSame: false, why };
}

/** Creates the keys of one turn of the event loop together: each call to the embedded store waits for the disk. */
function createdTogether(keys: Pick<KeyStore, 'createEach'>): Batch['created'] {
  const waiting: StoredKey[] = [];
  let outcomes: Promise<readonly CreateOutcome[]> | null = null;
  return async (key) => {
    const place = waiting.push(key) - 1;
    outcomes ??= nextTurn().then(() => {
      outcomes = null;
      return keys.createEach(waiting.splice(0));
    });
    return (await outcomes)[place]!;
  };
}

type CreateOutcome = 'created' | 'unknown' | 'taken';

async function create(
  { as, secret, created }: Pick<Batch, 'created'> & { readonly as: AppliedEntry; readonly secret: string },
  withoutSecret: StoredKey,
  { keys, customers, secrets, peppers, nowMs }: ApplyDeps,
): Promise<MadeChange> {
  const { customer, createdAtMs } = withoutSecret;
  if (customer !== undefined && (await customers.get(customer)) === null) {
    throw new Failure('refused', `Its customer ${customer} does not exist, so the key was not made.`);
  }
  const key = { ...withoutSecret, secrets: [storedSecret(secret, peppers[0]!, createdAtMs)] };
  const outcome = await created(key);
  const gone = outcome === 'taken' ? null : await takenBack(key, { keys, customers, nowMs: nowMs() });
  if (gone !== null) {
    await secrets!.drop(as);
    throw new Failure('refused', gone);
  }
  if (outcome === 'created') return made(key, DURABLE, await keepSecret(as, secret, secrets!));
  // The secret stays prepared: if a failover undoes the key, the next apply makes it again with this secret.
  if (outcome === 'unknown') return made(key, MAY_BE_UNDONE);
  const present = await keys.get(key.id, { evenDeleted: true });
  if (present === null)
    throw new Failure('refused', 'Another key has the prepared secret, of which this would be a second.');
  // Another apply has made the key at the same moment.
  const isOurs = hasSecret(present, secret, peppers);
  await (isOurs ? secrets!.keep(as, secret) : secrets!.drop(as));
  const why = isOurs ? null : 'was made by another apply at the same moment, which has its secret.';
  return { before: present, record: present, durability: DURABLE, isSame: true, why };
}

/** @returns a sentence if the file of a secret could not get its name: the key is made all the same, and its secret is not lost */
async function keepSecret(as: AppliedEntry, secret: string, secrets: SecretFolder): Promise<string | null> {
  try {
    await secrets.keep(as, secret);
    return null;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return `was made, and its secret stays in ${secrets.fileOf(as)}.pending: ${error.message}`;
  }
}

const MAY_BE_UNDONE: Durability = { kind: 'unknown', final: Promise.resolve('given_up') };

function hasSecret(key: StoredKey, secret: string, peppers: readonly string[]): boolean {
  const own = digestsOf(key);
  return peppers.some((pepper) => own.includes(digestOf(secret, pepper)));
}

/**
 * Finishes what an interrupted command began: gives the prepared secrets of keys that exist their own names.
 * @returns a sentence for each prepared secret that is not its key's
 * @throws Failure `store_unavailable`, `refused`
 */
export async function finishPrepared(
  { file: { set, keys: entries } }: Pick<ApplyPlan, 'file'>,
  { keys, peppers, secrets }: Pick<ApplyDeps, 'keys' | 'peppers'> & { readonly secrets: SecretFolder },
): Promise<string[]> {
  const warnings: string[] = [];
  for (const [name, entry] of Object.entries(entries)) {
    const as = { set, name };
    if (!secrets.hasPending(as)) continue;
    const key = await orUnreadable(keys.get(idOf('key', as, entry), { evenDeleted: true }));
    if (key === null || !isReadable(key)) continue;
    const secret = await secrets.pending(as);
    if (secret === null) continue;
    if (hasSecret(key, secret, peppers)) await secrets.keep(as, secret);
    else warnings.push(`${secrets.fileOf(as)}.pending is not a secret of ${key.id}; it belongs to no key here.`);
  }
  return warnings;
}
