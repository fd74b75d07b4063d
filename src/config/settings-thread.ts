import { parentPort, workerData } from 'node:worker_threads';
import type { Variables } from './environment.ts';
import { type Configuration, type Faulty, loadConfiguration, type RefusedFile } from './settings.ts';

// The program of SettingsReader's thread (settings-watcher.ts). It reads the settings once, when the reader sends a message.

export interface ThreadData {
  readonly env: Variables;
}

/** Files that cannot be used, so that the settings before stay in force. */
export interface Refused {
  /** With their first faults: `MAX_LOGGED` of each. */
  readonly files: readonly RefusedFile[];
  /** How many further faults were left out. */
  readonly more: number;
}

/** What a reading finds. */
export type Reading = Refused | { readonly configuration: Configuration };

/** Faults, and warnings, of one version that are logged: thousands of lines would bury the rest of the log. */
const MAX_LOGGED = 100;

function readingOf(read: Configuration | Faulty): Reading {
  if (!('faults' in read)) return { configuration: { ...read, warnings: shortened(read.warnings) } };
  const files = read.files.map((one) => ({
    ...one,
    faults: one.faults.slice(0, MAX_LOGGED),
    more: Math.max(0, one.faults.length - MAX_LOGGED),
  }));
  return { files, more: files.reduce((sum, { more }) => sum + more, 0) };
}

function shortened(warnings: readonly string[]): readonly string[] {
  const more = warnings.length - MAX_LOGGED;
  if (more <= 0) return warnings;
  return [...warnings.slice(0, MAX_LOGGED), `${more} further warnings; \`tollgate plans check\` lists them`];
}

const { env } = workerData as ThreadData;
parentPort?.once('message', async () => parentPort?.postMessage(readingOf(await loadConfiguration(env, true))));
