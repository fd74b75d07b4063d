import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import type { AccountState, Ban, Outcome, WindowCount } from '../../admit/decide.ts';
import type { Ask, BanInForce, Ledger } from '../../admit/ledger.ts';
import { type Allowance, WINDOWS, type WindowName } from '../../admit/plan.ts';
import type { Change } from '../../identify/key-store.ts';
import type { Circuit } from './circuit.ts';
import { keyspace } from './keyspace.ts';

const script = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');

/** The script of the decision. Exported for the test that holds it to its twin. */
export const DECIDE_LUA = script('./decide.lua');

/** What `defineCommand` adds to a client: the scripts, sent by their digest and loaded when Redis has forgotten them. */
interface Scripted {
  tollgateDecide(keys: number, ...args: (string | number)[]): Promise<[number, ...(string | number[])[]]>;
  tollgateLift(key: string): Promise<number>;
}

export interface RedisLedgerOptions {
  readonly redis: Redis;
  readonly circuit: Circuit;
  /** Tells every gateway. */
  readonly publish: (change: Change) => Promise<void>;
}

/** The ledger in Redis: one hash per consumer, one script call for all asks of a turn, Redis's clock. */
export class RedisLedger implements Ledger {
  readonly #redis: Redis & Scripted;
  readonly #circuit: Circuit;
  readonly #publish: (change: Change) => Promise<void>;

  constructor({ redis, circuit, publish }: RedisLedgerOptions) {
    redis.defineCommand('tollgateDecide', { lua: DECIDE_LUA });
    redis.defineCommand('tollgateLift', { lua: script('./lift.lua'), numberOfKeys: 1 });
    this.#redis = redis as Redis & Scripted;
    this.#circuit = circuit;
    this.#publish = publish;
  }

  async decide(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]> {
    const keys = asks.map(({ consumerId }) => keyspace.account(consumerId));
    const args = asks.flatMap(argumentsOf);
    const reply = await this.#circuit.run(() => this.#redis.tollgateDecide(keys.length, ...keys, ...args));
    return asks.map((ask, i) => outcomeOf(ask, reply[0], reply[i + 1] as string | number[]));
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    const [outcome] = await this.decide([{ consumerId, allowance, cost: 1, n: 0 }]);
    return outcome ?? null;
  }

  async lift(consumerId: string): Promise<boolean> {
    const lifted = await this.#circuit.run(() => this.#redis.tollgateLift(keyspace.account(consumerId)));
    if (lifted === 1) await this.#publish({ kind: 'ban', keyId: consumerId });
    return lifted === 1;
  }

  /** Looks through all accounts, a thousand at a time, so that there is no index that could disagree with them. */
  async bans(): Promise<readonly BanInForce[]> {
    const prefix = keyspace.account('').slice(0, -1);
    const found = new Map<string, BanInForce>();
    let cursor = '0';
    do {
      const [next, names] = await this.#circuit.run(() =>
        this.#redis.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', 1000),
      );
      cursor = next;
      if (names.length === 0) continue;
      const [seconds, microseconds] = await this.#circuit.run(() => this.#redis.time());
      const nowMs = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
      for (const [i, ban] of (await this.#banFields(names)).entries()) {
        const consumerId = names[i]!.slice(prefix.length, -1);
        if (ban !== null && nowMs < ban.untilMs) found.set(consumerId, { consumerId, ban });
      }
    } while (cursor !== '0');
    return [...found.values()];
  }

  async #banFields(names: readonly string[]): Promise<(Ban | null)[]> {
    const pipeline = this.#redis.pipeline();
    for (const name of names) pipeline.hmget(name, 'b', 'B', 'w');
    const rows = (await this.#circuit.run(() => pipeline.exec())) ?? [];
    return rows.map(([error, fields]) => {
      if (error !== null) return null;
      const [number, untilMs, window] = (fields as (string | null)[]).map(Number);
      return banOf(number!, untilMs!, window!);
    });
  }
}

function argumentsOf({ allowance, cost, n }: Ask): number[] {
  const { limits, bans } = allowance;
  const rule =
    bans === null
      ? [0, 0, 0, 0, 0, 0]
      : [bans.after, bans.withinMs, bans.firstMs, bans.factor, bans.longestMs, bans.forgetMs];
  const windows = limits.flatMap(({ window, lengthMs, limit }) => [WINDOWS.indexOf(window) + 1, lengthMs, limit]);
  return [n, cost, ...rule, limits.length, ...windows];
}

/** Reads one consumer's part of the reply (its shape stands at the head of decide.lua). */
function outcomeOf(ask: Ask, nowMs: number, reply: string | number[]): Outcome | null {
  if (typeof reply === 'string') return null;
  const [admitted, bannedFrom, strikes, strikesEnd, number, untilMs, window] = reply as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const windows: Partial<Record<WindowName, WindowCount>> = {};
  for (const [i, limit] of ask.allowance.limits.entries()) {
    const used = reply[7 + 2 * i]!;
    const endsAtMs = reply[8 + 2 * i]!;
    if (endsAtMs > 0) windows[limit.window] = { used, endsAtMs };
  }
  const state: AccountState = {
    windows,
    strikes: { count: strikes, endsAtMs: strikesEnd },
    ban: banOf(number, untilMs, window),
  };
  return { nowMs, cost: ask.cost, n: ask.n, admitted, bannedFrom, state };
}

function banOf(number: number, untilMs: number, window: number): Ban | null {
  const name = WINDOWS[window - 1];
  return number > 0 && name !== undefined ? { number, untilMs, window: name } : null;
}
