import type { TailFilter } from '../../model/refusal.ts';
import type { LiveQuestion, LocalAnswer, TailBatch } from '../live/shapes.ts';
import type { Draft, FleetExchange, FleetJob, OpenQuestion } from './fleet-exchange.ts';
import type { GatewayAnswer } from './messages.ts';

/** Requests that a tail has seen on one gateway. */
export interface GatewayBatch extends Omit<TailBatch, 'id'> {
  readonly gateway: string;
}

/** Streams of the requests that match a filter, on all gateways. */
export class Tails implements FleetJob {
  readonly #exchange: FleetExchange;
  readonly #own = new Map<string, { readonly filter: TailFilter; readonly onBatch: (batch: GatewayBatch) => void }>();
  /** Tails of other gateways, by their question. */
  #others = new Map<string, { readonly filter: TailFilter; readonly requester: string }>();

  constructor(exchange: FleetExchange) {
    this.#exchange = exchange;
  }

  /**
   * Shows the requests on all gateways that match a filter, from now on. The other gateways begin within a second.
   * @param onBatch called with the requests of one gateway at a time
   * @returns a function that ends it
   */
  open(filter: TailFilter, onBatch: (batch: GatewayBatch) => void): () => void {
    const id = this.#exchange.newQuestion();
    this.#own.set(id, { filter, onBatch });
    void this.#exchange.heartbeatSoon();
    return () => this.#own.delete(id);
  }

  get isWaiting(): boolean {
    return this.#own.size + this.#others.size > 0;
  }

  get tailsToCollect(): LiveQuestion['tails'] {
    return [...this.#own, ...this.#others].map(([id, { filter }]) => ({ id, filter }));
  }

  onLocal({ seen }: LocalAnswer): void {
    for (const batch of seen.tails) this.#pass(batch);
  }

  leave({ questions }: Draft): void {
    for (const [id, { filter }] of this.#own) questions.set(id, JSON.stringify({ tail: filter }));
  }

  onAnswer(answer: GatewayAnswer): void {
    if (answer.kind !== 'tail') return;
    const { question, gateway, requests, skipped } = answer;
    this.#own.get(question)?.onBatch({ gateway, requests, skipped });
  }

  onQuestions(questions: readonly OpenQuestion[]): void {
    this.#others = new Map();
    for (const { id, requester, question } of questions) {
      if (question.kind === 'tail') this.#others.set(id, { filter: question.filter, requester });
    }
  }

  onFailure(): void {
    this.#others.clear();
  }

  /** Passes requests that a tail has seen on this gateway to its watcher, or to the gateway that asked for them. */
  #pass({ id, requests, skipped }: TailBatch): void {
    if (requests.length === 0 && skipped === 0) return;
    const gateway = this.#exchange.id;
    this.#own.get(id)?.onBatch({ gateway, requests, skipped });
    const requester = this.#others.get(id)?.requester;
    if (requester !== undefined) this.#exchange.answer(requester, { tail: id, gateway, requests, skipped });
  }
}
