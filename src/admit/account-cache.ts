import { LRUCache } from 'lru-cache';
import { accountIdsOf } from './account-id.ts';
import {
  type AccountState,
  type Amounts,
  banInForce,
  banLengthMs,
  chargeOf,
  costExceedsLimit,
  decide,
  exceedsLimit,
  type Outcome,
  roomOf,
  UNSEEN,
} from './decide.ts';
import type { Allowance } from './plan.ts';
import { type Banned, type Refused, sameAmounts, verdictOf } from './verdict.ts';
import { isPresent, presentCount, type WindowLimit, type WindowName, withTopUps } from './windows.ts';

interface AccountCacheOptions {
  /** Maximum consumers whose last known state is kept. */
  readonly remembered: number;
  /** A monotonic clock, milliseconds. */
  readonly monotonicMs: () => number;
  /** This gateway's own clock, Unix milliseconds, used until the store has answered for the first time. */
  readonly wallMs: () => number;
}

/** The state of a consumer as far as this gateway knows. */
interface KnownAccount {
  readonly state: AccountState;
  /** The present by the store's clock, Unix milliseconds; a lower bound. */
  readonly nowMs: number;
  /** Whether the times are by this gateway's own clock, because the store has never answered. */
  readonly isOwnClock: boolean;
}

/** The last known state of a consumer. The store's clock said `nowMs` between `askedAtMs` and `answeredAtMs` (monotonic). */
interface RememberedAccount {
  readonly state: AccountState;
  readonly nowMs: number;
  readonly isOwnClock: boolean;
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
  /** The cache's `generation` when the store was asked, or LOCAL. The cache refuses only while the generation is the same. */
  readonly generation: number;
  /** The last refusal from memory, and what it was made from; null before the first. */
  refusal: Refusal | null;
  /** What the decision charged. Null for an account that was charged alone, and for one that is not the consumer's own. */
  readonly charged: Charged | null;
}

/** The accounts of a decision, so that their ids are not made again for every request. */
interface Charged {
  readonly further: Allowance['further'];
  readonly ids: readonly string[];
}

interface Refusal {
  readonly allowance: Allowance;
  readonly cost: number;
  readonly amounts: Amounts | undefined;
  /** Both bounds of the store's clock. */
  readonly nowMs: number;
  readonly latestNowMs: number;
  readonly verdict: Refused | Banned;
}

/** The generation of a state that was decided locally. It serves further local decisions, but never refuses by itself. */
const LOCAL = -1;
/** How long a request that costs more than a limit is refused from memory before the store is asked again. */
const REFUSE_COST_FOR_MS = 1_000;

/** The last known state of each consumer, and the store's clock. Bounded: the least recently used is dropped first. */
export class AccountCache {
  readonly #options: AccountCacheOptions;
  readonly #accounts: LRUCache<string, RememberedAccount>;
  #generation = 0;
  #clock: Answer | null = null;

  constructor(options: AccountCacheOptions) {
    this.#options = options;
    this.#accounts = new LRUCache({ max: options.remembered });
  }

  /** Counts the calls of `forget`, so that a decision that was asked for before such a call refuses no request either. */
  get generation(): number {
    return this.#generation;
  }

  /** Refuses no request from memory until the store has been asked again. */
  forget(): void {
    this.#generation++;
  }

  /**
   * Keeps the store's decision.
   * @param generation `generation` when the store was asked, at `askedAtMs` (monotonic)
   * @param charged the allowance, if it has several accounts
   * @param whole the state with the usage in the backlog, which the store lacks; null without a backlog
   */
  rememberDecision(
    consumerId: string,
    outcome: Outcome,
    askedAtMs: number,
    generation: number,
    charged: Pick<Allowance, 'limits' | 'further'> | null = null,
    whole: AccountState | null = null,
  ): void {
    const { nowMs } = outcome;
    const answeredAtMs = this.#options.monotonicMs();
    this.#clock = { nowMs, answeredAtMs };
    // What is lent may be returned at any time.
    const isLent = outcome.mayReturn === true || outcome.lent !== undefined;
    const isLocal = whole !== null || isLent || isConverted(outcome);
    const at = { nowMs, isOwnClock: false, askedAtMs, answeredAtMs, generation: isLocal ? LOCAL : generation };
    const state = whole ?? outcome.state;
    if (charged?.further === undefined) {
      this.#accounts.set(consumerId, { state, ...at, refusal: null, charged: null });
      return;
    }
    const { further = [], ...own } = state;
    const budgets = [charged, ...charged.further];
    const ids = accountIdsOf(consumerId, charged);
    for (const [i, id] of ids.entries()) {
      const ofOwn = i === 0 ? { state: own, charged: { further: charged.further, ids } } : null;
      const decided = { ...at, refusal: null, ...(ofOwn ?? { state: further[i - 1]!, charged: null }) };
      this.#accounts.set(id, this.#withOtherWindows(id, decided, budgets[i]!.limits));
    }
  }

