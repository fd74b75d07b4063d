import { accountIdsOf, historiesOf, inUnit, ownerIdOf } from './account-id.ts';
import { hourOf } from './history.ts';
import type { Settlement, SettlementOutcome, SettlementSink } from './ledger.ts';
import type { Allowance } from './plan.ts';
import type { Reservation } from './verdict.ts';

interface SettlementsOptions {
  readonly sink: SettlementSink;
  /** Maximum settlements that wait. More are sent at once; those that then come back unsent beyond it are lost. */
  readonly most: number;
  readonly onSettled?: ((outcome: Exclude<SettlementOutcome, 'unsent'>, settlements: number) => void) | undefined;
}

/** What a request has used in the end, by unit. What is left out has used what it took in advance. */
export type UsedUnits = readonly { readonly unit: string; readonly settled: number }[];

/** A request that has ended. */
interface SettledRequest {
  readonly consumerId: string;
  readonly allowance: Allowance;
  readonly reservation: Reservation;
  /** When it was decided, by the store's clock. */
  readonly nowMs: number;
}

/** How long a settlement waits for a decision that it concerns. */
const SEND_WITHIN_MS = 20;
/** The same after the store was away, and did nothing. */
const RETRY_AFTER_MS = 200;

/** What some requests have used beside what they took in advance: more, or less. */
interface Sum {
  delta: number;
  requests: number;
}

/** What requests of one reservation have used beside it, by unit. What is given back and what is added differ, if the place is gone. */
interface Used {
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
 * What requests have used in the end, on its way to the store: those of one account that were counted in the same place are sent as
 * one. Each is sent at most once, so that a lost one leaves what was taken in advance.
 */
export class Settlements {
  readonly #options: SettlementsOptions;
  #used = new Map<Reservation, Used>();
  #waiting = new Map<string, QueuedSettlement>();
  #timer: NodeJS.Timeout | null = null;
  /** After how many milliseconds the timer was to run. */
  #dueInMs = 0;
  /** The owners of the accounts for which some wait. */
  #owners = new Set<string>();
  #sending: Promise<void> = Promise.resolve();

  constructor(options: SettlementsOptions) {
    this.#options = options;
  }

  /** Whether some that wait are of accounts that requests of this consumer may charge. */
  concern(consumerId: string): boolean {
    return this.#owners.size > 0 && this.#owners.has(ownerIdOf(consumerId));
  }

  /** @param nowMs when the request was decided, by the store's clock */
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

  /** Finds the accounts and histories in which all that was used has to be settled. */
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
          // The requests are in each history once, however many budgets they charge.
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

  /** Sends what waits, before this call returns. Fulfilled when the store has answered; never rejects. */
  flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#place();
    if (this.#waiting.size > 0) this.#sending = this.#send([...this.#waiting.values()]);
    return this.#sending;
  }

  /** Sends what waits, and what comes back unsent from before, once. */
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

/** The same for what can be settled as one. */
function keyOf({ settlement: { accountId, windows, histories, hour, isRecorded }, delta }: QueuedSettlement): string {
  const places = windows.map(({ of, placeMs }) => `${of.window} ${of.slices ?? ''} ${placeMs}`).join();
  return `${accountId} ${hour} ${isRecorded} ${delta < 0} ${histories.join()} ${places}`;
}
