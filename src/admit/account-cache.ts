import { chargeOf, isPresent, neededFor } from '../engine/charging.ts';
import { presentCount } from '../engine/counting.ts';
import { UNSEEN } from '../engine/decide.ts';
import { banLengthMs } from '../engine/refusing.ts';
import type { AccountState, Amounts, Decision } from '../engine/types.ts';
import { RecentlyUsed } from '../io/recently-used.ts';
import type { WindowName } from '../model/values.ts';
import { type AccountIds, accountIdsOf } from './account-id.ts';
import type { Allowance, Budgets } from './allowance.ts';
import { banInForce, costExceedsLimit, decide, exceedsLimit } from './decision.ts';
import { type Banned, type Refused, sameAmounts, verdictOf } from './verdict.ts';
import { limitAt, type WindowLimit, withTopUps } from './windows.ts';

interface AccountCacheOptions {
  /** The cache keeps the last known state of at most this many consumers. */
  readonly remembered: number;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** This gateway's own clock, Unix milliseconds, used until the store has answered for the first time. */
  readonly wallMs: () => number;
}

/** The accounts of a consumer, as this gateway knows them. */
interface KnownAccounts {
  readonly accounts: readonly AccountState[];
  /** The present by the store's clock, Unix milliseconds; a lower bound. */
  readonly nowMs: number;
  /** True if the times are by this gateway's own clock, because the store has never answered. */
  readonly isOwnClock: boolean;
}

/** The last known state of an account. The store's clock said `nowMs` between `askedAtMs` and `answeredAtMs` (monotonic). */
interface RememberedAccount {
  readonly state: AccountState;
  readonly nowMs: number;
  readonly isOwnClock: boolean;
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
  /** The cache's `generation` when the store was asked, or LOCAL. The cache refuses only while the generation is the same. */
  readonly generation: number;
  /** The last refusal from memory, and the values it was made of; null before the first. */
  refusal: Refusal | null;
  /** The ids of the accounts of the decision, kept so that a request need not make them again. */
  readonly ids: AccountIds;
  /** The budgets of these accounts; null after a local decision. */
  readonly budgets: Budgets | null;
}

interface Refusal {
  readonly allowance: Allowance;
  readonly cost: number;
  readonly amounts: Amounts | undefined;
  /** The earliest and the latest present by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly latestNowMs: number;
  readonly verdict: Refused | Banned;
}

/** The generation of a state that was decided locally. It serves further local decisions, but never refuses by itself. */
const LOCAL = -1;
/** For this long the cache refuses a request that costs more than a limit. Then the gateway asks the store again. */
const REFUSE_COST_FOR_MS = 1_000;

/** Keeps the last known state of each account, and the store's clock. It is bounded: it drops the least recently used account first. */
export class AccountCache {
  readonly #options: AccountCacheOptions;
  readonly #accounts: RecentlyUsed<RememberedAccount>;
  #generation = 0;
  #clock: Answer | null = null;

  constructor(options: AccountCacheOptions) {
    this.#options = options;
    this.#accounts = new RecentlyUsed(options.remembered);
  }

  /** Counts the calls of `forget`: a decision that the gateway asked for before such a call refuses no request from memory either. */
  get generation(): number {
    return this.#generation;
  }

  /** From now on the cache refuses no request from memory until the store has decided again. */
  forget(): void {
    this.#generation++;
  }

  /**
   * Keeps the store's decision.
   * @param generation the `generation` at `askedAtMs` (monotonic), when the gateway asked the store
   * @param whole the accounts with the usage in the backlog, which the store lacks; null without a backlog
   */
  rememberDecision(
    ids: AccountIds,
    allowance: Allowance,
    decision: Decision,
    askedAtMs: number,
    generation: number,
    whole: readonly AccountState[] | null = null,
  ): void {
    const { nowMs } = decision;
    const answeredAtMs = this.#options.monotonicMs();
    this.#clock = { nowMs, answeredAtMs };
    // A gateway may return unused units of a lease at any time.
    const isLent = decision.mayReturn === true || decision.lent !== undefined;
    const isLocal = whole !== null || isLent || isConverted(decision);
    const accounts = whole ?? decision.accounts;
    const { budgets } = allowance;
    for (let i = 0; i < ids.length; i++) {
      const decided: RememberedAccount = {
        state: accounts[i]!,
        nowMs,
        isOwnClock: false,
        askedAtMs,
        answeredAtMs,
        generation: isLocal ? LOCAL : generation,
        refusal: null,
        ids,
        budgets,
      };
      const known = ids.length === 1 ? undefined : this.#accounts.get(ids[i]!);
      this.#accounts.set(ids[i]!, known === undefined ? decided : this.#withOthers(known, decided, budgets[i]!.limits));
    }
  }

