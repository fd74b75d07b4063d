import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { Duplex } from 'node:stream';
import type { ReadConfirming, TrailerStream } from '../../http1/client.ts';
import { valuesByName } from '../../http1/fields.ts';
import { type ResponseHandler, type ResponseHead, ResponseReader } from '../../http1/response-reader.ts';
import { type Deadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { type StreamRequest, streamFields } from './stream-fields.ts';

/** Limit on the head of the upstream's response together with the fields that the gateway adds. */
const MAX_RESPONSE_HEAD_BYTES = 24 * 1024;
const MAX_RESPONSE_FIELDS = 1_100;
/** How much of a body that is not taken is read from its stream. */
const READ_AHEAD_BYTES = 16 * 1024;

/** The addresses of the session's connection. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

interface StreamConnectionOptions {
  readonly deadlines: Deadlines;
  readonly requestTimeoutMs: number;
  readonly writeTimeoutMs: number;
  /** The request has not arrived within `requestTimeoutMs`. */
  readonly onLate: () => void;
  /** Called with the size of each piece of the request's body. */
  readonly onBytes: (bytes: number) => void;
  /** Called when the head of the request is handed to its reader. */
  readonly onBegun: () => void;
  /** Ends the session once its current streams have ended. */
  readonly endSession: () => void;
}

const { NGHTTP2_NO_ERROR, NGHTTP2_CANCEL } = constants;

const NO_TRAILERS: readonly string[] = Object.freeze([]);

/**
 * One stream, as the node:http server sees it: a connection that carries exactly one HTTP/1.1 request and its response.
 * So a stream passes the same checks, deadlines and limits as every other request. The bytes of one stream cannot
 * become part of another stream's request, because no two streams share a parser.
 *
 * The connection ends when the response is complete, and at once when the client resets the stream. If a response
 * breaks off, the stream is reset, so that the client does not take the response for complete.
 */
export class StreamConnection extends Duplex implements ResponseHandler, ReadConfirming, TrailerStream, Timed {
  deadlineAtMs: number;
  slot = UNWATCHED;
  readonly encrypted = true;
  /** The protocol version for Via and the log. The request line that is written here has 1.1. */
  readonly httpVersion = '2.0';
  /** The session's connection. */
  readonly carrier: Peer;
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localAddress: string | undefined;
  readonly localPort: number | undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #request: StreamRequest;
  readonly #options: StreamConnectionOptions;
  readonly #reader: ResponseReader;
  #body: StreamRequest['body'];
  #received = 0;
  /** The client has sent all of its request. */
  #whole = false;
  /** The gateway has written the whole response. */
  #answered = false;
  /** The head of a response that has a body, until something of the body is known. */
  #unsentHead: ResponseHead | null = null;
  /** The trailers of the response; null if none are awaited. */
  #trailers: readonly string[] | null = null;
  /** Whether the response is to end with trailers, which have yet to be sent. */
  #isTrailing = false;
  /** Called once they are sent. */
  #stop: (() => void) | null = null;
  requestTrailers: readonly string[] = NO_TRAILERS;
  #brokenOff = false;
  #blocked = false;
  #release: (() => void) | null = null;
  #late: NodeJS.Timeout | null = null;

  constructor(stream: ServerHttp2Stream, request: StreamRequest, peer: Peer, options: StreamConnectionOptions) {
    super({ readableHighWaterMark: READ_AHEAD_BYTES });
    this.carrier = peer;
    this.remoteAddress = peer.remoteAddress;
    this.remotePort = peer.remotePort;
    this.localAddress = peer.localAddress;
    this.localPort = peer.localPort;
    this.#stream = stream;
    this.#request = request;
    this.#body = request.body;
    this.#options = options;
    this.deadlineAtMs = options.deadlines.nowMs() + options.requestTimeoutMs;
    this.#reader = new ResponseReader(this, { maxHeadBytes: MAX_RESPONSE_HEAD_BYTES, maxFields: MAX_RESPONSE_FIELDS });
    this.#reader.begin(request.method);
  }

