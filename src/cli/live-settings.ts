import { isDeepStrictEqual } from 'node:util';
import type { Plans } from '../admit/plan.ts';
import { type Configuration, filesOf, type Settings } from '../config/settings.ts';
import { type Change, SettingsFiles } from '../config/settings-files.ts';
import { inSlices, type Steps } from '../config/steps.ts';
import type { KeyStore } from '../identify/key-store.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import { ASK_AGAIN_MS, retentionOf } from './lost-plans.ts';

/** What stays as it was at the start: ports, stores, and what was built on them. */
const LASTING = ['listen', 'admin', 'redis', 'dataFolder', 'peppers', 'logLevel', 'workers'] as const;

export interface LiveSettingsOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly log: GatewayLog;
  /** Loads what `use` needs for a new configuration and has not needed before; null where that is nothing. */
  readonly loading?: (configuration: Configuration) => Promise<void> | null;
  /**
   * Makes all that requests are served by under a new configuration. @returns what brings it into force, whole
   * @throws Failure where it cannot be; the one before stays in force
   */
  readonly making?: (configuration: Configuration) => Steps<() => void>;
  /** Asked which plans live keys use, where a plan is to go. */
  readonly keys: () => Promise<Pick<KeyStore, 'list'>>;
  readonly count: (outcome: 'loaded' | 'refused') => void;
}

/** The settings and plans in force, which follow their files (contract section 2). */
export class LiveSettings {
  #current: Configuration;
  /** What is wrong with what the files hold; null where that is in force. */
  #refused: string | null = null;
  /** The files are read since the store could not be asked before, and not because of a change or a signal. */
  #isAskedAgain = false;

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

  /** Whether the files hold something that cannot be used, so that what is in force is older than they are. */
  get isRefused(): boolean {
    return this.#refused !== null;
  }

  /** Takes what the files hold from now on; at once when the process gets SIGHUP. @returns a way to stop that */
  follow(options: LiveSettingsOptions): () => Promise<void> {
    const { env, log } = options;
    const files = new SettingsFiles(env, this.#current, {
      onRefused: (faults, more) => this.#refuse(options, faults, more),
      onChange: (change) => this.#take(options, change, askAgain),
      onSame: () => {
        if (this.#refused !== null) log.logger.info('the files hold again what is in force');
        this.#refused = null;
      },
    });
    let asking: NodeJS.Timeout | undefined;
    const askAgain = () => {
      clearTimeout(asking);
      asking = setTimeout(() => {
        this.#isAskedAgain = true;
        files.readSoon();
      }, ASK_AGAIN_MS).unref();
    };
    const onHangUp = () => files.readSoon();
    process.on('SIGHUP', onHangUp);
    files.follow();
    return () => {
      process.off('SIGHUP', onHangUp);
      clearTimeout(asking);
      return files.close();
    };
  }

  /** @returns whether it is in force now */
  async #take(options: LiveSettingsOptions, change: Change, askAgain: () => void): Promise<boolean> {
    const { configuration, signal, isOutdated } = change;
    const { env, keys, log, loading, making, count } = options;
    const [before, after, file] = [this.#current.plans, configuration.plans, filesOf(env)[1]];
    const isWanted = () => !signal.aborted && !isOutdated();
    const retention = await retentionOf({ before, after, file }, keys, isWanted);
    if (!isWanted()) return false;
    if (retention !== null) {
      this.#refuse(options, retention.faults);
      if (retention.isUnknown) askAgain();
      return false;
    }
    const { kept, restart } = lasting(this.#current.settings, configuration.settings);
    const next = { ...configuration, settings: kept };
    let bringIntoForce = () => {};
    try {
      await loading?.(next);
      if (making !== undefined) bringIntoForce = await inSlices(making(next), signal);
    } catch (error) {
      if (!signal.aborted) this.#refuse(options, [error instanceof Error ? error.message : String(error)]);
      return false;
    }
    // No request comes between these two.
    bringIntoForce();
    this.#current = next;
    this.#refused = null;
    this.#isAskedAgain = false;
    count('loaded');
    tellChange(log, configuration, before, restart);
    return true;
  }

  #refuse({ log, count }: LiveSettingsOptions, faults: readonly string[], more = 0): void {
    const what = [...faults, more].join('\n');
    const isAskedAgain = this.#isAskedAgain;
    this.#isAskedAgain = false;
    if (isAskedAgain && what === this.#refused) return;
    // A signal reads the same version again: that is told again, and is no further change.
    if (what !== this.#refused) count('refused');
    this.#refused = what;
    for (const fault of faults) log.logger.error({ fault }, 'the changed settings are not taken, those before stay');
    if (more > 0) log.logger.error({ more }, 'further faults, which `tollgate plans check` tells');
  }
}

function tellChange({ logger }: GatewayLog, now: Configuration, before: Plans, restart: readonly string[]): void {
  for (const warning of now.warnings) logger.warn(warning);
  if (restart.length > 0) logger.warn({ settings: restart }, 'changed, and take effect at the next start');
  const gone = [...before.plans.keys()].filter((name) => !now.plans.plans.has(name));
  if (gone.length > 0) logger.warn({ plans: gone }, 'gone from the plans: keys that have them get 500');
  logger.info({ versions: now.versions }, 'settings and plans in force');
}

/** The new settings with what cannot change while running as it was, and the names of what has changed there. */
function lasting(before: Settings, after: Settings): { kept: Settings; restart: string[] } {
  const restart = LASTING.filter((name) => !isDeepStrictEqual(before[name], after[name]));
  const old = Object.fromEntries(LASTING.map((name) => [name, before[name]]));
  return { kept: { ...after, ...old }, restart };
}
