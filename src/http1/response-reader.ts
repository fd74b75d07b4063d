import { TOKEN_CHARACTER } from './fields.ts';
import {
  BadResponseError,
  type ResponseHead,
  readPlainResponseHead,
  readResponseFields,
  readResponseHead,
} from './response-head.ts';

export type { ResponseHead } from './response-head.ts';

/** Called as a response is read. */
export interface ResponseHandler {
  /** An interim response (1xx) other than 101. */
  onInformation(status: number, fields: readonly string[]): void;
  onHead(head: ResponseHead): void;
  /** A piece of the body. It is part of the buffer that was read, not a copy. */
  onData(chunk: Buffer): void;
  /** The response is complete. */
  onEnd(): void;
}

interface ResponseLimits {
  /** Maximum length of the status line and the fields together. */
  readonly maxHeadBytes?: number;
  readonly maxFields?: number;
}

const MAX_HEAD_BYTES = 16 * 1024;
const MAX_TRAILER_BYTES = 16 * 1024;
const MAX_CHUNK_LINE_BYTES = 4 * 1024;

const [HEAD, LENGTH, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILERS, UNTIL_CLOSE, WHOLE, ABANDONED] = [
  0, 1, 2, 3, 4, 5, 6, 7, 8,
];

const STATE_OF = { none: WHOLE, length: LENGTH, chunked: CHUNK_SIZE, close: UNTIL_CLOSE } as const;

const NOTHING = Buffer.alloc(0);
const BEGINNING = 'HTTP/1.';
const FRAMING = /^(?:content-length|transfer-encoding)$/i;
const QUOTED_STRING = String.raw`"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"`;
/** The size of a chunk and its extensions, which are dropped (RFC 9112 section 7.1.1). */
const CHUNK_LINE = new RegExp(
  `^([0-9A-Fa-f]{1,12})(?:;${TOKEN_CHARACTER}+(?:=(?:${TOKEN_CHARACTER}+|${QUOTED_STRING}))?)*$`,
);

/**
 * Reads the responses on one connection (RFC 9112), one at a time, from pieces of any size.
 *
 * It repairs nothing. Attack: bytes that one reader takes for a body are taken for a response by the next reader, and
 * the wrong client gets that response (response splitting, response queue poisoning). So a response whose end is in
 * doubt, or that could not be forwarded as it is, is an error: bare line feeds, folded fields, two lengths, a length
 * beside a coding, any coding but one `chunked`, a status that does not exist, control bytes.
 */
export class ResponseReader {
  readonly #handler: ResponseHandler;
  readonly #maxHeadBytes: number;
  readonly #maxFields: number | undefined;
  #state = WHOLE;
  #method = '';
  /** The beginning of a line or head whose end has not arrived. */
  #held: Buffer = NOTHING;
  /** Bytes left of the body or of the chunk. */
  #left = 0;
  #trailerBytes = 0;
  /** Whether bytes arrived that belong to no response, so that the connection must not be used again. Only this class changes it. */
  excess = false;

  constructor(handler: ResponseHandler, { maxHeadBytes = MAX_HEAD_BYTES, maxFields }: ResponseLimits = {}) {
    this.#handler = handler;
    this.#maxHeadBytes = maxHeadBytes;
    this.#maxFields = maxFields;
  }

  /** Whether a body has begun and has not ended. */
  get isAmidBody(): boolean {
    return this.#state > HEAD && this.#state < WHOLE;
  }

  /** Expects the response to a request with this method. */
  begin(method: string): void {
    this.#method = method;
    this.#state = HEAD;
  }

  /** @throws BadResponseError for anything that is not a well-formed HTTP/1.1 or 1.0 response */
  read(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#state >= WHOLE) {
        if (this.#state === WHOLE) this.excess = true;
        return;
      }
      at = this.#step(chunk, at);
      if (this.#state !== WHOLE) continue;
      // Set before the handler can begin the next request, for whose response these bytes must not be taken.
      this.excess = at < chunk.length;
      this.#handler.onEnd();
      return;
    }
  }

  /** Stops calling the handler, for this response and all later ones. */
  abandon(): void {
    this.#state = ABANDONED;
  }

