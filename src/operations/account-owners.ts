import { partsOfAccount } from '../admit/account-id.ts';
import { isTokenHolder } from '../identify/api-key.ts';
import type { CustomerStore, KeyStore } from '../identify/record-store.ts';
import type { Limits } from '../model/plan.ts';
import { type Listed, orUnreadable, type StoredCustomer, type StoredKey, UnreadableRecord } from '../model/record.ts';

/** Who is behind an account: a key, a caller with tokens, or a customer. */
interface AccountOwner {
  /** How operators name it. */
  readonly id: string;
  readonly name: string | null;
  readonly owner: string | null;
  /** Null for a caller with tokens without a customer: the tokens name it. */
  readonly plan: string | null;
  readonly limits: Limits;
  /** The own limits of the customer to which it belongs; null without one. */
  readonly limitsOfCustomer: Limits | null;
  /** Absent without one. */
  readonly customer: { readonly customer?: { readonly id: string; readonly name: string | null } };
  /** Whether it can call: it is neither revoked nor expired, and its customer neither. */
  readonly isLive: (nowMs: number) => boolean;
}

interface OwnerStores {
  readonly keys: Pick<KeyStore, 'get'>;
  readonly customers: Pick<CustomerStore, 'get'>;
}

/** @returns null if nothing calls under this account any more: the key or the customer is deleted, or the key was moved */
export async function ownerOf(
  accountId: string,
  { keys, customers }: OwnerStores,
): Promise<Listed<AccountOwner> | null> {
  const { consumerId, customerId } = partsOfAccount(accountId);
  const customer = customerId === null ? null : await orUnreadable(customers.get(customerId));
  if (customer instanceof UnreadableRecord) return customer;
  if (customerId !== null && customer === null) return null;
  if (consumerId === null) return ownerOfCustomer(customer!);
  const ofCustomer = {
    customer: customer === null ? {} : { customer: { id: customer.id, name: customer.name } },
    limitsOfCustomer: customer === null ? null : customer.limits,
  };
  if (isTokenHolder(consumerId)) {
    const isLive = (nowMs: number) => lives(customer, nowMs);
    return { id: accountId, name: null, owner: null, plan: customer?.plan ?? null, limits: {}, ...ofCustomer, isLive };
  }
  const key = await orUnreadable(keys.get(consumerId));
  if (key instanceof UnreadableRecord) return key;
  if (key === null || (key.customer ?? null) !== customerId) return null;
  const { id, name, owner, limits } = key;
  const isLive = (nowMs: number) => key.revokedAtMs === null && lives(key, nowMs) && lives(customer, nowMs);
  return { id, name, owner, plan: customer?.plan ?? key.plan, limits, ...ofCustomer, isLive };
}

function ownerOfCustomer(customer: StoredCustomer): AccountOwner {
  const { id, name, owner, plan, limits } = customer;
  return {
    id,
    name,
    owner,
    plan,
    limits,
    limitsOfCustomer: null,
    customer: {},
    isLive: (nowMs) => lives(customer, nowMs),
  };
}

function lives(record: Pick<StoredKey, 'expiresAtMs'> | null, nowMs: number): boolean {
  return record === null || record.expiresAtMs === null || nowMs < record.expiresAtMs;
}
