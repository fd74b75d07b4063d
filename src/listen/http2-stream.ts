import type { ServerHttp2Stream } from 'node:http2';
import { constants } from 'node:http2';
import { Duplex } from 'node:stream';
import { type AnswerHandler, type AnswerHead, AnswerReader } from '../forward/answer-reader.ts';
import { type StreamRequest, streamFields } from './http2-fields.ts';

/** The answer of the service behind with what the gateway adds to it. */
const MAX_ANSWER_HEAD_BYTES = 24 * 1024;
const MAX_ANSWER_FIELDS = 1_100;

/** Who is at the other end of the session. */
export interface Peer {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

export interface StreamConnectionOptions {
  readonly writeTimeoutMs: number;
  /** Told of every piece of the request's body. */
  readonly onBytes: (bytes: number) => void;
  /** The head of the request is handed to its reader. */
  readonly onBegun: () => void;
  /** The session is to end with the streams that it has. */
  readonly endSession: () => void;
}

const { NGHTTP2_NO_ERROR, NGHTTP2_CANCEL } = constants;

/**
 * One stream, as the node:http server sees it: a connection that carries exactly one HTTP/1.1 request and its answer.
 * So a stream goes the way of every other request, through the same checks, deadlines and limits. And what one stream
 * sends cannot become part of another's request, since no two of them ever share a parser.
 *
 * It ends by itself when the answer is through, and at once when the client resets the stream. An answer that breaks
 * off resets the stream: it must not look whole.
 */
export class StreamConnection extends Duplex implements AnswerHandler {
  readonly encrypted = true;
  /** What Via and log call the protocol; the request that is read here says 1.1. */
  readonly httpVersion = '2.0';
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localAddress: string | undefined;
  readonly localPort: number | undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #request: StreamRequest;
  readonly #writeTimeoutMs: number;
  readonly #onBytes: (bytes: number) => void;
  readonly #endSession: () => void;
  readonly #onBegun: () => void;
  readonly #reader: AnswerReader;
  #body: StreamRequest['body'];
  #received = 0;
  /** The client has sent all of its request. */
  #whole = false;
  /** The answer has been read to its end. */
  #answered = false;
  #brokenOff = false;
  #blocked = false;
  #release: (() => void) | null = null;
  #late: NodeJS.Timeout | null = null;

  constructor(
    stream: ServerHttp2Stream,
    request: StreamRequest,
    peer: Peer,
    { writeTimeoutMs, onBytes, endSession, onBegun }: StreamConnectionOptions,
  ) {
    super();
    this.remoteAddress = peer.remoteAddress;
    this.remotePort = peer.remotePort;
    this.localAddress = peer.localAddress;
    this.localPort = peer.localPort;
    this.#stream = stream;
    this.#request = request;
    this.#body = request.body;
    this.#writeTimeoutMs = writeTimeoutMs;
    this.#onBytes = onBytes;
    this.#endSession = endSession;
    this.#onBegun = onBegun;
    this.#reader = new AnswerReader(this, { maxHeadBytes: MAX_ANSWER_HEAD_BYTES, maxFields: MAX_ANSWER_FIELDS });
    this.#reader.begin(request.method);
  }

  /** Whether the client has to send more of its request, or to read some of its answer. */
  get waitsForClient(): boolean {
    return !this.#whole || this.#late !== null;
  }

  /** Who ended the stream: the gateway with a whole answer or by breaking it off, or else the client. */
  get endedBy(): 'gateway' | 'client' {
    return this.#answered || this.#brokenOff ? 'gateway' : 'client';
  }

  /** Sends the request on its way. Whoever is to read it has to be there already. */
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
    stream.on('data', (chunk: Buffer) => this.#onBody(chunk));
    stream.once('end', () => this.#onBodyEnd());
  }

  /** The whole connection of the client, of which this is one stream, ends when its streams have. */
  endSession(): void {
    this.#endSession();
  }

  /** As a socket has it: the client must see that the answer is broken. */
  resetAndDestroy(): this {
    return this.destroy();
  }

  onInformation(status: number, fields: readonly string[]): void {
    // Without a prototype: a field may be called `constructor`.
    const headers: Record<string, number | string | string[]> = Object.create(null);
    headers[':status'] = status;
    const kept = streamFields(fields);
    for (let i = 0; i < kept.length; i += 2) {
      const before = headers[kept[i]!] as string[] | undefined;
      headers[kept[i]!] = [...(before ?? []), kept[i + 1]!];
    }
    if (!this.#stream.closed) this.#stream.additionalHeaders(headers);
  }

  onHead({ status, fields, framing }: AnswerHead): void {
    if (this.#stream.closed) return;
    // A 205 has no content (RFC 9110 section 15.3.6), and HTTP/2 takes none of it.
    const isEmpty = framing === 'none' || status === 205;
    const kept = streamFields(status === 205 ? withoutLength(fields) : fields);
    this.#stream.respond([':status', String(status), ...kept], { endStream: isEmpty });
  }

  onData(chunk: Buffer): void {
    if (!this.#stream.writableEnded && !this.#stream.write(chunk)) this.#blocked = true;
  }

  onEnd(): void {
    this.#answered = true;
    if (!this.#stream.writableEnded) this.#stream.end();
  }

  override _read(): void {
    this.#stream.resume();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    try {
      this.#reader.read(chunk);
    } catch (error) {
      done(error as Error);
      return;
    }
    if (this.#answered) this.#leave();
    if (!this.#blocked || this.#answered) done();
    else {
      this.#release = done;
      this.#late = setTimeout(() => this.destroy(), this.#writeTimeoutMs);
    }
  }

  override _final(done: () => void): void {
    // Whoever answers may close the connection behind the answer, and nobody closes it before.
    if (!this.#answered && !this.#reader.end()) this.destroy();
    else if (this.#answered) this.#leave();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#late !== null) clearTimeout(this.#late);
    if (!this.#answered && !this.#stream.closed) {
      this.#brokenOff = true;
      // Not `close`, which ends the body before it resets the stream: that would look whole.
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

  /** The stream may have much to send still; whoever answered is done, once Node has noticed that all was written. */
  #leave(): void {
    const stream = this.#stream;
    setImmediate(() => {
      this.destroy();
      if (stream.destroyed) return;
      const late = setTimeout(() => stream.close(NGHTTP2_CANCEL), this.#writeTimeoutMs);
      stream.once('close', () => clearTimeout(late));
      // Nobody reads the rest of a request that has its answer (RFC 9113 section 8.1).
      const stop = () => {
        if (!this.#whole && !stream.closed) stream.close(NGHTTP2_NO_ERROR);
      };
      if (stream.writableFinished) stop();
      else stream.once('finish', stop);
    });
  }

  #pushHead(): void {
    this.#onBegun();
    const coding = this.#body === 'chunked' ? 'transfer-encoding: chunked\r\n' : '';
    this.push(Buffer.from(`${this.#request.lines}${coding}\r\n`, 'latin1'));
  }

  #onBody(chunk: Buffer): void {
    if (this.destroyed || chunk.length === 0) return;
    this.#received += chunk.length;
    this.#onBytes(chunk.length);
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
