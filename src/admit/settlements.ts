import { accountIdsOf, historiesOf, inUnit } from './account-id.ts';
import type { Amounts } from './decide.ts';
import { hourOf } from './history.ts';
import type { SettlementOutcome, SettlementSink, UnitSettlement } from './ledger.ts';
import type { Allowance } from './plan.ts';
import type { Reservation } from './verdict.ts';

interface SettlementsOptions {
  readonly sink: SettlementSink;
  /** Maximum settlements that wait. Further ones are lost. */
  readonly most: number;
  readonly onSettled?: ((outcome: Exclude<SettlementOutcome, 'unsent'>, settlements: number) => void) | undefined;
}

/** How long a settlement waits for a decision that it can travel with. */
const SEND_WITHIN_MS = 20;
/** The same after the store was away, and did nothing. */
const RETRY_AFTER_MS = 200;

interface Waiting {
  /** One for all requests that it settles. */
  readonly settlement: UnitSettlement;
  delta: number;
  requests: number;
}

/**
 * What requests have used in the end, on its way to the store: those of one account that were counted in the same place are sent as
 * one. Each is sent at most once, so that a lost one leaves what was taken in advance.
 */
export class Settlements {
  readonly #options: SettlementsOptions;
  #waiting = new Map<string, Waiting>();
  #timer: NodeJS.Timeout | null = null;

  constructor(options: SettlementsOptions) {
    this.#options = options;
  }

  /** @param nowMs when the request was decided, by the store's clock @param used by unit */
  add(consumerId: string, allowance: Allowance, reservation: Reservation, nowMs: number, used: Amounts): void {
    const { further = [], history } = allowance;
    const ids = accountIdsOf(consumerId, allowance);
    const hour = hourOf(nowMs);
    for (const [unit, taken] of Object.entries(reservation.amounts)) {
      const delta = (used[unit] ?? taken) - taken;
      if (delta === 0 || (delta < 0 && !reservation.isCertain)) continue;
      let histories = history === undefined ? [] : historiesOf(consumerId).map((id) => inUnit(id, unit));
      for (const [i, budget] of further.entries()) {
        if (budget.unit !== unit) continue;
        this.#add({ accountId: ids[i + 1]!, delta, windows: reservation.windows[i]!, histories, hour });
        // The requests are in each history once, however many budgets they charge.
        histories = [];
      }
    }
  }

  #add(settlement: UnitSettlement): void {
    const { accountId, delta, windows, histories, hour } = settlement;
    // What is given back and what is added differ, if the place is gone.
    const places = windows.map(({ of, placeMs }) => `${of.window} ${of.slices ?? ''} ${placeMs}`).join();
    const key = `${accountId} ${hour} ${delta < 0} ${histories.join()} ${places}`;
    this.#wait(key, { settlement, delta, requests: 1 });
    this.#sendIn(SEND_WITHIN_MS);
  }

  #wait(key: string, waiting: Waiting): void {
    const known = this.#waiting.get(key);
    if (known !== undefined) {
      known.delta += waiting.delta;
      known.requests += waiting.requests;
    } else if (this.#waiting.size < this.#options.most) this.#waiting.set(key, waiting);
    else this.#options.onSettled?.('lost', waiting.requests);
  }

  #sendIn(ms: number): void {
    if (this.#timer === null && this.#waiting.size > 0) this.#timer = setTimeout(() => void this.flush(), ms).unref();
  }

  /** Sends what waits, before this call returns. Fulfilled when the store has answered; never rejects. */
  async flush(): Promise<void> {
    if (this.#waiting.size === 0) return;
    const sent = [...this.#waiting];
    this.#waiting = new Map();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const { sink, onSettled } = this.#options;
    const outcomes = await sink.settle(sent.map(([, { settlement, delta }]) => ({ ...settlement, delta })));
    for (const [i, [key, waiting]] of sent.entries()) {
      const outcome = outcomes[i]!;
      if (outcome === 'unsent') this.#wait(key, waiting);
      else onSettled?.(outcome, waiting.requests);
    }
    this.#sendIn(RETRY_AFTER_MS);
  }
}
