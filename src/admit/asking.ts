import type { Admission } from './admit.ts';
import { type AloneCount, decideAlone, type OnFailure } from './alone.ts';
import type { Debts } from './debts.ts';
import type { Outcome } from './decide.ts';
import { type Ask, type Ledger, NothingDone } from './ledger.ts';
import type { Memories } from './memory.ts';
import type { Allowance } from './plan.ts';
import { verdictOf } from './verdict.ts';

export interface AskingOptions {
  readonly ledger: Ledger;
  readonly memories: Memories;
  /** Null where nothing is to be given back. */
  readonly debts: Debts | null;
  readonly onFailure: OnFailure;
  /** Null: the ledger's own deadline is the only one. */
  readonly timeoutMs: number | null;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** Called with what waited for a call that has been answered: it may be asked now, at best with what else there is. */
  readonly onReady: (batches: readonly Batch[]) => void;
  readonly onStoreFailure?: (error: unknown) => void;
  readonly onAlone?: (count: AloneCount, requests: number) => void;
}

/** A request that waits for its admission. */
export interface Asker {
  /** Called once. */
  onAdmission(admission: Admission): void;
}

/** Requests of one consumer that came in one turn, under the same allowance and with the same cost. */
export interface Batch {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly cost: number;
  readonly waiting: Asker[];
  /** What is left of the time that they may wait; null: all of it. */
  readonly withinMs: number | null;
  timer: NodeJS.Timeout | null;
  state: 'new' | 'sent' | 'answered';
}

/**
 * Asks the ledger, and answers without it what it does not decide in time.
 *
 * Of each consumer one call is under way at a time; what comes meanwhile waits and travels together. A store that falls
 * silent can so leave one call in the open for each count, which counts as applied (contract section 6); all that comes
 * after it is known not to have been sent, and is added when the store is back.
 */
export class Asking {
  readonly #options: AskingOptions;
  /** Batches that wait for the call about their consumer, by consumer; null where none does. */
  readonly #underWay = new Map<string, Batch[] | null>();

  constructor(options: AskingOptions) {
    this.#options = options;
  }

  /** Decides these, each consumer's when its call before is answered. */
  ask(batches: readonly Batch[]): void {
    const { debts } = this.#options;
    const clear: Batch[] = [];
    const owing: Batch[] = [];
    for (const batch of batches) {
      const { consumerId, withinMs } = batch;
      if (batch.state === 'answered') continue;
      const held = this.#underWay.get(consumerId);
      if (debts?.isInDoubt(consumerId)) this.#answerAlone(batch, true);
      else if (held !== undefined) this.#hold(batch, held);
      else if (debts?.has(consumerId)) owing.push(this.#giveUpAfter(batch, withinMs ?? this.#options.timeoutMs));
      else clear.push(this.#giveUpAfter(batch, withinMs));
    }
    this.#begin(clear);
    this.#begin(owing);
    if (clear.length > 0) this.#decide(clear, clear);
    if (owing.length > 0) void this.#settleAndDecide(owing, debts!);
  }

  /** One request that has no time left to wait. */
  decideAlone(consumerId: string, allowance: Allowance, cost: number): Admission {
    return decideAlone({ consumerId, allowance, cost, n: 1, isUncounted: true }, this.#options)(0);
  }

  #begin(batches: readonly Batch[]): void {
    for (const { consumerId } of batches) this.#underWay.set(consumerId, null);
  }

  #end(batches: readonly Batch[]): void {
    let ready: Batch[] | null = null;
    for (const { consumerId } of batches) {
      const held = this.#underWay.get(consumerId) ?? null;
      this.#underWay.delete(consumerId);
      if (held !== null) ready = ready === null ? held : ready.concat(held);
    }
    if (ready !== null) this.#options.onReady(ready);
  }

  #hold(batch: Batch, held: Batch[] | null): void {
    const { consumerId, allowance, cost, withinMs } = batch;
    const same = held?.find((it) => it.state === 'new' && it.cost === cost && it.allowance === allowance);
    if (same !== undefined && withinMs === null) {
      same.waiting.push(...batch.waiting);
      return;
    }
    this.#giveUpAfter(batch, withinMs ?? this.#options.timeoutMs);
    if (held === null) this.#underWay.set(consumerId, [batch]);
    else held.push(batch);
  }

