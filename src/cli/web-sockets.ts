import { WebSockets } from '../gateway/web-sockets.ts';
import type { GatewayStores } from './gateway-stores.ts';

/**
 * Keeps the WebSockets of one gateway, and ends those of a key when it is revoked: within a second, as every change of a
 * key is obeyed.
 */
export function keepWebSockets(
  limits: { readonly maxPerKey: number; readonly max: number },
  { keys, changes }: Pick<GatewayStores, 'keys' | 'changes'>,
): WebSockets {
  const webSockets = new WebSockets(limits);
  const changed = new Set<string>();
  let looking = false;
  const look = async () => {
    if (looking) return;
    looking = true;
    for (const id of changed) {
      changed.delete(id);
      // A store that is away says nothing against a key; it is looked at again when the store says that keys may have changed.
      const key = await keys.get(id).catch(() => undefined);
      if (key === null || (key !== undefined && key.revokedAtMs !== null)) webSockets.cut('revoked', id);
    }
    looking = false;
  };
  changes.subscribe(({ kind, keyId }) => {
    if (kind === 'ban') return;
    const { consumers } = webSockets;
    for (const id of keyId === null ? consumers : [keyId]) if (consumers.has(id)) changed.add(id);
    void look();
  });
  return webSockets;
}
