import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Failure } from '../failure.ts';
import { closeGently, endAfterClient } from '../gateway/linger.ts';
import { closeAfter } from '../gateway/reply.ts';
import { HeldBytes, type HeldBytesBudget } from './held-bytes.ts';

const HEAD_END = Buffer.from('\r\n\r\n');
/** Enough to tell HEAD from all other methods. */
const METHOD_BYTES = 5;
const NOTHING = Buffer.alloc(0);
const [CR, LF] = [13, 10];
/** Chunks of a body that are parsed in one turn of the event loop: each becomes a Buffer and an event, however small. */
const MOST_CHUNKS = 256;
/** What may stand before a request in empty lines. RFC 9112 section 2.2 asks for one to be passed over. */
const MOST_EMPTY_BYTES = 64;

type Parse = (bytes: Buffer) => void;

/**
 * Feeds the bytes of one connection to the parser of node:http, one request at a time: what stands behind a request is
 * held as raw bytes until that request has been answered.
 *
 * Attack: node:http parses all that has arrived and announces pipelined requests all at once. A request that is refused
 * as ambiguous, with `Connection: close`, would then be followed to the upstream by the next one, although the client is
 * told that nothing more is read (RFC 9112 section 9.6). A thousand requests in one packet would be a thousand at the
 * upstream. Each parsed request takes ten times the memory of its bytes. And a CONNECT behind another request would wait
 * on a socket that node:http has let go of: nothing would listen for its errors, and a reset would end the process.
 *
 * Attack: a client sends a body in chunks of one byte. The parser makes a Buffer of a hundred bytes of each, thousands in
 * one turn, and they wait while nothing reads the body yet. So the feed parses no body that is not read, and in a turn
 * only a bounded number of chunks.
 *
 * The bytes are cut where a head, a body of declared length or a chunked body ends, so a piece completes one request at
 * most. The parser reads the same bytes in the same order wherever they are cut, so a wrong cut cannot
 * change what they mean. If a second request were announced nevertheless, the connection would be closed.
 */
export class RequestFeed {
  /** When the connection began to wait for a request, on the clock of its listener; null while it serves one. */
  idleSinceMs: number | null;
  readonly #socket: Socket;
  readonly #parse: Parse;
  readonly #nowMs: () => number;
  readonly #held: HeldBytes;
  #request: IncomingMessage | null = null;
  #response: ServerResponse | null = null;
  /** What is still to come of a body of declared length. */
  #bodyLeft = 0;
  /** What the current turn has not given to the parser yet. */
  #rest: Buffer = NOTHING;
  /** More of the request that is being read, until its reader wants more or the next turn comes. */
  #unread: Buffer = NOTHING;
  /** Whether the connection is not read because of `#unread`. */
  #isHeldBack = false;
  #isScheduled = false;
  /** Where in a chunked body the parser is; null for any other request. */
  #chunks: ChunkCuts | null = null;
  /** Bytes of empty lines since the last request. */
  #emptyBytes = 0;
  /** How many bytes of HEAD_END the parser was given last. */
  #matched = 0;
  /** The first bytes of the request that is being read, without empty lines before it. */
  #start = '';
  #isOver = false;