  /** The store hears of what was admitted without it before it decides again. */
  async #settleAndDecide(batches: readonly Batch[], debts: Debts): Promise<void> {
    const settled = await debts.settle(batches.map(({ consumerId }) => consumerId));
    for (const batch of batches) if (!settled.has(batch.consumerId)) this.#answerAlone(batch, true);
    const ready = batches.filter(({ state }) => state === 'new');
    if (ready.length > 0) this.#decide(ready, batches);
    else this.#end(batches);
  }

  /** @param begun all that began together, and ends together when these are decided */
  #decide(batches: readonly Batch[], begun: readonly Batch[]): void {
    const { ledger, memories, monotonicMs } = this.#options;
    const { generation } = memories;
    const askedAtMs = monotonicMs();
    const asks = batches.map((batch) => {
      batch.state = 'sent';
      const { consumerId, allowance, cost, waiting } = batch;
      return { consumerId, allowance, cost, n: waiting.length };
    });
    const tell = (outcomes: readonly (Outcome | null | undefined)[]) => {
      for (let i = 0; i < batches.length; i++) this.#tell(batches[i]!, outcomes[i], askedAtMs, generation);
      this.#end(begun);
    };
    ledger.decide(asks).then(tell, (error) => tell(this.#outcomesOf(asks, error)));
  }

  /** @param outcome undefined: nothing of it has been counted; null: it may have been */
  #tell(batch: Batch, outcome: Outcome | null | undefined, askedAtMs: number, generation: number): void {
    if (!outcome) {
      this.#answerAlone(batch, outcome === undefined);
      return;
    }
    this.#options.memories.told(batch.consumerId, outcome, askedAtMs, generation);
    this.#rememberOwed(batch.consumerId, outcome);
    const source = this.#options.ledger.owing ? 'local' : 'store';
    if (source === 'local') this.#tellOwed(outcome);
    answer(batch, (index) => {
      return { kind: 'decided', verdict: verdictOf(outcome, batch.allowance, index), source };
    });
  }

  #tellOwed({ admitted, n }: Outcome): void {
    if (admitted > 0) this.#options.onAlone?.('owed', admitted);
    if (admitted < n) this.#options.onAlone?.('uncounted', n - admitted);
  }

  /** The store's word is without what was admitted alone meanwhile; in its next outage that still counts. */
  #rememberOwed(consumerId: string, { state, nowMs }: Outcome): void {
    const { debts, memories } = this.#options;
    const whole = debts?.laidOver(consumerId, state, nowMs) ?? null;
    if (whole !== null) memories.decidedAlone(consumerId, whole, { state, nowMs, isOwnClock: false });
  }

  /** Of a call that failed: undefined where nothing has been counted, null where it may have been. */
  #outcomesOf(asks: readonly Ask[], error: unknown): readonly (Outcome | null | undefined)[] {
    this.#options.onStoreFailure?.(error);
    if (error instanceof NothingDone) return error.butFor;
    for (const { consumerId } of asks) this.#options.debts?.doubt(consumerId);
    return asks.map(() => null);
  }

  #giveUpAfter(batch: Batch, withinMs: number | null): Batch {
    if (withinMs === null || batch.timer !== null) return batch;
    // One turn more: an answer that has arrived while this process was busy is read before it is called late.
    const giveUp = () => setImmediate(() => this.#answerAlone(batch, batch.state === 'new'));
    batch.timer = setTimeout(giveUp, withinMs);
    return batch;
  }

  #answerAlone(batch: Batch, isUncounted: boolean): void {
    if (batch.state === 'answered') return;
    const { consumerId, allowance, cost, waiting } = batch;
    answer(batch, decideAlone({ consumerId, allowance, cost, n: waiting.length, isUncounted }, this.#options));
  }
}

function answer(batch: Batch, admissionOf: (index: number) => Admission): void {
  if (batch.state === 'answered') return;
  batch.state = 'answered';
  if (batch.timer !== null) clearTimeout(batch.timer);
  for (let i = 0; i < batch.waiting.length; i++) {
    try {
      batch.waiting[i]!.onAdmission(admissionOf(i));
    } catch (error) {
      // It reaches the process, and keeps nobody who waits for the same call from an answer.
      setImmediate(() => {
        throw error;
      });
    }
  }
}
