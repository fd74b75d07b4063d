import type { Options } from './options.ts';
import { WARM_UP_S } from './run.ts';
import type { Scenario } from './scenarios.ts';

/** Starting one contestant and trying what it claims. */
const START_S = 1.5;
/** What a turn takes beside its load. */
const TURN_S = 0.4;
/** Making keys, bringing up Redis and the upstream, ending all. */
const WORLD_S = 3;
const PER_MILLION_KEYS_S = 30;
const START_ROUND_S = 4;

/** How long a run is expected to take, in seconds, without what has to be fetched first. */
export function expectedS(options: Options): number {
  const scenarios = options.scenarios.reduce((sum, scenario) => sum + scenarioS(scenario, options), 0);
  return scenarios + (options.start ? (options.rounds + 1) * START_ROUND_S : 0);
}

/** After so long it is broken off, whatever hangs. */
export function longestS(options: Options): number {
  return expectedS(options) * 1.5 + 600;
}

function scenarioS(
  { contestants, fixedRate, beside, keys, keyKind, warmUpS = WARM_UP_S }: Scenario,
  { only, against, rounds, seconds }: Options,
): number {
  const names = contestants.filter((name) => only === null || only.includes(name));
  const taking = names.length + (against !== null && names.includes('tollgate') ? 1 : 0);
  const turns = taking * rounds * (1 + (fixedRate ? 1 : 0) + (beside === undefined ? 0 : 1));
  const keysS = keyKind === 'good' ? (keys / 1e6) * PER_MILLION_KEYS_S : 0;
  return WORLD_S + keysS + taking * (START_S + warmUpS) + turns * (seconds + TURN_S);
}
