import type { Exchange } from '../gateway/exchange.ts';
import { BackgroundWrites } from '../io/background-writes.ts';
import { addMinute, type CountedMinute } from '../operations/traffic/add-minute.ts';
import {
  BOUNDS_MS,
  type Cells,
  DIMENSIONS,
  type Dimension,
  encodeRecord,
  MAX_NAMED,
  nameOf,
  newCells,
  newRecord,
  othersOf,
  requestsIn,
  STATUS_CLASSES,
} from '../operations/traffic/traffic-record.ts';
import { PART_MS, type TrafficStore } from '../operations/traffic/traffic-store.ts';

/** Minutes that wait for a store that is away: 12 hours, of at most 12 KB each. */
const MAX_WAITING = 720;
/** The gateways of a store do not all write in the same moment. */
const SPREAD_MS = 3_000;

interface TrafficCounterOptions {
  readonly store: TrafficStore;
  /** The clock of the store, Unix milliseconds. */
  readonly nowMs: () => number;
  /** Whether the settings in force want traffic to be kept. */
  readonly isOn: () => boolean;
  /** Called with the number of requests of a minute that is dropped because too many wait for the store. */
  readonly onLost: (requests: number) => void;
  /** From 0 to 1. */
  readonly random: () => number;
}

interface Waiting extends CountedMinute {
  readonly requests: number;
}

/**
 * Counts requests by route, plan, customer and upstream in memory, and adds each minute to the store when it is over: two small records a
 * minute. No request waits for it. While the store is away, minutes wait in memory.
 */
export class TrafficCounter {
  readonly #options: TrafficCounterOptions;
  #minute: number;
  /** By dimension and value; null for requests without one. */
  #series = emptySeries();
  readonly #waiting: Waiting[] = [];
  #lost = 0;
  /** Of the minutes that are over, the oldest first, and at the end of the last one too. */
  readonly writes = new BackgroundWrites(null, async (all) => {
    if (all) this.#end();
    await this.#addToStore();
  });
  #timer: NodeJS.Timeout;

  constructor(options: TrafficCounterOptions) {
    this.#options = options;
    this.#minute = this.#minuteNow();
    this.#timer = this.#atEndOfMinute();
  }

  count({ route, plan, customerId = null, upstream, status, totalMs }: Counted): void {
    const [ofStatus, ofLatency] = [statusCellOf(status), bucketOf(totalMs)];
    this.#add('route', route, ofStatus, ofLatency);
    this.#add('plan', plan, ofStatus, ofLatency);
    this.#add('customer', customerId, ofStatus, ofLatency);
    this.#add('upstream', upstream, ofStatus, ofLatency);
  }

  /** Ends the minute and lets it wait for the store, unless it is still on. */
  turn(): void {
    if (this.#minuteNow() !== this.#minute) this.#seal();
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#seal();
  }

  #minuteNow(): number {
    return Math.floor(this.#options.nowMs() / PART_MS.minute);
  }

  #atEndOfMinute(): NodeJS.Timeout {
    const leftMs = PART_MS.minute - (this.#options.nowMs() % PART_MS.minute);
    return setTimeout(() => {
      this.turn();
      this.#timer = setTimeout(() => {
        void this.writes.flush();
        this.#timer = this.#atEndOfMinute();
      }, this.#options.random() * SPREAD_MS).unref();
    }, leftMs + 1).unref();
  }

  #add(dimension: Dimension, value: string | null, ofStatus: number, ofLatency: number): void {
    const { named, others } = this.#series[dimension];
    let cells = named.get(value);
    if (cells === undefined) {
      cells = named.size < MAX_NAMED[dimension] ? newCells() : others;
      if (cells !== others) named.set(value, cells);
    }
    cells[ofStatus]!++;
    cells[ofLatency]!++;
  }

  #seal(): void {
    const series = this.#series;
    const minute = this.#minute;
    this.#minute = this.#minuteNow();
    this.#series = emptySeries();
    const record = newRecord();
    const names: string[] = [];
    for (const dimension of DIMENSIONS) {
      const { named, others } = series[dimension];
      if (requestsIn(others) > 0) record.series.set(othersOf(dimension), others);
      for (const [value, cells] of named) {
        record.series.set(DIMENSIONS.length + names.push(nameOf(dimension, value)) - 1, cells);
      }
    }
    // A gateway that keeps nothing says nothing: not that there were no requests.
    if (!this.#options.isOn() && names.length === 0) return;
    record.reports = 1;
    const requests = [...series.route.named.values(), series.route.others].reduce((sum, of) => sum + requestsIn(of), 0);
    const mark = Math.floor(this.#options.random() * 2 ** 32);
    this.#waiting.push({ minute, mark, names, bytes: encodeRecord(record, names, Number.POSITIVE_INFINITY), requests });
    if (this.#waiting.length <= MAX_WAITING) return;
    const dropped = this.#waiting.shift()!.requests;
    this.#lost += dropped;
    if (dropped > 0) this.#options.onLost(dropped);
  }

  async #addToStore(): Promise<void> {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const lost = this.#lost;
      try {
        if (!(await addMinute(this.#options.store, next, lost))) return;
      } catch {
        return;
      }
      this.#lost -= lost;
      // Meanwhile it may have been dropped.
      if (this.#waiting[0] === next) this.#waiting.shift();
    }
  }
}

/** The cell of a latency. @param totalMs how long the request took */
export function bucketOf(totalMs: number): number {
  let i = 0;
  while (i < BOUNDS_MS.length && totalMs > BOUNDS_MS[i]!) i++;
  return STATUS_CLASSES.length + i;
}

/** The cell of a status; a request that ended without one is a failure. */
export function statusCellOf(status: number): number {
  const digit = Math.floor(status / 100);
  return digit >= 1 && digit <= 5 ? digit - 1 : 4;
}

type Counted = Pick<Exchange, 'route' | 'plan' | 'customerId' | 'upstream' | 'status' | 'totalMs'>;

type SeriesOf = Readonly<Record<Dimension, { readonly named: Map<string | null, Cells>; readonly others: Cells }>>;

function emptySeries(): SeriesOf {
  const none = () => ({ named: new Map<string | null, Cells>(), others: newCells() });
  return { route: none(), plan: none(), customer: none(), upstream: none() };
}
