import { readFile, rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { COSTLY, type GatewayToGuard, startForGuard } from '../contestants/tollgate.ts';
import { withRedis, workOf } from '../redis.ts';
import { SCENARIOS } from '../scenarios.ts';
import { type Asker, asker, GET, UNTIL_STEADY } from '../verify.ts';
import { type KeySet, newSecret, openWorld, type World } from '../world.ts';
import { type Costs, GUARDED, type Guarded, type RequestCost } from './costs.ts';
import { countSystemCalls } from './system-calls.ts';

/** The key of the next request of each kind. */
const KEY: Readonly<Record<Guarded, (keys: Keys) => string>> = {
  admitted: ({ good }) => good[0]!,
  'first of a key': ({ unused }) => unused.next().value!,
  banned: ({ banned }) => banned,
  spent: ({ spent }) => spent,
  'unknown key': newSecret,
};

type Keys = KeySet & { readonly unused: Iterator<string> };

/** Until the compiler has seen what is hot, and what is kept of the last requests is full. */
const WARM_UP = 12_000;
const COUNTED = 4_000;
/** The least of this many passes counts. */
const PASSES = 3;
const COUNTED_CALLS = 1_000;
const IDLE_MS = 3_000;
/** Of a key's first requests there are fewer: each has a key of its own, and the gateway writes later, and slowly, that it was used. */
const FIRST = { warmUp: 4_000, counted: 1_500 };
const KEYS = UNTIL_STEADY + FIRST.warmUp + PASSES * FIRST.counted + COUNTED_CALLS;

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
  const { warmUp, counted } = isFirst ? FIRST : { warmUp: WARM_UP, counted: COUNTED };
  let used = UNTIL_STEADY;
  const requests = async (count: number) => {
    await load(ask, kind, own, count);
    used += count;
    if (isFirst) await untilNoted(gateway.redisPort, used);
  };
  try {
    for (let i = 0; i < UNTIL_STEADY; i++) await ask(GET, KEY[kind](own));
    await requests(warmUp);
    const idle = await workWhile(gateway, () => delay(IDLE_MS));
    const passes: Work[] = [];
    for (let pass = 0; pass < PASSES; pass++) passes.push(await workWhile(gateway, () => requests(counted)));
    /** Without what the timers of the gateway do: on a slow machine more of it falls into the time of a pass. */
    const perRequest = (name: keyof Work) => {
      const works = passes.map((work) => work[name] - (idle[name] / idle.ms) * work.ms);
      return Math.max(0, Math.min(...works) / counted);
    };
    return {
      bytes: Math.round(perRequest('bytes')),
      systemCalls: await systemCallsOf(gateway, () => requests(COUNTED_CALLS)),
      scripts: inHundredths(perRequest('scripts')),
      commands: inHundredths(perRequest('commands')),
    };
  } finally {
    ask.end();
  }
}

/** What a gateway and its Redis do in a time. */
interface Work {
  readonly ms: number;
  readonly bytes: number;
  readonly scripts: number;
  readonly commands: number;
}

async function workWhile({ pid, bytesFile, redisPort }: GatewayToGuard, work: () => Promise<void>): Promise<Work> {
  const before = await workOf(redisPort);
  await allocatedBytes(pid, bytesFile);
  const beganAtMs = performance.now();
  await work();
  const ms = performance.now() - beganAtMs;
  const bytes = await allocatedBytes(pid, bytesFile);
  const { scripts, commands } = await workOf(redisPort);
  return { ms, bytes, scripts: scripts - before.scripts, commands: commands - before.commands };
}

/** The calls for each request, without those of the timers of the gateway, of which a slow machine sees more in the time of a pass. */
async function systemCallsOf({ pid }: GatewayToGuard, work: () => Promise<void>): Promise<number | null> {
  const idle = await timedCalls(pid, () => delay(IDLE_MS));
  const busy = await timedCalls(pid, work);
  if (idle === null || busy === null) return null;
  return inHundredths((busy.calls - (idle.calls / idle.ms) * busy.ms) / COUNTED_CALLS);
}

async function timedCalls(pid: number, work: () => Promise<void>): Promise<{ calls: number; ms: number } | null> {
  let ms = 0;
  const calls = await countSystemCalls(pid, async () => {
    const beganAtMs = performance.now();
    await work();
    ms = performance.now() - beganAtMs;
  });
  return calls === null ? null : { calls, ms };
}

/** Waits until the gateway has written for each of `count` keys that its secret was used. */
async function untilNoted(redisPort: number, count: number): Promise<void> {
  await withRedis(redisPort, async (redis) => {
    while ((await redis.keys(keyspace.secretUses('*'))).length < count) await delay(100);
  });
}

const inHundredths = (count: number) => Math.round(count * 100) / 100;

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
