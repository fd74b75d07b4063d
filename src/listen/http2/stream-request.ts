import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { ClientRequest, ReadConfirming, RequestTimed, TrailerStream } from '../../http1/client.ts';
import { type Deadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import type { StreamHead } from './stream-fields.ts';
import { StreamResponse } from './stream-response.ts';

/** How much of a body that is not taken is read from its stream. */
const READ_AHEAD_BYTES = 16 * 1024;

/** The session's connection. */
interface Carrier {
  readonly remoteAddress?: string | undefined;
}

export interface StreamOptions {
  readonly deadlines: Deadlines;
  readonly requestTimeoutMs: number;
  readonly writeTimeoutMs: number;
  /** The current value of Date. */
  readonly date: () => string;
  /** Called when the request is to be served: at once, or when it is known whether it has a body. */
  readonly onBegun: (request: StreamRequest, response: StreamResponse) => void;
  /** The request has not arrived within `requestTimeoutMs`. */
  readonly onLate: (request: StreamRequest, response: StreamResponse) => void;
  /** Called with the size of each piece of the request's body. */
  readonly onBytes: (bytes: number) => void;
  /** The whole response has been written, or has broken off. */
  readonly onAnswered: (request: StreamRequest) => void;
  /** Ends the session once its current streams have ended. */
  readonly endSession: () => void;
}

const { NGHTTP2_NO_ERROR, NGHTTP2_CANCEL } = constants;

const NO_TRAILERS: readonly string[] = Object.freeze([]);

/**
 * The request of one stream, its body, and what the gateway uses of a connection: a stream carries one request.
 *
 * It is destroyed when the stream closes, and at once when the client resets it. If a response breaks off, the stream is reset, so that the
 * client does not take the response for complete.
 */
export class StreamRequest
  extends Readable
  implements ClientRequest, ReadConfirming, TrailerStream, RequestTimed, Timed
{
  deadlineAtMs: number;
  slot = UNWATCHED;
  readonly method: string;
  readonly url: string;
  rawHeaders: readonly string[];
  readonly encrypted = true;
  /** For Via and the log. */
  readonly httpVersion = '2.0';
  readonly carrier: Carrier;
  readonly remoteAddress: string | undefined;
  readonly response: StreamResponse;
  requestTrailers: readonly string[] = NO_TRAILERS;
  readonly #stream: ServerHttp2Stream;
  readonly #declaredBytes: number;
  readonly #options: StreamOptions;
  #body: StreamHead['body'];
  #received = 0;
  /** By when the whole request has to have arrived; infinite once it has. */
  #arriveByMs: number;
  /** By when the client has to read on; infinite while the gateway does not wait for that. */
  #readByMs = Number.POSITIVE_INFINITY;
  /** The client has sent all of its request. */
  #whole = false;
  #brokenOff = false;

  constructor(stream: ServerHttp2Stream, head: StreamHead, carrier: Carrier, options: StreamOptions) {
    super({ highWaterMark: READ_AHEAD_BYTES, autoDestroy: false });
    this.method = head.method;
    this.url = head.target;
    this.rawHeaders = head.fields;
    this.carrier = carrier;
    this.remoteAddress = carrier.remoteAddress;
    this.#stream = stream;
    this.#declaredBytes = head.contentLength;
    this.#body = head.body;
    this.#options = options;
    this.#arriveByMs = options.deadlines.nowMs() + options.requestTimeoutMs;
    this.deadlineAtMs = this.#arriveByMs;
    this.response = new StreamResponse(this, stream, options.date);
  }

  /** All that is used of it is here: the address, the end, and what only streams have. */
  get socket(): Socket & ReadConfirming & TrailerStream & RequestTimed {
    return this as unknown as Socket & StreamRequest;
  }

  get complete(): boolean {
    return this.#whole;
  }

  /** Whether the client has yet to send more of its request, or to read more of its response. */
  get waitsForClient(): boolean {
    return !this.#whole || this.response.isBlocked;
  }

  /** How many bytes of the request's body have not been read; infinite if that is not known. */
  get bytesToCome(): number {
    if (this.#whole) return 0;
    return this.#body === 'length' ? Math.max(0, this.#declaredBytes - this.#received) : Number.POSITIVE_INFINITY;
  }

  /** Which side ended the stream: the gateway, if it completed the response or broke it off, otherwise the client. */
  get endedBy(): 'gateway' | 'client' {
    return this.response.hasEnded || this.#brokenOff ? 'gateway' : 'client';
  }

  confirmRead(reader: { onRead(): void }): boolean {
    const stream = this.#stream;
    if (stream.closed || stream.destroyed || stream.writableLength === 0) return false;
    const read = () => {
      stream.removeListener('finish', read);
      stream.removeListener('close', read);
      reader.onRead();
    };
    stream.once('finish', read);
    stream.once('close', read);
    return true;
  }

  awaitTrailers(): void {
    this.response.awaitTrailers();
    // The client may send for as long as the service answers: a stream in both directions is one request.
    this.#waitUntil(Number.POSITIVE_INFINITY, this.#readByMs);
  }

  sendTrailers(fields: readonly string[]): void {
    this.response.trailers = fields;
  }

  requestWithin(ms: number): void {
    this.#waitUntil(this.#arriveByMs + ms - this.#options.requestTimeoutMs, this.#readByMs);
  }

  /** Looks whether a client is still there, as an empty write does on a connection. The session knows that without. */
  write(_nothing: ''): boolean {
    return true;
  }

  endSession(): void {
    this.#options.endSession();
  }

  onDeadline(): void {
    if (this.#readByMs > this.#arriveByMs) this.#options.onLate(this, this.response);
    else if (!this.response.hasEnded) this.destroy();
    else if (this.#stream.closed) this.#stream.destroy();
    else this.#stream.close(NGHTTP2_CANCEL);
  }

  /** Starts to serve it. */
  begin(): void {
    const stream = this.#stream;
    const leave = () => void this.destroy();
    stream.once('aborted', leave);
    stream.once('close', leave);
    // Without a listener, an error of the stream would end the process.
    this.on('error', IGNORE);
    if (this.#body === 'none') {
      this.#whole = true;
      this.#arriveByMs = Number.POSITIVE_INFINITY;
      stream.resume();
      this.#serve();
      return;
    }
    this.#options.deadlines.watch(this);
    stream.once('trailers', (_headers, _flags, raw: string[]) => {
      this.requestTrailers = raw;
    });
    stream.on('data', (chunk: Buffer) => this.#onBody(chunk));
    stream.once('end', () => this.#onBodyEnd());
    if (this.#body !== 'unknown') this.#serve();
  }

  /** The client has `writeTimeout` to read what was written. */
  waitForReader(): void {
    const { deadlines, writeTimeoutMs } = this.#options;
    this.#waitUntil(this.#arriveByMs, deadlines.nowMs() + writeTimeoutMs);
    if (this.slot === UNWATCHED) deadlines.watch(this);
  }

  readOn(): void {
    this.#waitUntil(this.#arriveByMs, Number.POSITIVE_INFINITY);
    this.emit('drain');
  }

  answered(): void {
    this.#options.onAnswered(this);
    this.#arriveByMs = Number.POSITIVE_INFINITY;
    // Fault: Node closes no stream that has a body to be read, so streams of refused uploads stayed open.
    if (!this.#whole) this.#stream.resume();
    if (!this.#stream.closed) this.waitForReader();
  }

  dropRest(): void {
    if (this.#whole) return;
    // Before the stream ends, whose end would be taken for that of the body.
    this.destroy();
    if (!this.#stream.closed) this.#stream.close(NGHTTP2_NO_ERROR);
  }

  override _read(): void {
    this.#stream.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#options.deadlines.forget(this);
    // What has arrived is dropped, or the stream would not close.
    this.#stream.resume();
    if (!this.response.hasEnded) {
      if (!this.#stream.closed) {
        this.#brokenOff = true;
        // Not `close`, which ends the body before it resets the stream: the client would take the response for complete.
        this.#stream.destroy(error ?? new Error('the answer broke off'));
      }
      this.#options.onAnswered(this);
    }
    done(error);
  }

  #waitUntil(arriveByMs: number, readByMs: number): void {
    this.#arriveByMs = arriveByMs;
    this.#readByMs = readByMs;
    this.deadlineAtMs = Math.min(arriveByMs, readByMs);
  }

  #serve(): void {
    if (this.#body === 'chunked') this.rawHeaders = [...this.rawHeaders, 'transfer-encoding', 'chunked'];
    this.#options.onBegun(this, this.response);
  }

  #onBody(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#received += chunk.length;
    this.#options.onBytes(chunk.length);
    if (this.destroyed || this.response.hasEnded) return;
    if (this.#body === 'length' && this.#received > this.#declaredBytes) {
      this.destroy();
      return;
    }
    const isUnknown = this.#body === 'unknown';
    if (isUnknown) this.#body = 'chunked';
    if (!this.push(chunk)) this.#stream.pause();
    if (isUnknown) this.#serve();
  }

  #onBodyEnd(): void {
    if (this.destroyed) return;
    const { aborted, rstCode } = this.#stream;
    const isShort = this.#body === 'length' && this.#received !== this.#declaredBytes;
    if (aborted || (rstCode ?? 0) !== 0 || isShort) {
      this.destroy();
      return;
    }
    this.#whole = true;
    this.#waitUntil(Number.POSITIVE_INFINITY, this.#readByMs);
    this.push(null);
    if (this.#body !== 'unknown') return;
    this.#body = 'none';
    this.#serve();
  }
}

const IGNORE = () => {};
