import { createHash } from 'node:crypto';
import { Command } from 'ioredis';
import { accountIdsOf, historiesOf, inUnit } from '../../admit/account-id.ts';
import type { Allowance, Budgets } from '../../admit/allowance.ts';
import { type DecisionRequest, NothingDone } from '../../admit/ledger.ts';
import type { WindowLimit } from '../../admit/windows.ts';
import { slicedCount } from '../../engine/counting.ts';
import type { AccountState, Decision, LeaseTerms, Limit } from '../../engine/types.ts';
import { Failure } from '../../failure.ts';
import type { Ban, WindowCount } from '../../model/account.ts';
import { WINDOWS, type WindowName } from '../../model/values.ts';
import type { RedisClient } from './connection.ts';
import { ENGINE_LUA, withSource } from './engine-lua.ts';
import { keyspace } from './keyspace.ts';
import type { Calls, StoreConnection } from './shards.ts';
import type { StoredRule } from './shell/decision-script.ts';
import { windowFields } from './shell/window-fields.ts';

/** The name of the channel on which scripts recall what the store has lent. */
export const RECALLS_LUA = `local RECALLS = '${keyspace.recallsChannel}'\n`;
/** The decision script. Exported for the test that compares it with src/engine. */
export const DECIDE_LUA = `${RECALLS_LUA}${ENGINE_LUA}return decision_script()\n`;

/** How often the gateway makes a call, if the store's clock asks for other periods of calendar windows each time. */
const MAX_ATTEMPTS = 3;

interface DecisionCallsOptions extends StoreConnection {
  /** The name under which this process has requests in flight. */
  readonly holder: string;
  /** Left out: DECIDE_LUA. */
  readonly lua?: string | undefined;
  /** The gateway's own clock, Unix milliseconds. Left out: histories follow the store's clock unconditionally. */
  readonly wallMs?: (() => number) | undefined;
  /** Called with the name of a history in which the script could not record, because the name holds something else. */
  readonly onUnrecorded?: ((history: string) => void) | undefined;
}

/** Calls of the decision script: shell/decision-script.ts describes its arguments and its reply. */
export class DecisionCalls {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #script: Script;
  readonly #rules: RuleTexts;
  readonly #wallMs: (() => number) | undefined;
  readonly #onUnrecorded: ((history: string) => void) | undefined;

  constructor({ redis, circuit, holder, lua = DECIDE_LUA, wallMs, onUnrecorded }: DecisionCallsOptions) {
    this.#onUnrecorded = onUnrecorded;
    this.#rules = new RuleTexts(holder);
    this.#wallMs = wallMs;
    this.#redis = redis;
    this.#circuit = circuit;
    this.#script = new Script(lua);
  }

  /** The store's clock as far as decisions about calendar windows have told it, Unix milliseconds. */
  get storeNowMs(): number {
    return this.#rules.nowMs;
  }

