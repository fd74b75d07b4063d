import type { Buffers } from './buffers.ts';
import type { ConnectionKeeper } from './carrying.ts';
import { UpstreamConnection } from './connection.ts';
import type { Deadlines } from './deadlines.ts';
import { type Address, addressOf, type DialOptions, dial } from './dial.ts';
import type { EndOfTurn } from './end-of-turn.ts';
import { Intake } from './intake.ts';

/** Failures in a row until a target is left out. A connection that cannot be had counts as all of them. */
const FAILURES = 3;
const FIRST_REST_MS = 1_000;
const LONGEST_REST_MS = 30_000;
/** A connection that has been idle for this long is preferred: bytes that its upstream sent soon after the answer would have closed it. */
const SETTLED_MS = 5;
/** For how long no connection of a target is reused after one of them has brought bytes that answer no request. */
const DISTRUST_MS = 60_000;

export interface TargetEvents {
  /** The target is left out for a while, or has answered again after that. */
  readonly onChange: (target: string, usable: boolean, cause: string) => void;
  /**
   * The target has sent bytes that answer no request.
   * @param begins whether its connections were still reused until then
   */
  readonly onUnasked: (target: string, begins: boolean) => void;
}

/** One address of an upstream: its connections, and how it has been doing. */
export class Target implements ConnectionKeeper {
  readonly address: Address;
  readonly #name: string;
  readonly #events: TargetEvents;
  readonly #dialing: DialOptions;
  readonly #deadlines: Deadlines;
  readonly #endOfTurn: EndOfTurn;
  readonly #buffers: Buffers;
  /** In the order in which they became idle. */
  readonly #idle: UpstreamConnection[] = [];
  readonly #open = new Set<UpstreamConnection>();
  #inFlight = 0;
  #failures = 0;
  #rests = 0;
  #restUntilMs = 0;
  /** Requests it may have at a time after a rest; doubles with each that succeeds. */
  #most = Number.POSITIVE_INFINITY;
  /** What the active checks say; true where there are none. */
  #healthy = true;
  /** Whether the last failure was that it could not be connected to. */
  #isUnreachable = false;
  /** Until then each request gets a connection of its own. */
  #distrustedUntilMs = 0;
  #closed = false;
  #retired = false;

  /** @param name as written in gateway.yaml */
  constructor(
    name: string,
    dialing: DialOptions,
    deadlines: Deadlines,
    endOfTurn: EndOfTurn,
    buffers: Buffers,
    events: TargetEvents,
  ) {
    this.#endOfTurn = endOfTurn;
    this.#buffers = buffers;
    this.#name = name;
    this.#events = events;
    this.address = addressOf(name);
    this.#dialing = dialing;
    this.#deadlines = deadlines;
  }

  get name(): string {
    return this.#name;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Connections that stand, idle or not. */
  get connections(): number {
    return this.#open.size;
  }

  get idle(): number {
    return this.#idle.length;
  }

  /** Whether it has as much as it should have for now, after a rest. */
  get isBusy(): boolean {
    return this.#inFlight >= this.#most;
  }

  /** Whether it is left out for now. */
  rests(nowMs: number): boolean {
    return !this.#healthy || nowMs < this.#restUntilMs;
  }

  /** Whether it takes connections, as far as is known: what it rests for then is how it answered. */
  get isReachable(): boolean {
    return this.#healthy && !this.#isUnreachable;
  }

  /** Milliseconds until its rest is over; null where it waits for something else than time. */
  restMs(nowMs: number): number | null {
    return this.#healthy && this.#restUntilMs > nowMs ? this.#restUntilMs - nowMs : null;
  }

  enter(): void {
    this.#inFlight++;
  }

  leave(): void {
    this.#inFlight--;
  }

  /**
   * A connection that is not in use; null where there is none. Of those that have settled it is the one that became idle
   * last, so that connections the load does not need grow old and are closed. Where none has settled, it is the one that
   * has been idle for longest.
   */
  takeIdle(): UpstreamConnection | null {
    const nowMs = this.#deadlines.nowMs();
    while (this.#idle.length > 0) {
      const connection = this.#removeFromIdle(this.#preferred(nowMs));
      if (connection.takeUp(nowMs)) return connection;
    }
    return null;
  }

  /** @returns where in the idle list the connection stands that is used next */
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

  /** Closes the connection that has been idle for longest. @returns whether there was one */
  closeOldestIdle(): boolean {
    const oldest = this.#idle.shift();
    oldest?.destroy();
    return oldest !== undefined;
  }

  /** Opens a connection of its own. @returns a way to give up */
  dial(connected: (connection: UpstreamConnection) => void, failed: (error: Error) => void): () => void {
    // What is encrypted Node has to read.
    const intake = this.address.kind === 'https' ? null : new Intake(this.#buffers);
    return dial(
      this.address,
      this.#dialing,
      (socket) => {
        const connection = new UpstreamConnection(
          socket,
          intake,
          this.address.authority,
          this,
          this.#deadlines,
          this.#endOfTurn,
        );
        this.#open.add(connection);
        if (this.#closed) connection.destroy();
        connected(connection);
      },
      failed,
      intake,
    );
  }

  /** It has answered as it should. */
  succeeded(): void {
    this.#failures = 0;
    this.#isUnreachable = false;
    if (this.#most === Number.POSITIVE_INFINITY) return;
    if (this.#rests > 0) this.#events.onChange(this.#name, true, 'answers again');
    this.#rests = 0;
    // Let back in gently: what has just come up would fall over under everything at once.
    this.#most = this.#most >= 64 ? Number.POSITIVE_INFINITY : this.#most * 2;
  }

  /** It gave no usable answer. @param unreachable there was not even a connection */
  failed(unreachable: boolean, cause: string): void {
    const nowMs = this.#deadlines.nowMs();
    this.#isUnreachable = unreachable;
    this.#failures += unreachable ? FAILURES : 1;
    if (this.#failures < FAILURES && this.#most === Number.POSITIVE_INFINITY) return;
    if (nowMs < this.#restUntilMs) return;
    this.#restUntilMs = nowMs + Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** this.#rests++);
    this.#failures = 0;
    this.#most = 1;
    if (this.#rests === 1) this.#events.onChange(this.#name, false, cause);
  }

  /** What an active check found. */
  checked(healthy: boolean): void {
    if (healthy && !this.#healthy) {
      this.#most = 1;
      this.#restUntilMs = 0;
      this.#rests = 0;
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
   * Attack: an upstream answers a request twice. On an idle connection the second answer is noticed. Once the next request
   * has been written, it cannot be told from the answer to that request, and another client may get it. A target that
   * has done this once will do it again, so for a while each request gets a connection of its own.
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
   * With a reset where the connection is plain TCP. The side that closes first keeps the port in TIME_WAIT for a minute,
   * and at some hundred connections a second the gateway would have no port left.
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

  /** Nobody asks for it any more: what runs is finished, and no connection is kept. */
  retire(): void {
    this.#retired = true;
    while (this.closeOldestIdle());
  }

  close(): void {
    this.#closed = true;
    for (const connection of this.#open) connection.destroy();
  }
}
