import { z } from 'zod';
import { Failure } from '../failure.ts';
import { type AttributeName, type Attributes, KEPT, type RecordKind } from './attributes.ts';
import { certificateDigest } from './client-certificates.ts';
import { count, type DeepReadonly, eachWindow, LAST_MS } from './values.ts';

/*
 * The records of keys and customers: JSON in the stores, and lines of a backup. Operations, imports and keys.yaml change them. What
 * operators write into a record beside its plan, its limits and its end is in attributes.ts.
 */

/** An object of a record. Members that a later version has added survive a change by this version; the type does not have them. */
function members<S extends z.ZodRawShape>(shape: S): z.ZodObject<S> {
  return z.looseObject(shape) as unknown as z.ZodObject<S>;
}

/**
 * A member that may be absent. JSON has no undefined, so this accepts what `exactOptional` of zod does; that tries the schema on each
 * absent member and makes the issues of its failure, which was more than half of the time in which a record is read.
 */
function absentOr<S extends z.ZodType>(schema: S): z.ZodExactOptional<S> {
  return schema.optional() as unknown as z.ZodExactOptional<S>;
}

/** Unix milliseconds. Fault: one that no date can be made every list of keys, and every backup, fail. */
const moment = z.int().min(-LAST_MS).max(LAST_MS);

const limits = members(eachWindow(() => absentOr(z.union([count, z.literal('unlimited')]))));

/** A key, or another holder of requests, that an operator has suspended: its requests are refused until it is resumed. */
export type Suspension = DeepReadonly<z.output<typeof suspension>>;
const suspension = members({
  /** When it began. */
  atMs: moment,
  /** When it ends by itself; null: only when an operator resumes it. */
  untilMs: moment.nullable(),
  /** For operators; the caller never sees it. Absent if none was given. */
  reason: absentOr(z.string()),
});

/** An entry of keys.yaml: the name of the set, and the name of the entry in it. */
export type AppliedEntry = DeepReadonly<z.output<typeof appliedEntry>>;
const appliedEntry = members({ set: z.string(), name: z.string() });

/** One secret of an API key. The record never holds the secret itself. */
export type StoredSecret = DeepReadonly<z.output<typeof secret>>;
const secret = members({
  /** HMAC-SHA-256(pepper, SHA-256(secret)), base64url. */
  digest: z.string(),
  /** The last four characters of the secret, for people to recognise it; empty if only its hash was imported. */
  last4: z.string(),
  createdAtMs: moment,
  /** Null: valid as long as its key. A rotation sets it. */
  expiresAtMs: moment.nullable(),
  /** Under which pepper the digest is (identify/secret-marks.ts). Absent if that is not known, as from earlier versions. */
  pepper: absentOr(z.string()),
  /** The form of the secret (`formOf` in identify/api-key.ts). Absent until the secret itself was seen. */
  form: absentOr(z.string()),
});

/** What every record has. */
const record = members({
  id: z.string(),
  plan: z.string(),
  /** Its own limits, each of which replaces a limit of its plan: that of the key; of a customer, that of all its keys together. */
  limits,
  ...KEPT,
  createdAtMs: moment,
  /** From then on the key, or each key of the customer, is refused. */
  expiresAtMs: moment.nullable(),
  /** Absent unless an operator has suspended it: the key, or all keys of the customer, are refused. */
  suspended: absentOr(suspension),
  /** When an operator deleted it for good. The record is then a tombstone, which keeps the id. Absent for other records. */
  deletedAtMs: absentOr(moment),
  /** The entry of keys.yaml that `tollgate keys apply` has made or adopted it for; absent for other records. */
  applied: absentOr(appliedEntry),
});

const key = members({
  ...record.shape,
  revokedAtMs: moment.nullable(),
  /** Newest first. */
  secrets: z.array(secret),
  /**
   * Digests of former secrets, oldest first: an import must not bring one of them back. A tombstone has all digests of its key here.
   * Absent if there are none.
   */
  retired: absentOr(z.array(z.string())),
  /**
   * The id of the customer that the key belongs to; absent for a key without one. The plan and the shared limits are those of the
   * customer, and `limits` bound what this key may take of them. `plan` is the customer's plan when the key came to it: gateways of
   * earlier versions, which know no customers, use it.
   */
  customer: absentOr(z.string()),
  /** Accounts under which the key was counted before it was moved, newest first; absent if it was never moved. */
  formerAccounts: absentOr(z.array(z.string())),
  /** Recognises a repeated request for the same creation (operations/create-once.ts); absent if that is not possible. */
  creation: absentOr(members({ salt: z.string(), body: z.string() })),
});

const customer = members({
  ...record.shape,
  /** The digest of the body that made it, by which a repeated request is recognised; absent if that is not possible. */
  creation: absentOr(members({ body: z.string() })),
});

type Members<S extends z.ZodType> = Omit<DeepReadonly<z.output<S>>, AttributeName> & Attributes;
/** One API key. Quota and bans belong to its `id`, whichever of its secrets is used. */
export interface StoredKey extends Members<typeof key> {}
/** One customer: who pays for some keys. Its plan and limits are shared by all its keys. */
export interface StoredCustomer extends Members<typeof customer> {}
export type StoredRecord = StoredKey | StoredCustomer;

/** In the order in which records are written: the keys of a new customer belong to it. */
export const KINDS = ['customer', 'key'] as const satisfies readonly RecordKind[];

