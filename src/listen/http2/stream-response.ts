import type { OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { ClientRequest, ClientResponse } from '../../http1/client.ts';
import { fieldsWithout, valuesByName } from '../../http1/fields.ts';
import { streamFields } from './stream-fields.ts';

const RESET_CONTENT = 205;
const LENGTH: ReadonlySet<string> = new Set(['content-length']);

/** The request of a stream, as its response uses it. */
interface AnsweredRequest extends ClientRequest {
  destroy(error?: Error): unknown;
  /** The response is written, or waits until its client reads. */
  waitForReader(): void;
  /** The client has read what it was waited for. */
  readOn(): void;
  /** The whole response is written. */
  answered(): void;
  /** The rest of a request is not read once its response is complete (RFC 9113 section 8.1). */
  dropRest(): void;
  once(event: 'close' | 'drain', listener: () => void): unknown;
  removeListener(event: 'close' | 'drain', listener: () => void): unknown;
}

/** The response to the request of a stream. The head leaves with the first bytes of the body, or with the end. */
export class StreamResponse implements ClientResponse {
  readonly req: AnsweredRequest;
  statusCode = 200;
  headersSent = false;
  /** A stream carries one response anyway. */
  shouldKeepAlive = true;
  /** The gateway has written the whole response. */
  hasEnded = false;
  /** Whether it waits until the client has read what was written. */
  isBlocked = false;
  readonly #stream: ServerHttp2Stream;
  readonly #date: () => string;
  /** The head, from when it is set until it is sent. */
  #head: readonly string[] | null = null;
  #isBodiless = false;
  /** Names and values in turn; null if none are awaited. */
  #trailers: readonly string[] | null = null;
  /** Whether it is to end with trailers, which have yet to be sent. */
  #isTrailing = false;

  constructor(req: AnsweredRequest, stream: ServerHttp2Stream, date: () => string) {
    this.req = req;
    this.#stream = stream;
    this.#date = date;
  }

  get socket(): ClientRequest['socket'] {
    return this.req.socket;
  }

  get destroyed(): boolean {
    return this.req.destroyed;
  }

  awaitTrailers(): void {
    this.#trailers = [];
  }

  set trailers(fields: readonly string[]) {
    this.#trailers = streamFields(fields);
  }

  writeContinue(): void {
    this.writeInformation(100, []);
  }

  writeInformation(status: number, fields: readonly string[]): void {
    const headers: OutgoingHttpHeaders = valuesByName(streamFields(fields));
    headers[':status'] = status;
    this.#attempt((stream) => !stream.headersSent && stream.additionalHeaders(headers));
  }

  writeHead(status: number, fields: readonly string[]): void {
    if (this.headersSent) throw new Error('a second head for one response');
    this.statusCode = status;
    this.headersSent = true;
    // A 205 has no content (RFC 9110 section 15.3.6), and node:http2 accepts none with it.
    const isReset = status === RESET_CONTENT;
    this.#isBodiless = this.req.method === 'HEAD' || status === 204 || status === 304 || isReset;
    const kept = streamFields(isReset ? fieldsWithout(fields, LENGTH) : fields);
    if (!hasDate(kept)) kept.push('date', this.#date());
    this.#head = [':status', String(status), ...kept];
  }

  flushHeaders(): void {
    if (this.#head !== null) this.#respond(this.#isBodiless);
  }

  write(chunk: Buffer): boolean {
    if (this.destroyed || this.hasEnded) return true;
    this.flushHeaders();
    if (this.destroyed || this.#isBodiless || chunk.length === 0 || this.#stream.writableEnded) return true;
    if (this.#stream.write(chunk)) return true;
    if (!this.isBlocked) {
      this.isBlocked = true;
      this.#stream.once('drain', this.#onDrain);
      this.req.waitForReader();
    }
    return false;
  }

  end(chunk: string | Buffer = '', encoding: BufferEncoding = 'utf8'): void {
    if (this.hasEnded || this.destroyed) return;
    if (!this.headersSent) throw new Error('a response without a head');
    const stream = this.#stream;
    const isEmpty = this.#isBodiless || chunk.length === 0;
    const isTrailing = this.#trailers !== null && this.#trailers.length > 0;
    // A gRPC client takes a status for one only if the head ends the stream, or in trailers ("Trailers-Only" in PROTOCOL-HTTP2 of gRPC).
    if (this.#head !== null) this.#respond(this.#isBodiless || (isEmpty && !isTrailing));
    if (this.destroyed) return;
    this.hasEnded = true;
    if (!stream.writableEnded) {
      if (isEmpty) stream.end();
      else stream.end(chunk, encoding);
    }
    this.req.answered();
    // Fault: a reset overtakes trailers that wait to be sent, and a call of gRPC ends without its status.
    if (this.req.complete || this.#isTrailing) return;
    if (stream.writableFinished) this.req.dropRest();
    else stream.once('finish', () => this.req.dropRest());
  }

  /** Ends the stream at once. */
  destroy(): void {
    this.req.destroy();
  }

  once(event: 'close' | 'drain', listener: () => void): void {
    this.req.once(event, listener);
  }

  removeListener(event: 'close' | 'drain', listener: () => void): void {
    this.req.removeListener(event, listener);
  }

  readonly #onDrain = (): void => {
    this.isBlocked = false;
    if (!this.hasEnded) this.req.readOn();
  };

  #respond(endStream: boolean): void {
    const head = this.#head!;
    this.#head = null;
    this.#attempt((stream) => {
      const waitForTrailers = this.#trailers !== null && !endStream;
      if (waitForTrailers) this.#sendTrailersLast(stream);
      stream.respond(head as string[], { endStream, waitForTrailers });
    });
  }

  /** Fields of a service that node:http2 does not send break this response off, and do not end the process. */
  #attempt(send: (stream: ServerHttp2Stream) => void): void {
    if (this.#stream.closed) return;
    try {
      send(this.#stream);
    } catch (error) {
      this.req.destroy(error as Error);
    }
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
        else if (this.hasEnded) this.req.dropRest();
      });
    });
  }
}

function hasDate(fields: readonly string[]): boolean {
  for (let i = 0; i < fields.length; i += 2) if (fields[i] === 'date') return true;
  return false;
}
