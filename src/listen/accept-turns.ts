import { afterReadyWork } from '../io/after-reading.ts';
import type { Arrival } from '../io/entrance.ts';
import { ArrivalLine } from './arrival-line.ts';
import type { ConnectionLimits } from './connections.ts';

/** For how long sockets are made before the thread reads what has arrived meanwhile. One takes 40 µs. */
const TURN_MS = 0.5;

interface AcceptTurnsOptions extends ConnectionLimits {
  /** Connections that are open now. */
  readonly count: () => number;
  /** Makes a socket of a connection and reads from it, or drops it if there is no room. */
  readonly open: (arrival: Arrival) => void;
  /** A connection was closed because too many of its client wait. */
  readonly onDrop: () => void;
  /** Whether the process has nearly used up its descriptors. */
  readonly isShort: (descriptor: number) => boolean;
  /** A monotonic clock, milliseconds. */
  readonly nowMs: () => number;
}

/**
 * Opens one new connection of each client in each turn of the event loop.
 *
 * Attack: one address, without a key, opens more connections than the thread can serve, and keeps the new connections of all others
 * waiting. Accepting a connection costs a fifth of what its socket and its first request cost. So those that come too fast wait
 * without a socket, and are dropped if they become too many.
 */
export class AcceptTurns {
  readonly #options: AcceptTurnsOptions;
  readonly #line: ArrivalLine;
  #isScheduled = false;
  #isHeld = false;

  constructor(options: AcceptTurnsOptions) {
    this.#options = options;
    this.#line = new ArrivalLine(options);
  }

  /** Connections that wait. */
  get waiting(): number {
    return this.#line.size;
  }

  /** @param network of the client; null for a trusted proxy */
  take(arrival: Arrival, network: string | null): void {
    const { count, maxConnections, isShort, open, onDrop } = this.#options;
    if (!this.#line.add(arrival, network)) {
      arrival.drop();
      onDrop();
      return;
    }
    // Those that wait have no files of their own: they take them from maxConnections.
    while (this.#line.size > 0 && (count() + this.#line.size > maxConnections || isShort(arrival.descriptor))) {
      open(this.#line.next()!);
    }
    this.#schedule();
  }

  /** Whether all that arrive wait. */
  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isHeld || this.#line.size === 0) return;
    this.#isScheduled = true;
    afterReadyWork(this.#turn);
  }

  readonly #turn = (): void => {
    const { nowMs, open } = this.#options;
    const untilMs = nowMs() + TURN_MS;
    for (let left = this.#line.clients; left > 0; left--) {
      open(this.#line.next()!);
      if (nowMs() >= untilMs) break;
    }
    this.#isScheduled = false;
    this.#schedule();
  };
}
