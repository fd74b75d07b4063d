import { isDeepStrictEqual } from 'node:util';
import { type Configuration, filesOf, type RefusedFile, type Settings } from '../config/settings.ts';
import type { Refused } from '../config/settings-thread.ts';
import { type SettingsChange, SettingsWatcher } from '../config/settings-watcher.ts';
import { inSlices } from '../io/steps.ts';
import type { Plans } from '../model/plan.ts';
import type { TakenFile } from '../operations/load-record.ts';
import { ASK_AGAIN_MS, type PlanUserStores, retentionOf } from '../operations/plans-in-use.ts';
import { takenBetween } from '../operations/taken-files.ts';
import type { GatewayLog } from '../telemetry/log.ts';

/** The settings that a reload cannot change: ports, stores, and what is built on them. */
const FIXED_AT_START = [
  'listen',
  'admin',
  'redis',
  'dataFolder',
  'peppers',
  'logLevel',
  'workers',
  'watchdog',
] as const;

export interface LiveSettingsOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly log: GatewayLog;
  /** Imports the modules that `build` needs for a new configuration; null if they are already there. */
  readonly load?: (configuration: Configuration) => Promise<void> | null;
  /**
   * Builds everything that serves requests under a new configuration.
   * @returns a function that brings all of it into force at once
   * @throws Failure if it cannot be built; the earlier configuration stays in force
   */
  readonly build?: (configuration: Configuration, signal: AbortSignal) => Promise<() => void>;
  /** Opens the stores of keys and customers, to check whether they use a plan that the new plans.yaml lacks. */
  readonly planUsers: () => Promise<PlanUserStores>;
  readonly events?: ReloadEvents;
}

/** What becomes of the files. Each is called once for each changed version. */
interface ReloadEvents {
  readonly onTaken: (taken: readonly TakenFile[], versions: Configuration['versions']) => void;
  /** @param versions those that stay in force */
  readonly onRefused: (files: readonly RefusedFile[], versions: Configuration['versions']) => void;
  /** After a refusal the files match the settings in force again. */
  readonly onSame: (versions: Configuration['versions']) => void;
}

/** Faults that are shown beside the log, which has up to a hundred, and the maximum characters of one. */
const MAX_SHOWN = 5;
const MAX_SHOWN_CHARACTERS = 300;

/** The settings and plans in force. They are reloaded when their files change (contract section 2). */
export class LiveSettings {
  #current: Configuration;
  /** What is wrong with the files as they are now; null if they are in force. */
  #refused: Refused | null = null;
  /** True if the files are read again only because the store did not answer before, not after a change or a signal. */
  #isStoreRetry = false;

  constructor(current: Configuration) {
    this.#current = current;
  }

  get settings(): Settings {
    return this.#current.settings;
  }

  get plans(): Plans {
    return this.#current.plans;
  }

  get versions(): Configuration['versions'] {
    return this.#current.versions;
  }

  /** The text of plans.yaml that is in force. */
  get plansText(): string {
    return this.#current.plansText;
  }

  get signature(): Configuration['signature'] {
    return this.#current.signature;
  }

  /** The files whose present content has faults, so that older settings stay in force; empty if all files are valid. */
  get refusedFiles(): readonly RefusedFile[] {
    return this.#refused?.files ?? [];
  }

