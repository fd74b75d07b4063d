import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/**
 * Writes texts to a connection, straight to the system where nothing waits before them. A stream keeps books for each
 * write, for the case that the system does not take it at once; it nearly always does, and they cost a twentieth of a
 * forwarded request. What it does not take at once waits in the handle, in order with whatever is written after it.
 */
export class TextWriter {
  readonly #socket: Socket;
  /** Not one that encrypts, nor one that bridges a stream: those are written to as streams. */
  readonly #isPlain: boolean;
  /** Texts that the system has not taken yet. */
  #untaken = 0;

  /** @param socket connected */
  constructor(socket: Socket) {
    this.#socket = socket;
    this.#isPlain = socket instanceof Socket && !(socket instanceof TLSSocket);
  }

  /** Whether the system has all that was written to the connection, by whomever. */
  get hasTakenAll(): boolean {
    return this.#untaken === 0 && this.#socket.writableLength === 0;
  }

  /** @param text a character for each byte */
  write(text: string): void {
    const socket = this.#socket;
    if (!this.#isPlain || socket.writableLength > 0 || !socket.writable) {
      socket.write(text, 'latin1');
      return;
    }
    this.#untaken++;
    socket._write(text, 'latin1', this.#onTaken);
  }

  readonly #onTaken = (error?: Error | null): void => {
    this.#untaken--;
    if (error) this.#socket.destroy(error);
  };
}
