import type { Socket } from 'node:net';
import { PIECES } from '../../io/buffers.ts';
import { type Deadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { closeGently, reset } from '../../io/graceful-close.ts';
import { interceptEnds, outliveFailedWrites } from '../../io/node-internals.ts';
import { endInTurn } from '../../io/read-buffers.ts';
import { hasWaiting } from '../../io/tls-carrier.ts';

/** Why a tunnel ended. */
export type TunnelEnd =
  /** That side closed its connection first. */
  | 'client_closed'
  | 'upstream_closed'
  /** That side's connection broke. */
  | 'client_lost'
  | 'upstream_lost'
  | 'idle'
  /** The key was revoked, suspended, or has expired. */
  | 'revoked'
  | 'suspended'
  | 'expired'
  /** The gateway stopped. */
  | 'drained';

export interface TunnelRecord {
  readonly end: TunnelEnd;
  readonly durationMs: number;
  /** Bytes received from the client after the 101. */
  readonly bytesIn: number;
  /** Bytes sent to the client after the 101. */
  readonly bytesOut: number;
}

interface TunnelOptions {
  /** How long it may stay open without a byte in either direction. */
  readonly idleMs: number;
  /** The same, once one side has closed its half. */
  readonly finMs: number;
  readonly deadlines: Deadlines;
  /** The thread has worked since `fromMs` (monotonic) to pass a piece on. */
  readonly worked: (fromMs: number, toMs: number) => void;
  readonly onEnd: (record: TunnelRecord) => void;
}

/**
 * Watches two joined connections until both have ended. Bytes pass unchanged, and each side is read no faster than the
 * other reads. When one side closes its half, the same half of the other is closed, which may continue to send. When one
 * side breaks, the other is reset, because a clean end would make the data look complete. Both end when no byte has
 * passed in either direction for `idleMs`.
 *
 * Attack: a client that disconnects with FIN closes only its half, and with a service that never closes its own the
 * tunnel would stay open for `idleMs`. So once one side has closed its half, the tunnel ends when no byte has passed
 * for `finMs`. A client that only has nothing more to send continues to receive, because bytes pass. Bytes that wait for a
 * slow reader are not cut off: that reader has `idleMs`.
 *
 * Attack: after a client has disconnected, http-proxy-3 closes only its own half towards the upstream, and the
 * connection to an upstream that does not close the other half stays open for ever (as does one that is no longer
 * read). Here neither connection outlives the other.
 */
export class Tunnel implements Timed {
  deadlineAtMs: number;
  slot = UNWATCHED;
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #idleMs: number;
  readonly #finMs: number;
  readonly #deadlines: Deadlines;
  readonly #worked: TunnelOptions['worked'];
  readonly #onEnd: (record: TunnelRecord) => void;
  readonly #openedAtMs: number;
  #lastByteAtMs: number;
  /** When the thread began to pass on the piece that it has just read. */
  #beganAtMs = 0;
  #bytesIn = 0;
  #bytesOut = 0;
  #end: TunnelEnd | null = null;
  /** Whether a side has closed its half. */
  #isHalfClosed = false;
  #open = 2;
  #finished = false;

  /** Must be created before the two are joined, so that it sees errors first. */
  constructor(client: Socket, upstream: Socket, { idleMs, finMs, deadlines, worked, onEnd }: TunnelOptions) {
    this.#client = client;
    this.#upstream = upstream;
    this.#idleMs = idleMs;
    this.#finMs = Math.min(finMs, idleMs);
    this.#deadlines = deadlines;
    this.#worked = worked;
    this.#onEnd = onEnd;
    this.#openedAtMs = deadlines.nowMs();
    this.#lastByteAtMs = this.#openedAtMs;
    this.deadlineAtMs = this.#openedAtMs + idleMs;
    // As those of clients in SharedBufferSocket: all of a service may end at the same moment.
    interceptEnds(upstream, (end) => endInTurn(this, 1, end));
    this.#watch(client, upstream, 'client_closed', 'client_lost');
    this.#watch(upstream, client, 'upstream_closed', 'upstream_lost');
    deadlines.watch(this);
  }

  /**
   * Counts the bytes that pass, and the thread's work for them. Must be called after the two are joined: before that, the listeners
   * would let bytes flow that have no destination yet.
   *
   * Attack: tunnels that always carry bytes cost their caller nothing of its share of the thread, while the plain requests of others,
   * which alone were counted, had to wait.
   */
  count(): void {
    const begun = () => {
      this.#beganAtMs = this.#deadlines.nowMs();
    };
    this.#client.prependListener('data', begun);
    this.#upstream.prependListener('data', begun);
    this.#client.on('data', (chunk: Buffer) => {
      this.#bytesIn += chunk.length;
      this.#passed(chunk, this.#upstream);
    });
    this.#upstream.on('data', (chunk: Buffer) => {
      this.#bytesOut += chunk.length;
      this.#passed(chunk, this.#client);
    });
  }

  onDeadline(): void {
    const nowMs = this.#deadlines.nowMs();
    const isWaitedFor = this.#client.writableLength > 0 || this.#upstream.writableLength > 0;
    const idleAtMs = this.#lastByteAtMs + this.#idleMs;
    // Neither side is late: the gateway has yet to pass on what it has sent. So this looks at it again later.
    if (hasWaiting(this.#client) || hasWaiting(this.#upstream)) this.deadlineAtMs = nowMs;
    else if (this.#isHalfClosed && isWaitedFor && nowMs < idleAtMs) {
      this.deadlineAtMs = Math.min(nowMs + this.#finMs, idleAtMs);
    } else this.cut('idle');
  }

  /** Ends both sides at once, without writing anything into their data. */
  cut(end: TunnelEnd): void {
    this.#end ??= end;
    this.#client.destroy();
    this.#upstream.destroy();
    // Does not wait until both are closed, because the process may have ended by then.
    this.#finish();
  }

  #watch(side: Socket, other: Socket, closed: TunnelEnd, lost: TunnelEnd): void {
    let writeFault: string | null | undefined = null;
    // Nothing reaches this side any more, and what it has sent still reaches the other.
    const leave = () => {
      other.unpipe(side);
      other.once('close', () => side.destroy());
      if (other.writableFinished) closeGently(other);
      else other.once('finish', () => closeGently(other));
    };
    // Fault: a side sends a close frame and closes while bytes for it are on their way. A write to it fails, which destroyed its
    // connection before the frame was read. So it is read to its end, which comes soon. Only a side that has ended its half fails with
    // EPIPE, and any other has broken.
    outliveFailedWrites(side, ({ code }) => {
      // Fault: a client closes, and a write to it fails only then. Its service waited unread for `finMs` until the client took more.
      if (writeFault === null && side.readableEnded) leave();
      writeFault ??= code;
      return true;
    });
    side.once('end', () => {
      if (writeFault !== null && writeFault !== 'EPIPE') {
        this.#end ??= lost;
        reset(other);
        return;
      }
      this.#end ??= closed;
      if (writeFault !== null) leave();
      this.#isHalfClosed = true;
      this.deadlineAtMs = this.#deadlines.nowMs() + this.#finMs;
    });
    // Runs before the listener of http-proxy-3, which would close the other side cleanly.
    side.prependListener('error', () => {
      this.#end ??= lost;
      reset(other);
    });
    side.once('close', () => {
      this.#end ??= lost;
      // If this side did not close both of its halves, the other side has no peer left.
      if (!(side.readableEnded && side.writableFinished)) other.destroy();
      if (--this.#open === 0) this.#finish();
    });
  }

  #passed(piece: Buffer, to: Socket): void {
    // Its bytes are needed until the system has accepted all that was written. With new memory for each piece the garbage collector took
    // two thirds of the time of a tunnel that carries much.
    if (to.writableLength === 0) PIECES.giveBack(piece);
    this.#lastByteAtMs = this.#deadlines.nowMs();
    this.#worked(this.#beganAtMs, this.#lastByteAtMs);
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
