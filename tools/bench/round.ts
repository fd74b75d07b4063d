import { setTimeout as delay } from 'node:timers/promises';
import type { Contestant, Running } from './contestants/contestant.ts';
import { runH2load } from './loaders/h2load.ts';
import { type ExpectedAnswer, faultsOf, type Load } from './loaders/load.ts';
import { runWrk } from './loaders/wrk.ts';
import { usageOf } from './proc.ts';
import { type RedisWork, workOf } from './redis.ts';
import { requestOf } from './request.ts';
import { expectationOf } from './scenarios.ts';
import type { Tool } from './tools/debian.ts';
import type { World } from './world.ts';

/** One contestant in one round. */
export interface Measurement {
  readonly requests: number;
  readonly perSecond: number;
  /** CPU of the contestant's processes, user and system, for one request. */
  readonly cpuUs: number;
  /** CPU of its Redis for one request; null where it has none. */
  readonly redisCpuUs: number | null;
  /** Both. */
  readonly togetherUs: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** Script calls of its Redis for one request; null where it has none. */
  readonly scripts: number | null;
  /** All commands, those inside scripts included. */
  readonly commands: number | null;
  readonly rssBytes: number;
  /** What the loader itself costs and how late it was, see LoadReport. */
  readonly loaderCpuUs: number | null;
  readonly lateP99Us: number;
  /** Why these figures say nothing; empty where they do. */
  readonly faults: readonly string[];
}

/** A contestant that serves. */
export interface Serving {
  readonly contestant: Contestant;
  readonly running: Running;
  /** What its answers under load are compared with; null where their status alone is counted. */
  readonly expects: ExpectedAnswer | null;
  /** How many keys its loads have taken until now. */
  taken: number;
}

export interface Means {
  readonly wrk: Tool;
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** What is still under way when the load ends (log, replies of Redis) belongs to it. */
const SETTLE_MS = 150;

/** `open`: as many as it can. `fixed`: at a rate that all can serve. `beside`: with one thing different. */
export type Phase = { readonly name: 'open' | 'beside' } | { readonly name: 'fixed'; readonly ratePerSecond: number };

/** One turn of one contestant. */
export async function measure(
  serving: Serving,
  world: World,
  phase: Phase,
  { wrk, seconds, signal }: Means,
): Promise<Measurement> {
  const { running, contestant } = serving;
  running.tidy?.();
  // Asking for these costs the contestant something: before the first look at its CPU, after the last.
  const mishapsBefore = await running.mishaps?.();
  const before = await look(running);
  const load = { ...loadOf(serving, world, phase), port: running.port, seconds };
  const { family, isHttp2 = false } = world.scenario;
  const report = await (family === 'bodies' ? runH2load(load, isHttp2, signal) : runWrk(wrk, load, signal));
  await delay(SETTLE_MS);
  const after = await look(running);
  const mishaps = grown(mishapsBefore, await running.mishaps?.());
  const { requests, durationUs, p50Us, p99Us, loaderCpuUs, lateP99Us } = report;
  serving.taken += requests;
  const per = (total: number) => total / requests;
  const cpuUs = per((after.cpuMs - before.cpuMs) * 1_000);
  const redisCpuUs = running.redis === null ? null : per((after.redisCpuMs - before.redisCpuMs) * 1_000);
  return {
    requests,
    perSecond: requests / (durationUs / 1e6),
    cpuUs,
    redisCpuUs,
    togetherUs: cpuUs + (redisCpuUs ?? 0),
    ...{ p50Us, p99Us, loaderCpuUs, lateP99Us },
    scripts: after.redis && before.redis && per(after.redis.scripts - before.redis.scripts),
    commands: after.redis && before.redis && per(after.redis.commands - before.redis.commands),
    rssBytes: after.rssBytes,
    faults: [...faultsOf(report, expectationOf(contestant.load ?? world.scenario)), ...mishaps],
  };
}

interface Look {
  readonly cpuMs: number;
  readonly rssBytes: number;
  readonly redisCpuMs: number;
  readonly redis: RedisWork | null;
}

async function look({ pid, redis }: Running): Promise<Look> {
  const work = redis === null ? null : await workOf(redis.port);
  return { ...usageOf(pid), redisCpuMs: redis === null ? 0 : usageOf(redis.pid).cpuMs, redis: work };
}

function loadOf(
  { contestant: { load }, expects, taken }: Serving,
  { scenario, ...world }: World,
  phase: Phase,
): Omit<Load, 'port' | 'seconds'> {
  const beside = phase.name === 'beside' ? scenario.beside : undefined;
  return {
    ...{ request: load?.request ?? requestOf(scenario), expects, taken },
    connections: beside?.connections ?? scenario.connections,
    tokensFile: load?.keyKind === 'spent' ? world.spentTokenFile : world.tokensFile,
    ratePerSecond: phase.name === 'fixed' ? phase.ratePerSecond : null,
  };
}

type Counts = ReadonlyMap<string, number>;

function grown(before: Counts = new Map(), after: Counts = new Map()): string[] {
  return [...after]
    .map(([name, count]) => ({ name, more: count - (before.get(name) ?? 0) }))
    .filter(({ more }) => more > 0)
    .map(({ name, more }) => `${name} grew by ${more}`);
}
