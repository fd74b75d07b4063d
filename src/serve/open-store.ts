import { existsSync } from 'node:fs';
import { type Configuration, type Faulty, filesOf, loadConfiguration, type Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { PepperHistory } from '../identify/pepper-record.ts';
import type { Plans } from '../model/plan.ts';
import type { Stores } from '../operations/stores.ts';
import {
  hasStore,
  nameOfEmbedded,
  openForCommand as openEmbedded,
  socketOfOwner,
  untilReleased,
} from '../stores/embedded/open.ts';
import { exposedFiles } from './exposed-files.ts';

export { untilReleased };

/** The gateway's store, open for one command. */
export interface OpenStore extends Stores {
  readonly settings: Settings;
  readonly plans: Plans;
  /** The path of plans.yaml. */
  readonly plansFile: string;
  /** The version of plans.yaml; empty if the command continues without it. */
  readonly plansVersion: string;
  /** The store for messages, without any password. */
  readonly name: string;
  /** Sentences for the operator about the store, plans.yaml and exposed files. */
  readonly warnings: readonly string[];
  /** Newest first; at least one. */
  readonly peppers: readonly string[];
  readonly pepperHistory: PepperHistory;
  /**
   * Makes this process the owner of an embedded store, for the time of a change. Every process may change a Redis.
   * @returns null while another process is its owner
   * @throws Failure `store_unavailable`
   */
  own(): Promise<{ release(): void } | null>;
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
  /**
   * True for commands that refuse to begin a data folder which the operator has not named: an operator in the wrong folder, or
   * without REDIS_URL, would otherwise put keys into a new store that no gateway uses.
   */
  readonly insistsOnFolder?: boolean;
}

/**
 * Opens the store that a gateway with the same settings uses. The gateway may be running (contract section 1).
 * @throws Failure `bad_settings` with every fault on a line of its own; `bad_usage` and `not_found` if there is no store; `store_unavailable`
 *   within 3 s if Redis does not answer; `store_corrupt`; `pepper_mismatch`
 */
export async function openStore(env: NodeJS.ProcessEnv, options: OpenOptions = {}): Promise<OpenStore> {
  return (await namedStore(env, options)).open();
}

/** The store that the settings name, before it is opened. */
interface NamedStore {
  /** For messages; null for Redis, whose name is known once it is open. */
  readonly name: string | null;
  /**
   * The socket of a gateway that owns the store, or has owned it, by which the system finds it until `close`; null if there is none.
   * @throws Failure `store_unavailable`
   */
  owner(): { readonly path: string; close(): void } | null;
  /** Sentences for the operator about exposed files, which the warnings of the open store have too. */
  readonly warnings: readonly string[];
  /** @throws as `openStore` */
  open(): Promise<OpenStore>;
}

/** @throws Failure `bad_settings` if the settings name no store */
export async function namedStore(env: NodeJS.ProcessEnv, options: OpenOptions = {}): Promise<NamedStore> {
  const read = await loadConfiguration(env);
  const { settings } = read;
  if (settings === undefined) throw new Failure('bad_settings', 'faults' in read ? read.faults.join('\n') : '');
  const { dataFolder, redis } = settings;
  const isEmbedded = redis.url === null;
  const warnings = exposedFiles(env, settings);
  return {
    name: isEmbedded ? nameOfEmbedded(dataFolder) : null,
    owner: () => (isEmbedded ? socketOfOwner(dataFolder) : null),
    warnings,
    async open() {
      const store = await opened(env, options, read);
      return { ...store, warnings: [...store.warnings, ...warnings] };
    },
  };
}

async function opened(env: NodeJS.ProcessEnv, options: OpenOptions, read: Configuration | Faulty): Promise<OpenStore> {
  const { settings, plans, versions, missing } = configurationFor(read, options);
  if (options.insistsOnFolder === true) insistOnFolder(env, settings);
  const store = await openTechnology(settings, options);
  const plansVersion = versions.plans;
  return {
    settings,
    plans,
    plansFile: filesOf(env)[1],
    plansVersion,
    ...store,
    warnings: [...missing, ...store.warnings],
  };
}

/** A command on the embedded store does not load the client of Redis. */
async function openTechnology(
  { dataFolder, peppers, usageHistory, redis: { url, durability } }: Settings,
  { makesSecrets, missingStore }: OpenOptions,
): Promise<Omit<OpenStore, 'settings' | 'plans' | 'plansFile' | 'plansVersion'>> {
  const writesPeppers = makesSecrets === true ? 'always' : 'never';
  if (url === null) {
    return openEmbedded({
      dataFolder,
      peppers,
      writesPeppers,
      ifMissing: missingStore ?? 'refuse',
      wallMs: Date.now,
    });
  }
  const { openForCommand } = await import('../stores/redis/open.ts');
  const store = await openForCommand({ url, peppers, usageHistory, durability, writesPeppers });
  return { ...store, own: async () => ({ release() {} }) };
}

/** @throws Failure `bad_usage` */
function insistOnFolder(env: NodeJS.ProcessEnv, { redis, dataFolder }: Settings): void {
  if (redis.url !== null || env.TOLLGATE_DATA || existsSync(dataFolder)) return;
  throw new Failure(
    'bad_usage',
    `There is no store in ${dataFolder}, and REDIS_URL is not set. Set REDIS_URL or TOLLGATE_DATA as the gateways have ` +
      'it, or name the folder of the embedded store: `--data ./data` makes one here.',
  );
}

/** Whether the settings name Redis while the data folder has an embedded store, which is then not used. It opens neither. */
export async function leavesStoreUnused(env: NodeJS.ProcessEnv, dataFolder: string): Promise<boolean> {
  if (!(env.REDIS_URL || env.REDIS_URL_FILE)) return false;
  return hasStore(dataFolder);
}

/** @throws Failure `bad_settings` */
function configurationFor(read: Configuration | Faulty, { needsPlans = true }: OpenOptions) {
  if (!('faults' in read)) return { ...read, missing: [] };
  if (needsPlans || read.settings === undefined) throw new Failure('bad_settings', read.faults.join('\n'));
  return { settings: read.settings, plans: NO_PLANS, versions: { plans: '' }, missing: [WITHOUT_PLANS] };
}

const WITHOUT_PLANS = 'plans.yaml cannot be used (`tollgate plans check` says why); the command continues without it.';
const NO_PLANS: Plans = { plans: new Map(), removed: [], failedAuthenticationPerMinute: 0 };

interface WorkOptions extends OpenOptions {
  /** Prints the warnings of the store; to standard error unless given. */
  readonly warn?: (line: string) => void;
}

/** Opens the store, runs `work` with it, and closes it in any case. */
export async function withStore<T>(
  env: NodeJS.ProcessEnv,
  work: (store: OpenStore) => Promise<T>,
  { warn = (line) => process.stderr.write(line), ...options }: WorkOptions = {},
): Promise<T> {
  const store = await openStore(env, options);
  for (const warning of store.warnings) warn(`warning: ${warning}\n`);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
