import { randomBytes } from 'node:crypto';
import { newCustomerId } from '../../src/identify/api-key.ts';
import type { StoredCustomer } from '../../src/model/record.ts';

/** A customer as a store has it. */
export function someCustomer(differently: Partial<StoredCustomer> = {}): StoredCustomer {
  return {
    id: newCustomerId(randomBytes),
    plan: 'pro',
    limits: {},
    name: null,
    owner: null,
    createdAtMs: 1_700_000_000_000,
    expiresAtMs: null,
    ...differently,
  };
}