  /**
   * Decides all requests in one call. @returns and rejects as `Ledger.decide`
   * @param isRead true if the caller asks for the present state, so that the store counts nothing
   */
  async decide(requests: readonly DecisionRequest[], isRead = false): Promise<readonly (Decision | null)[]> {
    const keys: string[] = [];
    for (const request of requests) addKeysOf(request, keys);
    const attempts = new Attempts(requests, this.#rules, this.#wallMs);
    try {
      const call = () => this.#script.run(this.#redis, keys, attempts);
      const reply = await (isRead ? this.#circuit.read(call, keys[0]) : this.#circuit.run(call, keys[0]));
      const numbers = new Numbers(reply);
      const nowMs = numbers.next();
      if (this.#rules.hasCalendars) this.#rules.setClock(nowMs);
      if (!numbers.isAtEnd || requests.length === 0) {
        const decisions = requests.map((request) => decisionOf(request, nowMs, numbers));
        if (!numbers.isAtEnd) this.#onUnrecorded?.(keys[numbers.next() - 1]!);
        return decisions;
      }
    } finally {
      attempts.giveUp();
    }
    throw new NothingDone("The store's clock jumps: no period of a calendar window contains it.");
  }
}

/** How many requests this process has in flight in each account; undefined if the allowance does not bound them. */
function inFlightOf({ allowance, inFlight }: DecisionRequest): readonly number[] | undefined {
  if (!allowance.boundsInFlight || inFlight !== undefined) return inFlight;
  return allowance.budgets.map(() => -1);
}

/** The names that the script needs for one request, in its order. */
function addKeysOf({ consumerId, allowance, accountIds }: DecisionRequest, keys: string[]): void {
  const { budgets, history, inUnits } = allowance;
  const ids = accountIds ?? accountIdsOf(consumerId, allowance);
  for (let i = 0; i < ids.length; i++) keys.push(keyspace.account(ids[i]!));
  if (history === undefined) return;
  for (let i = 0; i < ids.length; i++) if (budgets[i]!.isWhole) keys.push(keyspace.history(ids[i]!));
  if (inUnits === undefined) return;
  for (const unit of inUnits) keys.push(...historiesOf(consumerId).map((id) => keyspace.history(inUnit(id, unit))));
}

/** The clock of a gateway, as the last argument of a script that writes histories (shell/history-costs.ts). */
export function gatewayClock(wallMs: (() => number) | undefined): string[] {
  return wallMs === undefined ? [] : [`@${Math.floor(wallMs() / 1_000)}`];
}

/** The arguments of the script (described in shell/decision-script.ts). Each rule is sent once: most requests of a turn share a few. */
function argumentsOf(
  requests: readonly DecisionRequest[],
  texts: RuleTexts,
  wallMs: (() => number) | undefined,
): string[] {
  const rules = new Map<Allowance, number>();
  const runs: number[] = [];
  for (let i = 0; i < requests.length; ) {
    const { allowance, cost, n, amounts, leaseTerms } = requests[i]!;
    const inFlight = inFlightOf(requests[i]!);
    const isApart = inFlight !== undefined || leaseTerms !== undefined;
    const rule = rules.get(allowance) ?? rules.size + 2;
    rules.set(allowance, rule);
    let next = i + 1;
    while (!isApart && next < requests.length && isSame(requests[next]!, requests[i]!)) next++;
    runs.push(rule, n, cost, leaseTerms === undefined ? next - i : 0);
    if (leaseTerms !== undefined) runs.push(...termsOf(leaseTerms));
    if (inFlight !== undefined) runs.push(...inFlight);
    for (const unit of allowance.inUnits ?? []) runs.push(amounts?.[unit] ?? 0);
    i = next;
  }
  const args = [JSON.stringify(runs)];
  let keepsHistory = false;
  for (const allowance of rules.keys()) {
    args.push(texts.of(allowance));
    keepsHistory ||= allowance.history !== undefined;
  }
  if (keepsHistory) args.push(...gatewayClock(wallMs));
  return args;
}

function isSame(one: DecisionRequest, other: DecisionRequest): boolean {
  return (
    one.allowance === other.allowance &&
    one.cost === other.cost &&
    one.n === other.n &&
    one.amounts === other.amounts &&
    one.leaseTerms === other.leaseTerms
  );
}

/** What a request says about leases, as the script describes it. */
function termsOf({ borrows, isFinal, returned }: LeaseTerms): number[] {
  const places = returned === undefined || returned.unused === 0 ? [] : returned.places.flat();
  return [
    ...[borrows?.units ?? 0, borrows?.id ?? 0, borrows?.forMs ?? 0, isFinal ? 1 : 0],
    ...[returned?.id ?? 0, returned?.unused ?? 0, ...places],
  ];
}

/** The text of an allowance's rule, and from when until when by the store's clock its calendar windows are up to date. */
interface RuleText {
  readonly text: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Caches the text of each allowance's rule: there are few, and every call sends them. The text has the periods of calendar
 * windows around the store's present. The script chooses the one that its clock is in, so this process's clock
 * need not be right, as long as the store's passes as fast.
 */
class RuleTexts {
  readonly #known = new WeakMap<Allowance, RuleText>();
  readonly #holder: string;
  /** The store's clock minus this process's monotonic one, milliseconds. */
  #offsetMs = performance.timeOrigin;
  #hasCalendars = false;

  /** @param holder the name under which this process has requests in flight */
  constructor(holder: string) {
    this.#holder = holder;
  }

  get hasCalendars(): boolean {
    return this.#hasCalendars;
  }

  /** The store's clock as far as it is known, Unix milliseconds. */
  get nowMs(): number {
    return Math.floor(performance.now() + this.#offsetMs);
  }

  /** The store's clock says `nowMs`. */
  setClock(nowMs: number): void {
    this.#offsetMs = nowMs - performance.now();
  }

  of(allowance: Allowance): string {
    const known = this.#known.get(allowance);
    if (known?.untilMs === Number.POSITIVE_INFINITY) return known.text;
    const { nowMs } = this;
    if (known !== undefined && known.fromMs <= nowMs && nowMs < known.untilMs) return known.text;
    const ends = allowance.limits.flatMap(({ calendar }) => calendar?.periodAt(nowMs).endsAtMs ?? []);
    const untilMs = Math.min(Number.POSITIVE_INFINITY, ...ends);
    this.#hasCalendars ||= ends.length > 0;
    const text = ruleOf(allowance, nowMs, this.#holder);
    this.#known.set(allowance, { text, fromMs: nowMs, untilMs });
    return text;
  }
}

/** @param holder the name of this process */
function ruleOf(
  { budgets, boundsInFlight, bans, bansIn, history, inUnits = [] }: Allowance,
  nowMs: number,
  holder: string,
): string {
  const stored = budgets.map(({ name, unit, inFlight, limits }) => ({
    ...{ name, unit, inFlight },
    fields: windowFields(limits.map(({ window }) => window)),
    limits: storedLimits(limits, nowMs),
  }));
  const rule: StoredRule = {
    budgets: stored,
    bansIn,
    ...(bans === null ? {} : { bans }),
    ...(boundsInFlight ? { isBounded: true, holder } : {}),
    histories: history === undefined ? 0 : budgets.filter(({ isWhole }) => isWhole).length,
    recordsAll: history === 'all',
    units: inUnits,
  };
  return JSON.stringify(rule);
}

/** Limits as the scripts take them: with the instants of calendar windows around `nowMs`. */
export function storedLimits(limits: readonly WindowLimit[], nowMs: number): Limit[] {
  return limits.map(({ window, lengthMs, limit, slices, calendar }) => {
    const instants = calendar?.instantsAround(nowMs);
    return { window, lengthMs, limit, instants, ...(slices === undefined ? {} : { slices }) };
  });
}

/** Reads one consumer's part of the reply (described in shell/decision-reply.ts). */
function decisionOf({ allowance, cost, n, amounts }: DecisionRequest, nowMs: number, reply: Numbers): Decision | null {
  const length = reply.next();
  if (length === 0) return null;
  const end = reply.count + length;
  const admitted = reply.next();
  const { budgets } = allowance;
  const accounts = new Array(budgets.length) as [Writable<AccountState>, ...Writable<AccountState>[]];
  for (let i = 0; i < budgets.length; i++) accounts[i] = { windows: windowCountsIn(reply, budgets[i]!.limits) };
  // Nearly every reply ends here.
  if (reply.count === end && amounts === undefined) return { nowMs, cost, n, admitted, bannedFrom: n, accounts };
  const decided = amounts === undefined ? { nowMs, cost, n, admitted } : { nowMs, cost, n, admitted, amounts };
  const inFlight = inFlightIn(reply, allowance);
  let rest: Refusal = { bannedFrom: n };
  if (reply.count < end) {
    rest = refusalIn(reply);
    for (const account of accounts) {
      const strikes = { count: reply.next(), endsAtMs: reply.next() };
      if (strikes.count > 0) account.strikes = strikes;
      const ban = banIn(reply, budgets);
      if (ban !== undefined) account.ban = ban;
    }
  }
  while (reply.count < end) addTopUpIn(reply, accounts);
  return { ...decided, ...rest, ...inFlight, accounts };
}

/** What the reply says beside counts, strikes and bans. */
type Refusal = Pick<Decision, 'bannedFrom' | 'imposesBan' | 'isCrowded' | 'waitMs' | 'mayReturn' | 'lent'>;

function refusalIn(reply: Numbers): Refusal {
  const [bannedFrom, imposesBan, isCrowded] = [reply.next(), reply.next(), reply.next()];
  const [waitMs, mayReturn, units, forMs] = [reply.next(), reply.next(), reply.next(), reply.next()];
  return {
    bannedFrom,
    ...(imposesBan === 1 ? { imposesBan: true } : {}),
    ...(isCrowded === 1 ? { isCrowded: true } : {}),
    ...(waitMs > 0 ? { waitMs } : {}),
    ...(mayReturn === 1 ? { mayReturn: true } : {}),
    ...(units > 0 ? { lent: { units, forMs } } : {}),
  };
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

function windowCountsIn(reply: Numbers, limits: readonly WindowLimit[]): AccountState['windows'] {
  const windows: Partial<Record<WindowName, WindowCount>> = {};
  for (const { window, lengthMs, slices } of limits) {
    if (slices === undefined) {
      const used = reply.next();
      const endsAtMs = reply.next();
      if (endsAtMs > 0) windows[window] = { used, endsAtMs };
      continue;
    }
    const size = reply.next();
    if (size === 0) continue;
    const [startsAtMs, first] = [reply.next(), reply.next()];
    const counts = Array.from({ length: size }, () => reply.next());
    windows[window] = slicedCount({ per: slices, startsAtMs, first, counts }, lengthMs);
  }
  return windows;
}

function inFlightIn(reply: Numbers, { boundsInFlight, budgets }: Allowance): Pick<Decision, 'inFlight'> {
  if (!boundsInFlight) return {};
  return { inFlight: budgets.map(({ inFlight }) => (inFlight === undefined ? -1 : reply.next())) };
}

function banIn(reply: Numbers, budgets: Budgets): Ban | undefined {
  const [number, untilMs, window] = [reply.next(), reply.next(), reply.next()];
  const ban = banOf(number, untilMs, window % 10);
  const budget = budgets[Math.floor(window / 10)]?.name ?? '';
  if (ban === null) return undefined;
  return budget === '' ? ban : { ...ban, budget };
}

function addTopUpIn(reply: Numbers, accounts: Writable<AccountState>[]): void {
  const place = reply.next();
  const account = accounts[Math.floor(place / 10)]!;
  const topUp = { amount: reply.next(), untilMs: reply.next() };
  account.topUps = { ...account.topUps, [WINDOWS[(place % 10) - 1]!]: topUp };
}

/** @param window its index in WINDOWS, from 1 */
export function banOf(number: number, untilMs: number, window: number): Ban | null {
  const name = WINDOWS[window - 1];
  return number > 0 && name !== undefined ? { number, untilMs, window: name } : null;
}

/** Reads the whole numbers of a list in MessagePack one after the other, as `cmsgpack.pack` of Redis writes them. */
export class Numbers {
  readonly #reply: Buffer;
  #at: number;
  /** How many numbers have been read. */
  count = 0;
  /** How many there are. */
  readonly size: number;

  /** @throws Failure `store_unavailable` if it is no list */
  constructor(reply: Buffer) {
    this.#reply = reply;
    const first = reply[0];
    if (first === undefined || first < 0x90 || (first > 0x9f && first !== 0xdc && first !== 0xdd)) throw noNumber();
    const bytes = first <= 0x9f ? 0 : first === 0xdc ? 2 : 4;
    if (reply.length < 1 + bytes) throw noNumber();
    this.size = bytes === 0 ? first & 0x0f : reply.readUIntBE(1, bytes);
    this.#at = 1 + bytes;
  }

  get isAtEnd(): boolean {
    return this.count >= this.size;
  }

  /** @throws Failure `store_unavailable` if no whole number follows */
  next(): number {
    const reply = this.#reply;
    const first = reply[this.#at]!;
    // Of unsigned numbers 1, 2, 4 and 8 bytes follow.
    const bytes = first < 0x80 ? 0 : first >= 0xcc && first <= 0xcf ? 1 << (first - 0xcc) : -1;
    const from = this.#at + 1;
    if (bytes < 0 || this.isAtEnd || from + bytes > reply.length) throw noNumber();
    this.#at = from + bytes;
    this.count++;
    if (bytes === 0) return first;
    if (bytes === 8) return reply.readUInt32BE(from) * 2 ** 32 + reply.readUInt32BE(from + 4);
    return reply.readUIntBE(from, bytes);
  }
}

function noNumber(): Failure {
  return new Failure('store_unavailable', 'Redis answered with something that the script does not return.');
}

/**
 * Calls a Lua script by its digest (EVALSHA). If Redis does not know the script, it has run nothing yet, and this class sends the
 * script in full (EVAL).
 *
 * Only decisions use it, because requests wait for them: ioredis's own `defineCommand` does the same at twice the cost.
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
      const onError = (error: Error) => {
        if (attempts.isAwaited && error.message.startsWith('NOSCRIPT')) {
          send('eval', this.#lua);
          return;
        }
        error.message = withSource(error.message, this.#lua);
        reject(error);
      };
      send('evalsha', this.#digest);
    });
  }
}

/**
 * Makes the arguments of the script for some requests, and says whether to call the script again. All calls are within one deadline.
 * After it, `Script` sends nothing more: the gateway has decided these requests without the store.
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
    if (this.#requests.length === 0) return false;
    const numbers = new Numbers(reply);
    if (numbers.size > 1) return false;
    this.#rules.setClock(numbers.next());
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
