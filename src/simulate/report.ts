import { type CallerCount, callersText, NO_CALLERS, withCaller } from '../model/caller-count.ts';
import { groupText, type Plan, type Plans, partText } from '../model/plan.ts';
import type { Census } from './recording.ts';
import type { CallerReplay, KeyReplay, PlanReplay, Replay } from './replay.ts';
import type { Counts } from './tally.ts';

/** The files of a replay, as the operator named them. */
export interface Sources {
  readonly plans: string;
  /** Null: the plans in force were inferred from the log. */
  readonly fromPlans: string | null;
  readonly logs: readonly string[];
}

/** The output of `plans simulate --json` without the keys, of which there may be a million. Times are RFC 3339. */
export interface Report extends Sources {
  readonly from: string;
  readonly to: string;
  /** Whether the counts are estimates from sampled lines. */
  readonly isEstimate: boolean;
  /** What the change comes to, in a sentence: `593 fewer refused (4866 → 4273), 3 fewer bans; better for 3 keys, worse for 0.` */
  readonly headline: string;
  /** Refused are requests that are not admitted: for the quota, under a ban, or without limits to decide by. */
  readonly net: {
    readonly refused: { readonly recorded: number; readonly simulated: number };
    readonly bans: { readonly recorded: number; readonly simulated: number };
    /** Callers of whom more requests would be admitted, and fewer. A customer is one caller: its keys share its limits. */
    readonly better: CallerCount;
    readonly worse: CallerCount;
    /** Requests that would be refused and were not, in whose place as many of the same caller would be admitted. */
    readonly moved: number;
  };
  /** A sentence about the requests that only change places (`net.moved`); null if there are none. */
  readonly moved: string | null;
  /** How far the replay differs from the log: both 0 if the plans are those that were in force. */
  readonly differs: Replay['differs'];
  readonly notes: readonly string[];
  readonly lines: Readonly<Census>;
  readonly inForce: Readonly<Record<string, unknown>>;
  readonly totals: Counts;
  /** `limits`: those that are tried, such as `minute 60 (sliding, 12 slices), day 1000`; null if the plan is gone. */
  readonly byPlan: readonly (PlanReplay & { readonly limits: string | null })[];
  /** Requests that gateways decided alone while their store was away; they are not in the other counts. */
  readonly withoutStore: Counts;
}

type Net = Report['net'];

export function reportOf(replay: Replay, plans: Plans, sources: Sources): Report {
  const { census, totals, local, differs, inForce } = replay;
  const net = netOf(replay);
  return {
    ...sources,
    from: new Date(replay.fromMs).toISOString(),
    to: new Date(replay.toMs).toISOString(),
    isEstimate: census.sampled > 0,
    headline: headlineOf(net, differs.verdicts + differs.bans + totals.unserved === 0),
    net,
    moved: net.moved === 0 ? null : movedText(net.moved),
    differs,
    notes: [...notesOn(census), ...notesOnPlans(replay, plans, sources)],
    lines: census,
    inForce: Object.fromEntries(inForce),
    totals,
    byPlan: replay.plans.map((one) => ({ ...one, limits: planText(plans.plans.get(one.plan)) })),
    withoutStore: local,
  };
}

function netOf({ totals: { requests, recorded, simulated }, callers }: Replay): Net {
  let [better, worse, moved] = [NO_CALLERS, NO_CALLERS, 0];
  for (const { counts, keys } of callers) {
    const gain = gainOf(counts);
    if (gain > 0) better = withCaller(better, keys);
    if (gain < 0) worse = withCaller(worse, keys);
    moved += Math.min(counts.newlyAdmitted, counts.newlyAdmitted - gain);
  }
  return {
    refused: { recorded: requests - recorded.admitted, simulated: requests - simulated.admitted },
    bans: { recorded: recorded.bans, simulated: simulated.bans },
    ...{ better, worse, moved },
  };
}

/** How many requests more would be admitted; negative for fewer. */
function gainOf({ recorded, simulated }: Counts): number {
  return simulated.admitted - recorded.admitted;
}

function headlineOf({ refused, bans, better, worse }: Net, isSame: boolean): string {
  if (isSame) return 'Every verdict and every ban is as it was.';
  const whom = `better for ${callersText(better)}, worse for ${callersText(worse)}.`;
  return `${changeOf(refused, 'refused')} (${refused.recorded} → ${refused.simulated}), ${changeOf(bans, 'ban')}; ${whom}`;
}

/** @param what `refused`, or a noun */
function changeOf({ recorded, simulated }: Net['bans'], what: 'refused' | 'ban'): string {
  const difference = Math.abs(simulated - recorded);
  const name = what === 'ban' && difference !== 1 ? 'bans' : what;
  return difference === 0 ? `as many ${name}` : `${difference} ${simulated < recorded ? 'fewer' : 'more'} ${name}`;
}

function movedText(moved: number): string {
  return `${some(moved, 'request')} would be refused in place of as many others of the same caller, because windows and bans begin at other times.`;
}

/** The limits of a plan, those of its groups and of each key of a customer, in words. */
function planText(plan: Plan | undefined): string | null {
  if (plan === undefined) return null;
  const { limits, forms, units, eachKey, groups = [] } = plan;
  const each = eachKey === undefined ? '' : partText(eachKey);
  return [
    partText({ limits, forms, units }),
    ...(each === '' ? [] : [`each key of a customer: ${each}`]),
    ...groups.map((group) => `${group.name}: ${groupText(group)}`),
  ].join('; ');
}

