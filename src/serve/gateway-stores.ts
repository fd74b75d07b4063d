import type { RecallFeed } from '../admit/leases.ts';
import type { Ledger, UsageReconciler } from '../admit/ledger.ts';
import type { CertificateStore } from '../certificates/certificate-store.ts';
import type { Settings } from '../config/settings.ts';
import type { Failure } from '../failure.ts';
import type { AttemptCounter } from '../identify/failed-attempts.ts';
import { MemoryAttemptCounter } from '../identify/memory-attempts.ts';
import type { PepperHistory, PepperState, PepperStore } from '../identify/pepper-record.ts';
import type { ChangeFeed } from '../identify/record-store.ts';
import { CLOCKS } from '../io/clocks.ts';
import type { FleetStore } from '../operations/fleet/fleet-store.ts';
import type { Stores } from '../operations/stores.ts';
import { openForGateway as openEmbeddedStore } from '../stores/embedded/open.ts';
import type { LostChanges } from '../stores/redis/durable-writes.ts';
import { PepperWatch } from './pepper-watch.ts';
import { StoreClock } from './store-clock.ts';

/** The interfaces through which a running gateway uses its store, Redis or embedded. */
export interface GatewayStores extends Stores {
  readonly ledger: Ledger;
  /** The same for operators, who wait longer for a store that is busy. */
  readonly forOperators: Stores;
  /** Adds the backlog of an outage to Redis; null for the embedded store, whose ledger does so itself. */
  readonly reconciler: UsageReconciler | null;
  readonly attempts: AttemptCounter;
  readonly changes: ChangeFeed;
  /** Calls back what gateways have borrowed; null for the embedded store, which has one gateway and lends nothing. */
  readonly recalls: RecallFeed | null;
  /** The clock by which the store counts. */
  readonly clock: StoreClock;
  /** Where the gateways on this store leave messages for each other. */
  readonly fleet: FleetStore;
  /** The records of `listen.tls.acme`; null if that is not set. */
  readonly certificates: CertificateStore | null;
  /** Where commands ask the gateway that owns an embedded store; null for Redis, which has no owner. */
  readonly commandSocket: { make(): CommandSocket } | null;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  /** Whether the peppers are those of the store. Under a wrong pepper a key that is not found is not refused as unknown. */
  pepperState(): PepperState;
  /** Whether the store has ever had another pepper. */
  hadOtherPepper(): boolean;
  /** The peppers that the store has had. @throws Failure */
  pepperHistory(): Promise<PepperHistory>;
  state(): StoreState;
  /** Why the store is away and for how long; null while it is not away. */
  outage(): Outage | null;
  /** A sentence for each replica that is away or behind, with what to do. Meanwhile no change to a key is acknowledged. */
  replicaTrouble(): readonly string[];
  close(): Promise<void>;
}

interface CommandSocket {
  /** By which the system finds it until `close`. */
  readonly path: string;
  /** Lets this user alone connect, once something listens there. */
  closeToOthers(): void;
  close(): void;
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
 * @param monotonicMs carries the clock of the store on from one look at it to the next
 * @throws Failure `store_owned`, `store_corrupt`, `store_rolled_back`, `pepper_mismatch`, `bad_settings` (also for a Redis whose version or
 *   settings make counts unreliable)
 */
export async function openGatewayStores(
  settings: Settings,
  events: StoreEvents,
  {
    acceptsRollback = false,
    monotonicMs = CLOCKS.monotonicMs,
  }: { readonly acceptsRollback?: boolean; readonly monotonicMs?: () => number } = {},
): Promise<GatewayStores> {
  const onWarning = (sentence: string) => events.onWarning?.(sentence);
  const outages = watchOutages(events);
  const pepperWatch = new PepperWatch({ onMismatch: events.onPepperMismatch, onWarning });
  const surroundings: Surroundings = {
    wallMs: CLOCKS.wallMs,
    checkPeppers: (record, peppers) => pepperWatch.begin(record, peppers),
    onChange: outages.changed,
    onFailure: events.onFailure,
    onWarning,
  };
  const { url } = settings.redis;
  const opening =
    url === null
      ? openEmbedded(settings, surroundings, events, acceptsRollback)
      : openRedis(settings, url, surroundings, events);
  const { serverTimes, trouble, ...store } = await opening.catch((error) => {
    pepperWatch.close();
    throw error;
  });
  const clock = new StoreClock({
    read: serverTimes,
    wallMs: CLOCKS.wallMs,
    monotonicMs,
    onJump: () => events.onClockJump?.(),
    onWarning,
  });
  return {
    ...store,
    clock,
    pepperState: () => pepperWatch.state,
    hadOtherPepper: () => pepperWatch.hadOther,
    pepperHistory: () => pepperWatch.history(),
    outage: () => {
      const outage = outages.present();
      // The cause may have become known since it began.
      return outage === null ? null : { ...outage, reason: trouble() ?? outage.reason };
    },
    close: async () => {
      pepperWatch.close();
      clock.close();
      await store.close();
    },
  };
}

/** What the opening of both technologies is given. */
interface Surroundings {
  readonly wallMs: () => number;
  readonly checkPeppers: (record: PepperStore, peppers: readonly string[]) => Promise<void>;
  readonly onChange: (state: 'present' | 'away', reason?: string) => void;
  readonly onFailure: (error: unknown) => void;
  readonly onWarning: (sentence: string) => void;
}

/** A store whose clock, peppers and outages are not watched yet. */
interface UnwatchedStore
  extends Omit<GatewayStores, 'clock' | 'pepperState' | 'hadOtherPepper' | 'pepperHistory' | 'outage'> {
  /** Asks the store, or each primary of a cluster, for its time: Unix milliseconds. */
  readonly serverTimes: () => Promise<readonly number[]>;
  /** Why there is no connection to it as far as is known by now, a sentence; null if that is not known. */
  readonly trouble: () => string | null;
}

async function openRedis(
  settings: Settings,
  url: string,
  surroundings: Surroundings,
  events: StoreEvents,
): Promise<UnwatchedStore> {
  // Here, because a gateway on the embedded store does not spend memory on the client of Redis.
  const { openForGateway } = await import('../stores/redis/open.ts');
  const { peppers, usageHistory, redis } = settings;
  const { onLostChanges, onReplicas } = events;
  const store = await openForGateway({
    ...surroundings,
    ...{ url, peppers, usageHistory, durability: redis.durability, timeoutMs: redis.timeoutMs },
    ...{ usesAcme: usesAcme(settings), onLostChanges, ...(onReplicas === undefined ? {} : { onReplicas }) },
  });
  return { ...store, commandSocket: null };
}

async function openEmbedded(
  settings: Settings,
  surroundings: Surroundings,
  events: StoreEvents,
  acceptsRollback: boolean,
): Promise<UnwatchedStore> {
  const { dataFolder, peppers, redis } = settings;
  const store = await openEmbeddedStore({
    ...surroundings,
    ...{ dataFolder, peppers, acceptsRollback, usesAcme: usesAcme(settings) },
    decidesWhileAway: redis.onFailure === 'local',
    onFailedWrite: (error) => events.onFailedWrite?.(error),
  });
  // The ledger itself writes what it decided during an outage, and one gateway alone counts failed attempts.
  return {
    ...store,
    forOperators: store,
    reconciler: null,
    recalls: null,
    attempts: new MemoryAttemptCounter(),
    replicaTrouble: () => [],
    trouble: () => null,
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

function usesAcme({ listen }: Settings): boolean {
  return listen.tls !== null && listen.tls.acme !== null;
}