  /** The connection has ended. @returns whether that completes the response; false if it broke off */
  end(): boolean {
    if (this.#state !== UNTIL_CLOSE) return this.#state >= WHOLE;
    this.#state = WHOLE;
    this.#handler.onEnd();
    return true;
  }

  /** Reads as much as possible of one part of the response. @returns the offset at which it stopped */
  #step(chunk: Buffer, at: number): number {
    switch (this.#state) {
      case HEAD:
        return this.#readHead(chunk, at);
      case LENGTH:
      case CHUNK_DATA:
        return this.#readCounted(chunk, at);
      case UNTIL_CLOSE:
        this.#handler.onData(at === 0 ? chunk : chunk.subarray(at));
        return chunk.length;
      default:
        return this.#readLine(chunk, at);
    }
  }

  #readCounted(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#left);
    this.#left -= end - at;
    const whole = this.#left === 0;
    if (whole) this.#state = this.#state === LENGTH ? WHOLE : CHUNK_END;
    this.#handler.onData(at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end));
    return end;
  }

  #readHead(chunk: Buffer, at: number): number {
    const held = this.#held.length;
    const bytes = held === 0 ? chunk : Buffer.concat([this.#held, chunk.subarray(at)]);
    const from = held === 0 ? at : 0;
    const end = bytes.indexOf('\r\n\r\n', held === 0 ? at : Math.max(0, held - 3), 'latin1');
    // If the end has not arrived yet, up to three bytes of it may have.
    if ((end === -1 ? bytes.length - 3 : end) - from > this.#maxHeadBytes)
      throw new BadResponseError('a head that is too large');
    if (end === -1) {
      // Copied, because the buffer may be overwritten by the next read.
      this.#held = held === 0 ? Buffer.from(bytes.subarray(from)) : bytes;
      assertBeginning(this.#held, held);
      return chunk.length;
    }
    this.#held = NOTHING;
    this.#onHead(bytes.toString('latin1', from, end));
    return held === 0 ? end + 4 : at + end + 4 - held;
  }

  #onHead(text: string): void {
    const head =
      readPlainResponseHead(text, this.#method, this.#maxFields) ??
      readResponseHead(text, this.#method, this.#maxFields);
    if (head.status < 200) {
      this.#handler.onInformation(head.status, head.fields);
      return;
    }
    this.#left = head.length;
    this.#trailerBytes = 0;
    this.#state = STATE_OF[head.framing];
    this.#handler.onHead(head);
  }

  /** A line of the chunked coding: a size, the end of a chunk, a trailer. */
  #readLine(chunk: Buffer, at: number): number {
    const end = chunk.indexOf(10, at);
    const piece = chunk.subarray(at, end === -1 ? chunk.length : end + 1);
    const line = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece]);
    if (line.length > MAX_CHUNK_LINE_BYTES) throw new BadResponseError('a line of a chunk that is too long');
    if (end === -1) {
      this.#held = this.#held.length === 0 ? Buffer.from(line) : line;
      return chunk.length;
    }
    this.#held = NOTHING;
    if (line.at(-2) !== 13) throw new BadResponseError('a line without CR');
    this.#onLine(line.toString('latin1', 0, line.length - 2));
    return end + 1;
  }

  #onLine(line: string): void {
    if (this.#state === CHUNK_END) {
      if (line !== '') throw new BadResponseError('a chunk that is longer than it says');
      this.#state = CHUNK_SIZE;
    } else if (this.#state === CHUNK_SIZE) {
      const size = CHUNK_LINE.exec(line);
      if (size === null) throw new BadResponseError('a malformed chunk size');
      this.#left = Number.parseInt(size[1]!, 16);
      this.#state = this.#left === 0 ? TRAILERS : CHUNK_DATA;
    } else if (line === '') this.#state = WHOLE;
    else {
      this.#trailerBytes += line.length;
      if (this.#trailerBytes > MAX_TRAILER_BYTES) throw new BadResponseError('trailers that are too large');
      const [name] = readResponseFields(line, 0, 1);
      if (FRAMING.test(name!)) throw new BadResponseError('framing in a trailer');
    }
  }
}

/** The bytes received so far must begin a head. The reader does not wait for the rest of anything else. */
function assertBeginning(bytes: Buffer, from: number): void {
  const beginning = bytes.toString('latin1', 0, BEGINNING.length);
  if (!BEGINNING.startsWith(beginning)) throw new BadResponseError('no HTTP/1.1');
  for (let lf = bytes.indexOf(10, from); lf !== -1; lf = bytes.indexOf(10, lf + 1)) {
    if (bytes[lf - 1] !== 13) throw new BadResponseError('a line without CR');
  }
}
