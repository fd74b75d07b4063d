import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { writeDirectly } from './node-internals.ts';

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
