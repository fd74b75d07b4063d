import { setTimeout as delay } from 'node:timers/promises';
import { CONTESTANTS } from './contestants/all.ts';
import type { Answer, Contestant } from './contestants/contestant.ts';
import { tollgateBefore } from './contestants/tollgate.ts';
import { usageOf } from './proc.ts';
import { memoryOf, memoryPerName } from './redis.ts';
import { type Entry, figureOf, type Missing, type ScenarioResult } from './results.ts';
import { type Means, type Measurement, measure, type Phase, type Serving } from './round.ts';
import type { ContestantName, Scenario } from './scenarios.ts';
import { steadyAnswer, verify } from './verify.ts';
import { openWorld, type World } from './world.ts';

export interface Plan extends Means {
  readonly rounds: number;
  /** Null: all that the scenario names. */
  readonly only: readonly ContestantName[] | null;
  /** Another checkout whose gateway is measured beside this one; null: none. */
  readonly against: string | null;
  /** Without what production switches on. */
  readonly bare: boolean;
  readonly say: (line: string) => void;
}

interface Taking extends Serving {
  readonly idleRssBytes: number;
  readonly open: (Measurement | null)[];
  readonly fixed: (Measurement | null)[];
  readonly beside: (Measurement | null)[];
  readonly faults: Set<string>;
}

/** How long a contestant is left alone before its idle memory is read. */
const IDLE_MS = 500;
/**
 * Load before anything is measured, however short the turns are: a compiler has to see what is hot, and on a machine that the
 * load keeps busy that takes seconds.
 */
export const WARM_UP_S = 6;

/**
 * Measures all contestants of a scenario side by side, a round of each in turn, and ends all that it has started.
 * Broken off, it returns what there is.
 */
export async function runScenario(scenario: Scenario, plan: Plan): Promise<ScenarioResult> {
  const world = await openWorld(scenario, plan.bare);
  try {
    const { taking, missing } = await startAll(world, plan);
    const redisOfOurs = taking.find(({ contestant }) => contestant.name === 'tollgate')?.running.redis;
    const open: Phase[] = scenario.beside === undefined ? [{ name: 'open' }] : [{ name: 'open' }, { name: 'beside' }];
    await alternate(taking, open, world, plan);
    const ratePerSecond = scenario.fixedRate ? halfOfSlowest(taking) : null;
    if (ratePerSecond !== null) await alternate(taking, [{ name: 'fixed', ratePerSecond }], world, plan);
    const isCounted = redisOfOurs !== undefined && redisOfOurs !== null && scenario.keyKind === 'good';
    const redisBytesPerKey = isCounted ? await memoryPerName(redisOfOurs.port, 'tg:a:*') : null;
    const entries = await Promise.all(taking.map(entryOf));
    return { scenario, entries, missing, ratePerSecond, redisBytesPerKey };
  } finally {
    await world.close();
  }
}

async function startAll(world: World, plan: Plan): Promise<{ taking: Taking[]; missing: Missing[] }> {
  const taking: Taking[] = [];
  const missing: Missing[] = [];
  let answer: Answer | null = null;
  for (const contestant of contestantsOf(world.scenario, plan)) {
    if (plan.signal.aborted) break;
    const { name } = contestant;
    try {
      const running = await contestant.start(world, { answer });
      await verify(contestant, running, world);
      const steady = await steadyAnswer(contestant, running, world);
      if (name === 'tollgate') answer = steady;
      await delay(IDLE_MS);
      const idleRssBytes = usageOf(running.pid).rssBytes;
      const serving: Serving = { contestant, running, expects: expectedOf(contestant, steady), taken: 0 };
      await measure(serving, world, { name: 'open' }, { ...plan, seconds: world.scenario.warmUpS ?? WARM_UP_S });
      taking.push({ ...serving, idleRssBytes, open: [], fixed: [], beside: [], faults: new Set() });
      plan.say(`${world.scenario.name}: ${contestant.title} ${running.version} serves, refuses and counts as it says`);
    } catch (error) {
      const reason = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').slice(0, 300);
      missing.push({ name, title: contestant.title, reason });
      plan.say(`${world.scenario.name}: ${contestant.title} is missing: ${reason}`);
    }
  }
  return { taking, missing };
}

/** @returns this checkout's gateway, the one it is measured against behind it, then the others */
function contestantsOf({ contestants }: Scenario, { only, against }: Plan): Contestant[] {
  const named = contestants.filter((name) => only === null || only.includes(name));
  return named.flatMap((name) => {
    const contestant = CONTESTANTS.get(name)!;
    return name === 'tollgate' && against !== null ? [contestant, tollgateBefore(against)] : [contestant];
  });
}

/** Each round begins with another contestant, so that none is always first. */
async function alternate(taking: readonly Taking[], phases: readonly Phase[], world: World, plan: Plan): Promise<void> {
  for (let round = 0; round < plan.rounds; round++) {
    for (let turn = 0; turn < taking.length; turn++) {
      const one = taking[(round + turn) % taking.length]!;
      for (const phase of phases) {
        if (plan.signal.aborted) return;
        const measured = await attempt(one, phase, world, plan);
        one[phase.name][round] = measured;
        for (const fault of measured?.faults ?? []) one.faults.add(fault);
        plan.say(`${whereOf(world.scenario, phase)} ${round + 1}/${plan.rounds} ${progress(one, measured)}`);
      }
    }
  }
}

/** @param steady the answer that was checked, with its body as it comes over the connection */
function expectedOf({ load }: Contestant, steady: Answer): Serving['expects'] {
  if (load === undefined) return null;
  const { status, field, bodyBytes } = load.expects;
  return { status, field, bodyBytes: bodyBytes === null ? null : steady.body.length };
}

async function attempt(one: Taking, phase: Phase, world: World, plan: Plan): Promise<Measurement | null> {
  const { faults } = one;
  try {
    return await measure(one, world, phase, plan);
  } catch (error) {
    if (!plan.signal.aborted) faults.add(error instanceof Error ? error.message.split('\n')[0]! : String(error));
    return null;
  }
}

function halfOfSlowest(taking: readonly Taking[]): number | null {
  const most = taking.map(({ open }) => figureOf(open, 'perSecond')?.median).filter((it) => it !== undefined);
  return most.length === 0 ? null : Math.max(1, Math.floor(Math.min(...most) / 2));
}

async function entryOf({ contestant, running, idleRssBytes, open, fixed, beside, faults }: Taking): Promise<Entry> {
  const { name, title } = contestant;
  const { version, redis, accounts } = running;
  const redisBytes = redis === null || accounts === undefined ? null : await memoryOf(redis.port, accounts);
  return { name, title, version, idleRssBytes, redisBytes, open, fixed, beside, faults: [...faults] };
}

function whereOf({ name, beside }: Scenario, phase: Phase): string {
  if (phase.name === 'open') return name;
  return phase.name === 'fixed' ? `${name} at ${phase.ratePerSecond}/s` : `${name} beside (${beside?.title})`;
}

function progress({ contestant }: Taking, measured: Measurement | null): string {
  if (measured === null) return `${contestant.title}: nothing`;
  const { cpuUs, redisCpuUs, perSecond, p99Us, faults } = measured;
  const redis = redisCpuUs === null ? '' : ` and ${redisCpuUs.toFixed(1)} in Redis`;
  const figures = `${cpuUs.toFixed(1)} µs CPU${redis}, ${Math.round(perSecond)}/s, p99 ${(p99Us / 1_000).toFixed(2)} ms`;
  return `${contestant.title}: ${figures}${faults.length > 0 ? ` INVALID: ${faults.join(', ')}` : ''}`;
}
