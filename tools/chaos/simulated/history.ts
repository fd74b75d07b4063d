import type { Allowance } from '../../../src/admit/allowance.ts';
import { Chance } from '../../kit/chance.ts';
import { GOOD_LINK, type LinkMode } from './link.ts';
import { planOf, planOfSeveralBudgets, planThatLends } from './plans.ts';
import type { ServerMode } from './redis-server.ts';

/** What happens in one step of a history. Gateways, consumers and plans are numbers from 0. */
export type Step =
  | {
      readonly kind: 'ask';
      readonly gateway: number;
      readonly consumer: number;
      readonly cost: number;
      readonly n: number;
      /** How long these requests have already waited for the store. */
      readonly waitedMs: number;
      /** The groups of routes that they belong to, a bit for each of the plan; left out if there are none. */
      readonly groups?: number;
      /** How long each of them is in flight if it is admitted; left out where nothing depends on it. */
      readonly lastsMs?: number;
      /** What each takes of the unit in advance, and what it uses in the end; left out if it charges none. */
      readonly amount?: number;
      readonly used?: number;
      /** The next step happens in the same turn of the event loop. */
      readonly isSameTurn: boolean;
    }
  /** Each of these gateways gets `n` requests every few milliseconds, while the next steps happen. */
  | {
      readonly kind: 'burst';
      readonly gateways: readonly number[];
      readonly consumer: number;
      readonly cost: number;
      readonly n: number;
      readonly everyMs: number;
      readonly times: number;
    }
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'link'; readonly gateway: number; readonly mode: LinkMode }
  | { readonly kind: 'cut'; readonly gateway: number; readonly arrives: boolean; readonly forMs: number }
  | { readonly kind: 'server'; readonly mode: ServerMode }
  /** A restart, or a failover to a replica that lags: `lost` writes are gone, and the clock is set by `clockMs`. */
  | { readonly kind: 'replace'; readonly lost: number; readonly clockMs: number; readonly forMs: number }
  | { readonly kind: 'clock'; readonly ms: number }
  | { readonly kind: 'own clock'; readonly gateway: number; readonly ms: number }
  | { readonly kind: 'kill'; readonly gateway: number; readonly wallOffsetMs: number }
  | { readonly kind: 'reload'; readonly gateway: number; readonly plan: number }
  | { readonly kind: 'lift'; readonly consumer: number; readonly heardAfterMs: number };

export interface History {
  readonly seed: number;
  readonly plans: readonly Allowance[];
  /** What each gateway's own clock is off by at its start, milliseconds. */
  readonly wallOffsetsMs: readonly number[];
  readonly consumers: number;
  /** How many customers the consumers belong to, in turn; left out if each consumer is by itself. */
  readonly customers?: number;
  /** The store's clock at the start, Unix milliseconds. */
  readonly startsAtMs: number;
  readonly steps: readonly Step[];
}

/** The longest that a request of a history is in flight. */
export const LONGEST_MS = 15_000;

const DAY_MS = 86_400_000;
const MIDNIGHT_MS = 20_836 * DAY_MS;

/**
 * The history of a seed: always the same one. Those of odd seeds have customers, groups of routes, usage histories and bounded
 * requests in flight. Those of every fourth seed have large limits, and keys that are so busy that gateways borrow.
 */
export function historyOf(seed: number): History {
  return seed % 4 === 2 ? busyHistoryOf(seed) : plainHistoryOf(seed);
}

function plainHistoryOf(seed: number): History {
  const chance = new Chance(seed);
  const hasSeveralBudgets = seed % 2 !== 0;
  const customers = hasSeveralBudgets ? chance.of([0, 1, 1, 1, 2]) : 0;
  const plan = () => (hasSeveralBudgets ? planOfSeveralBudgets(chance, customers > 0) : planOf(chance));
  const plans = Array.from({ length: 1 + chance.below(3) }, plan);
  const gateways = 1 + chance.below(3);
  const consumers = (hasSeveralBudgets ? 2 : 1) + chance.below(3);
  const wallOffsetsMs = Array.from({ length: gateways }, () => MIDNIGHT_MS + offBy(chance));
  // Calendar periods end soon after the start.
  const startsAtMs = MIDNIGHT_MS + chance.of([0, 4_500_000, 25_200_000]) - chance.below(10_000);
  const isCalm = chance.share() < 0.25;
  const size = 8 + chance.below(40);
  const fleet = { plans: plans.length, gateways, consumers, isCalm, hasSeveralBudgets };
  const steps = Array.from({ length: size }, () => stepOf(chance, fleet));
  const ofCustomers = customers === 0 ? {} : { customers };
  return { seed, plans, wallOffsetsMs, consumers, ...ofCustomers, startsAtMs, steps };
}

