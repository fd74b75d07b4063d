import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { newKey } from '../../../src/operations/key-changes.ts';
import { openStore } from '../../../src/serve/open-store.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { eventually } from '../../../test/support/conditions.ts';
import { Tally } from '../answers.ts';
import { Callers } from '../callers.ts';
import { heldIn, leftoversIn, restingGateways } from '../leftovers.ts';
import type { Row } from '../row.ts';
import type { Context, Scenario } from '../scenario.ts';
import type { ChaosKey } from '../stand/keys.ts';
import { openStand, type Stand } from '../stand/stand.ts';

const GATEWAYS = 2;
const BATCH = 10_000;
const AT_ONCE = 64;
const GROWTH_MIB = 64;
/** The tables of a gateway, which are full after so many keys, have to be so in the first third. */
const MIN_KEYS = 3 * 100_000 * GATEWAYS;
const REDIS_GROWTH_MIB = 8;
const GONE_WITHIN_MS = 10_000;

/** Keys that are used once each: whatever a gateway or Redis keeps for one must go again. */
export const MILLION: Scenario = {
  name: 'keys used once',
  about: 'A million API keys (or --keys), each used once; a batch of them is deleted before the next is made.',
  run: async (context) => {
    const stand = await openStand({ store: 'plain', gateways: GATEWAYS, timeoutMs: 2_000 });
    try {
      return await useAll(stand, context);
    } finally {
      await stand.close();
    }
  },
};

async function useAll(stand: Stand, { keys: total, timeline, tell, signal }: Context): Promise<Row> {
  const startedAtMs = performance.now();
  const tally = new Tally();
  const callers = new Callers(
    stand.gateways.map(({ origin }) => origin),
    (answer) => {
      timeline.add(answer);
      tally.add(answer);
    },
  );
  const store = await openStore(stand.keys.env);
  const redis = new Redis(stand.store.url);
  const before = await memoryOf(stand);
  const resting = await restingGateways(stand);
  const looks: number[] = [];
  try {
    for (let used = 0; used < total && !signal.aborted; used += BATCH) {
      const batch = await makeBatch(redis, store, Math.min(BATCH, total - used));
      await useEach(callers, batch, stand.gateways.length);
      await redis.unlink(...batch.flatMap(({ names }) => names));
      const holdings = stand.holdings();
      timeline.hold(holdings);
      if (holdings !== null) looks.push(holdings.rssMib);
      tell(`${used + batch.length} of ${total} keys`);
    }
    await eventually(async () => Number(await stand.store.command('DBSIZE')) <= 1, {
      withinMs: GONE_WITHIN_MS,
      everyMs: 200,
    }).catch(() => {});
    const left = Number(await stand.store.command('DBSIZE'));
    // The table of names shrinks a little at a time.
    await delay(1_000);
    const after = await memoryOf(stand);
    await callers.close();
    const held = await heldIn(stand, resting);
    return rowOf({ stand, tally, startedAtMs, total, looks, before, after, left, held });
  } finally {
    redis.disconnect();
    await store.close();
    await callers.close();
  }
}

interface OnceKey extends ChaosKey {
  /** Of what Redis holds of it. */
  readonly names: readonly string[];
}

type Store = Awaited<ReturnType<typeof openStore>>;

/** Written as `RedisKeys` writes them, but thousands at a time, and without the list of all keys. */
async function makeBatch(redis: Redis, { plans, peppers }: Store, count: number): Promise<OnceKey[]> {
  const pipeline = redis.pipeline();
  const batch = Array.from({ length: count }, () => {
    const wishes = { plan: 'once', limits: {}, name: null, owner: null, expiresAtMs: null };
    const means = { plans: plans.plans, pepper: peppers[0]!, random: randomBytes, nowMs: Date.now() };
    const { key, secret } = newKey(wishes, means);
    const names = [keyspace.apiKey(key.id), keyspace.digest(key.secrets[0]!.digest)] as const;
    pipeline.set(names[0], JSON.stringify(key));
    pipeline.set(names[1], key.id);
    return { id: key.id, secret, limit: 5, names };
  });
  await pipeline.exec();
  return batch;
}

async function useEach(callers: Callers, batch: readonly ChaosKey[], gateways: number): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < batch.length) {
      const i = next++;
      await callers.ask('once', batch[i]!, i % gateways);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function memoryOf({ store }: Stand): Promise<number> {
  const info = String(await store.command('INFO', 'memory'));
  return Number(/^used_memory:(\d+)/m.exec(info)?.[1]) / 2 ** 20;
}

interface Seen {
  readonly stand: Stand;
  readonly tally: Tally;
  readonly startedAtMs: number;
  readonly total: number;
  /** What the gateways held after each batch, MiB. */
  readonly looks: readonly number[];
  /** Redis, MiB. */
  readonly before: number;
  readonly after: number;
  readonly left: number;
  readonly held: readonly string[];
}

async function rowOf({ stand, tally, startedAtMs, total, looks, before, after, left, held: open }: Seen): Promise<Row> {
  const leftovers = await leftoversIn(stand.store);
  const mib = (value: number) => `${value.toFixed(1)} MiB`;
  const held = leastHeld(looks);
  const notes = [
    `Redis held ${mib(before)} before and ${mib(after)} after; entries left: ${left}.`,
    held === null
      ? 'Too few keys to say whether the memory of the gateways is flat.'
      : `${GATEWAYS} gateways held at least ${mib(held.early)} in the middle and ${mib(held.late)} in the last third.`,
  ];
  const broken = [...open];
  const others = [...tally.labels].filter(([label]) => label !== '200');
  for (const [label, count] of others) broken.push(`${count} keys got '${label}' at their only request.`);
  // `tg:changes` may be there.
  if (left > 1) broken.push(`${left} entries are left in Redis.`);
  if (after - before > REDIS_GROWTH_MIB) broken.push(`Redis did not give its memory back: ${notes[0]}`);
  if (held !== null && held.late - held.early > GROWTH_MIB * GATEWAYS) {
    broken.push(`The gateways grow with the keys that they have seen: ${notes[1]}`);
  }
  if (leftovers.length > 0) broken.push(`Entries without an expiry in Redis: ${leftovers.join(', ')}.`);
  return {
    scenario: MILLION.name,
    about: MILLION.about.replace('A million', String(total)),
    answers: [...tally.labels],
    longestWaitMs: tally.longest?.latencyMs ?? 0,
    waitAllowedMs: Number.POSITIVE_INFINITY,
    quotas: [],
    bans: 'not tried',
    normalAfterMs: 0,
    leftovers,
    notes,
    broken,
    tookMs: performance.now() - startedAtMs,
  };
}

/** Between two collections memory only rises; what is left after them is what is kept. In the first third tables fill. */
function leastHeld(looks: readonly number[]): { readonly early: number; readonly late: number } | null {
  const third = Math.floor(looks.length / 3);
  if (looks.length * BATCH < MIN_KEYS) return null;
  return { early: Math.min(...looks.slice(third, 2 * third)), late: Math.min(...looks.slice(-third)) };
}
