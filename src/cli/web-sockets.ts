import { WebSockets } from '../gateway/web-sockets.ts';
import type { GatewayStores } from './gateway-stores.ts';

const LOOK_EVERY_MS = 1_000;

/**
 * Keeps the WebSockets of one gateway, and ends those of a key when it is revoked or expires: within a second, as every
 * change of a key is obeyed.
 */
export function keepWebSockets(
  limits: () => { readonly maxPerKey: number; readonly max: number },
  { keys, changes }: Pick<GatewayStores, 'keys' | 'changes'>,
): WebSockets {
  const changed = new Set<string>();
  /** When the keys that have any open expire, Unix milliseconds. */
  const expiries = new Map<string, number>();
  const webSockets = new WebSockets(limits, (id) => {
    changed.add(id);
    void look();
  });
  let looking = false;
  const look = async () => {
    if (looking) return;
    looking = true;
    for (const id of changed) {
      changed.delete(id);
      // A store that is away says nothing against a key; it is looked at again when the store says that keys may have changed.
      const key = await keys.get(id).catch(() => undefined);
      if (key === null || (key !== undefined && key.revokedAtMs !== null)) webSockets.cut('revoked', id);
      else if (key !== undefined && key.expiresAtMs !== null) expiries.set(id, key.expiresAtMs);
      else if (key !== undefined) expiries.delete(id);
    }
    looking = false;
  };
  changes.subscribe(({ kind, keyId }) => {
    if (kind === 'ban') return;
    const { keyIds } = webSockets;
    for (const id of keyId === null ? keyIds : [keyId]) if (keyIds.has(id)) changed.add(id);
    void look();
  });
  setInterval(() => {
    const [nowMs, { keyIds }] = [Date.now(), webSockets];
    for (const [id, atMs] of expiries) {
      if (keyIds.has(id) && atMs > nowMs) continue;
      expiries.delete(id);
      webSockets.cut('expired', id);
    }
  }, LOOK_EVERY_MS).unref();
  return webSockets;
}
