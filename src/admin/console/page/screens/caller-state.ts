import { millisecondsOf } from '../kit/format.tsx';
import type { Key, KeyOrCustomer } from '../types.ts';

// The states of keys and customers. What is shown of them is in caller-facts.ts.

export function isSuspended({ suspended }: KeyOrCustomer): boolean {
  return suspended !== undefined && (suspended.until === null || millisecondsOf(suspended.until) > Date.now());
}

export function stateOf(key: Key): 'active' | 'suspended' | 'revoked' | 'expired' {
  const { revokedAt, expiresAt } = key;
  const isPast = (moment: string) => millisecondsOf(moment) <= Date.now();
  if (revokedAt !== null) return 'revoked';
  if (expiresAt !== null && isPast(expiresAt)) return 'expired';
  return isSuspended(key) ? 'suspended' : 'active';
}

/** Whether a key is revoked or expired. */
export function hasEnded(key: Key): boolean {
  const state = stateOf(key);
  return state === 'revoked' || state === 'expired';
}

/** Why a key admits no request, whatever its limits are; null if it may. */
export function refusalOf(key: Key): string | null {
  const state = stateOf(key);
  if (state !== 'active') return `the key is ${state}`;
  const ofCustomer = key.customer?.state ?? 'active';
  return ofCustomer === 'active' ? null : `its customer is ${ofCustomer}`;
}
