import type { AloneCount, OnFailure } from './alone.ts';
import { type Asker, Asking, type Batch } from './asking.ts';
import { Debts, type ReturnOutcome } from './debts.ts';
import { decide } from './decide.ts';
import type { Ledger, Returns } from './ledger.ts';
import { Memories } from './memory.ts';
import type { Allowance, WindowName } from './plan.ts';
import { standingVerdict, type Verdict } from './verdict.ts';

export type { Asker } from './asking.ts';

/** What admission says of one request. */
export type Admission =
  /** `source`: who decided, for log and metrics; null where nothing is counted. */
  | { readonly kind: 'decided'; readonly verdict: Verdict; readonly source: 'store' | 'memory' | 'local' | null }
  /** The store does not answer and the settings say `closed`. */
  | { readonly kind: 'unavailable' };

export interface AdmitterOptions {
  readonly ledger: Ledger;
  /** Where `local` brings what it admitted; left out where it is not to be added to anything. */
  readonly returns?: Returns | null;
  /** What to do when the store does not answer (contract section 6). */
  readonly onFailure: OnFailure;
  /** No request waits for the store longer than this in total. Left out: the ledger's own deadline is the only one. */
  readonly timeoutMs?: number;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Unix milliseconds, for as long as the store's clock was never heard. */
  readonly wallMs: () => number;
  /** Consumers whose last known state is kept, and that may owe at the same time. */
  readonly remembered: number;
  /** Called once per failed call with the store's complaint. */
  readonly onStoreFailure?: (error: unknown) => void;
  /** Called with how many requests were decided without the store, and how they are counted. */
  readonly onAlone?: (count: AloneCount, requests: number) => void;
  /** Called with what became of the cost that was counted here alone. */
  readonly onReturned?: (window: WindowName, outcome: ReturnOutcome, spent: number) => void;
}

/**
 * Decides requests against the ledger. Requests of one consumer that arrive in the same turn of the event loop become
 * one ask for n, and all asks of a turn travel as one call. What cannot have changed since the last answer is refused
 * from memory; a refusal that is a strike never is, so that bans come at exactly the `after`-th (contract section 3).
 * What the store does not decide in time is decided here (contract section 6).
 */
export class Admitter {
  readonly #timeoutMs: number | null;
  readonly #memories: Memories;
  readonly #ledger: Ledger;
  readonly #debts: Debts | null;
  readonly #asking: Asking;
  /** Of this turn, by consumer: one for each cost, allowance and deadline. */
  #batches = new Map<string, Batch[]>();
  /** The one that the last request joined: many come of one consumer in a row. */
  #last: Batch | null = null;
  readonly #flush = () => {
    const batches = [...this.#batches.values()].flat();
    this.#batches = new Map();
    this.#last = null;
    this.#asking.ask(batches);
  };

  constructor(options: AdmitterOptions) {
    const { returns = null, onFailure, timeoutMs = null, remembered, wallMs, onReturned } = options;
    this.#ledger = options.ledger;
    this.#timeoutMs = timeoutMs;
    this.#memories = new Memories(options);
    const onEach = onReturned === undefined ? {} : { onReturned };
    this.#debts =
      returns === null || onFailure !== 'local' ? null : new Debts({ returns, most: remembered, wallMs, ...onEach });
    const onReady = (batches: readonly Batch[]) => this.#addTo(batches);
    this.#asking = new Asking({ ...options, timeoutMs, memories: this.#memories, debts: this.#debts, onReady });
  }

  /** Consumers of whom the store has yet to be told what was admitted here alone. */
  get owing(): number {
    return (this.#debts?.size ?? 0) + (this.#ledger.owing ?? 0);
  }

  /**
   * At once where memory suffices, else when the store has answered or its time is up. Never rejects.
   * @param waitedMs how long this request has waited for the store before
   */
  admit(consumerId: string, allowance: Allowance, cost: number, waitedMs = 0): Admission | Promise<Admission> {
    let admission: Admission | null = null;
    const later = new Promise<Admission>((resolve) => {
      admission = this.ask(consumerId, allowance, cost, waitedMs, { onAdmission: resolve });
    });
    return admission ?? later;
  }

  /**
   * The same for who does without a promise, which costs as much as the rest of it.
   * @returns null where `asker` is told later, never from within this call
   */
  ask(consumerId: string, allowance: Allowance, cost: number, waitedMs: number, asker: Asker): Admission | null {
    const refusal = this.#memories.refusal(consumerId, allowance, cost);
    if (refusal !== null) return { kind: 'decided', verdict: refusal, source: 'memory' };
    // Who has waited already has only the rest of the time; for all others the ledger's own deadline suffices.
    const withinMs = this.#timeoutMs === null || waitedMs <= 0 ? null : this.#timeoutMs - waitedMs;
    if (withinMs !== null && withinMs <= 0) return this.#asking.decideAlone(consumerId, allowance, cost);
    if (this.#last === null || !isOf(this.#last, consumerId, allowance, cost, withinMs)) {
      this.#last = this.#batchOf(consumerId, allowance, cost, withinMs);
    }
    this.#last.waiting.push(asker);
    return null;
  }

  /** A reload in the middle of a turn: each request is decided by the allowance that it came under. */
  #batchOf(consumerId: string, allowance: Allowance, cost: number, withinMs: number | null): Batch {
    const batches = this.#of(consumerId);
    const known = batches.find((batch) => isOf(batch, consumerId, allowance, cost, withinMs));
    if (known !== undefined) return known;
    const batch: Batch = { consumerId, allowance, cost, withinMs, waiting: [], timer: null, state: 'new' };
    batches.push(batch);
    return batch;
  }

  /** What waited for the call before is asked at the end of the turn, in front of what has come by then. */
  #addTo(ready: readonly Batch[]): void {
    for (const batch of ready.toReversed()) {
      // Its time was up while it waited.
      if (batch.state !== 'new') continue;
      const { consumerId, allowance, cost, withinMs } = batch;
      const batches = this.#of(consumerId);
      // Not another one that has waited, which has a timer of its own.
      const came = batches.findIndex((it) => it.timer === null && isOf(it, consumerId, allowance, cost, withinMs));
      if (came >= 0) batch.waiting.push(...batches.splice(came, 1)[0]!.waiting);
      batches.unshift(batch);
    }
    this.#last = null;
  }

  #of(consumerId: string): Batch[] {
    if (this.#batches.size === 0) setImmediate(this.#flush);
    const known = this.#batches.get(consumerId);
    if (known !== undefined) return known;
    const batches: Batch[] = [];
    this.#batches.set(consumerId, batches);
    return batches;
  }

  /** Refuses nobody from memory until the store has been asked again: a ban was lifted. */
  forget(): void {
    this.#memories.forget();
  }

  /** How a consumer stood when the store was last asked, without asking it. */
  standing(consumerId: string, allowance: Allowance): Verdict {
    const { state, nowMs } = this.#memories.known(consumerId);
    return standingVerdict(decide(state, allowance, nowMs, 1, 0).state, allowance, nowMs, 0);
  }
}

function isOf(batch: Batch, consumerId: string, allowance: Allowance, cost: number, withinMs: number | null): boolean {
  return (
    batch.consumerId === consumerId &&
    batch.cost === cost &&
    batch.allowance === allowance &&
    batch.withinMs === withinMs &&
    batch.state === 'new'
  );
}
