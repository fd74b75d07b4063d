import { LRUCache } from 'lru-cache';
import { type AccountState, decide, isHopeless, type Outcome, UNSEEN } from './decide.ts';
import type { Ask, Ledger } from './ledger.ts';
import type { Allowance } from './plan.ts';
import { standingVerdict, type Verdict, verdictOf } from './verdict.ts';

/** What admission says of one request. */
export type Admission =
  /** `source`: who decided, for log and metrics. */
  | { readonly kind: 'decided'; readonly verdict: Verdict; readonly source: 'store' | 'memory' | 'local' }
  /** The store does not answer and the settings say `closed`. */
  | { readonly kind: 'unavailable' };

export interface AdmitterOptions {
  readonly ledger: Ledger;
  /** What to do when the store does not answer (contract section 6). */
  readonly onFailure: 'local' | 'closed' | 'open';
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds, for consumers that no store was ever asked about. */
  readonly wallMs: () => number;
  /** Consumers whose last known state is kept. */
  readonly remembered: number;
  /** Called once per failed call with the store's complaint. */
  readonly onStoreFailure?: (error: unknown) => void;
}

/** The last known state of a consumer, and the moments between which the store's clock said `nowMs`. */
interface Memory {
  readonly state: AccountState;
  readonly nowMs: number;
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
  /** What `#forgotten` was when the store was asked (or WITHOUT_STORE): memory refuses only where it is still the same. */
  readonly forgotten: number;
}

interface Batch {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly cost: number;
  readonly waiting: ((admission: Admission) => void)[];
}

/** Decided here alone: such a state is gone on from while the store is away, but the word of one that is back counts. */
const WITHOUT_STORE = -1;
/** A refusal that no count can change is asked about again after this long. */
const HOPELESS_MEMORY_MS = 1_000;

/**
 * Decides requests against the ledger. Requests of one consumer that arrive in the same turn of the event loop become
 * one ask for n, and all asks of a turn travel as one call. What cannot have changed since the last answer is refused
 * from memory; a refusal that is a strike never is, so that bans come at exactly the `after`-th (contract section 3).
 */
export class Admitter {
  readonly #options: AdmitterOptions;
  readonly #memories: LRUCache<string, Memory>;
  /** Of this turn, by consumer: one for each cost and allowance. */
  #batches = new Map<string, Batch[]>();
  /** Counts `forget`, so that an answer that was under way meanwhile refuses nobody either. */
  #forgotten = 0;
  readonly #flush = () => this.#ask();

  constructor(options: AdmitterOptions) {
    this.#options = options;
    this.#memories = new LRUCache({ max: options.remembered });
  }

