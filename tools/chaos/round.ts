import { setTimeout as delay } from 'node:timers/promises';
import type { Chance } from '../kit/chance.ts';
import { type Answer, outcomeOf, Tally } from './answers.ts';
import { Callers, type Lane } from './callers.ts';
import type { Fault } from './fault.ts';
import { type Facts, judge, type Seen } from './judge.ts';
import { accountField, accountText, heldIn, leftoversIn, restingGateways } from './leftovers.ts';
import { Pulse } from './pulse.ts';
import type { Row } from './row.ts';
import type { ChaosKey } from './stand/keys.ts';
import type { Stand } from './stand/stand.ts';
import type { Timeline } from './timeline.ts';

export interface RoundOptions {
  readonly stand: Stand;
  readonly chance: Chance;
  readonly timeline: Timeline;
}

const PLENTY = 1_000_000;
const LIMIT = 200;
const LATE_LIMIT = 30;
const BEFORE_MS = 800;
/** A revocation is obeyed within a second, and what gateways admitted alone has been added by then. */
const AFTER_MS = 1_500;
const GIVEN_UP_AFTER_MS = 25_000;
/** A lease ends after at most 2 s, and the store takes its return for as long again (contract section 3, leases). */
const RETURNED_WITHIN_MS = 4_000;
/** What a request takes besides waiting for the store, and beyond what the machine keeps everybody waiting. */
const WORK_MS = 100;

/** Clients of every kind call, a fault comes and goes, and what they saw is held against the written bounds. */
export async function round(fault: Fault, { stand, chance, timeline }: RoundOptions): Promise<Row> {
  const startedAtMs = performance.now();
  const tally = new Tally();
  const answered = (answer: Answer) => {
    timeline.add(answer);
    // What makes keys known, spends the one and bans the other beforehand is not what is judged.
    if (answer.lane !== 'before') tally.add(answer);
  };
  const origins = stand.gateways.map(({ origin }) => origin);
  const callers = new Callers(origins, answered);
  try {
    const keys = await makeKeys(stand);
    const first = new Callers(origins, answered);
    await useBefore(first, stand, keys);
    await first.close();
    const resting = await restingGateways(stand);
    await useBefore(callers, stand, keys);
    const disturbingMs = stand.timeoutMs / 2;
    const pulse = new Pulse(origins, disturbingMs);
    const { machineMs, ...played } = await playUnder(pulse, async () => ({
      ...(await play(fault, { stand, chance, timeline, callers, keys, pulse })),
      revokedPassed: await exhaust(callers, stand, keys),
    }));
    const longestWaitMs = tally.longest?.latencyMs ?? 0;
    await callers.close();
    const facts: Facts = {
      ...played,
      allowed: fault.allowed,
      disturbed: machineMs > disturbingMs,
      deciders: stand.deciders,
      tally,
      seen: await lookAt(stand, tally, keys),
      longestWaitMs,
      waitAllowedMs: waitAllowedMs(stand, machineMs),
      leftovers: await leftoversIn(stand.store),
      held: await heldIn(stand, resting),
      deaths: [...played.complaints, ...deathsOf(stand)],
    };
    return rowOf(fault, facts, machineMs, startedAtMs);
  } finally {
    await callers.close();
    stand.keys.forget();
  }
}

async function playUnder<T>(pulse: Pulse, work: () => Promise<T>): Promise<T & { readonly machineMs: number }> {
  const done = await work().finally(() => pulse.stop());
  return { ...done, machineMs: await pulse.stop() };
}

/**
 * A request passes the process of the load and that of the gateway twice, on its way to the service and back. Where they
 * wait for the machine longer than for the store, nothing can be said about the store from here.
 */
function waitAllowedMs({ timeoutMs }: Stand, machineMs: number): number {
  return machineMs > timeoutMs ? Number.POSITIVE_INFINITY : timeoutMs + WORK_MS + 2 * machineMs;
}

function rowOf({ name, about }: Fault, facts: Facts, machineMs: number, startedAtMs: number): Row {
  const { tally, longestWaitMs, waitAllowedMs, normalAfterMs, leftovers, disturbed } = facts;
  const busy = `The machine kept everybody waiting for ${machineMs.toFixed(0)} ms: gateways may have lost Redis once more${Number.isFinite(waitAllowedMs) ? '' : ', and waits are not judged'}.`;
  return {
    scenario: name,
    about,
    answers: [...tally.labels].toSorted(([, a], [, b]) => b - a),
    longestWaitMs,
    waitAllowedMs,
    ...judge(facts),
    normalAfterMs,
    leftovers,
    notes: disturbed ? [busy] : [],
    tookMs: performance.now() - startedAtMs,
  };
}

interface RoundKeys {
  readonly steady: ChaosKey;
  /** Reaches its limit early in the fault, and `slow` about when it ends. */
  readonly fast: ChaosKey;
  readonly slow: ChaosKey;
  readonly spent: ChaosKey;
  readonly banned: ChaosKey;
  /** Not used before the fault. */
  readonly fresh: ChaosKey;
  readonly revoked: ChaosKey;
  /** Not used before all is normal again. */
  readonly late: ChaosKey;
}

async function makeKeys({ keys }: Stand): Promise<RoundKeys> {
  const limits = [PLENTY, LIMIT, LIMIT, 20, PLENTY, PLENTY, LATE_LIMIT];
  const [steady, fast, slow, spent, fresh, revoked, late] = (await keys.make('counted', limits)) as [
    ChaosKey,
    ChaosKey,
    ChaosKey,
    ChaosKey,
    ChaosKey,
    ChaosKey,
    ChaosKey,
  ];
  const [banned] = (await keys.make('strict', [5])) as [ChaosKey];
  return { steady, fast, slow, spent, banned, fresh, revoked, late };
}

