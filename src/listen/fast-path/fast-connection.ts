import type { Socket } from 'node:net';
import type { ClientRequest } from '../../forward/client.ts';
import { UNWATCHED, type Waiting } from '../../forward/deadlines.ts';
import { ClientSocket } from '../client-socket.ts';
import type { FastPath } from './fast-path.ts';
import { FastResponse, type Line } from './fast-response.ts';
import { readSimpleRequest, type SimpleRequest } from './simple-request.ts';

/** What may be held of what a client sends before it has its answer; more is not read until then. */
const MOST_HELD_BYTES = 64 * 1024;
const NO_FIELDS: NodeJS.Dict<string> = Object.freeze({});

/** A connection on which requests of the simplest form have come, one at a time, and nothing else. */
export class FastConnection implements Line, Waiting {
  deadlineAtMs: number;
  slot = UNWATCHED;
  readonly keepAlive: string;
  readonly #socket: Socket;
  readonly #path: FastPath;
  #active: FastResponse | null = null;
  /** What came behind the request that is being served. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #isNew = true;
  /** Nothing that still comes is looked at. */
  #isClosing = false;

  constructor(socket: Socket, path: FastPath) {
    this.#socket = socket;
    this.#path = path;
    this.keepAlive = path.keepAlive;
    this.deadlineAtMs = path.deadlines.nowMs() + path.options.headersTimeoutMs;
    path.deadlines.watch(this);
    if (socket instanceof ClientSocket) socket.taker = this.#onBytes;
    // What had been read before; and all that comes, where it is encrypted.
    socket.on('data', this.#onBytes);
    socket.on('end', this.#onEnd);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
  }

  date(): string {
    return this.#path.date();
  }

  onDeadline(): void {
    if (!this.#isNew) {
      this.#socket.destroy();
      return;
    }
    this.#close();
    this.#path.options.onSilent(this.#socket);
  }

  /** One that waits for a request. */
  closeIfIdle(): void {
    if (this.#active === null && this.#heldBytes === 0) this.#socket.destroy();
  }

  onFinished(response: FastResponse): void {
    if (!response.shouldKeepAlive) {
      this.#close();
      this.#socket.destroySoon();
      return;
    }
    this.#active = null;
    this.deadlineAtMs = this.#path.deadlines.nowMs() + this.#path.options.idleTimeoutMs;
    // Not from within the answer before: its request has still to be written down.
    if (this.#heldBytes > 0) setImmediate(this.#goOn);
  }

  /** @param bytes lent: they are copied where they are to stay */
  readonly #onBytes = (bytes: Buffer): void => {
    if (this.#isClosing) return;
    if (this.#active === null && this.#heldBytes === 0) this.#take(bytes);
    else this.#hold(Buffer.from(bytes));
  };

  #take(bytes: Buffer): void {
    const simple = bytes.length > this.#path.mostBytes ? null : readSimpleRequest(bytes.toString('latin1'));
    if (simple === null) this.#handOver(bytes);
    else this.#serve(simple);
  }

  #serve({ method, url, rawHeaders }: SimpleRequest): void {
    const request: ClientRequest = {
      method,
      url,
      httpVersion: '1.1',
      rawHeaders,
      headers: NO_FIELDS,
      socket: this.#socket,
      complete: true,
      destroyed: false,
    };
    this.#isNew = false;
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    const response = new FastResponse(request, this);
    this.#active = response;
    this.#path.options.serve(request, response);
  }

  /** A request is served when the one before it has been answered, as if they had not been sent in one go. */
  #hold(chunk: Buffer): void {
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#heldBytes > MOST_HELD_BYTES) this.#socket.pause();
  }

  readonly #goOn = (): void => {
    if (this.#socket.destroyed || this.#isClosing) return;
    const held = Buffer.concat(this.#held);
    this.#held = [];
    this.#heldBytes = 0;
    this.#socket.resume();
    this.#take(held);
  };

  #handOver(bytes: Buffer): void {
    const socket = this.#socket;
    this.#leave();
    this.#letGo();
    socket.removeListener('data', this.#onBytes);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('error', this.#onError);
    socket.removeListener('close', this.#onClose);
    this.#path.options.node.emit('connection', socket);
    socket.unshift(Buffer.from(bytes));
  }

  #close(): void {
    this.#isClosing = true;
    this.#letGo();
  }

  /** Whatever still comes is for who reads the stream. */
  #letGo(): void {
    if (this.#socket instanceof ClientSocket) this.#socket.taker = null;
  }

  /** As node:http does: who ends its side of the connection gets nothing more. */
  readonly #onEnd = (): void => {
    this.#socket.end();
  };

  readonly #onError = (): void => {
    this.#socket.destroy();
  };

  readonly #onClose = (): void => {
    this.#close();
    this.#leave();
    const active = this.#active;
    this.#active = null;
    active?.closed();
  };

  #leave(): void {
    this.#path.deadlines.forget(this);
    this.#path.forget(this);
  }
}
