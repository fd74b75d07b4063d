import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../../admit/plan.ts';
import { WINDOWS } from '../../admit/windows.ts';
import type { CustomerEntry, KeyEntry } from '../../config/keys-file.ts';
import { momentOf } from '../../config/values.ts';
import type { StoredCustomer } from '../../identify/customer-store.ts';
import type { StoredKey } from '../../identify/key-store.ts';
import {
  type AttributeEdits,
  type AttributeName,
  type Attributes,
  attributesIn,
  changedAttributes,
  type Meta,
  metaEdits,
} from '../../model/attributes.ts';
import type { RecordEdits } from '../key-changes.ts';

// What the entries of keys and of customers have in common.

/** An entry that is left as it is in the store, such as one whose key is revoked. */
export interface EndedEntry {
  readonly name: string;
  readonly id: string;
  readonly why: string;
}

/**
 * The bytes that a text stands for, the same in every store: two applies at the same moment make one key, and a backup that is
 * restored elsewhere has the keys under the ids that the file means. The id of a key is not a secret.
 */
export function bytesFrom(parts: readonly string[]): (bytes: number) => Uint8Array {
  let block = 0;
  return (bytes) => {
    const text = JSON.stringify([...parts, block++]);
    return hash('sha512', text, 'buffer').subarray(0, bytes);
  };
}

/** What an entry says of the attributes of its record. An empty text removes one. */
export function attributesOfEntry(entry: KeyEntry | CustomerEntry): AttributeEdits {
  const given = Object.entries(attributesIn(entry as Partial<Attributes>));
  return Object.fromEntries(given.map(([name, value]) => [name, value === '' ? null : value]));
}

/** Those that the record does not have so. An entry has metadata as a whole. */
function differingAttributes(present: Attributes, entry: KeyEntry | CustomerEntry): AttributeEdits {
  const { meta, ...given } = attributesOfEntry(entry);
  const edits: AttributeEdits = meta == null ? given : { ...given, meta: metaEdits(present.meta, meta as Meta) };
  const after = changedAttributes(present, edits);
  const differs = ([name]: [string, unknown]) =>
    !isDeepStrictEqual(after[name as AttributeName], present[name as AttributeName]);
  return Object.fromEntries(Object.entries(edits).filter(differs));
}

/** What an entry changes in its record. What it leaves out stays. */
export function attributeEdits(present: StoredKey | StoredCustomer, entry: KeyEntry | CustomerEntry): RecordEdits {
  const limits = entry.limits === undefined ? {} : limitEdits(present.limits, limitsOf(entry.limits));
  const expiresAtMs = entry.expires === undefined ? present.expiresAtMs : endsAt(entry.expires);
  return {
    ...(entry.plan === undefined || entry.plan === present.plan ? {} : { plan: entry.plan }),
    ...differingAttributes(present, entry),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(expiresAtMs === present.expiresAtMs ? {} : { expiresAtMs }),
  };
}

function limitEdits(present: Limits, wanted: Limits): NonNullable<RecordEdits['limits']> {
  const different = WINDOWS.filter((window) => present[window] !== wanted[window]);
  return Object.fromEntries(different.map((window) => [window, wanted[window] ?? null]));
}

export function limitsOf(given: NonNullable<KeyEntry['limits']>): Limits {
  return Object.fromEntries(Object.entries(given).filter(([, limit]) => limit !== undefined)) as Limits;
}

/** @param text that keys.yaml accepts for `expires` */
export function endsAt(text: string): number | null {
  return text === 'never' ? null : momentOf(text);
}
