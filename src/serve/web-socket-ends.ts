import { type EndOfAccess, OpenWebSockets, type WebSocketLimits } from '../gateway/open-web-sockets.ts';
import { secretName } from '../identify/secret-use-store.ts';
import { isCustomerId, isSuspended, longerOf } from '../model/record.ts';
import type { GatewayStores } from './gateway-stores.ts';

const CHECK_EXPIRIES_EVERY_MS = 1_000;

/**
 * Keeps the open WebSockets of one gateway, and closes those of a key within a second after it is revoked or suspended or has
 * expired, its customer is deleted or suspended or has expired, or the secret that opened them has ended (contract section 1); and
 * those of tokens that name a customer, with the customer.
 */
export function closeWebSocketsOfEndedKeys(
  limits: () => WebSocketLimits,
  { keys, customers, changes, clock }: Pick<GatewayStores, 'keys' | 'customers' | 'changes' | 'clock'>,
): OpenWebSockets {
  const changed = new Set<string>();
  const webSockets = new OpenWebSockets(limits, (id) => {
    changed.add(id);
    void checkChanged();
  });
  let isChecking = false;
  const checkChanged = async () => {
    if (isChecking) return;
    isChecking = true;
    for (const id of changed) {
      changed.delete(id);
      // While the store is away the WebSockets stay open. The store announces changes again when it is back.
      const endOf = await endOfRecord(id, { keys, customers }, clock.nowMs).catch(() => null);
      if (endOf !== null) webSockets.endWith(id, endOf);
    }
    isChecking = false;
  };
  changes.subscribe(({ kind, keyId }) => {
    if (kind === 'account') return;
    const { recordIds } = webSockets;
    // Which keys a customer has is asked for each open WebSocket: there are few, and changes of customers are rare.
    for (const id of keyId === null || kind === 'customer' ? recordIds : [keyId])
      if (recordIds.has(id)) changed.add(id);
    void checkChanged();
  });
  setInterval(() => webSockets.cutExpired(clock.nowMs), CHECK_EXPIRIES_EVERY_MS).unref();
  return webSockets;
}

type Stores = Pick<GatewayStores, 'keys' | 'customers'>;

/** @param nowMs Unix milliseconds @returns how or when access by a key, or a customer, ends: for a key, with each of its secrets */
async function endOfRecord(
  id: string,
  { keys, customers }: Stores,
  nowMs: number,
): Promise<(secret: string | null) => EndOfAccess> {
  const key = isCustomerId(id) ? null : await keys.get(id);
  const customerId = isCustomerId(id) ? id : key?.customer;
  const customer = customerId === undefined ? null : await customers.get(customerId);
  const isGone = customerId === undefined ? key === null : customer === null;
  if (isGone || (key !== null && key.revokedAtMs !== null)) return () => 'revoked';
  if (isSuspended(longerOf(key?.suspended, customer?.suspended), nowMs)) return () => 'suspended';
  const endsAtMs = Math.min(key?.expiresAtMs ?? Infinity, customer?.expiresAtMs ?? Infinity);
  const ofSecrets = new Map(key?.secrets.map((one) => [secretName(one), one.expiresAtMs ?? Infinity]));
  return (secret) => {
    if (secret === null) return endsAtMs;
    const secretEndsAtMs = ofSecrets.get(secret);
    // A secret that is no longer in the record was ended, or was rotated as leaked.
    return secretEndsAtMs === undefined ? 'revoked' : Math.min(endsAtMs, secretEndsAtMs);
  };
}
