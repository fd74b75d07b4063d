import { createServer, type Socket } from 'node:net';
import {
  BrokenMessage,
  contentLengthOf,
  type Head,
  readChunked,
  readHead,
  valuesOf,
} from '../../test/support/http-message.ts';
import { type Connections, countConnections, listen } from '../../test/support/listening.ts';
import type { AnswerScript, Exchange, SeenRequest } from './exchange.ts';

/** Upstream of the fuzzer: reads what the gateway sends more strictly than any server would, and answers by script. */
export interface StrictUpstream {
  readonly origin: string;
  readonly port: number;
  /** What the gateway must never send; each with the bytes. */
  readonly violations: string[];
  readonly connections: Connections;
  /** Requests that arrived. */
  readonly requests: number;
  /** Requests whose answer is not over. */
  readonly busy: number;
  /** Closes the connections on which no request is under way. */
  closeIdle(): void;
}

/** @param via the name that the gateway alone knows @param book the exchanges, by consumer */
export async function startStrictUpstream(via: string, book: ReadonlyMap<string, Exchange>): Promise<StrictUpstream> {
  const violations: string[] = [];
  const server = createServer({ allowHalfOpen: true, noDelay: true });
  const counts = { requests: 0, busy: 0 };
  const readers = new Map<Socket, ConnectionReader>();
  const connections = countConnections(server, (socket) => {
    const reader = new ConnectionReader(socket, { via, authority: `127.0.0.1:${port}`, book, counts });
    readers.set(socket, reader);
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.take(chunk);
      } catch (error) {
        violations.push(String(error));
        socket.destroy();
      }
    });
    socket.on('end', () => socket.end());
    socket.on('close', () => {
      readers.delete(socket);
      reader.closed();
    });
  });
  const { origin, port } = await listen(server);
  return {
    origin,
    port,
    violations,
    connections,
    get requests() {
      return counts.requests;
    },
    get busy() {
      return counts.busy;
    },
    closeIdle: () => {
      for (const [socket, reader] of readers) if (reader.isIdle) socket.destroy();
    },
  };
}

interface Surroundings {
  readonly via: string;
  readonly authority: string;
  readonly book: ReadonlyMap<string, Exchange>;
  readonly counts: { requests: number; busy: number };
}

class ConnectionReader {
  readonly #socket: Socket;
  readonly #around: Surroundings;
  #bytes: Buffer = Buffer.alloc(0);
  #head: Head | null = null;
  #current: { readonly request: SeenRequest; readonly exchange: Exchange } | null = null;
  #number = 0;
  #answering = false;

  constructor(socket: Socket, around: Surroundings) {
    this.#socket = socket;
    this.#around = around;
  }

  /** Whether neither a request nor an answer has begun and is not over. */
  get isIdle(): boolean {
    return this.#bytes.length === 0 && this.#head === null && !this.#answering;
  }

  take(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    while (this.#bytes.length > 0 && this.#step());
  }

  closed(): void {
    if (this.#answering) this.#around.counts.busy--;
    this.#answering = false;
  }

  /** @returns whether there may be more in what has arrived */
  #step(): boolean {
    if (this.#head === null) {
      this.#head = readHead(this.#bytes, 0);
      if (this.#head === null) return false;
      if (this.#answering) throw new BrokenMessage('A request before the answer to the last one', this.#bytes, 0);
      this.#current = this.#enter(this.#head);
    }
    const { request, exchange } = this.#current!;
    const end = this.#readBody(this.#head, request);
    if (end === null) return false;
    request.complete = true;
    this.#bytes = this.#bytes.subarray(end);
    this.#head = null;
    void this.#answer(request, exchange.script(request));
    return true;
  }

  #enter(head: Head) {
    const { book, counts } = this.#around;
    counts.requests++;
    this.#number++;
    const request = requestOf(head, this.#number > 1, this.#bytes);
    const problem = problemWith(request, this.#around);
    if (problem !== null) throw new BrokenMessage(problem, this.#bytes, 0);
    const exchange = book.get(valuesOf(request.fields, 'x-consumer-id')[0]!);
    if (exchange === undefined) throw new BrokenMessage('A consumer that was never made', this.#bytes, 0);
    exchange.seen.push(request);
    exchange.late?.(request);
    return { request, exchange };
  }

  #readBody({ fields, end }: Head, request: SeenRequest): number | null {
    if (valuesOf(fields, 'transfer-encoding').length > 0) {
      const body = readChunked(this.#bytes, end);
      if (body !== null) request.body = body.body;
      return body?.end ?? null;
    }
    const length = contentLengthOf(fields, this.#bytes, end) ?? 0;
    request.body = this.#bytes.subarray(end, end + length);
    return request.body.length === length ? end + length : null;
  }

  async #answer(request: SeenRequest, { segments, end }: AnswerScript): Promise<void> {
    this.#answering = true;
    this.#around.counts.busy++;
    for (const [i, segment] of segments.entries()) {
      if (i > 0) await new Promise((resolve) => setTimeout(resolve, 1));
      if (!this.#socket.writable) return;
      // Empty lines before an answer are passed over by every reader, as if they had not come.
      request.onUsedConnection ||= segment.length > 0;
      request.answered ||= /[^\r\n]/.test(segment.toString('latin1'));
      // Before the last byte goes out, or the next request would seem to come too early.
      if (i === segments.length - 1 && end !== 'silence') this.closed();
      this.#socket.write(segment);
    }
    if (segments.length === 0 && end !== 'silence') this.closed();
    if (end === 'fin') this.#socket.end();
    if (end === 'reset') this.#socket.resetAndDestroy();
  }
}

function requestOf({ startLine, fields }: Head, onUsedConnection: boolean, bytes: Buffer): SeenRequest {
  const [, method, target] = /^([A-Z-]+) ([\x21-\x7e]+) HTTP\/1\.1$/.exec(startLine) ?? [];
  if (method === undefined || target === undefined) throw new BrokenMessage('A malformed request line', bytes, 0);
  const requestId = valuesOf(fields, 'x-request-id')[0] ?? '';
  const empty = Buffer.alloc(0);
  return { method, target, fields, requestId, onUsedConnection, body: empty, complete: false, answered: false };
}

const NEVER =
  /^(?:authorization|proxy-(?:connection|authenticate|authorization)|te|trailer|upgrade|keep-alive|expect|http2-settings|.*_.*)$/i;

function problemWith({ fields }: SeenRequest, { via, authority }: Surroundings): string | null {
  const all = (name: string) => valuesOf(fields, name);
  const vias = all('via');
  if (vias.length !== 1 || vias[0]!.split(via).length !== 2) return 'Not sent by the gateway: Via';
  for (const name of ['x-request-id', 'x-consumer-id', 'x-consumer-plan', 'host', 'x-forwarded-for']) {
    if (all(name).length !== 1) return `Not exactly one ${name}`;
  }
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(all('x-request-id')[0]!)) return 'A malformed X-Request-Id';
  if (all('x-consumer-plan')[0] !== 'endless') return "The client's word about its plan";
  if (all('host')[0] !== authority) return 'A Host that is not the target';
  if (all('transfer-encoding').length + all('content-length').length > 1) return 'Two framings';
  if (all('transfer-encoding').some((coding) => coding !== 'chunked')) return 'A coding other than chunked';
  if (all('connection').some((value) => !/^(?:keep-alive|close)$/.test(value))) return 'Connection lists fields';
  const leaked = fields.find(([name]) => NEVER.test(name));
  return leaked === undefined ? null : `A field that must not be passed on: ${leaked[0]}`;
}
