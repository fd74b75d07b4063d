import { networkOf } from '../../identify/failed-attempts.ts';
import type { ConnectionLimits } from '../connections.ts';

/** The place of one stream, from its first frame to its close. */
export interface StreamSlot {
  /** Notes whether the gateway is serving the stream's request. A served stream is never ended to make room. */
  setServed(isServed: boolean): void;
  release(): void;
}

interface Taken {
  readonly network: string | null;
  readonly cancel: () => void;
}

/** How many streams are searched for one of a client address that can make room. */
const MOST_LOOKED_AT = 256;

/**
 * The HTTP/2 streams of all sessions. Each is a request in flight and costs as much as a connection, so the limits on
 * connections, in total and per client address, apply to streams too.
 *
 * Attack: a client opens streams and never completes their requests, or never reads their responses, until no slot is
 * left for other clients. So when none is left, the oldest of such streams is ended to make room, as an idle connection
 * is.
 */
export class StreamSlots {
  readonly #limits: ConnectionLimits;
  readonly #isShortOfMemory: () => boolean;
  readonly #perNetwork = new Map<string, number>();
  /** Streams that the gateway is not serving, the oldest first. */
  readonly #unserved = new Set<Taken>();
  #count = 0;

  constructor(limits: ConnectionLimits, isShortOfMemory: () => boolean) {
    this.#limits = limits;
    this.#isShortOfMemory = isShortOfMemory;
  }

  /**
   * Takes a slot for a stream.
   * @param address of the client; null for a trusted proxy, to which only the total limit applies
   * @param cancel ends the stream, to make room
   * @returns null if no slot is free
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
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        this.#unserved.delete(taken);
        this.#release(network);
      },
    };
  }

  /** Ends the oldest stream that is not served, of this client network if one is given. */
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

  #release(network: string | null): void {
    this.#count--;
    if (network === null) return;
    const own = this.#perNetwork.get(network)! - 1;
    if (own > 0) this.#perNetwork.set(network, own);
    else this.#perNetwork.delete(network);
  }
}
