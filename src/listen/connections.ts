import type { Socket } from 'node:net';
import { networkOf } from '../identify/failed-attempts.ts';

/** A connection as its reader sees it. */
export interface ReadConnection {
  /** Since when it has waited for a request, on a clock that only goes forward; null while it serves one. */
  readonly idleSinceMs: number | null;
}

export interface ConnectionLimits {
  /** Connections at a time. */
  readonly maxConnections: number;
  /** Of one client address at a time; an IPv6 client counts by its /64. */
  readonly maxConnectionsPerAddress: number;
}

interface Open {
  readonly socket: Socket;
  readonly sinceMs: number;
  /** Null while it is not counted for an address. */
  network: string | null;
  /** Null until its requests are read. */
  reading: ReadConnection | null;
}

/** Connections found idle, the one that has been idle longest at the end. */
type Candidates = { readonly open: Open; readonly idleSinceMs: number }[];

/** One look over all connections serves so many new ones. */
const MAX_CANDIDATES = 256;
/** A look that found no idle connection is not repeated for so long. */
const LOOK_AGAIN_MS = 10;
/** Stands for all client addresses. */
const EVERYWHERE = '';

/**
 * The open connections of a listener, all together and of each client address.
 *
 * Attack: one address opens as many connections as there may be, sends 27 bytes on each of them, and keeps everybody else
 * out until they time out. So an address has a limit of its own, and where a limit is reached, the connection that has
 * been idle longest makes room for the new one.
 */
export class Connections {
  readonly #open = new Map<Socket, Open>();
  readonly #perNetwork = new Map<string, number>();
  readonly #limits: ConnectionLimits;
  readonly #nowMs: () => number;
  readonly #candidates = new Map<string, Candidates>();
  readonly #nothingFoundAtMs = new Map<string, number>();
  #onEmpty: (() => void) | null = null;

  /** @param nowMs milliseconds that never jump */
  constructor(limits: ConnectionLimits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  get count(): number {
    return this.#open.size;
  }

  get isFull(): boolean {
    return this.#open.size >= this.#limits.maxConnections;
  }

  add(socket: Socket): void {
    this.#open.set(socket, { socket, sinceMs: this.#nowMs(), network: null, reading: null });
    socket.once('close', () => this.#remove(socket));
  }

  /** Whether a client address has as many connections as it may. */
  isAtLimit(address: string): boolean {
    return (this.#perNetwork.get(networkOf(address)) ?? 0) >= this.#limits.maxConnectionsPerAddress;
  }

  /** Counts a connection for its client's address. */
  enter(socket: Socket, address: string): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    open.network = networkOf(address);
    this.#perNetwork.set(open.network, (this.#perNetwork.get(open.network) ?? 0) + 1);
  }

  /** The requests of a connection are read from now on. */
  reads(socket: Socket, reading: ReadConnection): void {
    const open = this.#open.get(socket);
    if (open !== undefined) open.reading = reading;
  }

  /**
   * Closes the connection that has been idle longest, and counts it no more.
   * @param address of the client; null for a connection of any
   * @returns whether there was one
   */
  closeLongestIdle(address: string | null): boolean {
    const network = address === null ? EVERYWHERE : networkOf(address);
    // What an earlier look found may be busy or closed by now.
    return this.#closeFirstOf(this.#candidates.get(network) ?? []) || this.#closeFirstOf(this.#look(network));
  }

  /** Closes the connections that wait for a request. @returns how many there were */
  closeIdle(): number {
    const before = this.#open.size;
    for (const open of [...this.#open.values()]) if (idleSince(open) !== null) this.#close(open);
    return before - this.#open.size;
  }

  /** Closes all connections. */
  close(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  /** Resolves when no connection is open, which may be at once. */
  emptied(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
      if (this.#open.size === 0) resolve();
    });
  }

  /** Closes the connection that has been idle longest of those that still are. @returns whether there was one */
  #closeFirstOf(candidates: Candidates): boolean {
    for (let next = candidates.pop(); next !== undefined; next = candidates.pop()) {
      const { open, idleSinceMs } = next;
      if (this.#open.get(open.socket) !== open || idleSince(open) !== idleSinceMs) continue;
      this.#close(open);
      return true;
    }
    return false;
  }

  /** Finds those that are idle now, unless it found none a moment ago. */
  #look(network: string): Candidates {
    const nowMs = this.#nowMs();
    if (nowMs - (this.#nothingFoundAtMs.get(network) ?? Number.NEGATIVE_INFINITY) < LOOK_AGAIN_MS) return [];
    const found: Candidates = [];
    for (const open of this.#open.values()) {
      const idleSinceMs = network === EVERYWHERE || open.network === network ? idleSince(open) : null;
      if (idleSinceMs !== null) found.push({ open, idleSinceMs });
    }
    if (found.length === 0) this.#nothingFoundAtMs.set(network, nowMs);
    else this.#nothingFoundAtMs.delete(network);
    const oldest = found
      .toSorted((a, b) => a.idleSinceMs - b.idleSinceMs)
      .slice(0, MAX_CANDIDATES)
      .reverse();
    this.#candidates.set(network, oldest);
    return oldest;
  }

  #close(open: Open): void {
    this.#remove(open.socket);
    open.socket.destroy();
  }

  #remove(socket: Socket): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    this.#open.delete(socket);
    const { network } = open;
    if (network !== null) {
      const count = this.#perNetwork.get(network)! - 1;
      if (count > 0) this.#perNetwork.set(network, count);
      else {
        this.#perNetwork.delete(network);
        this.#candidates.delete(network);
        this.#nothingFoundAtMs.delete(network);
      }
    }
    if (this.#open.size === 0) this.#onEmpty?.();
  }
}

/** Before its requests are read, a connection is idle from its beginning. */
function idleSince({ reading, sinceMs }: Open): number | null {
  return reading === null ? sinceMs : reading.idleSinceMs;
}
