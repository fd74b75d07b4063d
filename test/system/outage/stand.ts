import { expect } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { openGateways, startGateways, type TestGateway } from '../../support/gateway.ts';
import { isLasting } from '../../support/lasting-entries.ts';
import type { PrivateRedisOptions } from '../../support/private-redis.ts';
import { type PrivateRedis, privateRedis, redisCommand } from '../../support/redis.ts';
import { stopwatch } from '../../support/stopwatch.ts';
import { startUpstream } from '../../support/upstream.ts';
import { type Link, startLink } from './link.ts';

/** What each window admits in these tests. */
export const LIMIT = 40;
/** What the gateways are told a request may wait. */
export const TIMEOUT_MS = 1_000;
/** Requests that each gateway is sent at the same time. */
export const AT_ONCE = 4;

const PLANS = `
plans:
  plain: { limits: { minute: ${LIMIT}, day: 100000 }, bans: off }
  strict: { limits: { minute: 2, day: 100000 } }
bans: { after: 3, within: 1m, first: 10m, factor: 2, longest: 24h, forget: 24h }
failed-authentication: { minute: 100000 }
`;

export interface Answer {
  readonly status: number;
  readonly waitedMs: number;
}

/** Two gateways on one Redis, each over the same disturbable link. */
export interface Stand {
  readonly redis: PrivateRedis;
  readonly link: Link;
  readonly gateways: readonly TestGateway[];
  /** `n` requests with a key at each gateway, AT_ONCE at a time. */
  ask(key: string, n: number): Promise<readonly Answer[]>;
  /** Sends to the server itself, past the link. */
  redisSays(command: string, ...args: (string | number)[]): Promise<unknown>;
  /** Waits until every gateway says that the store is this, and owes nothing where it is present. */
  until(store: 'present' | 'away', withinMs?: number): Promise<void>;
  /** The sum over all gateways of a metric whose line begins like this. */
  metric(line: string): Promise<number>;
  /** What Redis has counted for a key in its minute. */
  counted(id: string): Promise<number>;
}

export interface StandOptions extends PrivateRedisOptions {
  /** Gateways, 2 by default. */
  readonly size?: number;
  /** Each gateway is a process of its own, which a test may kill. */
  readonly asProcesses?: boolean;
  readonly onFailure?: 'local' | 'closed' | 'open';
  readonly timeoutMs?: number;
  /** YAML, as in gateway.yaml. */
  readonly staleKeys?: string;
}

export async function startStand(options: StandOptions = {}): Promise<Stand> {
  const { size = 2, asProcesses = false, onFailure = 'local', timeoutMs = TIMEOUT_MS, ...others } = options;
  const { staleKeys = '1h', ...redisOptions } = others;
  const redis = await privateRedis(redisOptions);
  const link = await startLink(redis.url);
  const upstream = await startUpstream();
  const password = new URL(redis.url).password;
  const gateways = await (asProcesses ? startGateways : openGateways)(size, {
    upstream: upstream.origin,
    plans: PLANS,
    more: `redis: { timeout: ${timeoutMs}ms, onFailure: ${onFailure}, staleKeys: ${staleKeys} }`,
    env: {
      REDIS_URL: `redis://${password === '' ? '' : `:${password}@`}127.0.0.1:${link.port}`,
      KEY_PEPPER: 'a pepper that only the tests use',
    },
  });
  const metricsOf = async ({ adminPort }: TestGateway) => (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  const redisSays: Stand['redisSays'] = (command, ...args) => redisCommand(redis.url, command, ...args);
  return {
    redis,
    link,
    gateways,
    redisSays,
    ask: async (key, n) => (await Promise.all(gateways.map((each) => askOne(each, key, n)))).flat(),
    until: (store, withinMs = 15_000) =>
      eventually(
        async () => {
          for (const gateway of gateways) {
            const said = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`);
            expect(await said.json()).toMatchObject({ store });
            if (store === 'present') expect(await metricsOf(gateway)).toMatch(/^tollgate_store_owing 0$/m);
          }
        },
        { withinMs },
      ),
    metric: async (line) => {
      const texts = await Promise.all(gateways.map(metricsOf));
      const values = texts.flatMap((text) => text.split('\n').filter((each) => each.startsWith(line)));
      return values.reduce((sum, each) => sum + Number(each.slice(each.lastIndexOf(' '))), 0);
    },
    counted: async (id) => Number((await redisSays('HGET', `tg:a:{${id}}`, 'm')) ?? 0),
  };
}

async function askOne(gateway: TestGateway, key: string, n: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  let left = n;
  const client = async () => {
    while (left-- > 0) {
      const stop = stopwatch();
      const response = await gateway.get('/v1/pets', key);
      await response.arrayBuffer();
      answers.push({ status: response.status, waitedMs: stop() });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  return answers;
}

export const admittedOf = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;
export const longestOf = (answers: readonly Answer[]) => Math.max(...answers.map(({ waitedMs }) => waitedMs));
export const statusesOf = (answers: readonly Answer[]) => [...new Set(answers.map(({ status }) => status))].toSorted();

/**
 * Redis has counted what was admitted, but for what was admitted while a call was given up: of each gateway one call, of
 * at most AT_ONCE requests (contract section 6).
 * @param before how much of that there was before the outage
 */
export async function expectCounted(stand: Stand, id: string, admitted: number, before = 0): Promise<void> {
  const givenUp = (await stand.metric(GIVEN_UP)) - before;
  expect(givenUp).toBeLessThanOrEqual(stand.gateways.length * AT_ONCE);
  expect(Math.abs((await stand.counted(id)) - admitted)).toBeLessThanOrEqual(givenUp);
}

export const GIVEN_UP = 'tollgate_local_decisions_total{count="sent"}';

/** Counters, bans and cache entries end by themselves, whatever happened. */
export async function expectExpiries({ redis, redisSays }: Pick<Stand, 'redis' | 'redisSays'>): Promise<void> {
  expect(redis.pid).not.toBe(0);
  for (const name of (await redisSays('KEYS', '*')) as string[]) {
    if (isLasting(name)) continue;
    const lives = Number(await redisSays('PTTL', name));
    // -2: it has ended since it was listed.
    expect({ name, ends: lives !== -1 }).toEqual({ name, ends: true });
  }
}

/** How often each gateway has logged that the store is away, with a reason, and that it is back, and after how long. */
export function changesTold({ gateways }: Pick<Stand, 'gateways'>): { away: number; back: number }[] {
  return gateways.map(({ process }) => {
    const lines = process.stdout
      .split('\n')
      .slice(0, -1)
      .filter((line) => line.includes('"the store is '));
    const told = lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
    const away = told.filter(({ msg, reason }) => msg === 'the store is away' && typeof reason === 'string');
    const back = told.filter(({ msg, awayMs }) => msg === 'the store is back' && typeof awayMs === 'number');
    return { away: away.length, back: back.length };
  });
}