  /**
   * A decided account with the windows that the decision did not charge, as they were known: those of the plan, if a group of
   * routes is there instead of them.
   */
  #withOtherWindows(id: string, decided: RememberedAccount, limits: readonly WindowLimit[]): RememberedAccount {
    const known = this.#accounts.get(id);
    if (known === undefined) return decided;
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

  /** Keeps the state after a local decision. */
  rememberLocal(
    consumerId: string,
    state: AccountState,
    { nowMs, isOwnClock }: Pick<KnownAccount, 'nowMs' | 'isOwnClock'>,
    ids: readonly string[] | null = null,
  ): void {
    const atMs = this.#options.monotonicMs();
    const at = {
      nowMs,
      isOwnClock,
      askedAtMs: atMs,
      answeredAtMs: atMs,
      generation: LOCAL,
      refusal: null,
      charged: null,
    };
    if (ids === null) {
      this.#accounts.set(consumerId, { state, ...at });
      return;
    }
    // Each account is kept by itself, because several consumers share one.
    const { further = [], ...own } = state;
    for (const [i, id] of ids.entries()) this.#accounts.set(id, { state: i === 0 ? own : further[i - 1]!, ...at });
  }

  /** @param ids the accounts of the consumer, if there are several */
  known(consumerId: string, ids: readonly string[] | null = null): KnownAccount {
    if (ids === null) return this.#knownAlone(consumerId);
    const memories = ids.map((id) => this.#accounts.get(id));
    const isOwnClock = this.#clock === null;
    // The latest answer: the store's clock may have been set since an account was remembered.
    const base = this.#clock ?? memories.find((memory) => memory !== undefined) ?? null;
    const nowMs = base === null ? this.#options.wallMs() : this.#since(base);
    const [state, ...further] = memories.map((memory) =>
      memory === undefined ? UNSEEN : this.#stateAt(memory, nowMs),
    );
    return { nowMs, isOwnClock, state: { ...state!, further } };
  }

  /**
   * The state of an account when the clock of a decision says `nowMs`. What was decided by this gateway's own clock is moved to that
   * clock, because all accounts of a decision must have one: the store may have answered meanwhile about one of them.
   */
  #stateAt(memory: RememberedAccount, nowMs: number): AccountState {
    const aheadMs = memory.isOwnClock ? nowMs - this.#since(memory) : 0;
    return aheadMs === 0 ? memory.state : later(memory.state, aheadMs);
  }

  #knownAlone(consumerId: string): KnownAccount {
    const memory = this.#accounts.get(consumerId);
    if (memory !== undefined) {
      return { state: memory.state, nowMs: this.#since(memory), isOwnClock: memory.isOwnClock };
    }
    // The store's clock if it is known: gateways whose own clocks differ must agree also on consumers new to one of them.
    const clock = this.#clock;
    const nowMs = clock === null ? this.#options.wallMs() : this.#since(clock);
    return { state: UNSEEN, nowMs, isOwnClock: clock === null };
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
    const memory = this.#accounts.get(consumerId);
    if (memory === undefined || memory.generation !== this.#generation) return null;
    const others = allowance.further === undefined ? NO_OTHERS : this.#othersOf(consumerId, allowance, memory.charged);
    if (!mayRefuse(memory, others, allowance, cost, amounts)) return null;
    // The store's clock lies between two bounds. The later bound decides whether the refusal may still stand, the earlier
    // one how long the client has to wait: neither errs against the client. The store's time is in whole milliseconds, so
    // up to one more may have passed.
    const monotonicMs = this.#options.monotonicMs();
    const latestNowMs = Math.ceil(memory.nowMs + 1 + (monotonicMs - memory.askedAtMs));
    let nowMs = sinceAnswer(memory, monotonicMs);
    for (let i = 0; i < others.length; i++) {
      const other = others[i]!;
      if (other !== null) nowMs = Math.max(nowMs, sinceAnswer(other, monotonicMs));
    }
    const last = memory.refusal;
    if (last !== null && last.nowMs === nowMs && last.latestNowMs === latestNowMs) {
      if (last.allowance === allowance && last.cost === cost && sameAmounts(last.amounts, amounts)) return last.verdict;
    }
    const state = joinedState(memory, others);
    if (!stillRefuses(memory.nowMs, state, allowance, { cost, amounts }, latestNowMs)) return null;
    const verdict = verdictOf(decide(state, allowance, nowMs, cost, 1, undefined, amounts), allowance, 0);
    if (verdict.kind !== 'refused' && verdict.kind !== 'banned') return null;
    memory.refusal = { allowance, cost, amounts, nowMs, latestNowMs, verdict };
    return verdict;
  }

  /** The other accounts of a consumer; null for one that this gateway does not know, or not since the last `forget`. */
  #othersOf(consumerId: string, allowance: Allowance, last: Charged | null): readonly (RememberedAccount | null)[] {
    const isSame = last !== null && last.further === allowance.further;
    const ids = isSame ? last.ids : accountIdsOf(consumerId, allowance);
    const others = new Array<RememberedAccount | null>(ids.length - 1);
    for (let i = 1; i < ids.length; i++) {
      const memory = this.#accounts.get(ids[i]!);
      others[i - 1] = memory?.generation === this.#generation ? memory : null;
    }
    return others;
  }

