import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { ErrorCode } from '../../errors/catalogue.ts';
import { networkOf } from '../../identify/failed-attempts.ts';
import { afterReadyWork } from '../../io/after-reading.ts';
import type { Deadlines } from '../../io/deadlines.ts';
import { cancelStream } from '../../io/graceful-close.ts';
import { MAX_TOTAL_BYTES } from '../../io/held-bytes.ts';
import { keepSessionOf } from '../../io/node-internals.ts';
import { endInTurn } from '../../io/read-buffers.ts';
import { hasWaiting } from '../../io/tls-carrier.ts';
import { TokenBucket } from '../../io/token-bucket.ts';
import { Turns } from '../../io/turns.ts';
import type { ReadConnection, SessionStreams, StreamSlots } from '../connections.ts';
import { OverheadBudget } from './overhead.ts';
import { readStreamHead, type StreamHead } from './stream-fields.ts';
import { type StreamOptions, StreamRequest } from './stream-request.ts';
import type { StreamResponse } from './stream-response.ts';
import { NARROW_WINDOW_BYTES, STREAM_WINDOW_BYTES, UnreadRequests } from './unread-requests.ts';

export interface Http2Settings {
  /** Streams of one session at a time. */
  readonly maxStreams: number;
  /** Streams of one session that a client may reset, at once and again in each minute. A trusted proxy may reset 100 times as many. */
  readonly maxResets: number;
}

/** Serves the requests of streams. */
export interface StreamServing {
  /** The current value of Date. */
  date(): string;
  serve(request: StreamRequest, response: StreamResponse): void;
  /** Answers a request that has not arrived in time. */
  late(request: StreamRequest, response: StreamResponse): void;
}

interface Http2Options {
  readonly settings: Http2Settings;
  readonly maxHeaderBytes: number;
  readonly maxUrlBytes: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly serving: StreamServing;
  /** Shared by all sessions. */
  readonly streams: StreamSlots;
  readonly isShortOfMemory: () => boolean;
  /** Milliseconds of a monotonic clock. */
  readonly nowMs: () => number;
  /** Shared by all sessions. */
  readonly turns: Turns;
  readonly deadlines: Deadlines;
  readonly onUnparsed: (code: ErrorCode) => void;
  /** @param address that the session comes from; null if it is not known any more */
  readonly onBreak: (reason: BreakReason, address: string | null) => void;
}

/** Why the gateway closed a session. */
export type BreakReason = 'resets' | 'overhead' | 'protocol' | 'unread';

const { NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_FLAG_END_STREAM, NGHTTP2_NO_ERROR } = constants;
const { NGHTTP2_PROTOCOL_ERROR, NGHTTP2_REFUSED_STREAM } = constants;

/** How long a client may take, after the last frame or an error, to read what was sent and close the connection. */
const CLOSE_WITHIN_MS = 1_000;
/** A client that has sent GOAWAY loses its connection when no byte has passed in either direction for this long. */
const LEAVING_STILL_MS = 3_000;
/** From the GOAWAY that announces a drain to the one that ends it. Streams that the client opens until then are served. */
const NOTICE_MS = 250;
const ALL_STREAMS = 2 ** 31 - 1;
/** Fields of a head, with each part of a Cookie that the client has split. Each takes a byte on the wire, and hundreds in memory. */
const MAX_PAIRS = 256;
/** Frames of a body that a session may send beside one for each FRAME_BYTES, and as many more in each second. */
const SPARE_FRAMES = 10_000;
const SPARE_FRAMES_PER_SECOND = 2_000;
const FRAME_BYTES = 64;
/** A load balancer carries many clients on one session, and each of them may cancel: the factor for the resets of its sessions. */
const RESETS_OF_PROXY = 100;
const SESSION_MEMORY_MB = 10;
/** For how long requests of streams are begun in one turn of the event loop. */
const BEGIN_MS = 2;

interface OpenStream {
  /** Null until the gateway has begun to read it. */
  request: StreamRequest | null;
  readonly releaseSlot: () => void;
}

