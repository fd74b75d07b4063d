import { type AnswerHead, readAnswerHead, readFields } from './answer-head.ts';
import { BadAnswerError } from './faults.ts';
import { readPlainHead } from './plain-answer-head.ts';

export type { AnswerHead } from './answer-head.ts';

/** Who is told of an answer as it comes in. */
export interface AnswerHandler {
  /** An interim answer (1xx) other than 101. */
  onInformation(status: number, fields: readonly string[]): void;
  onHead(head: AnswerHead): void;
  /** A piece of the body; it is part of the buffer that was read and is not copied. */
  onData(chunk: Buffer): void;
  /** The answer is whole. */
  onEnd(): void;
}

export interface AnswerLimits {
  /** Of the status line and the fields together. */
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
/** A size and extensions, which are dropped (RFC 9112 section 7.1.1). */
const CHUNK_LINE =
  /^([0-9A-Fa-f]{1,12})(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"))?)*$/;

/**
 * Reads the answers of one connection (RFC 9112), one at a time, from whatever pieces they come in.
 *
 * It repairs nothing. Attack: what one reader takes for a body the next takes for an answer, and the wrong client gets it
 * (response splitting, response queue poisoning). So whatever leaves a doubt where the answer ends, or could not be
 * passed on as it is, is an error: bare line feeds, folded fields, two lengths, a length beside a coding, any coding
 * but one `chunked`, a status that does not exist, control bytes.
 */
export class AnswerReader {
  readonly #handler: AnswerHandler;
  readonly #maxHeadBytes: number;
  readonly #maxFields: number | undefined;
  #state = WHOLE;
  #method = '';
  /** The beginning of a line or head whose end has not come. */
  #held: Buffer = NOTHING;
  /** Bytes left of the body or of the chunk. */
  #left = 0;
  #trailerBytes = 0;
  #excess = false;

  constructor(handler: AnswerHandler, { maxHeadBytes = MAX_HEAD_BYTES, maxFields }: AnswerLimits = {}) {
    this.#handler = handler;
    this.#maxHeadBytes = maxHeadBytes;
    this.#maxFields = maxFields;
  }

  /** Whether bytes came that belong to no answer: the connection must not be used again. */
  get excess(): boolean {
    return this.#excess;
  }

  /** Whether a body has begun of which more is to come. */
  get isAmidBody(): boolean {
    return this.#state > HEAD && this.#state < WHOLE;
  }

  /** Expects the answer to a request with this method. */
  begin(method: string): void {
    this.#method = method;
    this.#state = HEAD;
  }

  /** @throws BadAnswerError for anything that is not a well-formed HTTP/1.1 or 1.0 answer */
  read(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#state >= WHOLE) {
        if (this.#state === WHOLE) this.#excess = true;
        return;
      }
      at = this.#step(chunk, at);
      if (this.#state !== WHOLE) continue;
      // Told before anybody could make room for the next answer, which these bytes must not be taken for.
      this.#excess = at < chunk.length;
      this.#handler.onEnd();
      return;
    }
  }

  /** Nobody is told anything more of this answer, nor of one after it. */
  abandon(): void {
    this.#state = ABANDONED;
  }

  /** The connection has ended. @returns whether that is the end of the answer too; else it broke off */
  end(): boolean {
    if (this.#state !== UNTIL_CLOSE) return this.#state >= WHOLE;
    this.#state = WHOLE;
    this.#handler.onEnd();
    return true;
  }

  /** Reads what it can of one part of the answer. @returns where it stopped */
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
    // Where the end has not come yet, up to three bytes of it may have.
    if ((end === -1 ? bytes.length - 3 : end) - from > this.#maxHeadBytes)
      throw new BadAnswerError('a head that is too large');
    if (end === -1) {
      // A copy: what it is read from may be read into again.
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
      readPlainHead(text, this.#method, this.#maxFields) ?? readAnswerHead(text, this.#method, this.#maxFields);
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
    if (line.length > MAX_CHUNK_LINE_BYTES) throw new BadAnswerError('a line of a chunk that is too long');
    if (end === -1) {
      this.#held = this.#held.length === 0 ? Buffer.from(line) : line;
      return chunk.length;
    }
    this.#held = NOTHING;
    if (line.at(-2) !== 13) throw new BadAnswerError('a line without CR');
    this.#onLine(line.toString('latin1', 0, line.length - 2));
    return end + 1;
  }

  #onLine(line: string): void {
    if (this.#state === CHUNK_END) {
      if (line !== '') throw new BadAnswerError('a chunk that is longer than it says');
      this.#state = CHUNK_SIZE;
    } else if (this.#state === CHUNK_SIZE) {
      const size = CHUNK_LINE.exec(line);
      if (size === null) throw new BadAnswerError('a malformed chunk size');
      this.#left = Number.parseInt(size[1]!, 16);
      this.#state = this.#left === 0 ? TRAILERS : CHUNK_DATA;
    } else if (line === '') this.#state = WHOLE;
    else {
      this.#trailerBytes += line.length;
      if (this.#trailerBytes > MAX_TRAILER_BYTES) throw new BadAnswerError('trailers that are too large');
      const [name] = readFields(line, 0, 1);
      if (FRAMING.test(name!)) throw new BadAnswerError('framing in a trailer');
    }
  }
}

/** What has come of a head must be the beginning of one: nobody waits for the rest of something else. */
function assertBeginning(bytes: Buffer, from: number): void {
  const beginning = bytes.toString('latin1', 0, BEGINNING.length);
  if (!BEGINNING.startsWith(beginning)) throw new BadAnswerError('no HTTP/1.1');
  for (let lf = bytes.indexOf(10, from); lf !== -1; lf = bytes.indexOf(10, lf + 1)) {
    if (bytes[lf - 1] !== 13) throw new BadAnswerError('a line without CR');
  }
}