function busyHistoryOf(seed: number): History {
  const chance = new Chance(seed);
  const customers = chance.of([0, 0, 0, 1, 1]);
  const plans = Array.from({ length: chance.of([1, 1, 2]) }, () => planThatLends(chance, customers > 0));
  const gateways = chance.of([2, 2, 3]);
  const consumers = chance.of([1, 1, 2]);
  const isCalm = chance.share() < 0.5;
  const wallOffsetsMs = Array.from({ length: gateways }, () => MIDNIGHT_MS + offBy(chance));
  // Calendar periods end soon after the start.
  const startsAtMs = MIDNIGHT_MS + chance.of([0, 4_500_000, 25_200_000]) - chance.below(3_000);
  const fleet = { plans: plans.length, gateways, consumers, isCalm, hasSeveralBudgets: false };
  const steps = Array.from({ length: 4 + chance.below(16) }, () => busyStepOf(chance, fleet));
  const ofCustomers = customers === 0 ? {} : { customers };
  return { seed, plans, wallOffsetsMs, consumers, ...ofCustomers, startsAtMs, steps };
}

function busyStepOf(chance: Chance, fleet: Fleet): Step {
  const { gateways, consumers, isCalm } = fleet;
  const what = chance.share();
  if (what < 0.45) {
    const all = Array.from({ length: gateways }, (_, i) => i);
    const everyMs = chance.of([1, 2, 3, 5, 9, 15, 20, 20, 75, 130, 220, 330]);
    return {
      kind: 'burst',
      gateways: chance.share() < 0.6 ? [chance.below(gateways)] : all,
      consumer: chance.below(consumers),
      cost: chance.of([1, 1, 1, 2, 3]),
      n: everyMs > 20 ? chance.of([1, 1, 2]) : chance.of([1, 1, 1, 2, 3, 8, 30]),
      everyMs,
      times:
        everyMs > 20
          ? 1 + chance.below(Math.floor(1_800 / everyMs))
          : 10 + chance.below(Math.min(120, Math.floor(1_500 / everyMs))),
    };
  }
  if (what < 0.8) return { kind: 'pass', ms: chance.of(BUSY_PAUSES_MS) };
  let step = stepOf(chance, fleet);
  while (!isCalm && (step.kind === 'ask' || step.kind === 'pass')) step = stepOf(chance, fleet);
  // A request that has waited long is decided by the gateway alone.
  return step.kind === 'ask' && isCalm ? { ...step, waitedMs: 0 } : step;
}

const BUSY_PAUSES_MS = [0, 1, 2, 5, 10, 20, 20, 40, 40, 61, 100, 100, 150, 210, 260, 350, 400, 700, 999, 1_001];

interface Fleet {
  readonly plans: number;
  readonly gateways: number;
  readonly consumers: number;
  /** Nothing fails. */
  readonly isCalm: boolean;
  readonly hasSeveralBudgets: boolean;
}

