import { type AccountState, costExceedsLimit, decide, NO_STRIKES, stateAfter, UNSEEN } from '../admit/decide.ts';
import { type Allowance, allowanceOf, type Limit, type Limits, type Plan, type Plans } from '../admit/plan.ts';
import { type SliceCounts, WINDOWS, type WindowCount, type WindowName } from '../admit/windows.ts';
import { REFUSED } from './log-line.ts';
import {
  BAN_SHIFT,
  type Census,
  CONSUMER,
  COST,
  COUNT,
  FLAGS,
  inOrderOfDecision,
  JUDGEMENT_BITS,
  LOCAL_BIT,
  MEMORY_BIT,
  type Recording,
  type Rows,
  SHAPE,
  type Shape,
} from './recording.ts';
import { type Bucket, type Counts, type Replayed, sumOf, Tally, Timeline } from './tally.ts';

interface ReplayOptions {
  /** The plans to simulate. */
  readonly plans: Plans;
  /** The plans in force while the log was written; null: inferred from the log. */
  readonly before: Plans | null;
  /** Called now and then with how many lines have been replayed. */
  readonly onProgress?: (lines: number) => void;
}

/** The result of a replay. Counts are requests, without those that gateways decided locally. */
export interface Replay {
  /** When the first and the last request were decided, Unix milliseconds. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly census: Readonly<Census>;
  readonly inForce: CarriedOver['inForce'];
  readonly totals: Counts;
  readonly plans: readonly PlanReplay[];
  /** Every key in the log, in no order. */
  readonly keys: Iterable<KeyReplay>;
  /** The requests that gateways decided locally, while their store was away. */
  readonly local: Counts;
  readonly timeline: { readonly stepMs: number; readonly buckets: readonly Bucket[] };
  /** Requests whose verdict, and bans whose moment or number, differ from the log. */
  readonly differs: { readonly verdicts: number; readonly bans: number };
}

export interface PlanReplay {
  readonly plan: string;
  readonly keys: number;
  readonly keysBannedThen: number;
  readonly keysBannedNow: number;
  /** Keys with a request that was admitted and would be refused. */
  readonly keysNewlyRefused: number;
  readonly counts: Counts;
}

export interface KeyReplay {
  readonly id: string;
  /** The key's last plan in the log. */
  readonly plan: string;
  readonly counts: Counts;
  /** When its first ban would begin, Unix milliseconds; null if none would. */
  readonly bannedAtMs: number | null;
  /** Its limits that were not its plan's, at its last request; null if the record does not show which those are. */
  readonly ownLimits: Limits | null;
}

/**
 * Decides all recorded requests again, at the recorded times, under other plans, with the gateway's own `decide`. With the
 * plans that were in force, an empty store at the beginning and no sampling, every verdict equals the recorded one.
 */
