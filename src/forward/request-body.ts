import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { afterReading } from '../io/after-reading.ts';
import { freeNow } from '../io/buffers.ts';
import { Pieces } from '../io/writes.ts';
import { ClientBodyError, ClientGoneError } from './faults.ts';

/*
 * A request to an upstream, and its body: read whole, or sent on as the client sends it.
 */

/** A request to an upstream. */
export interface ForwardRequest {
  readonly method: string;
  /** Path and query, exactly as they were routed, or as the route rewrites them. */
  readonly target: string;
  /** As of a `ConnectionWaiter`. */
  readonly affinity?: string | null;
  /** The value of Host; null or left out for the target's authority. */
  readonly host?: string | null;
  /** The lines (`linesOf`) of all fields except Host. */
  readonly lines: string;
  /** Null if the request has no body. */
  readonly body: RequestBody | null;
  /** Null, or left out, if the connection of the client carries none. */
  readonly trailers?: Trailers | null;
}

/** The trailers of a request and of its response. Only HTTP/2 carries them to the target and back. */
export interface Trailers {
  /** Those of the request that the target gets, names in lower case and values in turn, once its body has ended. */
  ofRequest(): readonly string[];
  /** Called before the head of a response that may have some. */
  await(): void;
  /** Called before the end of the response. @param fields names and values in turn, as they were received */
  ofResponse(fields: readonly string[]): void;
}

/** The body of a request. */
export type RequestBody = WholeBody | StreamedBody;

/**
 * A body that has been read completely. It is small and is sent together with the head of its request, in one write.
 */
interface WholeBody {
  readonly framing: 'whole';
  /** One character for each byte, as many as were declared. */
  readonly text: string;
}

/** A body as the client is still sending it. */
export interface StreamedBody {
  readonly source: Readable;
  /** A declared length has been checked already, and the parser enforces it. Chunks are counted as they pass. */
  readonly framing: 'length' | 'chunked';
  readonly maxBytes: number;
  /**
   * Checks whether the client is still connected while nothing is read from it. If it has reset, the source is closed.
   */
  readonly probe: () => void;
}

const NOTHING = Buffer.alloc(0);

/** A body that was written whole, but that the operating system has not yet accepted completely. */
export class UntakenBody {
  /** The body waits for the upstream, not for the client. */
  readonly isHeldUp = true;
  #done = false;

  private constructor(socket: Socket) {
    socket.write(NOTHING, (error) => {
      this.#done = !error;
    });
  }

  /** @returns null if the system has accepted everything that was written to the socket, which is nearly always so */
  static on(socket: Socket, hasTakenAll: boolean): UntakenBody | null {
    return hasTakenAll && socket.errored === null ? null : new UntakenBody(socket);
  }

  get done(): boolean {
    return this.#done;
  }

  /** Does nothing, because bytes that were written cannot be taken back. */
  stop(): void {}
}

interface BodyEvents {
  /** The whole body has been written to the upstream. */
  onBodySent(): void;
  /** The body is too large (ClientBodyError), or the client broke it off (ClientGoneError). */
  onBodyFault(error: Error): void;
}

/**
 * Waits for the first byte of a body, or for its end if it is empty. Either makes its stream readable.
 *
 * Attack: clients that send only the heads of uploads would hold connections to the upstream that other requests need.
 * @returns a function that stops waiting
 */
export function whenBegun({ source }: StreamedBody, onBegun: () => void): () => void {
  source.once('readable', onBegun);
  return () => source.removeListener('readable', onBegun);
}

/**
 * While the upstream does not read, a little more is read from the client from time to time, because the client's end
 * of the connection shows only after all that it had sent. Up to HELD_BYTES are held in memory for that.
 */
const PROBE_EVERY_MS = 200;
const HELD_BYTES = 1024 * 1024;

/** `stream`: the end of the body is that of the stream, which carries nothing else. */
type BodyFraming = StreamedBody['framing'] | 'stream';

