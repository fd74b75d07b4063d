import { OpenWebSockets } from '../gateway/open-web-sockets.ts';
import type { GatewayStores } from './gateway-stores.ts';

const CHECK_EXPIRIES_EVERY_MS = 1_000;

/**
 * Keeps the open WebSockets of one gateway, and closes those of a key within a second after it is revoked or has expired
 * (contract section 1).
 */
export function closeWebSocketsOfEndedKeys(
  limits: () => { readonly maxPerKey: number; readonly max: number },
  { keys, changes }: Pick<GatewayStores, 'keys' | 'changes'>,
): OpenWebSockets {
  const changed = new Set<string>();
  /** By key with open WebSockets, when it expires, in Unix milliseconds. */
  const expiries = new Map<string, number>();
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
      // While the store is away the key's WebSockets stay open. The store announces changes again when it is back.
      const key = await keys.get(id).catch(() => undefined);
      if (key === null || (key !== undefined && key.revokedAtMs !== null)) webSockets.cut('revoked', id);
      else if (key !== undefined && key.expiresAtMs !== null) expiries.set(id, key.expiresAtMs);
      else if (key !== undefined) expiries.delete(id);
    }
    isChecking = false;
  };
  changes.subscribe(({ kind, keyId }) => {
    if (kind === 'ban') return;
    const { keyIds } = webSockets;
    for (const id of keyId === null ? keyIds : [keyId]) if (keyIds.has(id)) changed.add(id);
    void checkChanged();
  });
  setInterval(() => {
    const [nowMs, { keyIds }] = [Date.now(), webSockets];
    for (const [id, atMs] of expiries) {
      if (keyIds.has(id) && atMs > nowMs) continue;
      expiries.delete(id);
      webSockets.cut('expired', id);
    }
  }, CHECK_EXPIRIES_EVERY_MS).unref();
  return webSockets;
}
