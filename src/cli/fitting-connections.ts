import type { Settings } from '../config/settings.ts';
import type { ConnectionLimits } from '../listen/connections.ts';

/** What the gateway itself has open, with room: its program, log, files, listeners, store, workers, operators. */
const OWN = 100;

/** What bounds connections in one process, and how many open files that leaves for what else. */
export interface FittingConnections extends ConnectionLimits {
  /** Open files that are needed for anything but the connections of clients. */
  readonly reserved: number;
  /** Open files that would be enough for the connections that were asked for. */
  readonly needed: number;
}

/**
 * The bounds of the settings, lowered to what fits into the files that one process may have open: beyond that the system
 * accepts no connection, and opens none to the upstreams either. At least a quarter of the files is for clients, because
 * upstreams are hardly all used to their bounds at the same time.
 */
export function fittingConnections(settings: Settings, limit: number): FittingConnections {
  const { maxConnections, maxConnectionsPerAddress } = settings.listen;
  let reserved = OWN;
  for (const upstream of settings.upstreams.values()) reserved += upstream.maxConnections;
  // A WebSocket keeps a connection to its upstream that no longer counts for `maxConnections` of that.
  const tunnels = settings.routes.some(({ allowsUpgrade }) => allowsUpgrade) ? settings.websockets.max : 0;
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
 * What to tell an operator whose `listen.maxConnections` does not fit; null where it does.
 * @param parts what fits into each process that serves
 */
export function tooFewFiles({ listen }: Settings, parts: readonly FittingConnections[], limit: number): string | null {
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

/** Connections that all processes together take. */
export function totalOf(parts: readonly FittingConnections[]): number {
  return parts.reduce((sum, { maxConnections }) => sum + maxConnections, 0);
}
