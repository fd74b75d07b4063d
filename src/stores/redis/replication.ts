import { Redis } from 'ioredis';
import { Failure } from '../../failure.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { serverConnector } from './connectors.ts';
import { HostNames } from './names.ts';

/** How many replicas must have a write before it counts as durable: all, or a number (all, if there are fewer). */
export type WantedReplicas = 'all' | number;

/**
 * One connection to one server. It never reconnects, so that a write and the WAIT after it reach the same server. A new
 * connection might lead to another server.
 */
export type ReplicaLink = Redis;

/** A replica that the Sentinels have not reached for this long can no longer be promoted. */
const AWAY_MS = 60_000;

/** A connection fails at once if it cannot be made, and no command waits for it. */
const ONCE = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  reconnectOnError: () => false,
  // The main client has one, and emits `ready` after a failover.
  failoverDetector: false,
  replyMapping: 'legacy',
} as const;

/**
 * Finds out whether writes have reached the replicas of the servers behind a client. It has its own connections to the
 * primaries, because WAIT delays all later commands on its connection, and requests wait for those of the main client.
 */
export class Replication {
  readonly #client: RedisClient;
  readonly #wanted: WantedReplicas;
  readonly #links = new Map<string, Promise<ReplicaLink>>();
  readonly #made = new Set<ReplicaLink>();
  readonly #withoutWaitAof = new WeakSet<ReplicaLink>();
  readonly #names = new HostNames();

  constructor({ client, wanted }: { readonly client: RedisClient; readonly wanted: WantedReplicas }) {
    this.#client = client;
    this.#wanted = wanted;
    // After a failover the server may be another one. A connection to the former primary would wait for replicas it has lost.
    client.on('ready', () => this.drop());
  }