  /**
   * Adds to a decided account the known windows that the decision did not charge, such as those of the plan if the limits of a
   * group of routes replace them.
   */
  #withOthers(known: RememberedAccount, decided: RememberedAccount, limits: readonly WindowLimit[]): RememberedAccount {
    const isOther = (name: string) => !limits.some(({ window }) => window === name);
    if (!Object.keys(known.state.windows).some(isOther)) return decided;
    const others = Object.entries(this.#stateAt(known, decided.nowMs).windows).filter(
      ([name, { endsAtMs }]) => decided.nowMs < endsAtMs && isOther(name),
    );
    if (others.length === 0) return decided;
    const windows = { ...decided.state.windows, ...Object.fromEntries(others) };
    const generation = known.generation === decided.generation ? decided.generation : LOCAL;
    return { ...decided, state: { ...decided.state, windows }, generation };
  }

  /** Keeps the accounts after a local decision. */
  rememberLocal(
    ids: AccountIds,
    accounts: readonly AccountState[],
    { nowMs, isOwnClock }: Pick<KnownAccounts, 'nowMs' | 'isOwnClock'>,
  ): void {
    const atMs = this.#options.monotonicMs();
    const times = { nowMs, isOwnClock, askedAtMs: atMs, answeredAtMs: atMs };
    for (const [i, id] of ids.entries()) {
      this.#accounts.set(id, { state: accounts[i]!, ...times, generation: LOCAL, refusal: null, ids, budgets: null });
    }
  }

