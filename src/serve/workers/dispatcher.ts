import type { Socket } from 'node:net';
import { type Arrival, arrivalOf } from '../../io/entrance.ts';
import { ArrivalLine } from '../../listen/arrival-line.ts';
import type { ConnectionLimits } from '../../listen/connections.ts';

/** A worker, as the dispatcher sees it. */
export interface ConnectionTaker {
  /** @param isFull `maxConnections` are open already, so the worker must close an idle connection, or this one */
  hand(socket: Socket, isFull: boolean): void;
}

/** The limits are on open connections of all workers together. */
interface DispatcherOptions extends ConnectionLimits {
  /** Called when the dispatcher closes a connection unanswered, because too many wait: in all, or of one client address. */
  readonly onDrop: (shortage: 'connections' | 'address') => void;
  /** Monotonic milliseconds. */
  readonly nowMs: () => number;
}

interface Member {
  readonly taker: ConnectionTaker;
  /** False once the worker accepts no further connections. */
  isTaking: boolean;
  /** Open connections of the worker, with the one that was handed over last. */
  open: number;
  /** The connection that was handed over and that the worker has not taken yet. */
  handed: { readonly socket: Socket; readonly atMs: number } | null;
}

/** New connections that may wait while `maxConnections` are open. */
const MAX_WAITING_WHEN_FULL = 64;

/** A worker that has not taken its last connection within this time is busy. The next connection goes to another worker. */
const PATIENCE_MS = 100;

/**
 * Hands each new connection to the worker that has the fewest. The kernel could distribute them (SO_REUSEPORT), but it
 * chooses by a hash, so that one worker may get most of a few connections, and it resets the connections that a worker had
 * not accepted when it died. Here the supervisor keeps a connection until the worker, before it reads a byte, confirms that
 * it has taken it. If the worker dies before that, another worker gets the connection. `maxConnections` is exact, because
 * the supervisor counts all connections. When they are used up, it asks the worker to close an idle one first.
 */
export class Dispatcher<T extends ConnectionTaker> {
  readonly #options: DispatcherOptions;
  /** In the order of their last connection, so that workers with equally many take turns. */
  readonly #members = new Map<T, Member>();
  readonly #waiting: ArrivalLine;
  #timer: NodeJS.Timeout | null = null;
  #onEmpty: (() => void) | null = null;
  #isHeld = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#waiting = new ArrivalLine(options);
  }

  /** Open connections, with those that wait for a worker. */
  get connections(): number {
    let open = this.#waiting.size;
    for (const member of this.#members.values()) open += member.open;
    return open;
  }

  /**
   * Takes a new client connection: hands it to a worker, lets it wait for its turn, or drops it.
   * @param network of the client; null for a trusted proxy
   */
  offer(arrival: Arrival, network: string | null): void {
    if (!this.#waiting.add(arrival, network)) this.#drop(arrival, 'address');
    if (this.#waiting.size > MAX_WAITING_WHEN_FULL && this.#isFull) this.#drop(this.#waiting.shed(), 'connections');
    this.#handOut();
  }

  /** Adds a worker that has begun to serve. */
  join(taker: T): void {
    this.#members.set(taker, { taker, isTaking: true, open: 0, handed: null });
    this.#handOut();
  }

  /** Hands the worker no further connections. It keeps those that it has. */
  retire(taker: T): void {
    const member = this.#members.get(taker);
    if (member !== undefined) member.isTaking = false;
    this.#handOut();
  }

  /** The worker has confirmed that it has taken its last connection. */
  taken(taker: T): void {
    const member = this.#members.get(taker);
    // This closes the supervisor's descriptor only. The connection stays open in the worker.
    member?.handed?.socket.destroy();
    if (member !== undefined) member.handed = null;
    this.#handOut();
  }

  /** The worker has reported that this number of its connections have ended. */
  ended(taker: T, connections: number): void {
    const member = this.#members.get(taker);
    if (member !== undefined) member.open -= connections;
  }

  /** Whether all that are offered wait. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    this.#handOut();
  }

  openOf(taker: T): number {
    return this.#members.get(taker)?.open ?? 0;
  }

  /** Removes a worker that has ended, after its last message. Another worker gets the connection that it had not taken. */
  leave(taker: T): void {
    const handed = this.#members.get(taker)?.handed;
    this.#members.delete(taker);
    if (handed) this.#waiting.putBack(arrivalOf(handed.socket));
    this.#handOut();
  }

  /** Resolves when no connection waits for a worker, or after `withinMs`, when it closes those that still wait. */
  async emptied(withinMs: number): Promise<void> {
    if (this.#waiting.size === 0) return;
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, withinMs);
    this.#onEmpty = late.resolve;
    await late.promise;
    clearTimeout(timer);
    this.#onEmpty = null;
    for (let left = this.#waiting.next(); left !== null; left = this.#waiting.next()) left.drop();
  }

  #drop(arrival: Arrival | null, shortage: 'connections' | 'address'): void {
    if (arrival === null) return;
    arrival.drop();
    this.#options.onDrop(shortage);
  }

  get #isFull(): boolean {
    return this.connections >= this.#options.maxConnections;
  }

  #handOut(): void {
    if (this.#isHeld) return;
    while (this.#waiting.size > 0) {
      const [taker, member] = this.#next() ?? [];
      if (taker === undefined || member === undefined) return;
      const socket = this.#waiting.next()!.open();
      const isFull = this.#isFull;
      socket.on('error', () => {});
      this.#members.delete(taker);
      this.#members.set(taker, member);
      member.open++;
      member.handed = { socket, atMs: this.#options.nowMs() };
      taker.hand(socket, isFull);
    }
    this.#onEmpty?.();
  }

  #next(): [T, Member] | null {
    const taking = [...this.#members].filter(([, { isTaking }]) => isTaking);
    const [fewest] = taking.toSorted(([, a], [, b]) => a.open - b.open);
    if (fewest === undefined || fewest[1].handed === null) return fewest ?? null;
    const waitedMs = this.#options.nowMs() - fewest[1].handed.atMs;
    if (waitedMs < PATIENCE_MS) {
      this.#handOutLater(PATIENCE_MS - waitedMs);
      return null;
    }
    const [free] = taking.filter(([, { handed }]) => handed === null).toSorted(([, a], [, b]) => a.open - b.open);
    return free ?? null;
  }

  #handOutLater(inMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#handOut();
    }, inMs);
  }
}
