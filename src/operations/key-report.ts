import { z } from 'zod';
import { type Allowance, allowanceOf, withAllBudgets } from '../admit/allowance.ts';
import { formOf } from '../admit/windows.ts';
import { shapeOf, shownAttributes } from '../model/attributes.ts';
import { formText, inOrder, type Limits, limit, limitOrCustom, limits, type Plans } from '../model/plan.ts';
import {
  type AppliedEntry,
  isSuspended,
  type Listed,
  type StoredCustomer,
  type StoredKey,
  UnreadableRecord,
} from '../model/record.ts';
import { type DeepReadonly, time } from '../model/values.ts';
import { day } from './operation-values.ts';
import { suspendedMember, suspension } from './suspensions.ts';

/** Why a record that a row of a list is about cannot be read; the row has what is known without it. */
export const unreadableRow = z
  .string()
  .optional()
  .describe('Why the record of the key, or of its customer, cannot be read; absent if it can.');

const secret = z.strictObject({
  last4: z.string().nullable().describe('Null where only a hash was ever known.'),
  createdAt: time,
  expiresAt: time.nullable(),
});
/** The secrets of a key, each with its last use. */
export const usedSecrets = z
  .array(
    secret.extend({
      lastUsedOn: day
        .nullable()
        .describe('The day (UTC) on which a gateway saw the secret last, within ten seconds; null if none is kept.'),
    }),
  )
  .describe('The secrets that have not ended, newest first.');
/** Whose key it is. */
export const customerOfKey = z
  .strictObject({ id: z.string(), name: z.string().nullable() })
  .describe('The customer that the key belongs to; absent without one. Its `plan` is then the plan of the customer.')
  .meta({ id: 'CustomerOfKey' });

const CUSTOMER_STATES = ['active', 'suspended', 'expired', 'deleted', 'unreadable'] as const;
type CustomerState = (typeof CUSTOMER_STATES)[number];
const customerWithState = customerOfKey
  .extend({
    state: z
      .enum(CUSTOMER_STATES)
      .describe(
        'Unless it is `active`, the key is refused. `unreadable`: the store has its record and it cannot be read.',
      ),
  })
  .meta({ id: 'CustomerOfKeyWithState' });

/** All limits of a caller. */
export const heldToLimits = z.record(z.string(), limit).nullable();

/** A key as operators see it, without any secret. */
export const key = z
  .strictObject({
    id: z.string(),
    plan: z.string().nullable().describe('Null if it is that of the customer, whose record cannot be read.'),
    ...shapeOf('key', 'shown'),
    limits: z
      .record(z.string(), limitOrCustom)
      .describe(
        "As they apply: the key's own in place of its plan's. `custom` where the plan asks for one and the key has none. For a key of a " +
          "customer its own alone: what it may take of the customer's.",
      ),
    heldTo: heldToLimits.describe(
      "All limits that its requests are held to, by the names that usage has for them: the key's, and those of groups, units and the customer. Null if no request is admitted, because its plan or a limit that the plan asks for is missing, or if the customer is deleted or cannot be read.",
    ),
    createdAt: time,
    expiresAt: time.nullable(),
    ownLimits: limits,
    revokedAt: time.nullable(),
    suspended: suspension.optional().describe('Absent unless the key is suspended now.'),
    entry: z
      .string()
      .optional()
      .describe('The set and the entry of keys.yaml that manage the key, `SET/ENTRY`; absent without one.'),
    customer: customerWithState.optional(),
    unreadable: unreadableRow,
    secrets: z.array(secret).describe('The secrets that have not ended, newest first.'),
  })
  .meta({ id: 'Key', description: 'A key, without any secret.' });

/** Everything that the store holds about a key, without secrets and digests. */
export type KeyReport = DeepReadonly<z.output<typeof key>>;

/** What is said of the limits of a key alone, beside what lists say. */
export const limitNotes = {
  watched: z
    .record(z.string(), limit)
    .optional()
    .describe('The limits that are counted and refuse nothing, in place of `heldTo`, if its plan is not enforced.'),
  forms: z
    .record(z.string(), z.string())
    .optional()
    .describe('The kinds of its windows that are not fixed, such as `sliding, 12 slices`; absent if all are.'),
};

/** The customers of some keys, by id. One that is missing is deleted. */
type CustomersOfKeys = ReadonlyMap<string, Listed<CustomerOfKeys>>;
type CustomerOfKeys = Pick<StoredCustomer, 'id' | 'name' | 'plan' | 'limits' | keyof CustomerTimes>;
type CustomerTimes = Pick<StoredCustomer, 'expiresAtMs' | 'suspended'>;

/** @param customers those of the key @param nowMs Unix milliseconds */
export function keyReport(key: StoredKey, plans: Plans, nowMs: number, customers: CustomersOfKeys): KeyReport {
  const { id, createdAtMs, expiresAtMs, customer: customerId } = key;
  const found = customerId === undefined ? undefined : (customers.get(customerId) ?? null);
  const unreadable = found instanceof UnreadableRecord ? found : null;
  const customer = found instanceof UnreadableRecord ? null : found;
  // The plan of its own record is that of the customer when the key was made or moved, which may have had another one since.
  const plan = unreadable === null ? (customer?.plan ?? key.plan) : null;
  return {
    id,
    plan,
    ...shownAttributes('key', key),
    limits: inOrder(customerId === undefined ? { ...plans.plans.get(key.plan)?.limits, ...key.limits } : key.limits),
    heldTo:
      customer === null
        ? null
        : heldTo({ limits: key.limits, limitsOfCustomer: customer?.limits ?? null }, plan, plans),
    createdAt: timeOf(createdAtMs),
    expiresAt: timeOf(expiresAtMs),
    ownLimits: inOrder(key.limits),
    revokedAt: timeOf(key.revokedAtMs),
    ...suspendedNow(key, nowMs),
    ...(key.applied === undefined ? {} : { entry: entryText(key.applied) }),
    ...(customer === undefined
      ? {}
      : { customer: { id: customerId!, name: customer?.name ?? null, state: customerState(found ?? null, nowMs) } }),
    ...(unreadable === null ? {} : { unreadable: unreadable.message }),
    secrets: workingSecrets(key, nowMs).map(({ last4, createdAtMs, expiresAtMs }) => ({
      last4: last4 === '' ? null : last4,
      createdAt: timeOf(createdAtMs),
      expiresAt: timeOf(expiresAtMs),
    })),
  };
}

