import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Entry, KeysFile } from '../../config/keys-file.ts';
import { momentOf } from '../../config/setting-values.ts';
import { Failure } from '../../failure.ts';
import { newCustomerId, newKeyId } from '../../identify/api-key.ts';
import {
  type AttributeEdits,
  type AttributeName,
  type Attributes,
  attributesIn,
  changedAttributes,
  type Meta,
  metaEdits,
  type RecordKind,
} from '../../model/attributes.ts';
import type { Limits, Plan } from '../../model/plan.ts';
import { type AppliedEntry, isKey, kindOf, type StoredCustomer, type StoredRecord } from '../../model/record.ts';
import { WINDOWS } from '../../model/values.ts';
import { newCustomer } from '../customers.ts';
import { edited, keyOf, type RecordEdits, validateAttributes } from '../key-changes.ts';
import { entryText, timeOf } from '../key-report.ts';

// What an entry of keys.yaml says of its key or customer.

/** With what an entry is compared with its record. */
export interface Compared {
  readonly plans: ReadonlyMap<string, Plan>;
  /** The customers of the file by the names of their entries, without those whose entry is left as it is. */
  readonly customersOfFile: ReadonlyMap<string, Pick<StoredCustomer, 'id' | 'plan'>>;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** An entry of keys.yaml, and the id of its record. */
export interface NamedEntry {
  readonly as: AppliedEntry;
  readonly entry: Entry;
  readonly id: string;
}

/** The entries of one kind, in the order of the file. */
export function entriesIn(file: KeysFile, kind: RecordKind): readonly NamedEntry[] {
  const { set } = file;
  return Object.entries<Entry>(file[`${kind}s`] ?? {}).map(([name, entry]) => {
    const as = { set, name };
    return { as, entry, id: idOf(kind, as, entry) };
  });
}

/** The id of an entry's record. */
function idOf(kind: RecordKind, as: AppliedEntry, { id }: Pick<Entry, 'id'>): string {
  return id ?? (kind === 'key' ? newKeyId(bytesFrom(as)) : newCustomerId(bytesFrom(as, kind)));
}

/**
 * The bytes that an entry stands for, the same in every store: two applies at the same moment make one record, and a backup that is
 * restored elsewhere has the records under the ids that the file means. An id is not a secret.
 */
function bytesFrom({ set, name }: AppliedEntry, ...kind: string[]): (bytes: number) => Uint8Array {
  let block = 0;
  return (bytes) => {
    const text = JSON.stringify(['tollgate keys apply', ...kind, set, name, block++]);
    return hash('sha512', text, 'buffer').subarray(0, bytes);
  };
}

/**
 * The record that an entry asks for. A key is as yet without a secret.
 * @throws Failure `refused` if it could not be used; `conflict` if the entry of its customer is left as it is
 */
export function newRecord(as: AppliedEntry, id: string, entry: Entry, compared: Compared): StoredRecord {
  const { nowMs } = compared;
  const customer = entry.customer === undefined ? null : customerNamed(entry.customer, compared);
  const attributes = {
    plan: customer?.plan ?? entry.plan!,
    limits: limitsOf(entry),
    name: as.name,
    ...attributesOfEntry(entry),
    expiresAtMs: entry.expires === undefined ? null : endsAt(entry.expires),
  };
  if (kindOf(id) === 'customer') {
    return { ...newCustomer(attributes, { ...compared, random: bytesFrom(as, 'customer') }), applied: as };
  }
  const ofKey = customer === null ? attributes : { ...attributes, customer: customer.id };
  validateAttributes(ofKey, compared);
  const secret = { digest: '', last4: '', createdAtMs: nowMs, expiresAtMs: null };
  return { ...keyOf(ofKey, { id, createdAtMs: nowMs, secret }), secrets: [], applied: as };
}

/**
 * The record as its entry says. What the entry leaves out stays.
 * @returns the same object if nothing differs
 * @throws Failure `refused` if the changed record could not be used, or if it is that of another entry; `conflict` if it has ended, or
 *   belongs to another customer or set
 */
export function appliedTo(present: StoredRecord, as: AppliedEntry, entry: Entry, compared: Compared): StoredRecord {
  const { id, applied } = present;
  const kind = kindOf(id);
  refuseEnded(present);
  refuseOtherCustomer(present, entry, compared);
  if (kind === 'customer' && applied !== undefined && applied.set !== as.set) {
    const message = `Customer ${id} is managed by ${entryText(applied)}. Change it there, or take the entry out of this file.`;
    throw new Failure('conflict', message);
  }
  const isAlready = isDeepStrictEqual(applied, as);
  if (entry.id === undefined && !isAlready) {
    const inSet = kind === 'key' && applied !== undefined ? ` in the set \`${applied.set}\`` : '';
    const owner = applied === undefined ? 'that of no entry' : `that of \`${applied.name}\`${inSet}`;
    const message = `The ${kind} of this name, ${id}, is now ${owner}. Choose another name, or add \`id: ${id}\`.`;
    throw new Failure('refused', message);
  }
  const edits: RecordEdits = { ...attributeEdits(present, entry), ...(isAlready ? {} : { applied: as }) };
  return Object.keys(edits).length === 0 ? present : edited(present, edits, compared, kind);
}

/** @throws Failure `conflict` for a record that is deleted, or a key that is revoked */
function refuseEnded(record: StoredRecord): void {
  const { id, deletedAtMs } = record;
  const endedAtMs = deletedAtMs ?? (isKey(record) ? record.revokedAtMs : null);
  if (endedAtMs === null) return;
  const how = deletedAtMs === undefined ? 'revoked' : 'deleted';
  const advice = `Take the entry out of the file, or give it another name for a new ${kindOf(id)}.`;
  throw new Failure('conflict', `${id} was ${how} on ${timeOf(endedAtMs)} and does not come back. ${advice}`);
}

/** @throws Failure `conflict` if its own entry is left as it is */
function customerNamed(name: string, { customersOfFile }: Compared) {
  const customer = customersOfFile.get(name);
  if (customer !== undefined) return customer;
  throw new Failure('conflict', `The entry \`${name}\` of its customer is not applied, so neither is this one.`);
}

/**
 * Apply moves no key: a move makes its counts start anew.
 * @throws Failure `conflict` if the entry says that the key belongs to another customer, or has a plan although its customer has one
 */
function refuseOtherCustomer(record: StoredRecord, entry: Entry, compared: Compared): void {
  const { id } = record;
  const customer = isKey(record) ? record.customer : undefined;
  if (entry.customer !== undefined) {
    const named = customerNamed(entry.customer, compared);
    if (named.id === customer) return;
    const where = customer === undefined ? 'belongs to no customer' : `belongs to another customer, ${customer}`;
    const message = `${id} ${where}. Apply moves no key; use \`tollgate keys move ${id} --customer ${named.id}\`.`;
    throw new Failure('conflict', message);
  }
  if (customer === undefined || entry.plan === undefined) return;
  throw new Failure(
    'conflict',
    `${id} belongs to ${customer}, which has its plan. Leave \`plan\` out, or use \`tollgate keys move ${id} --no-customer\`.`,
  );
}

/** What an entry says of the attributes of its record. An empty text removes one. */
function attributesOfEntry(entry: Entry): AttributeEdits {
  const given = Object.entries(attributesIn(entry as Partial<Attributes>));
  return Object.fromEntries(given.map(([name, value]) => [name, value === '' ? null : value]));
}

/** Those that the record does not have so. An entry has metadata as a whole. */
function differingAttributes(present: Attributes, entry: Entry): AttributeEdits {
  const { meta, ...given } = attributesOfEntry(entry);
  const edits: AttributeEdits = meta == null ? given : { ...given, meta: metaEdits(present.meta, meta as Meta) };
  const after = changedAttributes(present, edits);
  const differs = ([name]: [string, unknown]) =>
    !isDeepStrictEqual(after[name as AttributeName], present[name as AttributeName]);
  return Object.fromEntries(Object.entries(edits).filter(differs));
}

/** What an entry changes in its record. What it leaves out stays. */
function attributeEdits(present: StoredRecord, entry: Entry): RecordEdits {
  const wanted = entry.limits === undefined ? present.limits : limitsOf(entry);
  const different = WINDOWS.filter((window) => present.limits[window] !== wanted[window]);
  const limits = Object.fromEntries(different.map((window) => [window, wanted[window] ?? null]));
  const expiresAtMs = entry.expires === undefined ? present.expiresAtMs : endsAt(entry.expires);
  return {
    ...(entry.plan === undefined || entry.plan === present.plan ? {} : { plan: entry.plan }),
    ...differingAttributes(present, entry),
    ...(different.length === 0 ? {} : { limits }),
    ...(expiresAtMs === present.expiresAtMs ? {} : { expiresAtMs }),
  };
}

function limitsOf({ limits = {} }: Entry): Limits {
  return Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit !== undefined)) as Limits;
}

/** @param text that keys.yaml accepts for `expires` */
function endsAt(text: string): number | null {
  return text === 'never' ? null : momentOf(text);
}
