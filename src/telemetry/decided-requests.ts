import type { Exchange } from '../gateway/exchange.ts';
import type { DecidedColumns } from '../operations/live/shapes.ts';
import { JUDGEMENTS } from '../simulate/log-line.ts';
import { RECORD_SOURCES } from '../simulate/recent-record.ts';

/** The decided requests that are kept for simulations. */
const RECORDED = 50_000;

/** The last decided requests, in a ring of columns. */
export class DecidedRequests {
  readonly #atMs = new Float64Array(RECORDED);
  readonly #costs = new Float64Array(RECORDED);
  readonly #imposedBans = new Float64Array(RECORDED);
  readonly #remaining = new Float64Array(RECORDED);
  readonly #judgements = new Uint8Array(RECORDED);
  readonly #sources = new Uint8Array(RECORDED);
  readonly #consumerIds: string[] = [];
  readonly #plans: string[] = [];
  readonly #limits: Exchange['limits'][] = [];
  #next = 0;

  add(exchange: Exchange): void {
    const at = this.#next;
    this.#atMs[at] = exchange.decidedAtMs!;
    this.#costs[at] = exchange.cost;
    this.#imposedBans[at] = exchange.imposedBan ?? 0;
    this.#remaining[at] = exchange.remaining[0] ?? 0;
    this.#judgements[at] = JUDGEMENTS.indexOf(exchange.judgement as (typeof JUDGEMENTS)[number]);
    this.#sources[at] = RECORD_SOURCES.indexOf(exchange.source!);
    this.#consumerIds[at] = exchange.consumerId!;
    this.#plans[at] = exchange.plan!;
    this.#limits[at] = exchange.limits;
    this.#next = at + 1 === RECORDED ? 0 : at + 1;
  }

  /** The oldest first. */
  columns(): DecidedColumns {
    const length = this.#consumerIds.length;
    const first = length < RECORDED ? 0 : this.#next;
    const inOrder = <T extends Float64Array | Uint8Array | Uint32Array>(column: T): T => {
      const ordered = column.slice(0, length) as T;
      ordered.set(column.subarray(first, length));
      ordered.set(column.subarray(0, first), length - first);
      return ordered;
    };
    const sets = new Map<string, number>();
    // Requests of the same key mostly share the array, so that the text is made for few.
    const known = new Map<Exchange['limits'], number>();
    const limits = Uint32Array.from(this.#limits, (one) => {
      let index = known.get(one);
      if (index !== undefined) return index;
      const text = JSON.stringify(Object.fromEntries(one.map(({ window, name = window, limit }) => [name, limit])));
      index = sets.get(text) ?? sets.size;
      sets.set(text, index);
      known.set(one, index);
      return index;
    });
    return {
      atMs: inOrder(this.#atMs),
      costs: inOrder(this.#costs),
      imposedBans: inOrder(this.#imposedBans),
      remaining: inOrder(this.#remaining),
      judgements: inOrder(this.#judgements),
      sources: inOrder(this.#sources),
      consumerIds: [...this.#consumerIds.slice(first), ...this.#consumerIds.slice(0, first)],
      plans: [...this.#plans.slice(first), ...this.#plans.slice(0, first)],
      limits: inOrder(limits),
      limitSets: [...sets.keys()].map((text) => JSON.parse(text)),
    };
  }
}
