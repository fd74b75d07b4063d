import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { openStore } from '../../../src/cli/open-store.ts';
import { newKey } from '../../../src/identify/key-changes.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { eventually } from '../../support/conditions.ts';
import { Tally } from '../answers.ts';
import { Callers } from '../callers.ts';
import { leftoversIn } from '../leftovers.ts';
import type { Row } from '../row.ts';
import type { Context, Scenario } from '../scenario.ts';
import type { ChaosKey } from '../stand/keys.ts';
import { openStand, type Stand } from '../stand/stand.ts';

const GATEWAYS = 2;
const BATCH = 10_000;
const AT_ONCE = 64;
/** By then every table of a gateway is full. */
const EARLY = 0.4;
const GROWTH_MIB = 64;
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
  let early = stand.holdings();
  try {
    for (let used = 0; used < total && !signal.aborted; used += BATCH) {
      const batch = await makeBatch(redis, store, Math.min(BATCH, total - used));
      await useEach(callers, batch, stand.gateways.length);
      await redis.unlink(...batch.flatMap(({ names }) => names));
      timeline.hold(stand.holdings());
      if (used <= total * EARLY) early = stand.holdings();
      tell(`${used + batch.length} of ${total} keys`);
    }
    await eventually(async () => Number(await stand.store.command('DBSIZE')) <= 1, {
      withinMs: GONE_WITHIN_MS,
      everyMs: 200,
    }).catch(() => {});
    const left = Number(await stand.store.command('DBSIZE'));
    // The table of names shrinks a little at a time.
    await delay(1_000);
    return rowOf({ stand, tally, startedAtMs, total, early, before, after: await memoryOf(stand), left });
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
  readonly early: ReturnType<Stand['holdings']>;
  /** Redis, MiB. */
  readonly before: number;
  readonly after: number;
  readonly left: number;
}

async function rowOf({ stand, tally, startedAtMs, total, early, before, after, left }: Seen): Promise<Row> {
  const end = stand.holdings();
  const leftovers = await leftoversIn(stand.store);
  const mib = (value: number | undefined) => `${value?.toFixed(1) ?? '?'} MiB`;
  const notes = [
    `Redis held ${mib(before)} before and ${mib(after)} after; entries left: ${left}.`,
    `${GATEWAYS} gateways held ${mib(early?.rssMib)} after ${EARLY * 100} % of the keys and ${mib(end?.rssMib)} at the end.`,
  ];
  const broken: string[] = [];
  const others = [...tally.labels].filter(([label]) => label !== '200');
  for (const [label, count] of others) broken.push(`${count} keys got '${label}' at their only request.`);
  // `tg:changes` may be there.
  if (left > 1) broken.push(`${left} entries are left in Redis.`);
  if (after - before > REDIS_GROWTH_MIB) broken.push(`Redis did not give its memory back: ${notes[0]}`);
  if (end !== null && early !== null && end.rssMib - early.rssMib > GROWTH_MIB * GATEWAYS) {
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
