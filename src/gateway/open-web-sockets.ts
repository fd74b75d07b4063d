import type { TunnelEnd } from '../forward/websocket/tunnel.ts';

/** A connection that the gateway can end early. */
export interface Cuttable {
  cut(end: TunnelEnd): void;
}

/** A slot for one WebSocket, taken when the client asks for the upgrade. */
interface WebSocketSlot {
  /** Notes that the WebSocket is open. */
  hold(tunnel: Cuttable): void;
  /** Gives the slot back, because the WebSocket has ended or was never opened. */
  leave(): void;
}

export interface WebSocketLimits {
  readonly maxPerKey: number;
  readonly max: number;
}

/**
 * The connections that carry a protocol other than HTTP. Limits their number, per key and in total, and cuts those of a
 * key on request: serve/dependencies.ts requests it when a key is revoked, suspended or has expired.
 */
export class OpenWebSockets {
  readonly #limits: () => WebSocketLimits;
  /** Slots taken, by the id of the consumer. */
  readonly #taken = new Map<string, number>();
  readonly #open = new Map<Cuttable, string>();
  /** How many connections each API key has open. */
  readonly #ofKeys = new Map<string, number>();
  readonly #onFirst: (keyId: string) => void;
  #total = 0;

  /** @param onFirst called when a key opens its first connection */
  constructor(limits: () => WebSocketLimits, onFirst: (keyId: string) => void = () => {}) {
    this.#limits = limits;
    this.#onFirst = onFirst;
  }

  /** How many connections are open. */
  get open(): number {
    return this.#open.size;
  }

  /** The ids of the API keys with an open connection. */
  get keyIds(): ReadonlySet<string> {
    return new Set(this.#ofKeys.keys());
  }

  /** Takes a slot for this consumer. @returns the slot, or the limit that has been reached */
  enter(consumerId: string, isKey: boolean): WebSocketSlot | keyof WebSocketLimits {
    const own = this.#taken.get(consumerId) ?? 0;
    if (own >= this.#limits().maxPerKey) return 'maxPerKey';
    if (this.#total >= this.#limits().max) return 'max';
    this.#taken.set(consumerId, own + 1);
    this.#total++;
    let held: Cuttable | null = null;
    let left = false;
    return {
      hold: (tunnel) => {
        held = tunnel;
        this.#open.set(tunnel, consumerId);
        if (isKey) this.#countOfKey(consumerId, 1);
      },
      leave: () => {
        if (left) return;
        left = true;
        this.#total--;
        const rest = this.#taken.get(consumerId)! - 1;
        if (rest === 0) this.#taken.delete(consumerId);
        else this.#taken.set(consumerId, rest);
        if (held === null) return;
        this.#open.delete(held);
        if (isKey) this.#countOfKey(consumerId, -1);
      },
    };
  }

  #countOfKey(keyId: string, more: 1 | -1): void {
    const before = this.#ofKeys.get(keyId) ?? 0;
    if (before + more === 0) this.#ofKeys.delete(keyId);
    else this.#ofKeys.set(keyId, before + more);
    if (before === 0) this.#onFirst(keyId);
  }

  /** Ends the connections of one consumer, or all if none is given. */
  cut(end: TunnelEnd, consumerId: string | null = null): void {
    for (const [tunnel, owner] of [...this.#open]) if (consumerId === null || owner === consumerId) tunnel.cut(end);
  }
}
