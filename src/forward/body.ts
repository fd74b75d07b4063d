import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { ClientBodyError, ClientGoneError } from './faults.ts';
import { Pieces } from './pieces.ts';
import type { TextWriter } from './text-writer.ts';

/** The body of a request. */
export type RequestBody = WholeBody | StreamedBody;

/** A body all of which has been read. It is small: it leaves together with the head of its request, in one write. */
export interface WholeBody {
  readonly framing: 'whole';
  /** A character for each byte, as many as were declared. */
  readonly text: string;
}

/** A body as the client is still sending it. */
export interface StreamedBody {
  readonly source: Readable;
  /** A declared length was checked before and is kept by the parser; chunks are counted as they pass. */
  readonly framing: 'length' | 'chunked';
  readonly maxBytes: number;
  /** Looks whether the client is still there, while nothing is read from it: where it has reset, the source is closed. */
  readonly probe: () => void;
}

const NOTHING = Buffer.alloc(0);

/** A body that was written whole and of which some has still to be taken by the system. */
export class UntakenBody {
  /** It waits for the upstream, not for the client. */
  readonly isHeldUp = true;
  #done = false;

  private constructor(socket: Socket) {
    socket.write(NOTHING, (error) => {
      this.#done = !error;
    });
  }

  /** @returns null where all that was written to the socket has been taken, as nearly always */
  static on(socket: Socket, { hasTakenAll }: TextWriter): UntakenBody | null {
    return hasTakenAll && socket.errored === null ? null : new UntakenBody(socket);
  }

  get done(): boolean {
    return this.#done;
  }

  /** What was written cannot be taken back. */
  stop(): void {}
}

export interface BodyEvents {
  /** The upstream has been handed the whole of it. */
  onBodySent(): void;
  /** It turned out too large, or the client broke it off: ClientBodyError, ClientGoneError. */
  onBodyFault(error: Error): void;
}

/**
 * Waits for the first byte of a body, or for its end where it is empty: either makes its stream readable.
 *
 * Attack: uploads of which only the head is sent would hold connections to the upstream that other requests need.
 * @returns a way to stop waiting
 */
export function whenBegun({ source }: StreamedBody, onBegun: () => void): () => void {
  source.once('readable', onBegun);
  return () => source.removeListener('readable', onBegun);
}

/**
 * While the upstream does not read, the client is asked for a little more from time to time: one that has closed shows
 * only behind what it had sent. What has come by then is held, up to this much.
 */
const SIP_EVERY_MS = 200;
const HELD_BYTES = 1024 * 1024;

/** Passes a request's body to the upstream as it comes, no faster than the upstream reads, with the framing it came in. */
export class BodySender {
  readonly #body: StreamedBody;
  readonly #socket: Socket;
  readonly #events: BodyEvents;
  #bytes = 0;
  #done = false;
  /** Pieces that have come in this turn of the event loop. */
  readonly #held = new Pieces();
  #sips: NodeJS.Timeout | null = null;

  constructor(body: StreamedBody, socket: Socket, events: BodyEvents) {
    this.#body = body;
    this.#socket = socket;
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

  /** Whether something that the client has sent still waits for the upstream to read it. */
  get isHeldUp(): boolean {
    return this.#sips !== null;
  }

  /** Sends nothing more; what the client still sends stays unread. */
  stop(): void {
    if (this.#done) return;
    this.#done = true;
    this.#held.take();
    const { source } = this.#body;
    source.removeListener('data', this.#onData);
    source.removeListener('end', this.#onEnd);
    source.removeListener('error', this.#onBreak);
    source.removeListener('close', this.#onBreak);
    // A stream without a listener for its error would end the process with it.
    source.on('error', () => {});
    this.#flowOn();
    source.pause();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#body.maxBytes) {
      this.#fail(new ClientBodyError('payload_too_large'));
      return;
    }
    if (this.#held.add(chunk) === 1) setImmediate(this.#flush);
  };

  /**
   * Writes what has come in this turn in one go, when all that had arrived in it has been read: an upstream that answers
   * early and closes makes the next write fail, and with it goes what of its answer was not read before.
   */
  readonly #flush = (): void => {
    const bytes = this.#held.take();
    if (bytes === null) return;
    if (this.#body.framing === 'chunked') {
      this.#socket.cork();
      this.#socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
      this.#socket.write(bytes);
      this.#socket.write('\r\n', 'latin1');
      this.#socket.uncork();
    } else this.#socket.write(bytes);
    if (this.#done || !this.#socket.writableNeedDrain) return;
    this.#body.source.pause();
    if (this.#sips !== null) return;
    this.#sips = setInterval(this.#sip, SIP_EVERY_MS);
    this.#socket.once('drain', this.#onDrain);
  };

  readonly #sip = (): void => {
    this.#body.probe();
    if (this.#socket.writableLength < HELD_BYTES) this.#body.source.resume();
  };

  readonly #onDrain = (): void => {
    this.#flowOn();
    this.#body.source.resume();
  };

  #flowOn(): void {
    if (this.#sips === null) return;
    clearInterval(this.#sips);
    this.#sips = null;
    this.#socket.removeListener('drain', this.#onDrain);
  }

  readonly #onEnd = (): void => {
    this.#done = true;
    this.#flush();
    this.#flowOn();
    if (this.#body.framing === 'chunked') this.#socket.write('0\r\n\r\n', 'latin1');
    this.#events.onBodySent();
  };

  readonly #onBreak = (): void => this.#fail(new ClientGoneError('the client broke its body off'));

  #fail(error: Error): void {
    if (this.#done) return;
    this.stop();
    this.#events.onBodyFault(error);
  }
}