  /** The last known accounts of a consumer and the present time; `UNSEEN` in the place of an account that this gateway does not know. */
  known(ids: AccountIds): KnownAccounts {
    const memories = ids.map((id) => this.#accounts.get(id));
    // Uses the latest answer, because an operator may have set the store's clock since the cache remembered an account. Gateways
    // whose own clocks differ must also agree on consumers that are new to one of them.
    const base = this.#clock ?? memories.find((memory) => memory !== undefined) ?? null;
    const nowMs = base === null ? this.#options.wallMs() : this.#since(base);
    const accounts = memories.map((memory) => (memory === undefined ? UNSEEN : this.#stateAt(memory, nowMs)));
    return { nowMs, isOwnClock: this.#clock === null, accounts };
  }

  /**
   * The state of an account when the clock of a decision says `nowMs`. Moves the times of a local decision by this gateway's own
   * clock to that clock: all accounts of a decision must have one clock, and the store may have answered about one of them
   * meanwhile.
   */
  #stateAt(memory: RememberedAccount, nowMs: number): AccountState {
    const aheadMs = memory.isOwnClock ? nowMs - this.#since(memory) : 0;
    return aheadMs === 0 ? memory.state : later(memory.state, aheadMs);
  }

  /**
   * The refusal of one request if the store would certainly refuse it too; null if the store must be asked. Requests of the
   * same millisecond get the same object.
   */
  refusal(
    consumerId: string,
    allowance: Allowance,
    cost: number,
    amounts: Amounts | undefined = undefined,
  ): Refused | Banned | null {
    const own = this.#current(consumerId);
    if (own === null) return null;
    const last = own.refusal;
    if (last === null && !this.#mayRefuse(own, consumerId, allowance, cost, amounts)) return null;
    // The store's clock lies between two bounds. The later bound decides whether the refusal may still stand, the earlier
    // one how long the client has to wait: neither errs against the client. The store's time is in whole milliseconds, so
    // up to one more may have passed.
    const monotonicMs = this.#options.monotonicMs();
    const latestNowMs = Math.ceil(own.nowMs + 1 + (monotonicMs - own.askedAtMs));
    const nowMs = sinceAnswer(own, monotonicMs);
    if (last !== null && last.nowMs === nowMs && last.latestNowMs === latestNowMs) {
      if (last.allowance === allowance && last.cost === cost && sameAmounts(last.amounts, amounts)) return last.verdict;
    }
    const verdict = this.#refusalOf(own, consumerId, allowance, { cost, amounts, monotonicMs, latestNowMs });
    if (verdict !== null) own.refusal = { allowance, cost, amounts, nowMs, latestNowMs, verdict };
    return verdict;
  }

  #refusalOf(
    own: RememberedAccount,
    consumerId: string,
    allowance: Allowance,
    asked: Pick<Refusal, 'cost' | 'amounts' | 'latestNowMs'> & { readonly monotonicMs: number },
  ): Refused | Banned | null {
    const { cost, amounts, latestNowMs, monotonicMs } = asked;
    const ids = idsOf(own, consumerId, allowance);
    const accounts = new Array<AccountState>(ids.length);
    let nowMs = 0;
    for (let i = 0; i < ids.length; i++) {
      const memory = i === 0 ? own : this.#current(ids[i]!);
      accounts[i] = memory?.state ?? UNSEEN;
      if (memory !== null) nowMs = Math.max(nowMs, sinceAnswer(memory, monotonicMs));
    }
    if (!stillRefuses(own.nowMs, accounts, allowance, asked, latestNowMs)) return null;
    const verdict = verdictOf(decide(accounts, allowance, nowMs, cost, 1, undefined, amounts), allowance, 0);
    return verdict.kind === 'refused' || verdict.kind === 'banned' ? verdict : null;
  }

  /** The last known state of an account; null if the store has not decided about it since the last `forget`. */
  #current(accountId: string): RememberedAccount | null {
    const memory = this.#accounts.get(accountId);
    return memory === undefined || memory.generation !== this.#generation ? null : memory;
  }

  /** A cheap test that rules out a refusal from memory for most requests, before the clock is read. */
  #mayRefuse(
    own: RememberedAccount,
    consumerId: string,
    allowance: Allowance,
    cost: number,
    amounts: Amounts | undefined,
  ): boolean {
    if (own.state.ban !== undefined || allowance.bans === null || exceedsLimit(allowance, cost, amounts)) return true;
    if (allowance.budgets.length === 1) return false;
    return idsOf(own, consumerId, allowance).some((id) => this.#current(id)?.state.ban);
  }

  #since(answer: Answer): number {
    return sinceAnswer(answer, this.#options.monotonicMs());
  }
}

/** The ids of the accounts of a request: those of the last decision if it charged the same budgets. */
function idsOf({ ids, budgets }: RememberedAccount, consumerId: string, allowance: Allowance): AccountIds {
  return budgets === allowance.budgets && ids[0] === consumerId ? ids : accountIdsOf(consumerId, allowance);
}

/** A moment at which the store's clock said `nowMs`. */
interface Answer {
  readonly nowMs: number;
  readonly answeredAtMs: number;
}

/** The present by the store's clock, Unix milliseconds; a lower bound. */
function sinceAnswer({ nowMs, answeredAtMs }: Answer, monotonicMs: number): number {
  return Math.floor(nowMs + (monotonicMs - answeredAtMs));
}

/** The same state by a clock that is `aheadMs` ahead. */
function later({ windows, strikes, ban, topUps }: AccountState, aheadMs: number): AccountState {
  const moved = Object.entries(windows).map(([name, { used, endsAtMs, slices }]) => {
    const parts = slices === undefined ? {} : { slices: { ...slices, startsAtMs: slices.startsAtMs + aheadMs } };
    return [name, { used, endsAtMs: endsAtMs + aheadMs, ...parts }];
  });
  return {
    windows: Object.fromEntries(moved),
    strikes: strikes && { ...strikes, endsAtMs: strikes.endsAtMs + aheadMs },
    ban: ban && { ...ban, untilMs: ban.untilMs + aheadMs },
    ...(topUps === undefined ? {} : { topUps }),
  };
}

/**
 * True if a refusal reports slices that the store has converted and does not keep (`accountsAfter`): its own slices leave earlier.
 * Such a slice begins at the decision although the decision counted nothing.
 */
function isConverted({ admitted, nowMs, accounts }: Decision): boolean {
  if (admitted > 0) return false;
  for (const { windows } of accounts) {
    for (const name in windows) if (windows[name as WindowName]!.slices?.startsAtMs === nowMs) return true;
  }
  return false;
}

/**
 * True if the store would certainly still refuse at `nowMs`, under the present allowance. A unit's budget without room does not
 * count: a settlement may return some of it at any time.
 * @param knownMs the time of `accounts`
 */
function stillRefuses(
  knownMs: number,
  accounts: readonly AccountState[],
  allowance: Allowance,
  { cost, amounts }: { readonly cost: number; readonly amounts: Amounts | undefined },
  nowMs: number,
): boolean {
  const { bans, budgets } = allowance;
  const ban = banInForce(accounts, nowMs);
  // A ban that is longer than the present rule allows does not count: the store is about to shorten it.
  if (ban !== null) return bans === null || ban.untilMs <= knownMs + banLengthMs(bans, ban.number);
  let [exceeds, exceedsByOne, isSpent] = [false, false, false];
  for (let i = 0; i < budgets.length; i++) {
    const [budget, account] = [budgets[i]!, accounts[i]!];
    const limits = withTopUps(budget.limits, account.topUps, nowMs);
    const needed = neededFor(chargeOf(budget, cost, amounts));
    exceeds ||= costExceedsLimit(limits, needed);
    exceedsByOne ||= costExceedsLimit(limits, 1);
    isSpent ||= bans === null && budget.unit === undefined && hasNoRoom(account, limits, needed, nowMs);
  }
  if (!exceeds) return isSpent;
  // If a cheaper request fits, refusals of such requests at another gateway may have led to a ban meanwhile.
  const mayBeBanned = bans !== null && !exceedsByOne;
  return !mayBeBanned && nowMs - knownMs < REFUSE_COST_FOR_MS;
}

function hasNoRoom({ windows }: AccountState, limits: readonly WindowLimit[], cost: number, nowMs: number): boolean {
  for (const limit of limits) {
    const open = windows[limit.window];
    if (open === undefined || limit.limit - open.used >= cost) continue;
    const present = limitAt(limit, nowMs);
    if (isPresent(open, present, nowMs)) return true;
    const { count } = presentCount(open, present, nowMs);
    if (count !== undefined && limit.limit - count.used < cost) return true;
  }
  return false;
}
