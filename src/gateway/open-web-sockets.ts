import type { TunnelEnd } from '../forward/websocket/tunnel.ts';
import { halfOfRest } from '../io/fair-shares.ts';
import type { Caller } from './exchange.ts';

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

/** The limit that leaves a caller no slot; `customer`: what its customer may have with all its callers. */
export type FullBecause = keyof WebSocketLimits | 'customer';

/** The record that decides how long a connection may stay open. */
export interface WatchedRecord {
  /** The id of a key, or for a caller with tokens that of its customer. */
  readonly id: string;
  /** The name of the secret of the key that opened the connection (`secretName`); null if none did. */
  readonly secret: string | null;
}

/** How a connection ends, or when: Unix milliseconds, Infinity for never. */
export type EndOfAccess = TunnelEnd | number;

interface OpenConnection {
  readonly tunnel: Cuttable;
  /** Null if no record can end it. */
  readonly record: WatchedRecord | null;
  /** Unix milliseconds. */
  endsAtMs: number;
}

/**
 * The connections that carry a protocol other than HTTP. Limits their number, per key, per customer and in total, and cuts those of a
 * record on request: serve/dependencies.ts asks for it when a key or a customer is revoked, suspended or has expired, or a
 * secret has ended.
 */
export class OpenWebSockets {
  readonly #limits: () => WebSocketLimits;
  /** Slots taken, by the id of the key, the token's subject or the address, and by that of the customer. */
  readonly #taken = new Map<string, number>();
  readonly #open = new Set<OpenConnection>();
  readonly #ofRecords = new Map<string, Set<OpenConnection>>();
  readonly #onOpen: (recordId: string) => void;
  #total = 0;

  /** @param onOpen called with each connection that a record can end: it may have ended while the connection was opened */
  constructor(limits: () => WebSocketLimits, onOpen: (recordId: string) => void = () => {}) {
    this.#limits = limits;
    this.#onOpen = onOpen;
  }

  /** The number of open connections. */
  get open(): number {
    return this.#open.size;
  }

  /** The ids of the records with an open connection. */
  get recordIds(): ReadonlySet<string> {
    return new Set(this.#ofRecords.keys());
  }

  /**
   * Attack: a customer makes keys, each with its own `maxPerKey`, until they have all `max` connections. So the callers of one customer
   * together have at most half of what the others leave, or what one of them may have if that is more.
   * @returns the limit that leaves this caller no slot; null if the caller may have a slot
   */
  fullFor({ consumer, shareId }: Pick<Caller, 'consumer' | 'shareId'>): FullBecause | null {
    const { maxPerKey, max } = this.#limits();
    if (this.#takenBy(consumer?.id ?? shareId) >= maxPerKey) return 'maxPerKey';
    if (this.#total >= max) return 'max';
    const ofCustomer = this.#takenBy(shareId);
    return ofCustomer >= Math.max(maxPerKey, halfOfRest(max, this.#total - ofCustomer)) ? 'customer' : null;
  }

  /**
   * Takes a slot for this caller.
   * @param record null if no record can end the connection
   * @returns the slot, or the limit that has been reached
   */
  enter(caller: Pick<Caller, 'consumer' | 'shareId'>, record: WatchedRecord | null): WebSocketSlot | FullBecause {
    const full = this.fullFor(caller);
    if (full !== null) return full;
    const owners = new Set([caller.consumer?.id ?? caller.shareId, caller.shareId]);
    for (const id of owners) this.#taken.set(id, this.#takenBy(id) + 1);
    this.#total++;
    let held: OpenConnection | null = null;
    let left = false;
    return {
      hold: (tunnel) => {
        held = { tunnel, record, endsAtMs: Number.POSITIVE_INFINITY };
        this.#hold(held);
      },
      leave: () => {
        if (left) return;
        left = true;
        this.#total--;
        for (const id of owners) {
          const rest = this.#takenBy(id) - 1;
          if (rest === 0) this.#taken.delete(id);
          else this.#taken.set(id, rest);
        }
        if (held !== null) this.#release(held);
      },
    };
  }

  #takenBy(id: string): number {
    return this.#taken.get(id) ?? 0;
  }

  #hold(connection: OpenConnection): void {
    this.#open.add(connection);
    if (connection.record === null) return;
    const { id } = connection.record;
    const ofRecord = this.#ofRecords.get(id);
    if (ofRecord === undefined) this.#ofRecords.set(id, new Set([connection]));
    else ofRecord.add(connection);
    this.#onOpen(id);
  }

  #release(connection: OpenConnection): void {
    this.#open.delete(connection);
    if (connection.record === null) return;
    const ofRecord = this.#ofRecords.get(connection.record.id);
    if (ofRecord?.delete(connection) && ofRecord.size === 0) this.#ofRecords.delete(connection.record.id);
  }

  /**
   * Ends the connections of one record, or notes when they will end.
   * @param endOf the end of access with a secret, or without one
   */
  endWith(recordId: string, endOf: (secret: string | null) => EndOfAccess): void {
    for (const connection of [...(this.#ofRecords.get(recordId) ?? [])]) {
      const end = endOf(connection.record!.secret);
      if (typeof end === 'number') connection.endsAtMs = end;
      else connection.tunnel.cut(end);
    }
  }

  /** Ends the connections whose end has come. @param nowMs Unix milliseconds */
  cutExpired(nowMs: number): void {
    for (const { tunnel, endsAtMs } of [...this.#open]) if (endsAtMs <= nowMs) tunnel.cut('expired');
  }

  /** Ends all connections. */
  cut(end: TunnelEnd): void {
    for (const { tunnel } of [...this.#open]) tunnel.cut(end);
  }
}
