import { isDeepStrictEqual } from 'node:util';
import type { Plan } from '../../admit/plan.ts';
import type { Path } from '../../config/fault.ts';
import type { CustomerEntry, KeysFile } from '../../config/keys-file.ts';
import { Failure } from '../../failure.ts';
import { type CustomerStore, newCustomerId, type StoredCustomer } from '../../identify/customer-store.ts';
import type { AppliedEntry } from '../../identify/key-store.ts';
import { orUnreadable, UnreadableRecord } from '../../identify/stored-record.ts';
import { newCustomer } from '../customer-changes.ts';
import { edited, type RecordEdits } from '../key-changes.ts';
import { entryText, timeOf } from '../key-report.ts';
import { attributeEdits, attributesOfEntry, bytesFrom, type EndedEntry, endsAt, limitsOf } from './entry-values.ts';

/** A change that makes the customers of the store more like keys.yaml. `name` is that of the entry. */
export type PlannedCustomer = {
  readonly name: string;
  readonly id: string;
} & (
  | { readonly kind: 'create'; readonly after: StoredCustomer }
  | {
      readonly kind: 'update';
      readonly entry: CustomerEntry;
      readonly before: StoredCustomer;
      readonly after: StoredCustomer;
    }
);

export interface CustomersPlan {
  readonly changes: readonly PlannedCustomer[];
  /** How many entries the store has as they stand in the file. */
  readonly unchanged: number;
  readonly faults: readonly { readonly path: Path; readonly message: string }[];
  /** Entries whose customer is deleted, managed by another set, or cannot be read. They do not keep the others from being applied. */
  readonly ended: readonly EndedEntry[];
  /** The customers by the names of their entries, as they are after the changes; without those of `ended`. */
  readonly byEntry: ReadonlyMap<string, StoredCustomer>;
}

interface Options {
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly plans: ReadonlyMap<string, Plan>;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** Customers that are read from the store together. */
const BATCH = 100;

/**
 * Compares the customers of keys.yaml with the store. It writes nothing.
 * @throws Failure `store_unavailable`, `store_corrupt`
 */
export async function planCustomers(
  { set, customers: entries = {} }: KeysFile,
  options: Options,
): Promise<CustomersPlan> {
  const changes: PlannedCustomer[] = [];
  const faults: { path: Path; message: string }[] = [];
  const ended: EndedEntry[] = [];
  const byEntry = new Map<string, StoredCustomer>();
  const all = Object.entries(entries);
  for (let i = 0; i < all.length; i += BATCH) {
    const batch = all.slice(i, i + BATCH);
    const found = await Promise.all(
      batch.map(([name, entry]) =>
        orUnreadable(options.customers.get(customerIdOf({ set, name }, entry), { evenDeleted: true })),
      ),
    );
    for (const [j, [name, entry]] of batch.entries()) {
      const present = found[j] ?? null;
      if (present instanceof UnreadableRecord) {
        ended.push({ name, id: present.id, why: present.message });
        continue;
      }
      const planned = planOne({ set, name }, entry, present, options);
      if ('fault' in planned) faults.push({ path: ['customers', name, ...planned.at], message: planned.fault });
      else if ('why' in planned) ended.push(planned);
      else if ('same' in planned) byEntry.set(name, planned.same);
      else {
        changes.push(planned);
        byEntry.set(name, planned.after);
      }
    }
  }
  return { changes, unchanged: all.length - changes.length - ended.length, faults, ended, byEntry };
}

/** The id of an entry's customer, the same in every store. */
function customerIdOf(as: AppliedEntry, { id }: Pick<CustomerEntry, 'id'>): string {
  return id ?? newCustomerId(bytesFrom(['tollgate keys apply', 'customer', as.set, as.name]));
}

type Planned =
  | PlannedCustomer
  | EndedEntry
  | { readonly same: StoredCustomer }
  | { readonly fault: string; readonly at: Path };

function planOne(as: AppliedEntry, entry: CustomerEntry, present: StoredCustomer | null, options: Options): Planned {
  const { name } = as;
  const id = customerIdOf(as, entry);
  try {
    if (present === null) {
      if (entry.id === undefined) return { kind: 'create', name, id, after: customerOf(as, id, entry, options) };
      return { fault: 'is the id of no customer in the store. Leave it out to make a customer.', at: ['id'] };
    }
    const after = customerAppliedTo(present, as, entry, options);
    return after === present ? { same: present } : { kind: 'update', name, id, entry, before: present, after };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.code === 'conflict') return { name, id, why: error.message };
    if (error.code === 'refused') return { fault: error.message, at: [] };
    throw error;
  }
}

/** The customer that an entry asks for. @throws Failure `refused` if its keys could not be used */
function customerOf(as: AppliedEntry, id: string, entry: CustomerEntry, { plans, nowMs }: Options): StoredCustomer {
  const attributes = {
    plan: entry.plan!,
    limits: limitsOf(entry.limits ?? {}),
    name: as.name,
    ...attributesOfEntry(entry),
    expiresAtMs: entry.expires === undefined ? null : endsAt(entry.expires),
  };
  const random = (bytes: number) => new Uint8Array(bytes);
  return { ...newCustomer(attributes, { plans, random, nowMs }), id, applied: as };
}

/**
 * The customer as its entry says. What the entry leaves out stays.
 * @returns the same object if nothing differs
 * @throws Failure `refused` if its keys could not be used any more; `conflict` if it is deleted, or that of another entry
 */
export function customerAppliedTo(
  present: StoredCustomer,
  as: AppliedEntry,
  entry: CustomerEntry,
  { plans, nowMs }: Pick<Options, 'plans' | 'nowMs'>,
): StoredCustomer {
  const { id, applied, deletedAtMs } = present;
  if (deletedAtMs !== undefined) {
    const advice = 'Take the entry out of the file, or give it another name for a new customer.';
    throw new Failure('conflict', `${id} was deleted on ${timeOf(deletedAtMs)} and does not come back. ${advice}`);
  }
  if (applied !== undefined && applied.set !== as.set) {
    const message = `Customer ${id} is managed by ${entryText(applied)}. Change it there, or take the entry out of this file.`;
    throw new Failure('conflict', message);
  }
  const isAlready = isDeepStrictEqual(applied, as);
  if (entry.id === undefined && !isAlready) {
    const owner = applied === undefined ? 'that of no entry' : `that of \`${applied.name}\``;
    const message = `The customer of this name, ${id}, is now ${owner}. Choose another name, or add \`id: ${id}\`.`;
    throw new Failure('refused', message);
  }
  const edits: RecordEdits = { ...attributeEdits(present, entry), ...(isAlready ? {} : { applied: as }) };
  return Object.keys(edits).length === 0 ? present : edited(present, edits, { plans, nowMs }, 'customer');
}