/** One client's HTTP/2 session. It turns streams into requests and bounds what the client may cost. */
class Http2Session implements ReadConnection, SessionStreams {
  readonly #options: Http2Options;
  readonly #ofStreams: StreamOptions;
  readonly #socket: TLSSocket;
  readonly #address: string | null;
  /** The network of the client address; null for a trusted proxy. */
  readonly network: string | null;
  readonly #session: ServerHttp2Session;
  readonly #bornAtMs: number;
  readonly #overhead: OverheadBudget;
  readonly #resets: TokenBucket;
  readonly #frames: TokenBucket;
  /** Streams that have not been closed, and that the gateway has not canceled. */
  readonly #open = new Map<ServerHttp2Stream, OpenStream>();
  /** Requests that the gateway has begun to serve and has not finished answering. */
  readonly #served = new Set<StreamRequest>();
  #idleSinceMs: number;
  /** How many bytes had passed at the last `look`, and when that number was last seen to grow. */
  #passed = 0;
  #passedAtMs: number;
  #unreadBytes = 0;
  #unreadOfRequests = 0;
  #isNarrow = false;
  #stillSinceMs = 0;
  /** Bytes written when `#stillSinceMs` was set. */
  #writtenBefore = 0;
  #isLeaving = false;
  #hasFailed = false;
  #hadStream = false;
  #draining = false;
  #broken = false;
  /** Since when only the closing of the connection is left to do; null before that. */
  #overSinceMs: number | null = null;
  /** It waits for its turn to end. */
  #isEnding = false;

