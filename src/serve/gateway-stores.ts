import { randomBytes } from 'node:crypto';
import type { HistoryStore } from '../admit/history-store.ts';
import type { Ledger, UsageReconciler } from '../admit/ledger.ts';
import { shadowIdOf } from '../admit/plan.ts';
import type { CertificateStore } from '../certificates/store.ts';
import type { Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { AttemptCounter } from '../identify/failed-attempts.ts';
import type { ChangeFeed, KeyStore } from '../identify/key-store.ts';
import { checkPeppers, type PepperState, type PepperStore, UNVERIFIED } from '../identify/pepper-record.ts';
import { CLOCKS } from '../io/clocks.ts';
import type { AuditStore } from '../operations/audit-store.ts';
import type { DeprecatedCalls } from '../operations/deprecated-calls.ts';
import type { FleetStore } from '../operations/fleet/fleet-store.ts';
import type { LostChanges } from '../stores/redis/durable-writes.ts';
import { StoreClock } from './store-clock.ts';

/** The interfaces through which a running gateway uses its store, Redis or embedded. */
export interface GatewayStores {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  /** Adds the backlog of an outage to Redis; null for the embedded store, whose ledger does so itself. */
  readonly reconciler: UsageReconciler | null;
  readonly attempts: AttemptCounter;
  readonly changes: ChangeFeed;
  /** The clock by which the store counts. */
  readonly clock: StoreClock;
  readonly deprecatedCalls: DeprecatedCalls;
  readonly history: HistoryStore;
  readonly audit: AuditStore;
  /** Where the gateways on this store leave messages for each other. */
  readonly fleet: FleetStore;
  /** The records of `listen.tls.acme`; null if that is not set. */
  readonly certificates: CertificateStore | null;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Whether the peppers are those of the store. Under a wrong pepper a key that is not found is not refused as unknown. */
  pepperState(): PepperState;
  state(): StoreState;
  /** Why the store is away and for how long; null while it is not away. */
  outage(): Outage | null;
  /** A sentence for each replica that is away or behind, with what to do. Meanwhile no change to a key is acknowledged. */
  replicaTrouble(): readonly string[];
  /** Applies what commands have changed in accounts of the embedded store. With Redis such a change needs no further step. */
  applyChanges(): void;
  close(): Promise<void>;
}

export type StoreState = 'embedded' | 'present' | 'away' | 'never_reached';

export interface Outage {
  /** A sentence for operators. */
  readonly reason: string;
  /** How long it has lasted, in milliseconds. */
  readonly lastsMs: number;
}

export interface StoreEvents {
  /** Called once per change, with the outage that begins or is over. */
  readonly onStoreChange: (state: 'present' | 'away', outage: Outage) => void;
  readonly onFailure: (error: unknown) => void;
  /** Called for each failed write of the embedded store that belongs to no request. */
  readonly onFailedWrite?: (error: unknown) => void;
  /** Called when the peppers no longer match the store, and with null when they match again. A start throws instead. */
  readonly onPepperMismatch: (failure: Failure | null) => void;
  /** Called when the clock of the store was set: what is remembered by it may have ended. */
  readonly onClockJump?: () => void;
  /** Called when replicas go away, come back or fall behind (`GatewayStores.replicaTrouble`). */
  readonly onReplicas?: (trouble: readonly string[]) => void;
  /** Called when the store has lost changes that were acknowledged. */
  readonly onLostChanges: (loss: LostChanges) => void;
  /** Called once with each sentence about the store that an operator should know. */
  readonly onWarning?: (sentence: string) => void;
}

/**
 * Opens the store that the settings name: Redis if REDIS_URL is set, else the embedded store, which only one gateway at a
 * time may own. Redis may be away (contract section 6).
 * @param acceptsRollback whether the embedded store may lack writes that it acknowledged
 * @throws Failure `store_owned`, `store_corrupt`, `store_rolled_back`, `pepper_mismatch`, `bad_settings` (also for a Redis whose version or
 *   settings make counts unreliable)
 */
export async function openGatewayStores(
  settings: Settings,
  events: StoreEvents,
  { acceptsRollback = false }: { readonly acceptsRollback?: boolean } = {},
): Promise<GatewayStores> {
  return settings.redis.url === null
    ? openEmbedded(settings, events, acceptsRollback)
    : openRedis(settings, settings.redis.url, events);
}

/** Failed calls in a row after which no request waits for Redis until a probe succeeds (contract section 6). */
const FAILURES = 3;
const PROBE_EVERY_MS = 200;
/** How long a start waits for Redis before it continues without. */
const REACHED_WITHIN_MS = 1_000;
/** At most this many different errors are logged while Redis is disconnected. */
const MAX_ERRORS = 20;

async function openRedis(settings: Settings, url: string, events: StoreEvents): Promise<GatewayStores> {
  const [
    { circuitFor },
    { connectRedis, untilReady },
    { RedisKeys },
    { RedisLedger },
    { RedisChanges },
    { RedisAttemptCounter },
    { RedisUsageReconciler, trialOn },
    { insistOnServers, watchServers },
    { RedisDeprecatedCalls },
    { RedisHistory },
    { DurableWrites },
    { ReplicaWatch },
    { RedisPepperRecord },
    { RedisAudit },
    { RedisFleet },
    { serverClocks },
  ] = await Promise.all([
    import('../stores/redis/shards.ts'),
    import('../stores/redis/connection.ts'),
    import('../stores/redis/keys.ts'),
    import('../stores/redis/ledger.ts'),
    import('../stores/redis/changes.ts'),
    import('../stores/redis/failed-attempts.ts'),
    import('../stores/redis/usage-reconciler.ts'),
    import('../stores/redis/inspection.ts'),
    import('../stores/redis/deprecated-calls.ts'),
    import('../stores/redis/history.ts'),
    import('../stores/redis/durable-writes.ts'),
    import('../stores/redis/replica-watch.ts'),
    import('../stores/redis/pepper-record.ts'),
    import('../stores/redis/audit.ts'),
    import('../stores/redis/fleet.ts'),
    import('../stores/redis/server-clocks.ts'),
  ]);
  const errors = withoutRepeats(events.onFailure);
  const redis = connectRedis({ url, connectTimeoutMs: 1_000, onError: errors.report });
  redis.on('ready', errors.forget);
  const outages = watchOutages(events);
  const circuit = circuitFor(redis, {
    timeoutMs: settings.redis.timeoutMs,
    failures: FAILURES,
    probeEveryMs: PROBE_EVERY_MS,
    ...trialOn(redis),
    onChange: (state, change) => outages.changed(state, change?.reason),
    onShardChange: (address, state) => events.onWarning?.(`The part of the cluster at ${address} is ${state}.`),
  });
  watchServers(redis, settings.usageHistory, (sentence) => events.onWarning?.(sentence));
  const pepperWatch = new PepperWatch({
    record: new RedisPepperRecord({ redis, circuit }),
    peppers: settings.peppers,
    onMismatch: events.onPepperMismatch,
    onWarning: (sentence) => events.onWarning?.(sentence),
  });
  const refuse = (error: unknown): never => {
    pepperWatch.close();
    circuit.close();
    redis.disconnect();
    throw error;
  };
  // If Redis does not answer in time, the gateway starts without it.
  await untilReady(redis, REACHED_WITHIN_MS)
    .then(() => circuit.run(() => redis.ping()))
    .then(() => circuit.run(() => insistOnServers(redis, settings.usageHistory)))
    .catch((error) =>
      error instanceof Failure && error.code === 'bad_settings' ? refuse(error) : events.onFailure(error),
    );
  await pepperWatch.begin().catch(refuse);
  const changes = new RedisChanges({ redis, circuit });
  const publish = changes.publish.bind(changes);
  const clock = storeClock(() => serverClocks(redis, circuit), events);
  const { durability } = settings.redis;
  const writes = new DurableWrites({ redis, ...durability, onLoss: events.onLostChanges });
  const { onReplicas } = events;
  const replicas =
    onReplicas === undefined || durability.replicas === 0
      ? null
      : new ReplicaWatch({ redis, wanted: durability.replicas, onChange: onReplicas });
  return {
    keys: new RedisKeys({ redis, circuit, publish, writes }),
    ledger: new RedisLedger({ redis, circuit, publish, writes, wallMs: CLOCKS.wallMs }),
    reconciler: new RedisUsageReconciler({ redis, circuit, wallMs: CLOCKS.wallMs }),
    attempts: new RedisAttemptCounter({ redis, circuit }),
    deprecatedCalls: new RedisDeprecatedCalls({ redis, circuit }),
    history: new RedisHistory({ redis, circuit, wallMs: CLOCKS.wallMs }),
    audit: new RedisAudit({ redis, circuit, writes }),
    fleet: new RedisFleet({ redis, circuit }),
    certificates: usesAcme(settings)
      ? new (await import('../stores/redis/certificates.ts')).RedisCertificateStore({ redis, circuit })
      : null,
    changes,
    clock,
    peppers: settings.peppers,
    pepperState: () => pepperWatch.state,
    state: () =>
      circuit.state === 'present' && circuit.reached ? 'present' : circuit.reached ? 'away' : 'never_reached',
    outage: outages.present,
    replicaTrouble: () => replicas?.trouble ?? [],
    applyChanges: () => {},
    close: async () => {
      replicas?.close();
      pepperWatch.close();
      changes.close();
      clock.close();
      writes.close();
      circuit.close();
      redis.disconnect();
    },
  };
}

/** Keeps why and since when the store is away, and reports each change. */
function watchOutages({ onStoreChange }: StoreEvents) {
  let outage: { readonly reason: string; readonly sinceMs: number } | null = null;
  const present = (): Outage | null =>
    outage === null ? null : { reason: outage.reason, lastsMs: Math.round(performance.now() - outage.sinceMs) };
  const changed = (state: 'present' | 'away', reason = 'No response.') => {
    if (state === 'away') outage = { reason, sinceMs: performance.now() };
    const changedOutage = present();
    if (state === 'present') outage = null;
    if (changedOutage !== null) onStoreChange(state, changedOutage);
  };
  return { present, changed };
}

/** Reports each error once. The client repeats it four times a second while Redis, or a node of a cluster, is away. */
function withoutRepeats(report: (error: unknown) => void): { report(error: Error): void; forget(): void } {
  const reported = new Set<string>();
  return {
    report: (error) => {
      if (reported.has(error.message) || reported.size > MAX_ERRORS) return;
      reported.add(error.message);
      report(withoutCommand(error));
    },
    forget: () => reported.clear(),
  };
}

/** Removes the failed command, which ioredis attaches to its errors: that of a login holds the password. */
function withoutCommand(error: Error): Error {
  const { message, stack } = error;
  return Object.assign(new Error(message), { stack }, 'code' in error ? { code: error.code } : {});
}

async function openEmbedded(settings: Settings, events: StoreEvents, acceptsRollback: boolean): Promise<GatewayStores> {
  const { dataFolder, peppers: given, redis } = settings;
  const [
    { damageIn, neverWait, openDatabase },
    { ownStore },
    { insistOnAcknowledged },
    { Checkpoints },
    { EmbeddedPepperRecord, peppersOf },
    { EmbeddedChanges, EmbeddedKeys },
    { EmbeddedLedger },
    attempts,
    { EmbeddedDeprecatedCalls },
    { EmbeddedHistory },
    { EmbeddedAudit },
    { EmbeddedFleet },
  ] = await Promise.all([
    import('../stores/embedded/database.ts'),
    import('../stores/embedded/owner.ts'),
    import('../stores/embedded/acknowledged.ts'),
    import('../stores/embedded/checkpoints.ts'),
    import('../stores/embedded/pepper.ts'),
    import('../stores/embedded/keys.ts'),
    import('../stores/embedded/ledger.ts'),
    import('../stores/embedded/failed-attempts.ts'),
    import('../stores/embedded/deprecated-calls.ts'),
    import('../stores/embedded/history.ts'),
    import('../stores/embedded/audit.ts'),
    import('../stores/embedded/fleet.ts'),
  ]);
  const owner = await ownStore(dataFolder);
  try {
    const db = openDatabase(dataFolder);
    const older = insistOnAcknowledged(db, acceptsRollback);
    if (older !== null) events.onWarning?.(older);
    const peppers = peppersOf(dataFolder, db, given);
    const pepperWatch = new PepperWatch({
      record: new EmbeddedPepperRecord(db),
      peppers,
      onMismatch: events.onPepperMismatch,
      onWarning: (sentence) => events.onWarning?.(sentence),
    });
    await pepperWatch.begin();
    const changes = new EmbeddedChanges({ db });
    const outages = watchOutages(events);
    const ledger = new EmbeddedLedger({
      db,
      wallMs: CLOCKS.wallMs,
      onAccountChange: (change) => changes.announce(change),
      decidesWhileAway: redis.onFailure === 'local',
      onChange: outages.changed,
      onFailedWrite: (error) => events.onFailedWrite?.(error),
      onLoss: events.onFailure,
      insistOnOwner: owner.insist,
    });
    const keys = new EmbeddedKeys({ db, changes, onFailedWrite: (error) => ledger.failed(error) });
    // A command may delete a key while the gateway runs. The gateway must then forget its counters, or the next snapshot
    // would write them to the disk again.
    changes.subscribe(({ kind, keyId }) => {
      if (kind === 'key' && keyId !== null) void forgetIfDeleted(keyId, keys, ledger).catch(events.onFailure);
    });
    const checkpoints = new Checkpoints(db);
    // The store's clock is this machine's.
    const clock = storeClock(async () => [CLOCKS.wallMs()], events);
    neverWait(db);
    return {
      keys,
      ledger,
      attempts: new attempts.MemoryAttemptCounter(),
      deprecatedCalls: new EmbeddedDeprecatedCalls({ db }),
      history: new EmbeddedHistory({ db, wallMs: CLOCKS.wallMs, live: ledger.histories }),
      audit: new EmbeddedAudit({ db, wallMs: () => Date.now(), onFailedWrite: (error) => ledger.failed(error) }),
      fleet: new EmbeddedFleet({ wallMs: CLOCKS.wallMs }),
      certificates: usesAcme(settings)
        ? new (await import('../stores/embedded/certificates.ts')).EmbeddedCertificateStore(dataFolder)
        : null,
      changes,
      clock,
      peppers,
      pepperState: () => pepperWatch.state,
      state: () => (outages.present() === null ? 'embedded' : 'away'),
      // The embedded ledger itself writes what it decided during an outage.
      reconciler: null,
      outage: outages.present,
      replicaTrouble: () => [],
      applyChanges: () => ledger.applyChanges(),
      close: async () => {
        pepperWatch.close();
        changes.close();
        ledger.close();
        checkpoints.close();
        clock.close();
        db.close();
        owner.release();
      },
    };
  } catch (error) {
    owner.release();
    throw damageIn(error, dataFolder);
  }
}

function storeClock(read: () => Promise<readonly number[]>, { onClockJump, onWarning }: StoreEvents): StoreClock {
  return new StoreClock({
    read,
    ...CLOCKS,
    onJump: () => onClockJump?.(),
    onWarning: (sentence) => onWarning?.(sentence),
  });
}

function usesAcme({ listen }: Settings): boolean {
  return listen.tls !== null && listen.tls.acme !== null;
}

async function forgetIfDeleted(id: string, keys: KeyStore, ledger: Ledger): Promise<void> {
  const key = await keys.get(id, { evenDeleted: true });
  if (key?.deletedAtMs === undefined) return;
  for (const consumerId of [id, shadowIdOf(id)]) await ledger.forget(consumerId);
}

export interface PepperWatchOptions {
  readonly record: PepperStore;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Called with the reason when the peppers are found to be wrong, and with null when they are right again. */
  readonly onMismatch: (failure: Failure | null) => void;
  readonly onWarning: (sentence: string) => void;
}

const CHECK_AGAIN_MS = 1_000;
const CHECK_EVERY_MS = 10_000;

/**
 * Compares the peppers of a gateway with the record in its store: at the start, or once the gateway reaches the store, and
 * then every 10 s, because operators may change the pepper, or restore or replace the store.
 */
class PepperWatch {
  readonly #options: PepperWatchOptions;
  #state: PepperState = 'unchecked';
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: PepperWatchOptions) {
    this.#options = options;
  }

  get state(): PepperState {
    return this.#state;
  }

  /**
   * Checks the peppers for the first time, and then continues in the background. It retries if the store does not answer.
   * @throws Failure `pepper_mismatch`, `store_corrupt`
   */
  async begin(): Promise<void> {
    const failure = await this.#check();
    if (failure !== null) throw failure;
    this.#scheduleCheck();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #scheduleCheck(): void {
    if (this.#closed) return;
    const afterMs = this.#state === 'right' ? CHECK_EVERY_MS : CHECK_AGAIN_MS;
    this.#timer = setTimeout(() => void this.#checkAgain(), afterMs);
    this.#timer.unref();
  }

  async #checkAgain(): Promise<void> {
    const before = this.#state;
    const failure = await this.#check();
    if (this.#closed) return;
    if (failure !== null && before !== 'mismatch') this.#options.onMismatch(failure);
    if (failure === null && before === 'mismatch' && this.#state === 'right') this.#options.onMismatch(null);
    this.#scheduleCheck();
  }

  /** @returns the mismatch; null if the peppers are right or the store did not answer */
  async #check(): Promise<Failure | null> {
    const { record, peppers, onWarning } = this.#options;
    try {
      // A start writes its peppers as the ones in use. Later checks do not: gateways with `old,new` and with `new,old` run
      // side by side during a change, and would keep overwriting each other's record.
      const writes = this.#state === 'unchecked' ? 'always' : 'if-missing';
      const { unverified } = await checkPeppers(record, peppers, { writes, random: randomBytes });
      this.#state = 'right';
      if (unverified) onWarning(UNVERIFIED);
      return null;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.code === 'store_unavailable') return null;
      this.#state = 'mismatch';
      return error;
    }
  }
}
