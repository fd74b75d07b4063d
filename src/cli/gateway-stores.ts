import type { Ledger, Returns } from '../admit/ledger.ts';
import { shadowIdOf } from '../admit/plan.ts';
import type { DeprecatedCalls } from '../annotate/deprecated-calls.ts';
import type { Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { AuditStore } from '../identify/audit-store.ts';
import type { AttemptCounter } from '../identify/failed-attempts.ts';
import type { ChangeFeed, KeyStore } from '../identify/key-store.ts';
import { type PepperState, PepperWatch } from './pepper-watch.ts';

/** Everything a running gateway keeps outside itself, whichever store it is in. */
export interface GatewayStores {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  /** Where a gateway brings what it admitted alone; null where the ledger keeps that itself. */
  readonly returns: Returns | null;
  readonly attempts: AttemptCounter;
  readonly changes: ChangeFeed;
  readonly deprecatedCalls: DeprecatedCalls;
  readonly audit: AuditStore;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Whether they are those of the store. While they are not, nothing that the store does not know is refused as unknown. */
  pepperState(): PepperState;
  state(): StoreState;
  /** Why the store is away and since when; null while it is not. */
  outage(): Outage | null;
  /** Obeys the lifts that commands have left; nothing to do where the ledger is shared. */
  applyLifts(): void;
  close(): Promise<void>;
}

export type StoreState = 'embedded' | 'present' | 'away' | 'never_reached';

export interface Outage {
  /** A sentence for operators. */
  readonly reason: string;
  /** Milliseconds so far. */
  readonly lastsMs: number;
}

export interface StoreEvents {
  /** Called once per change. `outage`: the one that begins, or the one that is over. */
  readonly onStoreChange: (state: 'present' | 'away', outage: Outage) => void;
  readonly onFailure: (error: unknown) => void;
  /** Called once per write of the embedded store that failed and was asked for by no request. */
  readonly onFailedWrite?: (error: unknown) => void;
  /** The peppers turn out not to be those of the store; null: they are again. At the opening it is thrown instead. */
  readonly onPepperMismatch: (failure: Failure | null) => void;
  /** Called once with each sentence about the store that an operator should know. */
  readonly onWarning?: (sentence: string) => void;
}

/**
 * Opens the store that the settings name: Redis where there is a REDIS_URL, else the embedded one, which only one
 * gateway at a time may own. Redis need not be there yet (contract section 6).
 * @throws Failure `store_owned`, `store_corrupt`, `pepper_mismatch`, `bad_settings` (also for a Redis that cannot be counted on)
 */
export async function openGatewayStores(settings: Settings, events: StoreEvents): Promise<GatewayStores> {
  return settings.redis.url === null ? openEmbedded(settings, events) : openRedis(settings, settings.redis.url, events);
}

/** Calls that fail in a row before none is waited for, and how often it is then tried again. */
const FAILURES = 3;
const PROBE_EVERY_MS = 200;
/** How long the start waits for Redis before it goes on without. */
const REACHED_WITHIN_MS = 1_000;
/** Different complaints between two links that are told. */
const MOST_COMPLAINTS = 20;

async function openRedis(settings: Settings, url: string, events: StoreEvents): Promise<GatewayStores> {
  const [
    { circuitFor },
    { connectRedis, untilReady },
    { RedisKeys },
    { RedisLedger },
    { RedisChanges },
    { RedisAttemptCounter },
    { RedisReturns, trialOn },
    { insistOnServers, watchServers },
    { RedisDeprecatedCalls },
    { DurableWrites },
    { RedisPepperRecord },
    { RedisAudit },
  ] = await Promise.all([
    import('../stores/redis/shards.ts'),
    import('../stores/redis/connection.ts'),
    import('../stores/redis/keys.ts'),
    import('../stores/redis/ledger.ts'),
    import('../stores/redis/changes.ts'),
    import('../stores/redis/failed-attempts.ts'),
    import('../stores/redis/give-back.ts'),
    import('../stores/redis/inspection.ts'),
    import('../stores/redis/deprecated-calls.ts'),
    import('../stores/redis/durable-writes.ts'),
    import('../stores/redis/pepper-record.ts'),
    import('../stores/redis/audit.ts'),
  ]);
  const complaints = quietly(events.onFailure);
  const redis = connectRedis({ url, connectTimeoutMs: 1_000, onError: complaints.tell });
  redis.on('ready', complaints.forget);
  const outages = watchOutages(events);
  const circuit = circuitFor(redis, {
    timeoutMs: settings.redis.timeoutMs,
    failures: FAILURES,
    probeEveryMs: PROBE_EVERY_MS,
    ...trialOn(redis),
    onChange: (state, change) => outages.changed(state, change?.reason),
    onShardChange: (address, state) => events.onWarning?.(`The part of the cluster at ${address} is ${state}.`),
  });
  watchServers(redis, (sentence) => events.onWarning?.(sentence));
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
  // Most often it is there at once. If not, the gateway starts without it.
  await untilReady(redis, REACHED_WITHIN_MS)
    .then(() => circuit.run(() => redis.ping()))
    .then(() => circuit.run(() => insistOnServers(redis)))
    .catch((error) =>
      error instanceof Failure && error.code === 'bad_settings' ? refuse(error) : events.onFailure(error),
    );
  await pepperWatch.begin().catch(refuse);
  const changes = new RedisChanges({ redis, circuit });
  const publish = changes.publish.bind(changes);
  const writes = new DurableWrites({ redis, ...settings.redis.durability });
  return {
    keys: new RedisKeys({ redis, circuit, publish, writes }),
    ledger: new RedisLedger({ redis, circuit, publish, writes }),
    returns: new RedisReturns({ redis, circuit }),
    attempts: new RedisAttemptCounter({ redis, circuit }),
    deprecatedCalls: new RedisDeprecatedCalls({ redis, circuit }),
    audit: new RedisAudit({ redis, circuit, writes }),
    changes,
    peppers: settings.peppers,
    pepperState: () => pepperWatch.state,
    state: () =>
      circuit.state === 'present' && circuit.reached ? 'present' : circuit.reached ? 'away' : 'never_reached',
    outage: outages.present,
    applyLifts: () => {},
    close: async () => {
      pepperWatch.close();
      changes.close();
      writes.close();
      circuit.close();
      redis.disconnect();
    },
  };
}

/** Keeps why the store is away and since when, for whoever asks, and tells of each change. */
function watchOutages({ onStoreChange }: StoreEvents) {
  let outage: { readonly reason: string; readonly sinceMs: number } | null = null;
  const present = (): Outage | null =>
    outage === null ? null : { reason: outage.reason, lastsMs: Math.round(performance.now() - outage.sinceMs) };
  const changed = (state: 'present' | 'away', reason = 'Nobody answers.') => {
    if (state === 'away') outage = { reason, sinceMs: performance.now() };
    const told = present();
    if (state === 'present') outage = null;
    if (told !== null) onStoreChange(state, told);
  };
  return { present, changed };
}

/** The same complaint once, not four times a second for as long as Redis, or a node of a cluster, is away. */
function quietly(tell: (error: unknown) => void): { tell(error: Error): void; forget(): void } {
  const told = new Set<string>();
  return {
    tell: (error) => {
      if (told.has(error.message) || told.size > MOST_COMPLAINTS) return;
      told.add(error.message);
      tell(withoutCommand(error));
    },
    forget: () => told.clear(),
  };
}

/** The client's errors carry the command that was refused, and that of a login has the password in it. */
function withoutCommand(error: Error): Error {
  const { message, stack } = error;
  return Object.assign(new Error(message), { stack }, 'code' in error ? { code: error.code } : {});
}

async function openEmbedded(
  { dataFolder, peppers: given, redis }: Settings,
  events: StoreEvents,
): Promise<GatewayStores> {
  const [
    { ownStore },
    { openDatabase },
    { EmbeddedPepperRecord, peppersOf },
    { EmbeddedKeys },
    { EmbeddedLedger },
    { EmbeddedChanges },
    attempts,
    { EmbeddedDeprecatedCalls },
    { EmbeddedAudit },
  ] = await Promise.all([
    import('../stores/embedded/owner.ts'),
    import('../stores/embedded/database.ts'),
    import('../stores/embedded/pepper.ts'),
    import('../stores/embedded/keys.ts'),
    import('../stores/embedded/ledger.ts'),
    import('../stores/embedded/changes.ts'),
    import('../stores/embedded/failed-attempts.ts'),
    import('../stores/embedded/deprecated-calls.ts'),
    import('../stores/embedded/audit.ts'),
  ]);
  const owner = ownStore(dataFolder);
  try {
    const db = openDatabase(dataFolder);
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
      wallMs: () => Date.now(),
      onLift: (change) => changes.tell(change),
      decidesWhileAway: redis.onFailure === 'local',
      onChange: outages.changed,
      onFailedWrite: (error) => events.onFailedWrite?.(error),
      onLoss: events.onFailure,
    });
    const keys = new EmbeddedKeys({ db, changes, onFailedWrite: (error) => ledger.failed(error) });
    // The next snapshot would bring back what a command that deleted a key has removed.
    changes.subscribe(({ kind, keyId }) => {
      if (kind === 'key' && keyId !== null) void forgetIfDeleted(keyId, keys, ledger).catch(events.onFailure);
    });
    return {
      keys,
      ledger,
      attempts: new attempts.MemoryAttemptCounter(),
      deprecatedCalls: new EmbeddedDeprecatedCalls({ db }),
      audit: new EmbeddedAudit({ db, wallMs: () => Date.now(), onFailedWrite: (error) => ledger.failed(error) }),
      changes,
      peppers,
      pepperState: () => pepperWatch.state,
      state: () => (outages.present() === null ? 'embedded' : 'away'),
      // What it decides while it is away it writes down itself.
      returns: null,
      outage: outages.present,
      applyLifts: () => ledger.applyLifts(),
      close: async () => {
        pepperWatch.close();
        changes.close();
        ledger.close();
        db.close();
        owner.release();
      },
    };
  } catch (error) {
    owner.release();
    throw error;
  }
}

async function forgetIfDeleted(id: string, keys: KeyStore, ledger: Ledger): Promise<void> {
  const key = await keys.get(id, { evenDeleted: true });
  if (key?.deletedAtMs === undefined) return;
  for (const consumerId of [id, shadowIdOf(id)]) await ledger.forget(consumerId);
}
