import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { RequestTimed } from '../../http1/client.ts';
import { PIECES } from '../../io/buffers.ts';
import { type Deadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { closeAfter, closeGently, endAfterClient } from '../../io/graceful-close.ts';
import { HeldBytes, type HeldBytesBudget } from '../../io/held-bytes.ts';
import { interceptDestroySoon, interceptResume, keepsConnection, takeParser } from '../../io/node-internals.ts';
import { readInTurn } from '../../io/read-buffers.ts';
import { hasWaiting } from '../../io/tls-carrier.ts';
import { TokenBucket } from '../../io/token-bucket.ts';

const HEAD_END = Buffer.from('\r\n\r\n');
/** Enough to distinguish HEAD from all other methods. */
const METHOD_BYTES = 5;
const NOTHING = Buffer.alloc(0);
const [CR, LF] = [13, 10];
/**
 * Chunks of a body that are parsed in one turn of the event loop. Each becomes a Buffer and an event, however small.
 */
const MAX_CHUNKS = 256;
/** Chunks that a body may have beside one for each CHUNK_BYTES, and as many more in each second. */
const SPARE_CHUNKS = 5_000;
const SPARE_CHUNKS_PER_SECOND = 1_000;
const CHUNK_BYTES = 64;
/** How long a connection is not read because of what its client has sent behind a request that has no response yet. */
export const UNREAD_FOR_MS = 500;
/** Limit on the empty lines before a request. RFC 9112 section 2.2 asks a server to ignore at least one. */
export const MAX_EMPTY_BYTES = 64;

type Parse = (bytes: Buffer) => void;

/** The `keepAliveTimeoutBuffer` of a server: it announces how long connections may be idle, and their feeds close them. */
export const NEVER_MS = 2 ** 30;

/** How long the client of a connection may take. */
interface RequestDeadlines {
  readonly deadlines: Deadlines;
  /** To send the head of a request. */
  readonly headersTimeoutMs: number;
  /** To send the whole request. */
  readonly requestTimeoutMs: number;
  /** To begin the next request. */
  readonly idleTimeoutMs: number;
}

/** The error of `clientError` for a request that did not arrive in time, as node:http makes it. */
function lateRequest(): NodeJS.ErrnoException {
  return Object.assign(new Error('the request did not arrive in time'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
}

/** Who reads the body of a request. */
export interface BodyReading {
  /**
   * Reads a piece of a body that has arrived on a connection, and charges that to the consumer of its request.
   * @returns false if the consumer is beyond its share, and the piece has to be read later
   */
  read(socket: Socket, work: () => void): boolean;
  /** Reads more of it later, when it is the consumer's turn. */
  readLater(socket: Socket, work: () => void): void;
  /** The body is cut into more chunks than it may be. The feed has been stopped. */
  onTooManyChunks(socket: Socket): void;
}

/**
 * Feeds the bytes of one connection to the parser of node:http, one request at a time. The bytes after a request are
 * held unparsed until that request has been answered. The parser copies the pieces of a body that it announces, so the
 * memory of what it has read is used again.
 *
 * Attack: node:http parses all that has arrived and announces pipelined requests all at once. A request that is refused
 * as ambiguous, with `Connection: close`, would then be followed to the upstream by the next one, although the response
 * promises the client that nothing more is read (RFC 9112 section 9.6). A thousand requests in one packet would become
 * a thousand concurrent requests to the upstream. Each parsed request takes ten times the memory of its bytes. And a
 * CONNECT after another request would wait on a socket that node:http has released: nothing would listen for its
 * errors, and a reset would end the process.
 *
 * Attack: a client sends a body in chunks of one byte. For each chunk the parser makes a Buffer of a hundred bytes,
 * thousands in one turn, and all of them stay in memory until the body is read. So the feed parses a body only while it
 * is read, and only a bounded number of chunks in each turn. A body may have `SPARE_CHUNKS` of them beside one for each
 * `CHUNK_BYTES`: chunks of one byte cost the gateway a hundred times as much as their sender.
 *
 * The bytes are cut where a head, a body of declared length or a chunked body ends, so each piece completes at most one
 * request. The parser reads the same bytes in the same order wherever they are cut, so a wrong cut cannot change what
 * they mean. If node:http announces a second request anyway, the connection is closed.
 *
 * Fault: node:http checks its deadlines before it reads. After a stall of this thread, a request that was sent in pieces, and had
 * arrived meanwhile, got 408, and a kept connection was closed on which the next request waited. So the deadlines are the feed's.
 */
export class RequestFeed implements Timed, RequestTimed {
  deadlineAtMs: number;
  slot = UNWATCHED;

  /** When it last began to wait for a request; null while it serves one. */
  #idleSinceMs: number | null;
  readonly #socket: Socket;
  readonly #parse: Parse;
  readonly #server: Server;
  readonly #limits: RequestDeadlines;
  readonly #bodies: BodyReading;
  readonly #held: HeldBytes;
  #request: IncomingMessage | null = null;
  #response: ServerResponse | null = null;
  /** How many bytes of a body of declared length have yet to be fed. */
  #bodyLeft = 0;
  /** Bytes that the current turn has yet to give to the parser. */
  #rest: Buffer = NOTHING;
  /** Later bytes of the request that is being read, kept until its reader asks for more or the next turn begins. */
  #unread: Buffer = NOTHING;
  /** Set while the connection is paused; gives `resume` back to node:http. */
  #letResume: (() => void) | null = null;
  /** Runs while the connection is paused because of what follows the request. */
  #givingUp: NodeJS.Timeout | null = null;
  #isScheduled = false;
  /** Where in a chunked body the parser is; null for any other request. */
  #chunks: ChunkCuts | null = null;
  /** The chunks that the body may still have. */
  #spare: TokenBucket | null = null;
  /** Bytes of empty lines since the last request. */
  #emptyBytes = 0;
  /** How many bytes of HEAD_END the bytes fed so far end with. */
  #matched = 0;
  /** The first bytes of the request that is being read, without the empty lines before it. */
  #start = '';
  #lineBytes = 0;
  #isLineOver = false;
  /** When the request that is being read began, the first one with the connection; null while the next one is waited for. */
  #startedAtMs: number | null;
  #isOver = false;

  /**
   * @param server takes the connection as if it had accepted it
   * @param socket a connection without unparsed bytes that were read from it
   */
  constructor(server: Server, socket: Socket, held: HeldBytesBudget, bodies: BodyReading, limits: RequestDeadlines) {
    this.#server = server;
    this.#socket = socket;
    this.#bodies = bodies;
    this.#limits = limits;
    this.#held = new HeldBytes(held);
    const nowMs = limits.deadlines.nowMs();
    this.#idleSinceMs = nowMs;
    this.#startedAtMs = nowMs;
    this.deadlineAtMs = nowMs + limits.headersTimeoutMs;
    limits.deadlines.watch(this);
    this.#parse = takeParser(server, socket, this.#onData);
    socket.once('end', this.#onEnd);
    socket.once('close', () => this.stop());
  }

  onDeadline(): void {
    // Its client is not late: the gateway has yet to process what it has sent. So it is looked at again.
    if (this.#isScheduled || hasWaiting(this.#socket)) this.deadlineAtMs = this.#nowMs();
    else if (this.#startedAtMs === null) this.#socket.destroy();
    else if (!this.#server.emit('clientError', lateRequest(), this.#socket)) this.#refuseLate();
  }

  /** As node:http does where nothing listens for `clientError`. */
  #refuseLate(): void {
    if (!this.hasResponseBegun) this.#socket.write('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n');
    this.stop();
    closeGently(this.#socket);
  }

  requestWithin(ms: number): void {
    if (this.#startedAtMs !== null && this.#request?.complete === false) this.deadlineAtMs = this.#startedAtMs + ms;
  }

  #nowMs(): number {
    return this.#limits.deadlines.nowMs();
  }

  /** Feeds the bytes that were read before node:http took the connection. They begin with a request. */
  begin(bytes: Buffer): void {
    this.#onData(bytes);
  }

  /** When the connection began to wait for a request, on the clock of its listener; null while it has one to serve. */
  get idleSinceMs(): number | null {
    return this.#waiting === 0 ? this.#idleSinceMs : null;
  }

  /** Whether a response may be only partly written. */
  get hasResponseBegun(): boolean {
    return this.#response?.headersSent === true;
  }

  /** The request that is being served; null between two. */
  get request(): IncomingMessage | null {
    return this.#request;
  }

  /** Whether the request that is being read, or was read last, is a HEAD, whose response has no body. */
  get isHead(): boolean {
    return this.#start === 'HEAD ';
  }

  /** How long the request line is that is being read, or was read last, as far as it has arrived. */
  get requestLineBytes(): number {
    return this.#lineBytes;
  }

  /** Whether no byte of a request is left to serve, and the operating system has accepted everything written. */
  get isIdle(): boolean {
    return this.#request === null && this.#waiting === 0 && this.#start === '' && this.#socket.writableLength === 0;
  }

  /**
   * Called when node:http announces a request.
   * @returns false if it must not be served
   */
  announced(request: IncomingMessage, response: ServerResponse): boolean {
    if (this.#isOver) return false;
    if (this.#request !== null) {
      this.stop();
      this.#socket.destroy();
      return false;
    }
    this.#request = request;
    this.#response = response;
    this.#idleSinceMs = null;
    this.deadlineAtMs = this.#startedAtMs! + this.#limits.requestTimeoutMs;
    (request as { timed?: RequestTimed }).timed = this;
    this.#emptyBytes = 0;
    this.#bodyLeft = declaredLength(request);
    const isChunked = request.headers['transfer-encoding'] !== undefined;
    this.#chunks = isChunked ? new ChunkCuts() : null;
    this.#spare = isChunked ? new TokenBucket(SPARE_CHUNKS, SPARE_CHUNKS_PER_SECOND, this.#nowMs()) : null;
    // The reader of the body wants more. node:http resumes the connection only if it has not done so before.
    request.on('resume', () => {
      if (this.#letResume !== null) this.#schedule();
    });
    response.once('close', () => this.#onResponded(response));
    return true;
  }

  /**
   * Stops feeding, because the connection switches to another protocol.
   * @returns the bytes not yet given to the parser
   */
  release(): Buffer {
    this.#idleSinceMs = null;
    this.#socket.removeListener('end', this.#onEnd);
    return this.stop();
  }

  /** Stops feeding the parser. @returns the bytes not yet given to it */
  stop(): Buffer {
    const left = Buffer.concat([this.#rest, this.#unread, this.#held.take()]);
    this.#isOver = true;
    this.#limits.deadlines.forget(this);
    this.#rest = NOTHING;
    this.#unread = NOTHING;
    this.#socket.removeListener('data', this.#onData);
    this.#resume();
    return left;
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#isOver) return;
    if (this.#waiting > 0 || !this.#mayFeed) this.#hold(bytes);
    else if (this.#request === null) this.#feed(bytes);
    else if (!this.#bodies.read(this.#socket, () => this.#feed(bytes))) {
      this.#hold(bytes);
      this.#scheduleAsConsumer();
    }
  };

  readonly #onEnd = (): void => endAfterClient(this.#socket);

  get #waiting(): number {
    return this.#unread.length + this.#held.length;
  }

  /** False while a request is served, except to feed a body of which all parsed bytes have been read. */
  get #mayFeed(): boolean {
    const request = this.#request;
    if (request === null) return true;
    return !request.complete && (request.readableFlowing === true || request.readableLength === 0);
  }

  readonly #feedWaiting = (): void => {
    this.#isScheduled = false;
    if (this.#isOver || !this.#mayFeed) return;
    if (this.#waiting > 0) {
      const bytes = this.#unread.length > 0 ? this.#unread : this.#held.take();
      this.#unread = NOTHING;
      this.#feed(bytes);
    }
    if (this.#unread.length === 0 && !this.#held.isFull) this.#resume();
  };

  #schedule(): void {
    if (this.#isScheduled) return;
    if (this.#chunks !== null) this.#scheduleAsConsumer();
    else {
      this.#isScheduled = true;
      readInTurn(this.#socket, this.#feedWaiting);
    }
  }

  #scheduleAsConsumer(): void {
    this.#isScheduled = true;
    this.#bodies.readLater(this.#socket, this.#feedWaiting);
  }

  /**
   * Pauses the connection, and defers its resumption by node:http, which resumes it whenever it wants more of a body.
   */
  #holdBack(): void {
    if (this.#letResume !== null) return;
    this.#socket.pause();
    this.#letResume = interceptResume(this.#socket, () => this.#schedule());
  }

  #resume(): void {
    if (this.#letResume === null) return;
    this.#stopGivingUp();
    this.#letResume();
    this.#letResume = null;
    this.#socket.resume();
  }

  #feed(bytes: Buffer): void {
    this.#rest = bytes;
    let chunksLeft = MAX_CHUNKS;
    while (this.#rest.length > 0 && this.#mayFeed && chunksLeft > 0) {
      if (this.#request === null && !this.#passEmptyLines()) return;
      if (this.#chunks !== null) chunksLeft -= this.#feedChunks(chunksLeft);
      else this.#feedPiece(this.#bodyLeft > 0 ? this.#bodyLeft : this.#headEnd());
    }
    const rest = this.#rest;
    this.#rest = NOTHING;
    if (this.#isOver) return;
    if (rest.length === 0) {
      PIECES.giveBack(bytes);
      return;
    }
    this.#hold(rest);
    if (chunksLeft <= 0) this.#schedule();
  }

  #feedPiece(length: number): void {
    const piece = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(piece.length);
    if (this.#bodyLeft > 0) {
      this.#bodyLeft -= piece.length;
      this.#matched = 0;
    } else if (this.#chunks === null) this.#noteStart(piece);
    if (piece.length > 0) this.#parse(piece);
    if (this.#request?.complete === true) this.deadlineAtMs = Number.POSITIVE_INFINITY;
  }

  /** @returns how many chunks of the body were given to the parser */
  #feedChunks(most: number): number {
    const { length, chunks } = this.#chunks!.next(this.#rest, most);
    if (!this.#spare!.spend(Math.max(0, chunks - length / CHUNK_BYTES), this.#nowMs())) {
      this.stop();
      this.#bodies.onTooManyChunks(this.#socket);
      return most;
    }
    this.#matched = 0;
    this.#feedPiece(length);
    return Math.max(1, chunks);
  }

  /**
   * Passes over whole empty lines before a request.
   *
   * Attack: a client sends nothing but empty lines, which cost a call of the parser each and count towards no limit.
   * @returns false if there are too many; the connection is then closed
   */
  #passEmptyLines(): boolean {
    const rest = this.#rest;
    let at = 0;
    if (this.#start === '') while (rest[at] === CR && rest[at + 1] === LF) at += 2;
    // The parser has to see an empty line before a lone CR or LF: such a request is refused
    // (`isNonConformingRequestLine`).
    if (at > 0 && (rest[at] === CR || rest[at] === LF)) at -= 2;
    this.#rest = rest.subarray(at);
    this.#emptyBytes += at;
    if (this.#emptyBytes <= MAX_EMPTY_BYTES) return true;
    this.stop();
    this.#socket.destroy();
    return false;
  }

  /** The length up to the next possible end of a head; the length of the rest if the head cannot end in it. */
  #headEnd(): number {
    const rest = this.#rest;
    let at = 0;
    // The end may have begun in the piece before.
    while (this.#matched > 0 && at < rest.length) {
      this.#matched = matchedWith(this.#matched, rest[at++]!);
      if (this.#matched === HEAD_END.length) break;
    }
    if (this.#matched === HEAD_END.length) {
      this.#matched = 0;
      return at;
    }
    if (at === rest.length) return at;
    const found = rest.indexOf(HEAD_END, at);
    if (found !== -1) return found + HEAD_END.length;
    for (let i = Math.max(at, rest.length - HEAD_END.length + 1); i < rest.length; i++) {
      this.#matched = matchedWith(this.#matched, rest[i]!);
    }
    return rest.length;
  }

  #noteStart(piece: Buffer): void {
    if (this.#request !== null || this.#isLineOver) return;
    let from = 0;
    if (this.#lineBytes === 0) while (piece[from] === CR || piece[from] === LF) from++;
    if (this.#start === '' && from < piece.length) {
      this.#startedAtMs = this.#nowMs();
      this.deadlineAtMs = this.#startedAtMs + this.#limits.headersTimeoutMs;
    }
    const end = piece.indexOf(LF, from);
    this.#isLineOver = end !== -1;
    this.#lineBytes += (end === -1 ? piece.length : end) - from;
    this.#start += piece.toString('latin1', from, from + METHOD_BYTES - this.#start.length);
  }

  #hold(bytes: Buffer): void {
    if (this.#request?.complete === false) {
      this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
      this.#holdBack();
      return;
    }
    if (this.#held.add(bytes)) {
      if (this.#held.isFull) this.#holdBackNext();
    } else if (this.#mayClose) this.#giveUp();
    else {
      this.#held.addAnyway(bytes);
      this.#holdBackNext();
    }
  }

  /**
   * Stops reading what follows the request. The client may have all of the response before node:http has noticed that, and the
   * requests behind it are then no pipeline, so nothing of them is dropped.
   *
   * Fault: only a connection that is read shows that the client has disconnected. So what follows a request that takes longer is
   * read and dropped, and its response announces that the connection is closed.
   */
  #holdBackNext(): void {
    this.#holdBack();
    // If the response ends the connection, unread bytes would make the client's system discard it.
    interceptDestroySoon(this.#socket, () => closeGently(this.#socket));
    if (this.#mayClose) this.#givingUp ??= setTimeout(() => this.#giveUp(), UNREAD_FOR_MS);
  }

  /** Whether a request is served whose response can still announce that the connection is closed (RFC 9112 section 9.6). */
  get #mayClose(): boolean {
    return this.#response?.headersSent === false;
  }

  /** Stops the time after which a request is given up. It is that of one request, and the next one has its own. */
  #stopGivingUp(): void {
    if (this.#givingUp !== null) clearTimeout(this.#givingUp);
    this.#givingUp = null;
  }

  #giveUp(): void {
    this.#stopGivingUp();
    if (!this.#mayClose) return;
    this.stop();
    this.#socket.on('data', drop);
    closeAfter(this.#response!, true);
  }

  #onResponded(response: ServerResponse): void {
    this.#stopGivingUp();
    this.#request = null;
    this.#response = null;
    this.#chunks = null;
    this.#spare = null;
    this.#start = '';
    this.#lineBytes = 0;
    this.#isLineOver = false;
    this.#idleSinceMs = this.#nowMs();
    this.#startedAtMs = null;
    this.deadlineAtMs = this.#idleSinceMs + this.#limits.idleTimeoutMs;
    const socket = this.#socket;
    if (!socket.destroyed && keepsConnection(response) && response.writableFinished) {
      // Only one request of each connection is served in a turn of the event loop, so that a long pipeline does not
      // delay other clients.
      if (this.#waiting > 0) this.#schedule();
      return;
    }
    this.stop();
    // If this was decided after the head of the response was written, node:http does not know that the connection ends.
    if (!socket.destroyed && !socket.writableEnded) closeGently(socket);
  }
}

const drop = (): void => {};

/** Longer than any chunk size that the parser accepts, which has at most 16 digits before its extensions. */
const SIZE_BYTES = 20;

/** Finds where the chunks of one body end. It reads only their sizes, and decides only where the bytes are cut. */
class ChunkCuts {
  /** Bytes of the current chunk and its line end that have yet to arrive. */
  #left = 0;
  /** The beginning of the line with the size of the next chunk. */
  #line = '';
  #isAfterLast = false;

  /** @returns how many bytes to give to the parser now, and how many chunks begin in them */
  next(bytes: Buffer, most: number): { readonly length: number; readonly chunks: number } {
    let at = 0;
    let chunks = 0;
    while (at < bytes.length && chunks < most) {
      if (this.#left > 0) {
        const length = Math.min(this.#left, bytes.length - at);
        this.#left -= length;
        at += length;
        continue;
      }
      const lineEnd = bytes.indexOf(LF, at);
      const end = lineEnd === -1 ? bytes.length : lineEnd + 1;
      // Trailers are fed line by line, because the body ends with one of them.
      if (this.#isAfterLast) return { length: end, chunks: chunks + 1 };
      if (this.#line.length < SIZE_BYTES) this.#line += bytes.toString('latin1', at, Math.min(end, at + SIZE_BYTES));
      at = end;
      if (lineEnd === -1) break;
      const size = Number.parseInt(this.#line, 16);
      this.#line = '';
      chunks++;
      if (size > 0) this.#left = size + 2;
      else {
        // This is the last chunk, or the line has no size and the parser refuses it.
        this.#isAfterLast = true;
        break;
      }
    }
    return { length: at, chunks };
  }
}

/** How many bytes of HEAD_END are matched after this byte, if `matched` of them were matched before it. */
function matchedWith(matched: number, byte: number): number {
  if (byte === (matched % 2 === 0 ? CR : LF)) return matched + 1;
  return byte === CR ? 1 : 0;
}

/** The length of the body that a head declares; 0 if it declares none or the length cannot be relied on. */
function declaredLength({ headers }: IncomingMessage): number {
  const length = Number(headers['content-length'] ?? 0);
  return headers['transfer-encoding'] === undefined && Number.isSafeInteger(length) ? length : 0;
}
