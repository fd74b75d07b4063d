// The program of a thread that reads the settings once, when it is asked to (settings-reader.ts).
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { Plan } from '../admit/plan.ts';
import type { Route } from '../gateway/route.ts';
import type { Variables } from './environment.ts';
import { type Configuration, type Faulty, loadConfiguration } from './settings.ts';
import { STEPS_PER_SLICE } from './steps.ts';
import type { Upstream } from './upstreams.ts';

export interface ThreadData {
  readonly env: Variables;
  /** Where the parts of a reading go, in order: the beginning, the pieces, and null behind the last. */
  readonly parts: MessagePort;
}

/** What a reading came to. */
export type Beginning =
  | {
      /** The first `MOST_TOLD`, and how many more there are. */
      readonly faults: readonly string[];
      readonly more: number;
    }
  /** Without routes, upstreams and plans, which follow in pieces. */
  | { readonly configuration: Configuration };

/** At most as many routes, upstreams or plans as are taken over in one slice. */
export type Piece =
  | { readonly of: 'routes'; readonly items: readonly Route[] }
  | { readonly of: 'upstreams'; readonly items: readonly Upstream[] }
  | { readonly of: 'plans'; readonly items: readonly Plan[] };

/** Of the faults and warnings of one version so many are lines in the log: thousands would push out what else happens. */
const MOST_TOLD = 100;

function* partsOf(read: Configuration | Faulty): Generator<Beginning | Piece | null> {
  if ('faults' in read) {
    yield { faults: read.faults.slice(0, MOST_TOLD), more: Math.max(0, read.faults.length - MOST_TOLD) };
    return;
  }
  const { settings, plans, warnings } = read;
  yield {
    configuration: {
      ...read,
      settings: { ...settings, routes: [], upstreams: new Map() },
      plans: { ...plans, plans: new Map() },
      warnings: someOf(warnings),
    },
  };
  for (const items of inPieces(settings.routes)) yield { of: 'routes', items };
  for (const items of inPieces([...settings.upstreams.values()])) yield { of: 'upstreams', items };
  for (const items of inPieces([...plans.plans.values()])) yield { of: 'plans', items };
  yield null;
}

function someOf(warnings: readonly string[]): readonly string[] {
  const more = warnings.length - MOST_TOLD;
  if (more <= 0) return warnings;
  return [...warnings.slice(0, MOST_TOLD), `${more} further warnings, which \`tollgate plans check\` tells`];
}

function* inPieces<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < items.length; from += STEPS_PER_SLICE) yield items.slice(from, from + STEPS_PER_SLICE);
}

const { env, parts } = workerData as ThreadData;
parentPort?.once('message', () => {
  for (const part of partsOf(loadConfiguration(env, true))) parts.postMessage(part);
  parentPort?.postMessage('read');
});
