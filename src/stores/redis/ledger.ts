import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { type Ban, NO_STRIKES, type Outcome, type WindowCount } from '../../admit/decide.ts';
import { type Ask, type BanInForce, type Ledger, NothingDone } from '../../admit/ledger.ts';
import { type Allowance, WINDOWS, type WindowName } from '../../admit/plan.ts';
import type { Change, Durability } from '../../identify/key-store.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import type { DurableWrites, LastingWrite } from './durable-writes.ts';
import { NOTED_LUA } from './key-writes.ts';
import { keyspace } from './keyspace.ts';
import { Numbers } from './numbers.ts';
import { holdWrites } from './one-write.ts';
import type { Link } from './replication.ts';
import { Script } from './script.ts';
import type { Calls } from './shards.ts';

const script = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');

/** The script of the decision. Exported for the test that holds it to its twin. */
export const DECIDE_LUA = script('./decide.lua');

const LIFT_LUA = NOTED_LUA + script('./lift.lua');

/** What `defineCommand` adds to a client. */
interface Scripted {
  tollgateLift(account: string, changes: string, change: string, again: ''): Promise<string | null>;
}

export interface RedisLedgerOptions {
  readonly redis: RedisClient;
  readonly circuit: Calls;
  /** Tells every gateway. */
  readonly publish: (change: Change) => Promise<void>;
  /** Where a lift waits until it is durable. */
  readonly writes: DurableWrites;
  /** Left out: DECIDE_LUA. */
  readonly decideLua?: string;
}

/**
 * The ledger in Redis: one hash per consumer, one script call for all asks of a turn, Redis's clock. In a cluster one
 * script call for each consumer of the turn, in one write for each primary.
 */
export class RedisLedger implements Ledger {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;
  readonly #publish: (change: Change) => Promise<void>;
  readonly #writes: DurableWrites;
  readonly #decision: Script;
  readonly #ruleOf = rememberedRules();

  constructor({ redis, circuit, publish, writes, decideLua = DECIDE_LUA }: RedisLedgerOptions) {
    this.#decision = new Script(decideLua);
    redis.defineCommand('tollgateLift', { lua: LIFT_LUA, numberOfKeys: 2 });
    this.#redis = redis as RedisClient & Scripted;
    this.#circuit = circuit;
    this.#publish = publish;
    this.#writes = writes;
  }

  decide(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]> {
    return this.#redis instanceof ClusterClient ? this.#decideApart(asks) : this.#decideTogether(asks);
  }

  async #decideTogether(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]> {
    const keys = asks.map(({ consumerId }) => keyspace.account(consumerId));
    const args = argumentsOf(asks, this.#ruleOf);
    const reply = await this.#circuit.run(() => this.#decision.run(this.#redis, keys, args), keys[0]);
    const numbers = new Numbers(reply);
    const nowMs = numbers.next();
    return asks.map((ask) => outcomeOf(ask, nowMs, numbers));
  }

  /**
   * A script may only touch one slot. Two consumers of one turn share one so seldom that they are not put together: a
   * call for one name is never told TRYAGAIN while its slot moves. A primary that does not answer leaves its own
   * consumers without an outcome, nobody else's.
   */
  async #decideApart(asks: readonly Ask[]): Promise<readonly (Outcome | null)[]> {
    const groups = [...Map.groupBy(asks, ({ consumerId }) => consumerId).values()];
    const held = holdWrites(this.#redis);
    const calls = groups.map((group) => this.#decideTogether(group));
    held.release();
    const settled = await Promise.allSettled(calls);
    const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as Error] : []));
    const undone = failures.find((failure) => failure instanceof NothingDone);
    if (undone === undefined && failures[0] !== undefined && failures.length === groups.length) throw failures[0];
    const outcomes = new Map(groups.flatMap((group, i) => group.map((ask, j) => [ask, decidedOf(settled[i]!, j)])));
    if (undone !== undefined) {
      const butFor = asks.map((ask) => outcomes.get(ask));
      throw new NothingDone(undone.message, undone.cause, butFor);
    }
    return asks.map((ask) => outcomes.get(ask) ?? null);
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome | null> {
    const [outcome] = await this.decide([{ consumerId, allowance, cost: 1, n: 0 }]);
    return outcome ?? null;
  }

  async lift(consumerId: string): Promise<Durability | null> {
    const names = [keyspace.account(consumerId), keyspace.changesTo(consumerId)] as const;
    const change = randomUUID();
    const endedAt = await this.#circuit.run(() => this.#redis.tollgateLift(...names, change, ''), names[0]);
    if (endedAt === null) return null;
    const announce = () => this.#publish({ kind: 'ban', keyId: consumerId });
    await announce();
    return this.#writes.settle(liftAgain(consumerId, change, endedAt, announce));
  }

  async forget(consumerId: string): Promise<void> {
    const name = keyspace.account(consumerId);
    await this.#circuit.run(() => this.#redis.del(name), name);
  }

  /** Looks through all accounts, a thousand at a time, so that there is no index that could disagree with them. */
  async bans(): Promise<readonly BanInForce[]> {
    const found = new Map<string, BanInForce>();
    const servers = this.#redis instanceof ClusterClient ? this.#redis.nodes('master') : [this.#redis];
    await Promise.all(servers.map((server) => this.#bansOn(server, found)));
    return [...found.values()];
  }

  async #bansOn(server: Redis, found: Map<string, BanInForce>): Promise<void> {
    const prefix = keyspace.account('').slice(0, -1);
    let cursor = '0';
    do {
      const scan = () => server.scan(cursor, 'MATCH', `${prefix}*`, 'COUNT', 1000);
      const [next, names] = await this.#circuit.run(scan, server);
      cursor = next;
      if (names.length === 0) continue;
      const [seconds, microseconds] = await this.#circuit.run(() => server.time(), server);
      const nowMs = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
      for (const [i, ban] of (await this.#banFields(names)).entries()) {
        const consumerId = names[i]!.slice(prefix.length, -1);
        if (ban !== null && nowMs < ban.untilMs) found.set(consumerId, { consumerId, ban });
      }
    } while (cursor !== '0');
  }

  /** Of the cluster and not of one node: a slot may have moved since the node named the account. */
  async #banFields(names: readonly string[]): Promise<(Ban | null)[]> {
    const held = holdWrites(this.#redis);
    const calls = names.map((name) => this.#circuit.run(() => this.#banOf(name), name));
    held.release();
    return Promise.all(calls);
  }

  async #banOf(name: string): Promise<Ban | null> {
    const fields = await this.#redis.hmget(name, 'b', 'B', 'w').catch((error: Error) => {
      if (error.message.startsWith('WRONGTYPE')) return [];
      throw error;
    });
    const [number = 0, untilMs = 0, window = 0] = fields.map(Number);
    return banOf(number, untilMs, window);
  }
}

