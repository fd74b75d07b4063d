import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { writeDirectly } from './node-internals.ts';

/*
 * Writing to connections in few and cheap writes: texts without the cost of a stream, and the pieces of one turn of the
 * event loop as one.
 */

/**
 * Writes texts to a connection, straight to the operating system if no earlier bytes wait. A stream keeps state for
 * each write in case the system does not accept it at once. The system nearly always does, and that state costs a
 * twentieth of a forwarded request. Bytes that the system does not accept at once wait in the handle, in order with
 * later writes.
 */
export class TextWriter {
  readonly #socket: Socket;
  /** False for a TLS socket or a stream that is not a socket, which are written to as streams. */
  readonly #isPlain: boolean;
  /** How many texts the system has not accepted yet. */
  #unaccepted = 0;

  /** @param socket connected */
  constructor(socket: Socket) {
    this.#socket = socket;
    this.#isPlain = socket instanceof Socket && !(socket instanceof TLSSocket);
  }

  /** Whether the system has accepted everything written to the connection, through this writer or not. */
  get hasTakenAll(): boolean {
    return this.#unaccepted === 0 && this.#socket.writableLength === 0;
  }

  /** @param text one character for each byte */
  write(text: string): void {
    const socket = this.#socket;
    if (!this.#isPlain || socket.writableLength > 0 || !socket.writable) {
      socket.write(text, 'latin1');
      return;
    }
    this.#unaccepted++;
    writeDirectly(socket, text, this.#onAccepted);
  }

  readonly #onAccepted = (error?: Error | null): void => {
    this.#unaccepted--;
    if (error) this.#socket.destroy(error);
  };
}

/** On average. Copying larger pieces costs more than writing each. */
const LARGE_BYTES = 8 * 1024;

/**
 * Pieces of a body that are held until everything that arrived with them has been read, and are then written as one.
 * Written one by one, chunks of one byte would cost 200 times their size on a connection that does not accept them.
 */
export class Pieces {
  /** Mostly the only one. */
  #first: Buffer | null = null;
  #others: Buffer[] | null = null;
  /** How many bytes are held. Only this class changes it. */
  bytes = 0;

  /** @returns how many pieces are now held */
  add(piece: Buffer): number {
    this.bytes += piece.length;
    if (this.#first === null) {
      this.#first = piece;
      return 1;
    }
    this.#others ??= [this.#first];
    return this.#others.push(piece);
  }

  /** All pieces as one; null if there are none. */
  take(): Buffer | null {
    const [first, others] = [this.#first, this.#others];
    this.#forget();
    return others === null ? first : Buffer.concat(others);
  }

  /** All pieces, as one if they are small. */
  takeEach(): readonly Buffer[] {
    const [bytes, others] = [this.bytes, this.#others];
    if (others === null || bytes < others.length * LARGE_BYTES) {
      const whole = this.take();
      return whole === null ? [] : [whole];
    }
    this.#forget();
    return others;
  }

  #forget(): void {
    this.#first = null;
    this.#others = null;
    this.bytes = 0;
  }
}
