import type { ServerHttp2Session } from 'node:http2';
import { TokenBucket } from '../../io/token-bucket.ts';
import { STREAM_WINDOW_BYTES } from './unread-requests.ts';

/**
 * How much a client may send on all streams together before the gateway says that it has it. Node says so as soon as it has it, so this
 * window holds nothing back. It is large because Node counts what was received only within half of it.
 */
const SESSION_WINDOW_BYTES = 2 ** 30;

const BURST_BYTES = 256 * 1024;
const BYTES_PER_SECOND = 32 * 1024;
/** A client needs at most one byte of WINDOW_UPDATE frames for this many bytes of responses. */
const WRITTEN_PER_READ = 100;
const FRAME_HEAD_BYTES = 9;
/** DATA that is excused comes in frames of at least this size, on average. */
const EXCUSED_FRAME_BYTES = 1024;

/** The bytes that one session has transferred so far. */
interface Traffic {
  /** Everything received. */
  readonly read: number;
  readonly written: number;
  /** Bytes of bodies that have arrived on streams that are open, and have not been read. */
  readonly unread: number;
}

/**
 * Bounds what a session may send besides requests.
 *
 * Attack: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown frames and padding cost the client a few bytes each
 * and the server the work of reading them, without a request that a limit could count (CVE-2019-9511 to 9518). So bytes are
 * counted, of any kind: those received, less those of requests, less an allowance for acknowledging responses.
 *
 * Fault: a request was refused before its body had arrived. The client sent what the window of the stream allowed, which was counted as
 * besides requests, and 27 refused uploads cut the session of a load balancer with the requests of all its clients. So DATA on a stream
 * that ended before its body was read is excused, up to the window of the stream. Nothing else is: other frames than DATA, and DATA
 * beyond what ended streams had been granted, are charged. A client pays for each window with a request, which waits for the turn of its
 * address and counts as a failed attempt of it or a request of its key.
 */
export class OverheadBudget {
  readonly #session: ServerHttp2Session;
  readonly #budget: TokenBucket;
  readonly #maxExcused: number;
  /** Bytes of the fields of requests, and of the heads of frames with a part of a body. */
  #heads = 0;
  /** Bytes of bodies that were read. */
  #bodies = 0;
  /** Bytes of DATA that may arrive, or have arrived since the last look, on streams that have ended. */
  #excused = 0;
  #dataBytes = 0;
  /** `effectiveRecvDataLength` at the last look. */
  #dataLength = 0;
  #before = { read: 0, written: 0, heads: 0, data: 0, stray: 0 };

  constructor(session: ServerHttp2Session, maxStreams: number, nowMs: number) {
    session.setLocalWindowSize(SESSION_WINDOW_BYTES);
    this.#session = session;
    this.#maxExcused = maxStreams * STREAM_WINDOW_BYTES;
    this.#budget = new TokenBucket(BURST_BYTES, BYTES_PER_SECOND, nowMs);
  }

  /** The fields of a request. */
  head(bytes: number): void {
    this.#heads += bytes;
  }

  /** A piece of a body that was read. */
  body(bytes: number): void {
    this.#heads += FRAME_HEAD_BYTES;
    this.#bodies += bytes;
  }

  /** A stream has ended before its body was read. @param bytes that its body may still have had */
  excuse(bytes: number): void {
    this.#excused = Math.min(this.#maxExcused, this.#excused + Math.min(STREAM_WINDOW_BYTES, bytes));
  }

  /** The session ends. Streams that the client opens until it knows are ignored. */
  excuseAll(): void {
    this.#excused = this.#maxExcused;
  }

  /** @returns false if too many bytes were received that belong to no request */
  look({ read, written, unread }: Traffic, nowMs: number): boolean {
    const before = this.#before;
    if (read === before.read) {
      before.written = written;
      return true;
    }
    const data = this.#data();
    const stray = data - this.#bodies - unread;
    const charged = Math.max(0, stray - before.stray - this.#excused);
    const excused = stray - before.stray - charged;
    this.#excused = Math.min(this.#maxExcused, this.#excused - excused);
    const useful =
      this.#heads -
      before.heads +
      (data - before.data - charged) +
      (Math.max(0, excused) / EXCUSED_FRAME_BYTES) * FRAME_HEAD_BYTES +
      (written - before.written) / WRITTEN_PER_READ;
    this.#before = { read, written, heads: this.#heads, data, stray };
    return this.#budget.spend(Math.max(0, read - before.read - useful), nowMs);
  }

  /** Bytes of DATA that were received so far, on any stream, with their padding. */
  #data(): number {
    const length = this.#session.state.effectiveRecvDataLength ?? this.#dataLength;
    // Node begins again whenever it grants the client another half of the window.
    const before = length < this.#dataLength ? this.#dataLength - SESSION_WINDOW_BYTES / 2 : this.#dataLength;
    this.#dataBytes += length - before;
    this.#dataLength = length;
    return this.#dataBytes;
  }
}
