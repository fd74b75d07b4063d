import { networkOf } from '../identify/failed-attempts.ts';
import type { ConnectionLimits } from './connections.ts';

/** The place of one stream, from its first frame to its close. */
export interface StreamSlot {
  /** Whether the gateway is at work on its request: then it makes room for no other. */
  setServed(isServed: boolean): void;
  giveBack(): void;
}

interface Taken {
  readonly network: string | null;
  readonly cancel: () => void;
}

/** Streams that are looked through for one of a client address that can make room. */
const MOST_LOOKED_AT = 256;

/**
 * The HTTP/2 streams of all sessions. Each is a request in flight and takes what a connection takes, so there may be as
 * many as connections, of all clients together and of each client address.
 *
 * Attack: a client opens streams and never sends what their requests lack, or never reads their answers, until there is
 * no place left for others. So where there is none, the oldest of such streams makes room, as an idle connection does.
 */
export class StreamSlots {
  readonly #limits: ConnectionLimits;
  readonly #isShortOfMemory: () => boolean;
  readonly #perNetwork = new Map<string, number>();
  /** Those that the gateway is not at work on, the oldest first. */
  readonly #unserved = new Set<Taken>();
  #count = 0;

  constructor(limits: ConnectionLimits, isShortOfMemory: () => boolean) {
    this.#limits = limits;
    this.#isShortOfMemory = isShortOfMemory;
  }

  /**
   * Takes a slot for a stream of a client address; null for a trusted proxy's, which has the common limit alone.
   * @param cancel ends the stream, to make room
   * @returns null where there is none
   */
  take(address: string | null, cancel: () => void): StreamSlot | null {
    if (this.#isShortOfMemory()) return null;
    const network = address === null ? null : networkOf(address);
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    if (network !== null && (this.#perNetwork.get(network) ?? 0) >= maxConnectionsPerAddress) {
      if (!this.#makeRoom(network)) return null;
    }
    if (this.#count >= maxConnections && !this.#makeRoom(null)) return null;
    const taken: Taken = { network, cancel };
    let isHeld = true;
    this.#count++;
    if (network !== null) this.#perNetwork.set(network, (this.#perNetwork.get(network) ?? 0) + 1);
    this.#unserved.add(taken);
    return {
      setServed: (isServed) => {
        if (isServed) this.#unserved.delete(taken);
        else if (isHeld) this.#unserved.add(taken);
      },
      giveBack: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#unserved.delete(taken);
        this.#giveBack(network);
      },
    };
  }

  /** Ends the oldest stream that is not served; of one client address where one is given. */
  #makeRoom(network: string | null): boolean {
    let looked = 0;
    for (const taken of this.#unserved) {
      if (looked++ === MOST_LOOKED_AT) return false;
      if (network !== null && taken.network !== network) continue;
      this.#unserved.delete(taken);
      taken.cancel();
      return true;
    }
    return false;
  }

  #giveBack(network: string | null): void {
    this.#count--;
    if (network === null) return;
    const own = this.#perNetwork.get(network)! - 1;
    if (own > 0) this.#perNetwork.set(network, own);
    else this.#perNetwork.delete(network);
  }
}
