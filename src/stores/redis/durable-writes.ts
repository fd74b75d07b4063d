import { DURABLE, type Durability, type Settlement } from '../../admit/ledger.ts';
import type { RedisClient } from './connection.ts';
import { type ReplicaLink, Replication, type WantedReplicas } from './replication.ts';

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
