import type { Socket } from 'node:net';
import { networkOf } from '../identify/failed-attempts.ts';
import { SharedBufferSocket } from '../io/read-buffers.ts';
import { inSlices, type Steps } from '../io/steps.ts';

/*
 * How many connections, and how many streams of HTTP/2 connections, the clients may have, in total and for each address.
 */

/** A connection as its reader sees it. */
export interface ReadConnection {
  /** When it began to wait for a request, on a monotonic clock; null while it serves one. */
  readonly idleSinceMs: number | null;
}

export interface ConnectionLimits {
  /** Maximum number of connections at a time. */
  readonly maxConnections: number;
  /** Maximum number from one client address at a time; an IPv6 client counts by its /64. */
  readonly maxConnectionsPerAddress: number;
}

interface OpenConnection {
  readonly socket: Socket;
  readonly sinceMs: number;
  /** Null until it is counted for a client address. */
  network: string | null;
  /** Null until its requests are read. */
  reading: ReadConnection | null;
}

/** Idle connections; the one that has been idle longest is the last. */
type Candidates = { readonly open: OpenConnection; readonly idleSinceMs: number }[];

/** How many idle connections one scan keeps. Each of them can make room for a new connection. */
const MAX_CANDIDATES = 256;
/** A scan that found no idle connection is not repeated for this long. */
const SCAN_AGAIN_MS = 10;
/** Used in place of a network for all client addresses. */
const EVERYWHERE = '';

/**
 * The open connections of a listener, counted in total and for each client address.
 *
 * Attack: one address opens as many connections as the listener allows, sends 27 bytes on each, and keeps all other
 * clients out until they time out. So each address has a limit of its own, and when a limit is reached, the connection
 * that has been idle longest makes room for the new one.
 */
export class Connections {
  readonly #open = new Map<Socket, OpenConnection>();
  readonly #perNetwork = new Map<string, number>();
  readonly #limits: ConnectionLimits;
  readonly #nowMs: () => number;
  readonly #candidates = new Map<string, Candidates>();
  readonly #nothingFoundAtMs = new Map<string, number>();
  #onEmpty: (() => void) | null = null;
  /** Whether idle connections are being closed. */
  #isClosing = false;

  /** @param nowMs milliseconds of a monotonic clock */
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

  /** Whether a client address has reached its limit. */
  isAtLimit(address: string): boolean {
    return (this.#perNetwork.get(networkOf(address)) ?? 0) >= this.#limits.maxConnectionsPerAddress;
  }

  /** Counts a connection towards its client's address. */
  enter(socket: Socket, address: string): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    open.network = networkOf(address);
    if (socket instanceof SharedBufferSocket) socket.owner = open.network;
    this.#perNetwork.set(open.network, (this.#perNetwork.get(open.network) ?? 0) + 1);
  }

  /** Notes that the requests of a connection are read from now on. */
  reads(socket: Socket, reading: ReadConnection): void {
    const open = this.#open.get(socket);
    if (open !== undefined) open.reading = reading;
  }

  /**
   * Closes the connection that has been idle longest, and stops counting it.
   * @param address of the client; null for any client
   * @returns whether there was one
   */
  closeLongestIdle(address: string | null): boolean {
    const network = address === null ? EVERYWHERE : networkOf(address);
    // Connections that an earlier scan found may be busy or closed by now.
    return this.#closeFirstOf(this.#candidates.get(network) ?? []) || this.#closeFirstOf(this.#scan(network));
  }

