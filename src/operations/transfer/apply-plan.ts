import type { Path } from '../../config/fault.ts';
import type { Entry, KeysFile } from '../../config/keys-file.ts';
import { Failure } from '../../failure.ts';
import type { CustomerStore, KeyStore } from '../../identify/record-store.ts';
import type { RecordKind } from '../../model/attributes.ts';
import {
  type AppliedEntry,
  isReadable,
  KINDS,
  kindOf,
  type Listed,
  type StoredKey,
  type StoredRecord,
  UnreadableRecord,
} from '../../model/record.ts';
import { appliedTo, type Compared, idOf, newRecord } from './entries.ts';
import { found } from './keys-and-customers.ts';

/** A change that makes the store more like keys.yaml. `name` is that of the entry. */
export type PlannedChange = {
  readonly name: string;
  readonly id: string;
} & (
  | { readonly kind: 'create' /** A key is without a secret. */; readonly after: StoredRecord }
  | { readonly kind: 'update'; readonly entry: Entry; readonly before: StoredRecord; readonly after: StoredRecord }
  | { readonly kind: 'revoke'; readonly before: StoredKey }
);

/** An entry that is left as it is in the store, such as one whose key is revoked. */
interface EndedEntry {
  readonly name: string;
  readonly id: string;
  readonly why: string;
}

/** A fault of the file that only the store shows, with its place in the file. */
interface EntryFault {
  readonly path: Path;
  readonly message: string;
}

export interface ApplyPlan {
  readonly file: KeysFile;
  /** Those of customers first. */
  readonly changes: readonly PlannedChange[];
  /** How many entries of each kind the store has as they stand in the file. */
  readonly unchanged: Readonly<Record<RecordKind, number>>;
  /** The names of the set's keys that the file lacks and that stay because `prune` is off: in the order of the store, the oldest first. */
  readonly unpruned: readonly string[];
  /** If there are any, nothing may be applied. */
  readonly faults: readonly EntryFault[];
  /** Entries whose record has ended, belongs elsewhere, or cannot be read. They do not keep the others from being applied. */
  readonly ended: readonly EndedEntry[];
  /** Further keys that cannot be read. They may be of the set and lack an entry, so a prune is not complete; it revokes none of them. */
  readonly unreadable: readonly UnreadableRecord[];
  /** As they are after the changes. */
  readonly customersOfFile: Compared['customersOfFile'];
}

interface PlanOptions extends Pick<Compared, 'plans' | 'nowMs'> {
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly keys: Pick<KeyStore, 'get' | 'scan'>;
  /** Whether keys of the set that have no entry in the file are revoked; otherwise they are only named. */
  readonly prune: boolean;
}

/** Records that are read from the store together. */
const BATCH = 100;
/** Keys that one step of the search for keys without an entry looks at. */
const SCANNED_AT_ONCE = 250;

/**
 * Compares keys.yaml with the store. It writes nothing.
 * @throws Failure `store_unavailable`, `store_corrupt`
 */
export async function planApply(file: KeysFile, options: PlanOptions): Promise<ApplyPlan> {
  const { set } = file;
  const customersOfFile = new Map<string, StoredRecord>();
  const compared = { ...options, customersOfFile };
  const changes: PlannedChange[] = [];
  const faults: EntryFault[] = [];
  const ended: EndedEntry[] = [];
  const unchanged = { customer: 0, key: 0 };
  const entryOf = new Map<string, string>();
  for (const kind of KINDS) {
    const section = `${kind}s` as const;
    const all = Object.entries<Entry>(file[section] ?? {}).map(([name, entry]) => {
      const as = { set, name };
      return { as, entry, id: idOf(kind, as, entry) };
    });
    for (const { id, as } of all) {
      const message = `is the same ${kind} as \`${entryOf.get(id)}\`; leave out one of the two.`;
      if (entryOf.has(id)) faults.push({ path: [section, as.name], message });
      else entryOf.set(id, as.name);
    }
    for (let i = 0; i < all.length; i += BATCH) {
      const batch = all.slice(i, i + BATCH);
      const present = await Promise.all(batch.map(({ id }) => found(id, options)));
      for (const [j, { as, id, entry }] of batch.entries()) {
        const planned = plannedFor(as, id, entry, present[j]!, compared);
        if ('fault' in planned) faults.push({ path: [section, as.name, ...planned.at], message: planned.fault });
        else if ('why' in planned) ended.push(planned);
        else {
          if ('same' in planned) unchanged[kind]++;
          else changes.push(planned);
          if (kind === 'customer') customersOfFile.set(as.name, 'same' in planned ? planned.same : planned.after);
        }
      }
    }
  }
  const { absent, unreadable } = await absentKeys(set, entryOf, options);
  if (options.prune) changes.push(...absent);
  const unpruned = options.prune ? [] : absent.map(({ name }) => name);
  return { file, changes, unchanged, unpruned, faults, ended, unreadable, customersOfFile };
}

type Planned =
  | Exclude<PlannedChange, { readonly kind: 'revoke' }>
  | EndedEntry
  | { readonly same: StoredRecord }
  | { readonly fault: string; readonly at: Path };

function plannedFor(
  as: AppliedEntry,
  id: string,
  entry: Entry,
  before: Listed<StoredRecord> | null,
  compared: Compared,
): Planned {
  const { name } = as;
  if (before instanceof UnreadableRecord) return { name, id, why: before.message };
  try {
    if (before === null && entry.id !== undefined) {
      const kind = kindOf(id);
      return { fault: `is the id of no ${kind} in the store. Leave it out to make a ${kind}.`, at: ['id'] };
    }
    if (before === null) return { kind: 'create', name, id, after: newRecord(as, id, entry, compared) };
    const after = appliedTo(before, as, entry, compared);
    return after === before ? { same: before } : { kind: 'update', name, id, entry, before, after };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.code === 'conflict') return { name, id, why: error.message };
    if (error.code === 'refused') return { fault: error.message, at: [] };
    throw error;
  }
}

/** The keys of the set that have no entry in the file, oldest first, as changes that revoke them; and those that cannot be read. */
async function absentKeys(set: string, entryOf: ReadonlyMap<string, string>, { keys }: Pick<PlanOptions, 'keys'>) {
  const absent: PlannedChange[] = [];
  const unreadable: UnreadableRecord[] = [];
  const mayMatch = (record: string) => record.includes('"applied":');
  let cursor: string | null = null;
  do {
    const part = await keys.scan({ most: SCANNED_AT_ONCE, cursor, mayMatch });
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
