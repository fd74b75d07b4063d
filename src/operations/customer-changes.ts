import type { Limits, Plan } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import type { Random } from '../identify/api-key.ts';
import { newCustomerId } from '../identify/api-key.ts';
import { type AttributeEdits, changedAttributes } from '../model/attributes.ts';
import type { StoredCustomer, UnreadableRecord } from '../model/record.ts';
import { refusePast, refuseUnusable } from './key-changes.ts';
import { unreadableText } from './unreadable.ts';

// What operators change in a customer, as pure functions. The values that a customer shares with a key have the same rules.

/** What a new customer is to have. */
export interface CustomerAttributes extends AttributeEdits {
  readonly plan: string;
  readonly limits: Limits;
  readonly expiresAtMs: number | null;
}

interface CustomerSources {
  /** The plans of plans.yaml by name. */
  readonly plans: ReadonlyMap<string, Plan>;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/**
 * Makes a customer. Its plan must exist, and every `custom` window must have a limit.
 * @throws Failure `refused`
 */
export function newCustomer(
  { plan, limits, expiresAtMs, ...attributes }: CustomerAttributes,
  { plans, random, nowMs }: CustomerSources,
): StoredCustomer {
  refuseUnusable({ plan, limits }, plans, 'customer');
  refusePast(expiresAtMs, nowMs, 'customer');
  return {
    id: newCustomerId(random),
    plan,
    limits,
    ...changedAttributes({}, attributes),
    createdAtMs: nowMs,
    expiresAtMs,
  };
}

/** The tombstone of a deleted customer: its id, under which no other is made. Deleting a customer twice is no error. */
export function deletedCustomer(customer: StoredCustomer, nowMs: number): StoredCustomer {
  if (customer.deletedAtMs !== undefined) return customer;
  const { id, createdAtMs } = customer;
  return { id, plan: '', limits: {}, name: null, owner: null, createdAtMs, expiresAtMs: null, deletedAtMs: nowMs };
}

/** @throws Failure `conflict` if the customer has keys that are not revoked, or that cannot be read */
export function refuseWithKeys(id: string, keys: number, unreadable: readonly UnreadableRecord[]): void {
  if (keys === 0 && unreadable.length > 0) {
    throw new Failure(
      'conflict',
      `Customer ${id} may have keys that are not revoked: ${unreadableText(unreadable)}. Put them right first, or ask for its keys to be revoked with it: without their customer they are refused.`,
    );
  }
  if (keys === 0) return;
  const [have, them] = keys === 1 ? ['a key that is', 'it'] : [`${keys} keys that are`, 'them'];
  throw new Failure(
    'conflict',
    `Customer ${id} has ${have} not revoked. Move or revoke ${them} first, or ask for ${them} to be revoked with the customer.`,
  );
}
