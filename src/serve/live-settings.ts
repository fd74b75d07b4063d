import { isDeepStrictEqual } from 'node:util';
import type { Plans } from '../admit/plan.ts';
import { type Configuration, filesOf, type Settings } from '../config/settings.ts';
import { type SettingsChange, SettingsWatcher } from '../config/settings-watcher.ts';
import { inSlices, type Steps } from '../config/steps.ts';
import type { KeyStore } from '../identify/key-store.ts';
import { ASK_AGAIN_MS, retentionOf } from '../operations/plans-in-use.ts';
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
  readonly build?: (configuration: Configuration) => Steps<() => void>;
  /** Opens the store of keys, to check whether live keys use a plan that the new plans.yaml lacks. */
  readonly keys: () => Promise<Pick<KeyStore, 'list'>>;
  /** Called once for each changed version of the files. */
  readonly onReload: (outcome: 'loaded' | 'refused') => void;
}

/** The settings and plans in force. They are reloaded when their files change (contract section 2). */
export class LiveSettings {
  #current: Configuration;
  /** The faults of the files as they are now; null if they are in force. */
  #refused: string | null = null;
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

  get signature(): Configuration['signature'] {
    return this.#current.signature;
  }

  /** True if the files have faults, so that older settings are in force. */
  get isRefused(): boolean {
    return this.#refused !== null;
  }

  /** The faults of the files as they are now; null if they are in force. */
  get refusal(): string | null {
    return this.#refused;
  }

  /**
   * Reloads the files whenever they change, and at once when the process gets SIGHUP.
   * @returns a function that stops it
   */
  follow(options: LiveSettingsOptions): () => Promise<void> {
    const { env, log } = options;
    const files = new SettingsWatcher(env, this.#current, {
      onRefused: (faults, more) => this.#refuse(options, faults, more),
      onChange: (change) => this.#reload(options, change, retryStore),
      onSame: () => {
        if (this.#refused !== null) log.logger.info('the files hold again what is in force');
        this.#refused = null;
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
    const { env, keys, log, load, build, onReload } = options;
    const [before, after, file] = [this.#current.plans, configuration.plans, filesOf(env)[1]];
    const isWanted = () => !signal.aborted && !isOutdated();
    const retention = await retentionOf({ before, after, file }, keys, isWanted);
    if (!isWanted()) return false;
    if (retention !== null) {
      this.#refuse(options, retention.faults);
      if (retention.isUnknown) retryStore();
      return false;
    }
    const { kept, restart } = keepFixed(this.#current.settings, configuration.settings);
    const next = { ...configuration, settings: kept };
    let bringIntoForce = () => {};
    try {
      await load?.(next);
      if (build !== undefined) bringIntoForce = await inSlices(build(next), signal);
    } catch (error) {
      if (!signal.aborted) this.#refuse(options, [error instanceof Error ? error.message : String(error)]);
      return false;
    }
    // These two run in one turn, so no request sees one without the other.
    bringIntoForce();
    this.#current = next;
    this.#refused = null;
    this.#isStoreRetry = false;
    onReload('loaded');
    logReload(log, configuration, before, restart);
    return true;
  }

  #refuse({ log, onReload }: LiveSettingsOptions, faults: readonly string[], more = 0): void {
    const what = [...faults, more].join('\n');
    const isStoreRetry = this.#isStoreRetry;
    this.#isStoreRetry = false;
    if (isStoreRetry && what === this.#refused) return;
    // After SIGHUP the same faults are logged again, but not counted again.
    if (what !== this.#refused) onReload('refused');
    this.#refused = what;
    for (const fault of faults) log.logger.error({ fault }, 'the changed settings are not taken, those before stay');
    if (more > 0) log.logger.error({ more }, 'further faults, which `tollgate plans check` tells');
  }
}

function logReload({ logger }: GatewayLog, now: Configuration, before: Plans, restart: readonly string[]): void {
  for (const warning of now.warnings) logger.warn(warning);
  if (restart.length > 0) logger.warn({ settings: restart }, 'changed, and take effect at the next start');
  const gone = [...before.plans.keys()].filter((name) => !now.plans.plans.has(name));
  if (gone.length > 0) logger.warn({ plans: gone }, 'gone from the plans: keys that have them get 500');
  logger.info({ versions: now.versions }, 'settings and plans in force');
}

/** The new settings with the old values of `FIXED_AT_START`, and the names of those that a restart would change. */
function keepFixed(before: Settings, after: Settings): { kept: Settings; restart: string[] } {
  const restart = FIXED_AT_START.filter((name) => !isDeepStrictEqual(before[name], after[name]));
  const old = Object.fromEntries(FIXED_AT_START.map((name) => [name, before[name]]));
  return { kept: { ...after, ...old }, restart };
}
