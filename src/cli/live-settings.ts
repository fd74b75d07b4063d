import { isDeepStrictEqual } from 'node:util';
import type { Plans } from '../admit/plan.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { SettingsFiles } from '../config/settings-files.ts';
import type { GatewayLog } from '../telemetry/log.ts';

/** What stays as it was at the start: ports, stores, and what was built on them. */
const LASTING = ['listen', 'admin', 'redis', 'dataFolder', 'peppers', 'logLevel', 'workers'] as const;

export interface LiveSettingsOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly log: GatewayLog;
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
  #refused = false;

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
    return this.#refused;
  }

  /** Takes what the files hold from now on; at once when the process gets SIGHUP. @returns a way to stop that */
  follow({ env, log, use, count }: LiveSettingsOptions): () => void {
    const refuse = (faults: readonly string[]) => {
      if (!this.#refused) count('refused');
      this.#refused = true;
      for (const fault of faults) log.logger.error({ fault }, 'the changed settings are not taken, those before stay');
    };
    const files = new SettingsFiles(env, this.#current, {
      onRefused: refuse,
      onChange: (read) => {
        const { kept, restart } = lasting(this.#current.settings, read.settings);
        const next = { ...read, settings: kept };
        try {
          use(next);
        } catch (error) {
          refuse([error instanceof Error ? error.message : String(error)]);
          return false;
        }
        this.#current = next;
        this.#refused = false;
        count('loaded');
        for (const warning of read.warnings) log.logger.warn(warning);
        if (restart.length > 0) log.logger.warn({ settings: restart }, 'changed, and take effect at the next start');
        log.logger.info({ versions: read.versions }, 'settings and plans in force');
        return true;
      },
      onSame: () => {
        this.#refused = false;
      },
    });
    const onHangUp = () => files.read();
    process.on('SIGHUP', onHangUp);
    files.follow();
    return () => {
      process.off('SIGHUP', onHangUp);
      files.close();
    };
  }
}

/** The new settings with what cannot change while running as it was, and the names of what has changed there. */
function lasting(before: Settings, after: Settings): { kept: Settings; restart: string[] } {
  const restart = LASTING.filter((name) => !isDeepStrictEqual(before[name], after[name]));
  const old = Object.fromEntries(LASTING.map((name) => [name, before[name]]));
  return { kept: { ...after, ...old }, restart };
}
