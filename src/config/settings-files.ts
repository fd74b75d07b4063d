import type { Variables } from './environment.ts';
import { isOdd, signatureOf, statOf } from './read-file.ts';
import { type Configuration, filesOf } from './settings.ts';
import { SettingsReader } from './settings-reader.ts';
import { inSlices } from './steps.ts';

/** A whole and sound configuration that differs from the one in force. */
export interface Change {
  readonly configuration: Configuration;
  /** Aborted when the files are followed no longer. */
  readonly signal: AbortSignal;
  /** Whether the files have changed since: then it is not to be brought into force, and they are read again. */
  readonly isOutdated: () => boolean;
}

export interface SettingsEvents {
  /** Nothing else is read until it has been dealt with. @returns whether it is in force now */
  readonly onChange: (change: Change) => Promise<boolean>;
  /**
   * What the files hold now cannot be used; each fault a line with its position, and how many more there are. Once for each
   * such version.
   */
  readonly onRefused: (faults: readonly string[], more: number) => void;
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
  readonly #closing = new AbortController();
  #reader: SettingsReader | null = null;
  #reading: Promise<void> | null = null;
  /** A signal came while a reading was under way, which may have begun before the change that the signal is about. */
  #again = false;

  constructor(env: Variables, current: Configuration, events: SettingsEvents) {
    this.#env = env;
    this.#files = filesOf(env);
    this.#events = events;
    this.#taken = digestOf(current);
    // What is in force was read a while ago, before the stores were opened: what has changed since then is looked for, but
    // for a pipe, which can be read once.
    this.#seen = this.#files.some(isPipeOrDevice) ? this.#signature() : current.signature;
  }

  follow(): void {
    let settled = this.#signature();
    this.#timer = setInterval(() => {
      const signature = this.#signature();
      if (this.#reading === null) this.#look(signature, signature === settled);
      settled = signature;
    }, LOOK_EVERY_MS).unref();
  }

  #look(signature: string, isSettled: boolean): void {
    const isChanged = signature !== this.#seen;
    if (isChanged && isSettled) this.#read();
    // It loads its program while it is seen whether the change is done.
    else if (isChanged) this.#reader ??= new SettingsReader(this.#env);
    else void this.#endReader();
  }

  /** Reads the files soon, for a signal: at once, unless one was written to a moment ago and may be only half written. */
  readSoon(waitedMs = 0): void {
    if (this.#soon !== null || this.#closing.signal.aborted) return;
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

  /** One reading at a time, so that what is in force is never followed by what was read before it. */
  #read(): void {
    if (this.#reading !== null) {
      this.#again = true;
      return;
    }
    this.#reading = this.#readOnce().finally(async () => {
      await this.#endReader();
      this.#reading = null;
      const isAsked = this.#again;
      this.#again = false;
      if (isAsked) this.readSoon();
    });
  }

  async #readOnce(): Promise<void> {
    const { signal } = this.#closing;
    const signature = this.#signature();
    const isOutdated = () => signature !== this.#signature();
    const odd = this.#files.filter(isPipeOrDevice);
    if (odd.length > 0) {
      this.#seen = signature;
      const what = 'is a pipe or a device, and only a file can be read again.';
      this.#events.onRefused(
        odd.map((file) => `${file}: ${what}`),
        0,
      );
      return;
    }
    this.#reader ??= new SettingsReader(this.#env);
    const reader = this.#reader;
    const read = await reader.read();
    // Written to while it was read, it is somewhere between two versions; the looks that follow take it when it is still.
    if (signal.aborted || isOutdated()) return;
    this.#seen = signature;
    if ('faults' in read) {
      this.#events.onRefused(read.faults, read.more);
      return;
    }
    const digest = digestOf(read.configuration);
    if (digest === this.#taken) {
      this.#events.onSame();
      return;
    }
    try {
      const configuration = await inSlices(reader.configuration(read), signal);
      // Its memory is free again before the rest needs some.
      await this.#endReader();
      if (await this.#events.onChange({ configuration, signal, isOutdated })) this.#taken = digest;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #endReader(): Promise<void> {
    const reader = this.#reader;
    this.#reader = null;
    await reader?.end();
  }

  /** Gives up what is being read. */
  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#timer !== null) clearInterval(this.#timer);
    if (this.#soon !== null) clearTimeout(this.#soon);
    await this.#endReader();
    await this.#reading;
  }

  /** What changes when either file does, or another file takes its name. */
  #signature(): string {
    return signatureOf(this.#files);
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
  return stats !== undefined && isOdd(stats);
}

function digestOf({ versions }: Configuration): string {
  return `${versions.settings} ${versions.plans}`;
}