  /** At once where memory suffices, else when the store has answered. Never rejects. */
  admit(consumerId: string, allowance: Allowance, cost: number): Admission | Promise<Admission> {
    const remembered = this.#refuseFromMemory(consumerId, allowance, cost);
    if (remembered !== null) return remembered;
    return new Promise((resolve) => {
      if (this.#batches.size === 0) setImmediate(this.#flush);
      const batches = this.#batches.get(consumerId) ?? [];
      if (batches.length === 0) this.#batches.set(consumerId, batches);
      // A reload in the middle of a turn: each request is decided by the allowance that it came under.
      const batch = batches.find((other) => other.cost === cost && other.allowance === allowance);
      if (batch !== undefined) batch.waiting.push(resolve);
      else batches.push({ consumerId, allowance, cost, waiting: [resolve] });
    });
  }

  /** Refuses nobody from memory until the store has been asked again: a ban was lifted. */
  forget(): void {
    this.#forgotten++;
  }

  /** How a consumer stood when the store was last asked, without asking it. */
  standing(consumerId: string, allowance: Allowance): Verdict {
    const memory = this.#memories.get(consumerId);
    const nowMs = memory === undefined ? this.#options.wallMs() : this.#earliestNowMs(memory);
    const { state } = decide(memory?.state ?? UNSEEN, allowance, nowMs, 1, 0);
    return standingVerdict(state, allowance, nowMs, 0);
  }

  async #ask(): Promise<void> {
    const batches = [...this.#batches.values()].flat();
    this.#batches = new Map();
    const forgotten = this.#forgotten;
    const askedAtMs = this.#options.monotonicMs();
    const asks: Ask[] = batches.map(({ consumerId, allowance, cost, waiting }) => ({
      consumerId,
      allowance,
      cost,
      n: waiting.length,
    }));
    let outcomes: readonly (Outcome | null)[];
    try {
      outcomes = await this.#options.ledger.decide(asks);
    } catch (error) {
      this.#options.onStoreFailure?.(error);
      outcomes = batches.map(() => null);
    }
    const answeredAtMs = this.#options.monotonicMs();
    for (const [i, batch] of batches.entries()) {
      const outcome = outcomes[i] ?? null;
      if (outcome === null) this.#answerWithoutStore(batch);
      else {
        const { state, nowMs } = outcome;
        this.#memories.set(batch.consumerId, { state, nowMs, askedAtMs, answeredAtMs, forgotten });
        answer(batch, outcome, 'store');
      }
    }
  }

  #refuseFromMemory(consumerId: string, allowance: Allowance, cost: number): Admission | null {
    const memory = this.#memories.get(consumerId);
    if (memory === undefined || memory.forgotten !== this.#forgotten) return null;
    // The store's clock lies between two bounds. The later one decides whether the refusal may still stand, the earlier
    // one how long the client is told to wait: neither errs against the client. The store tells whole milliseconds, so
    // up to one more had passed.
    const latestNowMs = memory.nowMs + 1 + (this.#options.monotonicMs() - memory.askedAtMs);
    if (!stillRefuses(memory, allowance, cost, latestNowMs)) return null;
    const outcome = decide(memory.state, allowance, this.#earliestNowMs(memory), cost, 1);
    if (outcome.admitted > 0) return null;
    return { kind: 'decided', verdict: verdictOf(outcome, allowance, 0), source: 'memory' };
  }

  #answerWithoutStore(batch: Batch): void {
    const { onFailure, wallMs } = this.#options;
    if (onFailure === 'closed') {
      for (const resolve of batch.waiting) resolve({ kind: 'unavailable' });
      return;
    }
    const memory = this.#memories.get(batch.consumerId);
    const state = memory?.state ?? UNSEEN;
    const nowMs = memory === undefined ? wallMs() : this.#earliestNowMs(memory);
    if (onFailure === 'open') {
      const present = decide(state, batch.allowance, nowMs, batch.cost, 0);
      const verdict = standingVerdict(present.state, batch.allowance, nowMs, batch.cost);
      for (const resolve of batch.waiting) resolve({ kind: 'decided', verdict, source: 'local' });
      return;
    }
    const outcome = decide(state, batch.allowance, nowMs, batch.cost, batch.waiting.length);
    const moment = this.#options.monotonicMs();
    this.#memories.set(batch.consumerId, {
      state: outcome.state,
      nowMs,
      askedAtMs: moment,
      answeredAtMs: moment,
      forgotten: WITHOUT_STORE,
    });
    answer(batch, outcome, 'local');
  }

  #earliestNowMs(memory: Memory): number {
    return Math.floor(memory.nowMs + (this.#options.monotonicMs() - memory.answeredAtMs));
  }
}

/** Whether no answer of the store could differ from a refusal until `nowMs`, under the allowance as it is now. */
function stillRefuses(memory: Memory, allowance: Allowance, cost: number, nowMs: number): boolean {
  const { ban, windows } = memory.state;
  if (ban !== null && nowMs < ban.untilMs) {
    // Made under a rule with longer bans than the one in force: the store is about to shorten it.
    return allowance.bans === null || ban.untilMs <= memory.nowMs + allowance.bans.longestMs;
  }
  if (isHopeless(allowance, cost)) return nowMs - memory.nowMs < HOPELESS_MEMORY_MS;
  if (allowance.bans !== null) return false;
  return allowance.limits.some(({ window, limit }) => {
    const open = windows[window];
    return open !== undefined && nowMs < open.endsAtMs && limit - open.used < cost;
  });
}

function answer(batch: Batch, outcome: Outcome, source: 'store' | 'local'): void {
  for (const [i, resolve] of batch.waiting.entries()) {
    resolve({ kind: 'decided', verdict: verdictOf(outcome, batch.allowance, i), source });
  }
}
