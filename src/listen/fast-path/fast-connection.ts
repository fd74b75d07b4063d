import type { Socket } from 'node:net';
import type { ClientRequest } from '../../forward/client.ts';
import { UNWATCHED, type Waiting } from '../../forward/deadlines.ts';
import { TextWriter } from '../../forward/text-writer.ts';
import { endAfterClient } from '../../gateway/linger.ts';
import { closeAfter } from '../../gateway/reply.ts';
import { HeadReader } from '../head.ts';
import { HeldBytes } from '../held-bytes.ts';
import { LendingSocket, ownCopy } from '../lending-socket.ts';
import type { RequestFeed } from '../request-feed.ts';
import type { FastPath } from './fast-path.ts';
import { FastResponse, type Line } from './fast-response.ts';
import { SimpleReader, type SimpleRequest } from './simple-request.ts';

const NO_FIELDS: NodeJS.Dict<string> = Object.freeze({});

/** A connection on which requests of the simplest form have come, one at a time, and nothing else. */
export class FastConnection implements Line, Waiting {
  deadlineAtMs: number;
  slot = UNWATCHED;
  readonly keepAlive: string;
  readonly writer: TextWriter;
  readonly #socket: Socket;
  readonly #path: FastPath;
  readonly #reader = new SimpleReader();
  readonly #heads: HeadReader;
  #active: FastResponse | null = null;
  /** Where it has gone over to node:http. */
  #feed: RequestFeed | null = null;
  /** What came behind the request that is being served. */
  readonly #held: HeldBytes;
  /** More came than may be held: the connection ends with the answer that is under way. */
  #isFull = false;
  #isNew = true;
  #idleSinceMs: number;
  /** Nothing that still comes is looked at. */
  #isClosing = false;

  constructor(socket: Socket, path: FastPath) {
    this.#socket = socket;
    this.writer = new TextWriter(socket);
    this.#path = path;
    this.keepAlive = path.keepAlive;
    this.#heads = new HeadReader(path.options);
    this.#held = new HeldBytes(path.held);
    this.#idleSinceMs = path.deadlines.nowMs();
    this.deadlineAtMs = this.#idleSinceMs + path.options.headersTimeoutMs;
    path.deadlines.watch(this);
    if (socket instanceof LendingSocket) socket.taker = this.#onBytes;
    // What had been read before; and all that comes, where it is encrypted.
    socket.on('data', this.#onBytes);
    socket.on('end', this.#onEnd);
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

  /** Since when it has waited for a request, on the clock of the deadlines; null while it serves one. */
  get idleSinceMs(): number | null {
    if (this.#feed !== null) return this.#feed.idleSinceMs;
    return this.#active === null ? this.#idleSinceMs : null;
  }

  /** One that waits for a request. */
  closeIfIdle(): void {
    if (this.#active === null && this.#held.length === 0) this.#socket.destroy();
  }

  onUnread(): void {
    this.deadlineAtMs = this.#path.deadlines.nowMs() + this.#path.options.writeTimeoutMs;
  }

  onFinished(response: FastResponse): void {
    if (!response.shouldKeepAlive) {
      this.#close();
      this.#socket.destroySoon();
      return;
    }
    this.#active = null;
    this.#idleSinceMs = this.#path.deadlines.nowMs();
    this.deadlineAtMs = this.#idleSinceMs + this.#path.options.idleTimeoutMs;
    // Not from within the answer before: its request has still to be written down.
    if (this.#held.length > 0) setImmediate(this.#goOn);
  }

  /** @param bytes lent: they are copied where they are to stay */
  readonly #onBytes = (bytes: Buffer): void => {
    if (this.#isClosing || this.#isFull) return;
    if (this.#active !== null) this.#hold(bytes);
    else if (this.#held.length > 0) this.#take(Buffer.concat([this.#held.take(), bytes]));
    else if (!isEmptyLine(bytes)) this.#take(bytes);
  };

  #take(bytes: Buffer): void {
    const simple = bytes.length > this.#path.mostBytes ? null : this.#reader.read(bytes.toString('latin1'));
    if (simple === null) this.#handOver(bytes);
    else this.#serve(simple);
  }

  #serve({ method, url, rawHeaders, body }: SimpleRequest): void {
    const request: ClientRequest = {
      method,
      url,
      httpVersion: '1.1',
      rawHeaders,
      headers: NO_FIELDS,
      socket: this.#socket,
      complete: true,
      wholeBody: body,
      destroyed: false,
    };
    this.#isNew = false;
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    const response = new FastResponse(request, this);
    this.#active = response;
    this.#path.options.serve(request, response, this.#heads.read({ method, url, httpVersion: '1.1', rawHeaders }));
  }

  /** A request is served when the one before it has been answered, as if they had not been sent in one go. */
  #hold(bytes: Buffer): void {
    if (this.#held.add(bytes)) return;
    // The connection ends with the answer that is under way. What still comes is read and dropped: only a connection that
    // is read shows that the client has left.
    this.#isFull = true;
    closeAfter(this.#active!, true);
  }

  readonly #goOn = (): void => {
    if (this.#active !== null || this.#held.length === 0 || !this.#socket.writable || this.#isClosing) return;
    this.#take(this.#held.take());
  };

  #handOver(bytes: Buffer): void {
    const socket = this.#socket;
    this.#leave();
    this.#letGo();
    socket.removeListener('data', this.#onBytes);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('close', this.#onClose);
    this.#feed = this.#path.handOver(socket);
    this.#feed.begin(ownCopy(bytes));
  }

  #close(): void {
    this.#isClosing = true;
    this.#letGo();
  }

  /** Whatever still comes is for who reads the stream. */
  #letGo(): void {
    if (this.#socket instanceof LendingSocket) this.#socket.taker = null;
  }

  /** As node:http does: who ends its side of the connection gets nothing more. */
  readonly #onEnd = (): void => endAfterClient(this.#socket);

  readonly #onClose = (): void => {
    this.#close();
    this.#held.drop();
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

/** What some clients send before or behind a request (RFC 9112 section 2.2): no deadline begins with it. */
function isEmptyLine(bytes: Buffer): boolean {
  return bytes.length === 2 && bytes[0] === 13 && bytes[1] === 10;
}
