import { Redis } from 'ioredis';
import { Failure } from '../../failure.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { serverConnector } from './connectors.ts';
import { Names } from './names.ts';

/** How many replicas have to have a write before it counts as durable: all that there are, or at most so many. */
export type WantedReplicas = 'all' | number;

/**
 * One connection to one server. It never reconnects: what was written on it and what WAIT then says on it are about the
 * same server and the same history. A new connection might lead to another one.
 */
export type Link = Redis;

/** A replica that the Sentinels have not heard of for so long is no longer one that could take over. */
const AWAY_MS = 60_000;

/** Ends at once where it cannot be made; no command waits for a connection. */
const ONCE = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  reconnectOnError: () => false,
  // The client beside it has one and tells when the primary is another one.
  failoverDetector: false,
  replyMapping: 'legacy',
} as const;

/**
 * The servers behind a client as those that keep writes: connections of their own to the primaries, and whether a
 * primary's writes have come to its replicas. Of their own, because WAIT holds up all that is sent behind it on the
 * same connection, and the client's decides about requests.
 */
export class Replication {
  readonly #client: RedisClient;
  readonly #wanted: WantedReplicas;
  readonly #links = new Map<string, Promise<Link>>();
  readonly #made = new Set<Link>();
  readonly #withoutWaitAof = new WeakSet<Link>();
  readonly #names = new Names();

  constructor({ client, wanted }: { readonly client: RedisClient; readonly wanted: WantedReplicas }) {
    this.#client = client;
    this.#wanted = wanted;
    // Its server may be another one now: a link to the former primary would wait for replicas that have left it.
    client.on('ready', () => this.drop());
  }

  /** A connection to the primary that has a name. Rejects when it cannot be made. */
  async of(name: string): Promise<Link> {
    const client = this.#client;
    const address = client instanceof ClusterClient ? client.primaryOf(name) : '';
    const node = client instanceof ClusterClient ? client.nodeAt(address ?? '') : client;
    if (address === null || node === null) throw new Failure('store_unavailable', 'No primary is known for this name.');
    const known = this.#links.get(address);
    if (known !== undefined) return known;
    const link = new Redis({ ...node.options, ...ONCE });
    // The commands that fail report the error.
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

  #forget(address: string, connected: Promise<Link>, link: Link): void {
    if (this.#links.get(address) === connected) this.#links.delete(address);
    this.#made.delete(link);
    link.disconnect();
  }

  /** Ends the connections; what waits for them is rejected. The next ones are made to whichever server it is then. */
  drop(): void {
    this.#links.clear();
    for (const link of this.#made) link.disconnect();
    if (this.#client instanceof ClusterClient) this.#client.refreshSoon();
  }

  /**
   * Whether all that was written on a link until now will be there whichever server is the primary next.
   *
   * Every replica that there is has to have it, because any of them may be promoted. One that has just been promoted is
   * still counted by the Sentinels and the cluster, and no longer acknowledges anything to the old primary: so what the
   * old one takes in its last second is never called durable. One that acknowledged before it was promoted has the write.
   */
  async isDurable(link: Link, withinMs: number): Promise<boolean> {
    const untilMs = performance.now() + withinMs;
    // 0 would be for ever.
    const leftMs = () => Math.max(Math.ceil(untilMs - performance.now()), 1);
    const [replication, persistence] = await Promise.all([infoOf(link, 'replication'), infoOf(link, 'persistence')]);
    if (replication !== null && !/^role:master\r?$/m.test(replication)) return false;
    const replicas = Math.max(connectedTo(replication ?? ''), await this.#others(link, replication));
    const needed = this.#wanted === 'all' ? replicas : Math.min(this.#wanted, replicas);
    if (needed > 0 && Number(await link.call('WAIT', needed, leftMs())) < needed) return false;
    return !/^aof_enabled:1\r?$/m.test(persistence ?? '') || this.#isOnDisk(link, leftMs());
  }

  /** Redis 7.2 and later tell; before that nobody can know. */
  async #isOnDisk(link: Link, withinMs: number): Promise<boolean> {
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

  /** How many replicas there are by the word of others than the primary, which knows only those that are connected to it. */
  #others(link: Link, replication: string | null): Promise<number> | number {
    if (this.#client instanceof ClusterClient) return replicasInCluster(link);
    if (this.#client.options.sentinels) return this.#replicasBySentinels(this.#client.options);
    // Not seen at all (the inspection warns of that): as many as the operator says.
    if (replication === null) return this.#wanted === 'all' ? 0 : this.#wanted;
    // A primary keeps the end of its stream for replicas to come back (an hour, `repl-backlog-ttl`) and has none before
    // its first replica: without one connected now, there was one not long ago, which may have been promoted.
    return /^repl_backlog_active:1\r?$/m.test(replication) ? 1 : 0;
  }

  /** Rejects when no Sentinel answers: then nobody can say what is durable. */
  async #replicasBySentinels(options: Redis['options']): Promise<number> {
    const { sentinels = [], name = '', sentinelUsername, sentinelPassword, sentinelTLS, connectTimeout } = options;
    let complaint: unknown = null;
    for (const place of sentinels) {
      const sentinel = new Redis({
        ...ONCE,
        Connector: serverConnector(this.#names),
        ...place,
        ...(sentinelUsername ? { username: sentinelUsername } : {}),
        ...(sentinelPassword ? { password: sentinelPassword } : {}),
        ...(options.enableTLSForSentinelMode && sentinelTLS ? { tls: sentinelTLS } : {}),
        ...(connectTimeout === undefined ? {} : { connectTimeout, commandTimeout: connectTimeout }),
        // A Sentinel has no INFO of a server that loads.
        enableReadyCheck: false,
      });
      sentinel.on('error', () => {});
      try {
        await sentinel.connect();
        return await replicasBySentinel(sentinel, name);
      } catch (error) {
        complaint = error;
      } finally {
        sentinel.disconnect();
      }
    }
    throw new Failure('store_unavailable', 'No Sentinel tells of the replicas.', complaint);
  }
}

/** Null where this user may not ask. */
async function infoOf(link: Link, section: 'replication' | 'persistence'): Promise<string | null> {
  return link.info(section).catch((error: Error) => {
    if (error.message.startsWith('NOPERM')) return null;
    throw error;
  });
}

function connectedTo(replication: string): number {
  return Number(/^connected_slaves:(\d+)/m.exec(replication)?.[1] ?? 0);
}

/**
 * Those that a Sentinel counts on, whether or not the primary has them. One that has been away for long is left out only
 * where this Sentinel is among those that could elect a primary: behind a cut in the network it is the side that is away.
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

/** Those that the nodes do not agree to be gone: one that only this node does not reach may be about to be elected. */
async function replicasInCluster(link: Link): Promise<number> {
  const nodes = String(await link.call('CLUSTER', 'NODES')).split('\n');
  const own = nodes.find((line) => /\bmyself\b/.test(line))?.split(' ')[0];
  if (own === undefined) throw new Failure('store_unavailable', `${addressOfNode(link)} does not know itself.`);
  return nodes.filter((line) => {
    const [, , flags = '', primary] = line.split(' ');
    const words = flags.split(',');
    return primary === own && words.includes('slave') && !words.includes('fail');
  }).length;
}