/** Forwards a request's body to the upstream as it arrives, no faster than the upstream reads. */
export class BodySender {
  readonly #body: StreamedBody;
  readonly #socket: Writable;
  readonly #framing: BodyFraming;
  readonly #events: BodyEvents;
  #bytes = 0;
  #done = false;
  /** Pieces that have arrived in this turn of the event loop. */
  readonly #held = new Pieces();
  #probes: NodeJS.Timeout | null = null;

  /** @param socket the connection, or the stream, to the target @param framing how the end of the body is marked there */
  constructor(body: StreamedBody, socket: Writable, framing: BodyFraming, events: BodyEvents) {
    this.#body = body;
    this.#socket = socket;
    this.#framing = framing;
    this.#events = events;
    const { source } = body;
    source.on('data', this.#onData);
    source.once('end', this.#onEnd);
    source.once('error', this.#onBreak);
    source.once('close', this.#onBreak);
    // An empty body may have been read to its end while its request waited for a connection.
    if (source.readableEnded) this.#onEnd();
    else if (source.destroyed) this.#onBreak();
  }

  get done(): boolean {
    return this.#done;
  }

  /** Whether bytes that the client has sent still wait for the upstream to read them. */
  get isHeldUp(): boolean {
    return this.#probes !== null;
  }

  /** Sends nothing more. Bytes that the client still sends stay unread. */
  stop(): void {
    if (this.#done) return;
    this.#done = true;
    this.#held.take();
    const { source } = this.#body;
    source.removeListener('data', this.#onData);
    source.removeListener('end', this.#onEnd);
    source.removeListener('error', this.#onBreak);
    source.removeListener('close', this.#onBreak);
    // Without a listener, an error of the stream would end the process.
    source.on('error', () => {});
    this.#stopProbing();
    source.pause();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#body.maxBytes) {
      this.#fail(new ClientBodyError('payload_too_large'));
      return;
    }
    if (this.#held.add(chunk) === 1) afterReading(this.#flush);
  };

  /**
   * Writes the pieces of this turn at once, after everything that arrived in the turn has been read: mostly an early
   * response is read before a write can fail.
   */
  readonly #flush = (): void => {
    const length = this.#held.bytes;
    if (length === 0) return;
    const socket = this.#socket;
    socket.cork();
    if (this.#framing === 'chunked') socket.write(`${length.toString(16)}\r\n`, 'latin1');
    for (const piece of this.#held.takeEach()) socket.write(piece, (error) => error || freeNow(piece));
    if (this.#framing === 'chunked') socket.write('\r\n', 'latin1');
    socket.uncork();
    if (this.#done || !this.#socket.writableNeedDrain) return;
    this.#body.source.pause();
    if (this.#probes !== null) return;
    this.#probes = setInterval(this.#probe, PROBE_EVERY_MS);
    this.#socket.once('drain', this.#onDrain);
  };

  readonly #probe = (): void => {
    this.#body.probe();
    if (this.#socket.writableLength < HELD_BYTES) this.#body.source.resume();
  };

  readonly #onDrain = (): void => {
    this.#stopProbing();
    this.#body.source.resume();
  };

  #stopProbing(): void {
    if (this.#probes === null) return;
    clearInterval(this.#probes);
    this.#probes = null;
    this.#socket.removeListener('drain', this.#onDrain);
  }

  readonly #onEnd = (): void => {
    this.#done = true;
    this.#flush();
    this.#stopProbing();
    if (this.#framing === 'chunked') this.#socket.write('0\r\n\r\n', 'latin1');
    else if (this.#framing === 'stream') this.#socket.end();
    this.#events.onBodySent();
  };

  readonly #onBreak = (): void => {
    // Nearly always the stream closes because all of it has been read. An error with its stack costs more than sending a small body.
    if (!this.#done) this.#fail(new ClientGoneError('the client broke its body off'));
  };

  #fail(error: Error): void {
    if (this.#done) return;
    this.stop();
    this.#events.onBodyFault(error);
  }
}
