import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { Plan } from '../admit/plan.ts';
import type { Route } from '../routing/router.ts';
import type { Variables } from './environment.ts';
import { type Configuration, type Faulty, loadConfiguration, type RefusedFile, type Upstream } from './settings.ts';
import { STEPS_PER_SLICE } from './steps.ts';

// The program of SettingsReader's thread (settings-watcher.ts). It reads the settings once, when the reader sends a message.

export interface ThreadData {
  readonly env: Variables;
  /** Receives the parts of the configuration in order: the beginning, the pieces, and null after the last piece. */
  readonly parts: MessagePort;
}

/** Files that cannot be used, so that the settings before stay in force. */
export interface Refused {
  /** With their first faults: `MAX_LOGGED` of each. */
  readonly files: readonly RefusedFile[];
  /** How many further faults were left out. */
  readonly more: number;
}

/** The first part of a reading: its faults, or the configuration without its long lists. */
export type Beginning =
  | Refused
  /** Without routes, upstreams and plans, which follow in pieces. */
  | { readonly configuration: Configuration };

/** At most `STEPS_PER_SLICE` routes, upstreams or plans. */
export type Piece =
  | { readonly of: 'routes'; readonly items: readonly Route[] }
  | { readonly of: 'upstreams'; readonly items: readonly Upstream[] }
  | { readonly of: 'plans'; readonly items: readonly Plan[] };

/** Faults, and warnings, of one version that are logged: thousands of lines would bury the rest of the log. */
const MAX_LOGGED = 100;

function* partsOf(read: Configuration | Faulty): Generator<Beginning | Piece | null> {
  if ('faults' in read) {
    const files = read.files.map((one) => ({
      ...one,
      faults: one.faults.slice(0, MAX_LOGGED),
      more: Math.max(0, one.faults.length - MAX_LOGGED),
    }));
    yield { files, more: files.reduce((sum, { more }) => sum + more, 0) };
    return;
  }
  const { settings, plans, warnings } = read;
  yield {
    configuration: {
      ...read,
      settings: { ...settings, routes: [], upstreams: new Map() },
      plans: { ...plans, plans: new Map() },
      warnings: shortened(warnings),
    },
  };
  for (const items of inPieces(settings.routes)) yield { of: 'routes', items };
  for (const items of inPieces([...settings.upstreams.values()])) yield { of: 'upstreams', items };
  for (const items of inPieces([...plans.plans.values()])) yield { of: 'plans', items };
  yield null;
}

function shortened(warnings: readonly string[]): readonly string[] {
  const more = warnings.length - MAX_LOGGED;
  if (more <= 0) return warnings;
  return [...warnings.slice(0, MAX_LOGGED), `${more} further warnings, which \`tollgate plans check\` tells`];
}

function* inPieces<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < items.length; from += STEPS_PER_SLICE) yield items.slice(from, from + STEPS_PER_SLICE);
}

const { env, parts } = workerData as ThreadData;
parentPort?.once('message', async () => {
  for (const part of partsOf(await loadConfiguration(env, true))) parts.postMessage(part);
  parentPort?.postMessage('read');
});
