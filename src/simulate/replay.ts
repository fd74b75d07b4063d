import { partsOfAccount } from '../admit/account-id.ts';
import { type Allowance, bitOfUnit, unitNamesOf, withBudgets } from '../admit/allowance.ts';
import { ALL_UNSEEN, accountsAfter, decide, exceedsLimit, settled, settledWindows } from '../admit/decision.ts';
import type { AccountState, Amounts, Decision } from '../engine/types.ts';
import type { Limits, Plans } from '../model/plan.ts';
import { type CarriedOver, carryOver } from './carried-limits.ts';
import { ADMITTED, REFUSED } from './log-line.ts';
import {
  BAN_SHIFT,
  type Census,
  CONSUMER,
  COST,
  COUNT,
  FLAGS,
  JUDGEMENT_BITS,
  KIND,
  LOCAL_BIT,
  MEMORY_BIT,
  type Recording,
  type Rows,
} from './recording.ts';
import { Accounts } from './simulated-accounts.ts';
import { type Bucket, type Counts, type Replayed, sumOf, Tally, Timeline } from './tally.ts';

interface ReplayOptions {
  /** The plans to simulate. */
  readonly plans: Plans;
  /** The plans in force while the log was written; null: inferred from the log. */
  readonly before: Plans | null;
  /** True for a replay of the plans in force themselves; they are both `plans` and `before` then. */
  readonly isBaseline?: boolean;
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
  /** The customers, whose limits their keys share, and the keys without a customer. */
  readonly callers: Iterable<CallerReplay>;
  /** The requests that gateways decided locally, while their store was away. */
  readonly local: Counts;
  readonly timeline: { readonly stepMs: number; readonly buckets: readonly Bucket[] };
  /** Units that a plan of the log limits now, and that no request of it in the log charges. */
  readonly uncharged: readonly { readonly plan: string; readonly unit: string }[];
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
  /** Null for a key without a customer. A key that was moved to another customer is listed for each. */
  readonly customerId: string | null;
  /** The key's last plan in the log. */
  readonly plan: string;
  readonly counts: Counts;
  /** When its first ban would begin, Unix milliseconds; null if none would. */
  readonly bannedAtMs: number | null;
  /** Its limits that were not its plan's, at its last request; null if the record does not show which those are. */
  readonly ownLimits: Limits | null;
}

/** A customer, or a key without one. */
export interface CallerReplay extends Pick<KeyReplay, 'id' | 'plan' | 'counts' | 'bannedAtMs'> {
  /** How many keys of the customer the log has; null for a key without a customer. */
  readonly keys: number | null;
}

/**
 * Decides all recorded requests again, at the recorded times, under other plans, with the gateway's own `decide`. With the
 * plans that were in force, an empty store at the beginning and no sampling, every verdict equals the recorded one.
 *
 * A request charges the units that it charged then, and is settled at the moment of its decision, because the log does not say when
 * its answer had come. One that was refused then and is admitted now pays what it would have taken in advance. So the equality holds
 * for units as far as no request was decided between the decision and the settlement of another one.
 */