  /** @param address the client address that its streams count towards; null for a trusted proxy */
  constructor(socket: TLSSocket, address: string | null, options: Http2Options) {
    const nowMs = options.nowMs();
    this.#options = options;
    this.#ofStreams = {
      ...options,
      date: options.serving.date,
      onBegun: this.#onBegun,
      onLate: this.#onLate,
      onBytes: this.#onBytes,
      onAnswered: this.#onAnswered,
      // `Connection: close` in one response does not end the session. Only the refusal of an address without budget left
      // does.
      endSession: () => this.#close(),
    };
    this.#socket = socket;
    this.#address = address;
    this.network = address === null ? null : networkOf(address);
    this.#passedAtMs = nowMs;
    this.#bornAtMs = nowMs;
    this.#idleSinceMs = nowMs;
    const { maxStreams } = options.settings;
    const maxResets = options.settings.maxResets * (address === null ? RESETS_OF_PROXY : 1);
    this.#resets = new TokenBucket(maxResets, maxResets / 60, nowMs);
    this.#frames = new TokenBucket(SPARE_FRAMES, SPARE_FRAMES_PER_SECOND, nowMs);
    this.#session = performServerHandshake(socket, sessionOptions(options, maxResets));
    this.#overhead = new OverheadBudget(this.#session, maxStreams, nowMs);
    this.#session.on('error', (error: NodeJS.ErrnoException) => {
      this.#hasFailed = true;
      if (error.code?.startsWith('ERR_HTTP2_') === true) this.#report('protocol');
    });
    this.#session.on('goaway', () => {
      this.#isLeaving = true;
    });
    // HTTP/2 has no half-closed connections: a client that has ended its side waits for nothing more.
    // Attack: a client ends hundreds of sessions at the same moment. One with 99 requests takes up to 15 ms.
    socket.once('end', () => endInTurn(this.network ?? this, Number.POSITIVE_INFINITY, () => this.#session.destroy()));
    this.#session.on('stream', (stream, _headers, flags, raw) => this.#take(stream, flags, raw as unknown as string[]));
  }

  onClose(listener: () => void): void {
    this.#socket.once('close', listener);
  }

  /** Bytes of responses that the client had yet to read at the last `look`. Node keeps them outside the heap. */
  get unreadBytes(): number {
    return this.#unreadBytes;
  }

  /** At the last `look`. */
  get unreadOfRequests(): number {
    return this.#unreadOfRequests;
  }

  get isNarrow(): boolean {
    return this.#isNarrow;
  }

  setNarrow(isNarrow: boolean): void {
    if (isNarrow === this.#isNarrow || this.#session.destroyed || this.#session.pendingSettingsAck) return;
    this.#isNarrow = isNarrow;
    this.#session.settings({ initialWindowSize: isNarrow ? NARROW_WINDOW_BYTES : STREAM_WINDOW_BYTES });
  }

  endUploads(bytes: number): number {
    let ended = 0;
    for (const [stream, { request }] of this.#open) {
      if (ended >= bytes) break;
      const unread = unreadOf(stream, request);
      if (unread <= NARROW_WINDOW_BYTES) continue;
      ended += unread;
      this.#options.onUnparsed('overloaded');
      this.#cancel(stream);
    }
    return ended;
  }

  /** Ends a stream to free what it holds. The gateway ends it, so that is charged to no budget of the client. */
  #cancel(stream: ServerHttp2Stream): void {
    const { request, releaseSlot } = this.#open.get(stream)!;
    this.#open.delete(stream);
    // Not only once the stream is closed, which may take a while.
    releaseSlot();
    // A response that has begun breaks off. If it is complete, this does nothing, and its stream is still open.
    if (request !== null && this.#served.has(request)) request.destroy();
    cancelStream(stream);
  }

  get streams(): number {
    return this.#open.size;
  }

  get unserved(): number {
    return this.#open.size - this.#served.size;
  }

  endUnserved(): void {
    for (const [stream, { request }] of this.#open) {
      if (request !== null && this.#served.has(request)) continue;
      this.#cancel(stream);
      return;
    }
  }

  get stillSinceMs(): number {
    return this.#stillSinceMs;
  }

  /** Ends the session, because its client does not read. */
  endUnread(): void {
    this.#endInTurn(() => this.#breakOff('unread'));
  }

  /** Attack: 20 sessions with 99 requests each are ended in the same turn of the event loop, for what they have sent since the last `look`. */
  #endInTurn(end: () => void): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    endInTurn(this.network ?? this, Number.POSITIVE_INFINITY, end);
  }

  get idleSinceMs(): number | null {
    if (this.#served.size > 0) return null;
    // Attack: new connections close that of a neighbour, who is reading the rest of an answer.
    return this.#unreadBytes > 0 ? Math.max(this.#idleSinceMs, this.#stillSinceMs) : this.#idleSinceMs;
  }

  /** This thread stalled, so that the client was not heard. */
  stalled(ms: number): void {
    this.#passedAtMs += ms;
    this.#stillSinceMs += ms;
    if (this.#overSinceMs !== null) this.#overSinceMs += ms;
  }

  /** Called regularly. Ends the session if it waits too long, or sends too much besides requests. */
  look(nowMs: number): void {
    const { bytesRead: read, bytesWritten: written } = this.#socket;
    const unread = this.#lookAtUnread(written, nowMs);
    if (read + written !== this.#passed) {
      this.#passed = read + written;
      this.#passedAtMs = nowMs;
    }
    if (this.#hasFailed || this.#session.destroyed || (this.#session.closed && this.#open.size === 0)) {
      this.#overSinceMs ??= nowMs;
      if (nowMs - this.#overSinceMs >= CLOSE_WITHIN_MS) this.#socket.destroy();
    } else if (this.#isStuck(nowMs)) this.#endInTurn(() => this.#cut());
    else if (!this.#overhead.look({ read, written, unread }, nowMs)) this.#endInTurn(() => this.#breakOff('overhead'));
    else if (this.#open.size === 0) {
      const { headersTimeoutMs, idleTimeoutMs } = this.#options;
      const isLate = this.#hadStream
        ? nowMs - this.#idleSinceMs >= idleTimeoutMs
        : nowMs - this.#bornAtMs >= Math.min(headersTimeoutMs, idleTimeoutMs);
      if (isLate) this.#close();
    }
  }

  /** @returns the bytes of bodies that have arrived on streams and have not been read from them */
  #lookAtUnread(written: number, nowMs: number): number {
    this.#unreadBytes = 0;
    this.#unreadOfRequests = 0;
    let onStreams = 0;
    for (const [stream, { request }] of this.#open) {
      this.#unreadBytes += stream.writableLength;
      this.#unreadOfRequests += unreadOf(stream, request);
      onStreams += stream.readableLength;
    }
    if (this.#unreadBytes === 0 || written - this.#writtenBefore >= READS_BYTES) {
      this.#writtenBefore = written;
      this.#stillSinceMs = nowMs;
    }
    return onStreams;
  }

  /**
   * Whether everything left to do waits for the client, and no byte has passed for too long. Before a GOAWAY that means
   * responses that cannot be sent; after one, also bodies that do not arrive and responses that are not read.
   *
   * Attack: a client opens a stream, sends GOAWAY, and then a broken frame. nghttp2 gives the session up and sends nothing
   * more on it, and Node does not report this: the streams, the session and the socket would never close.
   */
  #isStuck(nowMs: number): boolean {
    if (this.#open.size === 0) return false;
    for (const { waitsForClient } of this.#served) if (!waitsForClient || !this.#isLeaving) return false;
    const { writeTimeoutMs } = this.#options;
    return nowMs - this.#passedAtMs >= (this.#isLeaving ? Math.min(LEAVING_STILL_MS, writeTimeoutMs) : writeTimeoutMs);
  }

  #cut(): void {
    this.#session.destroy();
    this.#socket.destroy();
  }

  /**
   * Accepts no new streams after `NOTICE_MS`, and ends the session with its last stream (RFC 9113 section 6.8).
   *
   * Fault: a drain told all sessions in one turn of the event loop, which took 40 ms for 500.
   */
  drain(): void {
    if (this.#draining || this.#session.destroyed) return;
    this.#draining = true;
    const owner = this.network ?? this;
    endInTurn(owner, 1, () => {
      if (this.#session.destroyed) return;
      this.#session.goaway(NGHTTP2_NO_ERROR, ALL_STREAMS);
      setTimeout(() => endInTurn(owner, 1, () => this.#close()), NOTICE_MS);
    });
  }

  /** Ends the session once its current streams have ended. */
  #close(): void {
    this.#overhead.excuseAll();
    this.#session.close();
  }

  #take(stream: ServerHttp2Stream, flags: number, raw: readonly string[]): void {
    stream.on('error', () => {});
    keepSessionOf(stream, this.#session);
    this.#hadStream = true;
    const { streams, onUnparsed } = this.#options;
    const hasEnded = (flags & NGHTTP2_FLAG_END_STREAM) !== 0;
    // The client reset it before the gateway saw it.
    if (stream.destroyed || stream.closed) {
      this.#excuseBody(hasEnded);
      this.#spendReset();
      return;
    }
    const releaseSlot = streams.take(this);
    if (releaseSlot === null) {
      onUnparsed('overloaded');
      this.#excuseBody(hasEnded);
      stream.close(NGHTTP2_REFUSED_STREAM);
    } else {
      const open: OpenStream = { request: null, releaseSlot };
      this.#open.set(stream, open);
      this.#options.turns.begin(this.network ?? this, () => this.#begin(stream, raw, hasEnded, open));
    }
  }

  /** It is the turn of a stream, which its client may have reset meanwhile, or the gateway. */
  #begin(stream: ServerHttp2Stream, raw: readonly string[], hasEnded: boolean, open: OpenStream): void {
    // The gateway may have canceled it meanwhile.
    const isGone = stream.destroyed || stream.closed || !this.#open.has(stream);
    const head = isGone ? null : readStreamHead(raw, hasEnded);
    if (head?.kind === 'head') {
      this.#serve(stream, head, open);
      return;
    }
    open.releaseSlot();
    const isOpen = this.#open.delete(stream);
    this.#excuseBody(hasEnded);
    if (head !== null) {
      this.#options.onUnparsed('invalid_request');
      stream.close(NGHTTP2_PROTOCOL_ERROR);
    }
    if (isOpen) this.#spendReset();
  }

  /** A stream ends unread, whose client may have sent as much of a body as it was granted. */
  #excuseBody(hasEnded: boolean): void {
    if (!hasEnded) this.#overhead.excuse(STREAM_WINDOW_BYTES);
  }

  #serve(stream: ServerHttp2Stream, head: StreamHead, open: OpenStream): void {
    this.#overhead.head(head.bytes);
    const request = new StreamRequest(stream, head, this.#socket, this.#ofStreams);
    open.request = request;
    stream.once('close', () => {
      open.releaseSlot();
      this.#onStreamClose(stream, request);
    });
    request.begin();
  }

  readonly #onBytes = (bytes: number): void => {
    this.#overhead.body(bytes);
    // Attack: a body in frames of one byte, each of which costs as much as one of kilobytes.
    const spare = 1 - bytes / FRAME_BYTES;
    if (spare > 0 && !this.#frames.spend(spare, this.#options.nowMs())) this.#breakOff('overhead');
  };

  readonly #onBegun = (request: StreamRequest, response: StreamResponse): void => {
    this.#served.add(request);
    this.#options.serving.serve(request, response);
  };

  readonly #onAnswered = (request: StreamRequest): void => {
    this.#passedAtMs = this.#options.nowMs();
    if (this.#served.delete(request) && this.#served.size === 0) this.#idleSinceMs = this.#passedAtMs;
  };

  /** Attack: thousands of clients send half of a request at the same moment, and all of them are late in one turn of the event loop. */
  readonly #onLate = (request: StreamRequest, response: StreamResponse): void => {
    // The gateway has yet to process what the client has sent. So it is looked at again.
    if (hasWaiting(this.#socket)) request.deadlineAtMs = this.#options.deadlines.nowMs();
    else endInTurn(this.network ?? this, 1, () => this.#options.serving.late(request, response));
  };

  #onStreamClose(stream: ServerHttp2Stream, request: StreamRequest): void {
    const isOpen = this.#open.delete(stream);
    if (this.#open.size === 0) this.#idleSinceMs = this.#options.nowMs();
    this.#overhead.excuse(request.bytesToCome);
    if (isOpen && request.endedBy === 'client') this.#spendReset();
  }

  /**
   * Attack: streams that are reset as fast as they are opened never reach `maxStreams`, yet each of them starts a request
   * (rapid reset, CVE-2023-44487). Frames that make the server reset its streams do the same (CVE-2025-8671). Both are
   * charged to the same budget.
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
    this.#options.onBreak(reason, this.#address ?? this.#socket.remoteAddress ?? null);
  }
}

/** The limits that Node and nghttp2 enforce, all written out so that none depends on their defaults. */
function sessionOptions({ settings, maxHeaderBytes, maxUrlBytes }: Http2Options, maxResets: number) {
  return {
    settings: {
      maxConcurrentStreams: settings.maxStreams,
      maxHeaderListSize: maxHeaderBytes + maxUrlBytes,
      initialWindowSize: STREAM_WINDOW_BYTES,
      enablePush: false,
      enableConnectProtocol: false,
    },
    maxHeaderListPairs: MAX_PAIRS,
    maxSessionMemory: SESSION_MEMORY_MB,
    maxSettings: 32,
    maxOutstandingPings: 10,
    maxSessionInvalidFrames: 100,
    maxSessionRejectedStreams: 100,
    // A second line of defence besides our own budget, for resets that arrive faster than Node reports them.
    streamResetBurst: Math.max(1_000, 2 * maxResets),
    streamResetRate: Math.max(33, maxResets),
    strictFieldWhitespaceValidation: true,
    // Fields that an upstream repeats are repeated to the client, as over HTTP/1.1.
    strictSingleValueFields: false,
  };
}

/** Bytes of its body that have arrived and that the service has not taken. */
function unreadOf(stream: ServerHttp2Stream, request: StreamRequest | null): number {
  return stream.readableLength + (request?.readableLength ?? 0);
}

const LOOK_EVERY_MS = 100;

/** Of all sessions of one client address; of all addresses together `MAX_TOTAL_BYTES`. */
const MAX_UNREAD_BYTES_OF_ADDRESS = MAX_TOTAL_BYTES / 4;

/** A client that reads so little in this long does not read. */
const STILL_MS = 1_000;
const READS_BYTES = 16 * 1024;

function sumOf(unread: readonly Http2Session[]): number {
  return unread.reduce((sum, { unreadBytes }) => sum + unreadBytes, 0);
}

/** Ends sessions, the first ones first, until the others have no more than this. @returns the others */
function endBeyond(most: number, unread: readonly Http2Session[]): readonly Http2Session[] {
  let bytes = sumOf(unread);
  let ended = 0;
  for (; bytes > most; ended++) {
    const session = unread[ended]!;
    bytes -= session.unreadBytes;
    session.endUnread();
  }
  return unread.slice(ended);
}

/** All HTTP/2 sessions of the listener. */
export class Http2Sessions {
  readonly #options: Http2Options;
  readonly #sessions = new Set<Http2Session>();
  readonly #unreadRequests: UnreadRequests;
  #looking: NodeJS.Timeout | null = null;
  #lookedAtMs = 0;
  #draining = false;

  constructor(options: Omit<Http2Options, 'turns'>) {
    this.#options = { ...options, turns: new Turns(options.nowMs, BEGIN_MS) };
    this.#unreadRequests = new UnreadRequests(options.isShortOfMemory);
  }

  /**
   * @param socket encrypted, with `h2` agreed on
   * @param address the client address that its streams count towards; null for a trusted proxy
   */
  take(socket: TLSSocket, address: string | null): Http2Session {
    const session = new Http2Session(socket, address, this.#options);
    this.#sessions.add(session);
    this.#options.streams.sessions.add(session);
    session.onClose(() => {
      this.#options.streams.sessions.delete(session);
      this.#sessions.delete(session);
      if (this.#sessions.size > 0 || this.#looking === null) return;
      clearInterval(this.#looking);
      this.#looking = null;
    });
    if (this.#looking === null) {
      this.#lookedAtMs = this.#options.nowMs();
      // What has arrived is read first.
      this.#looking = setInterval(() => afterReadyWork(this.#look), LOOK_EVERY_MS).unref();
    }
    if (this.#draining) session.drain();
    return session;
  }

  /** Lets running streams finish and accepts no new ones. */
  drain(): void {
    this.#draining = true;
    for (const session of this.#sessions) session.drain();
  }

  /**
   * Fault: this thread stalled for more than a second, and sessions ended whose clients had read nothing only because nothing was sent
   * to them meanwhile.
   */
  readonly #look = (): void => {
    const nowMs = this.#options.nowMs();
    const stalledMs = nowMs - this.#lookedAtMs - 2 * LOOK_EVERY_MS;
    this.#lookedAtMs = nowMs;
    if (stalledMs > 0) for (const session of this.#sessions) session.stalled(stalledMs);
    for (const session of this.#sessions) session.look(nowMs);
    this.#endUnread(nowMs);
    this.#unreadRequests.look(this.#sessions);
  };

  /**
   * Attack: a client opens many sessions and does not read its responses. They wait outside the heap, up to 64 KiB for each
   * stream. So they are bounded for each address and in all, and beyond that the sessions end whose clients have not read
   * for longest. A client that reads slowly keeps its session.
   */
  #endUnread(nowMs: number): void {
    const unread: Http2Session[] = [];
    for (const session of this.#sessions) {
      if (session.unreadBytes > 0 && nowMs - session.stillSinceMs >= STILL_MS) unread.push(session);
    }
    if (unread.length === 0 || sumOf(unread) <= MAX_UNREAD_BYTES_OF_ADDRESS) return;
    unread.sort((a, b) => a.stillSinceMs - b.stillSinceMs);
    let kept: Http2Session[] = [];
    for (const [network, own] of Map.groupBy(unread, (session) => session.network)) {
      kept = kept.concat(network === null ? own : endBeyond(MAX_UNREAD_BYTES_OF_ADDRESS, own));
    }
    endBeyond(MAX_TOTAL_BYTES, kept);
  }
}
