import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { ClientRequest, ClientResponse } from '../../http1/client.ts';
import { responseLinesOf } from '../../http1/fields.ts';
import { isContentLength } from '../../http1/forwarded-fields.ts';
import type { ResponseLines } from '../../http1/response-head.ts';
import type { TextWriter } from '../../io/writes.ts';

/** The part of a connection that its responses use. */
export interface ResponseConnection {
  readonly writer: TextWriter;
  /** The current value of Date. */
  date(): string;
  /** The field lines for a connection that stays open. */
  readonly keepAlive: string;
  /** The whole response has been written, and the client has yet to read some of it. */
  onUnread(): void;
  /** The operating system has accepted the whole response. */
  onFinished(response: FastResponse): void;
}

type Call = () => void;

const NOTHING = Buffer.alloc(0);

/**
 * The response to an HTTP/1.1 request that was received whole. The head and a small body leave in one write. The head
 * is built as node:http builds it: with Date, Connection and, if there is no length, chunked coding (RFC 9112 section
 * 6).
 */
export class FastResponse implements ClientResponse {
  readonly req: ClientRequest;
  readonly socket: Socket;
  statusCode = 200;
  headersSent = false;
  destroyed = false;
  shouldKeepAlive = true;
  readonly #connection: ResponseConnection;
  /** The head, from when it is built until it is written. */
  #head: string | null = null;
  #framing: 'none' | 'length' | 'chunked' = 'none';
  #ended = false;
  /** Listeners. Nearly always there is at most one for each event. */
  #onClose: Call | Call[] | null = null;
  #onDrain: Call | Call[] | null = null;

  constructor(req: ClientRequest, connection: ResponseConnection) {
    this.req = req;
    this.socket = req.socket;
    this.#connection = connection;
  }

  get isTaken(): boolean {
    return this.#head === null && this.#connection.writer.hasTakenAll;
  }

  writeContinue(): void {
    this.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
  }

  writeInformation(status: number, fields: string[]): void {
    this.socket.write(`${statusLine(status)}${responseLinesOf(fields)}\r\n`, 'latin1');
  }

  writeHead(status: number, fields: string[]): void {
    this.#begin(status, responseLinesOf(fields), kindsIn(fields));
  }

  writeLines(status: number, { text, hasDate, hasLength }: ResponseLines, own: string): void {
    this.#begin(status, text + own, (hasDate ? DATE : 0) | (hasLength ? LENGTH : 0));
  }

  /** @param known bits of the fields among the lines that make other fields unnecessary */
  #begin(status: number, lines: string, known: number): void {
    if (this.headersSent) throw new Error('a second head for one response');
    this.statusCode = status;
    const bodiless = this.req.method === 'HEAD' || status === 204 || status === 304;
    let head = statusLine(status) + lines;
    if ((known & DATE) === 0) head += `Date: ${this.#connection.date()}\r\n`;
    head += this.shouldKeepAlive ? this.#connection.keepAlive : 'Connection: close\r\n';
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
    // An empty chunk would end the response.
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
    if (!this.headersSent) throw new Error('a response without a head');
    const text = typeof chunk === 'string' ? asLatin1(chunk, encoding) : null;
    if (text !== null) this.#endWithText(text);
    else {
      if (chunk !== undefined && chunk.length > 0) this.write(chunk as Buffer);
      this.#endWithText('');
    }
    this.#ended = true;
    if (this.#connection.writer.hasTakenAll && this.socket.writable) this.#connection.onFinished(this);
    else {
      this.#connection.onUnread();
      this.socket.write(NOTHING, (error) => this.#onTaken(error));
    }
  }

  destroy(): void {
    this.socket.destroy();
  }

  once(event: 'close' | 'drain', call: Call): void {
    if (event === 'close') this.#onClose = withCall(this.#onClose, call);
    else {
      if (this.#onDrain === null) this.socket.once('drain', () => this.#callDrainListeners());
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
    this.#callCloseListeners();
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
    if (all !== '') this.#connection.writer.write(all);
  }

  #onTaken(error?: Error | null): void {
    if (error) return;
    this.#connection.onFinished(this);
    this.#callCloseListeners();
  }

  #callCloseListeners(): void {
    const listeners = this.#onClose;
    this.#onClose = null;
    callAll(listeners);
  }

  #callDrainListeners(): void {
    const listeners = this.#onDrain;
    this.#onDrain = null;
    callAll(listeners);
  }
}

function withCall(calls: Call | Call[] | null, call: Call): Call | Call[] {
  return calls === null ? call : [...(typeof calls === 'function' ? [calls] : calls), call];
}

function withoutCall(calls: Call | Call[] | null, call: Call): Call | Call[] | null {
  if (calls === call) return null;
  return Array.isArray(calls) ? calls.filter((one) => one !== call) : calls;
}

function callAll(calls: Call | Call[] | null): void {
  if (typeof calls === 'function') calls();
  else for (const call of calls ?? []) call();
}

const DATE = 1;
const LENGTH = 2;

/** Finds the fields that make other fields unnecessary. @returns the bits DATE and LENGTH */
function kindsIn(fields: readonly string[]): number {
  let kinds = 0;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    if (name.length === 4 && name.toLowerCase() === 'date') kinds |= DATE;
    else if (isContentLength(name)) kinds |= LENGTH;
  }
  return kinds;
}

/** By status code, from 0 to 999. */
const STATUS_LINES = Array.from({ length: 1_000 }, (_, status) => {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'unknown'}\r\n`;
});

function statusLine(status: number): string {
  return STATUS_LINES[status]!;
}

/** A string with one character for each byte of the text. */
function asLatin1(text: string, encoding: 'latin1' | undefined): string {
  if (encoding === 'latin1' || Buffer.byteLength(text) === text.length) return text;
  return Buffer.from(text).toString('latin1');
}
