import { setImmediate as nextTurn } from 'node:timers/promises';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { digestOf } from '../../identify/api-key.ts';
import type { CustomerStore, KeyStore, RecordUpdate } from '../../identify/record-store.ts';
import {
  digestsOf,
  isKey,
  isReadable,
  kindOf,
  orUnreadable,
  type StoredKey,
  type StoredRecord,
} from '../../model/record.ts';
import { takenBack } from '../create-once.ts';
import { revoked, storedHash, storedSecret } from '../key-changes.ts';
import { type ApplyPlan, isPrunable, type PlannedChange } from './apply-plan.ts';
import { appliedTo, type Compared } from './entries.ts';
import { bytesOf } from './import-keys.ts';
import { isRefusal, storeOf } from './keys-and-customers.ts';

/** A change that was made, or that was no longer needed. */
export interface MadeChange extends RecordUpdate<StoredRecord> {
  /** Null if the change made the record. */
  readonly before: StoredRecord | null;
  /** True if nothing was changed: another command had done so, or the key is no longer one of the set. */
  readonly isSame: boolean;
}

/** What became of a planned change. `unknown`: it was made, and a failover of the store may undo it. */
export interface ApplyOutcome {
  readonly change: PlannedChange;
  readonly kind: 'done' | 'same' | 'unknown' | 'refused';
  /** A sentence for the operator; null if there is nothing to say. */
  readonly why: string | null;
}

export interface ApplyDeps extends Pick<Compared, 'plans'> {
  readonly keys: Pick<KeyStore, 'createEach' | 'delete' | 'get' | 'update'>;
  readonly customers: Pick<CustomerStore, 'create' | 'get' | 'update'>;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly nowMs: () => number;
  /** The secrets of new keys, by the names of their entries. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Makes a change with an entry in the record of changes. */
  readonly recorded: (change: PlannedChange, work: () => Promise<MadeChange>) => Promise<MadeChange>;
}

/** Of which set the changes are. */
interface Applied extends Pick<ApplyPlan, 'customersOfFile'> {
  readonly set: string;
}

/** Changes that are made at the same time. */
const AT_ONCE = 64;

/**
 * Makes the planned changes, those of customers before those of keys, each in whole or not at all, and each only if it is still the
 * right one: an entry is compared with its record once more, within the store's atomic update. After an interruption the operator
 * applies the same file again.
 * @throws Failure `store_unavailable`, `audit_unavailable`: some of the changes may be made
 */
export async function applyChanges(
  planned: readonly PlannedChange[],
  applied: Applied,
  deps: ApplyDeps,
): Promise<readonly ApplyOutcome[]> {
  const outcomes: ApplyOutcome[] = [];
  for (const changes of Map.groupBy(planned, ({ id }) => kindOf(id)).values()) {
    for (let i = 0; i < changes.length; i += AT_ONCE) {
      const batch = { ...applied, created: createdTogether(deps.keys) };
      const settled = await Promise.allSettled(
        changes
          .slice(i, i + AT_ONCE)
          .map((change) => outcomeOf(change, () => deps.recorded(change, () => make(change, batch, deps)))),
      );
      for (const result of settled) {
        if (result.status === 'rejected') throw result.reason;
        outcomes.push(result.value);
      }
    }
  }
  return outcomes;
}

async function outcomeOf(change: PlannedChange, work: () => Promise<MadeChange>): Promise<ApplyOutcome> {
  try {
    const { durability, isSame } = await work();
    if (durability.kind !== 'durable') return { change, kind: 'unknown', why: MAY_BE_UNDONE_TEXT };
    return { change, kind: isSame ? 'same' : 'done', why: null };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { change, kind: 'refused', why: error.message };
  }
}

const MAY_BE_UNDONE_TEXT = 'a failover of Redis may still undo it; apply again to be sure.';

/** What the changes of a batch have in common. */
interface Batch extends Applied {
  readonly created: (key: StoredKey) => Promise<CreateOutcome>;
}

async function make(change: PlannedChange, batch: Batch, deps: ApplyDeps): Promise<MadeChange> {
  const { id, name } = change;
  const { customersOfFile, set } = batch;
  const nowMs = deps.nowMs();
  if (change.kind === 'create') {
    const record = { ...change.after, createdAtMs: nowMs };
    if (isKey(record)) return create(record, change, batch, deps);
    return made(record, await deps.customers.create(record));
  }
  let before: StoredRecord | null = null;
  const updated = await storeOf<'update'>(id, deps).update(id, (present) => {
    before = present;
    if (change.kind === 'update') {
      return appliedTo(present, { set, name }, change.entry, { plans: deps.plans, customersOfFile, nowMs });
    }
    const isStill = isKey(present) && isPrunable(present, set) && present.applied!.name === name;
    return isStill ? revoked(present, nowMs) : present;
  });
  if (updated === null || before === null) {
    const noun = kindOf(id) === 'key' ? 'Key' : 'Customer';
    throw new Failure('not_found', `${noun} ${id} was deleted meanwhile.`);
  }
  return { before, ...updated, isSame: updated.record === before };
}

function made(record: StoredRecord, durability: Durability): MadeChange {
  return { before: null, record, durability, isSame: false };
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
  withoutSecret: StoredKey,
  { name, entry: { sha256, last4 = '' } }: Extract<PlannedChange, { kind: 'create' }>,
  { created }: Pick<Batch, 'created'>,
  { keys, customers, secrets, peppers, nowMs }: ApplyDeps,
): Promise<MadeChange> {
  const { customer, createdAtMs } = withoutSecret;
  const secret = secrets.get(name);
  if (secret === undefined && sha256 === undefined)
    throw new Failure('refused', 'It is a new key, and no secret was sent for it. Apply again.');
  if (customer !== undefined && (await customers.get(customer)) === null) {
    throw new Failure('refused', `Its customer ${customer} does not exist, so the key was not made.`);
  }
  const stored =
    sha256 === undefined
      ? storedSecret(secret!, peppers[0]!, createdAtMs)
      : storedHash(bytesOf(sha256)!, peppers[0]!, { last4, createdAtMs });
  const key = { ...withoutSecret, secrets: [stored] };
  const outcome = await created(key);
  const gone = outcome === 'taken' ? null : await takenBack(key, { keys, customers, nowMs: nowMs() });
  if (gone !== null) throw new Failure('refused', gone);
  if (outcome === 'created') return made(key, DURABLE);
  if (outcome === 'unknown') return made(key, MAY_BE_UNDONE);
  const present = await keys.get(key.id, { evenDeleted: true });
  if (present === null) throw new Failure('refused', 'Another key has this secret, of which this would be a second.');
  // Another apply has made the key at the same moment.
  return { before: present, record: present, durability: DURABLE, isSame: true };
}

const MAY_BE_UNDONE: Durability = { kind: 'unknown', final: Promise.resolve('given_up') };

/**
 * Whether a key, even a deleted one, has a secret.
 * @returns null if there is no such key, or it cannot be read
 * @throws Failure `store_unavailable`
 */
export async function hasSecret(
  id: string,
  secret: string,
  { keys, peppers }: Pick<ApplyDeps, 'peppers'> & { readonly keys: Pick<KeyStore, 'get'> },
): Promise<boolean | null> {
  const key = await orUnreadable(keys.get(id, { evenDeleted: true }));
  if (key === null || !isReadable(key)) return null;
  const own = digestsOf(key);
  return peppers.some((pepper) => own.includes(digestOf(secret, pepper)));
}
