import type { Socket } from 'node:net';
import { type AnswerHandler, type AnswerHead, AnswerReader } from './answer-reader.ts';
import { BodySender, type RequestBody, UntakenBody } from './body.ts';
import type { Carried, ConnectionKeeper } from './carrying.ts';
import { type Deadlines, UNWATCHED, type Waiting } from './deadlines.ts';
import type { Ending, EndOfTurn } from './end-of-turn.ts';
import type { ForwardRequest } from './forwarding.ts';
import { idleMs } from './idle.ts';
import type { Intake, Reader } from './intake.ts';
import { requestHead } from './request-head.ts';
import { TextWriter } from './text-writer.ts';

/** Names are resolved again for each new connection: none is used for longer than this, so that a change of DNS shows. */
const MAX_AGE_MS = 30_000;

/** How a server may announce that it closes a connection which has been idle for too long (RFC 9110 section 15.5.9). */
const REQUEST_TIMEOUT = /^HTTP\/1\.[01] 408[ \r]/;

/** One connection to a target, carrying one request at a time. */
export class UpstreamConnection implements AnswerHandler, Waiting, Ending, Reader {
  /** Of its idleness. */
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  /** Set while it is idle. */
  idleSinceMs = 0;
  readonly #socket: Socket;
  readonly #writer: TextWriter;
  readonly #authority: string;
  readonly #keeper: ConnectionKeeper;
  readonly #reader: AnswerReader;
  readonly #openedAtMs: number;
  readonly #deadlines: Deadlines;
  readonly #endOfTurn: EndOfTurn;
  #carried: Carried | null = null;
  /** Whose answer is whole, until it has been told and the connection rests. */
  #answered: Carried | null = null;
  #body: BodySender | UntakenBody | null = null;
  #keepsFor = 0;
  #used = false;
  #isSilent = true;
  #isLent = false;
  #hasToldUnasked = false;
  readonly #intake: Intake | null;
  #bodyUnsent = false;
  #error: Error | null = null;

