import type { Buffers } from '../../io/buffers.ts';
import type { Deadlines } from '../../io/deadlines.ts';
import { Intake } from '../../io/read-buffers.ts';
import { addressOf, type DialOptions, dial, type UpstreamAddress } from './dial.ts';
import { type ConnectionKeeper, type RequestCarrier, UpstreamConnection } from './upstream-connection.ts';

/** Failures in a row until a target is left out. A failed connection attempt counts as this many. */
const FAILURES = 3;
const FIRST_EJECTION_MS = 1_000;
const MAX_EJECTION_MS = 30_000;
/**
 * A connection that has been idle for this long is preferred, because bytes sent soon after its last response would
 * have closed it.
 */
const SETTLED_MS = 5;
/** How long no connection to a target is reused after the target has sent bytes that answer no request. */
const DISTRUST_MS = 60_000;

export interface UpstreamTargetEvents {
  /** The target is left out for a while, or has answered again after that. */
  readonly onChange: (target: string, usable: boolean, cause: string) => void;
  /**
   * The target has sent bytes that answer no request.
   * @param begins whether its connections were still reused until then
   */
  readonly onUnasked: (target: string, begins: boolean) => void;
}

export interface WeightedTarget {
  readonly url: string;
  readonly weight: number;
}

/** One address of an upstream, with its connections and its recent failures. */
export class UpstreamTarget implements ConnectionKeeper {
  readonly address: UpstreamAddress;
  readonly weight: number;
  /** The requests that it has missed so far beside the others by its weight. Only the upstream uses this. */
  credit = 0;
  readonly #name: string;
  readonly #events: UpstreamTargetEvents;
  readonly #dialing: DialOptions;
  readonly #deadlines: Deadlines;
  readonly #buffers: Buffers;
  /** In the order in which they became idle. */
  readonly #idle: UpstreamConnection[] = [];
  readonly #open = new Set<UpstreamConnection>();
  #inFlight = 0;
  #failures = 0;
  #ejections = 0;
  #ejectedUntilMs = 0;
  /** Maximum number of requests at a time after an ejection; doubles with each that succeeds. */
  #maxInFlight = Number.POSITIVE_INFINITY;
  /** The result of the health checks; true without them. */
  #healthy = true;
  /** Whether the last failure was a failed connection attempt. */
  #isUnreachable = false;
  /** Until then each request gets a new connection. */
  #distrustedUntilMs = 0;
  #closed = false;
  #retired = false;

  /** @param url as in gateway.yaml @param weight its part of the requests; 0 takes it out */
  constructor(
    { url, weight }: WeightedTarget,
    dialing: DialOptions,
    deadlines: Deadlines,
    buffers: Buffers,
    events: UpstreamTargetEvents,
  ) {
    this.#buffers = buffers;
    this.#name = url;
    this.weight = weight;
    this.#events = events;
    this.address = addressOf(url);
    this.#dialing = dialing;
    this.#deadlines = deadlines;
  }

