import { eventually } from './conditions.ts';
import { freePort } from './free-port.ts';
import { type PrivateRedis, privateRedis } from './private-redis.ts';
import { redisCommand } from './redis-command.ts';

const SLOTS = 16_384;
const PRIMARIES = 3;

/** One primary with the replica that follows it at the beginning. */
export interface Shard {
  readonly primary: PrivateRedis;
  readonly replica: PrivateRedis;
}

/** A Redis Cluster of this machine: three primaries with a replica each, for one test or one file. */
export interface PrivateCluster {
  /** `redis+cluster://` with all nodes. */
  readonly url: string;
  readonly nodes: readonly PrivateRedis[];
  readonly shards: readonly Shard[];
  /** Forgets everything on all nodes that are primaries. */
  empty(): Promise<void>;
  /** Which node has the slot of a name now, by that name's node's own word. */
  ownerOf(slot: number): Promise<PrivateRedis>;
  /** Moves a slot with all that is in it, as `redis-cli --cluster reshard` does it. */
  moveSlot(slot: number, to: PrivateRedis, meanwhile?: () => Promise<void>): Promise<void>;
  /** The replica takes over in agreement with its primary, which loses nothing. */
  handOver(shard: Shard): Promise<void>;
}

export interface PrivateClusterOptions {
  /** For every node, beside what a cluster needs. */
  readonly configArgs?: readonly string[];
  /** Files of the authority and of the nodes' certificate: clients and nodes then speak TLS, beside plain ports for tests. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

/** @throws Error when the cluster is not in order within 15 s */
export async function privateCluster(options: PrivateClusterOptions = {}): Promise<PrivateCluster> {
  const nodes = await Promise.all(Array.from({ length: 2 * PRIMARIES }, () => startNode(options)));
  const [primaries, replicas] = [nodes.slice(0, PRIMARIES), nodes.slice(PRIMARIES)];
  await Promise.all(primaries.map((node, i) => giveSlots(node, i)));
  for (const node of nodes.slice(1)) await meet(nodes[0]!, node);
  await eventually(async () => (await Promise.all(nodes.map(knownTo))).every((count) => count === nodes.length), {
    withinMs: 15_000,
    everyMs: 50,
  });
  const shards = primaries.map((primary, i) => ({ primary, replica: replicas[i]! }));
  await Promise.all(shards.map(follow));
  const isInOrder = async () => (await Promise.all(nodes.map(hasOrder))).every(Boolean);
  await eventually(isInOrder, { withinMs: 15_000, everyMs: 50 });
  const hosts = nodes.map((node) => `127.0.0.1:${clusterPort(node)}`).join(',');
  return {
    url: `${options.tls === undefined ? 'redis' : 'rediss'}+cluster://${nodes[0]!.userInfo}${hosts}`,
    nodes,
    shards,
    empty: async () => {
      for (const node of nodes) if (await isPrimary(node)) await redisCommand(node.url, 'FLUSHALL');
    },
    ownerOf: (slot) => ownerOf(nodes, slot),
    moveSlot: (slot, to, meanwhile) => moveSlot(nodes, slot, to, meanwhile),
    handOver: async ({ replica }) => {
      await redisCommand(replica.url, 'CLUSTER', 'FAILOVER');
      await eventually(() => isPrimary(replica), { withinMs: 10_000 });
    },
  };
}

async function startNode({ configArgs = [], tls }: PrivateClusterOptions): Promise<PrivateRedis> {
  const bus = String(await freePort());
  const tlsArgs =
    tls === undefined
      ? []
      : [
          ...['--tls-port', String(await freePort()), '--tls-cluster', 'yes', '--tls-replication', 'yes'],
          ...['--tls-ca-cert-file', tls.ca, '--tls-cert-file', tls.cert, '--tls-key-file', tls.key],
          ...['--tls-auth-clients', 'no'],
        ];
  return privateRedis({
    asProcess: true,
    configArgs: [
      ...['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--cluster-port', bus],
      ...['--cluster-node-timeout', '1000', '--repl-diskless-sync-delay', '0'],
      // Otherwise the whole cluster refuses to serve while one slot has nobody.
      ...['--cluster-require-full-coverage', 'no'],
      ...tlsArgs,
      ...configArgs,
    ],
  });
}

async function giveSlots(node: PrivateRedis, i: number): Promise<void> {
  const from = Math.floor((i * SLOTS) / PRIMARIES);
  const to = Math.floor(((i + 1) * SLOTS) / PRIMARIES) - 1;
  await redisCommand(node.url, 'CLUSTER', 'ADDSLOTSRANGE', from, to);
  await redisCommand(node.url, 'CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
}

async function meet(one: PrivateRedis, other: PrivateRedis): Promise<void> {
  const bus = valueFor(other, '--cluster-port')!;
  await redisCommand(one.url, 'CLUSTER', 'MEET', '127.0.0.1', clusterPort(other), bus);
}

/** The port that the cluster itself names. */
function clusterPort(node: PrivateRedis): string {
  return valueFor(node, '--tls-port') ?? String(node.port);
}

function valueFor({ configArgs }: PrivateRedis, option: string): string | null {
  const at = configArgs.indexOf(option);
  return at === -1 ? null : configArgs[at + 1]!;
}

async function knownTo(node: PrivateRedis): Promise<number> {
  return String(await redisCommand(node.url, 'CLUSTER', 'NODES')).match(/ connected/g)?.length ?? 0;
}

async function follow({ primary, replica }: Shard): Promise<void> {
  await redisCommand(replica.url, 'CLUSTER', 'REPLICATE', await idOf(primary));
  await eventually(
    async () => /master_link_status:up/.test(String(await redisCommand(replica.url, 'INFO', 'replication'))),
    { withinMs: 15_000, everyMs: 50 },
  );
}

async function hasOrder(node: PrivateRedis): Promise<boolean> {
  const info = String(await redisCommand(node.url, 'CLUSTER', 'INFO'));
  const replicas = String(await redisCommand(node.url, 'CLUSTER', 'NODES')).match(/ (myself,)?slave /g);
  return /cluster_state:ok/.test(info) && replicas?.length === PRIMARIES;
}

async function isPrimary(node: PrivateRedis): Promise<boolean> {
  if (node.pid === 0) return false;
  return /role:master/.test(String(await redisCommand(node.url, 'INFO', 'replication')));
}

async function idOf(node: PrivateRedis): Promise<string> {
  return String(await redisCommand(node.url, 'CLUSTER', 'MYID'));
}

async function ownerOf(nodes: readonly PrivateRedis[], slot: number): Promise<PrivateRedis> {
  const asked = nodes.find(({ pid }) => pid !== 0)!;
  const ranges = (await redisCommand(asked.url, 'CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
  const port = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2][1];
  return nodes.find((node) => node.port === port)!;
}

async function moveSlot(
  nodes: readonly PrivateRedis[],
  slot: number,
  to: PrivateRedis,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  const from = await ownerOf(nodes, slot);
  const [fromId, toId] = [await idOf(from), await idOf(to)];
  await redisCommand(to.url, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
  await redisCommand(from.url, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
  await meanwhile();
  for (;;) {
    const names = (await redisCommand(from.url, 'CLUSTER', 'GETKEYSINSLOT', slot, 10)) as string[];
    if (names.length === 0) break;
    for (const name of names) await redisCommand(from.url, 'MIGRATE', '127.0.0.1', to.port, name, 0, 5_000);
  }
  await meanwhile();
  await redisCommand(to.url, 'CLUSTER', 'SETSLOT', slot, 'NODE', toId);
  await redisCommand(from.url, 'CLUSTER', 'SETSLOT', slot, 'NODE', toId);
}
