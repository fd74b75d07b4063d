import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Command, type Redis } from 'ioredis';
import type { ResetUsage } from '../../admit/account-changes.ts';
import { type Ban, NO_STRIKES, type Outcome } from '../../admit/decide.ts';
import {
  type BanInForce,
  type DecisionRequest,
  type Durability,
  type Ledger,
  type MadeOnce,
  NothingDone,
} from '../../admit/ledger.ts';
import type { Allowance } from '../../admit/plan.ts';
import {
  slicedCount,
  type TopUp,
  type TopUps,
  WINDOWS,
  type WindowCount,
  type WindowLimit,
  type WindowName,
} from '../../admit/windows.ts';
import { Failure } from '../../failure.ts';
import type { StoreChange } from '../../identify/key-store.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import type { DurableWrites, LastingWrite, ReplicaLink } from './durable-writes.ts';
import { NOTED_LUA } from './key-writes.ts';
import { keyspace } from './keyspace.ts';
import type { Calls } from './shards.ts';
import { UsageChanges, type UsageChangesLua } from './usage-changes.ts';
import { holdWrites } from './values.ts';

const script = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');

export const WINDOWS_LUA = script('./windows.lua');
export const HISTORY_LUA = script('./history.lua');
/** The decision script. Exported for the test that compares it with src/admit/decide.ts. */
export const DECIDE_LUA = WINDOWS_LUA + HISTORY_LUA + script('./decide.lua');

const LIFT_LUA = NOTED_LUA + script('./lift.lua');

/** How often a call is made with the periods that the store's clock asks for. */
const MOST_ATTEMPTS = 3;

/** What `defineCommand` adds to a client. */
interface Scripted {
  tollgateLift(account: string, changes: string, change: string, again: ''): Promise<string | null>;
}

interface RedisLedgerOptions {
  readonly redis: RedisClient;
  readonly circuit: Calls;
  /** Notifies every gateway. */
  readonly publish: (change: StoreChange) => Promise<void>;
  /** Makes lifts, top-ups and resets durable. */
  readonly writes: DurableWrites;
  /** Left out: DECIDE_LUA. */
  readonly decideLua?: string;
  /** Left out: USAGE_CHANGES_LUA. */
  readonly changesLua?: UsageChangesLua;
}

/**
 * The ledger in Redis: one hash per consumer, one script call for all requests of a turn, Redis's clock. In a cluster, one
 * script call for each consumer of the turn, and one socket write for each primary.
 */
export class RedisLedger implements Ledger {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;
  readonly #publish: (change: StoreChange) => Promise<void>;
  readonly #writes: DurableWrites;
  readonly #decision: Script;
  readonly #usageChanges: UsageChanges;
  readonly #rules = new RuleTexts();

  constructor({ redis, circuit, publish, writes, decideLua = DECIDE_LUA, changesLua }: RedisLedgerOptions) {
    this.#decision = new Script(decideLua);
    redis.defineCommand('tollgateLift', { lua: LIFT_LUA, numberOfKeys: 2 });
    this.#redis = redis as RedisClient & Scripted;
    this.#circuit = circuit;
    this.#publish = publish;
    this.#writes = writes;
    const lua = changesLua === undefined ? {} : { lua: changesLua };
    this.#usageChanges = new UsageChanges({ redis, circuit, publish, writes, ...lua });
  }

  decide(requests: readonly DecisionRequest[]): Promise<readonly (Outcome | null)[]> {
    return this.#redis instanceof ClusterClient ? this.#decideApart(requests) : this.#decideTogether(requests);
  }

