import { Chance } from '../kit/chance.ts';
import type { Progress } from './progress.ts';
import type { Row } from './row.ts';
import type { Context, Scenario } from './scenario.ts';
import { Timeline } from './timeline.ts';

export interface RunOptions {
  readonly scenarios: readonly Scenario[];
  readonly seed: number;
  readonly minutes: number;
  readonly keys: number;
  readonly tries: number;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

export interface Results {
  readonly rows: readonly Row[];
  readonly timeline: Timeline;
}

/** Plays one scenario after the other. One that cannot be played is a row that says why. */
export async function run({ scenarios, seed, minutes, keys, tries, progress, signal }: RunOptions): Promise<Results> {
  const timeline = new Timeline();
  const rows: Row[] = [];
  for (const [i, scenario] of scenarios.entries()) {
    if (signal.aborted) break;
    progress.begin(i + 1, scenarios.length, scenario.name);
    const fromMs = performance.now();
    // By its name, so that it goes the same way whichever others are played.
    const chance = new Chance(seed + hashOf(scenario.name));
    const row = await played(scenario, { chance, timeline, tell: progress.tell, signal, minutes, keys, tries });
    timeline.stretch('scenarios', scenario.name, fromMs, performance.now());
    rows.push(row);
    progress.end(row);
  }
  return { rows, timeline };
}

async function played(scenario: Scenario, context: Context): Promise<Row> {
  const fromMs = performance.now();
  try {
    return await scenario.run(context);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      scenario: scenario.name,
      about: scenario.about,
      answers: [],
      longestWaitMs: 0,
      waitAllowedMs: 0,
      quotas: [],
      bans: 'not tried',
      normalAfterMs: null,
      leftovers: [],
      notes: [],
      broken: [`It could not be played: ${why}`],
      tookMs: performance.now() - fromMs,
    };
  }
}

function hashOf(name: string): number {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + character.charCodeAt(0)) % 1_000_003;
  return hash;
}
