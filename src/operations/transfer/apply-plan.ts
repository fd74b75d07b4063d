import type { Entry, KeysFile } from '../../config/keys-file.ts';
import { Failure } from '../../failure.ts';
import { digestOfHash } from '../../identify/api-key.ts';
import type { CustomerStore, KeyStore } from '../../identify/record-store.ts';
import { attributesIn } from '../../model/attributes.ts';
import {
  digestsOf,
  isKey,
  KINDS,
  kindOf,
  type Listed,
  type StoredKey,
  type StoredRecord,
  UnreadableRecord,
} from '../../model/record.ts';
import { WINDOWS } from '../../model/values.ts';
import { entryText, timeOf } from '../key-report.ts';
import { appliedTo, type Compared, entriesIn, type NamedEntry, newRecord } from './entries.ts';
import { bytesOf } from './import-keys.ts';
import { found } from './keys-and-customers.ts';

/** A change that makes the store more like keys.yaml. `name` is that of the entry. */
export type PlannedChange = {
  readonly name: string;
  readonly id: string;
} & (
  | { readonly kind: 'create'; readonly entry: Entry /** A key is without a secret. */; readonly after: StoredRecord }
  | { readonly kind: 'update'; readonly entry: Entry; readonly before: StoredRecord; readonly after: StoredRecord }
  | { readonly kind: 'revoke' }
);

/** An entry whose record is as it says, or is left as it is. */
export interface LeftEntry {
  readonly name: string;
  readonly id: string;
  readonly kind: 'same' | 'refused';
  /** Null if the record is as the entry says. */
  readonly why: string | null;
  /** Where the entry has a fault that only the store shows; null if its record has ended, belongs elsewhere, or cannot be read. */
  readonly at: readonly string[] | null;
}

export type PlannedEntry = Exclude<PlannedChange, { readonly kind: 'revoke' }> | LeftEntry;

export interface ApplyPlan {
  /** Those of customers first. */
  readonly entries: readonly PlannedEntry[];
  /** As they are after the changes. */
  readonly customersOfFile: Compared['customersOfFile'];
}

interface PlanOptions extends Pick<Compared, 'plans' | 'nowMs'> {
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly keys: Pick<KeyStore, 'get'>;
}

/** Records that are read from the store together. */
const BATCH = 100;

/**
 * Compares keys.yaml, or a slice of it, with the store. It writes nothing.
 * @throws Failure `store_unavailable`, `store_corrupt`
 */
export async function planApply(file: KeysFile, options: PlanOptions): Promise<ApplyPlan> {
  const customersOfFile = new Map<string, StoredRecord>();
  const compared = { ...options, customersOfFile };
  const entries: PlannedEntry[] = [];
  for (const kind of KINDS) {
    const all = entriesIn(file, kind);
    for (let i = 0; i < all.length; i += BATCH) {
      const batch = all.slice(i, i + BATCH);
      const present = await Promise.all(batch.map(({ id }) => found(id, options)));
      for (const [j, one] of batch.entries()) {
        const { planned, record } = plannedFor(one, present[j]!, compared);
        entries.push(planned);
        if (kind === 'customer' && record !== null) customersOfFile.set(one.as.name, record);
      }
    }
  }
  return { entries, customersOfFile };
}

/** What is to be done for an entry, and the record that it then has; null if it has none that is of the file. */
function plannedFor(
  { as, id, entry }: NamedEntry,
  before: Listed<StoredRecord> | null,
  compared: Compared & Pick<PlanOptions, 'peppers'>,
): { readonly planned: PlannedEntry; readonly record: StoredRecord | null } {
  const { name } = as;
  const refused = (why: string, at: readonly string[] | null = null) => ({
    planned: { kind: 'refused' as const, name, id, why, at },
    record: null,
  });
  if (before instanceof UnreadableRecord) return refused(before.message);
  try {
    if (before === null && entry.id !== undefined) {
      const kind = kindOf(id);
      return refused(`is the id of no ${kind} in the store. Leave it out to make a ${kind}.`, ['id']);
    }
    if (before === null) {
      const after = newRecord(as, id, entry, compared);
      return { planned: { kind: 'create', name, id, entry, after }, record: after };
    }
    const after = appliedTo(before, as, entry, compared);
    if (isKey(before) && entry.sha256 !== undefined && !hasDigest(before, entry.sha256, compared.peppers))
      return refused(`${id} has other secrets than this one, and keeps them. Leave \`sha256\` out.`, ['sha256']);
    if (after === before) return { planned: { kind: 'same', name, id, why: null, at: null }, record: before };
    return { planned: { kind: 'update', name, id, entry, before, after }, record: after };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.code === 'conflict') return refused(error.message);
    if (error.code === 'refused') return refused(error.message, []);
    throw error;
  }
}

/** Whether a key has, or had, the secret of this SHA-256. */
function hasDigest(key: StoredKey, sha256: string, peppers: readonly string[]): boolean {
  const own = digestsOf(key);
  return peppers.some((pepper) => own.includes(digestOfHash(bytesOf(sha256)!, pepper)));
}

/** Whether a prune of the set may revoke the key. */
export function isPrunable({ applied, revokedAtMs }: StoredKey, set: string): boolean {
  return applied?.set === set && revokedAtMs === null;
}

/** What a change makes different, in the words of the file. */
export function differenceOf(change: PlannedChange) {
  if (change.kind === 'revoke') return { revoked: { from: null, to: true } };
  const before = change.kind === 'create' ? {} : membersOf(change.before);
  const after = membersOf(change.after);
  const members = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const different = members.filter((member) => JSON.stringify(before[member]) !== JSON.stringify(after[member]));
  return Object.fromEntries(
    different.map((member) => [member, { from: before[member] ?? null, to: after[member] ?? null }]),
  );
}

function membersOf(record: StoredRecord): Record<string, unknown> {
  const { plan, limits, expiresAtMs, applied } = record;
  const given = WINDOWS.filter((window) => limits[window] !== undefined);
  const members: Record<string, unknown> = {
    plan,
    ...('customer' in record ? { customer: record.customer } : {}),
    ...attributesIn(record),
    limits: given.length === 0 ? null : Object.fromEntries(given.map((window) => [window, limits[window]])),
    expires: timeOf(expiresAtMs),
    entry: applied === undefined ? null : entryText(applied),
  };
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined));
}
