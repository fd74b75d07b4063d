import type { Worker } from 'node:worker_threads';
import { compileCacheVariables } from '../io/compile-cache.ts';
import { startThread } from '../io/own-program.ts';
import type { Variables } from './environment.ts';
import { isPipeOrDevice, signatureOf, statOf } from './read-file.ts';
import { deepFreeze } from './setting-values.ts';
import { type Configuration, filesOf } from './settings.ts';
import type { Reading, Refused, ThreadData } from './settings-thread.ts';

/** A complete and valid configuration that differs from the one in force. */
export interface SettingsChange {
  readonly configuration: Configuration;
  /** Aborted when the watcher closes. */
  readonly signal: AbortSignal;
  /** Whether the files have changed since they were read. The receiver then drops the change; the watcher reads again. */
  readonly isOutdated: () => boolean;
}

interface SettingsEvents {
  /** The watcher reads no other version until the promise settles. @returns whether the configuration is in force now */
  readonly onChange: (change: SettingsChange) => Promise<boolean>;
  /** A new version cannot be used. Called once per version. */
  readonly onRefused: (refused: Refused) => void;
  /** The content of the files is again the configuration in force. */
  readonly onSame: () => void;
}

/**
 * Pause between two polls of the files. A change is read when the next poll finds the same signature, since an editor may
 * still be writing: half a file can be valid and mean something else.
 */
const POLL_INTERVAL_MS = 250;
/** After a signal, which says that the operator has finished writing, a file is read when it is this old. */
const SETTLED_AFTER_MS = 100;

/**
 * Watches gateway.yaml and plans.yaml (contract section 2) by polling their names. Polling sees an editor's rename and the
 * symbolic links that Kubernetes swaps, which `fs.watch` on a file or a folder does not see on every system. A SettingsReader
 * reads what has changed, in a thread of its own.
 */
export class SettingsWatcher {
  readonly #env: Variables;
  /** Both files, and the descriptions and policies that the settings name which were read last. */
  #files: readonly string[];
  readonly #events: SettingsEvents;
  /** Digest of the configuration in force. */
  #digestInForce: string;
  /** Signature of the files that were read last. */
  #signatureRead: string;
  #pollTimer: NodeJS.Timeout | null = null;
  #signalTimer: NodeJS.Timeout | null = null;
  readonly #closing = new AbortController();
  #reader: SettingsReader | null = null;
  #reading: Promise<void> | null = null;
  /** A signal arrived during a reading, which may have begun before the change that the signal announces. */
  #mustReadAgain = false;

  constructor(env: Variables, current: Configuration, events: SettingsEvents) {
    this.#env = env;
    this.#files = watchedFiles(env, current);
    this.#events = events;
    this.#digestInForce = digestOf(current);
    // The process read the files before it opened the stores: a change since then must be found. A pipe can be read only
    // once, so its present state counts as read.
    this.#signatureRead = this.#files.some(isPipeOrDeviceAt) ? this.#signature() : current.signature;
  }

