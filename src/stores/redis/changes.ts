import type { Change, ChangeFeed } from '../../identify/key-store.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import type { Calls } from './shards.ts';
import { type Subscription, subscribe } from './subscription.ts';

/**
 * Counts a change and tells it with its number, in one step: nobody can see the one without the other. Where this user
 * may not use the channel the number alone has to do.
 */
const ANNOUNCE_LUA = `
local number = redis.call('INCR', KEYS[1])
redis.pcall('PUBLISH', ARGV[1], number .. ' ' .. ARGV[2])
return number`;

interface Scripted {
  tollgateAnnounce(counter: string, channel: string, what: string): Promise<number>;
}

export interface RedisChangesOptions {
  readonly redis: RedisClient;
  readonly circuit: Calls;
  /** How often the number of changes is compared, 250 ms unless told. What was missed is assumed at the second look. */
  readonly pollEveryMs?: number;
}

/**
 * Tells all gateways of changes to keys and bans through Redis: at once by pub/sub, and where a message was lost (a link
 * cut, a subscriber too slow) by the number of changes, which each gateway compares four times a second.
 */
export class RedisChanges implements ChangeFeed {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;
  readonly #channel: string;
  readonly #pollEveryMs: number;
  readonly #listeners: ((change: Change) => void)[] = [];
  #subscription: Subscription | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** The number of changes that listeners know of; null before the first look. */
  #seen: number | null = null;
  /** Numbers beyond `seen` that pub/sub has brought, while one in between is missing. */
  readonly #early = new Set<number>();
  /** What the last look found beyond `seen`: pub/sub has until the next one to bring it. */
  #awaited: number | null = null;
  #isClosed = false;

  constructor({ redis, circuit, pollEveryMs }: RedisChangesOptions) {
    redis.defineCommand('tollgateAnnounce', { lua: ANNOUNCE_LUA, numberOfKeys: 1 });
    this.#redis = redis as RedisClient & Scripted;
    this.#circuit = circuit;
    this.#channel = keyspace.changesChannel('db' in redis.options ? (redis.options.db ?? 0) : 0);
    this.#pollEveryMs = pollEveryMs ?? 250;
  }

  /** Tells every gateway. Rejects with Failure `store_unavailable` when the store does not answer. */
  async publish({ kind, keyId }: Change): Promise<void> {
    const what = `${kind} ${keyId ?? '*'}`;
    await this.#circuit.run(
      () => this.#redis.tollgateAnnounce(keyspace.changes, this.#channel, what),
      keyspace.changes,
    );
  }

  subscribe(listener: (change: Change) => void): void {
    this.#listeners.push(listener);
    if (this.#subscription === null) this.#start();
  }

  /** Stops listening. Does not end the connection it was given. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#subscription?.close();
  }

  #start(): void {
    this.#subscription = subscribe(this.#redis, this.#channel, {
      onMessage: (message) => this.#hear(message),
      onLink: () => this.#assumeAny(),
    });
    this.#pollLater();
  }

  #hear(message: string): void {
    const [digits, kind, id] = message.split(' ');
    const number = Number(digits);
    if (Number.isSafeInteger(number) && (kind === 'key' || kind === 'ban') && id !== undefined && id !== '*') {
      this.#tell({ kind, keyId: id });
    } else this.#assumeAny();
    if (this.#seen === null || !(number > this.#seen)) return;
    this.#early.add(number);
    while (this.#early.delete(this.#seen + 1)) this.#seen++;
    // So many out of order are a gap that will not close; the next look finds it.
    if (this.#early.size > 1_000) this.#early.clear();
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
      // Away: what changes meanwhile is found when the store is back, since the number is then another.
    }
    this.#pollLater();
  }

  #compare(count: number, seenBefore: number | null): void {
    if (this.#seen === null || seenBefore === null) {
      // The first look: nothing was heard before it that could be compared.
      this.#catchUp(count);
    } else if (count < seenBefore || (this.#awaited !== null && this.#seen < this.#awaited)) {
      // Fewer than before: the store was emptied or has fallen back. Or pub/sub had its time and did not bring it all.
      this.#catchUp(count);
      // Its link may be dead without knowing it.
      this.#subscription?.renew();
    } else {
      this.#awaited = count > this.#seen ? count : null;
    }
  }

  #catchUp(count: number): void {
    this.#seen = count;
    this.#early.clear();
    this.#awaited = null;
    this.#assumeAny();
  }

  #assumeAny(): void {
    this.#tell({ kind: 'any', keyId: null });
  }

  #tell(change: Change): void {
    for (const listener of this.#listeners) listener(change);
  }
}