  async #decideTogether(requests: readonly DecisionRequest[]): Promise<readonly (Outcome | null)[]> {
    const keys: string[] = [];
    for (const { consumerId, allowance } of requests) {
      keys.push(keyspace.account(consumerId));
      if (allowance.history !== undefined) keys.push(keyspace.history(consumerId));
    }
    const attempts = new Attempts(requests, this.#rules);
    try {
      const reply = await this.#circuit.run(() => this.#decision.run(this.#redis, keys, attempts), keys[0]);
      const numbers = new Numbers(reply);
      const nowMs = numbers.next();
      if (this.#rules.hasCalendars) this.#rules.setClock(nowMs);
      if (!numbers.isAtEnd || requests.length === 0)
        return requests.map((request) => outcomeOf(request, nowMs, numbers));
    } finally {
      attempts.giveUp();
    }
    throw new NothingDone("The store's clock jumps: no period of a calendar window contains it.");
  }

  /**
   * A script may only use the names of one slot. Consumers in the same slot are rare within a turn and are not combined: a
   * call for a single name never gets TRYAGAIN while its slot moves. If a primary does not answer, only its own consumers
   * are left without an outcome.
   */
  async #decideApart(requests: readonly DecisionRequest[]): Promise<readonly (Outcome | null)[]> {
    const groups = [...Map.groupBy(requests, ({ consumerId }) => consumerId).values()];
    const held = holdWrites(this.#redis);
    const calls = groups.map((group) => this.#decideTogether(group));
    held.release();
    const settled = await Promise.allSettled(calls);
    const failures = settled.flatMap((result) => (result.status === 'rejected' ? [result.reason as Error] : []));
    const undone = failures.find((failure) => failure instanceof NothingDone);
    if (undone === undefined && failures[0] !== undefined && failures.length === groups.length) throw failures[0];
    const outcomes = new Map(
      groups.flatMap((group, i) => group.map((request, j) => [request, decidedOf(settled[i]!, j)])),
    );
    if (undone !== undefined) {
      const answered = requests.map((request) => outcomes.get(request));
      throw new NothingDone(undone.message, undone.cause, answered);
    }
    return requests.map((request) => outcomes.get(request) ?? null);
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

  topUp(consumerId: string, of: WindowLimit, amount: number, id: string): Promise<MadeOnce<TopUp>> {
    return this.#usageChanges.topUp(consumerId, of, amount, id);
  }

  resetUsage(consumerId: string, windows: readonly WindowName[], id: string): Promise<MadeOnce<ResetUsage>> {
    return this.#usageChanges.reset(consumerId, windows, id);
  }

  async forget(consumerId: string): Promise<void> {
    const names = [keyspace.account(consumerId), keyspace.history(consumerId)] as const;
    await this.#circuit.run(() => this.#redis.del(...names), names[0]);
  }

  /** Scans all accounts, a thousand at a time. An index of bans could disagree with the accounts. */
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

  /** Asks the cluster and not the scanned node: a slot may have moved since the scan. */
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

/** Lifts a ban again that a failover has restored. A ban that was imposed since has another end and stays. */
function liftAgain(consumerId: string, change: string, endedAt: string, announce: () => Promise<void>): LastingWrite {
  const names = [keyspace.account(consumerId), keyspace.changesTo(consumerId)] as const;
  let isAnnounced = true;
  return {
    about: consumerId,
    remake: async (linkOf: (name: string) => Promise<ReplicaLink>) => {
      const link = await linkOf(names[0]);
      const outcome = (await link.eval(LIFT_LUA, 2, ...names, change, endedAt)) === null ? 'there' : 'remade';
      if (outcome === 'remade') isAnnounced = false;
      if (!isAnnounced) await announce();
      isAnnounced = true;
      return outcome;
    },
  };
}

type Settled = PromiseSettledResult<readonly (Outcome | null)[]>;

/** Undefined if the store has certainly done nothing, null if that is not known. */
function decidedOf(result: Settled, i: number): Outcome | null | undefined {
  if (result.status === 'fulfilled') return result.value[i] ?? null;
  return result.reason instanceof NothingDone ? undefined : null;
}

/** The arguments of the script (described in decide.lua). Each rule is sent once: most requests of a turn share a few. */
function argumentsOf(requests: readonly DecisionRequest[], texts: RuleTexts): string[] {
  const rules = new Map<Allowance, number>();
  let runs = '';
  for (let i = 0; i < requests.length; ) {
    const { allowance, cost, n } = requests[i]!;
    const rule = rules.get(allowance) ?? rules.size + 2;
    rules.set(allowance, rule);
    let next = i + 1;
    while (next < requests.length && isSame(requests[next]!, requests[i]!)) next++;
    runs += `${rule} ${n} ${cost} ${next - i} `;
    i = next;
  }
  const args = [runs];
  for (const allowance of rules.keys()) args.push(texts.of(allowance));
  return args;
}

function isSame(one: DecisionRequest, other: DecisionRequest): boolean {
  return one.allowance === other.allowance && one.cost === other.cost && one.n === other.n;
}

/** The text of an allowance's rule, and until when by the store's clock its calendar windows are up to date. */
interface RuleText {
  readonly text: string;
  readonly untilMs: number;
  /** The jump of the store's clock after which it was made. */
  readonly jump: number;
}

/**
 * Caches the text of each allowance's rule: there are few, and every call sends them. The text has the periods of calendar
 * windows around the store's present. The script chooses the one that its clock is in, so it matters nothing whether this
 * process's clock is right, as long as the store's passes as fast.
 */
class RuleTexts {
  readonly #known = new WeakMap<Allowance, RuleText>();
  /** The store's clock minus this process's monotonic one, milliseconds. */
  #offsetMs = performance.timeOrigin;
  #jump = 0;
  #hasCalendars = false;

  get hasCalendars(): boolean {
    return this.#hasCalendars;
  }

  /** The store's clock says `nowMs`. */
  setClock(nowMs: number): void {
    const offsetMs = nowMs - performance.now();
    if (Math.abs(offsetMs - this.#offsetMs) > JUMP_MS) this.#jump++;
    this.#offsetMs = offsetMs;
  }

  of(allowance: Allowance): string {
    const known = this.#known.get(allowance);
    if (known?.untilMs === Number.POSITIVE_INFINITY) return known.text;
    const nowMs = Math.floor(performance.now() + this.#offsetMs);
    if (known !== undefined && known.jump === this.#jump && nowMs < known.untilMs) return known.text;
    const ends = allowance.limits.flatMap(({ calendar }) => calendar?.periodAt(nowMs).endsAtMs ?? []);
    const untilMs = Math.min(Number.POSITIVE_INFINITY, ...ends);
    this.#hasCalendars ||= ends.length > 0;
    const text = ruleOf(allowance, nowMs).join(' ');
    this.#known.set(allowance, { text, untilMs, jump: this.#jump });
    return text;
  }
}

/** By this much the store's clock jumps and does not merely drift, or its answer come late. */
const JUMP_MS = 60_000;

function ruleOf({ limits, bans, history }: Allowance, nowMs: number): number[] {
  const kept = history === undefined ? 0 : history === 'admitted' ? 1 : 2;
  const rule =
    bans === null
      ? [kept, 0, 0, 0, 0, 0, 0]
      : [kept, bans.after, bans.withinMs, bans.firstMs, bans.factor, bans.longestMs, bans.forgetMs];
  for (const { window, limit, slices = 0, calendar } of limits) {
    const instants = calendar === undefined ? [] : calendar.instantsAround(nowMs);
    rule.push(WINDOWS.indexOf(window) + 1 + 10 * slices + 1_000 * instants.length, limit, ...instants);
  }
  return rule;
}

/** Parses one consumer's part of the reply (described in decide.lua). */
function outcomeOf({ allowance, cost, n }: DecisionRequest, nowMs: number, reply: Numbers): Outcome | null {
  const length = reply.next();
  if (length === 0) return null;
  const { limits } = allowance;
  const admitted = reply.next();
  const windows: Partial<Record<WindowName, WindowCount>> = {};
  let left = length - 1;
  for (const { window, lengthMs, slices } of limits) {
    if (slices === undefined) {
      const used = reply.next();
      const endsAtMs = reply.next();
      if (endsAtMs > 0) windows[window] = { used, endsAtMs };
      left -= 2;
      continue;
    }
    const size = reply.next();
    left -= size === 0 ? 1 : size + 3;
    if (size === 0) continue;
    const [startsAtMs, first] = [reply.next(), reply.next()];
    const counts = Array.from({ length: size }, () => reply.next());
    windows[window] = slicedCount({ per: slices, startsAtMs, first, counts }, lengthMs);
  }
  if (left === 0) {
    return { nowMs, cost, n, admitted, bannedFrom: n, state: { windows, strikes: NO_STRIKES, ban: null } };
  }
  const bannedFrom = reply.next();
  const strikes = { count: reply.next(), endsAtMs: reply.next() };
  const ban = banOf(reply.next(), reply.next(), reply.next());
  const imposes = reply.next() === 1 ? ({ imposesBan: true } as const) : {};
  const topUps = left === NUMBERS_OF_REFUSALS ? {} : { topUps: topUpsOf((left - NUMBERS_OF_REFUSALS) / 3, reply) };
  return { nowMs, cost, n, admitted, bannedFrom, ...imposes, state: { windows, strikes, ban, ...topUps } };
}

/** How many numbers tell strikes and ban. */
const NUMBERS_OF_REFUSALS = 7;

function topUpsOf(size: number, reply: Numbers): TopUps {
  return Object.fromEntries(
    Array.from({ length: size }, () => {
      const name = WINDOWS[reply.next() - 1]!;
      return [name, { amount: reply.next(), untilMs: reply.next() }];
    }),
  );
}

function banOf(number: number, untilMs: number, window: number): Ban | null {
  const name = WINDOWS[window - 1];
  return number > 0 && name !== undefined ? { number, untilMs, window: name } : null;
}

const SPACE = 0x20;
const ZERO = 0x30;

/** Parses the whole numbers of a text one after the other: ASCII digits, separated by single spaces. */
export class Numbers {
  readonly #text: Uint8Array;
  #at = 0;

  constructor(text: Uint8Array) {
    this.#text = text;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  /** @throws Failure `store_unavailable` if no number follows */
  next(): number {
    const text = this.#text;
    const from = this.#at;
    let number = 0;
    let at = from;
    for (; at < text.length; at++) {
      const byte = text[at]!;
      if (byte === SPACE) break;
      const digit = byte - ZERO;
      if (digit < 0 || digit > 9) throw noNumber();
      number = number * 10 + digit;
    }
    if (at === from) throw noNumber();
    this.#at = at + 1;
    return number;
  }
}

function noNumber(): Failure {
  return new Failure('store_unavailable', 'Redis answered something else than the script tells.');
}

/**
 * A Lua script that is called by its digest (EVALSHA). If Redis does not know the script, nothing has run yet, and the
 * script is sent in full (EVAL).
 *
 * Used only for the decision, which requests wait for: ioredis's own `defineCommand` does the same at twice the cost.
 */
class Script {
  readonly #lua: string;
  readonly #digest: string;

  constructor(lua: string) {
    this.#lua = lua;
    this.#digest = createHash('sha1').update(lua).digest('hex');
  }

  /** Returns the script's reply, which must be a string. Rejects as any other command of the client does. */
  run(redis: RedisClient, keys: readonly string[], attempts: Attempts): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const send = (name: 'eval' | 'evalsha', script: string) => {
        const args = [script, String(keys.length), ...keys, ...attempts.args()];
        redis.sendCommand(new ScriptCall(name, args, onReply, onError));
      };
      const onReply = (reply: Buffer) => {
        try {
          if (attempts.isNextAfter(reply)) send('evalsha', this.#digest);
          else resolve(reply);
        } catch (error) {
          reject(error);
        }
      };
      const onError = (error: Error) =>
        attempts.isAwaited && error.message.startsWith('NOSCRIPT') ? send('eval', this.#lua) : reject(error);
      send('evalsha', this.#digest);
    });
  }
}

/**
 * The arguments of the script for some requests, and whether the script is called again. All its calls are within one
 * deadline, and after the deadline nothing more is sent: the gateway has decided these requests without the store.
 */
class Attempts {
  readonly #requests: readonly DecisionRequest[];
  readonly #rules: RuleTexts;
  #left = MOST_ATTEMPTS;
  isAwaited = true;

  constructor(requests: readonly DecisionRequest[], rules: RuleTexts) {
    this.#requests = requests;
    this.#rules = rules;
  }

  args(): string[] {
    return argumentsOf(this.#requests, this.#rules);
  }

  /** The script has replied. If the reply is the store's clock alone, the next call has the periods around that. */
  isNextAfter(reply: Buffer): boolean {
    if (reply.includes(SPACE) || this.#requests.length === 0) return false;
    this.#rules.setClock(new Numbers(reply).next());
    this.#left--;
    return this.#left > 0 && this.isAwaited;
  }

  giveUp(): void {
    this.isAwaited = false;
  }
}

/** A command that settles through callbacks, without the cost of ioredis's promise. */
class ScriptCall extends Command {
  constructor(
    name: 'eval' | 'evalsha',
    args: string[],
    resolve: (reply: Buffer) => void,
    reject: (error: Error) => void,
  ) {
    super(name, args);
    this.resolve = (reply: Buffer) => {
      this.isSettled = true;
      resolve(reply);
    };
    this.reject = (error: Error) => {
      this.isSettled = true;
      reject(error);
    };
  }
}