export function replay(recording: Recording, { plans, before, onProgress }: ReplayOptions): Replay {
  const carried = carryOver(recording.shapes, plans, before);
  const run = new Run(recording, carried);
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
  readonly #carried: CarriedOver;
  readonly #accounts: Accounts;
  readonly #planNames: readonly string[];
  readonly #planOfShape: Uint32Array;
  readonly #byPlan: Tally;
  readonly #byKey: Tally;
  readonly #shapeOfKey: Uint32Array;
  readonly #bannedAtMs: Float64Array;
  /** The last ban in the log, so that a ban in two lines counts once. */
  #lastBan = { consumer: -1, number: 0, atMs: 0 };

  constructor(recording: Recording, carried: CarriedOver) {
    const { consumerCount, shapes } = recording;
    this.#recording = recording;
    this.#carried = carried;
    this.#accounts = new Accounts(consumerCount);
    this.#planNames = [...new Set(shapes.map(({ plan }) => plan))].sort();
    const numbers = new Map(this.#planNames.map((plan, number) => [plan, number]));
    this.#planOfShape = Uint32Array.from(shapes, ({ plan }) => numbers.get(plan)!);
    this.#byPlan = new Tally(this.#planNames.length);
    this.#byKey = new Tally(consumerCount);
    this.#shapeOfKey = new Uint32Array(consumerCount);
    this.#bannedAtMs = new Float64Array(consumerCount);
    this.timeline = new Timeline(recording.firstAtMs, recording.lastAtMs);
  }

  visit(rows: Rows, row: number): void {
    const atMs = rows.momentMs(row);
    const consumer = rows.word(row, CONSUMER);
    const shape = rows.word(row, SHAPE);
    const plan = this.#planOfShape[shape]!;
    const isLocal = (rows.word(row, FLAGS) & LOCAL_BIT) !== 0;
    const replayed = this.#decide(rows, row, consumer, atMs);
    this.#shapeOfKey[consumer] = shape;
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
    const recordedBan = this.#newBan(consumer, flags >>> BAN_SHIFT, atMs);
    const allowance = this.#carried.allowances[rows.word(row, SHAPE)]!;
    if (allowance === null) return { judgement, count, bannedThen: recordedBan > 0, bannedNow: false, outcome: null };
    // A plan that is not enforced does not use the account.
    const before = allowance.isShadowOnly ? UNSEEN : this.#accounts.get(consumer, allowance);
    const cost = rows.word(row, COST);
    const isRemembered =
      (flags & MEMORY_BIT) !== 0 && judgement === REFUSED && costExceedsLimit(allowance.limits, cost);
    const outcome = isRemembered
      ? // The gateway did not call the store, so it did not see a ban that another gateway had caused.
        { nowMs: atMs, cost, n: count, admitted: 0, bannedFrom: count, state: before }
      : decide(before, allowance, atMs, cost, count);
    if (!allowance.isShadowOnly && !isRemembered)
      this.#accounts.set(consumer, allowance, stateAfter(before, outcome, allowance));
    const { ban } = outcome.state;
    const isFree = before.ban === null || atMs >= before.ban.untilMs;
    const bannedNow = ban !== null && outcome.bannedFrom < count && isFree;
    if ((flags & LOCAL_BIT) === 0) {
      const same = [outcome.admitted, outcome.bannedFrom - outcome.admitted, count - outcome.bannedFrom][judgement]!;
      this.differs.verdicts += count - same;
      if (recordedBan !== (bannedNow ? ban.number : 0)) this.differs.bans++;
    }
    return { judgement, count, bannedThen: recordedBan > 0, bannedNow, outcome };
  }

  /** The number of the ban that began here according to the log; 0 if none did, or an earlier line has the same ban. */
  #newBan(consumer: number, number: number, atMs: number): number {
    const last = this.#lastBan;
    if (number === 0 || (last.consumer === consumer && last.number === number && last.atMs === atMs)) return 0;
    this.#lastBan = { consumer, number, atMs };
    return number;
  }

  plans(): PlanReplay[] {
    const keys = this.#planNames.map(() => ({ keys: 0, keysBannedThen: 0, keysBannedNow: 0, keysNewlyRefused: 0 }));
    for (let key = 0; key < this.#byKey.size; key++) {
      const ofPlan = keys[this.#planOfShape[this.#shapeOfKey[key]!]!]!;
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
      const shape = this.#shapeOfKey[key]!;
      const plan = this.#planNames[this.#planOfShape[shape]!]!;
      yield { id, plan, counts: this.#byKey.of(key), bannedAtMs, ownLimits: this.#carried.ownLimits[shape]! };
      key++;
    }
  }
}

/**
 * The state of every consumer, in columns: about 100 bytes for each consumer, where objects would take several hundred
 * and work for the garbage collector.
 */
class Accounts {
  readonly #windows: Partial<Record<WindowName, WindowColumns>> = {};
  readonly #strikes: Float64Array;
  readonly #strikesEndAtMs: Float64Array;
  readonly #banNumber: Float64Array;
  readonly #banUntilMs: Float64Array;
  /** Index in WINDOWS. */
  readonly #banWindow: Uint8Array;
  readonly #consumers: number;

  constructor(consumers: number) {
    this.#consumers = consumers;
    this.#strikes = new Float64Array(consumers);
    this.#strikesEndAtMs = new Float64Array(consumers);
    this.#banNumber = new Float64Array(consumers);
    this.#banUntilMs = new Float64Array(consumers);
    this.#banWindow = new Uint8Array(consumers);
  }

  /** The state for `decide`. As in a store, windows that the allowance does not count are kept unchanged. */
  get(consumer: number, { limits }: Allowance): AccountState {
    const windows: Partial<Record<WindowName, WindowCount>> = {};
    for (const { window } of limits) {
      const column = this.#windows[window];
      const endsAtMs = column?.endsAtMs[consumer] ?? 0;
      if (endsAtMs === 0) continue;
      const slices = column!.slices.get(consumer);
      windows[window] = { used: column!.used[consumer]!, endsAtMs, ...(slices === undefined ? {} : { slices }) };
    }
    const count = this.#strikes[consumer]!;
    const number = this.#banNumber[consumer]!;
    return {
      windows,
      strikes: count === 0 ? NO_STRIKES : { count, endsAtMs: this.#strikesEndAtMs[consumer]! },
      ban:
        number === 0
          ? null
          : { number, untilMs: this.#banUntilMs[consumer]!, window: WINDOWS[this.#banWindow[consumer]!]! },
    };
  }

  set(consumer: number, { limits }: Allowance, { windows, strikes, ban }: AccountState): void {
    for (const { window } of limits) {
      this.#windows[window] ??= {
        used: new Float64Array(this.#consumers),
        endsAtMs: new Float64Array(this.#consumers),
        slices: new Map(),
      };
      const open = windows[window];
      if (open?.slices === undefined) this.#windows[window].slices.delete(consumer);
      else this.#windows[window].slices.set(consumer, open.slices);
      this.#windows[window].used[consumer] = open?.used ?? 0;
      this.#windows[window].endsAtMs[consumer] = open?.endsAtMs ?? 0;
    }
    this.#strikes[consumer] = strikes.count;
    this.#strikesEndAtMs[consumer] = strikes.endsAtMs;
    this.#banNumber[consumer] = ban?.number ?? 0;
    this.#banUntilMs[consumer] = ban?.untilMs ?? 0;
    if (ban !== null) this.#banWindow[consumer] = WINDOWS.indexOf(ban.window);
  }
}

/** One window of all consumers. */
interface WindowColumns {
  readonly used: Float64Array;
  readonly endsAtMs: Float64Array;
  /** Of sliding windows. */
  readonly slices: Map<number, SliceCounts>;
}

type PlanLimits = Plan['limits'];
type Windows<T> = Partial<Record<WindowName, T>>;

/** The limits that a plan had while the log was written. */
interface BansInForce {
  readonly limits: PlanLimits;
  /** False: the plan was not enforced, so its lines have no limits. */
  readonly enforce: boolean;
  /** Whether the limits were inferred from the log, because no file has them. */
  readonly isInferred: boolean;
  /** The share of the plan's keys that had limits of their own, 0 to 1. */
  readonly ownShare: number;
}

/** The allowances of recorded keys under other plans. */
interface CarriedOver {
  /** By the number of the shape; null if no request of such a key could be served. */
  readonly allowances: readonly (Allowance | null)[];
  /** By the number of the shape; null if the plan's limits are not known, or were not enforced. */
  readonly ownLimits: readonly (Limits | null)[];
  /** The limits in force for each plan in the log. */
  readonly inForce: ReadonlyMap<string, BansInForce>;
}

/**
 * Separates the key's own limits in the log from the plan's: a limit that differs from the plan's is the key's own. The
 * key keeps its own limits under the new plan; all others follow the plan (contract section 2).
 *
 * A key's own limit that equals the plan's cannot be recognised, and follows the plan.
 * @param before the plans that were in force; null: inferred from the log as the limits of most keys of each plan
 */
function carryOver(shapes: readonly Shape[], plans: Plans, before: Plans | null): CarriedOver {
  const read = shapes.map((shape) => ({ ...shape, limits: limitsOf(shape.limits) }));
  const inForce = new Map<string, BansInForce>();
  for (const [plan, ofPlan] of Map.groupBy(read, (shape) => shape.plan)) {
    const given = before?.plans.get(plan);
    const had = { limits: given?.limits ?? commonLimits(ofPlan), enforce: given?.enforce ?? true };
    const own = sum(ofPlan.filter((shape) => Object.keys(ownLimits(shape.limits, had)).length > 0));
    inForce.set(plan, { ...had, isInferred: given === undefined, ownShare: own / sum(ofPlan) });
  }
  const allowances = read.map((shape) => {
    const plan = plans.plans.get(shape.plan);
    return plan === undefined ? null : allowanceUnder(plan, shape.limits, inForce.get(shape.plan)!);
  });
  const own = read.map(({ plan, limits }) => {
    const had = inForce.get(plan)!;
    return had.isInferred || !had.enforce ? null : ownLimits(limits, had);
  });
  return { allowances, ownLimits: own, inForce };
}

function allowanceUnder(plan: Plan, line: Windows<number>, had: BansInForce): Allowance | null {
  const own = ownLimits(line, had);
  if (had.isInferred) {
    // The log does not show whether a limit was the key's own. A key without one could not be used under `custom`.
    for (const window of WINDOWS) if (plan.limits[window] === 'custom') own[window] ??= line[window] ?? 'unlimited';
  }
  const allowance = allowanceOf(plan, own);
  return 'missing' in allowance ? null : allowance;
}

/** A window that is not in the line is either not in the plan or `unlimited`. */
function ownLimits(line: Windows<number>, { limits, enforce }: Pick<Plan, 'limits' | 'enforce'>): Windows<Limit> {
  const own: Windows<Limit> = {};
  if (!enforce) return own;
  for (const window of WINDOWS) {
    const [had, was] = [line[window], limits[window]];
    if (had === undefined) {
      if (was === 'custom' || typeof was === 'number') own[window] = 'unlimited';
    } else if (had !== was) own[window] = had;
  }
  return own;
}

/** For each window, the limit that more than half of the keys had; `custom` if there is none. */
function commonLimits(shapes: readonly { readonly limits: Windows<number>; readonly consumers: number }[]): PlanLimits {
  const common: Windows<number | 'custom'> = {};
  for (const window of WINDOWS) {
    const counts = new Map<number | undefined, number>();
    for (const { limits, consumers } of shapes) {
      counts.set(limits[window], (counts.get(limits[window]) ?? 0) + consumers);
    }
    const [most, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (2 * count <= sum(shapes)) common[window] = 'custom';
    else if (most !== undefined) common[window] = most;
  }
  return common;
}

function limitsOf(text: string): Windows<number> {
  return JSON.parse(`{${text}}`) as Windows<number>;
}

function sum(shapes: readonly { readonly consumers: number }[]): number {
  return shapes.reduce((total, { consumers }) => total + consumers, 0);
}