  /** Whether the client has yet to send more of its request, or to read more of its response. */
  get waitsForClient(): boolean {
    return !this.#whole || this.#late !== null;
  }

  /** How many bytes of the request's body have not been read; infinite if that is not known. */
  get bytesToCome(): number {
    if (this.#whole) return 0;
    return this.#body === 'length'
      ? Math.max(0, this.#request.contentLength - this.#received)
      : Number.POSITIVE_INFINITY;
  }

  /** Which side ended the stream: the gateway, if it completed the response or broke it off, otherwise the client. */
  get endedBy(): 'gateway' | 'client' {
    return this.#answered || this.#brokenOff ? 'gateway' : 'client';
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
    this.#trailers = NO_TRAILERS;
    // The client may send for as long as the service answers: a stream in both directions is one request.
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
  }

  sendTrailers(fields: readonly string[]): void {
    this.#trailers = streamFields(fields);
  }

  requestWithin(ms: number): void {
    this.deadlineAtMs += ms - this.#options.requestTimeoutMs;
  }

  onDeadline(): void {
    this.#options.onLate();
  }

  /** Starts to deliver the request. Its reader must be attached already. */
  begin(): void {
    const stream = this.#stream;
    stream.once('aborted', () => this.destroy());
    stream.once('close', () => this.destroy());
    stream.on('drain', () => this.#onDrain());
    if (this.#body !== 'unknown') this.#pushHead();
    if (this.#body === 'none') {
      this.#whole = true;
      stream.resume();
      return;
    }
    this.#options.deadlines.watch(this);
    stream.once('trailers', (_headers, _flags, raw: string[]) => {
      this.requestTrailers = raw;
    });
    stream.on('data', (chunk: Buffer) => this.#onBody(chunk));
    stream.once('end', () => this.#onBodyEnd());
  }

  /** Ends the client's whole session once its current streams have ended. */
  endSession(): void {
    this.#options.endSession();
  }

  onInformation(status: number, fields: readonly string[]): void {
    const headers: OutgoingHttpHeaders = valuesByName(streamFields(fields));
    headers[':status'] = status;
    if (!this.#stream.closed) this.#stream.additionalHeaders(headers);
  }

  onHead(head: ResponseHead): void {
    // A 205 has no content (RFC 9110 section 15.3.6), and node:http2 accepts none with it.
    if (head.framing === 'none' || head.status === 205) this.#respond(head, true);
    else this.#unsentHead = head;
  }

  /**
   * Sends the head. It ends the stream if the response is known to have no body: a gRPC client takes a status for one only then, or in
   * trailers ("Trailers-Only" in PROTOCOL-HTTP2 of gRPC).
   */
  #respond({ status, fields }: ResponseHead, endStream: boolean): void {
    this.#unsentHead = null;
    const stream = this.#stream;
    if (stream.closed) return;
    const kept = streamFields(status === 205 ? withoutLength(fields) : fields);
    const waitForTrailers = this.#trailers !== null && !endStream;
    if (waitForTrailers) this.#sendTrailersLast(stream);
    stream.respond([':status', String(status), ...kept], { endStream, waitForTrailers });
  }

  #sendTrailersLast(stream: ServerHttp2Stream): void {
    this.#isTrailing = true;
    stream.once('wantTrailers', () => {
      let fault: Error | null = null;
      try {
        stream.sendTrailers(valuesByName(this.#trailers!));
      } catch (error) {
        fault = error as Error;
      }
      // Node sends them in a later phase of the event loop. Those that it refuses break the response off, and do not end the process.
      setImmediate(() => {
        this.#isTrailing = false;
        if (fault !== null) stream.destroy(fault);
        this.#stop?.();
      });
    });
  }

  onData(chunk: Buffer): void {
    if (this.#unsentHead !== null) this.#respond(this.#unsentHead, false);
    if (!this.#stream.writableEnded && !this.#stream.write(chunk)) this.#blocked = true;
  }

  onEnd(): void {
    this.#answered = true;
    if (this.#unsentHead !== null) this.#respond(this.#unsentHead, !this.#trailers?.length);
    if (!this.#stream.writableEnded) this.#stream.end();
  }

  override _read(): void {
    this.#stream.resume();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    try {
      this.#reader.read(chunk);
      if (this.#unsentHead !== null) this.#respond(this.#unsentHead, false);
    } catch (error) {
      done(error as Error);
      return;
    }
    if (this.#answered) this.#leave();
    if (!this.#blocked || this.#answered) done();
    else {
      this.#release = done;
      this.#late = setTimeout(() => this.destroy(), this.#options.writeTimeoutMs);
    }
  }

  override _final(done: () => void): void {
    // The connection may be closed after the response. Closing it earlier means that the response broke off.
    if (!this.#answered && !this.#reader.end()) this.destroy();
    else if (this.#answered) this.#leave();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#options.deadlines.forget(this);
    if (this.#late !== null) clearTimeout(this.#late);
    if (!this.#answered && !this.#stream.closed) {
      this.#brokenOff = true;
      // Not `close`, which ends the body before it resets the stream: the client would take the response for complete.
      this.#stream.destroy(error ?? new Error('the answer broke off'));
    }
    const release = this.#release;
    this.#release = null;
    release?.();
    done(error);
  }

  #onDrain(): void {
    this.#blocked = false;
    if (this.#late !== null) clearTimeout(this.#late);
    this.#late = null;
    const release = this.#release;
    this.#release = null;
    release?.();
  }

  /** Destroys this connection once Node has noticed that all was written. The stream may still have much to send. */
  #leave(): void {
    const stream = this.#stream;
    setImmediate(() => {
      this.destroy();
      if (stream.destroyed) return;
      const late = setTimeout(() => stream.close(NGHTTP2_CANCEL), this.#options.writeTimeoutMs);
      stream.once('close', () => clearTimeout(late));
      // The rest of a request is not read once its response is complete (RFC 9113 section 8.1).
      const stop = () => {
        if (!this.#whole && !stream.closed) stream.close(NGHTTP2_NO_ERROR);
      };
      // Fault: a reset overtakes trailers that wait to be sent, and a call of gRPC ends without its status.
      if (this.#isTrailing) this.#stop = stop;
      else if (stream.writableFinished) stop();
      else stream.once('finish', stop);
    });
  }

  #pushHead(): void {
    this.#options.onBegun();
    const coding = this.#body === 'chunked' ? 'transfer-encoding: chunked\r\n' : '';
    this.push(Buffer.from(`${this.#request.lines}${coding}\r\n`, 'latin1'));
  }

  #onBody(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#received += chunk.length;
    this.#options.onBytes(chunk.length);
    if (this.destroyed) return;
    if (this.#body === 'unknown') {
      this.#body = 'chunked';
      this.#pushHead();
    }
    if (this.#body === 'length') {
      if (this.#received > this.#request.contentLength) this.destroy();
      else if (!this.push(chunk)) this.#stream.pause();
      return;
    }
    this.push(`${chunk.length.toString(16)}\r\n`, 'latin1');
    this.push(chunk);
    if (!this.push('\r\n', 'latin1')) this.#stream.pause();
  }

  #onBodyEnd(): void {
    if (this.destroyed) return;
    const { aborted, rstCode } = this.#stream;
    if (aborted || (rstCode ?? 0) !== 0) {
      this.destroy();
    } else if (this.#body === 'length' && this.#received !== this.#request.contentLength) {
      this.destroy();
    } else {
      this.#whole = true;
      this.#options.deadlines.forget(this);
      if (this.#body === 'unknown') {
        this.#body = 'none';
        this.#pushHead();
      } else if (this.#body === 'chunked') this.push('0\r\n\r\n', 'latin1');
    }
  }
}

function withoutLength(fields: readonly string[]): string[] {
  return fields.filter((_, i) => fields[i - (i % 2)]!.toLowerCase() !== 'content-length');
}