  /** The first faults of the files as they are now, a line each, and a line about further ones; empty if they are in force. */
  get faults(): readonly string[] {
    if (this.#refused === null) return [];
    const all = linesOf(this.#refused);
    const more = all.length + this.#refused.more - MAX_SHOWN;
    const first = all.slice(0, MAX_SHOWN).map((line) => line.slice(0, MAX_SHOWN_CHARACTERS));
    return more > 0 ? [...first, furtherFaults(more)] : first;
  }

  /**
   * Reloads the files whenever they change, and at once when the process gets SIGHUP.
   * @returns a function that stops it
   */
  follow(options: LiveSettingsOptions): () => Promise<void> {
    const { env, log } = options;
    const files = new SettingsWatcher(env, this.#current, {
      onRefused: (refused) => this.#refuse(options, refused),
      onChange: (change) => this.#reload(options, change, retryStore),
      onSame: () => {
        if (this.#refused === null) return;
        this.#refused = null;
        log.logger.info('the files match the settings in force again');
        options.events?.onSame(this.versions);
      },
    });
    let storeRetry: NodeJS.Timeout | undefined;
    const retryStore = () => {
      clearTimeout(storeRetry);
      storeRetry = setTimeout(() => {
        this.#isStoreRetry = true;
        files.readSoon();
      }, ASK_AGAIN_MS).unref();
    };
    const onHangUp = () => files.readSoon();
    process.on('SIGHUP', onHangUp);
    files.follow();
    return () => {
      process.off('SIGHUP', onHangUp);
      clearTimeout(storeRetry);
      return files.close();
    };
  }

  /** @returns whether the new configuration is in force now */
  async #reload(options: LiveSettingsOptions, change: SettingsChange, retryStore: () => void): Promise<boolean> {
    const { configuration, signal, isOutdated } = change;
    const { env, planUsers, log, load, build, events } = options;
    const refuse = (files: readonly RefusedFile[]) => this.#refuse(options, { files, more: 0 });
    const [before, after, file] = [this.#current.plans, configuration.plans, filesOf(env)[1]];
    const isWanted = () => !signal.aborted && !isOutdated();
    const retention = await retentionOf({ before, after, file }, planUsers, isWanted);
    if (!isWanted()) return false;
    if (retention !== null) {
      refuse([{ file: 'plans', version: configuration.versions.plans, faults: retention.faults }]);
      if (retention.isUnknown) retryStore();
      return false;
    }
    const { kept, restart } = keepFixed(this.#current.settings, configuration.settings);
    const next = { ...configuration, settings: kept };
    let bringIntoForce = () => {};
    let taken: readonly TakenFile[] = [];
    try {
      taken = await inSlices(takenBetween(this.#current, configuration, restart), signal);
      await load?.(next);
      if (build !== undefined) bringIntoForce = await build(next, signal);
    } catch (error) {
      const faults = (error instanceof Error ? error.message : String(error)).split('\n');
      if (!signal.aborted) refuse([{ file: 'settings', version: configuration.versions.settings, faults }]);
      return false;
    }
    // These two run in one turn, so no request sees one without the other.
    bringIntoForce();
    this.#current = next;
    this.#refused = null;
    this.#isStoreRetry = false;
    events?.onTaken(taken, next.versions);
    logReload(log, configuration, before, restart, taken);
    return true;
  }

  #refuse({ log, events }: LiveSettingsOptions, refused: Refused): void {
    const isKnown = isDeepStrictEqual(refused, this.#refused);
    const isStoreRetry = this.#isStoreRetry;
    this.#isStoreRetry = false;
    if (isStoreRetry && isKnown) return;
    this.#refused = refused;
    // After SIGHUP the same faults are logged again, but not counted again.
    if (!isKnown) events?.onRefused(refused.files, this.versions);
    const { more } = refused;
    for (const fault of linesOf(refused)) log.logger.error({ fault }, 'new settings rejected, keeping the old ones');
    if (more > 0) log.logger.error({ more }, 'further faults; `tollgate plans check` lists them');
  }
}

/** Changes of one reload that are logged. */
const MAX_LOGGED = 20;

function linesOf({ files }: Refused): readonly string[] {
  return files.flatMap(({ faults }) => faults);
}

function furtherFaults(more: number): string {
  return `${more} further ${more === 1 ? 'fault' : 'faults'}, which \`tollgate plans check\` prints`;
}

function logReload(
  { logger }: GatewayLog,
  now: Configuration,
  before: Plans,
  restart: readonly string[],
  taken: readonly TakenFile[],
): void {
  for (const warning of now.warnings) logger.warn(warning);
  if (restart.length > 0) logger.warn({ settings: restart }, 'changed, and take effect at the next start');
  const gone = [...before.plans.keys()].filter((name) => !now.plans.plans.has(name));
  if (gone.length > 0) logger.warn({ plans: gone }, 'plans removed: their keys get 500');
  const changes = taken.flatMap((one) => one.changes);
  logger.info(
    {
      versions: now.versions,
      changes: changes.slice(0, MAX_LOGGED),
      ...(changes.length > MAX_LOGGED ? { more: changes.length - MAX_LOGGED } : {}),
    },
    'settings and plans in force',
  );
}

/** The new settings with the old values of `FIXED_AT_START`, and the names of those that a restart would change. */
function keepFixed(before: Settings, after: Settings): { kept: Settings; restart: string[] } {
  const restart = FIXED_AT_START.filter((name) => !isDeepStrictEqual(before[name], after[name]));
  const old = Object.fromEntries(FIXED_AT_START.map((name) => [name, before[name]]));
  return { kept: { ...after, ...old }, restart };
}
