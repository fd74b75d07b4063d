import { randomBytes } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { Plans } from '../admit/plan.ts';
import { loadConfiguration, type Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { AuditStore } from '../identify/audit-store.ts';
import type { Change, KeyStore } from '../identify/key-store.ts';
import { checkPeppers, type PepperHistory, type PepperStore, UNVERIFIED } from '../identify/pepper-record.ts';
import { EmbeddedAudit } from '../stores/embedded/audit.ts';
import { EmbeddedChanges } from '../stores/embedded/changes.ts';
import { openDatabase } from '../stores/embedded/database.ts';
import { EmbeddedKeys } from '../stores/embedded/keys.ts';
import { EmbeddedPepperRecord, peppersOf } from '../stores/embedded/pepper.ts';
import { RedisAudit } from '../stores/redis/audit.ts';
import { RedisChanges } from '../stores/redis/changes.ts';
import { connectRedis, type RedisClient, untilReady } from '../stores/redis/connection.ts';
import { DurableWrites } from '../stores/redis/durable-writes.ts';
import { insistOnServers } from '../stores/redis/inspection.ts';
import { RedisKeys } from '../stores/redis/keys.ts';
import { RedisPepperRecord } from '../stores/redis/pepper-record.ts';
import { type Calls, circuitFor } from '../stores/redis/shards.ts';
import { configurationFrom } from './configuration.ts';
import { exposedFiles } from './exposed-files.ts';

/** The gateway's store, opened for one command. */
export interface OpenStore {
  readonly settings: Settings;
  readonly plans: Plans;
  /** What an operator should know about the store and the files that open it. */
  readonly warnings: readonly string[];
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly pepperHistory: PepperHistory;
  readonly keys: KeyStore;
  /** The record of changes. */
  readonly audit: AuditStore;
  /** Tells every gateway of a change to something other than a key (a key's change is told by `keys`). */
  readonly publish: (change: Change) => Promise<void>;
  /** What the store is made of, for the parts that a command adds to it. */
  readonly technology:
    | { readonly kind: 'redis'; readonly redis: RedisClient; readonly circuit: Calls; readonly writes: DurableWrites }
    | { readonly kind: 'embedded'; readonly db: DatabaseSync };
  close(): Promise<void>;
}

export interface OpenOptions {
  /** False for what can be done whatever plans.yaml says, or does not: a leaked key is revoked while it is being mended. */
  readonly needsPlans?: boolean;
  /**
   * True for what makes secrets: the peppers that it is given become those of the store, as at the start of a gateway. Other
   * commands only check them.
   */
  readonly makesSecrets?: boolean;
}

/** A person waits: longer than a request would, and no longer than a person does; first for the link, then for each call. */
const CONNECT_WITHIN_MS = 1_500;
const PATIENCE_MS = 2_500;
/**
 * For a change to be durable, where the settings allow less: long enough for the Sentinels to end a failover. A command
 * has no later when it could make a change again that was undone.
 */
const DURABLE_WITHIN_MS = 15_000;

/**
 * Opens the store that the settings name, the same one that a gateway with these settings uses, whether or not one runs
 * (contract section 1).
 * @throws Failure `bad_settings` with every fault on a line of its own; `store_unavailable` within 3 s when Redis does not answer;
 *   `store_corrupt`; `pepper_mismatch`
 */
export async function openStore(env: NodeJS.ProcessEnv, options: OpenOptions = {}): Promise<OpenStore> {
  const { settings, plans, missing } = configurationFor(env, options);
  const writes = options.makesSecrets === true ? 'always' : 'never';
  const { url } = settings.redis;
  const store = url === null ? await openEmbedded(settings, writes) : await openRedis(settings, url, writes);
  return { settings, plans, ...store, warnings: [...missing, ...store.warnings, ...exposedFiles(env, settings)] };
}

function configurationFor(env: NodeJS.ProcessEnv, { needsPlans = true }: OpenOptions) {
  if (needsPlans) return { ...configurationFrom(env), missing: [] };
  const read = loadConfiguration(env);
  if (!('faults' in read)) return { ...read, missing: [] };
  if (read.settings === undefined) throw new Failure('bad_settings', read.faults.join('\n'));
  return { settings: read.settings, plans: NO_PLANS, missing: [WITHOUT_PLANS] };
}

const WITHOUT_PLANS = 'plans.yaml cannot be used (`tollgate plans check` says why); this goes on without it.';
const NO_PLANS: Plans = { plans: new Map(), removed: [], failedAuthenticationPerMinute: 0 };

/**
 * Opens the store for one piece of work and closes it whatever comes of that.
 * @param options `warn` is told of what an operator should know about the store; standard error unless told
 */
export async function withStore<T>(
  env: NodeJS.ProcessEnv,
  work: (store: OpenStore) => Promise<T>,
  { warn = (line) => process.stderr.write(line), ...options }: OpenOptions & { warn?: (line: string) => void } = {},
): Promise<T> {
  const store = await openStore(env, options);
  for (const warning of store.warnings) warn(`warning: ${warning}\n`);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

type Opened = Omit<OpenStore, 'settings' | 'plans'>;
type Writes = 'always' | 'never';

async function checked(record: PepperStore, peppers: readonly string[], writes: Writes) {
  const { history, unverified } = await checkPeppers(record, peppers, { writes, random: randomBytes });
  return { peppers, pepperHistory: history, pepperWarnings: unverified ? [UNVERIFIED] : [] };
}

async function openEmbedded({ dataFolder, peppers: given }: Settings, writes: Writes): Promise<Opened> {
  const db = openDatabase(dataFolder);
  try {
    const peppers = peppersOf(dataFolder, db, given);
    const { pepperWarnings, ...pepper } = await checked(new EmbeddedPepperRecord(db), peppers, writes);
    const changes = new EmbeddedChanges({ db });
    return {
      warnings: pepperWarnings,
      ...pepper,
      keys: new EmbeddedKeys({ db, changes }),
      audit: new EmbeddedAudit({ db, wallMs: () => Date.now() }),
      publish: (change) => changes.publish(change),
      technology: { kind: 'embedded', db },
      close: async () => db.close(),
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

async function openRedis({ peppers, redis: { durability } }: Settings, url: string, access: Writes): Promise<Opened> {
  const redis = connectRedis({ url, connectTimeoutMs: CONNECT_WITHIN_MS });
  // Each call is made: a command has no later one that could find the store back.
  const circuit = circuitFor(redis, {
    timeoutMs: PATIENCE_MS,
    failures: Number.POSITIVE_INFINITY,
    probeEveryMs: PATIENCE_MS,
  });
  const { warnings, pepperWarnings, ...pepper } = await untilReady(redis, CONNECT_WITHIN_MS)
    .then(async () => ({
      warnings: await circuit.run(() => insistOnServers(redis)),
      ...(await checked(new RedisPepperRecord({ redis, circuit }), peppers, access)),
    }))
    .catch((error) => {
      redis.disconnect();
      throw error;
    });
  const changes = new RedisChanges({ redis, circuit });
  const publish = (change: Change) => changes.publish(change);
  const { replicas } = durability;
  const timeoutMs = Math.max(durability.timeoutMs, DURABLE_WITHIN_MS);
  const writes = new DurableWrites({ redis, replicas, timeoutMs });
  return {
    warnings: [...warnings, ...pepperWarnings],
    ...pepper,
    keys: new RedisKeys({ redis, circuit, publish, writes }),
    audit: new RedisAudit({ redis, circuit, writes }),
    publish,
    technology: { kind: 'redis', redis, circuit, writes },
    close: async () => {
      writes.close();
      circuit.close();
      redis.disconnect();
    },
  };
}
