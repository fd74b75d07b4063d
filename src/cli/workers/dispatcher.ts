import type { Socket } from 'node:net';

/** What a connection can be handed to. */
export interface Taker {
  /** @param isFull there are `maxConnections` already: an idle one has to make room, or this one is closed */
  hand(socket: Socket, isFull: boolean): void;
}

export interface DispatcherOptions {
  /** Connections at a time, of all workers together. */
  readonly maxConnections: number;
  /** A connection was closed unanswered: there were so many already, and too many waited for an idle one to make room. */
  readonly onDrop: () => void;
  /** Of a clock that only goes forward. */
  readonly nowMs: () => number;
}

interface Member {
  readonly taker: Taker;
  isTaking: boolean;
  /** Connections that it has, that on its way included. */
  open: number;
  /** On its way: handed over, and not yet the worker's own. */
  handed: { readonly socket: Socket; readonly atMs: number } | null;
}

/** New connections that may wait to be handed out while there are `maxConnections`. */
const MAX_WAITING_WHEN_FULL = 64;

/** A worker that has not taken what it was handed for so long is busy, and the next one gets the connection. */
const PATIENCE_MS = 100;

/**
 * Hands each new connection to the worker that has the fewest. The kernel could spread them by itself (SO_REUSEPORT), but
 * by a hash, so that of few connections most may be one worker's; and what a worker had not yet accepted when it died
 * would be reset. Here a connection is the supervisor's until the worker says that it is its own, before it reads a byte of
 * it, so a worker that dies before that loses no connection. And as one process counts them all, `maxConnections` is
 * exact: when all are taken, the supervisor says so to the worker, which closes an idle connection first.
 */
export class Dispatcher<T extends Taker> {
  readonly #options: DispatcherOptions;
  /** In the order of their last connection, so that equals take turns. */
  readonly #members = new Map<T, Member>();
  readonly #waiting: Socket[] = [];
  #timer: NodeJS.Timeout | null = null;
  #onIdle: (() => void) | null = null;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** Connections that are open, waiting ones included. */
  get connections(): number {
    let open = this.#waiting.length;
    for (const member of this.#members.values()) open += member.open;
    return open;
  }

  /** A client has connected. */
  offer(socket: Socket): void {
    socket.on('error', () => {});
    if (this.#isFull && this.#waiting.length >= MAX_WAITING_WHEN_FULL) {
      socket.destroy();
      this.#options.onDrop();
      return;
    }
    this.#waiting.push(socket);
    this.#handOut();
  }

  /** A worker serves from now on. */
  join(taker: T): void {
    this.#members.set(taker, { taker, isTaking: true, open: 0, handed: null });
    this.#handOut();
  }

  /** It takes no further connections; what it has, it has. */
  retire(taker: T): void {
    const member = this.#members.get(taker);
    if (member !== undefined) member.isTaking = false;
    this.#handOut();
  }

  /** The connection that it was handed is its own. */
  taken(taker: T): void {
    const member = this.#members.get(taker);
    // Only our hold on it ends: the connection itself lives on in the worker.
    member?.handed?.socket.destroy();
    if (member !== undefined) member.handed = null;
    this.#handOut();
  }

  ended(taker: T, connections: number): void {
    const member = this.#members.get(taker);
    if (member !== undefined) member.open -= connections;
  }

  openOf(taker: T): number {
    return this.#members.get(taker)?.open ?? 0;
  }

  /** It is gone, and all that it ever said has been heard: what it had not taken goes to another. */
  leave(taker: T): void {
    const handed = this.#members.get(taker)?.handed;
    this.#members.delete(taker);
    if (handed) this.#waiting.unshift(handed.socket);
    this.#handOut();
  }

  /** Resolves when nothing waits to be handed out, or `withinMs` from now, when what still waits is closed. */
  async emptied(withinMs: number): Promise<void> {
    if (this.#waiting.length === 0) return;
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, withinMs);
    this.#onIdle = late.resolve;
    await late.promise;
    clearTimeout(timer);
    this.#onIdle = null;
    for (const socket of this.#waiting.splice(0)) socket.destroy();
  }

  get #isFull(): boolean {
    return this.connections >= this.#options.maxConnections;
  }

  #handOut(): void {
    while (this.#waiting.length > 0) {
      const [taker, member] = this.#next() ?? [];
      if (taker === undefined || member === undefined) return;
      const socket = this.#waiting.shift()!;
      const isFull = this.#isFull;
      this.#members.delete(taker);
      this.#members.set(taker, member);
      member.open++;
      member.handed = { socket, atMs: this.#options.nowMs() };
      taker.hand(socket, isFull);
    }
    this.#onIdle?.();
  }

  #next(): [T, Member] | null {
    const taking = [...this.#members].filter(([, { isTaking }]) => isTaking);
    const [fewest] = taking.toSorted(([, a], [, b]) => a.open - b.open);
    if (fewest === undefined || fewest[1].handed === null) return fewest ?? null;
    const waitedMs = this.#options.nowMs() - fewest[1].handed.atMs;
    if (waitedMs < PATIENCE_MS) {
      this.#lookAgain(PATIENCE_MS - waitedMs);
      return null;
    }
    const [free] = taking.filter(([, { handed }]) => handed === null).toSorted(([, a], [, b]) => a.open - b.open);
    return free ?? null;
  }

  #lookAgain(inMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#handOut();
    }, inMs);
  }
}
