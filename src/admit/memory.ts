import { LRUCache } from 'lru-cache';
import { type AccountState, banLengthMs, decide, isHopeless, type Outcome, UNSEEN } from './decide.ts';
import type { Allowance } from './plan.ts';
import { type Verdict, verdictOf } from './verdict.ts';

export interface MemoriesOptions {
  /** Consumers whose last known state is kept. */
  readonly remembered: number;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds, for as long as the store's clock was never heard. */
  readonly wallMs: () => number;
}

/** How a consumer stands as far as this gateway knows. */
export interface Known {
  readonly state: AccountState;
  /** The present, Unix milliseconds: not later than the store's clock tells. */
  readonly nowMs: number;
  /** The times are by this gateway's own clock, because it had never heard the store's. */
  readonly isOwnClock: boolean;
}

/** The last known state of a consumer, and the moments between which the store's clock said `nowMs`. */
interface Memory {
  readonly state: AccountState;
  readonly nowMs: number;
  readonly isOwnClock: boolean;
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
  /** What `generation` was when the store was asked (or WITHOUT_STORE): memory refuses only where it is still the same. */
  readonly generation: number;
}

/** Decided here alone: such a state is gone on from while the store is away, but the word of one that is back counts. */
const WITHOUT_STORE = -1;
/** A refusal that no count can change is asked about again after this long. */
const HOPELESS_MEMORY_MS = 1_000;

/** What the store last said of each consumer, and of the time. Bounded: the least recently used is forgotten first. */
export class Memories {
  readonly #options: MemoriesOptions;
  readonly #memories: LRUCache<string, Memory>;
  #generation = 0;
  #clock: { readonly nowMs: number; readonly answeredAtMs: number } | null = null;

  constructor(options: MemoriesOptions) {
    this.#options = options;
    this.#memories = new LRUCache({ max: options.remembered });
  }

  /** Counts `forget`, so that an answer that was under way meanwhile refuses nobody either. */
  get generation(): number {
    return this.#generation;
  }

  /** Refuses nobody until the store has been asked again. */
  forget(): void {
    this.#generation++;
  }

  /** Keeps the store's word. `askedAtMs`, `generation`: as they were when it was asked. */
  told(consumerId: string, { state, nowMs }: Outcome, askedAtMs: number, generation: number): void {
    const answeredAtMs = this.#options.monotonicMs();
    this.#clock = { nowMs, answeredAtMs };
    this.#memories.set(consumerId, { state, nowMs, isOwnClock: false, askedAtMs, answeredAtMs, generation });
  }

  /** Keeps what was decided without the store. */
  decidedAlone(consumerId: string, state: AccountState, { nowMs, isOwnClock }: Known): void {
    const moment = this.#options.monotonicMs();
    const when = { askedAtMs: moment, answeredAtMs: moment, generation: WITHOUT_STORE };
    this.#memories.set(consumerId, { state, nowMs, isOwnClock, ...when });
  }

  known(consumerId: string): Known {
    const memory = this.#memories.get(consumerId);
    if (memory !== undefined) {
      return { state: memory.state, nowMs: this.#since(memory), isOwnClock: memory.isOwnClock };
    }
    // Gateways whose clocks are hours apart must agree, also on keys that one of them never asked about.
    const clock = this.#clock;
    const nowMs = clock === null ? this.#options.wallMs() : this.#since(clock);
    return { state: UNSEEN, nowMs, isOwnClock: clock === null };
  }

  /** The refusal of one request that no answer of the store could differ from; null where it has to be asked. */
  refusal(consumerId: string, allowance: Allowance, cost: number): Verdict | null {
    const memory = this.#memories.get(consumerId);
    if (memory === undefined || memory.generation !== this.#generation) return null;
    if (!mayRefuse(memory, allowance, cost)) return null;
    // The store's clock lies between two bounds. The later one decides whether the refusal may still stand, the earlier
    // one how long the client is told to wait: neither errs against the client. The store tells whole milliseconds, so
    // up to one more had passed.
    const latestNowMs = memory.nowMs + 1 + (this.#options.monotonicMs() - memory.askedAtMs);
    if (!stillRefuses(memory, allowance, cost, latestNowMs)) return null;
    const outcome = decide(memory.state, allowance, this.#since(memory), cost, 1);
    return outcome.admitted > 0 ? null : verdictOf(outcome, allowance, 0);
  }

  #since({ nowMs, answeredAtMs }: { readonly nowMs: number; readonly answeredAtMs: number }): number {
    return Math.floor(nowMs + (this.#options.monotonicMs() - answeredAtMs));
  }
}

/** Whether it is worth asking the clock: of nearly every request that will be admitted that is known without. */
function mayRefuse({ state }: Memory, allowance: Allowance, cost: number): boolean {
  return state.ban !== null || allowance.bans === null || isHopeless(allowance, cost);
}

/** Whether no answer of the store could differ from a refusal until `nowMs`, under the allowance as it is now. */
function stillRefuses(memory: Memory, allowance: Allowance, cost: number, nowMs: number): boolean {
  const { ban, windows } = memory.state;
  if (ban !== null && nowMs < ban.untilMs) {
    // Made under a rule with longer bans than the one in force: the store is about to shorten it.
    return allowance.bans === null || ban.untilMs <= memory.nowMs + banLengthMs(allowance.bans, ban.number);
  }
  if (isHopeless(allowance, cost)) {
    // Where a cheaper request fits, refusals of such ones may have become a ban meanwhile, at another gateway.
    const mayBeBanned = allowance.bans !== null && !isHopeless(allowance, 1);
    return !mayBeBanned && nowMs - memory.nowMs < HOPELESS_MEMORY_MS;
  }
  if (allowance.bans !== null) return false;
  return allowance.limits.some(({ window, limit }) => {
    const open = windows[window];
    return open !== undefined && nowMs < open.endsAtMs && limit - open.used < cost;
  });
}