/** A key as `--json` prints it. */
export function keyReport({ id, customerId, plan, counts, bannedAtMs, ownLimits }: KeyReplay) {
  return {
    id,
    customerId,
    plan,
    ownLimits,
    ...counts,
    bannedAt: bannedAtMs === null ? null : new Date(bannedAtMs).toISOString(),
  };
}

/** A customer, or a key without one, as `--json` prints it. */
export function callerReport({ id, keys, plan, counts, bannedAtMs }: CallerReplay) {
  return { id, keys, plan, ...counts, bannedAt: bannedAtMs === null ? null : new Date(bannedAtMs).toISOString() };
}

/** Those with requests that were refused, would be refused, or could not be served. */
export function* touchedOf<T extends Pick<KeyReplay, 'counts'>>(all: Iterable<T>): Generator<T> {
  for (const one of all) {
    const { recorded, simulated, unserved } = one.counts;
    if (recorded.refused + recorded.banned + simulated.refused + simulated.banned + unserved > 0) yield one;
  }
}

/** The `most` keys or callers with the most changes, in that order. At most about twice as many are in memory. */
export function mostChanged<T extends Pick<KeyReplay, 'id' | 'counts'>>(all: Iterable<T>, most: number): readonly T[] {
  const found: T[] = [];
  const cut = () => found.sort((a, b) => weight(b) - weight(a) || (a.id < b.id ? -1 : 1)).splice(most);
  for (const one of touchedOf(all)) {
    found.push(one);
    if (found.length >= 2 * most + 64) cut();
  }
  cut();
  return found;
}

function weight({ counts }: Pick<KeyReplay, 'counts'>): number {
  const { newlyRefused, newlyAdmitted, unserved, recorded, simulated } = counts;
  // Among those with equally many changes, those with the most refusals come first.
  return newlyRefused + newlyAdmitted + unserved + (recorded.refused + simulated.refused) / 1e12;
}

function notesOn({ sampled, local, undecided, broken, summaries, pathless }: Census): string[] {
  const notes: string[] = [];
  if (sampled > 0) {
    notes.push(
      `${some(sampled, 'line')} of sampled answers (log.sample2xx): all counts are estimates, and recorded verdicts cannot be reproduced.`,
    );
  }
  if (local > 0) {
    notes.push(
      `${some(local, 'request')} decided by gateways alone while the store was away: they are counted separately, and later verdicts may differ from the record.`,
    );
  }
  if (undecided > 0) {
    notes.push(
      `${some(undecided, 'request')} of known callers without a decision in the log (the store was away, or the client left before it came): what was counted of them is missing here.`,
    );
  }
  if (summaries > 0) {
    notes.push(
      `${some(summaries, 'line')} with summed up refusals: those of one key and second are replayed at one moment.`,
    );
  }
  if (pathless > 0) {
    notes.push(
      `${some(pathless, 'request')} without a known path: replayed without the groups of routes of their plan. What gateways remember has the path only if the plan had groups, or the route has no names in its path; a log has every path.`,
    );
  }
  if (broken > 0) notes.push(`${some(broken, 'line')} left out, which could not be read.`);
  return notes;
}

function notesOnPlans({ inForce, plans: replayed, uncharged }: Replay, { plans }: Plans, sources: Sources): string[] {
  const bounding = replayed.filter(({ plan }) => {
    const { inFlight, eachKey } = plans.get(plan) ?? {};
    return (inFlight ?? eachKey?.inFlight) !== undefined;
  });
  const inFlight = bounding.map(
    ({ plan }) =>
      `The plan ${plan} bounds requests in flight, which are not replayed: these limits refuse nothing here.`,
  );
  const unserved = replayed
    .filter(({ counts }) => counts.unserved > 0)
    .map(({ plan, counts }) => {
      const why = plans.has(plan) ? 'wants limits of each key, and these have none' : `is not in ${sources.plans}`;
      return `${some(counts.unserved, 'request')} could not be served at all: the plan ${plan} ${why}.`;
    });
  const missing = uncharged.map(
    ({ plan, unit }) =>
      `The plan ${plan} limits ${unit}, which no recorded request of it charges: these limits refuse nothing here. Gateways record what requests charge in a unit only while their plan has it; \`unlimited\` suffices.`,
  );
  const notes = [...inFlight, ...missing, ...unserved];
  for (const [plan, { isInferred, ownShare, limits }] of inForce) {
    if (isInferred && sources.fromPlans !== null) {
      notes.push(`The plan ${plan} is not in ${sources.fromPlans}; its limits were read off the log.`);
    }
    const expected = Object.values(limits).includes('custom');
    if (!isInferred && ownShare > 0.5 && !expected) {
      const share = Math.round(ownShare * 100);
      notes.push(
        `${share} % of the keys of plan ${plan} had other limits than in ${sources.fromPlans}, and are taken to keep them. If other plans were in force then, simulate with those (--from-plans of \`tollgate plans simulate\`).`,
      );
    }
  }
  if (sources.fromPlans === null) {
    notes.push(
      'The limits in force were read off the log, as what most keys of each plan had. With --from-plans it is certain which limits are of the keys themselves.',
    );
  }
  return notes;
}

function some(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
