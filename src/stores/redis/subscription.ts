import type { Redis } from 'ioredis';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { ServerClient } from './server-client.ts';

export interface SubscriptionEvents {
  readonly onMessage: (message: string) => void;
  /** A new link listens now. It may have begun after a message, and the server behind it may have another past. */
  readonly onLink: () => void;
}

/** A channel listened to for as long as it is not closed, on a connection of its own beside a client. */
export interface Subscription {
  /** Makes a new link: the present one may be dead without knowing it. */
  renew(): void;
  close(): void;
}

/** Subscribes beside a client. A server that does not let us, or that is away, is tried again without end. */
export function subscribe(redis: RedisClient, channel: string, events: SubscriptionEvents): Subscription {
  return redis instanceof ClusterClient
    ? new ClusterSubscription(redis, channel, events)
    : subscribeBeside(redis, channel, events);
}

/** What differs from a connection for commands. */
const LISTENING = {
  lazyConnect: true,
  // When the client itself subscribes again and is refused, nobody can catch that: it would end the process.
  autoResubscribe: false,
} as const;

function subscribeBeside(redis: Redis, channel: string, events: SubscriptionEvents): Subscription {
  const subscriber = new ServerClient({ ...redis.options, ...LISTENING, replyMapping: 'legacy' });
  listen(subscriber, channel, events);
  return { renew: () => subscriber.disconnect(true), close: () => subscriber.disconnect() };
}

function listen(subscriber: Redis, channel: string, { onMessage, onLink }: SubscriptionEvents): void {
  subscriber.on('error', () => {});
  subscriber.on('message', (_channel: string, message: string) => onMessage(message));
  subscriber.on('ready', () => {
    // Not allowed to, or cut at once: the polling alone suffices, and the next link tries again.
    subscriber.subscribe(channel).then(onLink, () => {});
  });
  subscriber.connect().catch(() => {});
}

/** How long after the end of a link, or after no node was known, another one is tried. */
const AGAIN_AFTER_MS = 200;

/** A cluster tells every message on all of its nodes: any one will do, and when it is lost another one. */
class ClusterSubscription implements Subscription {
  readonly #cluster: ClusterClient;
  readonly #channel: string;
  readonly #events: SubscriptionEvents;
  #subscriber: Redis | null = null;
  #again: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(cluster: ClusterClient, channel: string, events: SubscriptionEvents) {
    this.#cluster = cluster;
    this.#channel = channel;
    this.#events = events;
    this.#start();
  }

  renew(): void {
    this.#subscriber?.disconnect();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#again !== null) clearTimeout(this.#again);
    this.#subscriber?.disconnect();
  }

  #start(): void {
    const nodes = this.#cluster.nodes().filter(({ status }) => status === 'ready');
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (node === undefined) {
      this.#startLater();
      return;
    }
    const subscriber = node.duplicate({ ...LISTENING, readOnly: false, retryStrategy: () => null });
    this.#subscriber = subscriber;
    subscriber.on('end', () => this.#startLater());
    listen(subscriber, this.#channel, this.#events);
  }

  #startLater(): void {
    if (this.#isClosed) return;
    this.#again = setTimeout(() => this.#start(), AGAIN_AFTER_MS);
    this.#again.unref();
  }
}
