import type { Decision } from '../engine/types.ts';
import { DECIDED_JUDGEMENTS } from '../model/refusal.ts';
import { ADMITTED, BANNED, REFUSED } from './log-line.ts';

/** Requests by verdict, and the bans that began. */
export interface Verdicts {
  readonly admitted: number;
  readonly refused: number;
  readonly banned: number;
  readonly bans: number;
}

export interface Counts {
  readonly requests: number;
  /** According to the log. */
  readonly recorded: Verdicts;
  /** Under the plans of the replay. */
  readonly simulated: Verdicts;
  /** Requests that were admitted and would be refused, for the quota or under a ban. */
  readonly newlyRefused: number;
  readonly newlyAdmitted: number;
  /** Requests without a decision: their plan is not in the file, or needs limits that the key does not have. */
  readonly unserved: number;
}

/** The result of replaying one row. */
export interface Replayed {
  /** Index in DECIDED_JUDGEMENTS. */
  readonly judgement: number;
  readonly count: number;
  /** Whether a ban began with this row according to the log. */
  readonly bannedThen: boolean;
  /** Whether a ban began with this row in the replay. */
  readonly bannedNow: boolean;
  /** Null if the plans of the replay have no limits for the key. */
  readonly decision: Decision | null;
}

/** Counts by the number of a plan or a key. Stored in columns, because there may be a million keys. */
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
    this.#recorded = DECIDED_JUDGEMENTS.map(column);
    this.#simulated = DECIDED_JUDGEMENTS.map(column);
    this.#bans = { recorded: column(), simulated: column() };
    this.#newlyRefused = column();
    this.#newlyAdmitted = column();
    this.#unserved = column();
  }

  add(number: number, { judgement, count, bannedThen, bannedNow, decision }: Replayed): void {
    this.#recorded[judgement]![number]! += count;
    if (bannedThen) this.#bans.recorded[number]! += 1;
    if (decision === null) {
      this.#unserved[number]! += count;
      return;
    }
    const { admitted, bannedFrom } = decision;
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

export function sumOf(all: readonly Counts[]): Counts {
  const sum = (pick: (counts: Counts) => number) => all.reduce((total, counts) => total + pick(counts), 0);
  const verdicts = (pick: (counts: Counts) => Verdicts): Verdicts => ({
    admitted: sum((counts) => pick(counts).admitted),
    refused: sum((counts) => pick(counts).refused),
    banned: sum((counts) => pick(counts).banned),
    bans: sum((counts) => pick(counts).bans),
  });
  return {
    requests: sum(({ requests }) => requests),
    recorded: verdicts(({ recorded }) => recorded),
    simulated: verdicts(({ simulated }) => simulated),
    newlyRefused: sum(({ newlyRefused }) => newlyRefused),
    newlyAdmitted: sum(({ newlyAdmitted }) => newlyAdmitted),
    unserved: sum(({ unserved }) => unserved),
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

/** The counts of one interval of time. */
export interface Bucket {
  /** Unix milliseconds. */
  readonly fromMs: number;
  readonly counts: Counts;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS_MS = [1, 2, 5, 10, 15, 30]
  .flatMap((n) => [n * SECOND, n * MINUTE])
  .concat([HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 30 * DAY])
  .sort((a, b) => a - b);
const MAX_BUCKETS = 120;

/** Counts by time, in at most about 120 intervals of a round length. */
export class Timeline {
  readonly stepMs: number;
  readonly #fromMs: number;
  readonly #tally: Tally;

  constructor(firstAtMs: number, lastAtMs: number) {
    const spanMs = Math.max(lastAtMs - firstAtMs, 1);
    this.stepMs = STEPS_MS.find((step) => spanMs / step <= MAX_BUCKETS) ?? Math.ceil(spanMs / MAX_BUCKETS);
    this.#fromMs = Math.floor(firstAtMs / this.stepMs) * this.stepMs;
    this.#tally = new Tally(Math.floor((lastAtMs - this.#fromMs) / this.stepMs) + 1);
  }

  add(atMs: number, replayed: Replayed): void {
    this.#tally.add(Math.floor((atMs - this.#fromMs) / this.stepMs), replayed);
  }

  buckets(): Bucket[] {
    return Array.from({ length: this.#tally.size }, (_, i) => ({
      fromMs: this.#fromMs + i * this.stepMs,
      counts: this.#tally.of(i),
    }));
  }
}