/** Whether the keys of a customer can be used, in one word. @param customer null: deleted */
function customerState(customer: Listed<CustomerTimes> | null, nowMs: number): CustomerState {
  if (customer === null) return 'deleted';
  if (customer instanceof UnreadableRecord) return 'unreadable';
  if (customer.expiresAtMs !== null && nowMs >= customer.expiresAtMs) return 'expired';
  return isSuspended(customer.suspended, nowMs) ? 'suspended' : 'active';
}

/** The secrets of a key that have not ended, newest first. */
export function workingSecrets({ secrets }: Pick<StoredKey, 'secrets'>, nowMs: number): StoredKey['secrets'] {
  return secrets.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs);
}

/** The secrets with which a request can be made now: none of a key that is revoked or has expired. */
export function usableSecrets(key: StoredKey, nowMs: number): StoredKey['secrets'] {
  const hasEnded = key.revokedAtMs !== null || (key.expiresAtMs !== null && key.expiresAtMs <= nowMs);
  return hasEnded ? [] : workingSecrets(key, nowMs);
}

/** The member `suspended` of the report of a key or a customer; absent unless it is suspended now. */
export function suspendedNow({ suspended }: Pick<StoredKey, 'suspended'>, nowMs: number) {
  return suspendedMember(isSuspended(suspended, nowMs) ? suspended : undefined);
}

/** How reports name the entry of a keys.yaml. */
export function entryText({ set, name }: AppliedEntry): string {
  return `${set}/${name}`;
}

/** Formats Unix milliseconds as RFC 3339; null stays null. */
export function timeOf(atMs: number): string;
export function timeOf(atMs: number | null): string | null;
export function timeOf(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}

/** The own limits of a caller, and those of the customer to which it belongs, null without one. */
interface OwnLimits {
  readonly limits: Limits;
  readonly limitsOfCustomer: Limits | null;
}

/**
 * All budgets that an owner may be charged for, those of every group of routes among them. Those of a customer are the shared limits of
 * its plan, as its own.
 * @param name its plan
 * @returns null if plans.yaml has no such plan, or the owner lacks a limit that the plan asks for
 */
export function allowanceOfOwner(
  { limits, limitsOfCustomer }: OwnLimits,
  name: string,
  { plans }: Plans,
): Allowance | null {
  const plan = plans.get(name);
  if (plan === undefined) return null;
  const customer = limitsOfCustomer === null ? null : { limits: limitsOfCustomer };
  const allowance = allowanceOf(plan, limits, false, customer);
  return 'missing' in allowance ? null : withAllBudgets(allowance);
}

/** Limits by the names that `tollgate usage` has for them. */
type NamedLimits = Readonly<Record<string, number | 'unlimited'>>;

/** The limits of an allowance, those of each budget apart: the caller's own first, then those of groups, units and its customer. */
export function budgetsOf({ budgets }: Allowance): readonly NamedLimits[] {
  return budgets.map(({ prefix, limits, unlimited, inFlight }) => {
    const windows = [...limits, ...unlimited.map(({ window }) => ({ window, limit: 'unlimited' as const }))];
    const counted = inOrder<number | 'unlimited'>(
      Object.fromEntries(windows.map(({ window, limit }) => [window, limit])),
    );
    const all: NamedLimits = { ...counted, ...(inFlight === undefined ? {} : { 'in-flight': inFlight }) };
    return Object.fromEntries(Object.entries(all).map(([what, of]) => [`${prefix}${what}`, of]));
  });
}

/** What lists do not say of an allowance. @param allowance null: no request is admitted */
export function notesOn(allowance: Allowance | null) {
  if (allowance === null) return {};
  const { shadow, isShadowOnly } = allowance;
  const counted = isShadowOnly ? shadow! : allowance;
  const forms = counted.limits
    .map((of) => [of.name ?? of.window, formText(of.window, formOf(of))] as const)
    .filter(([, form]) => form !== 'fixed');
  return {
    ...(isShadowOnly ? { watched: limitsIn(counted) } : {}),
    ...(forms.length === 0 ? {} : { forms: Object.fromEntries(forms) }),
  };
}

function limitsIn(allowance: Allowance): NamedLimits {
  return Object.assign({}, ...budgetsOf(allowance));
}

/**
 * All limits that the requests of a caller are held to.
 *
 * Fault: lists showed the windows of the plan alone, and the caller was held to those of units, of groups and of its customer too.
 * @param plan its plan; null: unknown
 * @returns null if no request is admitted, because the plan or a limit that it asks for is missing, or if the plan is unknown
 */
export function heldTo(owner: OwnLimits, plan: string | null, plans: Plans): NamedLimits | null {
  const allowance = plan === null ? null : allowanceOfOwner(owner, plan, plans);
  if (allowance === null) return null;
  return allowance.isShadowOnly ? {} : limitsIn(allowance);
}
