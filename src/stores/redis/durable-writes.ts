import { DURABLE, type Durability, type FinalDurability } from '../../admit/ledger.ts';
import type { StoreChange } from '../../identify/record-store.ts';
import { ReplyDeadlines } from '../../io/deadlines.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { type ReplicaLink, Replication, type ReplicationRound, type WantedReplicas } from './replication.ts';
import type { StoreConnection } from './shards.ts';

/** A connection that changes records and accounts. */
export interface ChangingConnection extends StoreConnection {
  /** Notifies every gateway. */
  readonly publish: (change: StoreChange) => Promise<void>;
  /** Makes changes durable. */
  readonly writes: DurableWrites;
}

/** A write that was made, and how to repeat it if a failover has undone it. */
export interface LastingWrite {
  /** The id of the changed record. Writes to the same record are repeated in their original order. */
  readonly about: string;
  /** Each kind has its own maximum of writes that are kept. A revocation ends access: of a key, also for a while, or of a secret. */
  readonly kind: WriteKind;
  /**
   * Repeats the write if the server does not have it. In any case it writes something to each server that holds a part of the
   * write, because WAIT waits for the last write on its own connection. It must be safe to call again.
   * @returns `there`: the server still had it; `superseded`: the server had lost it, and a later change of the record had
   *   replaced it, so this did not repeat it
   */
  remake(linkOf: (name: string) => Promise<ReplicaLink>): Promise<'there' | 'remade' | 'superseded'>;
  /**
   * The write to make if the store has lost this one after acknowledging it; null to make no other write. An operator may have
   * emptied the store, or restored a backup, so that write makes no record again that is gone altogether.
   */
  afterLoss?(): LastingWrite | null;
  /** True if this write changed nothing, because an earlier one had left the record as this one wants it. */
  isCoveredBy?(earlier: LastingWrite): boolean;
}

export type WriteKind = 'record' | 'change' | 'revocation';

export interface DurableWritesOptions {
  readonly redis: RedisClient;
  /** 0: a write counts as durable as soon as the primary has it. */
  readonly replicas: WantedReplicas;
  /** Maximum wait of a caller, milliseconds. */
  readonly timeoutMs: number;
  /** The class keeps a write other than a revocation this long while no server answers about it, milliseconds; 50 minutes if left out. */
  readonly keptUnseenMs?: number;
  /** Called when the number of changes in Redis has fallen below an acknowledged one: the store has lost acknowledged changes. */
  readonly onLoss?: (loss: LostChanges) => void;
}

/** The number of changes in Redis, and the highest one that a server has acknowledged. */
export interface LostChanges {
  readonly count: number;
  readonly acknowledged: number;
}

/** Maximum kept writes of a kind. Beyond that the class gives up the oldest of the kind. */
const MAX_KEPT: Readonly<Record<WriteKind, number>> = { record: 1_000, change: 1_000, revocation: 5_000 };
/** Below the hour for which the store keeps the id of a change (`REMEMBERED_MS`): after that a repetition could replace a newer change. */
const KEPT_UNSEEN_MS = 3_000_000;
/** A round repeats a waiting write this often, so that the store does not forget the ids of changes. */
const REFRESH_MS = 600_000;
/** This process remembers acknowledged revocations for this long, up to this number, to repeat them if the store has lost them. */
const REMEMBERED_MS = 600_000;
const MAX_REMEMBERED = 1_000;
const ROUND_PAUSE_MS = 250;
/** While every write waits for a replica that is away, and after many rounds without a new write. */
const LONG_PAUSE_MS = 2_000;
const MAX_SHORT = 80;
/** Pause between two comparisons of the number of changes with the acknowledged one. */
const COMPARE_EVERY_MS = 1_000;
/** Maximum wait for the replicas of one server in a round. The next round may find another primary. */
const ROUND_MS = 2_000;
/** Added to that, because a stopped server does not keep the deadline of its own WAIT. */
const GRACE_MS = 500;

