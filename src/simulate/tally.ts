import type { Outcome } from '../admit/decide.ts';
import { ADMITTED, BANNED, JUDGEMENTS, REFUSED } from './log-line.ts';

/** What became of requests. */
export interface Verdicts {
  readonly admitted: number;
  readonly refused: number;
  readonly banned: number;
  /** Bans that began. */
  readonly bans: number;
}

export interface Counts {
  readonly requests: number;
  /** What really happened. */
  readonly recorded: Verdicts;
  /** What the plans of the replay make of it. */
  readonly simulated: Verdicts;
  /** Requests that were admitted and would be refused, for the quota or under a ban. */
  readonly newlyRefused: number;
  readonly newlyAdmitted: number;
  /** Requests that could not be decided at all: their plan is not in the file, or wants limits that the key has not. */
  readonly unserved: number;
}

/** What one row of the log came to. */
export interface Replayed {
  /** Index in JUDGEMENTS. */
  readonly judgement: number;
  readonly count: number;
  /** Whether the log says that a ban began with it. */
  readonly bannedThen: boolean;
  readonly bannedNow: boolean;
  /** Null where the plans of the replay have nothing for it. */
  readonly outcome: Outcome | null;
}

/** Counts by number: of plans, of keys. In columns, because there may be a million keys. */
export class Tally {
  readonly size: number;
  readonly #recorded: readonly Float64Array[];
  readonly #simulated: readonly Float64Array[];
  readonly #bans: { readonly recorded: Float64Array; readonly simulated: Float64Array };
  readonly #newlyRefused: Float64Array;
  readonly #newlyAdmitted: Float64Array;
  readonly #unserved: Float64Array;

  constructor(size: number) {
    const column = () => new Float64Array(size);
    this.size = size;
    this.#recorded = JUDGEMENTS.map(column);
    this.#simulated = JUDGEMENTS.map(column);
    this.#bans = { recorded: column(), simulated: column() };
    this.#newlyRefused = column();
    this.#newlyAdmitted = column();
    this.#unserved = column();
  }

  add(number: number, { judgement, count, bannedThen, bannedNow, outcome }: Replayed): void {
    this.#recorded[judgement]![number]! += count;
    if (bannedThen) this.#bans.recorded[number]! += 1;
    if (outcome === null) {
      this.#unserved[number]! += count;
      return;
    }
    const { admitted, bannedFrom } = outcome;
    this.#simulated[ADMITTED]![number]! += admitted;
    this.#simulated[REFUSED]![number]! += bannedFrom - admitted;
    this.#simulated[BANNED]![number]! += count - bannedFrom;
    if (bannedNow) this.#bans.simulated[number]! += 1;
    if (judgement === ADMITTED) this.#newlyRefused[number]! += count - admitted;
    else this.#newlyAdmitted[number]! += admitted;
  }

  of(number: number): Counts {
    const recorded = verdicts(this.#recorded, this.#bans.recorded, number);
    return {
      requests: recorded.admitted + recorded.refused + recorded.banned,
      recorded,
      simulated: verdicts(this.#simulated, this.#bans.simulated, number),
      newlyRefused: this.#newlyRefused[number]!,
      newlyAdmitted: this.#newlyAdmitted[number]!,
      unserved: this.#unserved[number]!,
    };
  }
}

/** What all of them come to together. */
export function sumOf(all: readonly Counts[]): Counts {
  const sum = (pick: (counts: Counts) => number) => all.reduce((total, counts) => total + pick(counts), 0);
  const verdicts = (pick: (counts: Counts) => Verdicts): Verdicts => ({
    admitted: sum((it) => pick(it).admitted),
    refused: sum((it) => pick(it).refused),
    banned: sum((it) => pick(it).banned),
    bans: sum((it) => pick(it).bans),
  });
  return {
    requests: sum((it) => it.requests),
    recorded: verdicts((it) => it.recorded),
    simulated: verdicts((it) => it.simulated),
    newlyRefused: sum((it) => it.newlyRefused),
    newlyAdmitted: sum((it) => it.newlyAdmitted),
    unserved: sum((it) => it.unserved),
  };
}

function verdicts(columns: readonly Float64Array[], bans: Float64Array, number: number): Verdicts {
  return {
    admitted: columns[ADMITTED]![number]!,
    refused: columns[REFUSED]![number]!,
    banned: columns[BANNED]![number]!,
    bans: bans[number]!,
  };
}