  /**
   * @param server which takes the connection as if it had accepted it
   * @param socket from which nothing has been read that is still to be parsed
   */
  constructor(server: Server, socket: Socket, held: HeldBytesBudget, nowMs: () => number) {
    this.#socket = socket;
    this.#nowMs = nowMs;
    this.#held = new HeldBytes(held);
    this.idleSinceMs = nowMs();
    server.emit('connection', socket);
    this.#parse = parserOf(socket);
    // Another listener for data also makes Node read the socket as a stream, and not in its parser.
    socket.on('data', this.#onData);
    socket.removeListener('data', this.#parse);
    socket.once('end', this.#onEnd);
    socket.once('close', () => this.stop());
  }

  /** The bytes that are still to be parsed, from the beginning of a request. */
  begin(bytes: Buffer): void {
    this.#onData(bytes);
  }

  /** The request that is being served; null between two. */
  get request(): IncomingMessage | null {
    return this.#request;
  }

  /** Whether the request that is being read, or was read last, is a HEAD: its answer has no body. */
  get isHead(): boolean {
    return this.#start === 'HEAD ';
  }

  /** Whether nothing of a request has come, and everything written has been taken. */
  get isIdle(): boolean {
    return this.#request === null && this.#waiting === 0 && this.#start === '' && this.#socket.writableLength === 0;
  }

  /**
   * The parser has announced a request.
   * @returns false where it must not be served
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
    this.idleSinceMs = null;
    this.#emptyBytes = 0;
    this.#bodyLeft = declaredLength(request);
    this.#chunks = request.headers['transfer-encoding'] === undefined ? null : new ChunkCuts();
    // Its reader wants more. node:http asks the connection only where it has not asked before.
    request.on('resume', () => {
      if (this.#isHeldBack) this.#schedule();
    });
    response.once('close', () => this.#onAnswered(response));
    return true;
  }

  /** The connection leaves HTTP. @returns what was still to be given to the parser */
  release(): Buffer {
    this.idleSinceMs = null;
    this.#socket.removeListener('end', this.#onEnd);
    return this.stop();
  }

  /** Nothing more is given to the parser. @returns what was still to be given to it */
  stop(): Buffer {
    const left = Buffer.concat([this.#rest, this.#unread, this.#held.take()]);
    this.#isOver = true;
    this.#rest = NOTHING;
    this.#unread = NOTHING;
    this.#held.drop();
    this.#socket.removeListener('data', this.#onData);
    this.#letOn();
    return left;
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#isOver) return;
    if (this.#waiting > 0 || !this.#mayFeed) this.#hold(bytes);
    else this.#feed(bytes);
  };

  readonly #onEnd = (): void => endAfterClient(this.#socket);

  get #waiting(): number {
    return this.#unread.length + this.#held.length;
  }

  /** Not while a request is served, nor while what has been parsed of its body has not been taken. */
  get #mayFeed(): boolean {
    const request = this.#request;
    if (request === null) return true;
    return !request.complete && (request.readableFlowing === true || request.readableLength === 0);
  }

  readonly #goOn = (): void => {
    this.#isScheduled = false;
    if (this.#isOver || !this.#mayFeed) return;
    if (this.#waiting > 0) {
      const bytes = this.#unread.length > 0 ? this.#unread : this.#held.take();
      this.#unread = NOTHING;
      this.#feed(bytes);
    }
    if (this.#unread.length === 0) this.#letOn();
  };

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#goOn);
  }

  /** Reads nothing more from the connection for now. node:http resumes it whenever it wants more of a body. */
  #holdBack(): void {
    if (this.#isHeldBack) return;
    this.#isHeldBack = true;
    const socket = this.#socket;
    socket.pause();
    socket.resume = () => {
      this.#schedule();
      return socket;
    };
  }

  #letOn(): void {
    if (!this.#isHeldBack) return;
    this.#isHeldBack = false;
    Reflect.deleteProperty(this.#socket, 'resume');
    this.#socket.resume();
  }

  #feed(bytes: Buffer): void {
    this.#rest = bytes;
    let chunksLeft = MOST_CHUNKS;
    while (this.#rest.length > 0 && this.#mayFeed && chunksLeft > 0) {
      if (this.#request === null && !this.#passEmptyLines()) return;
      if (this.#chunks !== null) chunksLeft -= this.#feedChunks(chunksLeft);
      else this.#feedPiece(this.#bodyLeft > 0 ? this.#bodyLeft : this.#headEnd());
    }
    const rest = this.#rest;
    this.#rest = NOTHING;
    if (rest.length === 0 || this.#isOver) return;
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
  }

  /** @returns how many chunks of the body were given to the parser */
  #feedChunks(most: number): number {
    const { length, chunks } = this.#chunks!.next(this.#rest, most);
    this.#matched = 0;
    this.#feedPiece(length);
    return Math.max(1, chunks);
  }

  /**
   * Passes over whole empty lines before a request.
   *
   * Attack: a client sends nothing else, each of them costs a call of the parser, and nothing counts them.
   * @returns false where there are too many: then the connection is closed
   */
  #passEmptyLines(): boolean {
    const rest = this.#rest;
    let at = 0;
    if (this.#start === '') while (rest[at] === CR && rest[at + 1] === LF) at += 2;
    // What a lone CR or LF follows is for the parser to see with it: it is refused (`isLooseRequestLine`).
    if (at > 0 && (rest[at] === CR || rest[at] === LF)) at -= 2;
    this.#rest = rest.subarray(at);
    this.#emptyBytes += at;
    if (this.#emptyBytes <= MOST_EMPTY_BYTES) return true;
    this.stop();
    this.#socket.destroy();
    return false;
  }

  /** Where the next head, or chunked body, of what is left may end; all of it where it ends nowhere. */
  #headEnd(): number {
    const rest = this.#rest;
    let at = 0;
    // An end that began in the piece before.
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
    if (this.#request !== null || this.#start.length === METHOD_BYTES) return;
    const start = this.#start + piece.toString('latin1', 0, METHOD_BYTES + 2 * HEAD_END.length);
    this.#start = start.replace(/^[\r\n]+/, '').slice(0, METHOD_BYTES);
  }

  #hold(bytes: Buffer): void {
    if (this.#request?.complete === false) {
      this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
      this.#holdBack();
      return;
    }
    if (this.#held.add(bytes)) return;
    // The connection ends with the answer that is under way. What still comes is read and dropped: only a connection that
    // is read shows that the client has left.
    this.stop();
    this.#socket.on('data', drop);
    if (this.#response === null) this.#socket.destroy();
    else closeAfter(this.#response, true);
  }

  #onAnswered({ shouldKeepAlive, writableFinished }: ServerResponse): void {
    this.#request = null;
    this.#response = null;
    this.#chunks = null;
    this.#start = '';
    this.idleSinceMs = this.#nowMs();
    const socket = this.#socket;
    if (!socket.destroyed && shouldKeepAlive && writableFinished) {
      // One request of each connection in a turn of the event loop: a long pipeline must not keep the others waiting.
      if (this.#waiting > 0) this.#schedule();
      return;
    }
    this.stop();
    // Where it was decided behind the head of the answer, node:http does not know that the connection ends.
    if (!socket.destroyed && !socket.writableEnded) closeGently(socket);
  }
}

const drop = (): void => {};

/** Longer than any chunk size that is taken: 16 digits, and then whatever extensions. */
const SIZE_BYTES = 20;

/** Where the chunks of one body end. It reads sizes only, and decides about nothing but where the bytes are cut. */
class ChunkCuts {
  /** Of the current chunk with its line end, still to come. */
  #left = 0;
  /** The beginning of the line with the size of the next chunk. */
  #line = '';
  #isBehindLast = false;

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
      // Trailers are given line by line: with one of them the body ends.
      if (this.#isBehindLast) return { length: end, chunks: chunks + 1 };
      if (this.#line.length < SIZE_BYTES) this.#line += bytes.toString('latin1', at, Math.min(end, at + SIZE_BYTES));
      at = end;
      if (lineEnd === -1) break;
      const size = Number.parseInt(this.#line, 16);
      this.#line = '';
      chunks++;
      if (size > 0) this.#left = size + 2;
      else {
        // The last chunk, or no size: then the parser refuses it.
        this.#isBehindLast = true;
        break;
      }
    }
    return { length: at, chunks };
  }
}

/** How many bytes of HEAD_END stand at the end once this byte has come behind so many of them. */
function matchedWith(matched: number, byte: number): number {
  if (byte === (matched % 2 === 0 ? CR : LF)) return matched + 1;
  return byte === CR ? 1 : 0;
}

/** The length of the body that a head declares; 0 where it declares none, or it cannot be relied on. */
function declaredLength({ headers }: IncomingMessage): number {
  const length = Number(headers['content-length'] ?? 0);
  return headers['transfer-encoding'] === undefined && Number.isSafeInteger(length) ? length : 0;
}

/**
 * Where node:http takes the bytes of a connection: the listener for data that it has just added.
 *
 * That it adds exactly one is not documented. A listener opens one feed before it takes connections, so a version of
 * Node that works in another way is refused at the start.
 * @throws Failure `unsupported_node`
 */
function parserOf(socket: Socket): Parse {
  const [parse, ...others] = socket.listeners('data');
  if (parse === undefined || others.length > 0) {
    throw new Failure(
      'unsupported_node',
      `Node.js ${process.version} cannot be used: it reads HTTP connections in another way.`,
    );
  }
  return parse as Parse;
}
