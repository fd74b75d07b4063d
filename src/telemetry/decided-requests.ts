import { partsOfAccount } from '../admit/account-id.ts';
import type { Exchange } from '../gateway/exchange.ts';
import type { PaidUnits } from '../gateway/metering.ts';
import { DECIDED_JUDGEMENTS, SOURCES } from '../model/refusal.ts';
import type { DecidedColumns } from '../operations/live/shapes.ts';
import { orderingIndex } from '../simulate/ordering-limit.ts';
import type { RecentUnits } from '../simulate/recent-record.ts';
import { MAX_PATH, ownCopy } from './kept-refusals.ts';

/** The decided requests that are kept for simulations. */
const RECORDED = 50_000;

/** No entry of a group can name a longer method that a route has. A longer text would keep the request's head in memory. */
const MAX_METHOD = 12;

/** The last decided requests, in a ring of columns. */
export class DecidedRequests {
  readonly #atMs = new Float64Array(RECORDED);
  readonly #costs = new Float64Array(RECORDED);
  readonly #imposedBans = new Float64Array(RECORDED);
  readonly #remaining = new Float64Array(RECORDED);
  readonly #judgements = new Uint8Array(RECORDED);
  readonly #sources = new Uint8Array(RECORDED);
  readonly #consumerIds: string[] = [];
  /** Only of consumers of customers: the id of the account, which has both ids. */
  readonly #accountIds: (string | null)[] = [];
  readonly #methods: string[] = [];
  readonly #routes: (string | null)[] = [];
  /** Only of requests whose plan has groups of routes. */
  readonly #paths: (string | null)[] = [];
  readonly #plans: string[] = [];
  readonly #limits: Exchange['limits'][] = [];
  /**
   * What requests paid, by unit. Not as they come: objects that live this long cost the garbage collector a tenth of a settled
   * request.
   */
  readonly #units = new Map<string, UnitColumns>();
  #next = 0;

  add(exchange: Exchange): void {
    const at = this.#next;
    this.#atMs[at] = exchange.decidedAtMs!;
    this.#costs[at] = exchange.cost;
    this.#imposedBans[at] = exchange.imposedBan ?? 0;
    const { consumerId, accountId = consumerId, method, path } = exchange;
    const isOfCustomer = accountId !== consumerId;
    this.#accountIds[at] = isOfCustomer ? accountId : null;
    this.#remaining[at] = exchange.windows[isOfCustomer ? orderingIndex(exchange.limits) : 0]?.remaining ?? 0;
    this.#methods[at] = method.length > MAX_METHOD ? '' : method;
    this.#routes[at] = exchange.route;
    this.#paths[at] = exchange.hasGroups && path !== null && path.length <= MAX_PATH ? ownCopy(path) : null;
    this.#judgements[at] = DECIDED_JUDGEMENTS.indexOf(exchange.judgement as (typeof DECIDED_JUDGEMENTS)[number]);
    this.#sources[at] = SOURCES.indexOf(exchange.source!);
    this.#consumerIds[at] = consumerId!;
    this.#plans[at] = exchange.plan!;
    this.#limits[at] = exchange.limits;
    if (exchange.units != null || this.#units.size > 0) this.#setUnits(at, exchange.units ?? []);
    this.#next = at + 1 === RECORDED ? 0 : at + 1;
  }

  #setUnits(at: number, units: PaidUnits): void {
    for (const { reserved } of this.#units.values()) reserved[at] = Number.NaN;
    for (const { unit, reserved, settled } of units) {
      let columns = this.#units.get(unit);
      if (columns === undefined) {
        columns = { reserved: new Float64Array(RECORDED).fill(Number.NaN), settled: new Float64Array(RECORDED) };
        this.#units.set(unit, columns);
      }
      columns.reserved[at] = reserved;
      columns.settled[at] = settled;
    }
  }

  /** What one request paid; null if it charged no unit. */
  #unitsAt(at: number): RecentUnits | null {
    const paid = [...this.#units].flatMap(([unit, { reserved, settled }]) => {
      return Number.isNaN(reserved[at]!) ? [] : [[unit, { reserved: reserved[at]!, settled: settled[at]! }] as const];
    });
    return paid.length === 0 ? null : Object.fromEntries(paid);
  }

  /** The oldest first. */
  columns(): DecidedColumns {
    const length = this.#consumerIds.length;
    const units = this.#units.size === 0 ? null : Array.from({ length }, (_, at) => this.#unitsAt(at));
    const first = length < RECORDED ? 0 : this.#next;
    const inOrder = <T extends Float64Array | Uint8Array | Uint32Array>(column: T): T => {
      const ordered = column.slice(0, length) as T;
      ordered.set(column.subarray(first, length));
      ordered.set(column.subarray(0, first), length - first);
      return ordered;
    };
    const turned = <T>(column: readonly T[]) => [...column.slice(first), ...column.slice(0, first)];
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
      consumerIds: turned(this.#consumerIds),
      customerIds: turned(this.#accountIds).map((id) => (id === null ? null : partsOfAccount(id).customerId)),
      methods: turned(this.#methods),
      paths: turned(this.#paths.map((path, i) => path ?? pathOfRoute(this.#routes[i]!))),
      plans: turned(this.#plans),
      units: units === null ? null : turned(units),
      limits: inOrder(limits),
      limitSets: [...sets.keys()].map((text) => JSON.parse(text)),
    };
  }
}

/** NaN in `reserved`: the request did not charge the unit. */
interface UnitColumns {
  readonly reserved: Float64Array;
  readonly settled: Float64Array;
}

/** The path of every request of a route whose pattern has no names and no rest; null for other routes. @param route `Match.name` */
function pathOfRoute(route: string | null): string | null {
  // The pattern may stand between a host and what the fields of a request must be.
  const [path = ''] = route?.slice(route.indexOf('/')).split(' ') ?? [];
  return route === null || /\/\{|\/\*\*$/.test(path) ? null : path;
}
