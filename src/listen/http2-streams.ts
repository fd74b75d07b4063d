import { networkOf } from '../identify/failed-attempts.ts';
import type { ConnectionLimits } from './connections.ts';

/**
 * The HTTP/2 streams of all sessions. Each is a request in flight and takes what a connection takes, so there may be as
 * many as connections, of all clients together and of each client address.
 */
export class StreamSlots {
  readonly #limits: ConnectionLimits;
  readonly #isShortOfMemory: () => boolean;
  readonly #perNetwork = new Map<string, number>();
  #count = 0;

  constructor(limits: ConnectionLimits, isShortOfMemory: () => boolean) {
    this.#limits = limits;
    this.#isShortOfMemory = isShortOfMemory;
  }

  /**
   * Takes a slot for a stream of a client address; null for a trusted proxy's, which has the common limit alone.
   * @returns how to give it back; null where there is none
   */
  take(address: string | null): (() => void) | null {
    const network = address === null ? null : networkOf(address);
    const own = network === null ? 0 : (this.#perNetwork.get(network) ?? 0);
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    if (this.#count >= maxConnections || own >= maxConnectionsPerAddress || this.#isShortOfMemory()) return null;
    this.#count++;
    if (network !== null) this.#perNetwork.set(network, own + 1);
    return () => this.#giveBack(network);
  }

  #giveBack(network: string | null): void {
    this.#count--;
    if (network === null) return;
    const own = this.#perNetwork.get(network)! - 1;
    if (own > 0) this.#perNetwork.set(network, own);
    else this.#perNetwork.delete(network);
  }
}
