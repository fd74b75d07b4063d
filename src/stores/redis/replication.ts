import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Failure } from '../../failure.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import { addressOf, type RedisClient } from './connection.ts';
import { serverConnector } from './connectors.ts';

/** The number of replicas that must have a write before the store acknowledges it: all, or a number (all, if there are fewer). */
export type WantedReplicas = 'all' | number;

/**
 * One connection to one server. It never reconnects, so that a write and the WAIT after it reach the same server. A new
 * connection might lead to another server.
 */
export type ReplicaLink = Redis;

/** A replica that may be promoted although its primary does not reach it. */
interface AwayReplica {
  /** Its address, or another name. */
  readonly name: string;
  /** True if the Sentinels or nodes that promote replicas do not reach it either, so that it will not be back within moments. */
  readonly isDown: boolean;
  /** Tells the operator what to do if it is gone for good; part of a sentence. */
  readonly ifGone: string;
}

/** What is known about one server and its replicas at one moment. */
export interface ServerState {
  readonly isPrimary: boolean;
  /** Differs as soon as another server, or an earlier state of the same one, has taken over. Null if the user may not ask. */
  readonly history: string | null;
  /** All replicas that may be promoted: those that are connected, and those that are away. */
  readonly replicas: number;
  readonly away: readonly AwayReplica[];
  /** Connected replicas that do not follow: they are still copying, or have not answered for a while. */
  readonly behind: readonly string[];
  readonly hasAppendOnlyFile: boolean;
}

const MIN_WAIT_MS = 50;
/** The watch reports a replica that confirms nothing for this long. Redis ends its connection after `repl-timeout`, 60 s. */
const SILENT_S = 10;

