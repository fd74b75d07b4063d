import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { ReadConnection } from './connections.ts';
import type { Http2Options } from './http2.ts';
import { Budget, OverheadBudget } from './http2-budgets.ts';
import { readStreamHead, type StreamRequest } from './http2-fields.ts';
import { outliveStream } from './http2-lifetime.ts';
import { StreamConnection } from './http2-stream.ts';
import type { StreamSlot } from './http2-streams.ts';

/** Why a session was broken off. */
export type BreakReason = 'resets' | 'overhead' | 'protocol';

const { NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_FLAG_END_STREAM, NGHTTP2_NO_ERROR } = constants;
const { NGHTTP2_CANCEL, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_REFUSED_STREAM } = constants;

/** After the last frame, or after an error: how long a client may take to read what was sent and to close. */
const CLOSE_WITHIN_MS = 1_000;
/** A client that has said that it leaves (GOAWAY) loses its connection when it lets no byte pass for so long. */
const LEAVING_STILL_MS = 3_000;
/** Between the notice that there will be an end and the end: what the client had sent by then is still served. */
const NOTICE_MS = 250;
const ALL_STREAMS = 2 ** 31 - 1;
const MAX_PAIRS = 1_000;
const SESSION_MEMORY_MB = 10;

/** One client's HTTP/2 session: its streams become requests, and what it may cost is bounded. */
export class Http2Session implements ReadConnection {
  readonly #options: Http2Options;
  readonly #socket: TLSSocket;
  readonly #address: string | null;
  readonly #session: ServerHttp2Session;
  readonly #bornAtMs: number;
  readonly #overhead: OverheadBudget;
  readonly #resets: Budget;
  /** Streams that have not been closed. */
  #open = 0;
  /** Those of them whose request the gateway has begun to read and not answered to the end. */
  readonly #served = new Set<StreamConnection>();
  #idleSinceMs: number;
  /** The bytes that have passed, as of the last look, and when they were last seen to grow. */
  #passed = 0;
  #passedAtMs: number;
  #isLeaving = false;
  #hasFailed = false;
  #hadStream = false;
  #payload = 0;
  #draining = false;
  #broken = false;
  /** Since when there is nothing left but to close the connection; null while there is. */
  #overSinceMs: number | null = null;

