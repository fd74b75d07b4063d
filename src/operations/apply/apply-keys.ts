import type { Durability } from '../../admit/ledger.ts';
import { DURABLE } from '../../admit/ledger.ts';
import type { Plan } from '../../admit/plan.ts';
import type { KeysFile } from '../../config/keys-file.ts';
import { Failure } from '../../failure.ts';
import { digestOf, mint, type Random } from '../../identify/api-key.ts';
import type { CustomerStore } from '../../identify/customer-store.ts';
import { type AppliedEntry, digestsOf, type KeyStore, type StoredKey } from '../../identify/key-store.ts';
import { isReadable, orUnreadable } from '../../identify/stored-record.ts';
import { takenBack } from '../create-once.ts';
import { revoked, storedSecret } from '../key-changes.ts';
import { isRefusal, MAY_BE_UNDONE_TEXT, type OutcomeKind } from './outcome.ts';
import { type ApplyPlan, appliedTo, type CustomersOfFile, idOf, isPrunable, type PlannedChange } from './plan-apply.ts';
import type { SecretFolder } from './secret-folder.ts';

/** A change that was made, or that was no longer needed. */
export interface MadeChange {
  /** Null if the change made the key. */
  readonly before: StoredKey | null;
  readonly after: StoredKey;
  readonly durability: Durability;
  /** True if nothing was changed: another command had done so, or the key is no longer one of the set. */
  readonly isSame: boolean;
  /** A sentence for the operator; null if there is nothing to say. */
  readonly why: string | null;
}

/** What became of a planned change of a key. */
export interface ApplyOutcome {
  readonly change: PlannedChange;
  readonly kind: OutcomeKind;
  readonly why: string | null;
}

