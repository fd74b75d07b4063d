import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { HostAndPort } from './address.ts';
import { slotOf } from './slot.ts';

/** How one connection is made and kept. */
export interface LinkOptions extends RedisOptions {
  readonly retryStrategy: (attempt: number) => number;
  readonly replyMapping: 'legacy';
}

export interface ClusterClientOptions {
  /** Where to ask first for all others. */
  readonly nodes: readonly HostAndPort[];
  /** How each node is connected to. */
  readonly link: LinkOptions;
  /** For people. */
  readonly description: string;
}

/** Two questions for the map of slots are at least so far apart. */
const REFRESH_EVERY_MS = 200;

/**
 * A Redis Cluster. Each node has one connection from the beginning, kept up like that of a single server. What a node
 * refuses to do itself (MOVED, ASK, TRYAGAIN) goes where it belongs; what may have been done is never sent again.
 *
 * Event `whole`: commands can be sent to every primary.
 */
export class ClusterClient extends Cluster {
  readonly description: string;
  #refreshing: NodeJS.Timeout | null = null;
  #isClosed = false;
  #isAskingWhy = false;

  constructor({ nodes, link, description }: ClusterClientOptions) {
    super([...nodes], {
      redisOptions: link,
      // A command never waits for a link: the caller has a deadline and another way.
      enableOfflineQueue: false,
      // It would be asked of a link that is still being made, and begin everything anew when that fails.
      enableReadyCheck: false,
      clusterRetryStrategy: link.retryStrategy,
      clusterNodeRetryStrategy: link.retryStrategy,
      // 0: a command whose link broke may have counted. And where the cluster says that it is down, the caller has no
      // time to wait until it is not.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      retryDelayOnTryAgain: 20,
      maxRedirections: 5,
      slotsRefreshTimeout: 500,
      // Names are resolved for each connection, and certificates are for names.
      dnsLookup: (name, callback) => callback(null, name),
    });
    this.description = description;
    this.on('+node', (node: Redis) => {
      node.on('ready', () => this.#tellWhole());
      // The role of a node is settled after it was told of.
      queueMicrotask(() => this.#connectNodes());
    });
    this.on('refresh', () => this.#connectNodes());
    this.on('node error', () => this.refreshSoon());
    // Asked for the slots, nodes that cannot be reached are only told to be closed; a link of its own says why.
    this.on('error', () => this.#askWhy({ ...link, ...nodes[0] }));
    this.on('ready', () => this.#tellWhole());
  }

  /** Whether commands can be sent to every primary. */
  get isWhole(): boolean {
    const primaries = this.nodes('master');
    return this.status === 'ready' && primaries.length > 0 && primaries.every(({ status }) => status === 'ready');
  }

  /** `host:port` of the primary that has a name's slot; null while that is not known. */
  primaryOf(name: string): string | null {
    return this.slots[slotOf(name)]?.[0] ?? null;
  }

  /** The connection to the node at `host:port`, if it has one. */
  nodeAt(address: string): Redis | null {
    return this.nodes().find((node) => addressOfNode(node) === address) ?? null;
  }

  /** Asks anew which primary has which slots: a node does not answer as it should. */
  refreshSoon(): void {
    if (this.#isClosed || this.#refreshing !== null || this.status !== 'ready') return;
    this.#refreshing = setTimeout(() => {
      this.#refreshing = null;
      if (this.status === 'ready') this.refreshSlotsCache();
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
   * Now, not with the first command: all that come while a link is made fail. But not those of REDIS_URL before one of
   * them has told of all others: to look up the name of a server that is gone takes long, and few can be looked up at once.
   */
  #connectNodes(): void {
    if (this.slots.length === 0) return;
    for (const node of this.nodes()) if (node.status === 'wait') node.connect().catch(() => {});
  }

  #askWhy(link: LinkOptions): void {
    if (this.slots.length > 0 || this.#isAskingWhy || this.#isClosed) return;
    this.#isAskingWhy = true;
    const redis = new Redis({ ...link, lazyConnect: true, retryStrategy: () => null });
    redis.on('error', (error: Error) => this.emit('node error', error, addressOfNode(redis)));
    const end = () => {
      this.#isAskingWhy = false;
      redis.disconnect();
    };
    redis.connect().then(end, end);
  }

  #tellWhole(): void {
    if (this.isWhole) this.emit('whole');
  }
}

/** `host:port` of a node's connection, as the cluster's map of slots names it. */
export function addressOfNode({ options: { host, port } }: Redis): string {
  return `${host}:${port}`;
}
