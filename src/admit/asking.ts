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
  /** Batches that wait for the call about their consumer, by consumer. */
  readonly #underWay = new Map<string, Batch[]>();

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
    if (clear.length > 0) void this.#goThrough(clear, () => this.#decide(clear));
    if (owing.length > 0) void this.#goThrough(owing, () => this.#settleAndDecide(owing, debts!));
  }

  /** One request that has no time left to wait. */
  decideAlone(consumerId: string, allowance: Allowance, cost: number): Admission {
    return decideAlone({ consumerId, allowance, cost, n: 1, isUncounted: true }, this.#options)(0);
  }

  #hold(batch: Batch, held: Batch[]): void {
    const { allowance, cost, withinMs } = batch;
    const same = held.find((it) => it.state === 'new' && it.cost === cost && it.allowance === allowance);
    if (same !== undefined && withinMs === null) same.waiting.push(...batch.waiting);
    else held.push(this.#giveUpAfter(batch, withinMs ?? this.#options.timeoutMs));
  }

  async #goThrough(batches: readonly Batch[], go: () => Promise<void>): Promise<void> {
    for (const { consumerId } of batches) this.#underWay.set(consumerId, []);
    await go();
    const next: Batch[] = [];
    for (const { consumerId } of batches) {
      next.push(...(this.#underWay.get(consumerId) ?? []));
      this.#underWay.delete(consumerId);
    }
    if (next.length > 0) this.ask(next);
  }

  /** The store hears of what was admitted without it before it decides again. */
  async #settleAndDecide(batches: readonly Batch[], debts: Debts): Promise<void> {
    const settled = await debts.settle(batches.map(({ consumerId }) => consumerId));
    for (const batch of batches) if (!settled.has(batch.consumerId)) this.#answerAlone(batch, true);
    const ready = batches.filter(({ state }) => state === 'new');
    if (ready.length > 0) await this.#decide(ready);
  }

  async #decide(batches: readonly Batch[]): Promise<void> {
    const { memories, monotonicMs } = this.#options;
    const { generation } = memories;
    const askedAtMs = monotonicMs();
    const asks = batches.map((batch) => {
      batch.state = 'sent';
      const { consumerId, allowance, cost, waiting } = batch;
      return { consumerId, allowance, cost, n: waiting.length };
    });
    const outcomes = await this.#outcomesOf(asks);
    for (const [i, batch] of batches.entries()) {
      const outcome = outcomes[i];
      if (!outcome) this.#answerAlone(batch, outcome === undefined);
      else {
        memories.told(batch.consumerId, outcome, askedAtMs, generation);
        this.#rememberOwed(batch.consumerId, outcome);
        answer(batch, (index) => {
          return { kind: 'decided', verdict: verdictOf(outcome, batch.allowance, index), source: 'store' };
        });
      }
    }
  }

  /** The store's word is without what was admitted alone meanwhile; in its next outage that still counts. */
  #rememberOwed(consumerId: string, { state, nowMs }: Outcome): void {
    const { debts, memories } = this.#options;
    const whole = debts?.laidOver(consumerId, state, nowMs) ?? null;
    if (whole !== null) memories.decidedAlone(consumerId, whole, { state, nowMs, isOwnClock: false });
  }

  /** Undefined: nothing of it has been counted. Null: it may have been. */
  async #outcomesOf(asks: readonly Ask[]): Promise<readonly (Outcome | null | undefined)[]> {
    try {
      return await this.#options.ledger.decide(asks);
    } catch (error) {
      this.#options.onStoreFailure?.(error);
      if (error instanceof NothingDone) return error.butFor;
      for (const { consumerId } of asks) this.#options.debts?.doubt(consumerId);
      return asks.map(() => null);
    }
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