export interface ApplyDeps {
  readonly keys: Pick<KeyStore, 'createEach' | 'delete' | 'get' | 'update'>;
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly plans: ReadonlyMap<string, Plan>;
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
 * Makes the planned changes, each in whole or not at all, and each only if it is still the right one: an entry is compared with its key
 * once more, within the store's atomic update. After an interruption the operator applies the same file again.
 *
 * The secret of a new key is on the disk before the store has the key. See SecretFolder.
 * @throws Failure `store_unavailable`, `audit_unavailable`, or `refused` if a secret cannot be written; the changes reported until then
 *   are made
 */
export async function* applyKeys(
  { set, customers, changes }: ApplyPlan,
  deps: ApplyDeps,
): AsyncGenerator<ApplyOutcome> {
  for (let i = 0; i < changes.length; i += AT_ONCE) {
    const batch = changes.slice(i, i + AT_ONCE);
    const secrets = await preparedSecrets(set, batch, deps);
    const created = new CreatedTogether(deps.keys);
    const settled = await Promise.allSettled(
      batch.map((change) =>
        outcomeOf(change, () =>
          deps.recorded(change, () =>
            make(change, { set, customersOfFile: customers.byEntry, secrets, created }, deps),
          ),
        ),
      ),
    );
    for (const result of settled) if (result.status === 'fulfilled') yield result.value;
    for (const result of settled) if (result.status === 'rejected') throw result.reason;
  }
}

/** The secrets of the keys that a batch creates, by the name of the entry, all of them on the disk. */
async function preparedSecrets(
  set: string,
  batch: readonly PlannedChange[],
  { secrets, random }: ApplyDeps,
): Promise<ReadonlyMap<string, string>> {
  const created = batch.filter(({ kind }) => kind === 'create');
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

/** What the changes of a batch have in common. */
interface Batch {
  readonly set: string;
  readonly customersOfFile: CustomersOfFile;
  /** By the name of the entry. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly created: CreatedTogether;
}

async function make(change: PlannedChange, batch: Batch, deps: ApplyDeps): Promise<MadeChange> {
  const { set, customersOfFile, secrets, created } = batch;
  const { id, name } = change;
  const as = { set, name };
  const nowMs = deps.nowMs();
  if (change.kind === 'create') return create({ as, secret: secrets.get(name)!, created }, change.after, deps);
  if (change.kind === 'update') {
    return replace(
      id,
      (present) => appliedTo(present, as, change.entry, { plans: deps.plans, customersOfFile, nowMs }),
      deps,
    );
  }
  const isStill = (present: StoredKey) => isPrunable(present, set) && present.applied!.name === name;
  return replace(id, (present) => (isStill(present) ? revoked(present, nowMs) : present), deps);
}

async function replace(
  id: string,
  change: (present: StoredKey) => StoredKey,
  { keys }: ApplyDeps,
): Promise<MadeChange> {
  let before: StoredKey | null = null;
  const updated = await keys.update(id, (present) => {
    before = present;
    return change(present);
  });
  if (updated === null || before === null) throw new Failure('not_found', `Key ${id} was deleted meanwhile.`);
  return {
    before,
    after: updated.record,
    durability: updated.durability,
    isSame: updated.record === before,
    why: null,
  };
}

/** Creates the keys of one turn of the event loop together: each call to the embedded store waits for the disk. */
class CreatedTogether {
  readonly #keys: Pick<KeyStore, 'createEach'>;
  #waiting: { readonly key: StoredKey; readonly settle: (outcome: Promise<CreateOutcome>) => void }[] = [];

  constructor(keys: Pick<KeyStore, 'createEach'>) {
    this.#keys = keys;
  }

  create(key: StoredKey): Promise<CreateOutcome> {
    if (this.#waiting.length === 0) setImmediate(() => this.#createWaiting());
    return new Promise((settle) => this.#waiting.push({ key, settle }));
  }

  #createWaiting(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    const outcomes = this.#keys.createEach(waiting.map(({ key }) => key));
    for (const [i, { settle }] of waiting.entries()) settle(outcomes.then((each) => each[i]!));
  }
}

type CreateOutcome = 'created' | 'unknown' | 'taken';

async function create(
  { as, secret, created }: { readonly as: AppliedEntry; readonly secret: string; readonly created: CreatedTogether },
  withoutSecret: StoredKey,
  { keys, customers, secrets, peppers, nowMs }: ApplyDeps,
): Promise<MadeChange> {
  const { customer } = withoutSecret;
  if (customer !== undefined && (await customers.get(customer)) === null) {
    throw new Failure('refused', `Its customer ${customer} does not exist, so the key was not made.`);
  }
  const createdAtMs = nowMs();
  const key = { ...withoutSecret, createdAtMs, secrets: [storedSecret(secret, peppers[0]!, createdAtMs)] };
  const outcome = await created.create(key);
  const gone = outcome === 'taken' ? null : await takenBack(key, { keys, customers, nowMs: nowMs() });
  if (gone !== null) {
    await secrets!.drop(as);
    throw new Failure('refused', gone);
  }
  if (outcome === 'created') {
    return { before: null, after: key, durability: DURABLE, isSame: false, why: await kept(as, secret, secrets!) };
  }
  if (outcome === 'unknown') {
    // The secret stays prepared: if a failover undoes the key, the next apply makes it again with this secret.
    return { before: null, after: key, durability: MAY_BE_UNDONE, isSame: false, why: null };
  }
  const present = await keys.get(key.id, { evenDeleted: true });
  if (present === null)
    throw new Failure('refused', 'Another key has the prepared secret, of which this would be a second.');
  // Another apply has made the key at the same moment.
  const isOurs = hasSecret(present, secret, peppers);
  await (isOurs ? secrets!.keep(as, secret) : secrets!.drop(as));
  const why = isOurs ? null : 'was made by another apply at the same moment, which has its secret.';
  return { before: present, after: present, durability: DURABLE, isSame: true, why };
}

/** @returns a sentence if the file of a secret could not get its name: the key is made all the same, and its secret is not lost */
async function kept(as: AppliedEntry, secret: string, secrets: SecretFolder): Promise<string | null> {
  try {
    await secrets.keep(as, secret);
    return null;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return `was made, and its secret stays in ${secrets.fileOf(as)}.pending: ${error.message}`;
  }
}

const MAY_BE_UNDONE: Durability = { kind: 'unknown', settled: Promise.resolve('given_up') };

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
  { set, keys: entries }: KeysFile,
  { keys, peppers, secrets }: Pick<ApplyDeps, 'keys' | 'peppers'> & { readonly secrets: SecretFolder },
): Promise<string[]> {
  const warnings: string[] = [];
  for (const [name, entry] of Object.entries(entries)) {
    const as = { set, name };
    if (!secrets.hasPending(as)) continue;
    const key = await orUnreadable(keys.get(idOf(as, entry), { evenDeleted: true }));
    if (key === null || !isReadable(key)) continue;
    const secret = await secrets.pending(as);
    if (secret === null) continue;
    if (hasSecret(key, secret, peppers)) await secrets.keep(as, secret);
    else warnings.push(`${secrets.fileOf(as)}.pending is not a secret of ${key.id}; it belongs to no key here.`);
  }
  return warnings;
}