/** A ban that a failover has brought back is lifted again; one that was imposed since has another end and stays. */
function liftAgain(consumerId: string, change: string, endedAt: string, announce: () => Promise<void>): LastingWrite {
  const names = [keyspace.account(consumerId), keyspace.changesTo(consumerId)] as const;
  let isAnnounced = true;
  return {
    about: consumerId,
    remake: async (linkOf: (name: string) => Promise<Link>) => {
      const link = await linkOf(names[0]);
      const outcome = (await link.eval(LIFT_LUA, 2, ...names, change, endedAt)) === null ? 'there' : 'remade';
      if (outcome === 'remade') isAnnounced = false;
      if (!isAnnounced) await announce();
      isAnnounced = true;
      return outcome;
    },
  };
}

type Answer = PromiseSettledResult<readonly (Outcome | null)[]>;

/** Undefined where nothing was done, null where that is not known. */
function decidedOf(answer: Answer, i: number): Outcome | null | undefined {
  if (answer.status === 'fulfilled') return answer.value[i] ?? null;
  return answer.reason instanceof NothingDone ? undefined : null;
}

/** The arguments of the script (their shape stands at its head): most of what a turn asks is asked under the same few rules. */
function argumentsOf(asks: readonly Ask[], ruleOf: (allowance: Allowance) => string): string[] {
  const rules = new Map<Allowance, number>();
  let runs = '';
  for (let i = 0; i < asks.length; ) {
    const { allowance, cost, n } = asks[i]!;
    const rule = rules.get(allowance) ?? rules.size + 2;
    rules.set(allowance, rule);
    let next = i + 1;
    while (next < asks.length && isSame(asks[next]!, asks[i]!)) next++;
    runs += `${rule} ${n} ${cost} ${next - i} `;
    i = next;
  }
  return [runs, ...[...rules.keys()].map(ruleOf)];
}

/** Remembers what the rules of an allowance are told as: there are few, and each is told in every call. */
function rememberedRules(): (allowance: Allowance) => string {
  const known = new WeakMap<Allowance, string>();
  return (allowance) => {
    const before = known.get(allowance);
    if (before !== undefined) return before;
    const rule = ruleOf(allowance).join(' ');
    known.set(allowance, rule);
    return rule;
  };
}

function isSame(one: Ask, other: Ask): boolean {
  return one.allowance === other.allowance && one.cost === other.cost && one.n === other.n;
}

function ruleOf({ limits, bans }: Allowance): number[] {
  const rule =
    bans === null
      ? [0, 0, 0, 0, 0, 0]
      : [bans.after, bans.withinMs, bans.firstMs, bans.factor, bans.longestMs, bans.forgetMs];
  const windows = limits.flatMap(({ window, lengthMs, limit }) => [WINDOWS.indexOf(window) + 1, lengthMs, limit]);
  return [...rule, ...windows];
}

/** Reads one consumer's part of the reply (its shape stands at the head of decide.lua). */
function outcomeOf({ allowance, cost, n }: Ask, nowMs: number, reply: Numbers): Outcome | null {
  const told = reply.next();
  if (told === 0) return null;
  const { limits } = allowance;
  const admitted = reply.next();
  const windows: Partial<Record<WindowName, WindowCount>> = {};
  for (const { window } of limits) {
    const used = reply.next();
    const endsAtMs = reply.next();
    if (endsAtMs > 0) windows[window] = { used, endsAtMs };
  }
  if (told === 1 + 2 * limits.length) {
    return { nowMs, cost, n, admitted, bannedFrom: n, state: { windows, strikes: NO_STRIKES, ban: null } };
  }
  const bannedFrom = reply.next();
  const strikes = { count: reply.next(), endsAtMs: reply.next() };
  const ban = banOf(reply.next(), reply.next(), reply.next());
  const imposes = reply.next() === 1 ? ({ imposesBan: true } as const) : {};
  return { nowMs, cost, n, admitted, bannedFrom, ...imposes, state: { windows, strikes, ban } };
}

function banOf(number: number, untilMs: number, window: number): Ban | null {
  const name = WINDOWS[window - 1];
  return number > 0 && name !== undefined ? { number, untilMs, window: name } : null;
}
