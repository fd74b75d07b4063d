import type { Draft, FleetExchange, FleetJob } from './fleet-exchange.ts';
import { ENDS_KEPT_MS, type FleetMessage, type FleetNews } from './fleet-store.ts';

/** Until when the sessions of a name have ended: a sign-out everywhere reaches all gateways. */
export class SessionEnds implements FleetJob {
  readonly #exchange: FleetExchange;
  readonly #wallMs: () => number;
  /** By name, the moment before which its sessions have ended, Unix milliseconds. */
  readonly #ends = new Map<string, number>();
  /** The session ends that the last exchange read from the store, on its clock. */
  #endsInStore: ReadonlyMap<string, number> = new Map();
  /** Session ends that the store may not have. */
  readonly #unsent = new Map<string, number>();
  /** Those of `#unsent` that the present exchange sends. */
  #sending: ReadonlyMap<string, number> = new Map();
  readonly #listeners = new Set<(name: string, beforeMs: number) => void>();

  constructor(exchange: FleetExchange, wallMs: () => number) {
    this.#exchange = exchange;
    this.#wallMs = wallMs;
  }

  /**
   * Ends the sessions of a name on all gateways that began before a moment. The others learn of it within a second, or once
   * the store is back, and within 8 hours.
   * @param beforeMs Unix milliseconds
   */
  end(name: string, beforeMs: number): void {
    if (!this.#note(name, beforeMs)) return;
    this.#unsent.set(name, beforeMs);
    void this.#exchange.heartbeatSoon();
  }

  /** Before which moment the sessions of a name have ended, Unix milliseconds; 0 if none have. */
  endedBefore(name: string): number {
    return this.#ends.get(name) ?? 0;
  }

  /** @param listener called when sessions of a name have ended, on this or another gateway */
  onEnd(listener: (name: string, beforeMs: number) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  leave({ ends }: Draft): void {
    this.#sending = new Map(this.#unsent);
    for (const [name, beforeMs] of this.#sending) ends.set(name, Math.max(Math.round(this.#wallMs() - beforeMs), 0));
  }

  /**
   * Notes the session ends that are new in the store, translated to this gateway's clock.
   * @param sent Read back, the session ends in it would end sessions that have begun since.
   */
  onNews({ nowMs, ends }: FleetNews, { ends: sent }: FleetMessage): void {
    for (const [name, beforeMs] of this.#sending) {
      if (this.#unsent.get(name) === beforeMs) this.#unsent.delete(name);
    }
    const aheadMs = nowMs - this.#wallMs();
    for (const [name, endedMs] of ends) {
      const isKnown = endedMs <= (this.#endsInStore.get(name) ?? Number.NEGATIVE_INFINITY);
      const isOwn = endedMs <= nowMs - (sent.get(name) ?? Number.POSITIVE_INFINITY);
      if (!isKnown && !isOwn) this.#note(name, endedMs - aheadMs);
    }
    this.#endsInStore = ends;
  }

  /** @returns false if sessions up to a later moment have ended already */
  #note(name: string, beforeMs: number): boolean {
    if (this.endedBefore(name) >= beforeMs) return false;
    for (const [other, endedMs] of this.#ends) {
      if (this.#wallMs() - endedMs > ENDS_KEPT_MS) this.#ends.delete(other);
    }
    this.#ends.set(name, beforeMs);
    for (const listener of this.#listeners) listener(name, beforeMs);
    return true;
  }
}
