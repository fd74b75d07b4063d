import { decide, isHopeless, UNSEEN } from '../admit/decide.ts';
import type { Allowance, Plans } from '../admit/plan.ts';
import { Accounts } from './accounts.ts';
import { type CarriedOver, carryOver } from './carry-over.ts';
import { REFUSED } from './log-line.ts';
import { inOrderOfDecision } from './merge.ts';
import type { Census, Recording } from './recording.ts';
import {
  BAN_SHIFT,
  CONSUMER,
  COST,
  COUNT,
  FLAGS,
  JUDGEMENT_BITS,
  LOCAL_BIT,
  MEMORY_BIT,
  type Rows,
  SHAPE,
} from './rows.ts';
import { type Counts, type Replayed, sumOf, Tally } from './tally.ts';
import { type Bucket, Timeline } from './timeline.ts';

export interface ReplayOptions {
  /** What is tried. */
  readonly plans: Plans;
  /** What was in force while the log was written; null: read off the log. */
  readonly before: Plans | null;
  /** Called now and then with how many lines have been replayed. */
  readonly onProgress?: (lines: number) => void;
}

/** What came of a replay. Counts are requests, without those that were decided while the store was away. */
export interface Replay {
  /** When the first and the last request were decided, Unix milliseconds. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly census: Readonly<Census>;
  readonly inForce: CarriedOver['inForce'];
  readonly totals: Counts;
  readonly plans: readonly PlanReplay[];
  /** Of every key that the log names, in no order. */
  readonly keys: Iterable<KeyReplay>;
  /** Decided by gateways alone while their store was away. */
  readonly local: Counts;
  readonly timeline: { readonly stepMs: number; readonly buckets: readonly Bucket[] };
  /** Requests whose verdict, and bans whose moment or number, are not what the log says. */
  readonly differs: { readonly verdicts: number; readonly bans: number };
}

export interface PlanReplay {
  readonly plan: string;
  readonly keys: number;
  readonly keysBannedThen: number;
  readonly keysBannedNow: number;
  /** Keys of which a request was admitted and would be refused. */
  readonly keysNewlyRefused: number;
  readonly counts: Counts;
}

export interface KeyReplay {
  readonly id: string;
  /** The last one that the log names. */
  readonly plan: string;
  readonly counts: Counts;
  /** When its first ban would begin, Unix milliseconds; null where none would. */
  readonly bannedAtMs: number | null;
}

/**
 * Decides everything that was recorded anew, on the recorded times, by other plans, with the function that the gateway
 * itself decides by. With the plans that were in force, from an empty store on and without sampling, it comes to the
 * recorded verdicts, one by one.
 */
export function replay(recording: Recording, { plans, before, onProgress }: ReplayOptions): Replay {
  const carried = carryOver(recording.shapes, plans, before);
  const run = new Run(recording, carried.allowances);
  let lines = 0;
  inOrderOfDecision(recording.runs, (rows, row) => {
    run.visit(rows, row);
    if (++lines % 65_536 === 0) onProgress?.(lines);
  });
  const { firstAtMs: fromMs, lastAtMs: toMs, census } = recording;
  const planResults = run.plans();
  return {
    fromMs,
    toMs,
    census,
    inForce: carried.inForce,
    totals: sumOf(planResults.map(({ counts }) => counts)),
    plans: planResults,
    keys: { [Symbol.iterator]: () => run.keys() },
    local: run.local.of(0),
    timeline: { stepMs: run.timeline.stepMs, buckets: run.timeline.buckets() },
    differs: run.differs,
  };
}

class Run {
  readonly timeline: Timeline;
  readonly local = new Tally(1);
  readonly differs = { verdicts: 0, bans: 0 };
  readonly #recording: Recording;
  readonly #allowances: readonly (Allowance | null)[];
  readonly #accounts: Accounts;
  readonly #planNames: readonly string[];
  readonly #planOfShape: Uint32Array;
  readonly #byPlan: Tally;
  readonly #byKey: Tally;
  readonly #planOfKey: Uint32Array;
  readonly #bannedAtMs: Float64Array;
  /** The ban that was last told in the log, so that one that two lines claim counts once. */
  #told = { consumer: -1, number: 0, atMs: 0 };