  /**
   * @param socket connected
   * @param intake where its bytes come out; null: it is read as a stream
   * @param authority what Host says
   */
  constructor(
    socket: Socket,
    intake: Intake | null,
    authority: string,
    keeper: ConnectionKeeper,
    deadlines: Deadlines,
    endOfTurn: EndOfTurn,
  ) {
    this.#socket = socket;
    this.#writer = new TextWriter(socket);
    this.#authority = authority;
    this.#keeper = keeper;
    this.#deadlines = deadlines;
    this.#endOfTurn = endOfTurn;
    this.#openedAtMs = deadlines.nowMs();
    this.#reader = new AnswerReader(this);
    this.#intake = intake;
    if (intake === null) socket.on('data', (chunk: Buffer) => this.onBytes(chunk, false));
    else intake.into(this);
    socket.on('end', this.#onFin);
    socket.on('error', (error) => {
      this.#error = error;
    });
    socket.on('close', this.#onClose);
    deadlines.watch(this);
  }

  /**
   * Whether it carried an answer before and has said nothing to its last request: the service may have closed it as idle
   * just when that went out (RFC 9112 section 9.3.1).
   */
  get diedOfAge(): boolean {
    return this.#used && this.#isSilent;
  }

  /** Takes it out of idleness. @returns false where it has died or grown too old meanwhile */
  takeUp(nowMs: number): boolean {
    const usable = this.deadlineAtMs > nowMs && !this.#socket.destroyed;
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    if (!usable) this.#socket.destroy();
    return usable;
  }

  onDeadline(): void {
    this.#socket.destroy();
  }

  /** Whether some of the request's body has not been handed to the system yet. */
  get isBodyUnsent(): boolean {
    return this.#bodyUnsent;
  }

  /** The client is the slow one: it has still to send some of its body, and nothing of what it sent waits here. */
  get waitsForClient(): boolean {
    return this.#body !== null && !this.#body.done && !this.#body.isHeldUp;
  }

  carry(request: ForwardRequest, carried: Carried): void {
    this.#carried = carried;
    this.#isSilent = true;
    this.#reader.begin(request.method);
    const { body } = request;
    const head = requestHead(request, this.#authority);
    this.#writer.write(body?.framing === 'whole' ? head + body.text : head);
    this.#body = body === null ? null : this.#send(body);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Ends it, where it still carries this request: what is left of its answer would be taken for that to the next. */
  dropped(carried: Carried): void {
    if (this.#carried === carried) this.destroy();
  }

  /** Ends it at once; whom it carries is told nothing more. */
  destroy(): void {
    this.#release();
    this.#reader.abandon();
    this.#socket.destroy();
  }

  /** As `destroy`, with a reset in place of a close. Only for a connection over plain TCP. */
  reset(): void {
    this.#release();
    this.#reader.abandon();
    this.#socket.resetAndDestroy();
  }

  onInformation(status: number, fields: readonly string[]): void {
    this.#carried?.onInformation(status, fields);
  }

  onHead(head: AnswerHead): void {
    this.#keepsFor = head.keepsAlive ? idleMs(head.keepAlive) : 0;
    this.#carried?.onHead(head);
  }

  onData(chunk: Buffer): void {
    this.#carried?.onData(this.#isLent ? this.#intake!.copyOf(chunk) : chunk);
  }

  onEnd(): void {
    const carried = this.#carried;
    // An upstream that answers before it has the whole request is told nothing more of it.
    const isWholeRequestSent = this.#body === null || this.#body.done;
    this.#release();
    this.#used = true;
    if (!isWholeRequestSent || this.#keepsFor === 0) this.#socket.destroy();
    this.#answered = carried;
    this.#endOfTurn.add(this);
  }

  atEnd(): void {
    this.#answered?.onEnd();
  }

  /** Not in the same turn: what had arrived behind the answer, a FIN too, has been read in the turn between. */
  atNextEnd(): void {
    const answered = this.#answered;
    this.#answered = null;
    this.#rest();
    answered?.onFree();
  }

  /**
   * Becomes idle when all that had arrived with the answer has been read.
   *
   * Attack: bytes behind an answer, in the next packet or in the buffer of a connection that was paused, would be taken for
   * the answer to the request that is written next, which may be another client's. And a connection that was closed
   * behind its answer would be given a request that nobody reads.
   */
  #rest(): void {
    if (this.#socket.destroyed) return;
    const nowMs = this.#deadlines.nowMs();
    if (this.#socket.readableLength > 0) this.#onUnasked();
    else if (nowMs - this.#openedAtMs > MAX_AGE_MS) this.#socket.destroy();
    else {
      this.idleSinceMs = nowMs;
      this.deadlineAtMs = nowMs + this.#keepsFor;
      this.#keeper.onIdle(this);
    }
  }

  #send(body: RequestBody): BodySender | UntakenBody | null {
    if (body.framing === 'whole') return UntakenBody.on(this.#socket, this.#writer);
    return new BodySender(body, this.#socket, {
      onBodySent: () => this.#carried?.onBodySent(),
      onBodyFault: (error) => this.#carried?.onBodyFault(error),
    });
  }

  get isAmidBody(): boolean {
    return this.#reader.isAmidBody;
  }

  onBytes(chunk: Buffer, isLent: boolean): boolean {
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
    return (this.#carried ?? this.#answered)?.hasLetGo === true;
  }

  /** The upstream has sent bytes that answer no request: they would be taken for the answer to the next one. */
  #onUnasked(): void {
    if (!this.#hasToldUnasked) this.#keeper.onUnasked(this);
    this.#hasToldUnasked = true;
    this.#socket.destroy();
  }

  readonly #onFin = (): void => {
    if (this.#carried !== null && !this.#reader.end()) this.#break(new Error('the upstream closed the connection'));
    else this.#socket.destroy();
  };

  readonly #onClose = (): void => {
    this.#deadlines.forget(this);
    this.#break(this.#error ?? new Error('the connection was closed'));
    this.#keeper.onClosed(this);
  };

  #break(error: Error): void {
    const carried = this.#carried;
    this.#bodyUnsent = this.#body !== null && (!this.#body.done || !this.#writer.hasTakenAll);
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
