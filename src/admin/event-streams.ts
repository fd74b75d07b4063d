import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AdminResponse, errorResponse } from './response.ts';

/** A response that lasts as long as the client listens: server-sent events (text/event-stream). */
export interface EventResponse {
  /** Who watches, as `personOf` has it. */
  readonly person: string;
  /** Ends the stream, as when the session of the client ends; left out without one. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the stream is open. @returns a function that is called once it has ended */
  readonly begin: (stream: EventStream) => () => void;
}

export const MAX_STREAMS = 20;
/** How often each stream has an event `beat`, so that a reader notices a gateway that hangs and a connection that is gone. */
export const BEAT_EVERY_MS = 2_000;
/** Maximum unread bytes before the stream is cut. */
const MAX_UNREAD_BYTES = 1024 * 1024;
/** How long written bytes may stay unread before the stream is cut. */
const UNREAD_FOR_MS = 30_000;
/** How long the end of a stream may stay unread before the connection is cut. */
const END_WITHIN_MS = 5_000;

/** One open stream of events. */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #monotonicMs: () => number;
  readonly #endWithinMs: number;
  /** Since when written bytes wait for the reader; null while none do. */
  #unreadSinceMs: number | null = null;

  /** @param endWithinMs how long a reader has to read the rest, once the stream is ended */
  constructor(response: ServerResponse, monotonicMs: () => number, endWithinMs: number) {
    this.#response = response;
    this.#monotonicMs = monotonicMs;
    this.#endWithinMs = endWithinMs;
    response.on('drain', () => {
      this.#unreadSinceMs = null;
    });
  }

  get isOpen(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded;
  }

  /** Whether written bytes wait because the reader does not read. */
  get hasUnread(): boolean {
    return this.#unreadSinceMs !== null;
  }

  /** @param data as JSON, which has no line breaks */
  send(event: string, data: string): void {
    this.#write(`event: ${event}\ndata: ${data}\n\n`);
  }

  beat(): void {
    this.send('beat', '{}');
  }

  /** Ends the stream. @param reason a sentence for the user */
  end(reason: string): void {
    if (!this.isOpen) return;
    this.send('end', JSON.stringify({ reason }));
    if (!this.isOpen) return;
    this.#response.end();
    // A reader that does not read would keep its place among the streams, and the connection, forever.
    const cut = setTimeout(() => this.#response.destroy(), this.#endWithinMs).unref();
    this.#response.once('close', () => clearTimeout(cut));
  }

  #write(text: string): void {
    if (!this.isOpen) return;
    const nowMs = this.#monotonicMs();
    const isStuck = this.#unreadSinceMs !== null && nowMs - this.#unreadSinceMs > UNREAD_FOR_MS;
    if (isStuck || this.#response.writableLength > MAX_UNREAD_BYTES) this.#response.destroy();
    else if (!this.#response.write(text)) this.#unreadSinceMs ??= nowMs;
  }
}

/**
 * The open streams of a gateway, at most 20.
 *
 * Attack: a viewer opens all of them, and no one else sees anything for as long as that viewer likes. So for
 * one more, the oldest stream of the person with the most ends, if the newcomer has fewer even then.
 */
export class EventStreams {
  /** With the person who watches, the oldest first. */
  readonly #open = new Map<EventStream, string>();
  readonly #monotonicMs: () => number;

  readonly #endWithinMs: number;

  constructor(monotonicMs: () => number, endWithinMs = END_WITHIN_MS) {
    this.#monotonicMs = monotonicMs;
    this.#endWithinMs = endWithinMs;
  }

  /** Opens a stream. @returns the response that refuses it; null if it is open */
  serve(
    request: IncomingMessage,
    response: ServerResponse,
    { begin, signal, person }: EventResponse,
    requestId: string,
  ): AdminResponse | null {
    if (this.#open.size >= MAX_STREAMS && !this.#makeRoomFor(person)) {
      const message = `This gateway has ${MAX_STREAMS} streams of events open, which is the most. Close one of them, or ask another gateway.`;
      return errorResponse('too_many_streams', message, { 'Retry-After': '5' });
    }
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Request-Id': requestId,
      // nginx would hold events back.
      'X-Accel-Buffering': 'no',
    });
    request.resume();
    if (request.method === 'HEAD' || signal?.aborted === true) {
      response.end();
      return null;
    }
    response.flushHeaders();
    const stream = new EventStream(response, this.#monotonicMs, this.#endWithinMs);
    this.#open.set(stream, person);
    const beats = setInterval(() => stream.beat(), BEAT_EVERY_MS).unref();
    const onAbort = () => stream.end('The session has ended.');
    signal?.addEventListener('abort', onAbort);
    const ended = begin(stream);
    response.once('close', () => {
      clearInterval(beats);
      signal?.removeEventListener('abort', onAbort);
      this.#open.delete(stream);
      ended();
    });
    response.on('error', () => {});
    return null;
  }

  /** Ends all streams. */
  end(reason: string): void {
    for (const stream of this.#open.keys()) stream.end(reason);
  }

  /** @returns whether a stream was ended */
  #makeRoomFor(person: string): boolean {
    const counts = new Map<string, number>();
    for (const one of this.#open.values()) counts.set(one, (counts.get(one) ?? 0) + 1);
    const most = Math.max(...counts.values());
    if (most <= (counts.get(person) ?? 0) + 1) return false;
    const [oldest] = [...this.#open].find(([, one]) => counts.get(one) === most)!;
    // Its reader may be slow to read the end, and must not keep the place meanwhile.
    this.#open.delete(oldest);
    oldest.end('Another person needs one of the streams, and you have most of them.');
    return true;
  }
}