export function replay(recording: Recording, { plans, before, isBaseline, onProgress }: ReplayOptions): Replay {
  const carried = carryOver(recording.shapes, plans, before);
  const run = new Run(recording, carried, isBaseline ?? false);
  let lines = 0;
  recording.inOrderOfDecision((rows, row) => {
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
    callers: { [Symbol.iterator]: () => run.callers() },
    local: run.local.of(0),
    timeline: { stepMs: run.timeline.stepMs, buckets: run.timeline.buckets() },
    uncharged: unchargedUnits(recording, plans),
    differs: run.differs,
  };
}

function unchargedUnits({ kinds, shapes }: Recording, { plans }: Plans): Replay['uncharged'] {
  const charged = new Map<string, Set<string>>();
  for (const { shape, units } of kinds) {
    const { plan } = shapes[shape]!;
    charged.set(plan, new Set([...(charged.get(plan) ?? []), ...units]));
  }
  return [...charged].flatMap(([plan, units]) => {
    const limited = plans.has(plan) ? unitNamesOf(plans.get(plan)!) : [];
    return limited.filter((unit) => !units.has(unit)).map((unit) => ({ plan, unit }));
  });
}

class Run {
  readonly timeline: Timeline;
  readonly local = new Tally(1);
  readonly differs = { verdicts: 0, bans: 0 };
  readonly #recording: Recording;
  readonly #carried: CarriedOver;
  /** How far the groups of the plans are shifted in those of a kind of rows. */
  readonly #groupShift: number;
  readonly #charged = new Map<Allowance, Map<number, Allowance>>();
  readonly #ids: readonly string[];
  readonly #accounts: Accounts;
  readonly #planNames: readonly string[];
  readonly #planOfShape: Uint32Array;
  readonly #byPlan: Tally;
  readonly #byKey: Tally;
  readonly #shapeOfKey: Uint32Array;
  readonly #bannedAtMs: Float64Array;
  /** The last ban in the log, so that a ban in two lines counts once. */
  #lastBan = { owner: -1, number: 0, atMs: 0 };

  constructor(recording: Recording, carried: CarriedOver, isBaseline: boolean) {
    const { consumerCount, shapes } = recording;
    this.#recording = recording;
    this.#carried = carried;
    this.#groupShift = isBaseline ? 16 : 0;
    this.#ids = [...recording.consumers];
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
    const { shape, allowance } = this.#limitsAt(consumer, rows.word(row, KIND));
    const plan = this.#planOfShape[shape]!;
    const isLocal = (rows.word(row, FLAGS) & LOCAL_BIT) !== 0;
    const replayed = this.#decide(rows, row, allowance);
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

  /** The shape of a row, and the allowance of its request with the budgets of its groups and units; null if it could not be served. */
  #limitsAt(consumer: number, kind: number): { readonly shape: number; readonly allowance: Allowance | null } {
    const { shape: own, groups: all, units } = this.#recording.kinds[kind]!;
    const shape = this.#wholeShape(consumer, own);
    const allowance = this.#carried.allowances[shape]!;
    if (allowance === null) return { shape, allowance };
    let budgets = (all >>> this.#groupShift) & 0xffff;
    for (const unit of units) {
      const index = allowance.units?.names.indexOf(unit) ?? -1;
      if (index >= 0) budgets |= bitOfUnit(index);
    }
    if (budgets === 0) return { shape, allowance };
    const variants = this.#charged.get(allowance) ?? new Map<number, Allowance>();
    this.#charged.set(allowance, variants);
    const charged = variants.get(budgets) ?? withBudgets(allowance, budgets);
    variants.set(budgets, charged);
    return { shape, allowance: charged };
  }

  /** In place of a shape without the plan's limits, the one that the consumer's other requests had under the same plan. */
  #wholeShape(consumer: number, shape: number): number {
    const { shapes } = this.#recording;
    const other = shapes[shape]!.isPartial ? this.#recording.lastShapeOf(consumer) : null;
    return other !== null && shapes[other]!.plan === shapes[shape]!.plan ? other : shape;
  }

  #decide(rows: Rows, row: number, allowance: Allowance | null): Replayed {
    const atMs = rows.momentMs(row);
    const consumer = rows.word(row, CONSUMER);
    const count = rows.word(row, COUNT);
    const flags = rows.word(row, FLAGS);
    const judgement = flags & JUDGEMENT_BITS;
    const recordedBan = this.#newBan(this.#recording.ownerOf(consumer), flags >>> BAN_SHIFT, atMs);
    if (allowance === null) return { judgement, count, bannedThen: recordedBan > 0, bannedNow: false, decision: null };
    // A plan that is not enforced does not use the account.
    const before = allowance.isShadowOnly ? ALL_UNSEEN : this.#accounts.get(consumer, this.#ids[consumer]!, allowance);
    const cost = rows.word(row, COST);
    const { units } = this.#recording.kinds[rows.word(row, KIND)]!;
    const amounts = units.length === 0 ? undefined : amountsOf(units, (i) => rows.reserved(row, i));
    const isRemembered = (flags & MEMORY_BIT) !== 0 && judgement === REFUSED && exceedsLimit(allowance, cost, amounts);
    const decision: Decision = isRemembered
      ? // The gateway did not call the store, so it did not see a ban that another gateway had caused.
        { nowMs: atMs, cost, n: count, admitted: 0, bannedFrom: count, accounts: before }
      : decide(before, allowance, atMs, cost, count, undefined, amounts);
    if (!allowance.isShadowOnly && !isRemembered) {
      const after = accountsAfter(before, decision, allowance);
      const isSettled = amounts !== undefined && judgement === ADMITTED && decision.admitted > 0;
      const paid = isSettled ? amountsOf(units, (i) => rows.settled(row, i)) : null;
      const states = paid === null ? after : settledAtOnce(after, decision, allowance, paid);
      this.#accounts.set(consumer, this.#ids[consumer]!, allowance, states);
    }
    const bannedNow = decision.imposesBan === true;
    if ((flags & LOCAL_BIT) === 0) {
      const same = [decision.admitted, decision.bannedFrom - decision.admitted, count - decision.bannedFrom][
        judgement
      ]!;
      this.differs.verdicts += count - same;
      if (recordedBan !== (bannedNow ? decision.accounts[allowance.bansIn]!.ban!.number : 0)) this.differs.bans++;
    }
    return { judgement, count, bannedThen: recordedBan > 0, bannedNow, decision };
  }

  /** The number of the ban that began here according to the log; 0 if none did, or an earlier line has the same ban. */
  #newBan(owner: number, number: number, atMs: number): number {
    const last = this.#lastBan;
    if (number === 0 || (last.owner === owner && last.number === number && last.atMs === atMs)) return 0;
    this.#lastBan = { owner, number, atMs };
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
    for (const key of this.#ids.keys()) yield this.#keyAt(key);
  }

  *callers(): Generator<CallerReplay> {
    const ofCustomers = new Map<string, number[]>();
    for (const [key, accountId] of this.#ids.entries()) {
      const { customerId } = partsOfAccount(accountId);
      if (customerId === null) yield { ...this.#keyAt(key), keys: null };
      else if (ofCustomers.has(customerId)) ofCustomers.get(customerId)!.push(key);
      else ofCustomers.set(customerId, [key]);
    }
    for (const [id, numbers] of ofCustomers) {
      const keys = numbers.map((key) => this.#keyAt(key));
      const [bannedAtMs = null] = keys.flatMap(({ bannedAtMs }) => bannedAtMs ?? []).sort((a, b) => a - b);
      const counts = sumOf(keys.map(({ counts }) => counts));
      yield { id, plan: keys.at(-1)!.plan, counts, bannedAtMs, keys: keys.length };
    }
  }

  #keyAt(key: number): KeyReplay {
    const accountId = this.#ids[key]!;
    const { consumerId, customerId } = partsOfAccount(accountId);
    const bannedAtMs = this.#bannedAtMs[key]! === 0 ? null : this.#bannedAtMs[key]!;
    const shape = this.#shapeOfKey[key]!;
    const plan = this.#planNames[this.#planOfShape[shape]!]!;
    const ownLimits = this.#carried.ownLimits[shape]!;
    return { id: consumerId ?? accountId, customerId, plan, counts: this.#byKey.of(key), bannedAtMs, ownLimits };
  }
}

function amountsOf(units: readonly string[], amountOf: (index: number) => number): Amounts {
  return Object.fromEntries(units.map((unit, i) => [unit, amountOf(i)]));
}

/** The accounts once the admitted requests of a decision have paid what they cost in units. */
function settledAtOnce(
  after: readonly AccountState[],
  { accounts: decided, amounts = {}, admitted, nowMs }: Decision,
  { budgets }: Allowance,
  paid: Amounts,
): readonly AccountState[] {
  return after.map((account, i) => {
    const { unit, limits } = budgets[i]!;
    const delta = unit === undefined ? 0 : admitted * (paid[unit]! - amounts[unit]!);
    return delta === 0 ? account : settled(account, delta, settledWindows(limits, decided[i]!.windows), nowMs);
  });
}
