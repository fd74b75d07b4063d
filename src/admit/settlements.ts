import { hourOf } from '../engine/history-form.ts';
import { accountIdsOf, historiesOf, inUnit, ownerIdOf } from './account-id.ts';
import type { Allowance } from './allowance.ts';
import type { Settlement, SettlementOutcome, SettlementSink } from './ledger.ts';
import type { Reservation } from './verdict.ts';

interface SettlementsOptions {
  readonly sink: SettlementSink;
  /** Maximum waiting settlements. The class sends further ones at once, and loses those beyond this number that come back unsent. */
  readonly most: number;
  readonly onSettled?: ((outcome: Exclude<SettlementOutcome, 'unsent'>, settlements: number) => void) | undefined;
}

/** What a request has used, by unit. For a unit that is left out, the request used its reserve. */
export type UsedUnits = readonly { readonly unit: string; readonly settled: number }[];

/** A request that has ended. */
interface SettledRequest {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly reservation: Reservation;
  /** The time of its decision by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
}

/** A settlement waits at most this long for a decision about the same accounts, milliseconds. */
const SEND_WITHIN_MS = 20;
/** Pause before this class sends settlements again that the store, being away, has certainly not received. */
const RETRY_AFTER_MS = 200;

/** The difference between the use of some requests and their reserves. */
interface Sum {
  delta: number;
  requests: number;
}

/**
 * What the requests of one reservation used less and more than their reserves, by unit. The two stay apart, because a window that
 * has ended takes nothing back, but units beyond a reserve always count.
 */
interface ReservationUse {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly nowMs: number;
  readonly less: Map<string, Sum>;
  readonly more: Map<string, Sum>;
}

interface QueuedSettlement extends Sum {
  /** One for all requests that it settles. */
  readonly settlement: Settlement;
}

/**
 * Takes the settlements of requests to the store, as one for those of an account that were counted in the same windows. It sends
 * each at most once, so that a lost one leaves the reserve counted.
 */
export class Settlements {
  readonly #options: SettlementsOptions;
  #used = new Map<Reservation, ReservationUse>();
  #waiting = new Map<string, QueuedSettlement>();
  #timer: NodeJS.Timeout | null = null;
  /** The delay with which the timer was set, milliseconds. */
  #dueInMs = 0;
  /** The owners of the accounts with waiting settlements. */
  #owners = new Set<string>();
  #sending: Promise<void> = Promise.resolve();

  constructor(options: SettlementsOptions) {
    this.#options = options;
  }

  /** True if settlements wait that concern accounts which requests of this consumer may charge. */
  concern(consumerId: string): boolean {
    return this.#owners.size > 0 && this.#owners.has(ownerIdOf(consumerId));
  }

  /** @param nowMs the time of the request's decision by the store's clock */
  add({ consumerId, allowance, reservation, nowMs }: SettledRequest, used: UsedUnits): void {
    const { amounts, isCertain } = reservation;
    for (const { unit, settled } of used) {
      const delta = settled - (amounts[unit] ?? settled);
      if (delta === 0 || (delta < 0 && !isCertain)) continue;
      let sums = this.#used.get(reservation);
      if (sums === undefined) {
        if (this.#used.size === this.#options.most) void this.flush();
        sums = { consumerId, allowance, nowMs, less: new Map(), more: new Map() };
        this.#used.set(reservation, sums);
        this.#owners.add(ownerIdOf(consumerId));
      }
      const byUnit = delta < 0 ? sums.less : sums.more;
      const sum = byUnit.get(unit);
      if (sum === undefined) byUnit.set(unit, { delta, requests: 1 });
      else addTo(sum, { delta, requests: 1 });
    }
    this.#sendIn(SEND_WITHIN_MS);
  }

  /** Makes a settlement for each account and history that has counted the reserves. */
  #place(): void {
    for (const [{ windows, isCertain }, { consumerId, allowance, nowMs, less, more }] of this.#used) {
      const { budgets, history } = allowance;
      const ids = accountIdsOf(consumerId, allowance);
      const when = { hour: hourOf(nowMs), isRecorded: history !== undefined && isCertain };
      for (const [unit, sum] of [...less, ...more]) {
        let histories = history === undefined ? [] : historiesOf(consumerId).map((id) => inUnit(id, unit));
        for (const [i, budget] of budgets.entries()) {
          if (budget.unit !== unit) continue;
          const { delta } = sum;
          const settlement = { accountId: ids[i]!, delta, windows: windows[i]!, histories, ...when };
          this.#wait({ settlement, ...sum });
          // A history counts the requests once, whatever number of budgets they charge.
          histories = [];
        }
      }
    }
    this.#used = new Map();
  }

  #wait(waiting: QueuedSettlement): void {
    const key = keyOf(waiting);
    const known = this.#waiting.get(key);
    if (known !== undefined) addTo(known, waiting);
    else if (this.#waiting.size < this.#options.most) this.#waiting.set(key, waiting);
    else this.#options.onSettled?.('lost', waiting.requests);
  }

  #sendIn(ms: number): void {
    if (this.#used.size === 0 && this.#waiting.size === 0) return;
    if (this.#timer !== null) {
      if (this.#dueInMs <= ms) return;
      clearTimeout(this.#timer);
    }
    this.#dueInMs = ms;
    this.#timer = setTimeout(() => void this.flush(), ms).unref();
  }

  /** Sends the waiting settlements before this call returns. Fulfilled when the store has answered; never rejects. */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#place();
    if (this.#waiting.size > 0) this.#sending = this.#send([...this.#waiting.values()]);
    return this.#sending;
  }

  /** Waits for an earlier call, then sends the waiting settlements once, with those that came back unsent from it. */
  async drain(): Promise<void> {
    await this.#sending;
    await this.flush();
  }

  async #send(sent: readonly QueuedSettlement[]): Promise<void> {
    this.#waiting = new Map();
    this.#owners = new Set();
    const { sink, onSettled } = this.#options;
    const outcomes = await sink.settle(sent.map(({ settlement, delta }) => ({ ...settlement, delta })));
    for (const [i, waiting] of sent.entries()) {
      const outcome = outcomes[i]!;
      if (outcome === 'unsent') {
        this.#owners.add(ownerIdOf(waiting.settlement.accountId));
        this.#wait(waiting);
      } else onSettled?.(outcome, waiting.requests);
    }
    this.#sendIn(RETRY_AFTER_MS);
  }
}

function addTo(sum: Sum, { delta, requests }: Sum): void {
  sum.delta += delta;
  sum.requests += requests;
}

/** The same text for settlements that the store can apply as one. */
function keyOf({ settlement: { accountId, windows, histories, hour, isRecorded }, delta }: QueuedSettlement): string {
  const places = windows.map(({ of, placeMs }) => `${of.window} ${of.slices ?? ''} ${placeMs}`).join();
  return `${accountId} ${hour} ${isRecorded} ${delta < 0} ${histories.join()} ${places}`;
}
