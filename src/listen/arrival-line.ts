import type { Arrival } from '../io/entrance.ts';
import type { ConnectionLimits } from './connections.ts';

/** As many connections of a client may wait as may be open, and at least this many. */
const MIN_OF_CLIENT = 512;

/**
 * Accepted connections of which no socket is made yet. The clients take turns, each with the connection that has waited longest.
 *
 * Attack: one address opens thousands of connections, and those of all others wait behind them.
 */
export class ArrivalLine {
  /** The next client is the first. */
  readonly #clients = new Map<unknown, Arrival[]>();
  readonly #returned: Arrival[] = [];
  readonly #maxOfClient: number;
  #size = 0;

  constructor({ maxConnectionsPerAddress }: Pick<ConnectionLimits, 'maxConnectionsPerAddress'>) {
    this.#maxOfClient = Math.max(maxConnectionsPerAddress, MIN_OF_CLIENT);
  }

  get size(): number {
    return this.#size;
  }

  /** How many clients have connections that wait. */
  get clients(): number {
    return this.#clients.size;
  }

  /**
   * @param network of the client; null for a trusted proxy, which connects for many clients, so that each connection has its turn
   * @returns false if too many of the client wait, so that it has to be dropped
   */
  add(arrival: Arrival, network: string | null): boolean {
    const client = network ?? arrival;
    const own = this.#clients.get(client);
    if (own === undefined) this.#clients.set(client, [arrival]);
    else if (own.length >= this.#maxOfClient) return false;
    else own.push(arrival);
    this.#size++;
    return true;
  }

  /** Gives back a connection. It is the next. */
  putBack(arrival: Arrival): void {
    this.#returned.push(arrival);
    this.#size++;
  }

  /** Takes the next connection out of the line. */
  next(): Arrival | null {
    const returned = this.#returned.shift();
    const arrival = returned ?? this.#nextOfClients();
    if (arrival !== null) this.#size--;
    return arrival;
  }

  /** Takes the newest connection of the client that has most out of the line. */
  shed(): Arrival | null {
    let [client, most]: [unknown, Arrival[]] = [null, []];
    for (const [one, own] of this.#clients) if (own.length > most.length) [client, most] = [one, own];
    const arrival = most.pop();
    if (arrival === undefined) return null;
    if (most.length === 0) this.#clients.delete(client);
    this.#size--;
    return arrival;
  }

  #nextOfClients(): Arrival | null {
    for (const [client, own] of this.#clients) {
      this.#clients.delete(client);
      if (own.length > 1) this.#clients.set(client, own);
      return own.shift()!;
    }
    return null;
  }
}
