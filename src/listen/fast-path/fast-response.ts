import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { AnswerLines } from '../../forward/answer-head.ts';
import type { ClientRequest, ClientResponse } from '../../forward/client.ts';
import { answerLinesOf } from '../../forward/field-lines.ts';
import { isContentLength } from '../../forward/headers.ts';
import type { TextWriter } from '../../forward/text-writer.ts';

/** What a response needs of its connection. */
export interface Line {
  readonly writer: TextWriter;
  /** The value of Date, now. */
  date(): string;
  /** What is said of a connection that is kept. */
  readonly keepAlive: string;
  /** All of it has been written, and the client has still to take some. */
  onUnread(): void;
  /** All of it has been taken. */
  onFinished(response: FastResponse): void;
}

type Call = () => void;

const NOTHING = Buffer.alloc(0);

/**
 * The answer to a request of HTTP/1.1 that has come whole: head and a small body leave in one write. Its head is
 * made as node:http makes it: Date, Connection and, where no length is told, chunks (RFC 9112 section 6).
 */
export class FastResponse implements ClientResponse {
  readonly req: ClientRequest;
  readonly socket: Socket;
  statusCode = 200;
  headersSent = false;
  destroyed = false;
  shouldKeepAlive = true;
  readonly #line: Line;
  /** Made and not written yet. */
  #head: string | null = null;
  #framing: 'none' | 'length' | 'chunked' = 'none';
  #ended = false;
  /** Whom to tell: one for each is all that there are, nearly always. */
  #onClose: Call | Call[] | null = null;
  #onDrain: Call | Call[] | null = null;

  constructor(req: ClientRequest, line: Line) {
    this.req = req;
    this.socket = req.socket;
    this.#line = line;
  }

  get isTaken(): boolean {
    return this.#head === null && this.#line.writer.hasTakenAll;
  }

  writeContinue(): void {
    this.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
  }

  writeInformation(status: number, fields: string[]): void {
    this.socket.write(`${statusLine(status)}${answerLinesOf(fields)}\r\n`, 'latin1');
  }

  writeHead(status: number, fields: string[]): void {
    this.#begin(status, answerLinesOf(fields), kindsIn(fields));
  }

  writeLines(status: number, { text, hasDate, hasLength }: AnswerLines, own: string): void {
    this.#begin(status, text + own, (hasDate ? DATE : 0) | (hasLength ? LENGTH : 0));
  }

  /** @param known which of the fields that decide about others are among the lines */
  #begin(status: number, lines: string, known: number): void {
    if (this.headersSent) throw new Error('a second head for one answer');
    this.statusCode = status;
    const bodiless = this.req.method === 'HEAD' || status === 204 || status === 304;
    let head = statusLine(status) + lines;
    if ((known & DATE) === 0) head += `Date: ${this.#line.date()}\r\n`;
    head += this.shouldKeepAlive ? this.#line.keepAlive : 'Connection: close\r\n';
    if (bodiless) this.#framing = 'none';
    else if ((known & LENGTH) !== 0) this.#framing = 'length';
    else {
      this.#framing = 'chunked';
      head += 'Transfer-Encoding: chunked\r\n';
    }
    this.#head = `${head}\r\n`;
    this.headersSent = true;
  }

  flushHeaders(): void {
    if (this.#head === null) return;
    this.socket.write(this.#head, 'latin1');
    this.#head = null;
  }

  write(chunk: Buffer): boolean {
    const { socket } = this;
    // A chunk of nothing would end the answer.
    if (this.destroyed || this.#ended || chunk.length === 0) return true;
    const head = this.#head ?? '';
    this.#head = null;
    if (this.#framing === 'none') return head === '' || socket.write(head, 'latin1');
    const chunked = this.#framing === 'chunked';
    const before = chunked ? `${head}${chunk.length.toString(16)}\r\n` : head;
    if (before === '') return socket.write(chunk);
    socket.cork();
    socket.write(before, 'latin1');
    socket.write(chunk);
    if (chunked) socket.write('\r\n', 'latin1');
    socket.uncork();
    return !socket.writableNeedDrain;
  }

  end(chunk?: string | Buffer, encoding?: 'latin1'): void {
    if (this.#ended || this.destroyed) return;
    if (!this.headersSent) throw new Error('an answer without a head');
    const text = typeof chunk === 'string' ? asLatin1(chunk, encoding) : null;
    if (text !== null) this.#endWithText(text);
    else {
      if (chunk !== undefined && chunk.length > 0) this.write(chunk as Buffer);
      this.#endWithText('');
    }
    this.#ended = true;
    if (this.isTaken && this.socket.writable) this.#line.onFinished(this);
    else {
      this.#line.onUnread();
      this.socket.write(NOTHING, (error) => this.#onTaken(error));
    }
  }

  destroy(): void {
    this.socket.destroy();
  }

  once(event: 'close' | 'drain', call: Call): void {
    if (event === 'close') this.#onClose = withCall(this.#onClose, call);
    else {
      if (this.#onDrain === null) this.socket.once('drain', () => this.#tellDrain());
      this.#onDrain = withCall(this.#onDrain, call);
    }
  }

  removeListener(event: 'close' | 'drain', call: Call): void {
    if (event === 'close') this.#onClose = withoutCall(this.#onClose, call);
    else this.#onDrain = withoutCall(this.#onDrain, call);
  }

  /** The connection has closed. */
  closed(): void {
    this.destroyed = true;
    this.#tellClose();
  }

  #endWithText(text: string): void {
    const head = this.#head ?? '';
    this.#head = null;
    let all = head;
    if (this.#framing === 'length') all += text;
    else if (this.#framing === 'chunked') {
      if (text !== '') all += `${text.length.toString(16)}\r\n${text}\r\n`;
      all += '0\r\n\r\n';
    }
    if (all !== '') this.#line.writer.write(all);
  }

  #onTaken(error?: Error | null): void {
    if (error) return;
    this.#line.onFinished(this);
    this.#tellClose();
  }

  #tellClose(): void {
    const told = this.#onClose;
    this.#onClose = null;
    callAll(told);
  }

  #tellDrain(): void {
    const told = this.#onDrain;
    this.#onDrain = null;
    callAll(told);
  }
}

function withCall(calls: Call | Call[] | null, call: Call): Call | Call[] {
  return calls === null ? call : [...(typeof calls === 'function' ? [calls] : calls), call];
}

function withoutCall(calls: Call | Call[] | null, call: Call): Call | Call[] | null {
  if (calls === call) return null;
  return Array.isArray(calls) ? calls.filter((it) => it !== call) : calls;
}

function callAll(calls: Call | Call[] | null): void {
  if (typeof calls === 'function') calls();
  else for (const call of calls ?? []) call();
}

const DATE = 1;
const LENGTH = 2;

/** Which of the fields that decide about others are there. */
function kindsIn(fields: readonly string[]): number {
  let kinds = 0;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (name.length === 4 && name.toLowerCase() === 'date') kinds |= DATE;
    else if (isContentLength(name)) kinds |= LENGTH;
  }
  return kinds;
}

/** By status, from 0 on. */
const STATUS_LINES = Array.from({ length: 1_000 }, (_, status) => {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n`;
});

function statusLine(status: number): string {
  return STATUS_LINES[status]!;
}

/** The bytes of a text as characters. */
function asLatin1(text: string, encoding: 'latin1' | undefined): string {
  if (encoding === 'latin1' || Buffer.byteLength(text) === text.length) return text;
  return Buffer.from(text).toString('latin1');
}
