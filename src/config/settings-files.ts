import { type BigIntStats, statSync } from 'node:fs';
import type { Variables } from './environment.ts';
import { type Configuration, DEFAULT_GATEWAY_FILE, DEFAULT_PLANS_FILE, loadConfiguration } from './settings.ts';

export interface SettingsEvents {
  /** A whole and sound configuration that differs from the one in force. @returns whether it is in force now */
  readonly onChange: (configuration: Configuration) => boolean;
  /** What the files hold now cannot be used; each fault a line with its position. Once for each such version. */
  readonly onRefused: (faults: readonly string[]) => void;
  /** The files hold again what is in force. */
  readonly onSame: () => void;
}

/**
 * How often the files are looked at. A change is taken when it is still the same at the next look, since an editor may
 * be in the middle of it: half a file can be sound and mean something else.
 */
const LOOK_EVERY_MS = 250;
/** For a signal, which says that the change is done, less is enough. */
const STILL_MS = 100;

/**
 * Follows gateway.yaml and plans.yaml as they change (contract section 2). They are looked at by name: that sees an
 * editor's rename and the swapped links of Kubernetes, which a watcher on a file or its folder does not on every system.
 */
export class SettingsFiles {
  readonly #env: Variables;
  readonly #files: readonly string[];
  readonly #events: SettingsEvents;
  #taken: string;
  #seen: string;
  #timer: NodeJS.Timeout | null = null;
  #soon: NodeJS.Timeout | null = null;

  constructor(env: Variables, current: Configuration, events: SettingsEvents) {
    this.#env = env;
    this.#files = [env.TOLLGATE_CONFIG || DEFAULT_GATEWAY_FILE, env.TOLLGATE_PLANS || DEFAULT_PLANS_FILE];
    this.#events = events;
    this.#taken = digestOf(current);
    // What is in force was read a while ago, before the stores were opened: what has changed since then is looked for, but
    // for a pipe, which can be read once.
    this.#seen = this.#files.some(isPipeOrDevice) ? this.#signature() : '';
  }

  follow(): void {
    let settled = this.#signature();
    this.#timer = setInterval(() => {
      const signature = this.#signature();
      const isChanged = signature !== this.#seen;
      if (isChanged && signature === settled) this.#read();
      settled = signature;
    }, LOOK_EVERY_MS).unref();
  }

  /** Reads the files soon, for a signal: at once, unless one was written to a moment ago and may be only half written. */
  readSoon(waitedMs = 0): void {
    if (this.#soon !== null) return;
    const youngMs = Math.max(...this.#files.map((file) => STILL_MS - ageOf(file)));
    if (youngMs <= 0 || youngMs > STILL_MS || waitedMs >= LOOK_EVERY_MS * 4) {
      this.#read();
      return;
    }
    this.#soon = setTimeout(() => {
      this.#soon = null;
      this.readSoon(waitedMs + youngMs);
    }, youngMs).unref();
  }

  #read(): void {
    const signature = this.#signature();
    const odd = this.#files.filter(isPipeOrDevice);
    const read =
      odd.length > 0
        ? { faults: odd.map((file) => `${file}: is a pipe or a device, and only a file can be read again.`) }
        : loadConfiguration(this.#env);
    // Written to while it was read, it is somewhere between two versions; the looks that follow take it when it is still.
    if (signature !== this.#signature()) return;
    this.#seen = signature;
    if ('faults' in read) {
      this.#events.onRefused(read.faults);
      return;
    }
    const digest = digestOf(read);
    if (digest === this.#taken) this.#events.onSame();
    else if (this.#events.onChange(read)) this.#taken = digest;
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#soon !== null) clearTimeout(this.#soon);
  }

  /** What changes when either file does, or another file takes its name. */
  #signature(): string {
    return this.#files.map((file) => signatureOf(statOf(file))).join(';');
  }
}

function statOf(file: string): BigIntStats | undefined {
  try {
    return statSync(file, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Milliseconds since somebody wrote to a file; Infinity where there is none. Negative where its clock is not ours. */
function ageOf(file: string): number {
  const stats = statOf(file);
  return stats === undefined ? Number.POSITIVE_INFINITY : Date.now() - Number(stats.mtimeMs);
}

/** To open a pipe waits for its writer, and the whole gateway would wait with it. */
function isPipeOrDevice(file: string): boolean {
  const stats = statOf(file);
  return stats !== undefined && !stats.isFile() && !stats.isDirectory();
}

function signatureOf(stats: BigIntStats | undefined): string {
  if (stats === undefined) return 'none';
  const { dev, ino, size, mtimeNs, ctimeNs } = stats;
  return [dev, ino, size, mtimeNs, ctimeNs].join();
}

function digestOf({ versions }: Configuration): string {
  return `${versions.settings} ${versions.plans}`;
}