  /**
   * Closes, of the client address with most idle connections, the one that has been idle longest. It looks at every connection, so it
   * is for listeners with few.
   * @returns whether there was one
   */
  closeIdleOfBusiest(): boolean {
    const idle = [...this.#open.values()].filter((open) => idleSince(open) !== null);
    const perNetwork = Map.groupBy(idle, ({ network }) => network);
    const most = Math.max(...[...perNetwork.values()].map(({ length }) => length));
    const candidates = [...perNetwork.values()].find(({ length }) => length === most);
    const longest = candidates?.toSorted((a, b) => idleSince(a)! - idleSince(b)!)[0];
    if (longest !== undefined) this.#close(longest);
    return longest !== undefined;
  }

  /**
   * Closes the connections that wait for a request.
   *
   * Fault: they were closed in one turn of the event loop, which took 20 us for each.
   * @param closed called for each
   */
  closeIdle(closed: () => void): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    void inSlices(this.#closingIdle(closed));
  }

  *#closingIdle(closed: () => void): Steps<void> {
    for (const open of this.#open.values()) {
      if (idleSince(open) !== null) {
        this.#close(open);
        closed();
      }
      yield;
    }
    this.#isClosing = false;
  }

  /** Closes all connections. */
  close(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  /** Resolves as soon as no connection is open. */
  emptied(): Promise<void> {
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
      if (this.#open.size === 0) resolve();
    });
  }

  /**
   * Closes the candidate that has been idle longest, skipping those that are no longer idle.
   * @returns whether there was one
   */
  #closeFirstOf(candidates: Candidates): boolean {
    for (let next = candidates.pop(); next !== undefined; next = candidates.pop()) {
      const { open, idleSinceMs } = next;
      if (this.#open.get(open.socket) !== open || idleSince(open) !== idleSinceMs) continue;
      this.#close(open);
      return true;
    }
    return false;
  }

