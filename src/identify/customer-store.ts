import { z } from 'zod';
import type { Limits } from '../admit/plan.ts';
import { type Attributes, KEPT } from '../model/attributes.ts';
import { newId, type Random } from './api-key.ts';
import type { AppliedEntry } from './key-store.ts';
import { type RecordStore, readRecord } from './stored-record.ts';
import { STORED_SUSPENSION, type Suspension } from './suspension.ts';

/** One customer: who pays for some keys. Its plan and limits are shared by all its keys. */
export interface StoredCustomer extends Attributes {
  readonly id: string;
  readonly plan: string;
  /** The customer's own limits, each of which replaces the limit of that window that its plan has for all its keys together. */
  readonly limits: Limits;
  /** Absent unless an operator has suspended it: all its keys are refused. */
  readonly suspended?: Suspension;
  readonly createdAtMs: number;
  /** From then on its keys are refused. */
  readonly expiresAtMs: number | null;
  /** When an operator deleted the customer. The record is then a tombstone: it keeps the id. Absent for other customers. */
  readonly deletedAtMs?: number;
  /** The entry of keys.yaml that `tollgate keys apply` has made or adopted the customer for; absent for other customers. */
  readonly applied?: AppliedEntry;
  /** The digest of the body that made it, by which a repeated request is recognised; absent if that is not possible. */
  readonly creation?: { readonly body: string };
}

/** The store of customers. Which keys a customer has is in the records of the keys (`KeyStore.list`). */
export type CustomerStore = RecordStore<StoredCustomer>;

/** Makes the id of a customer: `cus_` and 16 random base62 characters. */
export function newCustomerId(random: Random): string {
  return newId('cus_', random);
}

/** Whether text has the form of a customer's id. */
export function isCustomerId(id: string): boolean {
  return /^cus_[0-9A-Za-z]{1,16}$/.test(id);
}

const moment = z.number().int();
const limit = z.union([z.number().int().min(0), z.literal('unlimited')]).optional();
/** Loose: fields that a later version has added survive a change by this version. */
const STORED_CUSTOMER = z.looseObject({
  id: z.string(),
  plan: z.string(),
  limits: z.looseObject({ second: limit, minute: limit, hour: limit, day: limit, week: limit, month: limit }),
  ...KEPT,
  suspended: STORED_SUSPENSION.optional(),
  createdAtMs: moment,
  expiresAtMs: moment.nullable(),
  deletedAtMs: moment.optional(),
  applied: z.looseObject({ set: z.string(), name: z.string() }).optional(),
  creation: z.looseObject({ body: z.string() }).optional(),
});

/**
 * Parses the store's record of a customer, JSON.
 * @throws Failure `store_corrupt` if it is not a customer: another program's value, or a damaged record
 */
export function readStoredCustomer(text: string): StoredCustomer {
  return readRecord(text, STORED_CUSTOMER, 'a customer') as StoredCustomer;
}
