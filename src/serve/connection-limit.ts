import { COMMAND_CONNECTIONS } from '../admin/command-listener.ts';
import { ADMIN_CONNECTIONS } from '../admin/listener.ts';
import type { Settings } from '../config/settings.ts';
import type { ConnectionLimits } from '../listen/connections.ts';

/** Open files that the gateway itself needs, with a margin: program, log, settings, listeners, store, workers, operators. */
const OWN_FILES = 64 + ADMIN_CONNECTIONS.maxConnections;

/** The bounds on client connections in one process, and the open files on which they depend. */
interface ConnectionLimit extends ConnectionLimits {
  /** Open files that are kept for everything but client connections. */
  readonly reserved: number;
  /** Open files that `listen.maxConnections` would need. */
  readonly needed: number;
}

/**
 * The bounds of the settings, lowered to fit the number of files that one process may have open. A process that has used
 * them up can neither accept a client nor connect to an upstream. At least a quarter of the files is for clients, because
 * all upstreams rarely reach their bounds at the same time.
 * @param limit how many files one process may have open
 */
export function connectionLimitOf(settings: Settings, limit: number): ConnectionLimit {
  const { maxConnections, maxConnectionsPerAddress } = settings.listen;
  // Commands on a Redis ask no gateway.
  let reserved = OWN_FILES + (settings.redis.url === null ? COMMAND_CONNECTIONS : 0);
  for (const upstream of settings.upstreams.values()) reserved += upstream.maxConnections;
  // The upstream connection of a WebSocket does not count towards the upstream's `maxConnections`.
  const tunnels = settings.routes.some(({ upgrades }) => upgrades.length > 0) ? settings.websockets.max : 0;
  const needed = reserved + maxConnections + Math.min(tunnels, maxConnections);
  if (needed <= limit) return { maxConnections, maxConnectionsPerAddress, reserved: needed - maxConnections, needed };
  const room = limit - reserved;
  const fitting = Math.max(Math.floor(room / 2), room - tunnels, Math.floor(limit / 4), 1);
  const lowered = Math.min(fitting, maxConnections);
  const share = Math.floor((maxConnectionsPerAddress * lowered) / maxConnections);
  return {
    maxConnections: lowered,
    maxConnectionsPerAddress: Math.min(maxConnectionsPerAddress, Math.max(share, 64)),
    reserved: limit - lowered,
    needed,
  };
}

/**
 * The warning for an operator whose `listen.maxConnections` does not fit; null if it does.
 * @param parts the limit of each process that serves
 * @param limit how many files one process may have open
 */
export function tooFewFiles({ listen }: Settings, parts: readonly ConnectionLimit[], limit: number): string | null {
  const { reserved, needed } = parts[0]!;
  const taken = totalOf(parts);
  if (taken >= listen.maxConnections) return null;
  const who = parts.length === 1 ? 'this process' : `each of ${parts.length} workers`;
  return (
    `listen.maxConnections: ${listen.maxConnections} do not fit: ${who} may have ${limit} files open and keeps ` +
    `${reserved} of them for upstreams, WebSockets, the store and itself, so ${taken} connections are taken at a time. ` +
    `Raise the limit of open files to ${needed} (\`ulimit -Hn\`, LimitNOFILE of systemd, \`ulimits: nofile\` of a ` +
    'container), or lower listen.maxConnections or the maxConnections of upstreams.'
  );
}

/** Client connections that all processes accept together. */
export function totalOf(parts: readonly ConnectionLimit[]): number {
  return parts.reduce((sum, { maxConnections }) => sum + maxConnections, 0);
}
