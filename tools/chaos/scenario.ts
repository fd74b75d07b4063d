import type { Chance } from '../kit/chance.ts';
import type { Fault } from './fault.ts';
import { round } from './round.ts';
import type { Row } from './row.ts';
import { openStand, type StandOptions } from './stand/stand.ts';
import type { Timeline } from './timeline.ts';

export interface Context {
  readonly chance: Chance;
  readonly timeline: Timeline;
  /** What goes on, for whoever watches. */
  readonly tell: (what: string) => void;
  readonly signal: AbortSignal;
  /** How long the soak takes. */
  readonly minutes: number;
  /** How many keys are used once. */
  readonly keys: number;
  /** How many keys are revoked in failovers. */
  readonly tries: number;
}

/** One row of the report. */
export interface Scenario {
  readonly name: string;
  readonly about: string;
  /** The same as in the row. */
  run(context: Context): Promise<Row>;
}

/** A fault by itself, on a stand that nothing has happened to. */
export function scenarioOf(fault: Fault, options: StandOptions): Scenario {
  const { name, about } = fault;
  return {
    name,
    about,
    run: async ({ chance, timeline }) => {
      const stand = await openStand(options);
      try {
        return await round(fault, { stand, chance, timeline });
      } finally {
        await stand.close();
      }
    },
  };
}