  #since(answer: Answer): number {
    return sinceAnswer(answer, this.#options.monotonicMs());
  }
}

/** When the store's clock said `nowMs`. */
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
    strikes: strikes.count === 0 ? strikes : { ...strikes, endsAtMs: strikes.endsAtMs + aheadMs },
    ban: ban === null ? null : { ...ban, untilMs: ban.untilMs + aheadMs },
    ...(topUps === undefined ? {} : { topUps }),
  };
}

/**
 * Whether a refusal reports a count in slices that the store does not keep (`stateAfter`): its own slices leave earlier. Then a
 * slice begins at the decision although nothing was counted in it.
 */
function isConverted({ admitted, nowMs, state }: Outcome): boolean {
  if (admitted > 0) return false;
  return [state, ...(state.further ?? [])].some(({ windows }) => {
    for (const name in windows) if (windows[name as WindowName]!.slices?.startsAtMs === nowMs) return true;
    return false;
  });
}

const NO_OTHERS: readonly never[] = Object.freeze([]);

function joinedState({ state }: RememberedAccount, others: readonly (RememberedAccount | null)[]): AccountState {
  return others.length === 0 ? state : { ...state, further: others.map((other) => other?.state ?? UNSEEN) };
}

/** A cheap test that rules out a refusal from memory for most requests, before the clock is read. */
function mayRefuse(
  { state }: RememberedAccount,
  others: readonly (RememberedAccount | null)[],
  allowance: Allowance,
  cost: number,
  amounts: Amounts | undefined,
): boolean {
  if (state.ban !== null || allowance.bans === null || exceedsLimit(allowance, cost, amounts)) return true;
  return others.some((other) => other !== null && other.state.ban !== null);
}

/**
 * Whether the store would certainly still refuse at `nowMs`, under the present allowance. A budget in a unit of its own that has no
 * room is no reason: a settlement may give some back at any time.
 * @param knownMs when `state` was it
 */
function stillRefuses(
  knownMs: number,
  state: AccountState,
  allowance: Allowance,
  { cost, amounts }: { readonly cost: number; readonly amounts: Amounts | undefined },
  nowMs: number,
): boolean {
  const { bans, further = [] } = allowance;
  const ban = banInForce(state, nowMs);
  // A ban longer than the present rule allows does not count: the store is about to shorten it.
  if (ban !== null) return bans === null || ban.untilMs <= knownMs + banLengthMs(bans, ban.number);
  let [exceeds, exceedsByOne, isSpent] = [false, false, false];
  for (let i = 0; i <= further.length; i++) {
    const account = i === 0 ? state : state.further![i - 1]!;
    const limits = withTopUps(i === 0 ? allowance.limits : further[i - 1]!.limits, account.topUps, nowMs);
    const needed = i === 0 ? cost : roomOf(chargeOf(further[i - 1]!, cost, amounts));
    const isGivenBack = i > 0 && further[i - 1]!.unit !== undefined;
    exceeds ||= costExceedsLimit(limits, needed);
    exceedsByOne ||= costExceedsLimit(limits, 1);
    isSpent ||= bans === null && !isGivenBack && hasNoRoom(account, limits, needed, nowMs);
  }
  if (!exceeds) return isSpent;
  // If a cheaper request fits, refusals of such requests at another gateway may have led to a ban meanwhile.
  const mayBeBanned = bans !== null && !exceedsByOne;
  return !mayBeBanned && nowMs - knownMs < REFUSE_COST_FOR_MS;
}

function hasNoRoom({ windows }: AccountState, limits: readonly WindowLimit[], cost: number, nowMs: number): boolean {
  return limits.some((limit) => {
    const open = windows[limit.window];
    if (open === undefined || limit.limit - open.used >= cost) return false;
    if (isPresent(open, limit, nowMs)) return true;
    const { count } = presentCount(open, limit, nowMs);
    return count !== undefined && limit.limit - count.used < cost;
  });
}