  follow(): void {
    let settled = this.#signature();
    this.#pollTimer = setInterval(() => {
      const signature = this.#signature();
      if (this.#reading === null) this.#compare(signature, signature === settled);
      settled = signature;
    }, POLL_INTERVAL_MS).unref();
  }

  #compare(signature: string, isSettled: boolean): void {
    const isChanged = signature !== this.#signatureRead;
    if (isChanged && isSettled) this.#read();
    // The thread loads its program while the change settles.
    else if (isChanged) this.#reader ??= new SettingsReader(this.#env);
    else void this.#endReader();
  }

  /** Reads the files after a signal: at once, unless one was modified a moment ago and may be only half written. */
  readSoon(waitedMs = 0): void {
    if (this.#signalTimer !== null || this.#closing.signal.aborted) return;
    const remainingMs = Math.max(...this.#files.map((file) => SETTLED_AFTER_MS - ageOf(file)));
    if (remainingMs <= 0 || remainingMs > SETTLED_AFTER_MS || waitedMs >= POLL_INTERVAL_MS * 4) {
      this.#read();
      return;
    }
    this.#signalTimer = setTimeout(() => {
      this.#signalTimer = null;
      this.readSoon(waitedMs + remainingMs);
    }, remainingMs).unref();
  }

  /** Readings run one at a time, so that an older version never replaces a newer one. */
  #read(): void {
    if (this.#reading !== null) {
      this.#mustReadAgain = true;
      return;
    }
    this.#reading = this.#readOnce().finally(async () => {
      await this.#endReader();
      this.#reading = null;
      const mustReadAgain = this.#mustReadAgain;
      this.#mustReadAgain = false;
      if (mustReadAgain) this.readSoon();
    });
  }

  async #readOnce(): Promise<void> {
    const { signal } = this.#closing;
    const signature = this.#signature();
    const isOutdated = () => signature !== this.#signature();
    const unreadable = this.#files.filter(isPipeOrDeviceAt);
    if (unreadable.length > 0) {
      this.#signatureRead = signature;
      const faultsOf = (files: readonly string[]) =>
        files.map((file) => `${file}: is a pipe or a device, and only a file can be read again.`);
      const plans = filesOf(this.#env)[1];
      const files = [
        { file: 'settings', version: '', faults: faultsOf(unreadable.filter((file) => file !== plans)) },
        { file: 'plans', version: '', faults: faultsOf(unreadable.filter((file) => file === plans)) },
      ] as const;
      this.#events.onRefused({ files: files.filter(({ faults }) => faults.length > 0), more: 0 });
      return;
    }
    this.#reader ??= new SettingsReader(this.#env);
    const read = await this.#reader.read();
    // A file that changed during the reading may be a mixture of two versions; the next polls find it when it has settled.
    if (signal.aborted || isOutdated()) return;
    this.#signatureRead = signature;
    if ('files' in read) {
      this.#events.onRefused(read);
      return;
    }
    const { configuration } = read;
    const digest = digestOf(configuration);
    if (digest === this.#digestInForce) {
      this.#events.onSame();
      return;
    }
    // Frees the thread's memory before the change takes effect, which needs memory of its own.
    await this.#endReader();
    const isInForce = await this.#events.onChange({ configuration, signal, isOutdated });
    if (isInForce) this.#digestInForce = digest;
    // Also if it was refused: a policy that cannot be loaded is repaired in its own file.
    this.#files = watchedFiles(this.#env, configuration);
    this.#signatureRead = configuration.signature;
  }

  async #endReader(): Promise<void> {
    const reader = this.#reader;
    this.#reader = null;
    await reader?.end();
  }

  /** Stops watching, and abandons a reading under way. */
  async close(): Promise<void> {
    this.#closing.abort();
    if (this.#pollTimer !== null) clearInterval(this.#pollTimer);
    if (this.#signalTimer !== null) clearTimeout(this.#signalTimer);
    await this.#endReader();
    await this.#reading;
  }

  #signature(): string {
    return signatureOf(this.#files);
  }
}

/** Milliseconds since a file was modified; Infinity if it does not exist. Negative if the file system's clock is ahead. */
function ageOf(file: string): number {
  const stats = statOf(file);
  return stats === undefined ? Number.POSITIVE_INFINITY : Date.now() - Number(stats.mtimeMs);
}

/** Such a file must not be opened: opening a pipe would block the whole gateway until a writer opens it. */
function isPipeOrDeviceAt(file: string): boolean {
  const stats = statOf(file);
  return stats !== undefined && isPipeOrDevice(stats);
}

function watchedFiles(env: Variables, { settings }: Configuration): readonly string[] {
  const ofPolicies = [...settings.policyFiles.values()].flatMap(({ files }) => files);
  return [...filesOf(env), ...settings.descriptions.keys(), ...ofPolicies];
}

function digestOf({ versions }: Configuration): string {
  return `${versions.settings} ${versions.plans}`;
}

/** Megabytes of heap that the thread may use. The largest settings file needs 100. */
const MAX_HEAP_MB = 192;

/**
 * Reads the settings once, in a thread of its own, while the main thread serves requests.
 *
 * Attack: a file whose check takes a second, or more memory than the process has. Only the thread is busy for that
 * second, and only the thread ends when its heap is full, which the reader reports as a fault of the settings.
 */
export class SettingsReader {
  readonly #worker: Worker;
  /** Fulfilled when the thread has ended: with its error, or null if it exited without one. */
  readonly #ended: Promise<Error | null>;

  /** Starts the thread, which begins to load its program. @param heapMb size limit of its heap, in megabytes */
  constructor(env: Variables, heapMb = MAX_HEAP_MB) {
    const data: ThreadData = { env: { ...env } };
    this.#worker = startThread(import.meta, 'settings-thread', {
      workerData: data,
      // Without the cache a reading takes 0.29 instead of 0.17 s of the processor.
      env: { ...process.env, ...compileCacheVariables() },
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const ended = Promise.withResolvers<Error | null>();
    this.#ended = ended.promise;
    this.#worker.on('error', ended.resolve).on('exit', () => ended.resolve(null));
  }

  /** Reads and checks gateway.yaml, plans.yaml and the environment. If the thread fails, that is the only fault. */
  async read(): Promise<Reading> {
    const reading = new Promise<Reading>((resolve) => this.#worker.once('message', resolve));
    this.#worker.postMessage('read');
    const outcome = await Promise.race([reading, this.#ended]);
    if (outcome !== null && !(outcome instanceof Error)) return deepFreeze(outcome);
    const reason = outcome === null ? 'The thread that reads has ended.' : outcome.message;
    const faults = [`The settings cannot be read: ${reason}`];
    return { files: [{ file: 'settings', version: '', faults }], more: 0 };
  }

  /** Terminates the thread, even while it reads. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}