  /** A connection to the primary that holds a name in Redis. Rejects if it cannot be made. */
  async of(name: string): Promise<ReplicaLink> {
    const client = this.#client;
    const address = client instanceof ClusterClient ? client.primaryOf(name) : '';
    const node = client instanceof ClusterClient ? client.nodeAt(address ?? '') : client;
    if (address === null || node === null) throw new Failure('store_unavailable', 'No primary is known for this name.');
    const known = this.#links.get(address);
    if (known !== undefined) return known;
    const link = new Redis({ ...node.options, ...ONCE });
    // The failing commands report the error.
    link.on('error', () => {});
    this.#made.add(link);
    link.on('end', () => {
      this.#made.delete(link);
      if (this.#links.get(address) === connected) this.#links.delete(address);
    });
    const connected = link.connect().then(
      () => link,
      (error) => {
        this.#forget(address, connected, link);
        throw error;
      },
    );
    this.#links.set(address, connected);
    return connected;
  }

  #forget(address: string, connected: Promise<ReplicaLink>, link: ReplicaLink): void {
    if (this.#links.get(address) === connected) this.#links.delete(address);
    this.#made.delete(link);
    link.disconnect();
  }

  /** Closes the connections and rejects their commands. The next connections are made to the primaries of that time. */
  drop(): void {
    this.#links.clear();
    for (const link of this.#made) link.disconnect();
    if (this.#client instanceof ClusterClient) this.#client.refreshSoon();
  }

  /**
   * Whether all writes on a link so far survive, whichever server becomes the next primary.
   *
   * Every replica must have them, because any of them may be promoted. The Sentinels and the cluster still count a replica
   * that has just been promoted, and it no longer acknowledges anything to the old primary. So writes that the old primary
   * accepts in its last second never count as durable. A replica that acknowledged before its promotion has the write.
   */
  async isDurable(link: ReplicaLink, withinMs: number): Promise<boolean> {
    const untilMs = performance.now() + withinMs;
    // WAIT with a timeout of 0 waits for ever.
    const leftMs = () => Math.max(Math.ceil(untilMs - performance.now()), 1);
    const [replication, persistence] = await Promise.all([infoOf(link, 'replication'), infoOf(link, 'persistence')]);
    if (replication !== null && !/^role:master\r?$/m.test(replication)) return false;
    const replicas = Math.max(connectedTo(replication ?? ''), await this.#others(link, replication));
    const needed = this.#wanted === 'all' ? replicas : Math.min(this.#wanted, replicas);
    if (needed > 0 && Number(await link.call('WAIT', needed, leftMs())) < needed) return false;
    return !/^aof_enabled:1\r?$/m.test(persistence ?? '') || this.#isOnDisk(link, leftMs());
  }

  /** Whether the primary's append-only file is on disk. Before Redis 7.2, which has WAITAOF, this cannot be known: true. */
  async #isOnDisk(link: ReplicaLink, withinMs: number): Promise<boolean> {
    if (this.#withoutWaitAof.has(link)) return true;
    try {
      const [own] = (await link.call('WAITAOF', 1, 0, withinMs)) as [number, number];
      return own >= 1;
    } catch (error) {
      if (!(error instanceof Error && /^ERR unknown command/i.test(error.message))) throw error;
      this.#withoutWaitAof.add(link);
      return true;
    }
  }

  /** How many replicas there are according to other sources than the primary, which knows only the connected ones. */
  #others(link: ReplicaLink, replication: string | null): Promise<number> | number {
    if (this.#client instanceof ClusterClient) return replicasInCluster(link);
    if (this.#client.options.sentinels) return this.#replicasBySentinels(this.#client.options);
    // INFO is forbidden, of which the inspection warns: the operator's number is all that is known.
    if (replication === null) return this.#wanted === 'all' ? 0 : this.#wanted;
    // A primary keeps a replication backlog from its first replica until an hour after the last (`repl-backlog-ttl`). So a
    // backlog without a connected replica means that a replica left recently, which may have been promoted.
    return /^repl_backlog_active:1\r?$/m.test(replication) ? 1 : 0;
  }

  /** Rejects if no Sentinel answers, since it is then unknown what is durable. */
  async #replicasBySentinels(options: Redis['options']): Promise<number> {
    const { sentinels = [], name = '', sentinelUsername, sentinelPassword, sentinelTLS, connectTimeout } = options;
    let lastError: unknown = null;
    for (const address of sentinels) {
      const sentinel = new Redis({
        ...ONCE,
        Connector: serverConnector(this.#names),
        ...address,
        ...(sentinelUsername ? { username: sentinelUsername } : {}),
        ...(sentinelPassword ? { password: sentinelPassword } : {}),
        ...(options.enableTLSForSentinelMode && sentinelTLS ? { tls: sentinelTLS } : {}),
        ...(connectTimeout === undefined ? {} : { connectTimeout, commandTimeout: connectTimeout }),
        // A Sentinel's INFO lacks the fields of the ready check.
        enableReadyCheck: false,
      });
      sentinel.on('error', () => {});
      try {
        await sentinel.connect();
        return await replicasBySentinel(sentinel, name);
      } catch (error) {
        lastError = error;
      } finally {
        sentinel.disconnect();
      }
    }
    throw new Failure('store_unavailable', 'No Sentinel tells of the replicas.', lastError);
  }
}

/** Null if an ACL forbids INFO. */
async function infoOf(link: ReplicaLink, section: 'replication' | 'persistence'): Promise<string | null> {
  return link.info(section).catch((error: Error) => {
    if (error.message.startsWith('NOPERM')) return null;
    throw error;
  });
}

function connectedTo(replication: string): number {
  return Number(/^connected_slaves:(\d+)/m.exec(replication)?.[1] ?? 0);
}

/**
 * The replicas that a Sentinel knows, whether or not they are connected to the primary. A replica that has been away for
 * long is left out only if this Sentinel sees a quorum. Otherwise the Sentinel itself may be cut off, and not the replica.
 */
async function replicasBySentinel(sentinel: Redis, name: string): Promise<number> {
  const canElect = await sentinel.call('SENTINEL', 'CKQUORUM', name).then(
    () => true,
    (error: Error) => {
      if (/^NOQUORUM/.test(error.message)) return false;
      throw error;
    },
  );
  const replicas = (await sentinel.call('SENTINEL', 'REPLICAS', name)) as string[][];
  const isGone = (fields: readonly string[]) => Number(fields[fields.indexOf('s-down-time') + 1]) > AWAY_MS;
  return replicas.filter((fields) => !canElect || !fields.includes('s-down-time') || !isGone(fields)).length;
}

/** The replicas that the nodes have not agreed to be failing: one that only this node cannot reach may be promoted. */
async function replicasInCluster(link: ReplicaLink): Promise<number> {
  const nodes = String(await link.call('CLUSTER', 'NODES')).split('\n');
  const own = nodes.find((line) => /\bmyself\b/.test(line))?.split(' ')[0];
  if (own === undefined) throw new Failure('store_unavailable', `${addressOfNode(link)} does not know itself.`);
  return nodes.filter((line) => {
    const [, , flags = '', primary] = line.split(' ');
    const words = flags.split(',');
    return primary === own && words.includes('slave') && !words.includes('fail');
  }).length;
}
