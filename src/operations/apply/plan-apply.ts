import { isDeepStrictEqual } from 'node:util';
import type { Plan } from '../../admit/plan.ts';
import type { Path } from '../../config/fault.ts';
import type { KeyEntry, KeysFile } from '../../config/keys-file.ts';
import { Failure } from '../../failure.ts';
import { newKeyId } from '../../identify/api-key.ts';
import type { CustomerStore, StoredCustomer } from '../../identify/customer-store.ts';
import type { AppliedEntry, KeyStore, StoredKey } from '../../identify/key-store.ts';
import { isReadable, orUnreadable, UnreadableRecord } from '../../identify/stored-record.ts';
import { edited, type KeyAttributes, keyOf, type RecordEdits, validateAttributes } from '../key-changes.ts';
import { timeOf } from '../key-report.ts';
import { attributeEdits, attributesOfEntry, bytesFrom, type EndedEntry, endsAt, limitsOf } from './entry-values.ts';
import { type CustomersPlan, planCustomers } from './plan-customers.ts';

/** A change that makes the store more like keys.yaml. `name` is that of the entry. */
export type PlannedChange = {
  readonly name: string;
  readonly id: string;
} & (
  | { readonly kind: 'create' /** Without a secret. */; readonly after: StoredKey }
  | { readonly kind: 'update'; readonly entry: KeyEntry; readonly before: StoredKey; readonly after: StoredKey }
  | { readonly kind: 'revoke'; readonly before: StoredKey }
);

export interface ApplyPlan {
  readonly set: string;
  /** What is done with the customers, before the keys. */
  readonly customers: CustomersPlan;
  readonly changes: readonly PlannedChange[];
  /** How many entries the store has as they stand in the file. */
  readonly unchanged: number;
  /** The names of the set's keys that the file lacks and that stay because `prune` is off: in the order of the store, the oldest first. */
  readonly unpruned: readonly string[];
  /** Faults of the file that only the store shows, each with its place in the file: nothing may be applied. */
  readonly faults: readonly { readonly path: Path; readonly message: string }[];
  /** Entries whose key was revoked or deleted, belongs to another customer, or cannot be read. They do not keep the others from being applied. */
  readonly ended: readonly EndedEntry[];
  /** Further keys that cannot be read. They may be of the set and lack an entry, so a prune is not complete; it revokes none of them. */
  readonly unreadable: readonly UnreadableRecord[];
}

/** The customers that the entries of a file name. */
export type CustomersOfFile = ReadonlyMap<string, Pick<StoredCustomer, 'id' | 'plan'>>;

