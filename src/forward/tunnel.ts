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

export interface TunnelOptions {
  /** How long it may go without a byte in either direction. */
  readonly idleMs: number;
  /** The same, once one side has closed its half. */
  readonly finMs: number;
  readonly deadlines: Deadlines;
  readonly onEnd: (record: TunnelRecord) => void;
}

/**
 * Two connections that have been joined, watched to their end. Bytes pass untouched, each side no faster than the other
 * reads. When one side closes its half, the other's is closed and may go on sending; when one breaks, so does the other:
 * a clean end would pass for all there was. No byte in either direction for `idleMs` ends both.
 *
 * Attack: a client that leaves by FIN closes only its half, and a service that never closes its own would keep the tunnel's
 * place for `idleMs`. So once one side has closed its half, the tunnel ends when nothing passes for `finMs`. A client that
 * only has no more to say goes on receiving, because bytes pass; and what still waits for a slow reader is not cut off: that
 * reader has `idleMs`.
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
  readonly #finMs: number;
  readonly #deadlines: Deadlines;
  readonly #onEnd: (record: TunnelRecord) => void;
  readonly #openedAtMs: number;
  #lastByteAtMs: number;
  #bytesIn = 0;
  #bytesOut = 0;
  #end: TunnelEnd | null = null;
  /** Whether a side has closed its half. */
  #isHalfClosed = false;
  #open = 2;
  #finished = false;

  /** Before the two are joined: what breaks is seen here first. */
  constructor(client: Socket, upstream: Socket, { idleMs, finMs, deadlines, onEnd }: TunnelOptions) {
    this.#client = client;
    this.#upstream = upstream;
    this.#idleMs = idleMs;
    this.#finMs = Math.min(finMs, idleMs);
    this.#deadlines = deadlines;
    this.#onEnd = onEnd;
    this.#openedAtMs = deadlines.nowMs();
    this.#lastByteAtMs = this.#openedAtMs;
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
    const nowMs = this.#deadlines.nowMs();
    const isWaitedFor = this.#client.writableLength > 0 || this.#upstream.writableLength > 0;
    const idleAtMs = this.#lastByteAtMs + this.#idleMs;
    if (this.#isHalfClosed && isWaitedFor && nowMs < idleAtMs) {
      this.deadlineAtMs = Math.min(nowMs + this.#finMs, idleAtMs);
    } else this.cut('idle');
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
      this.#isHalfClosed = true;
      this.deadlineAtMs = this.#deadlines.nowMs() + this.#finMs;
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
    this.#lastByteAtMs = this.#deadlines.nowMs();
    this.deadlineAtMs = this.#lastByteAtMs + (this.#isHalfClosed ? this.#finMs : this.#idleMs);
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
