import type { JudgedBudget } from './budgets.ts';
import { type RedisModel, TICKET_MS, type Ticket } from './redis-model.ts';

/** One request that is in flight. */
interface Flight {
  readonly gateway: string;
  /** How many its plan allows in this account. */
  readonly most: number;
}

/** What the judge knows about one gateway and one account. */
interface Held {
  count: number;
  /** When the number last became smaller, by the monotonic clock, milliseconds. */
  endedAtMs: number;
  /** When the store last did something for it. */
  heardAtMs: number;
  /** Until then the store may not know the number. */
  uncertainUntilMs: number;
}

/**
 * After the store has not answered, or a gateway has admitted a request without it, the next report comes within this time.
 * Then the store knows the number again.
 */
const UNCERTAIN_MS = 3_500;
/** How soon the store knows that a request has ended, if it answers. */
const RETURNED_WITHIN_MS = 1_000;
const SLACK_MS = 50;

/** Holds the requests in flight against contract section 3, with a count of its own. */
export class InFlightJudge {
  /** By account. */
  readonly #flights = new Map<string, Set<Flight>>();
  /** By account, then by gateway. */
  readonly #held = new Map<string, Map<string, Held>>();
  /** The gateways behind the names under which they report. */
  readonly #gateways = new Map<string, string>();
  readonly #killed = new Set<string>();
  #disturbedAtMs = Number.NEGATIVE_INFINITY;

