import { readFile, rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { COSTLY, type GatewayToGuard, startForGuard } from '../contestants/tollgate.ts';
import type { KeyKind } from '../request.ts';
import { SCENARIOS } from '../scenarios.ts';
import { type Asker, asker, GET, UNTIL_STEADY } from '../verify.ts';
import { newSecret, openWorld, type World } from '../world.ts';
import { type Costs, GUARDED, type Guarded, type RequestCost } from './costs.ts';
import { countSystemCalls } from './system-calls.ts';

const KEY_KIND: Readonly<Record<Guarded, KeyKind>> = {
  admitted: 'good',
  banned: 'banned',
  spent: 'spent',
  'unknown key': 'unknown',
};

/** Until the compiler has seen what is hot, and what is kept of the last requests is full. */
const WARM_UP = 12_000;
const COUNTED = 4_000;
/** The least of this many passes counts. */
const PASSES = 3;
const COUNTED_CALLS = 1_000;
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
    const world = await openWorld(SCENARIOS[0]!, false);
    try {
      costs[kind] = await costOf(kind, world, await startForGuard(world));
    } finally {
      await world.close();
    }
    const { bytes, systemCalls } = costs[kind]!;
    say(`${kind}: ${bytes} bytes, ${systemCalls ?? 'unknown'} system calls`);
  }
  return costs as Costs;
}

async function costOf(kind: Guarded, world: World, { port, pid, bytesFile }: GatewayToGuard): Promise<RequestCost> {
  const ask = asker(port);
  try {
    for (let i = 0; i < UNTIL_STEADY; i++) await ask(GET, keyFor(kind, world));
    await load(ask, kind, world, WARM_UP);
    const idleBytesPerMs = await idleAllocation(pid, bytesFile);
    let least = Number.POSITIVE_INFINITY;
    for (let pass = 0; pass < PASSES; pass++) {
      await allocatedBytes(pid, bytesFile);
      const beganAtMs = performance.now();
      await load(ask, kind, world, COUNTED);
      const besidesBytes = idleBytesPerMs * (performance.now() - beganAtMs);
      least = Math.min(least, (await allocatedBytes(pid, bytesFile)) - besidesBytes);
    }
    return { bytes: Math.round(least / COUNTED), systemCalls: await systemCallsOf(kind, world, ask, pid) };
  } finally {
    ask.end();
  }
}

/** The calls for each request, without those of the timers of the gateway, of which a slow machine sees more in the time of a pass. */
async function systemCallsOf(kind: Guarded, world: World, ask: Asker, pid: number): Promise<number | null> {
  const idle = await timedCalls(pid, () => delay(IDLE_MS));
  const busy = await timedCalls(pid, () => load(ask, kind, world, COUNTED_CALLS));
  if (idle === null || busy === null) return null;
  const besides = (idle.calls / idle.ms) * busy.ms;
  return Math.round(((busy.calls - besides) / COUNTED_CALLS) * 100) / 100;
}

async function timedCalls(pid: number, work: () => Promise<unknown>): Promise<{ calls: number; ms: number } | null> {
  let ms = 0;
  const calls = await countSystemCalls(pid, async () => {
    const beganAtMs = performance.now();
    await work();
    ms = performance.now() - beganAtMs;
  });
  return calls === null ? null : { calls, ms };
}

/** What the process allocates by its own timers, bytes a millisecond: on a slow machine more of it falls into the time of a pass. */
async function idleAllocation(pid: number, bytesFile: string): Promise<number> {
  await allocatedBytes(pid, bytesFile);
  const beganAtMs = performance.now();
  await delay(IDLE_MS);
  const bytes = await allocatedBytes(pid, bytesFile);
  return bytes / (performance.now() - beganAtMs);
}

async function load(ask: Asker, kind: Guarded, world: World, requests: number): Promise<void> {
  const keys = Array.from({ length: requests }, () => keyFor(kind, world));
  const expected = kind === 'admitted' ? 200 : 429;
  for (const [i, key] of keys.entries()) {
    // Of the same cost, refusals within a millisecond share what is made for them, and how many do depends on the machine.
    const isOther = kind !== 'admitted' && i % 2 === 1;
    const { status } = await ask(isOther ? { ...GET, target: COSTLY } : GET, key);
    if (status !== expected) throw new Error(`a request that is '${kind}' was answered with ${status}`);
  }
}

function keyFor(kind: Guarded, { keys }: World): string {
  const keyKind = KEY_KIND[kind];
  if (keyKind === 'good') return keys.good[0]!;
  return keyKind === 'spent' || keyKind === 'banned' ? keys[keyKind] : newSecret();
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
