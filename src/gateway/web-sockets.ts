import type { TunnelEnd } from '../forward/tunnel.ts';

/** What can be ended before its time. */
export interface Cuttable {
  cut(end: TunnelEnd): void;
}

/** Room for one WebSocket, from the moment when it is asked for. */
export interface Room {
  /** It is open. */
  hold(tunnel: Cuttable): void;
  /** It has ended, or did not come about. */
  leave(): void;
}

export interface WebSocketLimits {
  readonly maxPerKey: number;
  readonly max: number;
}

/**
 * The connections that carry another protocol than HTTP: how many there may be at a time, of one key and in all, and
 * which to end when a key is revoked, has expired, or the gateway stops.
 */
export class WebSockets {
  readonly #limits: () => WebSocketLimits;
  /** Rooms taken, by the id of the consumer. */
  readonly #taken = new Map<string, number>();
  readonly #open = new Map<Cuttable, string>();
  /** Open ones of each API key. */
  readonly #ofKeys = new Map<string, number>();
  readonly #onFirst: (keyId: string) => void;
  #total = 0;

  /** @param onFirst called when a key that had none opens one */
  constructor(limits: () => WebSocketLimits, onFirst: (keyId: string) => void = () => {}) {
    this.#limits = limits;
    this.#onFirst = onFirst;
  }

  /** Those that are open. */
  get open(): number {
    return this.#open.size;
  }

  /** The ids of the API keys that have any open. */
  get keyIds(): ReadonlySet<string> {
    return new Set(this.#ofKeys.keys());
  }

  /** Takes room for one more of this consumer; or tells which limit there is no room under. */
  enter(consumerId: string, isKey: boolean): Room | keyof WebSocketLimits {
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

  /** Ends those of one consumer, or all. */
  cut(end: TunnelEnd, consumerId: string | null = null): void {
    for (const [tunnel, owner] of [...this.#open]) if (consumerId === null || owner === consumerId) tunnel.cut(end);
  }
}