/** A connection fails at once if it cannot open, and no command waits for it. */
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
  readonly wanted: WantedReplicas;
  readonly #client: RedisClient;
  readonly #links = new Map<string, Promise<ReplicaLink>>();
  readonly #made = new Set<ReplicaLink>();
  readonly #withoutWaitAof = new WeakSet<ReplicaLink>();

  constructor({ client, wanted }: { readonly client: RedisClient; readonly wanted: WantedReplicas }) {
    this.#client = client;
    this.wanted = wanted;
    // After a failover the server may be another one. A connection to the former primary would wait for replicas that it has lost.
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

  /** Closes the connections and rejects their commands. The next connections lead to the primaries of that time. */
  drop(): void {
    this.#links.clear();
    for (const link of this.#made) link.disconnect();
    if (this.#client instanceof ClusterClient) this.#client.refreshSoon();
  }

  /** Begins a round, which asks each server everything at most once. @param withinMs the longest wait for replicas */
  round(withinMs: number): ReplicationRound {
    return new ReplicationRound(this, withinMs);
  }

  /** The state of each primary that is connected. @throws the errors of the connections */
  async states(): Promise<readonly ServerState[]> {
    const client = this.#client;
    const servers =
      client instanceof ClusterClient ? client.nodes('master').filter(({ status }) => status === 'ready') : [client];
    return Promise.all(servers.map((server) => this.stateOf(server)));
  }

  /**
   * Asks a server, and the Sentinels or nodes that would promote one of its replicas, for all its replicas.
   *
   * Fault: Tollgate counted only the connected replicas, or those that had not been away for long. But a replica that has just been
   * restarted or resumed does not know how long it was away, and is promoted at once if the primary is lost then. So each known
   * replica counts until it is in sync again, or an operator has removed it.
   * @throws the errors of the connection; Failure `store_unavailable` if no Sentinel lists the replicas
   */
  async stateOf(server: Redis): Promise<ServerState> {
    const [replication, persistence] = await Promise.all([
      infoOf(server, 'replication'),
      infoOf(server, 'persistence'),
    ]);
    const connected = connectedIn(replication ?? '');
    const facts = {
      isPrimary: replication === null || /^role:master\r?$/m.test(replication),
      history: /^master_replid:(\w+)/m.exec(replication ?? '')?.[1] ?? null,
      behind: connected.behind,
      hasAppendOnlyFile: /^aof_enabled:1\r?$/m.test(persistence ?? ''),
    };
    const known = await this.#known(server);
    if (known !== null) {
      if (replication === null) return { ...facts, replicas: known.all.length + known.hidden, away: [] };
      const away = awayOf(known, connected);
      return { ...facts, replicas: connected.count + away.length, away };
    }
    // The ACL forbids INFO, and the inspection warns of that: only the operator's number is known.
    if (replication === null) return { ...facts, replicas: this.wanted === 'all' ? 0 : this.wanted, away: [] };
    // A primary keeps a replication backlog from its first replica until an hour after the last (`repl-backlog-ttl`). So a
    // backlog without a connected replica means that a replica left recently, which may have been promoted.
    const hasLeft = connected.count === 0 && /^repl_backlog_active:1\r?$/m.test(replication);
    const away = hasLeft ? [hasLeftFrom(addressOf(this.#client))] : [];
    return { ...facts, replicas: connected.count + away.length, away };
  }

  /** True if the primary's append-only file is on disk, and before Redis 7.2, which cannot tell (it lacks WAITAOF). */
  async isOnDisk(link: ReplicaLink, withinMs: number): Promise<boolean> {
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

  /** The replicas that others than the primary know, since it knows only the connected ones; null if there are no others. */
  async #known(server: Redis): Promise<ReplicaList | null> {
    if (this.#client instanceof ClusterClient) return knownInCluster(server);
    return this.#client.options.sentinels ? this.#knownToSentinels(this.#client.options) : null;
  }

  /**
   * The replicas that any Sentinel knows: each may decide which one is promoted, and an operator may have reset a single one.
   * @throws Failure `store_unavailable` if no Sentinel answers
   */
  async #knownToSentinels(options: Redis['options']): Promise<ReplicaList> {
    const { sentinels = [], name = '' } = options;
    const answers: SentinelAnswer[] = [];
    const asked = sentinels.map(async (address) => void answers.push(await this.#askSentinel(options, address)));
    await Promise.any(asked).catch(({ errors }: AggregateError) => {
      const why = [...new Set(errors.map(({ message }: Error) => message))].join('; ');
      const advice = 'See that one can be reached, and that its user has the rights of config/sentinel.acl.';
      throw new Failure(
        'store_unavailable',
        `No Sentinel says which replicas there are (${why}). ${advice}`,
        errors[0],
      );
    });
    // Sentinels that are away must not delay every change.
    await Promise.race([Promise.allSettled(asked), delay(OTHERS_WITHIN_MS, null, { ref: false })]);
    const all = new Map<string, KnownReplica>();
    for (const replica of answers.flatMap(({ replicas }) => replicas)) {
      const known = all.get(replica.address);
      all.set(replica.address, { ...replica, isDown: replica.isDown && known?.isDown !== false });
    }
    const [{ host = '127.0.0.1', port = 26_379 } = {}] = sentinels;
    const ifGone = `make all Sentinels forget it, one after the other: \`redis-cli -h ${host} -p ${port} SENTINEL RESET ${name}\``;
    const hidden = Math.max(...answers.map(({ hidden }) => hidden));
    return { all: [...all.values()], hidden, hasExactAddresses: true, ifGone: () => ifGone };
  }

  async #askSentinel(
    { name = '', sentinelUsername, sentinelPassword, sentinelTLS, ...options }: Redis['options'],
    address: { readonly host?: string; readonly port?: number },
  ): Promise<SentinelAnswer> {
    const { connectTimeout, enableTLSForSentinelMode } = options;
    const sentinel = new Redis({
      ...ONCE,
      Connector: serverConnector(),
      ...address,
      ...(sentinelUsername ? { username: sentinelUsername } : {}),
      ...(sentinelPassword ? { password: sentinelPassword } : {}),
      ...(enableTLSForSentinelMode && sentinelTLS ? { tls: sentinelTLS } : {}),
      ...(connectTimeout === undefined ? {} : { connectTimeout, commandTimeout: connectTimeout }),
      // A Sentinel's INFO lacks the fields of the ready check.
      enableReadyCheck: false,
    });
    sentinel.on('error', () => {});
    try {
      await sentinel.connect();
      const [listed, primary] = await Promise.all([
        sentinel.call('SENTINEL', 'REPLICAS', name) as Promise<string[][]>,
        // Rules of ACLs from before Tollgate asked this do not allow it.
        (sentinel.call('SENTINEL', 'MASTER', name) as Promise<string[]>).catch(() => []),
      ]);
      const replicas = listed.map((fields) => ({
        address: `${wordIn(fields, 'ip')}:${wordIn(fields, 'port')}`,
        id: '',
        isDown: /\b[so]_down\b|\bdisconnected\b/.test(wordIn(fields, 'flags')),
      }));
      return { replicas, hidden: Math.max(0, Number(wordIn(primary, 'num-slaves')) - replicas.length) };
    } finally {
      sentinel.disconnect();
    }
  }
}

/** The other Sentinels have this long after the first has answered. */
const OTHERS_WITHIN_MS = 250;

interface SentinelAnswer {
  readonly replicas: readonly KnownReplica[];
  /** The number of replicas that it does not list (`replica-announced no`), although it may promote them. */
  readonly hidden: number;
}

interface KnownReplica {
  /** `IP:PORT` or `NAME:PORT`; empty if a cluster has lost it. */
  readonly address: string;
  /** In a cluster the id of the node, else empty. */
  readonly id: string;
  readonly isDown: boolean;
}

interface ReplicaList {
  readonly all: readonly KnownReplica[];
  /** The number of further replicas. */
  readonly hidden: number;
  /** True if the primary knows its replicas by the same addresses, unless one of them is a name. */
  readonly hasExactAddresses: boolean;
  ifGone(replica: KnownReplica | null): string;
}

interface Connected {
  readonly count: number;
  /** The addresses that the primary knows. */
  readonly addresses: readonly string[];
  readonly behind: readonly string[];
}

/** One round of `Replication`. */
export class ReplicationRound {
  readonly #replication: Replication;
  readonly #untilMs: number;
  readonly #links = new Map<string, Promise<ReplicaLink>>();
  readonly #states = new Map<ReplicaLink, Promise<ServerState>>();
  readonly #acknowledged = new Map<ReplicaLink, Promise<boolean>>();
  readonly #everywhere = new Map<ReplicaLink, Promise<boolean>>();

  constructor(replication: Replication, withinMs: number) {
    this.#replication = replication;
    this.#untilMs = performance.now() + withinMs;
  }

  /**
   * The connection to the primary that holds a name in Redis, the same throughout the round. Rejects if it cannot be made.
   *
   * Fault: a failover between two writes to one record undid both, and the second write went to the new primary first. It found
   * neither what it had changed nor its change, counted as superseded, and then the first write was made again in its place. A
   * connection that a failover has ended fails, so the next round makes both again in their order.
   */
  linkTo(name: string): Promise<ReplicaLink> {
    return once(this.#links, name, () => this.#replication.of(name));
  }

  /** The state of a server before the first write of the round. */
  stateOf(link: ReplicaLink): Promise<ServerState> {
    return once(this.#states, link, () => this.#replication.stateOf(link));
  }

  /** True if as many replicas as the settings want have all earlier writes on a link. To call after all writes of the round. */
  isAcknowledged(link: ReplicaLink): Promise<boolean> {
    return once(this.#acknowledged, link, async () => {
      const { wanted } = this.#replication;
      const { isPrimary, replicas, away, hasAppendOnlyFile } = await this.stateOf(link);
      if (!isPrimary || (wanted === 'all' && away.length > 0)) return false;
      const needed = wanted === 'all' ? replicas : Math.min(wanted, replicas);
      if (!(await this.#isOn(link, needed))) return false;
      return !hasAppendOnlyFile || this.#replication.isOnDisk(link, this.#leftMs());
    });
  }

  /** True if all earlier writes on a link survive, whichever replica is promoted. To call after all writes of the round. */
  isEverywhere(link: ReplicaLink): Promise<boolean> {
    return once(this.#everywhere, link, async () => {
      if (!(await this.isAcknowledged(link))) return false;
      const { replicas, away } = await this.stateOf(link);
      return this.#replication.wanted === 'all' || (away.length === 0 && this.#isOn(link, replicas));
    });
  }

  /**
   * A replica that has just been promoted is still known, and no longer acknowledges anything to the old primary. So a write that
   * the old primary accepted in its last second never reaches all. A replica that acknowledged before its promotion has it.
   */
  async #isOn(link: ReplicaLink, replicas: number): Promise<boolean> {
    return replicas === 0 || Number(await link.call('WAIT', replicas, this.#leftMs())) >= replicas;
  }

  /** At least a moment, even if the Sentinels were slow. */
  #leftMs(): number {
    return Math.max(Math.ceil(this.#untilMs - performance.now()), MIN_WAIT_MS);
  }
}

function once<K, T>(kept: Map<K, Promise<T>>, of: K, ask: () => Promise<T>): Promise<T> {
  const known = kept.get(of);
  if (known !== undefined) return known;
  const asked = ask();
  // The caller that waits for it reports the error.
  asked.catch(() => {});
  kept.set(of, asked);
  return asked;
}

/** Sentences for operators about replicas that are away or behind, and what to do about them. */
export function replicaTrouble(states: readonly ServerState[], wanted: WantedReplicas): readonly string[] {
  const effect =
    wanted === 'all'
      ? 'a failover to it would undo changes to keys, so they are answered with 202 (`"durability": "unknown"`)'
      : 'a failover to it would undo changes to keys that were acknowledged meanwhile';
  return states.flatMap(({ away, behind }) => [
    ...away.map(
      ({ name, ifGone }) =>
        `${name} is not connected to its primary. Until it is in sync again, ${effect}. Start it, or see why it cannot connect. ` +
        `If it is gone for good, ${ifGone}.`,
    ),
    ...behind.map((name) => `${name} is behind its primary. Until it is in sync, ${effect}. See its log.`),
  ]);
}

function hasLeftFrom(where: string): AwayReplica {
  const ifGone =
    'this ends when the primary drops its replication backlog (`repl-backlog-ttl`, an hour by default, `CONFIG SET repl-backlog-ttl 60` for a minute)';
  return { name: `The last replica of ${where}`, isDown: false, ifGone };
}

/** Null if an ACL forbids INFO. */
async function infoOf(server: Redis, section: 'replication' | 'persistence'): Promise<string | null> {
  return server.info(section).catch((error: Error) => {
    if (error.message.startsWith('NOPERM')) return null;
    throw error;
  });
}

function connectedIn(replication: string): Connected {
  const lines = [...replication.matchAll(/^slave\d+:(.*)$/gm)];
  const replicas = lines.map(([, words = '']) => {
    const {
      ip,
      port,
      state,
      lag = '0',
    } = Object.fromEntries(
      words
        .trim()
        .split(',')
        .map((word) => word.split('=', 2)),
    );
    return { address: `${ip}:${port}`, isBehind: state !== 'online' || Number(lag) >= SILENT_S };
  });
  return {
    count: Number(/^connected_slaves:(\d+)/m.exec(replication)?.[1] ?? 0),
    addresses: replicas.map(({ address }) => address),
    behind: replicas.flatMap(({ address, isBehind }) => (isBehind ? [`The replica ${address}`] : [])),
  };
}

/**
 * The known replicas that are not connected. Where addresses are comparable, a replica that only the primary knows, and that
 * would never be promoted, cannot take the place of one that is away. Elsewhere this compares their numbers.
 */
function awayOf(known: ReplicaList, { count, addresses }: Connected): readonly AwayReplica[] {
  const { all, hidden, hasExactAddresses, ifGone } = known;
  const isExact =
    hasExactAddresses && [...all.map(({ address }) => address), ...addresses].every((address) => isIP(hostOf(address)));
  const apart = all
    .filter(({ address }) => !addresses.includes(address))
    .toSorted((a, b) => Number(b.isDown) - Number(a.isDown));
  const away = isExact ? apart : apart.slice(0, Math.max(0, all.length - count));
  const listed = away.map((replica) => ({
    name: `The replica ${replica.address || replica.id}`,
    isDown: replica.isDown,
    ifGone: ifGone(replica),
  }));
  const missing = Math.max(0, hidden - (count - (all.length - away.length)));
  const unlisted = { name: 'A replica with `replica-announced no`', isDown: false, ifGone: ifGone(null) };
  return [...listed, ...Array.from({ length: missing }, () => unlisted)];
}

/** The value after a name in a reply of a Sentinel. */
function wordIn(fields: readonly string[], name: string): string {
  const index = fields.indexOf(name);
  return index === -1 ? '' : (fields[index + 1] ?? '');
}

function hostOf(address: string): string {
  return address.slice(0, address.lastIndexOf(':'));
}

/** The replicas that a server's own primary knows, whatever the nodes believe about their health: one reply ends a flag of failure. */
async function knownInCluster(server: Redis): Promise<ReplicaList> {
  const where = addressOfNode(server);
  const text = await server.call('CLUSTER', 'NODES').catch((error: Error) => {
    if (!error.message.startsWith('NOPERM')) throw error;
    const what = `Redis at ${where} does not let its user ask which replicas there are (CLUSTER NODES).`;
    throw new Failure('store_unavailable', `${what} Give it the rights of config/redis.acl.`, error);
  });
  const nodes = String(text).split('\n');
  const own = nodes.find((line) => /\bmyself\b/.test(line))?.split(' ')[0];
  if (own === undefined) throw new Failure('store_unavailable', `${where} does not know itself.`);
  const all = nodes.flatMap((line) => {
    const [id = '', place = '', flags = '', primary] = line.split(' ');
    const words = flags.split(',');
    if (primary !== own || !words.includes('slave')) return [];
    const address = words.includes('noaddr') ? '' : (place.split('@')[0] ?? '');
    return [{ id, address, isDown: words.includes('fail') || words.includes('noaddr') }];
  });
  return {
    all,
    hidden: 0,
    // Nodes may announce other addresses to each other than those under which their connections come.
    hasExactAddresses: false,
    ifGone: (replica) =>
      `make all nodes forget it: \`redis-cli --cluster call ${where} CLUSTER FORGET ${replica?.id ?? ''}\``,
  };
}
