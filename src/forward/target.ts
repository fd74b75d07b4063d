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

export interface TargetEvents {
  /** The target is left out for a while, or has answered again after that. */
  readonly onChange: (target: string, usable: boolean, cause: string) => void;
}

/** One address of an upstream: its connections, and how it has been doing. */
export class Target implements ConnectionKeeper {
  readonly address: Address;
  readonly #name: string;
  readonly #onChange: TargetEvents['onChange'];
  readonly #dialing: DialOptions;
  readonly #deadlines: Deadlines;
  readonly #endOfTurn: EndOfTurn;
  readonly #buffers: Buffers;
  /** The one used last is at the end: it is used next, so that the others can grow old. */
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
  #closed = false;
  #retired = false;

  /** @param name as written in gateway.yaml */
  constructor(
    name: string,
    dialing: DialOptions,
    deadlines: Deadlines,
    endOfTurn: EndOfTurn,
    buffers: Buffers,
    onChange: TargetEvents['onChange'],
  ) {
    this.#endOfTurn = endOfTurn;
    this.#buffers = buffers;
    this.#name = name;
    this.#onChange = onChange;
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

  /** A connection that is not in use; null where there is none. */
  takeIdle(): UpstreamConnection | null {
    for (let last = this.#idle.pop(); last !== undefined; last = this.#idle.pop()) {
      if (last.takeUp()) return last;
    }
    return null;
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
    if (this.#most === Number.POSITIVE_INFINITY) return;
    if (this.#rests > 0) this.#onChange(this.#name, true, 'answers again');
    this.#rests = 0;
    // Let back in gently: what has just come up would fall over under everything at once.
    this.#most = this.#most >= 64 ? Number.POSITIVE_INFINITY : this.#most * 2;
  }

  /** It gave no usable answer. @param unreachable there was not even a connection */
  failed(unreachable: boolean, cause: string): void {
    const nowMs = this.#deadlines.nowMs();
    this.#failures += unreachable ? FAILURES : 1;
    if (this.#failures < FAILURES && this.#most === Number.POSITIVE_INFINITY) return;
    if (nowMs < this.#restUntilMs) return;
    this.#restUntilMs = nowMs + Math.min(LONGEST_REST_MS, FIRST_REST_MS * 2 ** this.#rests++);
    this.#failures = 0;
    this.#most = 1;
    if (this.#rests === 1) this.#onChange(this.#name, false, cause);
  }

  /** What an active check found. */
  checked(healthy: boolean): void {
    if (healthy && !this.#healthy) {
      this.#most = 1;
      this.#restUntilMs = 0;
      this.#rests = 0;
      this.#failures = 0;
    }
    this.#healthy = healthy;
  }

  onIdle(connection: UpstreamConnection): void {
    if (this.#closed || this.#retired) connection.destroy();
    else this.#idle.push(connection);
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