  get name(): string {
    return this.#name;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Open connections, idle or in use. */
  get connections(): number {
    return this.#open.size;
  }

  get idle(): number {
    return this.#idle.length;
  }

  /** Whether it has as many requests as it may have for now, after an ejection. */
  get isBusy(): boolean {
    return this.#inFlight >= this.#maxInFlight;
  }

  /** Whether it is left out for now. */
  isEjected(nowMs: number): boolean {
    return !this.#healthy || nowMs < this.#ejectedUntilMs;
  }

  /** Whether it accepts connections, as far as the gateway knows. If it is left out, its responses are the reason. */
  get isReachable(): boolean {
    return this.#healthy && !this.#isUnreachable;
  }

  /** Milliseconds until its ejection ends; null if it is not ejected, or only a health check can end that. */
  restMs(nowMs: number): number | null {
    return this.#healthy && this.#ejectedUntilMs > nowMs ? this.#ejectedUntilMs - nowMs : null;
  }

  enter(): void {
    this.#inFlight++;
  }

  leave(): void {
    this.#inFlight--;
  }

  /**
   * Takes an idle connection; null if no connection is idle. Of the connections that have settled it takes the one that became
   * idle last, so that connections that the load does not need grow old and are closed. If no connection has settled, it takes
   * the one that has been idle longest.
   */
  takeIdle(): RequestCarrier | null {
    const nowMs = this.#deadlines.nowMs();
    while (this.#idle.length > 0) {
      const connection = this.#removeFromIdle(this.#preferred(nowMs));
      if (connection.takeIdle(nowMs)) return connection;
    }
    return null;
  }

  /** @returns the index in the idle list of the connection to use next */
  #preferred(nowMs: number): number {
    const settledSinceMs = nowMs - SETTLED_MS;
    let at = this.#idle.length - 1;
    while (at > 0 && this.#idle[at]!.idleSinceMs > settledSinceMs) at--;
    return at;
  }

  #removeFromIdle(at: number): UpstreamConnection {
    if (at === this.#idle.length - 1) return this.#idle.pop()!;
    return at === 0 ? this.#idle.shift()! : this.#idle.splice(at, 1)[0]!;
  }

  /** Closes the connection that has been idle longest. @returns whether there was one */
  closeOldestIdle(): boolean {
    const oldest = this.#idle.shift();
    oldest?.destroy();
    return oldest !== undefined;
  }

  /** Opens a new connection. @returns a function that gives up */
  dial(connected: (connection: RequestCarrier) => void, failed: (error: Error) => void): () => void {
    const intake = new Intake(this.#buffers);
    return dial(
      this.address,
      this.#dialing,
      (socket) => {
        const connection = new UpstreamConnection(socket, intake, this.address, this, this.#deadlines);
        this.#open.add(connection);
        if (this.#closed) connection.destroy();
        connected(connection);
      },
      failed,
      intake,
    );
  }

  /** Notes that the target has given a valid response. */
  succeeded(): void {
    this.#failures = 0;
    this.#isUnreachable = false;
    if (this.#maxInFlight === Number.POSITIVE_INFINITY) return;
    if (this.#ejections > 0) this.#events.onChange(this.#name, true, 'answers again');
    this.#ejections = 0;
    // The load rises step by step, because a service that has just started would not withstand all of it at once.
    this.#maxInFlight = this.#maxInFlight >= 64 ? Number.POSITIVE_INFINITY : this.#maxInFlight * 2;
  }

  /** Notes that the target gave no valid response. @param unreachable whether it could not even be connected to */
  failed(unreachable: boolean, cause: string): void {
    const nowMs = this.#deadlines.nowMs();
    this.#isUnreachable = unreachable;
    this.#failures += unreachable ? FAILURES : 1;
    if (this.#failures < FAILURES && this.#maxInFlight === Number.POSITIVE_INFINITY) return;
    if (nowMs < this.#ejectedUntilMs) return;
    this.#ejectedUntilMs = nowMs + Math.min(MAX_EJECTION_MS, FIRST_EJECTION_MS * 2 ** this.#ejections++);
    this.#failures = 0;
    this.#maxInFlight = 1;
    if (this.#ejections === 1) this.#events.onChange(this.#name, false, cause);
  }

  /** Takes the result of the health checks. */
  checked(healthy: boolean): void {
    if (healthy && !this.#healthy) {
      this.#maxInFlight = 1;
      this.#ejectedUntilMs = 0;
      this.#ejections = 0;
      this.#failures = 0;
      this.#isUnreachable = false;
    }
    this.#healthy = healthy;
  }

  onIdle(connection: UpstreamConnection): void {
    if (this.#closed || this.#retired) connection.destroy();
    else if (connection.idleSinceMs < this.#distrustedUntilMs) this.#closeUnused(connection);
    else this.#idle.push(connection);
  }

  /**
   * Attack: an upstream answers a request twice. On an idle connection the second response is noticed. Once the next
   * request has been written, the second response cannot be distinguished from the response to that request, and
   * another client may get it. A target that has done this once will do it again, so for a while each request gets a
   * new connection.
   */
  onUnasked(connection: UpstreamConnection): void {
    const nowMs = this.#deadlines.nowMs();
    const begins = nowMs >= this.#distrustedUntilMs;
    this.#distrustedUntilMs = nowMs + DISTRUST_MS;
    this.#closeUnused(connection);
    while (this.closeOldestIdle());
    this.#events.onUnasked(this.#name, begins);
  }

  /**
   * Closes a connection, with a reset if it is plain TCP. The side that closes first keeps the port in TIME_WAIT for a
   * minute, and at some hundred connections a second the gateway would have no port left.
   */
  #closeUnused(connection: UpstreamConnection): void {
    if (this.address.kind === 'http') connection.reset();
    else connection.destroy();
  }

  onClosed(connection: UpstreamConnection): void {
    this.#open.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
  }

  /** Notes that the settings no longer have this target. Running requests finish, and no connection is kept afterwards. */
  retire(): void {
    this.#retired = true;
    while (this.closeOldestIdle());
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#open) connection.destroy();
  }
}