  /** A gateway has admitted a request. @returns what is wrong, or null; and what is to be called when the request ends */
  began(gateway: string, budgets: readonly JudgedBudget[], isByStore: boolean): { wrong: string | null; end(): void } {
    const nowMs = performance.now();
    const begun: { flight: Flight; accountId: string }[] = [];
    let wrong: string | null = null;
    for (const { accountId, inFlight } of budgets) {
      if (inFlight === null) continue;
      const flight = { gateway, most: inFlight };
      begun.push({ flight, accountId });
      this.#flightsOf(accountId).add(flight);
      const held = this.#heldOf(accountId, gateway);
      held.count++;
      if (!isByStore) held.uncertainUntilMs = nowMs + UNCERTAIN_MS;
      wrong ??= isByStore ? this.#overall(accountId, nowMs) : alone(accountId, gateway, held.count, inFlight);
    }
    return { wrong, end: () => this.#end(begun) };
  }

  /** What a gateway reports to have in flight must be what it has. @returns what is wrong, or null */
  reported(gateway: string, accountId: string, count: number): string | null {
    const held = this.#heldOf(accountId, gateway);
    if (held.count === count || this.#killed.has(gateway)) return null;
    return `Gateway ${gateway} reports ${count} in flight of ${accountId} and has ${held.count}.`;
  }

  /** The store has not answered a call about an account, or not in time. */
  unanswered(gateway: string, accountId: string): void {
    this.#heldOf(accountId, gateway).uncertainUntilMs = performance.now() + UNCERTAIN_MS;
  }

  /** The store has noted what a gateway has in flight. */
  noted(gateway: string, holder: string, accountId: string): void {
    this.#gateways.set(holder, gateway);
    this.#heldOf(accountId, gateway).heardAtMs = performance.now();
  }

  /** The store has lost writes, or its clock was set. */
  disturbed(): void {
    this.#disturbedAtMs = performance.now();
  }

  /** All that a killed gateway had in flight has ended with it. */
  killed(gateway: string): void {
    this.#killed.add(gateway);
    for (const flights of this.#flights.values()) {
      for (const flight of flights) if (flight.gateway === gateway) flights.delete(flight);
    }
    for (const byGateway of this.#held.values()) {
      const held = byGateway.get(gateway);
      if (held !== undefined && held.count > 0) Object.assign(held, { count: 0, endedAtMs: performance.now() });
    }
  }

  /** What is in flight must be known to the store, and what has ended must be free again. @returns what is wrong, or null */
  check(model: RedisModel): string | null {
    if (this.#gateways.size === 0) return null;
    const nowMs = performance.now();
    for (const [accountId, tickets] of model.tickets()) {
      const wrong = this.#missing(accountId, tickets, nowMs) ?? this.#leftOver(accountId, tickets, nowMs);
      if (wrong !== null) return wrong;
    }
    return null;
  }

  /** A gateway whose number the store should know has more in flight than the store counts. */
  #missing(accountId: string, tickets: readonly Ticket[], nowMs: number): string | null {
    if (nowMs < this.#disturbedAtMs + UNCERTAIN_MS) return null;
    for (const [gateway, held] of this.#held.get(accountId) ?? []) {
      if (held.count === 0 || nowMs < held.uncertainUntilMs) continue;
      const ticket = tickets.find(({ holder }) => this.#gateways.get(holder) === gateway);
      if ((ticket?.count ?? 0) < held.count)
        return `The store counts ${ticket?.count ?? 0} in flight of ${accountId} for gateway ${gateway}, which has ${held.count}.`;
    }
    return null;
  }

  /** The store still counts what has ended. */
  #leftOver(accountId: string, tickets: readonly Ticket[], nowMs: number): string | null {
    for (const { holder, count } of tickets) {
      const gateway = this.#gateways.get(holder)!;
      const held = this.#heldOf(accountId, gateway);
      // After the clock was set back, a ticket ends later, until a decision reads it.
      if (count <= held.count || held.heardAtMs <= this.#disturbedAtMs) continue;
      const sinceMs = Math.max(held.endedAtMs, held.heardAtMs);
      const isCertain = nowMs > held.uncertainUntilMs && !this.#killed.has(gateway);
      const withinMs = isCertain ? RETURNED_WITHIN_MS : TICKET_MS + SLACK_MS;
      if (nowMs - sinceMs <= withinMs) continue;
      return `The store counts ${count} in flight of ${accountId} for gateway ${gateway}, which has had ${held.count} for ${Math.floor(nowMs - sinceMs)} ms.`;
    }
    return null;
  }

  #end(begun: readonly { readonly flight: Flight; readonly accountId: string }[]): void {
    for (const { flight, accountId } of begun) {
      if (!this.#flightsOf(accountId).delete(flight)) continue;
      const held = this.#heldOf(accountId, flight.gateway);
      held.count--;
      held.endedAtMs = performance.now();
    }
  }

  /** The number over all gateways, unless the store may not know some of it. */
  #overall(accountId: string, nowMs: number): string | null {
    const flights = [...this.#flightsOf(accountId)];
    const most = Math.max(...flights.map((flight) => flight.most));
    if (flights.length <= most || nowMs < this.#disturbedAtMs + UNCERTAIN_MS) return null;
    for (const { gateway } of flights) if (nowMs < this.#heldOf(accountId, gateway).uncertainUntilMs) return null;
    return `There are ${flights.length} in flight of ${accountId}, of at most ${most}.`;
  }

  #flightsOf(accountId: string): Set<Flight> {
    const known = this.#flights.get(accountId);
    if (known !== undefined) return known;
    const made = new Set<Flight>();
    this.#flights.set(accountId, made);
    return made;
  }

  #heldOf(accountId: string, gateway: string): Held {
    const byGateway = this.#held.get(accountId) ?? new Map<string, Held>();
    this.#held.set(accountId, byGateway);
    const known = byGateway.get(gateway);
    if (known !== undefined) return known;
    const never = Number.NEGATIVE_INFINITY;
    const made = { count: 0, endedAtMs: never, heardAtMs: never, uncertainUntilMs: never };
    byGateway.set(gateway, made);
    return made;
  }
}

/** A gateway that decides without the store keeps the limit for itself. */
function alone(accountId: string, gateway: string, count: number, most: number): string | null {
  return count <= most
    ? null
    : `Gateway ${gateway} has ${count} in flight of ${accountId} by itself, of at most ${most}.`;
}
