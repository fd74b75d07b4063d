import type { Socket } from 'node:net';
import { type Deadlines, UNWATCHED, type Waiting } from './deadlines.ts';

/** Why a tunnel ended. */
export type TunnelEnd =
  /** That side closed its connection first. */
  | 'client_closed'
  | 'upstream_closed'
  /** That side's connection broke. */
  | 'client_lost'
  | 'upstream_lost'
  | 'idle'
  /** What became of its key. */
  | 'revoked'
  | 'expired'
  /** The gateway stopped. */
  | 'drained';

export interface TunnelRecord {
  readonly end: TunnelEnd;
  readonly durationMs: number;
  /** From the client, since the 101. */
  readonly bytesIn: number;
  /** To the client. */
  readonly bytesOut: number;
}

/**
 * Two connections that have been joined, watched to their end. Bytes pass untouched, each side no faster than the other
 * reads. When one side closes its half, the other's is closed and may go on sending; when one breaks, so does the other:
 * a clean end would pass for all there was. No byte in either direction for `idleMs` ends both.
 *
 * Attack: http-proxy-3 closes only its half towards an upstream whose client is gone, and one that does not close its own
 * stays for ever (as does one that is not read any more). Here neither outlives the other.
 */
export class Tunnel implements Waiting {
  deadlineAtMs: number;
  slot = UNWATCHED;
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #idleMs: number;
  readonly #deadlines: Deadlines;
  readonly #onEnd: (record: TunnelRecord) => void;
  readonly #openedAtMs: number;
  #bytesIn = 0;
  #bytesOut = 0;
  #end: TunnelEnd | null = null;
  #open = 2;
  #finished = false;

  /** Before the two are joined: what breaks is seen here first. */
  constructor(
    client: Socket,
    upstream: Socket,
    { idleMs, deadlines, onEnd }: { idleMs: number; deadlines: Deadlines; onEnd: (record: TunnelRecord) => void },
  ) {
    this.#client = client;
    this.#upstream = upstream;
    this.#idleMs = idleMs;
    this.#deadlines = deadlines;
    this.#onEnd = onEnd;
    this.#openedAtMs = deadlines.nowMs();
    this.deadlineAtMs = this.#openedAtMs + idleMs;
    this.#watch(client, upstream, 'client_closed', 'client_lost');
    this.#watch(upstream, client, 'upstream_closed', 'upstream_lost');
    deadlines.watch(this);
  }

  /** Counts what passes. After the two are joined: a listener more would set bytes flowing before they have a way to go. */
  count(): void {
    this.#client.on('data', (chunk: Buffer) => {
      this.#bytesIn += chunk.length;
      this.#passed();
    });
    this.#upstream.on('data', (chunk: Buffer) => {
      this.#bytesOut += chunk.length;
      this.#passed();
    });
  }

  onDeadline(): void {
    this.cut('idle');
  }

  /** Ends both sides at once. Nothing is written into what they say. */
  cut(end: TunnelEnd): void {
    this.#end ??= end;
    this.#client.destroy();
    this.#upstream.destroy();
    // Not when both are closed: a gateway that stops may be gone by then.
    this.#finish();
  }

  #watch(side: Socket, other: Socket, closed: TunnelEnd, lost: TunnelEnd): void {
    side.once('end', () => {
      this.#end ??= closed;
    });
    // Before http-proxy-3 sees it and closes the other cleanly.
    side.prependListener('error', () => {
      this.#end ??= lost;
      reset(other);
    });
    side.once('close', () => {
      this.#end ??= lost;
      // Not closed by both of its halves: there is nobody left for the other to talk to.
      if (!(side.readableEnded && side.writableFinished)) other.destroy();
      if (--this.#open === 0) this.#finish();
    });
  }

  #passed(): void {
    this.deadlineAtMs = this.#deadlines.nowMs() + this.#idleMs;
  }

  #finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#deadlines.forget(this);
    this.#onEnd({
      end: this.#end ?? 'client_lost',
      durationMs: this.#deadlines.nowMs() - this.#openedAtMs,
      bytesIn: this.#bytesIn,
      bytesOut: this.#bytesOut,
    });
  }
}

/** Node cannot reset a connection whose own half is being closed, and would never close it then. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else if (!socket.destroyed) socket.resetAndDestroy();
}
