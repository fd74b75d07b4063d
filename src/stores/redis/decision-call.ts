import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Command } from 'ioredis';
import { type Ban, NO_STRIKES, type Outcome } from '../../admit/decide.ts';
import { type DecisionRequest, NothingDone } from '../../admit/ledger.ts';
import type { Allowance } from '../../admit/plan.ts';
import { slicedCount, type TopUps, WINDOWS, type WindowCount, type WindowName } from '../../admit/windows.ts';
import { Failure } from '../../failure.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import type { Calls } from './shards.ts';

const script = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');

export const WINDOWS_LUA = script('./windows.lua');
export const HISTORY_LUA = script('./history.lua');
/** The decision script. Exported for the test that compares it with src/admit/decide.ts. */
export const DECIDE_LUA = WINDOWS_LUA + HISTORY_LUA + script('./decide.lua');

/** How often a call is made with the periods that the store's clock asks for. */
const MAX_ATTEMPTS = 3;

interface DecisionCallsOptions {
  readonly redis: RedisClient;
  readonly circuit: Calls;
  /** Left out: DECIDE_LUA. */
  readonly lua?: string | undefined;
  /** The gateway's own clock, Unix milliseconds. Left out: histories follow the store's clock unconditionally. */
  readonly wallMs?: (() => number) | undefined;
}

/** Calls of decide.lua, which describes its arguments and its reply. */
export class DecisionCalls {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #script: Script;
  readonly #rules = new RuleTexts();
  readonly #wallMs: (() => number) | undefined;

  constructor({ redis, circuit, lua = DECIDE_LUA, wallMs }: DecisionCallsOptions) {
    this.#wallMs = wallMs;
    this.#redis = redis;
    this.#circuit = circuit;
    this.#script = new Script(lua);
  }

  /** Decides all requests in one call. @returns and rejects as `Ledger.decide` */
  async decide(requests: readonly DecisionRequest[]): Promise<readonly (Outcome | null)[]> {
    const keys: string[] = [];
    for (const { consumerId, allowance } of requests) {
      keys.push(keyspace.account(consumerId));
      if (allowance.history !== undefined) keys.push(keyspace.history(consumerId));
    }
    const attempts = new Attempts(requests, this.#rules, this.#wallMs);
    try {
      const reply = await this.#circuit.run(() => this.#script.run(this.#redis, keys, attempts), keys[0]);
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
}

/** The clock of a gateway, as the last argument of a script that writes histories (described in history.lua). */
export function gatewayClock(wallMs: (() => number) | undefined): string[] {
  return wallMs === undefined ? [] : [`@${Math.floor(wallMs() / 1_000)}`];
}

/** The arguments of the script (described in decide.lua). Each rule is sent once: most requests of a turn share a few. */
function argumentsOf(
  requests: readonly DecisionRequest[],
  texts: RuleTexts,
  wallMs: (() => number) | undefined,
): string[] {
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
  let keepsHistory = false;
  for (const allowance of rules.keys()) {
    args.push(texts.of(allowance));
    keepsHistory ||= allowance.history !== undefined;
  }
  if (keepsHistory) args.push(...gatewayClock(wallMs));
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
 * windows around the store's present. The script chooses the one that its clock is in, so this process's clock
 * need not be right, as long as the store's passes as fast.
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

/** How many numbers describe strikes and ban. */
const NUMBERS_OF_REFUSALS = 7;

function topUpsOf(size: number, reply: Numbers): TopUps {
  return Object.fromEntries(
    Array.from({ length: size }, () => {
      const name = WINDOWS[reply.next() - 1]!;
      return [name, { amount: reply.next(), untilMs: reply.next() }];
    }),
  );
}

/** @param window its index in WINDOWS, from 1 */
export function banOf(number: number, untilMs: number, window: number): Ban | null {
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
  return new Failure('store_unavailable', 'Redis answered with something that the script does not return.');
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
  readonly #wallMs: (() => number) | undefined;
  #left = MAX_ATTEMPTS;
  isAwaited = true;

  constructor(requests: readonly DecisionRequest[], rules: RuleTexts, wallMs: (() => number) | undefined) {
    this.#requests = requests;
    this.#rules = rules;
    this.#wallMs = wallMs;
  }

  args(): string[] {
    return argumentsOf(this.#requests, this.#rules, this.#wallMs);
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
