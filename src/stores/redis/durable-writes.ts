import { Redis } from 'ioredis';
import { DURABLE, type Durability, type Settlement } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { serverConnector } from './connectors.ts';

/** A write that was made, and how to repeat it if a failover has undone it. */
export interface LastingWrite {
  /** The id of the changed record. Writes to the same record are repeated in their original order. */
  readonly about: string;
  /**
   * Repeats the write if the server does not have it. In any case it writes something to each server that holds a part of
   * the write, because WAIT waits for the last write on its own connection. Must be safe to repeat.
   * @returns `there`: the server still had it; `superseded`: the server had lost it, and a later change of the record has
   *   replaced it, so it was not made again
   */
  remake(linkOf: (name: string) => Promise<ReplicaLink>): Promise<'there' | 'remade' | 'superseded'>;
}

export interface DurableWritesOptions {
  readonly redis: RedisClient;
  /** 0: a write counts as durable as soon as the primary has it. */
  readonly replicas: WantedReplicas;
  /** How long a caller waits, milliseconds. */
  readonly timeoutMs: number;
  /** How long a write that may not be durable is kept, milliseconds; 10 minutes if left out. */
  readonly keptMs?: number;
}

/** Most writes that are kept; beyond that the oldest is given up. */
const MOST_KEPT = 1_000;
const KEPT_MS = 600_000;
const ROUND_PAUSE_MS = 250;
/** Longest wait for the replicas of one server in a round. The next round may find another primary. */
const ROUND_MS = 2_000;
/** Added to that, because a stopped server does not keep the deadline of its own WAIT. */
const GRACE_MS = 500;

interface Pending {
  readonly write: LastingWrite;
  readonly sinceMs: number;
  settle(settlement: Settlement): void;
}

/**
 * Delays the acknowledgement of a write until it is on all replicas, and repeats the write if a failover has undone it.
 *
 * A primary that has been replaced accepts writes for more than a second and then discards them. Without this class, a
 * key whose revocation was acknowledged could work again.
 *
 * Writes that are not settled are processed in rounds: each round repeats the missing writes, and one WAIT on each primary
 * serves all of them. So many simultaneous changes cost no more than one.
 */
export class DurableWrites {
  readonly #replication: Replication;
  readonly #isOff: boolean;
  readonly #timeoutMs: number;
  readonly #keptMs: number;
  readonly #pending = new Set<Pending>();
  #isRunning = false;
  #isClosed = false;
  #wakeUp: (() => void) | null = null;

  constructor({ redis, replicas, timeoutMs, keptMs = KEPT_MS }: DurableWritesOptions) {
    this.#replication = new Replication({ client: redis, wanted: replicas });
    this.#isOff = replicas === 0;
    this.#timeoutMs = timeoutMs;
    this.#keptMs = keptMs;
  }

  /** Waits until a write is durable, at most for the timeout. Never rejects. */
  settle(write: LastingWrite): Promise<Durability> {
    if (this.#isOff) return Promise.resolve(DURABLE);
    return new Promise((resolve) => {
      const settled = new Promise<Settlement>((settle) => this.#add({ write, sinceMs: performance.now(), settle }));
      const timer = setTimeout(() => resolve({ kind: 'unknown', settled }), this.#timeoutMs);
      settled.then((settlement) => {
        clearTimeout(timer);
        resolve(settlement === 'durable' ? DURABLE : { kind: 'unknown', settled });
      });
    });
  }

  /** Gives up the writes that are not settled. */
  close(): void {
    this.#isClosed = true;
    this.#replication.drop();
    for (const pending of [...this.#pending]) this.#end(pending, 'given_up');
    this.#wakeUp?.();
  }

  #add(pending: Pending): void {
    if (this.#isClosed) {
      pending.settle('given_up');
      return;
    }
    const [oldest] = this.#pending;
    if (oldest !== undefined && this.#pending.size >= MOST_KEPT) this.#end(oldest, 'given_up');
    this.#pending.add(pending);
    this.#wakeUp?.();
    if (!this.#isRunning) void this.#run();
  }

  #end(pending: Pending, settlement: Settlement): void {
    if (this.#pending.delete(pending)) pending.settle(settlement);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    // The writes of one turn of the event loop go into one round.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#pending.size > 0) {
      const batch = [...this.#pending];
      await this.#round(batch);
      const nowMs = performance.now();
      for (const pending of batch) if (nowMs - pending.sinceMs > this.#keptMs) this.#end(pending, 'given_up');
      if (batch.some((pending) => this.#pending.has(pending))) await this.#pause();
    }
    this.#isRunning = false;
  }

  async #round(batch: readonly Pending[]): Promise<void> {
    const roundMs = Math.min(this.#timeoutMs, ROUND_MS);
    const late = setTimeout(() => this.#replication.drop(), roundMs + GRACE_MS);
    late.unref();
    try {
      const links = new Map<Pending, ReadonlySet<ReplicaLink>>();
      const remade = [...Map.groupBy(batch, ({ write }) => write.about).values()].map(async (group) => {
        for (const pending of group) {
          const used = await this.#remake(pending);
          if (used === null) return;
          links.set(pending, used);
        }
      });
      await Promise.all(remade);
      const all = new Set([...links.values()].flatMap((used) => [...used]));
      const durable = new Set<ReplicaLink>();
      await Promise.all(
        [...all].map(async (link) => {
          if (await this.#replication.isDurable(link, roundMs).catch(() => false)) durable.add(link);
        }),
      );
      for (const [pending, used] of links) {
        if ([...used].every((link) => durable.has(link) && link.status === 'ready')) this.#end(pending, 'durable');
      }
      // A connection may lead to a former primary: the next round looks up the primaries again.
      if (durable.size < all.size || links.size < batch.length) this.#replication.drop();
    } finally {
      clearTimeout(late);
    }
  }

  /** @returns the connections used; null if an error occurred, so that later writes to the same record must wait too */
  async #remake(pending: Pending): Promise<ReadonlySet<ReplicaLink> | null> {
    const used = new Set<ReplicaLink>();
    try {
      const outcome = await pending.write.remake(async (name) => {
        const link = await this.#replication.of(name);
        used.add(link);
        return link;
      });
      if (outcome === 'superseded') this.#end(pending, 'superseded');
      return used;
    } catch {
      return null;
    }
  }

  /** Waits until the next round is due or another write arrives. */
  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const wakeUp = () => {
        clearTimeout(timer);
        this.#wakeUp = null;
        resolve();
      };
      const timer = setTimeout(wakeUp, ROUND_PAUSE_MS);
      timer.unref();
      this.#wakeUp = wakeUp;
    });
  }
}

/** How many replicas must have a write before it counts as durable: all, or a number (all, if there are fewer). */
type WantedReplicas = 'all' | number;

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
        Connector: serverConnector(),
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