/** A write that the class keeps to repeat it if a failover undoes it. */
interface KeptWrite {
  readonly write: LastingWrite;
  readonly final: Promise<FinalDurability>;
  /** Ends the wait of the caller; only the first call has an effect. */
  end(final: FinalDurability): void;
  /** Fulfilled when a replica is known to be down, so that the write cannot become durable while its caller waits. */
  readonly postponed: Promise<void>;
  postpone(): void;
  isAcknowledged: boolean;
  /** The time at which a server last showed that it has the write. */
  seenAtMs: number;
  /** For each name that the write uses, the history (`ServerState`) of the server that had it; null before a server has shown it. */
  histories: ReadonlyMap<string, string | null> | null;
}

/**
 * Delays the acknowledgement of a write until all replicas have it, and repeats the write if a failover has undone it.
 *
 * A replaced primary accepts writes for more than a second and then discards them, and a replica that was away may be promoted
 * before it has the writes made meanwhile. Without this class, a key could work again although its revocation was acknowledged.
 *
 * Writes that some replica lacks are processed in rounds: each round repeats the missing writes, and one WAIT on each primary
 * serves all of them. So any number of simultaneous changes costs no more than one. While a replica is away, a round only asks
 * whether it is back, and whether another server has taken over.
 */
export class DurableWrites {
  readonly #redis: RedisClient;
  readonly #replication: Replication;
  readonly #isOff: boolean;
  readonly #timeoutMs: number;
  readonly #deadlines = new ReplyDeadlines();
  readonly #keptUnseenMs: number;
  readonly #onLoss: (loss: LostChanges) => void;
  /** In the order in which they were made. */
  readonly #kept = new Set<KeptWrite>();
  readonly #keptOf: Readonly<Record<WriteKind, Set<KeptWrite>>> = {
    record: new Set(),
    change: new Set(),
    revocation: new Set(),
  };
  /** Revocations that are on all replicas, oldest first. */
  readonly #remembered: { readonly write: LastingWrite; readonly atMs: number }[] = [];
  /** The highest acknowledged number of changes; 0 before the first. */
  #acknowledged = 0;
  #comparing: NodeJS.Timeout | null = null;
  #isRunning = false;
  #isClosed = false;
  #hasNew = false;
  #wakeUp: (() => void) | null = null;

  constructor({ redis, replicas, timeoutMs, keptUnseenMs = KEPT_UNSEEN_MS, onLoss = () => {} }: DurableWritesOptions) {
    this.#redis = redis;
    this.#replication = new Replication({ client: redis, wanted: replicas });
    this.#isOff = replicas === 0;
    this.#timeoutMs = timeoutMs;
    this.#keptUnseenMs = keptUnseenMs;
    this.#onLoss = onLoss;
    // Repeats at once what a failover has undone.
    redis.on('ready', () => {
      this.#wakeUp?.();
      void this.#compare();
    });
  }

  /** Waits until the replicas acknowledge a write, at most for the timeout. Never rejects. */
  secure(write: LastingWrite): Promise<Durability> {
    if (this.#isOff) {
      this.#remember(write);
      void numberOf(this.#redis).then((number) => this.#acknowledge(number));
      return Promise.resolve(DURABLE);
    }
    return new Promise((resolve) => {
      // An operator may repeat a change until it is acknowledged. The repetitions must not displace other writes.
      const kept = this.#coveringOf(write) ?? this.#keep(write);
      const unknown = () => resolve({ kind: 'unknown', final: kept.final });
      const late = this.#deadlines.set(unknown, this.#timeoutMs);
      kept.postponed.then(unknown);
      kept.final.then((final) => {
        late.cancel();
        if (final === 'durable') resolve(DURABLE);
        else unknown();
      });
    });
  }

  /** Gives up the writes that are not yet durable. */
  close(): void {
    this.#isClosed = true;
    if (this.#comparing !== null) clearInterval(this.#comparing);
    this.#replication.drop();
    for (const kept of [...this.#kept]) this.#end(kept, 'given_up');
    this.#wakeUp?.();
  }

  #coveringOf(write: LastingWrite): KeptWrite | null {
    if (write.isCoveredBy === undefined) return null;
    const last = [...this.#kept].findLast((kept) => kept.write.about === write.about);
    return last !== undefined && write.isCoveredBy(last.write) ? last : null;
  }

  #keep(write: LastingWrite): KeptWrite {
    const { promise: final, resolve: end } = Promise.withResolvers<FinalDurability>();
    const { promise: postponed, resolve: postpone } = Promise.withResolvers<void>();
    const seenAtMs = performance.now();
    const kept = { write, final, end, postponed, postpone, isAcknowledged: false, seenAtMs, histories: null };
    if (this.#isClosed) {
      end('given_up');
      return kept;
    }
    const alike = this.#keptOf[write.kind];
    const [oldest] = alike;
    if (oldest !== undefined && alike.size >= MAX_KEPT[write.kind]) this.#end(oldest, 'given_up');
    alike.add(kept);
    this.#kept.add(kept);
    this.#hasNew = true;
    this.#wakeUp?.();
    if (!this.#isRunning) void this.#run();
    return kept;
  }

  #end(kept: KeptWrite, final: FinalDurability): void {
    this.#kept.delete(kept);
    this.#keptOf[kept.write.kind].delete(kept);
    kept.end(final);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    // The writes of one turn of the event loop go into one round.
    await new Promise((resolve) => setImmediate(resolve));
    let fruitless = 0;
    while (this.#kept.size > 0) {
      this.#hasNew = false;
      const pauseMs = await this.#round([...this.#kept]);
      this.#giveUpUnseen();
      // The class keeps revocations through an outage of any length.
      fruitless = this.#hasNew ? 0 : fruitless + 1;
      if (this.#kept.size > 0 && !this.#hasNew) await this.#pause(fruitless > MAX_SHORT ? LONG_PAUSE_MS : pauseMs);
    }
    this.#isRunning = false;
  }

  /** @returns the pause until the next round, milliseconds */
  async #round(batch: readonly KeptWrite[]): Promise<number> {
    const roundMs = Math.min(this.#timeoutMs, ROUND_MS);
    const late = this.#deadlines.set(() => this.#replication.drop(), roundMs + GRACE_MS);
    const round = this.#replication.round(roundMs);
    try {
      // Comes first, so that on a connection that the writes use too, one WAIT serves it as well.
      const counted = this.#count(round);
      const used = new Map<KeptWrite, ReadonlySet<ReplicaLink>>();
      let waiting = 0;
      const remade = [...Map.groupBy(batch, ({ write }) => write.about).values()].map(async (group) => {
        for (const kept of group) {
          if (await this.#waitsForReplica(kept, round)) waiting++;
          else {
            const links = await this.#remake(kept, round);
            if (links === null) return;
            used.set(kept, links);
          }
        }
      });
      await Promise.all(remade);
      void counted.then(async (count) => {
        const isSafe = count !== null && (await round.isAcknowledged(count.link).catch(() => false));
        if (isSafe) this.#acknowledge(count.number);
      });
      await Promise.all([...used].map(([kept, links]) => this.#endIfSafe(kept, links, round)));
      // A connection may lead to a former primary: the next round looks up the primaries again.
      if (batch.some((kept) => this.#kept.has(kept))) this.#replication.drop();
      return waiting === batch.length ? LONG_PAUSE_MS : ROUND_PAUSE_MS;
    } finally {
      late.cancel();
    }
  }

  /** True if a round can do nothing: the same servers as before have the write, and one of them lacks a replica. */
  async #waitsForReplica(kept: KeptWrite, round: ReplicationRound): Promise<boolean> {
    const { histories, seenAtMs, isAcknowledged } = kept;
    if (histories === null || performance.now() - seenAtMs > REFRESH_MS) return false;
    const needsAll = isAcknowledged || this.#replication.wanted === 'all';
    let lacksReplica = false;
    for (const [name, before] of histories) {
      const state = await round
        .linkTo(name)
        .then((link) => round.stateOf(link))
        .catch(() => null);
      if (state === null || before === null || !state.isPrimary || state.history !== before) return false;
      if (state.away.length > 0 && needsAll) lacksReplica = true;
    }
    return lacksReplica;
  }

  /** @returns the connections used; null if an error occurred, so that later writes to the same record must wait too */
  async #remake(kept: KeptWrite, round: ReplicationRound): Promise<ReadonlySet<ReplicaLink> | null> {
    const used = new Set<ReplicaLink>();
    const histories = new Map<string, string | null>();
    try {
      const outcome = await kept.write.remake(async (name) => {
        const link = await round.linkTo(name);
        const { isPrimary, history, away } = await round.stateOf(link);
        histories.set(name, isPrimary ? history : null);
        // A replica that the others do not reach either will not be back in time.
        if (this.#replication.wanted === 'all' && away.some(({ isDown }) => isDown)) kept.postpone();
        used.add(link);
        return link;
      });
      if (outcome === 'superseded') this.#end(kept, 'superseded');
      kept.histories = histories;
      kept.seenAtMs = performance.now();
      return used;
    } catch {
      return null;
    }
  }

  async #endIfSafe(kept: KeptWrite, links: ReadonlySet<ReplicaLink>, round: ReplicationRound): Promise<void> {
    const areAll = async (ask: (link: ReplicaLink) => Promise<boolean>) =>
      (await Promise.all([...links].map((link) => ask(link).catch(() => false)))).every(Boolean) &&
      [...links].every(({ status }) => status === 'ready');
    if (!this.#kept.has(kept) || !(await areAll((link) => round.isAcknowledged(link)))) return;
    kept.isAcknowledged = true;
    kept.end('durable');
    if (!(await areAll((link) => round.isEverywhere(link)))) return;
    this.#end(kept, 'durable');
    this.#remember(kept.write);
  }

  #giveUpUnseen(): void {
    const beforeMs = performance.now() - this.#keptUnseenMs;
    for (const kept of [...this.#kept])
      if (kept.seenAtMs < beforeMs && kept.write.kind !== 'revocation') this.#end(kept, 'given_up');
  }

  /**
   * Reads the number of changes and writes it, so that a WAIT afterwards tells whether the replicas have it. Null if the store
   * cannot read it.
   */
  async #count(round: ReplicationRound): Promise<{ readonly link: ReplicaLink; readonly number: number } | null> {
    const acknowledged = this.#acknowledged;
    try {
      const link = await round.linkTo(keyspace.changes);
      const number = Number(await link.incrby(keyspace.changes, 0));
      this.#notice(number, acknowledged);
      return { link, number };
    } catch {
      return null;
    }
  }

  #acknowledge(number: number | null): void {
    if (this.#isClosed || number === null || !Number.isSafeInteger(number)) return;
    this.#acknowledged = Math.max(this.#acknowledged, number);
    this.#comparing ??= setInterval(() => void this.#compare(), COMPARE_EVERY_MS);
    this.#comparing.unref();
  }

  /** Compares the number with the one before the question, because it may have been acknowledged meanwhile. */
  async #compare(): Promise<void> {
    const acknowledged = this.#acknowledged;
    if (acknowledged === 0 || this.#isClosed) return;
    const number = await numberOf(this.#redis);
    if (number !== null) this.#notice(number, acknowledged);
  }

  /**
   * Repeats the revocations that this process remembers.
   *
   * Fault: the store has lost acknowledged changes: a replica came back without its data and was promoted, a crash lost the last
   * second, or an operator restored a backup.
   */
  #notice(count: number, acknowledged: number): void {
    if (this.#isClosed || !(count < Math.min(acknowledged, this.#acknowledged))) return;
    this.#acknowledged = count;
    this.#onLoss({ count, acknowledged });
    for (const { write } of this.#remembered.splice(0)) {
      const again = write.afterLoss?.();
      if (again) this.#keep(again);
    }
  }

  #remember(write: LastingWrite): void {
    if (write.kind !== 'revocation') return;
    const nowMs = performance.now();
    this.#remembered.push({ write, atMs: nowMs });
    const first = this.#remembered.findIndex(({ atMs }) => nowMs - atMs < REMEMBERED_MS);
    this.#remembered.splice(0, Math.max(first, this.#remembered.length - MAX_REMEMBERED));
  }

  /** Waits until the next round is due, another write arrives or the connection is new. */
  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wakeUp = () => {
        clearTimeout(timer);
        this.#wakeUp = null;
        resolve();
      };
      const timer = setTimeout(wakeUp, ms);
      timer.unref();
      this.#wakeUp = wakeUp;
    });
  }
}

/** The number of changes in Redis; null if the store cannot read it, or another program's value is in its place. */
async function numberOf(redis: RedisClient): Promise<number | null> {
  const text = await redis.get(keyspace.changes).catch(() => undefined);
  const number = text === undefined ? Number.NaN : Number(text);
  return Number.isSafeInteger(number) ? number : null;
}