/** The forms of ids. Secrets and other long texts have neither. */
export const ID_FORMS = { key: /^key_[0-9A-Za-z]{1,16}$/, customer: /^cus_[0-9A-Za-z]{1,16}$/ } as const;

/** Whether text has the form of a key's id. */
export function isKeyId(id: string): boolean {
  return ID_FORMS.key.test(id);
}

/** Whether text has the form of a customer's id. */
export function isCustomerId(id: string): boolean {
  return ID_FORMS.customer.test(id);
}

/** The kind of the record with an id. */
export function kindOf(id: string): RecordKind {
  return id.startsWith('cus_') ? 'customer' : 'key';
}

export function isKey(record: StoredRecord): record is StoredKey {
  return kindOf(record.id) === 'key';
}

/**
 * Whether a suspension is in force. One whose end has passed stays in the record until the next change of it, and has no effect.
 * @param suspension undefined, as in a record without one: not suspended
 * @param nowMs Unix milliseconds
 */
export function isSuspended(suspension: Suspension | undefined, nowMs: number): suspension is Suspension {
  return suspension !== undefined && (suspension.untilMs === null || nowMs < suspension.untilMs);
}

/** Of two suspensions the one that ends last; undefined if neither record has one. */
export function longerOf(one: Suspension | undefined, other: Suspension | undefined): Suspension | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return (one.untilMs ?? Infinity) >= (other.untilMs ?? Infinity) ? one : other;
}

/** Every digest that belongs to a key: those of its secrets, and the retired ones. */
export function digestsOf({ secrets, retired = [] }: StoredKey): string[] {
  return [...secrets.map(({ digest }) => digest), ...retired];
}

/** The names under which a store finds a key, each of which belongs to one key: its digests, and its certificates while it is not revoked. */
export function indexedOf(key: StoredKey): string[] {
  return [...digestsOf(key), ...certificateDigestsOf(key)];
}

/** What a store indexes of the certificates of a key. */
export function certificateDigestsOf({ certificates = [], revokedAtMs }: StoredKey): string[] {
  return revokedAtMs === null ? certificates.map(certificateDigest) : [];
}

/**
 * A record of the store that is there and cannot be read: a damaged one, or a value of another program under its name. Lists have it
 * in the place of the record, so that a caller has to say what it does with it. A caller that asks for this record alone gets it thrown.
 *
 * Fault: lists left such records out, and a backup without them looked complete. A look-up beside a list threw, and one record
 * ended the whole list.
 */
export class UnreadableRecord extends Failure {
  readonly id: string;

  constructor(id: string, message: string) {
    super('store_corrupt', message);
    this.id = id;
  }
}

/** A record as lists have it. */
export type Listed<T> = T | UnreadableRecord;

export function isReadable<T>(record: Listed<T>): record is T {
  return !(record instanceof UnreadableRecord);
}

/** The records that can be read, and the others. */
export function byReadability<T>(records: readonly Listed<T>[]) {
  return {
    readable: records.filter(isReadable),
    unreadable: records.filter((record) => record instanceof UnreadableRecord),
  };
}

/** A record that a list refers to. The list continues without it if it cannot be read. */
export async function orUnreadable<T>(record: Promise<T>): Promise<Listed<T>> {
  try {
    return await record;
  } catch (error) {
    if (error instanceof UnreadableRecord) return error;
    throw error;
  }
}

/** How a store reads the records of one kind. */
export interface RecordForm<T> {
  /** @throws Failure `store_corrupt` */
  readonly read: (text: string) => T;
  /** Where a record is, for operators: `tg:key:{key_1} in Redis`. */
  readonly placeOf: (id: string) => string;
}

/**
 * Reads what a store has under the name of a record.
 * @param text null: something that is no text
 */
export function listedRecord<T extends { readonly id: string }>(
  text: string | null,
  id: string,
  { read, placeOf }: RecordForm<T>,
): Listed<T> {
  try {
    const record = text === null ? null : read(text);
    if (record?.id === id) return record;
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'store_corrupt') throw error;
  }
  return new UnreadableRecord(
    id,
    `The record of ${id} cannot be read: ${placeOf(id)} holds something else. Put it right there, or remove it and restore ${id} from a backup.`,
  );
}

/** The same for a record that was asked for alone. @throws UnreadableRecord */
export function insistedRecord<T extends { readonly id: string }>(
  text: string | null,
  id: string,
  form: RecordForm<T>,
): T {
  const record = listedRecord(text, id, form);
  if (record instanceof UnreadableRecord) throw record;
  return record;
}

/** Whether a text looks like the record of this id, without the cost of parsing it. A damaged record may look like one. */
export function looksLikeRecord(text: string, id: string): boolean {
  return text.startsWith(`{"id":"${id}"`) && text.endsWith('}');
}

/**
 * Parses JSON of a store.
 * @param what it should be, for the sentence
 * @throws Failure `store_corrupt` if it is not: another program's value, or a damaged record
 */
export function readRecord<T>(text: string, schema: z.ZodType<T>, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The syntax error is dropped: it quotes the text, which may be anything.
  }
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  throw new Failure('store_corrupt', `The store holds a value that is not ${what} under the name of one.`);
}

/** Parses the record of a key, JSON. @throws Failure `store_corrupt` */
export function readStoredKey(text: string): StoredKey {
  return readRecord<unknown>(text, key, 'an API key') as StoredKey;
}

/** Parses the record of a customer, JSON. @throws Failure `store_corrupt` */
export function readStoredCustomer(text: string): StoredCustomer {
  return readRecord<unknown>(text, customer, 'a customer') as StoredCustomer;
}
