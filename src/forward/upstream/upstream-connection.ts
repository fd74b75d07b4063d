import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { type ResponseHandler, type ResponseHead, ResponseReader } from '../../http1/response-reader.ts';
import { afterReading } from '../../io/after-reading.ts';
import { type Deadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { reset } from '../../io/graceful-close.ts';
import { interceptEnds, outliveFailedWrites } from '../../io/node-internals.ts';
import { type BufferReader, endInTurn, type Intake, SharedBufferSocket } from '../../io/read-buffers.ts';
import { rawOf } from '../../io/tls-carrier.ts';
import { TextWriter } from '../../io/writes.ts';
import { BodySender, type ForwardRequest, type RequestBody, UntakenBody } from '../request-body.ts';

/** A name is resolved for each new connection. None is reused when older than this, so a DNS change takes effect. */
const MAX_AGE_MS = 30_000;

/** A server may send this before it closes a connection that has been idle for too long (RFC 9110 section 15.5.9). */
const REQUEST_TIMEOUT = /^HTTP\/1\.[01] 408[ \r]/;

/** Reading less takes hardly longer than measuring it. The end of each response is measured anyway. */
const MEASURED_BYTES = 4 * 1024;

/**
 * How long the head of an answer may take after a write has failed. What the target had sent has mostly arrived by then,
 * and the target cannot send more if it has closed the connection.
 */
const LAST_ANSWER_MS = 1_000;

/** What carries one request at a time to a target: a connection of HTTP/1.1, or a stream of HTTP/2. */
export interface RequestCarrier {
  /** Whether the service may have dropped the last request unseen, so that it may be sent once more if it is idempotent. */
  readonly mayHaveClosedIdle: boolean;
  /** Whether some of the request's body had not been handed to the system when the connection broke. */
  readonly isBodyUnsent: boolean;
  /** Whether the client is the slow side: it must send more of its body, and all that it has sent has been passed on. */
  readonly waitsForClient: boolean;
  /** Whether bytes that the service has sent wait for their turn. */
  readonly hasWaiting: boolean;
  carry(request: ForwardRequest, carried: InFlightRequest): void;
  pause(): void;
  resume(): void;
  /** Breaks the request off, if it still carries this one. */
  dropped(carried: InFlightRequest): void;
}

/** One connection of HTTP/1.1 to a target. */
export class UpstreamConnection implements RequestCarrier, ResponseHandler, Timed, BufferReader {
  /** When it has been idle for too long, or the answer after a failed write is late. */
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  /** Meaningful only while it is idle. */
  idleSinceMs = 0;
  readonly #socket: Socket;
  /**
   * The connection below TLS, which is read in the turns of its owner; null without TLS.
   *
   * Attack: each connection over TLS had turns of its own, so that a consumer had as many as it had responses.
   */
  readonly #inTurns: SharedBufferSocket | null;
  readonly #writer: TextWriter;
  readonly #address: RequestAddress;
  readonly #keeper: ConnectionKeeper;
  readonly #reader: ResponseReader;
  readonly #openedAtMs: number;
  readonly #deadlines: Deadlines;
  #carried: InFlightRequest | null = null;
  /** The request whose response is complete, until `onFree` has been called on it and the connection is idle. */
  #answered: InFlightRequest | null = null;
  #body: BodySender | UntakenBody | null = null;
  #keepIdleMs = 0;
  #used = false;
  /** Nothing has been received since the last request was written. */
  #isSilent = true;
  /** Whether the bytes being read are in a shared buffer, so that they must be copied to be kept. */
  #isLent = false;
  #hasReportedUnasked = false;
  readonly #intake: Intake | null;
  #bodyUnsent = false;
  #error: NodeJS.ErrnoException | null = null;
  /** Whether the head of a request is being written. */
  #isAsking = false;
  /** Whether a write has failed while a response was awaited. Nothing more is written then. */
  #hasWriteFailed = false;

  /**
   * @param socket connected
   * @param intake delivers the bytes received; null if the socket is read as a stream
   * @param address of the target
   */
  constructor(
    socket: Socket,
    intake: Intake | null,
    address: RequestAddress,
    keeper: ConnectionKeeper,
    deadlines: Deadlines,
  ) {
    this.#socket = socket;
    const raw = rawOf(socket);
    this.#inTurns = raw instanceof SharedBufferSocket ? raw : null;
    this.#writer = new TextWriter(socket);
    this.#address = address;
    this.#keeper = keeper;
    this.#deadlines = deadlines;
    this.#openedAtMs = deadlines.nowMs();
    this.#reader = new ResponseReader(this);
    this.#intake = intake?.into(this, socket) === true ? intake : null;
    if (this.#intake === null) socket.on('data', (chunk: Buffer) => this.onBytes(chunk, false));
    socket.on('end', this.#onFin);
    // Fault: a service ends, and with it the requests on all its connections at the same moment. For each of them there is a 502, and a new
    // connection for one that waits.
    const weight = socket instanceof TLSSocket ? Number.POSITIVE_INFINITY : 1;
    interceptEnds(socket, (end) => {
      if (this.#carried === null) {
        end();
        return;
      }
      endInTurn(this, weight, () => {
        this.#intake?.deliver();
        end();
      });
    });
    outliveFailedWrites(socket, this.#onWriteFailed);
    socket.on('error', (error) => {
      this.#error ??= error;
    });
    socket.on('close', this.#onClose);
    deadlines.watch(this);
  }

  /**
   * Whether it has carried a response before and nothing has been received for its last request: the service may have
   * closed it as idle just as that request was sent (RFC 9112 section 9.3.1).
   */
  get mayHaveClosedIdle(): boolean {
    return this.#used && this.#isSilent;
  }

  /** Takes the connection for a request. @returns false if it has closed or been idle for too long */
  takeIdle(nowMs: number): boolean {
    // Bytes that wait for their turn answer no request.
    const usable = this.deadlineAtMs > nowMs && !this.#socket.destroyed && !this.hasWaiting;
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    if (!usable) this.#socket.destroy();
    return usable;
  }

  onDeadline(): void {
    this.#socket.destroy();
  }

  get hasWaiting(): boolean {
    return this.#intake?.hasWaiting === true || this.#inTurns?.hasWaiting === true;
  }

  get isBodyUnsent(): boolean {
    return this.#bodyUnsent;
  }

  get waitsForClient(): boolean {
    return this.#body !== null && !this.#body.done && !this.#body.isHeldUp;
  }

  carry(request: ForwardRequest, carried: InFlightRequest): void {
    this.#carried = carried;
    this.#isSilent = true;
    if (this.#inTurns !== null) this.#inTurns.owner = carried.share;
    this.#reader.begin(request.method);
    const { body } = request;
    const head = requestHead(request, this.#address);
    this.#isAsking = true;
    this.#writer.write(body?.framing === 'whole' ? head + body.text : head);
    this.#isAsking = false;
    this.#body = body === null ? null : this.#send(body);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Closes it if it still carries this request: the rest of that response would be taken for the response to the next. */
  dropped(carried: InFlightRequest): void {
    if (this.#carried === carried) this.destroy();
  }

  /** Closes it at once, without calling the request that it carries. */
  destroy(): void {
    this.#release();
    this.#reader.abandon();
    this.#socket.destroy();
  }

  /** Like `destroy`, but with a TCP reset. */
  reset(): void {
    this.#release();
    this.#reader.abandon();
    reset(this.#socket);
  }

  onInformation(status: number, fields: readonly string[]): void {
    this.#carried?.onInformation(status, fields);
  }

  onHead(head: ResponseHead): void {
    this.#keepIdleMs = head.keepsAlive ? idleMs(head.keepAlive) : 0;
    // From here the deadlines of the request are enough.
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    this.#carried?.onHead(head);
  }

  onData(chunk: Buffer): void {
    this.#carried?.onData(this.#isLent ? Buffer.from(chunk) : chunk);
  }

  onEnd(): void {
    const carried = this.#carried;
    // An upstream that responds before it has the whole request is not sent the rest.
    const isWholeRequestSent = this.#body === null || this.#body.done;
    this.#release();
    this.#used = true;
    if (!isWholeRequestSent || this.#keepIdleMs === 0 || this.#hasWriteFailed) this.#socket.destroy();
    this.#answered = carried;
    afterReading(this.#atEndOfTurn);
  }

  readonly #atEndOfTurn = (): void => {
    // Before the response ends for its client, so that an error there does not keep the connection.
    afterReading(this.#atNextEndOfTurn);
    this.#answered?.onEnd();
  };

  /** When everything that arrived after the response, even a FIN, has been read. */
  readonly #atNextEndOfTurn = (): void => {
    const answered = this.#answered;
    this.#answered = null;
    this.#becomeIdle();
    answered?.onFree();
  };

  /**
   * Becomes idle once everything that had arrived with the response has been read.
   *
   * Attack: bytes after a response, in the next packet or in the buffer of a paused connection, would be taken for the
   * response to the next request, which may be another client's. And a connection that the upstream closed after its
   * response would be given a request that it never reads.
   */
  #becomeIdle(): void {
    if (this.#socket.destroyed) return;
    const nowMs = this.#deadlines.nowMs();
    if (this.#socket.readableLength > 0) this.#onUnasked();
    else if (nowMs - this.#openedAtMs > MAX_AGE_MS || this.hasWaiting) this.#socket.destroy();
    else {
      this.idleSinceMs = nowMs;
      this.deadlineAtMs = nowMs + this.#keepIdleMs;
      this.#keeper.onIdle(this);
    }
  }

  #send(body: RequestBody): BodySender | UntakenBody | null {
    if (body.framing === 'whole') {
      return UntakenBody.on(this.#socket, this.#writer.hasTakenAll && !this.#hasWriteFailed);
    }
    return new BodySender(body, this.#socket, body.framing, {
      onBodySent: () => this.#carried?.onBodySent(),
      onBodyFault: (error) => this.#carried?.onBodyFault(error),
    });
  }

  get isAmidBody(): boolean {
    return this.#reader.isAmidBody;
  }

  get owner(): unknown {
    return this.#carried?.share ?? this;
  }

  onBytes(chunk: Buffer, isLent: boolean): boolean {
    const carried = this.#carried;
    if (carried === null || chunk.length < MEASURED_BYTES) return this.#onBytes(chunk, isLent);
    const fromMs = this.#deadlines.nowMs();
    const isFree = this.#onBytes(chunk, isLent);
    carried.worked(fromMs, this.#deadlines.nowMs());
    return isFree;
  }

  #onBytes(chunk: Buffer, isLent: boolean): boolean {
    this.#isSilent = false;
    this.#isLent = isLent;
    const wasIdle = this.#carried === null;
    try {
      this.#reader.read(chunk);
    } catch (error) {
      this.#break(error instanceof Error ? error : new Error(String(error)));
      return false;
    }
    if (!this.#reader.excess) this.#carried?.onPause();
    else if (wasIdle && isRequestTimeout(chunk)) this.#socket.destroy();
    else this.#onUnasked();
    this.#answered?.onWhole();
    return (this.#carried ?? this.#answered)?.isBufferReleased === true;
  }

  /** The upstream has sent bytes that answer no request. They would be taken for the response to the next one. */
  #onUnasked(): void {
    if (!this.#hasReportedUnasked) this.#keeper.onUnasked(this);
    this.#hasReportedUnasked = true;
    this.#socket.destroy();
  }

  /**
   * Continues to read after a failed write.
   *
   * Fault: a service answers an upload that it does not want and closes the connection. The next write fails, while the
   * answer waits to be read. An error in one direction does not end the other.
   *
   * If the head of a request cannot be written on a reused connection, the service had closed it before. Bytes that wait
   * there, such as a 408, do not answer this request.
   */
  readonly #onWriteFailed = (error: NodeJS.ErrnoException): boolean => {
    if (this.#carried === null || (this.#isAsking && this.#used)) return false;
    if (this.#hasWriteFailed) return true;
    this.#hasWriteFailed = true;
    this.#error = error;
    this.#body?.stop();
    if (!this.#reader.isAmidBody) this.deadlineAtMs = this.#deadlines.nowMs() + LAST_ANSWER_MS;
    return true;
  };

  readonly #onFin = (): void => {
    // A write that failed for another reason than EPIPE has taken the reset off the connection, and what follows looks
    // like the end of a body that only the end of the connection ends. Before an EPIPE the target has closed its half.
    const isReset = this.#hasWriteFailed && this.#error?.code !== 'EPIPE';
    if (this.#carried !== null && (isReset || !this.#reader.end())) {
      this.#break(this.#error ?? new Error('the upstream closed the connection'));
    } else this.#socket.destroy();
  };

  readonly #onClose = (): void => {
    this.#deadlines.forget(this);
    this.#break(this.#error ?? new Error('the connection was closed'));
    this.#keeper.onClosed(this);
  };

  #break(error: Error): void {
    const carried = this.#carried;
    this.#bodyUnsent = this.#body !== null && (this.#hasWriteFailed || !this.#body.done || !this.#writer.hasTakenAll);
    this.#release();
    this.#reader.abandon();
    this.#socket.destroy();
    carried?.onBroken(error);
  }

  #release(): void {
    this.#carried = null;
    this.#body?.stop();
    this.#body = null;
    if (this.#socket.isPaused()) this.#socket.resume();
  }
}

function isRequestTimeout(chunk: Buffer): boolean {
  return REQUEST_TIMEOUT.test(chunk.toString('latin1', 0, 16));
}

/** The request that a connection is carrying. The connection calls these methods. */
export interface InFlightRequest extends ResponseHandler {
  /** Of its consumer: what its responses bring shares a turn. */
  readonly share: object;
  /** Everything received so far has been passed on: what was held back to be sent with more is sent now. */
  onPause(): void;
  /** The whole response has been passed on. A large one can be written now, without waiting for `onEnd`. */
  onWhole(): void;
  /** Whether no chunk that was passed on is needed any more, so that its buffer can be used again. */
  readonly isBufferReleased: boolean;
  /** The last of the body has been written to the upstream. Not called for a request sent in a single write. */
  onBodySent(): void;
  /** The thread has worked on the response since `fromMs`, on the clock of the deadlines. */
  worked(fromMs: number, toMs: number): void;
  /** Before the response was complete, the connection closed or received something that is not a response. */
  onBroken(error: Error): void;
  /** After the end of the response: the connection is idle or closed, so its place in the pool can be given back. */
  onFree(): void;
  /** The body that the client sends is at fault. */
  onBodyFault(error: Error): void;
  /** The trailers of the response, names and values in turn. Called before `onEnd`, by HTTP/2 alone. */
  onTrailers?(fields: readonly string[]): void;
}

/** Keeps idle connections. Each connection calls these methods. */
export interface ConnectionKeeper {
  /** Its response is complete, and it may carry another request. */
  onIdle(connection: UpstreamConnection): void;
  /** The upstream sent bytes on it that answer no request. It is closed by this call, or right after it. */
  onUnasked(connection: UpstreamConnection): void;
  onClosed(connection: UpstreamConnection): void;
}

/** The parts of a request that depend on its target. */
export interface RequestAddress {
  /** The value of Host. */
  readonly authority: string;
  /** Comes in front of the path; empty, or `/store`. */
  readonly base: string;
}

/** The head of a request as it is written to the wire. */
function requestHead(
  { method, target, host, lines, body }: ForwardRequest,
  { authority, base }: RequestAddress,
): string {
  const coding = body?.framing === 'chunked' ? 'Transfer-Encoding: chunked\r\n' : '';
  return `${method} ${base}${target} HTTP/1.1\r\nHost: ${host ?? authority}\r\n${lines}${coding}\r\n`;
}

/** Shorter than the idle timeouts of common servers, so that the gateway closes an idle connection first. */
const IDLE_MS = 4_000;
/** How long before its Keep-Alive timeout a connection is no longer used, to allow for time on the network. */
const IDLE_MARGIN_MS = 1_000;

/**
 * How long a connection may stay idle, in milliseconds; 0 if it is not worth keeping.
 * @param keepAlive the Keep-Alive fields of its last response
 */
export function idleMs(keepAlive: readonly string[]): number {
  for (const value of keepAlive) {
    const timeout = /(?:^|[\s,])timeout=([0-9]{1,9})/i.exec(value);
    if (timeout !== null) return Math.max(0, Math.min(IDLE_MS, Number(timeout[1]) * 1_000 - IDLE_MARGIN_MS));
  }
  return IDLE_MS;
}