  constructor(recording: Recording, allowances: readonly (Allowance | null)[]) {
    const { consumerCount, shapes } = recording;
    this.#recording = recording;
    this.#allowances = allowances;
    this.#accounts = new Accounts(consumerCount);
    this.#planNames = [...new Set(shapes.map(({ plan }) => plan))].sort();
    const numbers = new Map(this.#planNames.map((plan, number) => [plan, number]));
    this.#planOfShape = Uint32Array.from(shapes, ({ plan }) => numbers.get(plan)!);
    this.#byPlan = new Tally(this.#planNames.length);
    this.#byKey = new Tally(consumerCount);
    this.#planOfKey = new Uint32Array(consumerCount);
    this.#bannedAtMs = new Float64Array(consumerCount);
    this.timeline = new Timeline(recording.firstAtMs, recording.lastAtMs);
  }

  visit(rows: Rows, row: number): void {
    const atMs = rows.momentMs(row);
    const consumer = rows.word(row, CONSUMER);
    const plan = this.#planOfShape[rows.word(row, SHAPE)]!;
    const isLocal = (rows.word(row, FLAGS) & LOCAL_BIT) !== 0;
    const replayed = this.#decide(rows, row, consumer, atMs);
    this.#planOfKey[consumer] = plan;
    if (isLocal) {
      this.local.add(0, replayed);
      return;
    }
    this.#byPlan.add(plan, replayed);
    this.#byKey.add(consumer, replayed);
    this.timeline.add(atMs, replayed);
    if (replayed.bannedNow && this.#bannedAtMs[consumer] === 0) this.#bannedAtMs[consumer] = atMs;
  }

  #decide(rows: Rows, row: number, consumer: number, atMs: number): Replayed {
    const count = rows.word(row, COUNT);
    const flags = rows.word(row, FLAGS);
    const judgement = flags & JUDGEMENT_BITS;
    const told = this.#tell(consumer, flags >>> BAN_SHIFT, atMs);
    const allowance = this.#allowances[rows.word(row, SHAPE)]!;
    if (allowance === null) return { judgement, count, bannedThen: told > 0, bannedNow: false, outcome: null };
    // A plan that refuses nobody leaves the account alone.
    const before = allowance.isShadowOnly ? UNSEEN : this.#accounts.get(consumer, allowance);
    const cost = rows.word(row, COST);
    const isRemembered = (flags & MEMORY_BIT) !== 0 && judgement === REFUSED && isHopeless(allowance, cost);
    const outcome = isRemembered
      ? // The gateway did not ask, and so did not hear of a ban that another had brought about meanwhile.
        { nowMs: atMs, cost, n: count, admitted: 0, bannedFrom: count, state: before }
      : decide(before, allowance, atMs, cost, count);
    if (!allowance.isShadowOnly && !isRemembered) this.#accounts.set(consumer, allowance, outcome.state);
    const { ban } = outcome.state;
    const isFree = before.ban === null || atMs >= before.ban.untilMs;
    const bannedNow = ban !== null && outcome.bannedFrom < count && isFree;
    if ((flags & LOCAL_BIT) === 0) {
      const same = [outcome.admitted, outcome.bannedFrom - outcome.admitted, count - outcome.bannedFrom][judgement]!;
      this.differs.verdicts += count - same;
      if (told !== (bannedNow ? ban.number : 0)) this.differs.bans++;
    }
    return { judgement, count, bannedThen: told > 0, bannedNow, outcome };
  }

  /** The number of the ban that the log says began here; 0 for none, and for one that another line has told already. */
  #tell(consumer: number, number: number, atMs: number): number {
    const told = this.#told;
    if (number === 0 || (told.consumer === consumer && told.number === number && told.atMs === atMs)) return 0;
    this.#told = { consumer, number, atMs };
    return number;
  }

  plans(): PlanReplay[] {
    const keys = this.#planNames.map(() => ({ keys: 0, keysBannedThen: 0, keysBannedNow: 0, keysNewlyRefused: 0 }));
    for (let key = 0; key < this.#byKey.size; key++) {
      const ofPlan = keys[this.#planOfKey[key]!]!;
      const { recorded, simulated, newlyRefused } = this.#byKey.of(key);
      ofPlan.keys++;
      if (recorded.bans > 0) ofPlan.keysBannedThen++;
      if (simulated.bans > 0) ofPlan.keysBannedNow++;
      if (newlyRefused > 0) ofPlan.keysNewlyRefused++;
    }
    return this.#planNames.map((plan, i) => ({ plan, ...keys[i]!, counts: this.#byPlan.of(i) }));
  }

  *keys(): Generator<KeyReplay> {
    let key = 0;
    for (const id of this.#recording.consumers) {
      const bannedAtMs = this.#bannedAtMs[key]! === 0 ? null : this.#bannedAtMs[key]!;
      yield { id, plan: this.#planNames[this.#planOfKey[key]!]!, counts: this.#byKey.of(key), bannedAtMs };
      key++;
    }
  }
}
