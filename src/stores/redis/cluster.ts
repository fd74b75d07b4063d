import slotOf from 'cluster-key-slot';
import { Cluster, Redis, type RedisOptions } from 'ioredis';

export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/** The way in which a connection is opened and kept. */
export interface LinkOptions extends RedisOptions {
  readonly retryStrategy: (attempt: number) => number;
  readonly replyMapping: 'legacy';
}

interface ClusterClientOptions {
  /** The nodes to ask first for the addresses of all nodes. */
  readonly nodes: readonly HostAndPort[];
  /** Options for the connection to each node. */
  readonly link: LinkOptions;
  /** The address of the cluster, for messages. */
  readonly description: string;
}

/** Minimum time between two requests for the map of slots. */
const REFRESH_EVERY_MS = 200;

/** How long connections may take to close. Longer than `disconnectTimeout` of a link. */
const CLOSED_WITHIN_MS = 500;

/**
 * A Redis Cluster. Each node has one connection from the start, which reconnects like that of a single server. If a node redirects
 * or postpones a command (MOVED, ASK, TRYAGAIN), the client sends it again; it repeats no command that a node may have executed.
 *
 * Event `whole`: every primary accepts commands.
 */
export class ClusterClient extends Cluster {
  readonly description: string;
  #refreshing: NodeJS.Timeout | null = null;
  #isClosed = false;
  #isFindingCause = false;

  constructor({ nodes, link, description }: ClusterClientOptions) {
    super([...nodes], {
      redisOptions: link,
      // A command never waits for a connection, because the caller has a deadline and an alternative.
      enableOfflineQueue: false,
      // The check would run on a connection that is still opening, and restart everything when that fails.
      enableReadyCheck: false,
      clusterRetryStrategy: link.retryStrategy,
      clusterNodeRetryStrategy: link.retryStrategy,
      // 0, because a node may have counted a command whose connection broke, and because the caller has no time to wait for a
      // cluster that reports that it is down.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      retryDelayOnTryAgain: 20,
      maxRedirections: 5,
      slotsRefreshTimeout: 500,
      // Keeps host names, because each connection looks them up, and certificates name them.
      dnsLookup: (name, callback) => callback(null, name),
    });
    this.description = description;
    this.on('+node', (node: Redis) => {
      node.on('ready', () => this.#emitIfWhole());
      // ioredis sets the role of a node only after this event.
      queueMicrotask(() => this.#connectNodes());
    });
    this.on('refresh', () => this.#connectNodes());
    this.on('node error', () => this.refreshSoon());
    // For unreachable nodes, ioredis reports only that the connection closed. A separate connection finds out why.
    this.on('error', () => this.#findCause({ ...link, ...nodes[0] }));
    this.on('ready', () => this.#emitIfWhole());
  }

  /** True if every primary accepts commands. */
  get isWhole(): boolean {
    const primaries = this.nodes('master');
    return this.status === 'ready' && primaries.length > 0 && primaries.every(({ status }) => status === 'ready');
  }

  /** `host:port` of the primary that has the slot of a Redis key; null while the client does not know it. */
  primaryOf(name: string): string | null {
    return this.slots[slotOf(name)]?.[0] ?? null;
  }

  /** The connection to the node at `host:port`, if it has one. */
  nodeAt(address: string): Redis | null {
    return this.nodes().find((node) => addressOfNode(node) === address) ?? null;
  }

  /** Asks again which primary has which slots. Called when a node does not answer properly. */
  refreshSoon(): void {
    if (this.#isClosed || this.#refreshing !== null || this.status !== 'ready') return;
    this.#refreshing = setTimeout(() => {
      this.#refreshing = null;
      if (this.status === 'ready') this.refreshSlotsCache((error) => this.#beginAnew(error));
    }, REFRESH_EVERY_MS);
    this.#refreshing.unref();
  }

  override disconnect(reconnect = false): void {
    this.#isClosed = !reconnect;
    if (this.#refreshing !== null) clearTimeout(this.#refreshing);
    this.#refreshing = null;
    super.disconnect(reconnect);
  }

  /**
   * Connects to the nodes now and not with the first command, because all commands fail until the connection is open. It waits
   * until a node of REDIS_URL has named all nodes, because the cluster may name them otherwise than REDIS_URL does.
   */
  #connectNodes(): void {
    if (this.slots.length === 0) return;
    for (const node of this.nodes()) if (node.status === 'wait') node.connect().catch(() => {});
  }

  /**
   * Begins with the nodes of REDIS_URL again when no known node answers with the map of slots. ioredis retries every connection to
   * a node for as long as the map names the node, so by itself it would never leave a map whose addresses are all wrong.
   *
   * Fault: a cluster is restarted in new containers, and names its former addresses to a gateway that starts before the nodes have
   * found each other.
   */
  #beginAnew(error: Error | null | undefined): void {
    if (!error || this.status !== 'ready') return;
    // A node that is only slow keeps its connection, as on a busy machine.
    if (this.nodes().some(({ status }) => status === 'ready')) return;
    this.disconnect(true);
    // ioredis reconnects on this event, and waits for it forever if all its nodes were between two attempts to connect.
    const late = setTimeout(() => {
      if (this.status === 'disconnecting') this.emit('close');
    }, CLOSED_WITHIN_MS);
    late.unref();
  }

  #findCause(link: LinkOptions): void {
    if (this.slots.length > 0 || this.#isFindingCause || this.#isClosed) return;
    this.#isFindingCause = true;
    const redis = new Redis({ ...link, lazyConnect: true, retryStrategy: () => null });
    redis.on('error', (error: Error) => this.emit('node error', error, addressOfNode(redis)));
    const end = () => {
      this.#isFindingCause = false;
      redis.disconnect();
    };
    redis.connect().then(end, end);
  }

  #emitIfWhole(): void {
    if (this.isWhole) this.emit('whole');
  }
}

/** `host:port` of a node's connection, as the cluster's map of slots names it. */
export function addressOfNode({ options: { host, port } }: Redis): string {
  return `${host}:${port}`;
}
