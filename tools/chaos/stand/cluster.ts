import { eventually } from '../../../test/support/conditions.ts';
import type { RedisBinary } from '../../../test/support/redis-binary.ts';
import type { RedisProcess } from '../../../test/support/redis-process.ts';
import type { Endings } from './endings.ts';
import { commandsTo, type Store, startServer } from './server.ts';

const SLOTS = 16_384;
const PRIMARIES = 3;
/** With a disk, as a primary that comes back empty before anybody has noticed would empty its replica. */
const OPTIONS = [
  '--appendonly',
  'yes',
  '--repl-diskless-sync-delay',
  '0',
  '--cluster-enabled',
  'yes',
  '--cluster-node-timeout',
  '1000',
  '--cluster-replica-validity-factor',
  '0',
];

/** Three primaries that share the slots, and a replica for each. */
export async function startCluster(binary: RedisBinary, endings: Endings): Promise<Omit<Store, 'close'>> {
  const servers: RedisProcess[] = [];
  // Each one takes a second port for the others, so they are started one after the other.
  for (let i = 0; i < PRIMARIES * 2; i++) servers.push(await startServer(binary, endings, OPTIONS));
  const primaries = servers.slice(0, PRIMARIES);
  await share(primaries);
  for (const server of servers.slice(1)) await commandsTo(servers[0]!)('CLUSTER', 'MEET', '127.0.0.1', server.port);
  await eventually(async () => (await nodesOf(servers[0]!)).length === servers.length, SOON);
  for (const [i, primary] of primaries.entries()) {
    const replica = servers[PRIMARIES + i]!;
    const id = String(await commandsTo(primary)('CLUSTER', 'MYID'));
    await eventually(async () => (await commandsTo(replica)('CLUSTER', 'REPLICATE', id)) === 'OK', SOON);
  }
  await eventually(
    async () => (await Promise.all(servers.map((it) => isWhole(it, servers.length)))).every(Boolean),
    SOON,
  );
  return {
    url: `redis+cluster://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    port: null,
    server: primaries[0]!,
    servers,
    command: commandsTo(primaries[0]!),
    primaries: () => primariesOf(servers),
    hasFailedOver: async () => {
      const info = String(await commandsTo(servers.at(-1)!)('CLUSTER', 'INFO'));
      const nodes = (await nodesOf(servers.at(-1)!)).filter(({ isPrimary, isUp }) => isPrimary && isUp);
      const others = nodes.filter(({ port }) => port !== primaries[0]!.port);
      return info.includes('cluster_state:ok') && others.length === PRIMARIES;
    },
  };
}

const SOON = { withinMs: 30_000, everyMs: 100 };

async function share(primaries: readonly RedisProcess[]): Promise<void> {
  for (const [i, primary] of primaries.entries()) {
    const from = Math.floor((i * SLOTS) / primaries.length);
    const to = Math.floor(((i + 1) * SLOTS) / primaries.length);
    await commandsTo(primary)('CLUSTER', 'ADDSLOTS', ...Array.from({ length: to - from }, (_, slot) => from + slot));
    // Else all begin with the same epoch, and sort that out while the test runs.
    await commandsTo(primary)('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
  }
}

export interface ClusterNode {
  readonly id: string;
  readonly port: number;
  readonly isPrimary: boolean;
  readonly isUp: boolean;
}

/** The nodes as one server sees them. */
export async function nodesOf(server: { readonly port: number }): Promise<ClusterNode[]> {
  const lines = String(await commandsTo(server)('CLUSTER', 'NODES'))
    .trim()
    .split('\n');
  return lines.map((line) => {
    const [id = '', address = '', flags = ''] = line.split(' ');
    const isUp = !/fail|handshake|noaddr/.test(flags);
    return { id, port: Number(/:(\d+)@/.exec(address)?.[1]), isPrimary: flags.includes('master'), isUp };
  });
}

async function isWhole(server: RedisProcess, size: number): Promise<boolean> {
  const info = String(await commandsTo(server)('CLUSTER', 'INFO'));
  if (!info.includes('cluster_state:ok') || !info.includes(`cluster_known_nodes:${size}`)) return false;
  const replication = String(await commandsTo(server)('INFO', 'replication'));
  return /role:master\r\nconnected_slaves:1\b|master_link_status:up/.test(replication);
}

async function primariesOf(servers: readonly RedisProcess[]) {
  const asked = servers.find(({ pid }) => pid !== 0)!;
  const nodes = await nodesOf(asked);
  return nodes.filter(({ isPrimary, isUp }) => isPrimary && isUp).map((node) => commandsTo(node));
}
