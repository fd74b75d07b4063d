import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { HistoryStore } from '../admit/history-store.ts';
import type { LedgerView } from '../admit/ledger.ts';
import type { Plans } from '../admit/plan.ts';
import { configurationFrom, loadConfiguration, type Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { KeyStore, StoreChange } from '../identify/key-store.ts';
import { checkPeppers, type PepperHistory, type PepperStore, UNVERIFIED } from '../identify/pepper-record.ts';
import type { AuditStore } from '../operations/audit-store.ts';
import type { DeprecatedCalls } from '../operations/deprecated-calls.ts';
import { insistOnAcknowledged } from '../stores/embedded/acknowledged.ts';
import { EmbeddedAudit } from '../stores/embedded/audit.ts';
import { damageIn, hasDatabase, openDatabase } from '../stores/embedded/database.ts';
import { EmbeddedDeprecatedCalls } from '../stores/embedded/deprecated-calls.ts';
import { EmbeddedHistory } from '../stores/embedded/history.ts';
import { EmbeddedChanges, EmbeddedKeys } from '../stores/embedded/keys.ts';
import { EmbeddedLedgerView } from '../stores/embedded/ledger.ts';
import { EmbeddedPepperRecord, peppersOf, peppersToRead, presentPeppers } from '../stores/embedded/pepper.ts';
import { RedisAudit } from '../stores/redis/audit.ts';
import { RedisChanges } from '../stores/redis/changes.ts';
import {
  connectRedis,
  describeAddress,
  type RedisClient,
  readRedisUrl,
  untilReady,
} from '../stores/redis/connection.ts';
import { RedisDeprecatedCalls } from '../stores/redis/deprecated-calls.ts';
import { DurableWrites } from '../stores/redis/durable-writes.ts';
import { RedisHistory } from '../stores/redis/history.ts';
import { insistOnServers } from '../stores/redis/inspection.ts';
import { RedisKeys } from '../stores/redis/keys.ts';
import { RedisLedger } from '../stores/redis/ledger.ts';
import { RedisPepperRecord } from '../stores/redis/pepper-record.ts';
import { type Calls, circuitFor } from '../stores/redis/shards.ts';
import { exposedFiles } from './exposed-files.ts';

/** The gateway's store, open for one command. */
export interface OpenStore {
  readonly settings: Settings;
  readonly plans: Plans;
  /** Sentences for the operator about the store, plans.yaml and exposed files. */
  readonly warnings: readonly string[];
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly pepperHistory: PepperHistory;
  readonly keys: KeyStore;
  /** The record of changes. */
  readonly audit: AuditStore;
  /** Announces a change to every gateway. `keys` announces changes of keys itself. */
  readonly publish: (change: StoreChange) => Promise<void>;
  /** The open connection or database, from which `ledgerOf` and `deprecatedCallsOf` make further parts of the store. */
  readonly technology:
    | { readonly kind: 'redis'; readonly redis: RedisClient; readonly circuit: Calls; readonly writes: DurableWrites }
    | { readonly kind: 'embedded'; readonly db: DatabaseSync };
  close(): Promise<void>;
}

export interface OpenOptions {
  /** False for commands that work without a valid plans.yaml, so that an operator can always revoke a leaked key. */
  readonly needsPlans?: boolean;
  /**
   * True for commands that make secrets: they write their peppers to the store as the ones in use, as the start of a gateway
   * does. Other commands only check them.
   */
  readonly makesSecrets?: boolean;
  /**
   * What is done where the settings name an embedded store that does not exist: it is made, or an empty one stands for it that leaves
   * no trace, for a dry run. Left out, as for every command that reads: the command is refused, and makes nothing.
   */
  readonly missingStore?: 'make' | 'empty';
}

/** Deadlines for the connection and for each call. They are longer than those of a request, because a person waits. */
const CONNECT_WITHIN_MS = 1_500;
const CALL_WITHIN_MS = 2_500;
/**
 * How long a command waits at least until a change is durable: enough for the Sentinels to complete a failover. A gateway
 * makes a change again that a failover has undone; a command ends, and cannot.
 */
const DURABLE_WITHIN_MS = 15_000;

/**
 * Opens the store that a gateway with the same settings uses. The gateway may be running (contract section 1).
 * @throws Failure `bad_settings` with every fault on a line of its own; `not_found` if there is no store; `store_unavailable` within 3 s if Redis does not
 *   answer; `store_corrupt`; `pepper_mismatch`
 */
export async function openStore(env: NodeJS.ProcessEnv, options: OpenOptions = {}): Promise<OpenStore> {
  const { settings, plans, missing } = await configurationFor(env, options);
  const writes = options.makesSecrets === true ? 'always' : 'never';
  const { url } = settings.redis;
  const store =
    url === null ? await openEmbedded(settings, writes, options.missingStore) : await openRedis(settings, url, writes);
  return { settings, plans, ...store, warnings: [...missing, ...store.warnings, ...exposedFiles(env, settings)] };
}

/**
 * The peppers with which the embedded store would be opened, and the file of its own pepper; null if the store is Redis. It
 * makes no store. @throws Failure `bad_settings`, `store_corrupt`
 */
export async function embeddedPeppers(env: NodeJS.ProcessEnv) {
  const { redis, dataFolder, peppers } = (await configurationFrom(env)).settings;
  return redis.url === null ? presentPeppers(dataFolder, peppers) : null;
}

async function configurationFor(env: NodeJS.ProcessEnv, { needsPlans = true }: OpenOptions) {
  if (needsPlans) return { ...(await configurationFrom(env)), missing: [] };
  const read = await loadConfiguration(env);
  if (!('faults' in read)) return { ...read, missing: [] };
  if (read.settings === undefined) throw new Failure('bad_settings', read.faults.join('\n'));
  return { settings: read.settings, plans: NO_PLANS, missing: [WITHOUT_PLANS] };
}

const WITHOUT_PLANS = 'plans.yaml cannot be used (`tollgate plans check` says why); this goes on without it.';
const NO_PLANS: Plans = { plans: new Map(), removed: [], failedAuthenticationPerMinute: 0 };

/**
 * Opens the store, runs `work` with it, and closes it in any case.
 * @param options `warn` prints the warnings of the store, to standard error by default
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

async function checkedPeppers(record: PepperStore, peppers: readonly string[], writes: Writes) {
  const { history, unverified } = await checkPeppers(record, peppers, { writes, random: randomBytes });
  return { peppers, pepperHistory: history, pepperWarnings: unverified ? [UNVERIFIED] : [] };
}

async function openEmbedded(
  { dataFolder, peppers: given }: Settings,
  writes: Writes,
  ifMissing: OpenOptions['missingStore'],
): Promise<Opened> {
  const isMissing = !hasDatabase(dataFolder);
  if (isMissing && ifMissing === undefined) throw new Failure('not_found', withoutStore(dataFolder));
  const standIn = isMissing && ifMissing === 'empty' ? mkdtempSync(join(tmpdir(), 'tollgate-')) : null;
  const db = openDatabase(standIn ?? dataFolder);
  const close = () => {
    db.close();
    if (standIn !== null) rmSync(standIn, { recursive: true, force: true });
  };
  try {
    const older = insistOnAcknowledged(db, false);
    const peppers = (ifMissing === 'make' ? peppersOf : peppersToRead)(dataFolder, db, given);
    const { pepperWarnings, ...pepper } = await checkedPeppers(new EmbeddedPepperRecord(db), peppers, writes);
    const changes = new EmbeddedChanges({ db });
    return {
      warnings: [...(older === null ? [] : [older]), ...pepperWarnings],
      ...pepper,
      keys: new EmbeddedKeys({ db, changes }),
      audit: new EmbeddedAudit({ db, wallMs: () => Date.now() }),
      publish: (change) => changes.publish(change),
      technology: { kind: 'embedded', db },
      close: async () => close(),
    };
  } catch (error) {
    close();
    throw damageIn(error, dataFolder);
  }
}

function withoutStore(dataFolder: string): string {
  return (
    `There is no store in ${dataFolder} yet, and nothing was made. \`tollgate keys create\` or the start of a gateway makes one; ` +
    'if there are gateways already, set TOLLGATE_DATA or REDIS_URL as they have it.'
  );
}

async function openRedis(
  { peppers, usageHistory, redis: { durability } }: Settings,
  url: string,
  access: Writes,
): Promise<Opened> {
  const redis = connectRedis({ url, connectTimeoutMs: CONNECT_WITHIN_MS });
  // The circuit never opens, because a command has no later calls that would find the store back.
  const circuit = circuitFor(redis, {
    timeoutMs: CALL_WITHIN_MS,
    failures: Number.POSITIVE_INFINITY,
    probeEveryMs: CALL_WITHIN_MS,
  });
  const { warnings, pepperWarnings, ...pepper } = await untilReady(redis, CONNECT_WITHIN_MS)
    .then(async () => ({
      warnings: await circuit.run(() => insistOnServers(redis, usageHistory)),
      ...(await checkedPeppers(new RedisPepperRecord({ redis, circuit }), peppers, access)),
    }))
    .catch((error) => {
      redis.disconnect();
      throw error;
    });
  const changes = new RedisChanges({ redis, circuit });
  const publish = (change: StoreChange) => changes.publish(change);
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

/** The counters and bans of an open store. */
export function ledgerOf({ technology, publish }: OpenStore): LedgerView {
  return technology.kind === 'redis'
    ? new RedisLedger({ ...technology, publish })
    : new EmbeddedLedgerView({ db: technology.db, wallMs: () => Date.now() });
}

/** What consumers have used, and who is refused now. */
export function historyOf({ technology }: Pick<OpenStore, 'technology'>): HistoryStore {
  return technology.kind === 'redis'
    ? new RedisHistory(technology)
    : new EmbeddedHistory({ db: technology.db, wallMs: () => Date.now() });
}

/** The counted calls of deprecated routes in an open store. */
export function deprecatedCallsOf({ technology }: Pick<OpenStore, 'technology'>): DeprecatedCalls {
  return technology.kind === 'redis' ? new RedisDeprecatedCalls(technology) : new EmbeddedDeprecatedCalls(technology);
}

/** The name of the store for messages, without any password. */
export function nameOfStore({ redis, dataFolder }: Settings): string {
  return redis.url === null
    ? `the embedded store in ${dataFolder}`
    : `Redis at ${describeAddress(readRedisUrl(redis.url))}`;
}
