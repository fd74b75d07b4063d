import { ratioOf, type Spread, spreadOf } from '../kit/statistics.ts';
import type { Measurement } from './round.ts';
import type { ContestantName, Scenario } from './scenarios.ts';

/** One contestant in one scenario, round by round; null where a round came to nothing. */
export interface Entry {
  readonly name: ContestantName;
  readonly title: string;
  readonly version: string;
  readonly idleRssBytes: number;
  /** What its Redis holds for the first key of the load, MEMORY USAGE; null if that is not known. */
  readonly redisBytes: number | null;
  readonly open: readonly (Measurement | null)[];
  /** At the fixed rate; empty where the scenario has none. */
  readonly fixed: readonly (Measurement | null)[];
  /** With one thing different; empty where the scenario has none. */
  readonly beside: readonly (Measurement | null)[];
  /** What went wrong, in words, each once. */
  readonly faults: readonly string[];
}

export interface Missing {
  readonly name: ContestantName;
  readonly title: string;
  readonly reason: string;
}

export interface ScenarioResult {
  readonly scenario: Scenario;
  readonly entries: readonly Entry[];
  readonly missing: readonly Missing[];
  /** Half of the slowest contestant's throughput; null where it was not measured. */
  readonly ratePerSecond: number | null;
  /** MEMORY USAGE of the counters of one key in Tollgate's Redis; null where it does not take part. */
  readonly redisBytesPerKey: number | null;
}

export interface StartResult {
  /** From the start of the process to the first 200 of /readyz. */
  readonly readyMs: Spread | null;
  readonly idleRssBytes: Spread | null;
}

/** A whole run. */
export interface Results {
  readonly date: string;
  readonly machine: string;
  readonly versions: ReadonlyMap<string, string>;
  readonly rounds: number;
  readonly seconds: number;
  readonly scenarios: readonly ScenarioResult[];
  readonly start: StartResult | null;
  /** Whether it was broken off. */
  readonly complete: boolean;
}

/** What a measurement has as a number. */
export type Figure = Exclude<keyof Measurement, 'faults'>;

/** Figures of rounds in which nothing went wrong; the others are null, so that rounds of two contestants stay paired. */
export function valuesOf(rounds: readonly (Measurement | null)[], figure: Figure): (number | null)[] {
  return rounds.map((round) => (round === null || round.faults.length > 0 ? null : round[figure]));
}

export function figureOf(rounds: readonly (Measurement | null)[], figure: Figure): Spread | null {
  return spreadOf(valuesOf(rounds, figure).filter((value) => value !== null));
}

/** What `one` takes for each unit that `other` takes, by rounds. */
export function ratioBetween(
  one: Entry | undefined,
  other: Entry | undefined,
  figure: Figure,
  phase: 'open' | 'fixed' | 'beside' = 'open',
): Spread | null {
  if (one === undefined || other === undefined) return null;
  return ratioOf(valuesOf(one[phase], figure), valuesOf(other[phase], figure));
}

export function entryOf(result: ScenarioResult | undefined, name: ContestantName): Entry | undefined {
  return result?.entries.find((entry) => entry.name === name);
}