  /** @param address that its streams count for; null for a trusted proxy */
  constructor(socket: TLSSocket, address: string | null, options: Http2Options) {
    const nowMs = options.nowMs();
    this.#options = options;
    this.#socket = socket;
    this.#address = address;
    this.#passedAtMs = nowMs;
    this.#bornAtMs = nowMs;
    this.#idleSinceMs = nowMs;
    this.#overhead = new OverheadBudget(nowMs);
    const { maxResets } = options.settings;
    this.#resets = new Budget(maxResets, maxResets / 60, nowMs);
    this.#session = performServerHandshake(socket, sessionOptions(options));
    this.#session.on('error', (error: NodeJS.ErrnoException) => {
      this.#hasFailed = true;
      if (error.code?.startsWith('ERR_HTTP2_') === true) this.#report('protocol');
    });
    this.#session.on('goaway', () => {
      this.#isLeaving = true;
    });
    // HTTP/2 knows no half of a connection: who has ended theirs waits for nothing.
    socket.once('end', () => this.#session.destroy());
    this.#session.on('stream', (stream, _headers, flags, raw) => this.#take(stream, flags, raw as unknown as string[]));
  }

  onClose(listener: () => void): void {
    this.#socket.once('close', listener);
  }

  get idleSinceMs(): number | null {
    return this.#served.size === 0 ? this.#idleSinceMs : null;
  }

  /** Ends what waits too long or sends too much that is no request. */
  look(nowMs: number): void {
    const { bytesRead: read, bytesWritten: written } = this.#socket;
    if (read + written !== this.#passed) {
      this.#passed = read + written;
      this.#passedAtMs = nowMs;
    }
    if (this.#hasFailed || this.#session.destroyed || (this.#session.closed && this.#open === 0)) {
      this.#overSinceMs ??= nowMs;
      if (nowMs - this.#overSinceMs >= CLOSE_WITHIN_MS) this.#socket.destroy();
    } else if (this.#isStuck(nowMs)) this.#cut();
    else if (!this.#overhead.look({ read, written, payload: this.#payload }, nowMs)) this.#breakOff('overhead');
    else if (this.#open === 0) {
      const { headersTimeoutMs, idleTimeoutMs } = this.#options;
      const isLate = this.#hadStream
        ? nowMs - this.#idleSinceMs >= idleTimeoutMs
        : nowMs - this.#bornAtMs >= Math.min(headersTimeoutMs, idleTimeoutMs);
      if (isLate) this.#session.close();
    }
  }

  /**
   * Whether nothing is left to do that does not wait for the client, and no byte has passed for too long: answers that
   * cannot be sent, and behind a GOAWAY also bodies that do not come and answers that are not read.
   *
   * Attack: a client opens a stream, says GOAWAY and sends a broken frame. nghttp2 refuses the session, sends nothing more
   * on it, and Node tells of none of that: no stream would ever close, nor the session, nor its socket.
   */
  #isStuck(nowMs: number): boolean {
    if (this.#open === 0) return false;
    for (const { waitsForClient } of this.#served) if (!waitsForClient || !this.#isLeaving) return false;
    const { writeTimeoutMs } = this.#options;
    return nowMs - this.#passedAtMs >= (this.#isLeaving ? Math.min(LEAVING_STILL_MS, writeTimeoutMs) : writeTimeoutMs);
  }

  #cut(): void {
    this.#session.destroy();
    this.#socket.destroy();
  }

  /** Takes no new streams a moment from now, and ends with the last that runs (RFC 9113 section 6.8). */
  drain(): void {
    if (this.#draining || this.#session.destroyed) return;
    this.#draining = true;
    this.#session.goaway(NGHTTP2_NO_ERROR, ALL_STREAMS);
    setTimeout(() => this.#session.close(), NOTICE_MS);
  }

  #take(stream: ServerHttp2Stream, flags: number, raw: readonly string[]): void {
    stream.on('error', () => {});
    outliveStream(this.#session, stream);
    this.#hadStream = true;
    const { streams, onUnparsed } = this.#options;
    // Reset before anybody could look at it.
    if (stream.destroyed || stream.closed) {
      this.#spendReset();
      return;
    }
    // The slot is given back at once: the stream may take its time to close.
    const slot = streams.take(this.#address, () => {
      slot?.giveBack();
      stream.close(NGHTTP2_CANCEL);
    });
    if (slot === null) {
      onUnparsed('overloaded');
      stream.close(NGHTTP2_REFUSED_STREAM);
    } else {
      const request = readStreamHead(raw, (flags & NGHTTP2_FLAG_END_STREAM) !== 0);
      if (request.kind === 'request') this.#serve(stream, request, slot);
      else {
        slot.giveBack();
        onUnparsed('invalid_request');
        stream.close(NGHTTP2_PROTOCOL_ERROR);
        this.#spendReset();
      }
    }
  }

  #serve(stream: ServerHttp2Stream, request: StreamRequest, slot: StreamSlot): void {
    const { server, writeTimeoutMs } = this.#options;
    this.#payload += request.bytes;
    const onBytes = (bytes: number) => {
      this.#payload += bytes;
    };
    // The connection of one stream is no reason to close the others; that of an address without credit is.
    const endSession = () => this.#session.close();
    const onBegun = () => {
      this.#served.add(connection);
      slot.setServed(true);
    };
    const options = { writeTimeoutMs, onBytes, endSession, onBegun };
    const connection: StreamConnection = new StreamConnection(stream, request, this.#socket, options);
    this.#open++;
    stream.once('close', () => {
      slot.giveBack();
      this.#onStreamClose(connection);
    });
    connection.once('close', () => {
      slot.setServed(false);
      this.#passedAtMs = this.#options.nowMs();
      if (this.#served.delete(connection) && this.#served.size === 0) this.#idleSinceMs = this.#passedAtMs;
    });
    server.emit('connection', connection);
    connection.begin();
  }

  #onStreamClose(connection: StreamConnection): void {
    if (--this.#open === 0) this.#idleSinceMs = this.#options.nowMs();
    if (connection.endedBy === 'client') this.#spendReset();
  }

  /**
   * Attack: streams that are reset as fast as they are opened never reach `maxStreams`, yet each is a request begun (rapid
   * reset, CVE-2023-44487). So is what makes the server reset them (CVE-2025-8671). Both cost the same budget.
   */
  #spendReset(): void {
    if (!this.#resets.spend(1, this.#options.nowMs())) this.#breakOff('resets');
  }

  #breakOff(reason: BreakReason): void {
    if (this.#session.destroyed) return;
    this.#report(reason);
    this.#session.destroy(new Error(reason), NGHTTP2_ENHANCE_YOUR_CALM);
  }

  #report(reason: BreakReason): void {
    if (this.#broken) return;
    this.#broken = true;
    this.#options.onBreak(reason);
  }
}

/** What Node and nghttp2 watch over by themselves, said here so that no other default of theirs comes into effect. */
function sessionOptions({ settings, maxHeaderBytes, maxUrlBytes }: Http2Options) {
  return {
    settings: {
      maxConcurrentStreams: settings.maxStreams,
      maxHeaderListSize: maxHeaderBytes + maxUrlBytes,
      initialWindowSize: 65_535,
      enablePush: false,
      enableConnectProtocol: false,
    },
    maxHeaderListPairs: MAX_PAIRS,
    maxSessionMemory: SESSION_MEMORY_MB,
    maxSettings: 32,
    maxOutstandingPings: 10,
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
    // Behind our own budget, for resets that come faster than it can look.
    streamResetBurst: Math.max(1_000, 2 * settings.maxResets),
    streamResetRate: Math.max(33, settings.maxResets),
    strictFieldWhitespaceValidation: true,
    // What upstreams repeat goes to the client repeated, as over HTTP/1.1.
    strictSingleValueFields: false,
  };
}