interface PlanOptions {
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly keys: Pick<KeyStore, 'get' | 'scan'>;
  readonly plans: ReadonlyMap<string, Plan>;
  /** Whether keys of the set that have no entry in the file are revoked; otherwise they are only named. */
  readonly prune: boolean;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** Keys that are read from the store together. */
const BATCH_KEYS = 100;
/** Keys that one step of the search for keys without an entry looks at. */
const SCANNED_AT_ONCE = 250;

/**
 * Compares keys.yaml with the store. It writes nothing.
 * @throws Failure `store_unavailable`, `store_corrupt`
 */
export async function planApply(file: KeysFile, options: PlanOptions): Promise<ApplyPlan> {
  const { set, keys: entries } = file;
  const customers = await planCustomers(file, options);
  const deps = { ...options, customersOfFile: customers.byEntry };
  const changes: PlannedChange[] = [];
  const faults: { path: Path; message: string }[] = [...customers.faults];
  const ended: EndedEntry[] = [];
  const entryOf = new Map<string, string>();
  const all = Object.entries(entries);
  for (const [name, entry] of all) {
    const id = idOf({ set, name }, entry);
    const other = entryOf.get(id);
    if (other === undefined) entryOf.set(id, name);
    else faults.push({ path: ['keys', name], message: `is the same key as \`${other}\`; leave out one of the two.` });
  }
  for (let i = 0; i < all.length; i += BATCH_KEYS) {
    const batch = all.slice(i, i + BATCH_KEYS);
    const found = await Promise.all(
      batch.map(([name, entry]) => orUnreadable(options.keys.get(idOf({ set, name }, entry), { evenDeleted: true }))),
    );
    for (const [j, [name, entry]] of batch.entries()) {
      const as = { set, name };
      const present = found[j] ?? null;
      if (present instanceof UnreadableRecord) {
        ended.push({ name, id: present.id, why: present.message });
        continue;
      }
      const planned = planOne(as, entry, present, deps);
      if (planned === null) continue;
      if ('fault' in planned) faults.push({ path: ['keys', name, ...planned.at], message: planned.fault });
      else if ('why' in planned) ended.push(planned);
      else changes.push(planned);
    }
  }
  const unchanged = all.length - changes.length - ended.length;
  const { absent, unreadable } = await absentKeys(set, entryOf, options);
  if (options.prune) changes.push(...absent);
  return {
    set,
    customers,
    changes,
    unchanged,
    unpruned: options.prune ? [] : absent.map(({ name }) => name),
    faults,
    ended,
    unreadable,
  };
}

/** The id of an entry's key. */
export function idOf(as: AppliedEntry, { id }: Pick<KeyEntry, 'id'>): string {
  return id ?? newKeyId(bytesFrom(['tollgate keys apply', as.set, as.name]));
}

type PlannedEntry = PlannedChange | EndedEntry | { readonly fault: string; readonly at: Path } | null;

/** How an entry is compared with its key. */
interface Compared {
  readonly plans: ReadonlyMap<string, Plan>;
  readonly customersOfFile: CustomersOfFile;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

function planOne(as: AppliedEntry, entry: KeyEntry, present: StoredKey | null, options: Compared): PlannedEntry {
  const { name } = as;
  const id = idOf(as, entry);
  try {
    if (present === null) {
      if (entry.id !== undefined) {
        return { fault: 'is the id of no key in the store. Leave it out to make a key.', at: ['id'] };
      }
      return { kind: 'create', name, id, after: withoutSecret(as, id, entry, options) };
    }
    const end = endOf(present);
    if (end !== null) return { name, id, why: end };
    const after = appliedTo(present, as, entry, options);
    return after === present ? null : { kind: 'update', name, id, entry, before: present, after };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.code === 'conflict') return { name, id, why: error.message };
    if (error.code === 'refused') return { fault: error.message, at: [] };
    throw error;
  }
}

/** Why an entry's key does not come back; null if it is neither revoked nor deleted. */
export function endOf({ id, revokedAtMs, deletedAtMs }: StoredKey): string | null {
  const advice = 'Take the entry out of the file, or give it another name for a new key.';
  if (deletedAtMs !== undefined) return `${id} was deleted on ${timeOf(deletedAtMs)} and does not come back. ${advice}`;
  return revokedAtMs === null ? null : `${id} was revoked on ${timeOf(revokedAtMs)} and does not come back. ${advice}`;
}

/** @throws Failure `conflict` if its own entry is left as it is */
function customerNamed(name: string, { customersOfFile }: Pick<Compared, 'customersOfFile'>) {
  const customer = customersOfFile.get(name);
  if (customer !== undefined) return customer;
  throw new Failure('conflict', `The entry \`${name}\` of its customer is not applied, so neither is this one.`);
}

/**
 * Apply moves no key: a move makes its counts start anew.
 * @throws Failure `conflict` if the entry says that the key belongs to another customer, or has a plan although its customer has one
 */
function refuseOtherCustomer(
  { id, customer }: StoredKey,
  entry: KeyEntry,
  compared: Pick<Compared, 'customersOfFile'>,
) {
  const where = customer === undefined ? 'belongs to no customer' : `belongs to ${customer}`;
  if (entry.customer !== undefined) {
    const named = customerNamed(entry.customer, compared);
    if (named.id === customer) return;
    const message = `${id} ${customer === undefined ? where : `belongs to another customer, ${customer}`}. Apply moves no key; use \`tollgate keys move ${id} --customer ${named.id}\`.`;
    throw new Failure('conflict', message);
  }
  if (customer === undefined || entry.plan === undefined) return;
  throw new Failure(
    'conflict',
    `${id} ${where}, which has its plan. Leave \`plan\` out, or use \`tollgate keys move ${id} --no-customer\`.`,
  );
}

/** The key that an entry asks for, as yet without a secret. */
function withoutSecret(as: AppliedEntry, id: string, entry: KeyEntry, options: Compared): StoredKey {
  const { plans, nowMs } = options;
  const customer = entry.customer === undefined ? null : customerNamed(entry.customer, options);
  const attributes: KeyAttributes = {
    plan: customer?.plan ?? entry.plan!,
    ...(customer === null ? {} : { customer: customer.id }),
    limits: limitsOf(entry.limits ?? {}),
    name: as.name,
    ...attributesOfEntry(entry),
    expiresAtMs: entry.expires === undefined ? null : endsAt(entry.expires),
  };
  validateAttributes(attributes, { plans, nowMs });
  const secret = { digest: '', last4: '', createdAtMs: nowMs, expiresAtMs: null };
  return { ...keyOf(attributes, { id, createdAtMs: nowMs, secret }), secrets: [], applied: as };
}

/**
 * The key as its entry says. What the entry leaves out stays.
 * @returns the same object if nothing differs
 * @throws Failure `refused` if the changed key could not be used, or if it is that of another entry; `conflict` if it is revoked or
 *   belongs to another customer
 */
export function appliedTo(
  present: StoredKey,
  as: AppliedEntry,
  entry: KeyEntry,
  { plans, customersOfFile, nowMs }: Compared,
): StoredKey {
  refuseOtherCustomer(present, entry, { customersOfFile });
  const isAlready = isDeepStrictEqual(present.applied, as);
  if (entry.id === undefined && !isAlready) {
    const { id, applied } = present;
    const owner =
      applied === undefined ? 'that of no entry' : `that of \`${applied.name}\` in the set \`${applied.set}\``;
    throw new Failure(
      'refused',
      `The key of this name, ${id}, is now ${owner}. Choose another name, or add \`id: ${id}\`.`,
    );
  }
  const edits: RecordEdits = { ...attributeEdits(present, entry), ...(isAlready ? {} : { applied: as }) };
  return Object.keys(edits).length === 0 ? present : edited(present, edits, { plans, nowMs });
}

/** The keys of the set that have no entry in the file, oldest first, as changes that revoke them; and those that cannot be read. */
async function absentKeys(
  set: string,
  entryOf: ReadonlyMap<string, string>,
  { keys }: Pick<PlanOptions, 'keys'>,
): Promise<{ readonly absent: PlannedChange[]; readonly unreadable: UnreadableRecord[] }> {
  const absent: PlannedChange[] = [];
  const unreadable: UnreadableRecord[] = [];
  let cursor: string | null = null;
  do {
    const part = await keys.scan({
      most: SCANNED_AT_ONCE,
      cursor,
      mayMatch: (record) => record.includes('"applied":'),
    });
    for (const { key } of part.found) {
      if (entryOf.has(key.id)) continue;
      if (!isReadable(key)) unreadable.push(key);
      else if (isPrunable(key, set)) absent.push({ kind: 'revoke', name: key.applied!.name, id: key.id, before: key });
    }
    cursor = part.cursor;
  } while (cursor !== null);
  return { absent, unreadable };
}

/** Whether a prune of the set may revoke the key. */
export function isPrunable({ applied, revokedAtMs }: StoredKey, set: string): boolean {
  return applied?.set === set && revokedAtMs === null;
}