/** Every gateway has seen the keys that are in use, that one is spent and another banned. */
async function useBefore(callers: Callers, { gateways }: Stand, keys: RoundKeys): Promise<void> {
  for (const gateway of gateways.keys()) {
    await callers.until('before', keys.spent, gateway, 30, (answer) => outcomeOf(answer) === 'refused');
    await callers.until('before', keys.banned, gateway, 30, (answer) => outcomeOf(answer) === 'banned');
    for (const name of ['steady', 'fast', 'slow', 'revoked'] as const) {
      await callers.until('before', keys[name], gateway, 10, ({ status }) => status === 200);
    }
  }
}

type Playing = RoundOptions & { readonly callers: Callers; readonly keys: RoundKeys; readonly pulse: Pulse };

async function play(fault: Fault, { stand, chance, timeline, callers, keys, pulse }: Playing) {
  callers.begin(
    ...lanesOf(keys, ['steady', 50], ['fast', 40], ['slow', 15], ['spent', 10], ['banned', 10], ['revoked', 10]),
  );
  await delay(BEFORE_MS + chance.below(400));
  const struckAtMs = performance.now();
  await fault.strike(stand, chance);
  callers.begin(...lanesOf(keys, ['fresh', 10]));
  await delay(fault.holdMs / 2);
  // Not where the store itself is what is away: then as soon as it is back.
  const revoking = stand.keys.revoke(keys.revoked).then(
    () => true,
    () => false,
  );
  await delay(Math.max(struckAtMs + fault.holdMs - performance.now(), 0));
  await fault.heal?.(stand, chance);
  const healedAtMs = performance.now();
  timeline.stretch('faults', fault.name, struckAtMs, healedAtMs);
  const normalAfterMs = await untilNormal(stand, healedAtMs, pulse);
  const complaints = normalAfterMs === null ? await Promise.all(stand.gateways.map((it) => it.describe())) : [];
  if (!(await revoking)) await stand.keys.revoke(keys.revoked);
  await delay(AFTER_MS);
  await callers.rest();
  return { normalAfterMs, complaints };
}

function lanesOf(keys: RoundKeys, ...rates: readonly (readonly [name: keyof RoundKeys, perSecond: number])[]): Lane[] {
  return rates.map(([name, perSecond]) => ({ name, key: keys[name], perSecond }));
}

/**
 * How long it takes until every gateway says that it is ready and that its store is there. Null where they do not.
 *
 * Where the machine keeps gateways waiting, they lose their store once more, and their pauses and connections take longer. What
 * it does to them before they are normal is no part of the bound: the time counts from the last such wait, if that was later.
 */
async function untilNormal({ gateways }: Stand, healedAtMs: number, pulse: Pulse): Promise<number | null> {
  for (;;) {
    const health = await Promise.all(gateways.map((gateway) => gateway.health()));
    const sinceMs = Math.max(healedAtMs, pulse.lateUntilMs());
    const nowMs = performance.now();
    if (health.every((it) => it?.ready === true && it.store === 'present')) return nowMs - sinceMs;
    if (nowMs - healedAtMs > GIVEN_UP_AFTER_MS) return null;
    await delay(25);
  }
}

/** Asks for more than there is left, everywhere; tells at how many gateways the revoked key still passed. */
async function exhaust(callers: Callers, { gateways }: Stand, keys: RoundKeys): Promise<number> {
  let passed = 0;
  for (const gateway of gateways.keys()) {
    for (const name of ['fast', 'slow', 'late'] as const) {
      const refused = (answer: Answer) => outcomeOf(answer) === 'refused';
      await callers.until(name, keys[name], gateway, LIMIT + 5, refused);
    }
    for (const name of ['spent', 'banned'] as const) await callers.ask(name, keys[name], gateway);
    if (outcomeOf(await callers.ask('revoked', keys.revoked, gateway)) === 'admitted') passed++;
  }
  return passed;
}

async function lookAt({ store, upstream }: Stand, tally: Tally, keys: RoundKeys): Promise<Seen[]> {
  const names = ['steady', 'fast', 'slow', 'late', 'spent'] as const;
  return Promise.all(
    names.map(async (name) => {
      const { id, limit } = keys[name];
      await untilReturned(store, id);
      // What reached the service was admitted, also where the client did not live to hear of it.
      const admitted = Math.max(upstream.reached(id), tally.ofKey(id, 'admitted'));
      return {
        key: name,
        limit,
        admitted,
        unanswered: tally.ofKey(id, 'lost'),
        exhausted: name !== 'steady',
        counted: await accountField(store, id, 'd'),
        settled: name === 'late' || name === 'spent',
      };
    }),
  );
}

/** Resolves when nothing of an account is lent, or when the store takes no return of what was lent any more. */
async function untilReturned(store: Stand['store'], consumerId: string): Promise<void> {
  const sinceMs = performance.now();
  while ((await accountText(store, consumerId, 'l')) && performance.now() < sinceMs + RETURNED_WITHIN_MS)
    await delay(25);
}

/** Gateways that ended although nobody ended them, and defects that they logged; each is told once. */
function deathsOf({ gateways }: Stand): string[] {
  return gateways.flatMap((gateway) => {
    const ended = gateway.ended();
    return [...(ended === null ? [] : [`${gateway.name} ended: ${ended}.`]), ...gateway.defects.splice(0)];
  });
}
