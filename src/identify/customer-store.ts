import { z } from 'zod';
import type { Durability } from '../admit/ledger.ts';
import type { Limits } from '../admit/plan.ts';
import { type Attributes, KEPT } from '../model/attributes.ts';
import { newId, type Random } from './api-key.ts';
import type { AppliedEntry } from './key-store.ts';
import { type Listed, readRecord } from './stored-record.ts';
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

/** A page of customers in the order of their creation. `cursor` is the id of its last customer, and null on the last page. */
export interface CustomerPage {
  readonly customers: readonly Listed<StoredCustomer>[];
  readonly cursor: string | null;
}

/** A customer after a change. */
export interface UpdatedCustomer {
  readonly customer: StoredCustomer;
  readonly durability: Durability;
}

export interface DeletedCustomer {
  /** The customer before the deletion; its tombstone if it had been deleted already. */
  readonly before: StoredCustomer;
  readonly durability: Durability;
}

/**
 * The store of customers. Owned by identify, implemented by stores/embedded and stores/redis; test/contracts/customer-store.ts
 * tests both. Every method rejects as those of KeyStore do, and lists have records that cannot be read as its lists do. Which keys a customer has is
 * in the records of the keys (`KeyStore.list`).
 */
export interface CustomerStore {
  /** A deleted customer is found only with `evenDeleted`. */
  get(id: string, options?: { readonly evenDeleted: boolean }): Promise<StoredCustomer | null>;
  /** The customers after the one with the id `cursor`. New ones do not move it. Rejects with `refused` for an unknown cursor. */
  list(page: { readonly limit: number; readonly cursor: string | null }): Promise<CustomerPage>;
  /** Stores a new customer. Rejects with `refused` if another has its id, even a deleted one. */
  create(customer: StoredCustomer): Promise<Durability>;
  /**
   * Replaces a customer by `change(customer)` atomically and notifies every gateway, as `KeyStore.update` does.
   * @returns null if there is no such customer
   */
  update(id: string, change: (customer: StoredCustomer) => StoredCustomer): Promise<UpdatedCustomer | null>;
  /**
   * Replaces a customer by its tombstone `bury(customer)` and removes it from the list, as `KeyStore.delete` does.
   * @returns null if there is no such customer
   */
  delete(id: string, bury: (customer: StoredCustomer) => StoredCustomer): Promise<DeletedCustomer | null>;
}

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