function stepOf(chance: Chance, { plans, gateways, consumers, isCalm, hasSeveralBudgets }: Fleet): Step {
  const gateway = chance.below(gateways);
  const what = chance.share();
  if (what < 0.52) {
    return {
      kind: 'ask',
      gateway,
      consumer: chance.below(consumers),
      cost: chance.of([1, 1, 1, 1, 2, 3]),
      n: chance.of([1, 1, 1, 2, 3, 6]),
      waitedMs: chance.of([0, 0, 0, 0, 0, 0, 60, 95, 100]),
      isSameTurn: chance.share() < 0.25,
      ...(hasSeveralBudgets
        ? {
            groups: chance.of([0, 0, 0, 1, 2, 3]),
            lastsMs: chance.of([1, 12, 40, 300, 2_000, 2_000, 7_000, LONGEST_MS]),
            ...(chance.share() < 0.7 ? { amount: chance.below(5), used: chance.of([0, 0, 1, 2, 3, 4, 9]) } : {}),
          }
        : {}),
    };
  }
  if (what < 0.78) return { kind: 'pass', ms: chance.of(PAUSES_MS) };
  if (what < 0.81) return { kind: 'reload', gateway, plan: chance.below(plans) };
  if (what < 0.84)
    return { kind: 'lift', consumer: chance.below(consumers), heardAfterMs: chance.of([0, 1, 2, 300, 1_000]) };
  if (isCalm) return { kind: 'pass', ms: chance.of([0, 1, 2]) };
  if (what < 0.89) return { kind: 'link', gateway, mode: linkOf(chance) };
  if (what < 0.91) {
    return { kind: 'cut', gateway, arrives: chance.share() < 0.5, forMs: chance.of([0, 3, 150, 900]) };
  }
  if (what < 0.95)
    return { kind: 'server', mode: chance.of(['well', 'well', 'silent', 'silent', 'READONLY', 'OOM', 'LOADING']) };
  if (what < 0.97) {
    const clockMs = chance.of([0, 0, 0, 7, -400, 3_000, -90_000]);
    return { kind: 'replace', lost: chance.of([0, 0, 1, 2, 5]), clockMs, forMs: chance.of([0, 120, 1_500]) };
  }
  if (what < 0.98) return { kind: 'clock', ms: chance.of([-3_600_000, -1_000, -1, 1, 61_000, 7_200_000, -7_200_000]) };
  if (what < 0.99) return { kind: 'own clock', gateway, ms: chance.of([-2_000, 500, 60_000, -3_600_000]) };
  return { kind: 'kill', gateway, wallOffsetMs: MIDNIGHT_MS + offBy(chance) };
}

const PAUSES_MS = [0, 1, 1, 2, 2, 5, 20, 40, 61, 99, 100, 101, 210, 400, 999, 1_000, 1_001, 5_000, 20_000];

function offBy(chance: Chance): number {
  return chance.of([0, 0, 250, -3_000, 4_000_000, -30 * DAY_MS, 30 * DAY_MS]);
}

function linkOf(chance: Chance): LinkMode {
  if (chance.share() < 0.4) return GOOD_LINK;
  return {
    thereMs: chance.of([0, 1, 1, 30, 70, 140]),
    backMs: chance.of([0, 1, 1, 30, 70, 140]),
    loses: chance.of(['nothing', 'nothing', 'nothing', 'commands', 'replies']),
    doubles: chance.share() < 0.2,
  };
}

/** One line for each step, for people. */
export function textOf(step: Step): string {
  switch (step.kind) {
    case 'ask': {
      const waited = step.waitedMs === 0 ? '' : `, which have waited ${step.waitedMs} ms`;
      const turn = step.isSameTurn ? ' (the next step is in the same turn)' : '';
      const groups = step.groups ? `, of the groups ${step.groups}` : '';
      const takes = step.amount === undefined ? '' : `, which take ${step.amount} tokens and use ${step.used}`;
      const lasts = step.lastsMs === undefined ? '' : `, which last ${step.lastsMs} ms`;
      return `gateway ${step.gateway} gets ${step.n} of consumer ${step.consumer} at cost ${step.cost}${takes}${groups}${lasts}${waited}${turn}`;
    }
    case 'burst': {
      const { gateways, n, consumer, cost, everyMs, times } = step;
      return `gateways ${gateways.join(' and ')} get ${n} of consumer ${consumer} at cost ${cost} every ${everyMs} ms, ${times} times`;
    }
    case 'pass':
      return `${step.ms} ms pass`;
    case 'link': {
      const { thereMs, backMs, loses, doubles } = step.mode;
      return `the link of gateway ${step.gateway} takes ${thereMs} ms there and ${backMs} ms back, loses ${loses}${doubles ? ', doubles replies' : ''}`;
    }
    case 'cut':
      return `the link of gateway ${step.gateway} is cut for ${step.forMs} ms; what was on the way ${step.arrives ? 'arrives' : 'is lost'}`;
    case 'server':
      return `Redis is ${step.mode}`;
    case 'replace':
      return `Redis is replaced after ${step.forMs} ms, without the last ${step.lost} writes, its clock set by ${step.clockMs} ms`;
    case 'clock':
      return `the clock of Redis is set by ${step.ms} ms`;
    case 'own clock':
      return `the clock of gateway ${step.gateway} is set by ${step.ms} ms`;
    case 'kill':
      return `gateway ${step.gateway} is killed and starts again`;
    case 'reload':
      return `gateway ${step.gateway} has plan ${step.plan} from now on`;
    case 'lift':
      return `the ban of consumer ${step.consumer} is lifted; gateways learn of it after ${step.heardAfterMs} ms`;
  }
}
