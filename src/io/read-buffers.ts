import { Socket } from 'node:net';
import { type AcceptedHandle, moveConnection } from './node-internals.ts';

/*
 * Buffers for reading from connections, shared or used again. By default Node allocates one of 64 KiB for each read.
 */

const BUFFER_BYTES = 64 * 1024;
/** Buffers that are kept for reuse, 4 MiB in total. */
const MAX_KEPT = 64;

/**
 * A pool of buffers for pieces of large bodies. A new buffer for each piece would be garbage outside V8's heap.
 * Measured: with responses of 100 KiB the garbage collector took two fifths of all time.
 */
export class Buffers {
  readonly #kept: Buffer[] = [];

  /** @returns a buffer of `BUFFER_BYTES` with arbitrary contents */
  take(): Buffer {
    return this.#kept.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES);
  }

  /** @param buffer no longer read by any code: its next bytes may be another client's */
  give(buffer: Buffer): void {
    if (this.#kept.length < MAX_KEPT) this.#kept.push(buffer);
  }
}

/** The reader of a connection's bytes. */
export interface BufferReader {
  /**
   * @param isLent whether bytes that are kept beyond this call must be copied
   * @returns whether all bytes that the reader kept are no longer needed
   */
  onBytes(chunk: Buffer, isLent: boolean): boolean;
  /** Whether a body has begun and has not ended. */
  readonly isAmidBody: boolean;
}

/** Smaller pieces are copied, because each would keep its whole buffer in use. */
const MIN_GIVEN_BYTES = 16 * 1024;
/** Shared by all connections: the bytes are processed before anything else is read. */
const SHARED = Buffer.allocUnsafeSlow(BUFFER_BYTES);

/**
 * Gives a connection the buffers for its reads. By default Node allocates a buffer of 64 KiB for each read, which costs
 * more than reading a small response. So all connections read into one shared buffer. Only in the middle of a body does
 * a connection get a buffer of its own, whose bytes need no copy. It is reused once the client's connection has
 * accepted them.
 */
export class Intake {
  readonly #buffers: Buffers;
  #reader: BufferReader | null = null;
  #own: Buffer | null = null;
  /** The buffer into which the large piece just read was copied. */
  #copy: Buffer | null = null;

  constructor(buffers: Buffers) {
    this.#buffers = buffers;
  }

  /** For `onread` of node:net. */
  readonly onread = {
    buffer: (): Buffer => {
      if (this.#reader?.isAmidBody === true) {
        this.#own ??= this.#buffers.take();
        return this.#own;
      }
      if (this.#own !== null) this.#buffers.give(this.#own);
      this.#own = null;
      return SHARED;
    },
    callback: (bytes: number, buffer: Uint8Array): boolean => {
      const chunk = (buffer as Buffer).subarray(0, bytes);
      const isLent = buffer !== this.#own || bytes < MIN_GIVEN_BYTES;
      const isFree = this.#reader?.onBytes(chunk, isLent) === true;
      if (!isLent && !isFree) this.#own = null;
      if (this.#copy !== null && isFree) this.#buffers.give(this.#copy);
      this.#copy = null;
      return true;
    },
  };

  into(reader: BufferReader): void {
    this.#reader = reader;
  }

  /** @returns a copy that may be kept */
  copyOf(chunk: Buffer): Buffer {
    if (chunk.length < MIN_GIVEN_BYTES || this.#copy !== null) return Buffer.from(chunk);
    this.#copy = this.#buffers.take();
    chunk.copy(this.#copy);
    return this.#copy.subarray(0, chunk.length);
  }
}

const CLIENT_BUFFER_BYTES = 64 * 1024;
/** Shared by all connections: the bytes are processed, or copied, before anything else is read. */
const SHARED_BY_CLIENTS = Buffer.allocUnsafeSlow(CLIENT_BUFFER_BYTES);

/** Receives bytes as they arrive. They are valid during the call only, so it must copy those that it keeps. */
type TakeBytes = (bytes: Buffer) => void;

/**
 * A connection that can be read without a stream and without a new buffer of 64 KiB for each read, which together are a
 * tenth of the cost of a refusal. Node offers that (`onread`) only for outgoing connections, so an accepted connection
 * is moved to a new socket.
 */
export class SharedBufferSocket extends Socket {
  /** Receives the bytes; null if the connection is read as a stream. */
  taker: TakeBytes | null = null;

  private constructor(options: object) {
    const self: { socket: SharedBufferSocket | null } = { socket: null };
    super({
      ...options,
      allowHalfOpen: true,
      onread: {
        buffer: SHARED_BY_CLIENTS,
        callback: (bytes: number) => self.socket!.#arrived(SHARED_BY_CLIENTS.subarray(0, bytes)),
      },
    });
    self.socket = this;
  }

  /** @returns a socket for a connection of which none was made */
  static of(handle: AcceptedHandle): Socket {
    return new SharedBufferSocket({ handle });
  }

  /** @returns a socket for the same connection. If it is not the given socket, that must no longer be used */
  static around(accepted: Socket): Socket {
    return moveConnection(accepted, (options) => new SharedBufferSocket(options)) ?? accepted;
  }

  /** @returns whether to continue reading */
  #arrived(bytes: Buffer): boolean {
    if (this.taker === null) return this.push(ownCopy(bytes));
    this.taker(bytes);
    return true;
  }
}

/**
 * Copies bytes into memory of their own.
 *
 * Attack: Node takes the memory for small copies from a pool, where a single byte that waits keeps 8 KiB in use. A client
 * that sends single bytes would make the gateway hold thousands of times as much.
 */
export function ownCopy(bytes: Buffer): Buffer {
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
