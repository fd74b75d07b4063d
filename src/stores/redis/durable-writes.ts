import { DURABLE, type Durability, type Settlement } from '../../identify/key-store.ts';
import type { RedisClient } from './connection.ts';
import { type Link, Replication, type WantedReplicas } from './replication.ts';

/** A write that was made, and how it is made again where a failover has undone it. */
export interface LastingWrite {
  /** The id of what it is about: writes about the same are made again in the order in which they were made. */
  readonly about: string;
  /**
   * Makes it again where the server does not have it. Whatever it finds, it writes something to each server that the
   * write lies on: WAIT waits for what was written last on its own connection. Must be safe to repeat.
   * @returns `superseded`: the server lost it, and it was changed since, so that it is not made again
   */
  remake(linkOf: (name: string) => Promise<Link>): Promise<'there' | 'remade' | 'superseded'>;
}

export interface DurableWritesOptions {
  readonly redis: RedisClient;
  /** 0: a write counts as durable when the primary has it. */
  readonly replicas: WantedReplicas;
  /** How long a caller waits. */
  readonly timeoutMs: number;
  /** How long a write that may not be durable is remembered, 10 minutes unless told. */
  readonly keptMs?: number;
}

/** Writes that may not be durable and are remembered at the same time; beyond that the oldest is given up. */
const MOST_KEPT = 1_000;
const KEPT_MS = 600_000;
const AGAIN_AFTER_MS = 250;
/** One round waits no longer for the replicas of one server: the next may find another primary. */
const ROUND_MS = 2_000;
/** On top of that: a server that was stopped does not keep its own deadlines. */
const GRACE_MS = 500;

interface Pending {
  readonly write: LastingWrite;
  readonly sinceMs: number;
  settle(settlement: Settlement): void;
}

/**
 * Holds back the acknowledgement of a write until it is on all replicas, and makes it again where a failover has undone
 * it. A primary that has been replaced goes on taking writes for more than a second and then forgets them: without this
 * a key that was revoked, and said to be, would work again.
 *
 * All that is not settled is looked at in rounds, one after the other: whatever is missing is made again, and one WAIT on
 * each primary serves all. So changes that come together cost no more than one.
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

  /** Waits until a write that was made is durable, and no longer than the timeout. Never rejects. */
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

  /** Gives up what is not settled. */
  close(): void {
    this.#isClosed = true;
    this.#replication.drop();
    for (const one of [...this.#pending]) this.#end(one, 'given_up');
    this.#wakeUp?.();
  }

  #add(one: Pending): void {
    if (this.#isClosed) {
      one.settle('given_up');
      return;
    }
    const [oldest] = this.#pending;
    if (oldest !== undefined && this.#pending.size >= MOST_KEPT) this.#end(oldest, 'given_up');
    this.#pending.add(one);
    this.#wakeUp?.();
    if (!this.#isRunning) void this.#run();
  }

  #end(one: Pending, settlement: Settlement): void {
    if (this.#pending.delete(one)) one.settle(settlement);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    // What is made in one turn of the event loop is one round.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#pending.size > 0) {
      const batch = [...this.#pending];
      await this.#round(batch);
      const nowMs = performance.now();
      for (const one of batch) if (nowMs - one.sinceMs > this.#keptMs) this.#end(one, 'given_up');
      if (batch.some((one) => this.#pending.has(one))) await this.#pause();
    }
    this.#isRunning = false;
  }

  async #round(batch: readonly Pending[]): Promise<void> {
    const roundMs = Math.min(this.#timeoutMs, ROUND_MS);
    const late = setTimeout(() => this.#replication.drop(), roundMs + GRACE_MS);
    late.unref();
    try {
      const links = new Map<Pending, ReadonlySet<Link>>();
      const remade = [...Map.groupBy(batch, ({ write }) => write.about).values()].map(async (group) => {
        for (const one of group) {
          const used = await this.#remake(one);
          if (used === null) return;
          links.set(one, used);
        }
      });
      await Promise.all(remade);
      const all = new Set([...links.values()].flatMap((used) => [...used]));
      const durable = new Set<Link>();
      await Promise.all(
        [...all].map(async (link) => {
          if (await this.#replication.isDurable(link, roundMs).catch(() => false)) durable.add(link);
        }),
      );
      for (const [one, used] of links) {
        if ([...used].every((link) => durable.has(link) && link.status === 'ready')) this.#end(one, 'durable');
      }
      // Perhaps to a server that is no primary any more: the next round asks anew which one is.
      if (durable.size < all.size || links.size < batch.length) this.#replication.drop();
    } finally {
      clearTimeout(late);
    }
  }

  /** @returns where it was made again, or found; null where that failed and those behind it have to wait as well */
  async #remake(one: Pending): Promise<ReadonlySet<Link> | null> {
    const used = new Set<Link>();
    try {
      const outcome = await one.write.remake(async (name) => {
        const link = await this.#replication.of(name);
        used.add(link);
        return link;
      });
      if (outcome === 'superseded') this.#end(one, 'superseded');
      return used;
    } catch {
      return null;
    }
  }

  /** Until it is time to try again, or another write comes. */
  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const wakeUp = () => {
        clearTimeout(timer);
        this.#wakeUp = null;
        resolve();
      };
      const timer = setTimeout(wakeUp, AGAIN_AFTER_MS);
      timer.unref();
      this.#wakeUp = wakeUp;
    });
  }
}
