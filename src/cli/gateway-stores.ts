import type { Ledger } from '../admit/ledger.ts';
import type { Settings } from '../config/settings.ts';
import type { AttemptCounter } from '../identify/failed-attempts.ts';
import type { ChangeFeed, KeyStore } from '../identify/key-store.ts';

/** Everything a running gateway keeps outside itself, whichever store it is in. */
export interface GatewayStores {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  readonly attempts: AttemptCounter;
  readonly changes: ChangeFeed;
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  state(): StoreState;
  /** Obeys the lifts that commands have left; nothing to do where the ledger is shared. */
  applyLifts(): void;
  close(): Promise<void>;
}

export type StoreState = 'embedded' | 'present' | 'away' | 'never_reached';

export interface StoreEvents {
  readonly onStoreChange: (state: StoreState) => void;
  readonly onFailure: (error: unknown) => void;
}

/**
 * Opens the store that the settings name: Redis where there is a REDIS_URL, else the embedded one, which only one
 * gateway at a time may own. Redis need not be there yet (contract section 6).
 * @throws Failure `store_owned`, `store_corrupt`, `bad_settings`
 */
export async function openGatewayStores(settings: Settings, events: StoreEvents): Promise<GatewayStores> {
  return settings.redis.url === null ? openEmbedded(settings, events) : openRedis(settings, settings.redis.url, events);
}

/** Calls that fail in a row before none is waited for, and how often it is then tried again. */
const FAILURES = 3;
const PROBE_EVERY_MS = 200;
/** How long the start waits for Redis before it goes on without. */
const REACHED_WITHIN_MS = 1_000;

async function openRedis(settings: Settings, url: string, events: StoreEvents): Promise<GatewayStores> {
  const [
    { Circuit },
    { connectRedis, untilReady },
    { RedisKeys },
    { RedisLedger },
    { RedisChanges },
    { RedisAttemptCounter },
  ] = await Promise.all([
    import('../stores/redis/circuit.ts'),
    import('../stores/redis/connection.ts'),
    import('../stores/redis/keys.ts'),
    import('../stores/redis/ledger.ts'),
    import('../stores/redis/changes.ts'),
    import('../stores/redis/failed-attempts.ts'),
  ]);
  const redis = connectRedis({ url, connectTimeoutMs: 1_000, onError: quietly(events.onFailure) });
  const circuit = new Circuit({
    timeoutMs: settings.redis.timeoutMs,
    failures: FAILURES,
    probeEveryMs: PROBE_EVERY_MS,
    probe: () => redis.ping(),
    onChange: events.onStoreChange,
  });
  // Most often it is there at once. If not, the gateway starts without it.
  await untilReady(redis, REACHED_WITHIN_MS)
    .then(() => circuit.run(() => redis.ping()))
    .catch(events.onFailure);
  const changes = new RedisChanges({ redis, circuit });
  const publish = changes.publish.bind(changes);
  return {
    keys: new RedisKeys({ redis, circuit, publish }),
    ledger: new RedisLedger({ redis, circuit, publish }),
    attempts: new RedisAttemptCounter({ redis, circuit }),
    changes,
    peppers: settings.peppers,
    state: () =>
      circuit.state === 'present' && circuit.reached ? 'present' : circuit.reached ? 'away' : 'never_reached',
    applyLifts: () => {},
    close: async () => {
      changes.close();
      circuit.close();
      redis.disconnect();
    },
  };
}

/** The same complaint once, not four times a second for as long as Redis is away. */
function quietly(tell: (error: unknown) => void): (error: Error) => void {
  let last = '';
  return (error) => {
    if (error.message === last) return;
    last = error.message;
    tell(error);
  };
}

async function openEmbedded({ dataFolder, peppers }: Settings, events: StoreEvents): Promise<GatewayStores> {
  const [
    { ownStore },
    { openDatabase },
    { peppersOf },
    { EmbeddedKeys },
    { EmbeddedLedger },
    { EmbeddedChanges },
    attempts,
  ] = await Promise.all([
    import('../stores/embedded/owner.ts'),
    import('../stores/embedded/database.ts'),
    import('../stores/embedded/pepper.ts'),
    import('../stores/embedded/keys.ts'),
    import('../stores/embedded/ledger.ts'),
    import('../stores/embedded/changes.ts'),
    import('../stores/embedded/failed-attempts.ts'),
  ]);
  const owner = ownStore(dataFolder);
  try {
    const db = openDatabase(dataFolder);
    const changes = new EmbeddedChanges({ db });
    const ledger = new EmbeddedLedger({
      db,
      wallMs: () => Date.now(),
      onLift: (change) => changes.tell(change),
      onFailure: events.onFailure,
    });
    return {
      keys: new EmbeddedKeys({ db, changes }),
      ledger,
      attempts: new attempts.MemoryAttemptCounter(),
      changes,
      peppers: peppersOf(dataFolder, db, peppers),
      state: () => 'embedded',
      applyLifts: () => ledger.applyLifts(),
      close: async () => {
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
