import { readFile, rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { spreadOf } from '../../kit/statistics.ts';
import { COSTLY, type GatewayToGuard, startForGuard } from '../contestants/tollgate.ts';
import { type RedisWork, withRedis, workOf } from '../redis.ts';
import { SCENARIOS } from '../scenarios.ts';
import { type Asker, asker, GET, UNTIL_STEADY } from '../verify.ts';
import { type KeySet, newSecret, openWorld, type World } from '../world.ts';
import { type Costs, GUARDED, type Guarded, type RequestCost } from './costs.ts';
import { callsOfMedianRequest } from './system-calls.ts';

/** The key of the next request of each kind. */
const KEY: Readonly<Record<Guarded, (keys: Keys) => string>> = {
  admitted: ({ good }) => good[0]!,
  'first of a key': ({ unused }) => unused.next().value!,
  banned: ({ banned }) => banned,
  spent: ({ spent }) => spent,
  'unknown key': newSecret,
};

type Keys = KeySet & { readonly unused: Iterator<string> };

/** How many requests of a kind are sent. */
interface Counts {
  /** Until the compiler has seen what is hot, and what is kept of the last requests is full. */
  readonly warmUp: number;
  /** For bytes; the least of `PASSES` counts. */
  readonly pass: number;
  /** For commands of Redis; the median of `windows` counts, so that it has none that timers send. */
  readonly windows: number;
  readonly window: number;
}
const PASSES = 3;
const USUAL: Counts = { warmUp: 12_000, pass: 4_000, windows: 60, window: 1 };
/**
 * Of a key's first requests there are fewer: each has a key of its own, and the gateway writes later, and slowly, that it was used.
 * A window waits for that.
 */
const FIRST: Counts = { warmUp: 4_000, pass: 1_500, windows: 3, window: 300 };
/** For scripts of Redis: each request by itself, since a slow machine writes that keys were used in more and smaller parts. */
const SINGLE = 60;
/** For system calls. */
const TRACED = 300;
const KEYS = UNTIL_STEADY + FIRST.warmUp + PASSES * FIRST.pass + FIRST.windows * FIRST.window + SINGLE + TRACED;
const IDLE_MS = 3_000;

export interface GuardOptions {
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

/**
 * Counts what requests cost in a gateway as in production. They come one after the other on one connection, so that a count
 * does not depend on how many happen to arrive together.
 */
export async function measureCosts({ signal, say }: GuardOptions): Promise<Costs> {
  const costs: Partial<Record<Guarded, RequestCost>> = {};
  for (const kind of GUARDED) {
    signal.throwIfAborted();
    // A world for each: what one kind of request leaves behind would be part of the next.
    const world = await openWorld({ ...SCENARIOS[0]!, keys: kind === 'first of a key' ? KEYS : 1 }, false);
    try {
      costs[kind] = await costOf(kind, world, await startForGuard(world));
    } finally {
      await world.close();
    }
    say(`${kind}: ${JSON.stringify(costs[kind])}`);
  }
  return costs as Costs;
}

async function costOf(kind: Guarded, { keys }: World, gateway: GatewayToGuard): Promise<RequestCost> {
  const ask = asker(gateway.port);
  const own = { ...keys, unused: keys.good.values() };
  const isFirst = kind === 'first of a key';
  const { warmUp, pass, windows, window } = isFirst ? FIRST : USUAL;
  let used = UNTIL_STEADY;
  const requests = async (count: number) => {
    await load(ask, kind, own, count);
    used += count;
    if (isFirst && count > 1) await untilNoted(gateway.redisPort, used);
  };
  try {
    for (let i = 0; i < UNTIL_STEADY; i++) await ask(GET, KEY[kind](own));
    await requests(warmUp);
    const bytes = await bytesOf(gateway, pass, () => requests(pass));
    const { commands } = await redisWorkOf(gateway.redisPort, windows, () => requests(window));
    const { scripts } = await redisWorkOf(gateway.redisPort, SINGLE, () => requests(1));
    const systemCalls = await callsOfMedianRequest(gateway.pid, () => requests(TRACED));
    return { bytes, systemCalls, scripts, commands: Math.round((commands / window) * 100) / 100 };
  } finally {
    ask.end();
  }
}

/** Without what the timers of the gateway allocate: on a slow machine more of it falls into the time of a pass. */
async function bytesOf(gateway: GatewayToGuard, count: number, work: () => Promise<void>): Promise<number> {
  const idle = await bytesWhile(gateway, () => delay(IDLE_MS));
  const passes: number[] = [];
  for (let pass = 0; pass < PASSES; pass++) {
    const { bytes, ms } = await bytesWhile(gateway, work);
    passes.push(bytes - (idle.bytes / idle.ms) * ms);
  }
  return Math.round(Math.max(0, Math.min(...passes)) / count);
}

async function bytesWhile({ pid, bytesFile }: GatewayToGuard, work: () => Promise<void>) {
  await allocatedBytes(pid, bytesFile);
  const beganAtMs = performance.now();
  await work();
  const ms = performance.now() - beganAtMs;
  return { ms, bytes: await allocatedBytes(pid, bytesFile) };
}

/** What Redis does while `work` runs, in the median of several times. */
async function redisWorkOf(redisPort: number, times: number, work: () => Promise<void>): Promise<RedisWork> {
  const works = [await workOf(redisPort)];
  for (let i = 0; i < times; i++) {
    await work();
    works.push(await workOf(redisPort));
  }
  const median = (name: keyof RedisWork) =>
    spreadOf(works.slice(1).map((after, i) => after[name] - works[i]![name]))!.median;
  return { scripts: median('scripts'), commands: median('commands') };
}

/** Waits until the gateway has written for each of `count` keys that its secret was used. */
async function untilNoted(redisPort: number, count: number): Promise<void> {
  await withRedis(redisPort, async (redis) => {
    while ((await redis.keys(keyspace.secretUses('*'))).length < count) await delay(100);
  });
}

async function load(ask: Asker, kind: Guarded, keys: Keys, requests: number): Promise<void> {
  const taken = Array.from({ length: requests }, () => KEY[kind](keys));
  const isAdmitted = kind === 'admitted' || kind === 'first of a key';
  for (const [i, key] of taken.entries()) {
    // Of the same cost, refusals within a millisecond share what is made for them, and how many do depends on the machine.
    const isOther = !isAdmitted && i % 2 === 1;
    const { status } = await ask(isOther ? { ...GET, target: COSTLY } : GET, key);
    if (status !== (isAdmitted ? 200 : 429)) throw new Error(`a request that is '${kind}' was answered with ${status}`);
  }
}

/** What the process has allocated since the last call. It writes the figure into a file. */
async function allocatedBytes(pid: number, file: string): Promise<number> {
  process.kill(pid, 'SIGUSR2');
  for (let i = 0; i < 5_000; i++) {
    const text = await readFile(file, 'utf8').catch(() => null);
    if (text !== null) {
      await rm(file);
      return Number(text);
    }
    await delay(2);
  }
  throw new Error('the gateway did not write how much it has allocated');
}
