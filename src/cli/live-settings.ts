import { isDeepStrictEqual } from 'node:util';
import type { Plans } from '../admit/plan.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { SettingsFiles } from '../config/settings-files.ts';
import type { GatewayLog } from '../telemetry/log.ts';

/** What stays as it was at the start: ports, stores, and what was built on them. */
const LASTING = ['listen', 'admin', 'redis', 'dataFolder', 'peppers', 'logLevel', 'workers'] as const;

/** Of the faults of one version so many are lines in the log: thousands would push out what else happens. */
const MOST_FAULTS = 100;

export interface LiveSettingsOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly log: GatewayLog;
  /** Loads what `use` needs for a new configuration and has not needed before; null where that is nothing. */
  readonly loading?: (configuration: Configuration) => Promise<void> | null;
  /**
   * Brings a new configuration into force, whole or not at all.
   * @throws Failure where it cannot be; the one before stays in force
   */
  readonly use: (configuration: Configuration) => void;
  readonly count: (outcome: 'loaded' | 'refused') => void;
}

/** The settings and plans in force, which follow their files (contract section 2). */
export class LiveSettings {
  #current: Configuration;
  /** What is wrong with what the files hold; null where that is in force. */
  #refused: string | null = null;

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

  /** Whether the files hold something that cannot be used, so that what is in force is older than they are. */
  get isRefused(): boolean {
    return this.#refused !== null;
  }

  /** Takes what the files hold from now on; at once when the process gets SIGHUP. @returns a way to stop that */
  follow({ env, log, loading = () => null, use, count }: LiveSettingsOptions): () => void {
    let isFollowing = true;
    const refuse = (faults: readonly string[]) => {
      const what = faults.join('\n');
      // A signal reads the same version again: that is told again, and is no further change.
      if (what !== this.#refused) count('refused');
      this.#refused = what;
      tellFaults(log, faults);
    };
    const files = new SettingsFiles(env, this.#current, {
      onRefused: refuse,
      onChange: (read) => {
        const loaded = loading(read);
        if (loaded !== null) {
          // They are read again, since they may change while it is loaded.
          const readAgain = () => isFollowing && files.readSoon();
          void loaded.then(readAgain, (error) => refuse([error instanceof Error ? error.message : String(error)]));
          return false;
        }
        const { kept, restart } = lasting(this.#current.settings, read.settings);
        const next = { ...read, settings: kept };
        try {
          use(next);
        } catch (error) {
          refuse([error instanceof Error ? error.message : String(error)]);
          return false;
        }
        const before = this.#current.plans;
        this.#current = next;
        this.#refused = null;
        count('loaded');
        tellChange(log, read, before, restart);
        return true;
      },
      onSame: () => {
        if (this.#refused !== null) log.logger.info('the files hold again what is in force');
        this.#refused = null;
      },
    });
    const onHangUp = () => files.readSoon();
    process.on('SIGHUP', onHangUp);
    files.follow();
    return () => {
      isFollowing = false;
      process.off('SIGHUP', onHangUp);
      files.close();
    };
  }
}

function tellChange({ logger }: GatewayLog, now: Configuration, before: Plans, restart: readonly string[]): void {
  for (const warning of now.warnings) logger.warn(warning);
  if (restart.length > 0) logger.warn({ settings: restart }, 'changed, and take effect at the next start');
  const gone = [...before.plans.keys()].filter((name) => !now.plans.plans.has(name));
  if (gone.length > 0) logger.warn({ plans: gone }, 'gone from the plans: keys that have them are not served');
  logger.info({ versions: now.versions }, 'settings and plans in force');
}

function tellFaults({ logger }: GatewayLog, faults: readonly string[]): void {
  for (const fault of faults.slice(0, MOST_FAULTS)) {
    logger.error({ fault }, 'the changed settings are not taken, those before stay');
  }
  const more = faults.length - MOST_FAULTS;
  if (more > 0) logger.error({ more }, 'further faults, which `tollgate plans check` tells');
}

/** The new settings with what cannot change while running as it was, and the names of what has changed there. */
function lasting(before: Settings, after: Settings): { kept: Settings; restart: string[] } {
  const restart = LASTING.filter((name) => !isDeepStrictEqual(before[name], after[name]));
  const old = Object.fromEntries(LASTING.map((name) => [name, before[name]]));
  return { kept: { ...after, ...old }, restart };
}
