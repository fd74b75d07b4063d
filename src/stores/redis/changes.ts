import type { Redis } from 'ioredis';
import type { RecallFeed } from '../../admit/leases.ts';
import type { ChangeFeed, StoreChange } from '../../identify/record-store.ts';
import { ClusterClient } from './cluster.ts';
import { type RedisClient, ServerClient } from './connection.ts';
import { ACCOUNT_PREFIX, accountIdIn, keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';

/**
 * Counts a change and publishes it with its number, atomically. If an ACL forbids the channel, gateways find the change by its
 * number alone.
 *
 * Fault: another program has written something else in the place of the number, or a number that JavaScript rounds. The script
 * replaces it by the milliseconds since 1970, which are more than any number of changes that a gateway has seen: a lower number
 * would look as if the store had lost changes.
 */
const ANNOUNCE = new LuaScript<number>(`
local number = redis.pcall('INCR', KEYS[1])
if type(number) == 'table' or number > 9007199254740991 then
  local time = redis.call('TIME')
  number = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  redis.call('SET', KEYS[1], number)
end
redis.pcall('PUBLISH', ARGV[1], number .. ' ' .. ARGV[2])
return tonumber(number)`);

/**
 * The word for each kind of change in messages: `ban` for a change of an account, although it may also be a top-up or a reset.
 * Gateways of earlier versions share the store: they write this word, and know `key` and no other. They take a message without a
 * known word for `any`, so such a gateway confirms every key after a change of a customer.
 */
const WORDS = { key: 'key', customer: 'customer', account: 'ban', cache: 'cache', any: 'any' } as const;
const KINDS: ReadonlyMap<string | undefined, StoreChange['kind']> = new Map([
  [WORDS.key, 'key'],
  [WORDS.customer, 'customer'],
  [WORDS.account, 'account'],
  [WORDS.cache, 'cache'],
]);

interface RedisChangesOptions extends StoreConnection {
  /** Pause between two polls of the number of changes; 250 ms if left out. The second poll after a lost message notices the change. */
  readonly pollEveryMs?: number;
}

/**
 * Notifies all gateways of changes to keys and bans through Redis: at once by pub/sub, and, if a message was lost (a broken
 * connection, a slow subscriber), by the number of changes, which each gateway polls four times a second.
 */
export class RedisChanges implements ChangeFeed {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #channel: string;
  readonly #pollEveryMs: number;
  readonly #listeners: ((change: StoreChange) => void)[] = [];
  readonly #recallListeners: ((accountId: string) => void)[] = [];
  #hearsRecalls = false;
  #subscription: Subscription | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** The number of the last change up to which the listeners know all; null before the first poll. */
  #seen: number | null = null;
  /** Numbers beyond `#seen` that pub/sub has delivered while an earlier number is missing. */
  readonly #early = new Set<number>();
  /** The number beyond `#seen` that the last poll found. Pub/sub has until the next poll to deliver it. */
  #awaited: number | null = null;
  #isClosed = false;
  #isCurrent = false;

  constructor({ redis, circuit, pollEveryMs }: RedisChangesOptions) {
    this.#redis = redis;
    this.#circuit = circuit;
    this.#channel = keyspace.changesChannel('db' in redis.options ? (redis.options.db ?? 0) : 0);
    this.#pollEveryMs = pollEveryMs ?? 250;
    const hears = () => this.#hearsRecalls;
    this.recalls = {
      get isHeard() {
        return hears();
      },
      subscribe: (listener) => void this.#recallListeners.push(listener),
    };
  }

  /** Notifies every gateway. Rejects with Failure `store_unavailable` if the store does not answer. */
  async publish({ kind, keyId }: StoreChange): Promise<void> {
    const change = `${WORDS[kind]} ${keyId ?? '*'}`;
    await this.#circuit.run(
      () => ANNOUNCE.run(this.#redis, [keyspace.changes], this.#channel, change),
      keyspace.changes,
    );
  }

  subscribe(listener: (change: StoreChange) => void): void {
    this.#listeners.push(listener);
    if (this.#subscription === null) this.#start();
  }

  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  /** Reports accounts whose units a request waits for. If a message is lost, that request waits until the leases have ended. */
  readonly recalls: RecallFeed;

  /** Stops listening. The caller's own connection stays open. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#subscription?.close();
  }

  #start(): void {
    this.#subscription = subscribe(this.#redis, [this.#channel, keyspace.recallsChannel], {
      onMessage: (message, channel) => (channel === this.#channel ? this.#receive(message) : this.#recall(message)),
      onHeard: (channel) => {
        if (channel === this.#channel) this.#assumeAny();
        else this.#hearsRecalls = true;
      },
      onClose: () => {
        this.#hearsRecalls = false;
      },
    });
    this.#pollLater();
  }

  #receive(message: string): void {
    const [digits, word, id] = message.split(' ');
    const number = Number(digits);
    const kind = KINDS.get(word);
    if (Number.isSafeInteger(number) && kind !== undefined && id !== undefined && id !== '*') {
      this.#notify({ kind, keyId: id });
    } else this.#assumeAny();
    if (this.#seen === null || !(number > this.#seen)) return;
    this.#early.add(number);
    while (this.#early.delete(this.#seen + 1)) this.#seen++;
    // After that many numbers the missing one will not come. The next poll finds the gap.
    if (this.#early.size > 1_000) this.#early.clear();
  }

  #recall(name: string): void {
    const accountId = accountIdIn(name, ACCOUNT_PREFIX);
    for (const listener of this.#recallListeners) listener(accountId);
  }

  #pollLater(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#poll(), this.#pollEveryMs);
    this.#timer.unref();
  }

  async #poll(): Promise<void> {
    const seenBefore = this.#seen;
    try {
      const count = Number(await this.#circuit.run(() => this.#redis.get(keyspace.changes), keyspace.changes));
      if (!this.#isClosed) this.#compare(count, seenBefore);
    } catch {
      this.#isCurrent = false;
      // The store is away. When it is back, a different number shows that changes were made meanwhile.
    }
    this.#pollLater();
  }

  #compare(count: number, seenBefore: number | null): void {
    if (this.#seen === null || seenBefore === null) {
      // The first poll: there is no earlier number for a comparison.
      this.#catchUp(count);
    } else if (count < seenBefore || (this.#awaited !== null && this.#seen < this.#awaited)) {
      // A lower number: an operator emptied the store, or a failover lost changes. Or pub/sub did not deliver a change in time.
      this.#catchUp(count);
      // The subscriber's connection may be dead without having noticed.
      this.#subscription?.renew();
    } else {
      this.#awaited = count > this.#seen ? count : null;
      this.#isCurrent = this.#awaited === null;
    }
  }

  #catchUp(count: number): void {
    this.#seen = count;
    this.#isCurrent = true;
    this.#early.clear();
    this.#awaited = null;
    this.#assumeAny();
  }

  #assumeAny(): void {
    this.#notify({ kind: 'any', keyId: null });
  }

  #notify(change: StoreChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

interface SubscriptionEvents {
  readonly onMessage: (message: string, channel: string) => void;
  /**
   * Called when a new connection has subscribed to a channel. It may have missed messages, and may lead to another server with
   * other data.
   */
  readonly onHeard: (channel: string) => void;
  readonly onClose: () => void;
}

/** A subscription to some channels, on its own connection. */
interface Subscription {
  /** Makes a new connection, because the present one may be dead without having noticed. */
  renew(): void;
  close(): void;
}

/** Subscribes with the options of a client. If the server refuses or is away, it tries again until the caller closes it. */
export function subscribe(redis: RedisClient, channels: readonly string[], events: SubscriptionEvents): Subscription {
  return redis instanceof ClusterClient
    ? new ClusterSubscription(redis, channels, events)
    : subscribeBeside(redis, channels, events);
}

/** The options that differ from those of a connection for commands. */
const LISTENING = {
  lazyConnect: true,
  // A refusal of ioredis's own re-subscription would be an unhandled rejection and end the process.
  autoResubscribe: false,
} as const;

function subscribeBeside(redis: Redis, channels: readonly string[], events: SubscriptionEvents): Subscription {
  const subscriber = new ServerClient({ ...redis.options, ...LISTENING, replyMapping: 'legacy' });
  listen(subscriber, channels, events);
  return { renew: () => subscriber.disconnect(true), close: () => subscriber.disconnect() };
}

function listen(
  subscriber: Redis,
  channels: readonly string[],
  { onMessage, onHeard, onClose }: SubscriptionEvents,
): void {
  subscriber.on('error', () => {});
  subscriber.on('message', (channel: string, message: string) => onMessage(message, channel));
  subscriber.on('ready', () => {
    // If an ACL forbids a channel or the connection breaks, the next connection tries again. Subscribes to each channel alone,
    // because an ACL may allow some.
    for (const channel of channels)
      subscriber.subscribe(channel).then(
        () => onHeard(channel),
        () => {},
      );
  });
  subscriber.on('close', onClose);
  subscriber.connect().catch(() => {});
}

/** Pause before the next attempt after a connection ended or no node was ready. */
const RETRY_AFTER_MS = 200;

/** A cluster delivers every message on all nodes. So this subscribes on any node, and after its loss on another one. */
class ClusterSubscription implements Subscription {
  readonly #cluster: ClusterClient;
  readonly #channels: readonly string[];
  readonly #events: SubscriptionEvents;
  #subscriber: Redis | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(cluster: ClusterClient, channels: readonly string[], events: SubscriptionEvents) {
    this.#cluster = cluster;
    this.#channels = channels;
    this.#events = events;
    this.#start();
  }

  renew(): void {
    this.#subscriber?.disconnect();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
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
    listen(subscriber, this.#channels, this.#events);
  }

  #startLater(): void {
    if (this.#isClosed) return;
    this.#retryTimer = setTimeout(() => this.#start(), RETRY_AFTER_MS);
    this.#retryTimer.unref();
  }
}