  /** Finds the connections that are idle now, unless the last scan found none a moment ago. */
  #scan(network: string): Candidates {
    const nowMs = this.#nowMs();
    if (nowMs - (this.#nothingFoundAtMs.get(network) ?? Number.NEGATIVE_INFINITY) < SCAN_AGAIN_MS) return [];
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

  #close(open: OpenConnection): void {
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

/** Until its requests are read, a connection counts as idle since it was opened. One whose bytes wait for their turn is not idle. */
function idleSince({ socket, reading, sinceMs }: OpenConnection): number | null {
  if (socket instanceof SharedBufferSocket && socket.hasWaiting) return null;
  return reading === null ? sinceMs : reading.idleSinceMs;
}

/** The streams of one session, as `StreamSlots` sees them. */
export interface SessionStreams {
  /** The network of the client address; null for a trusted proxy. */
  readonly network: string | null;
  /** Its open streams. */
  readonly streams: number;
  /** Of these, those without a complete request, or with an answer that the client has yet to read. */
  readonly unserved: number;
  /** Since when the client has had something to read, and has hardly read. */
  readonly stillSinceMs: number;
  /** Ends the oldest stream that is not served. */
  endUnserved(): void;
}

/** A session that may make room. */
interface Payer {
  readonly session: SessionStreams;
  readonly unserved: number;
  /** Of all sessions of its client. */
  readonly ofClient: number;
}

/** The sessions that make room next, the first of them last. */
interface Payers {
  readonly foundAtMs: number;
  readonly hadNone: boolean;
  readonly payers: Payer[];
}

/**
 * The HTTP/2 streams of all sessions. Each is a request in flight and costs as much as a connection, so the limits on
 * connections, in total and per client address, apply to streams too.
 *
 * Attack: a client opens streams and never completes their requests, or never reads their responses, until no slot is
 * left for other clients. So when none is left, one of such streams is ended to make room, as an idle connection is.
 *
 * Attack: a client opens thousands of such streams, so that they end an older one of a neighbour, who reads a large answer
 * slowly and has paid for it. So the client that has most of them makes room, and of its address the session that has most.
 * A client whose streams are all being served can make no room, and takes none from one that has fewer.
 */
export class StreamSlots {
  readonly #limits: ConnectionLimits;
  readonly #isShortOfMemory: () => boolean;
  readonly #nowMs: () => number;
  readonly #perNetwork = new Map<string, number>();
  readonly #payers = new Map<string, Payers>();
  /** Those that are open. */
  readonly sessions = new Set<SessionStreams>();
  #count = 0;

  /** @param nowMs milliseconds of a monotonic clock */
  constructor(limits: ConnectionLimits, isShortOfMemory: () => boolean, nowMs: () => number) {
    this.#limits = limits;
    this.#isShortOfMemory = isShortOfMemory;
    this.#nowMs = nowMs;
  }

  /**
   * Takes a slot for a stream.
   * @param session to a session without a network, that of a trusted proxy, only the total limit applies
   * @returns gives the slot back; null if no slot is free
   */
  take(session: SessionStreams): (() => void) | null {
    if (this.#isShortOfMemory()) return null;
    const { network } = session;
    const { maxConnections, maxConnectionsPerAddress } = this.#limits;
    if (network !== null && (this.#perNetwork.get(network) ?? 0) >= maxConnectionsPerAddress) {
      if (!this.#makeRoom(network, session)) return null;
    }
    if (this.#count >= maxConnections && !this.#makeRoom(EVERYWHERE, session)) return null;
    let isHeld = true;
    this.#count++;
    if (network !== null) this.#perNetwork.set(network, (this.#perNetwork.get(network) ?? 0) + 1);
    return () => {
      if (isHeld) this.#release(network);
      isHeld = false;
    };
  }

  /** Ends a stream that is not served, of this client network if one is given. @returns whether there was one */
  #makeRoom(network: string, asking: SessionStreams): boolean {
    const before = this.#payers.get(network);
    if (before !== undefined && this.#nowMs() - before.foundAtMs < SCAN_AGAIN_MS) {
      if (this.#endOneOf(before, asking)) return true;
      if (before.hadNone || before.payers.length > 0) return false;
    }
    return this.#endOneOf(this.#scan(network), asking);
  }

  /** One stream of each session, until they are found anew. A session that has fewer than when it was found keeps them. */
  #endOneOf({ payers }: Payers, asking: SessionStreams): boolean {
    for (let next = payers.at(-1); next !== undefined; next = payers.at(-1)) {
      const { session, unserved } = next;
      if (session.unserved >= unserved) {
        if (!this.#mayPay(next, asking)) return false;
        payers.pop();
        session.endUnserved();
        return true;
      }
      payers.pop();
    }
    return false;
  }

  /** Whether a session, or its client, has more streams to end than the asking one has in all. A session may always pay for itself. */
  #mayPay({ session, unserved, ofClient }: Payer, asking: SessionStreams): boolean {
    if (session === asking) return true;
    const { network } = asking;
    if (network === null || session.network === network) return unserved > asking.streams;
    return ofClient > (this.#perNetwork.get(network) ?? 0);
  }

  /**
   * Finds the sessions with more than half as many such streams as the session that has most, of the clients with more than half
   * as many as the client that has most. Sessions whose client has read nothing for longest come first.
   */
  #scan(network: string): Payers {
    const able = [...this.sessions].filter(
      (it) => it.unserved > 0 && (network === EVERYWHERE || it.network === network),
    );
    // A load balancer carries many clients on each session.
    const perClient = Map.groupBy(able, (it) => it.network ?? it);
    const counts = new Map(
      [...perClient].map(([client, own]) => [client, own.reduce((sum, it) => sum + it.unserved, 0)]),
    );
    const clientsMost = [...counts.values()].reduce((most, count) => Math.max(most, count), 0);
    const ofClients = able.filter((it) => counts.get(it.network ?? it)! > clientsMost / 2);
    const most = ofClients.reduce((soFar, { unserved }) => Math.max(soFar, unserved), 0);
    const payers = ofClients
      .filter(({ unserved }) => unserved > most / 2)
      .toSorted((a, b) => a.stillSinceMs - b.stillSinceMs)
      .slice(0, MAX_CANDIDATES)
      .reverse()
      .map((it) => ({ session: it, unserved: it.unserved, ofClient: counts.get(it.network ?? it)! }));
    const found = { foundAtMs: this.#nowMs(), hadNone: payers.length === 0, payers };
    this.#payers.set(network, found);
    return found;
  }

  #release(network: string | null): void {
    this.#count--;
    if (network === null) return;
    const own = this.#perNetwork.get(network)! - 1;
    if (own > 0) this.#perNetwork.set(network, own);
    else {
      this.#perNetwork.delete(network);
      this.#payers.delete(network);
    }
  }
}
