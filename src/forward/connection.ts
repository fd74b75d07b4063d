import type { Socket } from 'node:net';
import { type AnswerHandler, type AnswerHead, AnswerReader } from './answer-reader.ts';
import { BodySender, type RequestBody } from './body.ts';
import type { Deadlines, Waiting } from './deadlines.ts';
import type { ForwardRequest } from './forwarding.ts';

/** The request that a connection is carrying, told of everything that happens to it there. */
export interface Carried extends AnswerHandler {
  /** All that has come so far has been told: what is held back for more goes out now. */
  onPause(): void;
  /** The upstream has the whole request. */
  onBodySent(): void;
  /** The connection died, or something came on it that is no answer, before the answer was whole. */
  onBroken(error: Error): void;
  /** Behind the end of the answer: the connection can be used again, or is gone, and its place may be given back. */
  onFree(): void;
  /** The client's own body is at fault. */
  onBodyFault(error: Error): void;
}

/** What becomes of a connection, for those who keep it. */
export interface ConnectionKeeper {
  /** Its answer is whole and it may carry another request. */
  onIdle(connection: UpstreamConnection): void;
  onClosed(connection: UpstreamConnection): void;
}

/** An idle connection is closed before the servers in common use close theirs. */
const IDLE_MS = 4_000;
/** What an upstream says in Keep-Alive is used up by this much earlier, for what is on its way meanwhile. */
const IDLE_MARGIN_MS = 1_000;
/** Names are resolved again for each new connection: none is used for longer than this, so that a change of DNS shows. */
const MAX_AGE_MS = 30_000;
const FORBIDDEN = /[^\t -~\x80-\xff]/;

/** One connection to a target, carrying one request at a time. */
export class UpstreamConnection implements AnswerHandler, Waiting {
  /** Of its idleness. */
  deadlineAtMs = Number.POSITIVE_INFINITY;
  readonly #socket: Socket;
  readonly #authority: string;
  readonly #keeper: ConnectionKeeper;
  readonly #reader: AnswerReader;
  readonly #openedAtMs: number;
  readonly #deadlines: Deadlines;
  #carried: Carried | null = null;
  #body: BodySender | null = null;
  #keepsFor = 0;
  #used = false;
  #isSilent = true;
  #bodyUnsent = false;
  #error: Error | null = null;

  /**
   * @param socket connected
   * @param authority what Host says
   */
  constructor(socket: Socket, authority: string, keeper: ConnectionKeeper, deadlines: Deadlines) {
    this.#socket = socket;
    this.#authority = authority;
    this.#keeper = keeper;
    this.#deadlines = deadlines;
    this.#openedAtMs = deadlines.nowMs();
    this.#reader = new AnswerReader(this);
    socket.on('data', this.#onBytes);
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
  takeUp(): boolean {
    const usable = this.deadlineAtMs > this.#deadlines.nowMs() && !this.#socket.destroyed;
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
    this.#socket.write(headText(request, this.#authority), 'latin1');
    this.#body = request.body === null ? null : this.#send(request.body);
    if (this.#body === null) carried.onBodySent();
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

  onInformation(status: number, fields: readonly string[]): void {
    this.#carried?.onInformation(status, fields);
  }

  onHead(head: AnswerHead): void {
    this.#keepsFor = head.keepsAlive ? idleMs(head.fields) : 0;
    this.#carried?.onHead(head);
  }

  onData(chunk: Buffer): void {
    this.#carried?.onData(chunk);
  }

  onEnd(): void {
    const carried = this.#carried;
    // An upstream that answers before it has the whole request is told nothing more of it.
    const reusable = (this.#body === null || this.#body.done) && !this.#reader.excess;
    this.#release();
    this.#used = true;
    if (!reusable || this.#keepsFor === 0) this.#socket.destroy();
    carried?.onEnd();
    // Twice, so that what had arrived behind the answer, a FIN too, has been read in the turn between.
    setImmediate(() =>
      setImmediate(() => {
        this.#rest();
        carried?.onFree();
      }),
    );
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
    if (this.#reader.excess || this.#socket.readableLength > 0 || nowMs - this.#openedAtMs > MAX_AGE_MS) {
      this.#socket.destroy();
    } else {
      this.deadlineAtMs = nowMs + this.#keepsFor;
      this.#keeper.onIdle(this);
    }
  }

  #send(body: RequestBody): BodySender {
    return new BodySender(body, this.#socket, {
      onBodySent: () => this.#carried?.onBodySent(),
      onBodyFault: (error) => this.#carried?.onBodyFault(error),
    });
  }

  readonly #onBytes = (chunk: Buffer): void => {
    this.#isSilent = false;
    try {
      this.#reader.read(chunk);
    } catch (error) {
      this.#break(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    // Bytes that nobody asked for would be taken for the next answer.
    if (this.#reader.excess) this.#socket.destroy();
    else this.#carried?.onPause();
  };

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
    this.#bodyUnsent = this.#body !== null && (!this.#body.done || this.#socket.writableLength > 0);
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

/**
 * The head of a request as it goes on the wire. Attack: a line break in a field would begin a field, or a request, of the
 * client's choosing (request splitting). What comes here was checked when it was read; this is where nothing gets past.
 */
function headText({ method, target, fields, body }: ForwardRequest, authority: string): string {
  let text = `${method} ${target} HTTP/1.1\r\nHost: ${authority}\r\n`;
  for (let i = 0; i < fields.length; i += 2) {
    if (FORBIDDEN.test(fields[i]!) || FORBIDDEN.test(fields[i + 1]!)) throw new Error(`a line break in ${fields[i]}`);
    text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  }
  return body?.framing === 'chunked' ? `${text}Transfer-Encoding: chunked\r\n\r\n` : `${text}\r\n`;
}

/** How long a connection may lie idle; 0 where it is not worth keeping. */
function idleMs(fields: readonly string[]): number {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]!.length !== 10 || fields[i]!.toLowerCase() !== 'keep-alive') continue;
    const timeout = /(?:^|[\s,])timeout=([0-9]{1,9})/i.exec(fields[i + 1]!);
    if (timeout !== null) return Math.max(0, Math.min(IDLE_MS, Number(timeout[1]) * 1_000 - IDLE_MARGIN_MS));
  }
  return IDLE_MS;
}
