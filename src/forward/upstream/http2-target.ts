import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { fieldValues, TOKEN, VALUE, valuesByName } from '../../http1/fields.ts';
import { BadResponseError, type ResponseHead } from '../../http1/response-head.ts';
import { afterReading } from '../../io/after-reading.ts';
import type { Buffers } from '../../io/buffers.ts';
import { type Deadlines, ReplyDeadlines, type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { cancelStream } from '../../io/graceful-close.ts';
import { onEndStream } from '../../io/node-internals.ts';
import { SharedBufferSocket } from '../../io/read-buffers.ts';
import { rawOf } from '../../io/tls-carrier.ts';
import { TokenBucket } from '../../io/token-bucket.ts';
import { DeadlineError } from '../faults.ts';
import { BodySender, type ForwardRequest, type StreamedBody } from '../request-body.ts';
import { type DialOptions, dial, type UpstreamAddress } from './dial.ts';
import { UpstreamTarget, type UpstreamTargetEvents, type WeightedTarget } from './target.ts';
import type { InFlightRequest, RequestCarrier } from './upstream-connection.ts';

/*
 * HTTP/2 to a target (RFC 9113): few connections, each with many streams, of which each carries one request.
 */

/** Streams of one connection at a time, or fewer if the service allows fewer. Requests beyond that get another connection. */
const MAX_STREAMS = 100;
/** As of an HTTP/1.1 connection: a name is resolved anew within this time. Requests that run then finish. */
const MAX_AGE_MS = 30_000;
/** How much of a response may wait in memory for a client that does not read. */
const STREAM_WINDOW_BYTES = 128 * 1024;
/** Node tells the service at once that it has what it has received, so this window holds nothing back. */
const SESSION_WINDOW_BYTES = 16 * 1024 * 1024;
/** Of names and values. Node tells the service of it, and does not enforce it. */
const MAX_HEAD_BYTES = 16 * 1024;
const MAX_FIELDS = 256;
/** More than unread responses on all streams of a connection can take: Node would refuse further requests on it. */
const SESSION_MEMORY_MB = 64;
/**
 * PING and SETTINGS frames that a service may send at once, and again in each second. Those of gRPC measure the line with PING,
 * at most once in a round trip.
 */
const MAX_CONTROL_FRAMES = 1_000;
/** A connection that has brought nothing for so long, while a request waited in vain, gets no further request. */
const SILENT_MS = 300;
/** As for HTTP/1.1: reading less takes hardly longer than measuring it. */
const MEASURED_BYTES = 4 * 1024;

const { NGHTTP2_CANCEL, NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;
const { NGHTTP2_FLAG_END_STREAM } = constants;

const DEADLINES = new ReplyDeadlines();

/** A connection that is being opened, with the requests that wait for a stream of it. */
interface Opening {
  readonly waiting: Set<StreamWaiter>;
  giveUp: () => void;
}

interface StreamWaiter {
  readonly connected: (stream: RequestCarrier) => void;
  readonly failed: (error: Error) => void;
  opening: Opening;
}

/** One address of an upstream that speaks HTTP/2. */
export class Http2Target extends UpstreamTarget {
  readonly #dialing: DialOptions;
  readonly #deadlines: Deadlines;
  readonly #sessions = new Set<UpstreamSession>();
  readonly #opening = new Set<Opening>();
  #isRetired = false;

  constructor(
    target: WeightedTarget,
    dialing: DialOptions,
    deadlines: Deadlines,
    buffers: Buffers,
    events: UpstreamTargetEvents,
  ) {
    super(target, dialing, deadlines, buffers, events);
    this.#dialing = dialing;
    this.#deadlines = deadlines;
  }

  override get connections(): number {
    return this.#sessions.size + this.#opening.size;
  }

  /** Takes a stream of a connection that stands; null if none has room for one more. */
  override takeIdle(): RequestCarrier | null {
    const nowMs = this.#deadlines.nowMs();
    for (const session of this.#sessions) if (session.hasRoom(nowMs)) return session.open();
    return null;
  }

  override closeOldestIdle(): boolean {
    for (const session of this.#sessions) if (session.closeIfIdle()) return true;
    return false;
  }

  /** Opens a new connection, or waits for one that is being opened. @returns a function that gives up */
  override dial(connected: StreamWaiter['connected'], failed: StreamWaiter['failed']): () => void {
    const waiter: StreamWaiter = { connected, failed, opening: this.#openingWithRoom() };
    waiter.opening.waiting.add(waiter);
    return () => {
      const { opening } = waiter;
      opening.waiting.delete(waiter);
      if (opening.waiting.size > 0 || !this.#opening.delete(opening)) return;
      opening.giveUp();
    };
  }

  override retire(): void {
    this.#isRetired = true;
    for (const session of this.#sessions) session.retire();
  }

  override close(): void {
    this.#isRetired = true;
    for (const session of this.#sessions) session.destroy();
  }

  #openingWithRoom(): Opening {
    for (const opening of this.#opening) if (opening.waiting.size < MAX_STREAMS) return opening;
    const opening: Opening = { waiting: new Set(), giveUp: () => {} };
    this.#opening.add(opening);
    opening.giveUp = openSession(
      this.address,
      this.#dialing,
      (session, socket) => this.#opened(opening, session, socket),
      (error) => this.#failed(opening, error),
    );
    return opening;
  }

  #opened(opening: Opening, node: ClientHttp2Session, socket: Socket): void {
    this.#opening.delete(opening);
    const session = new UpstreamSession(node, socket, this.address, this.#deadlines, () =>
      this.#sessions.delete(session),
    );
    this.#sessions.add(session);
    const nowMs = this.#deadlines.nowMs();
    if (!session.hasRoom(nowMs)) {
      session.destroy();
      this.#failed(opening, new Error('the service allows no stream'));
      return;
    }
    for (const waiter of opening.waiting) {
      if (session.hasRoom(nowMs)) waiter.connected(session.open());
      else {
        waiter.opening = this.#openingWithRoom();
        waiter.opening.waiting.add(waiter);
      }
    }
    if (this.#isRetired) session.retire();
  }

  #failed(opening: Opening, error: Error): void {
    this.#opening.delete(opening);
    for (const { failed } of opening.waiting) failed(error);
  }
}

/**
 * Opens a connection and waits for the SETTINGS of the service, which say how many streams it allows. Calls either `opened` or
 * `failed`, once, and never before this function returns.
 * @returns a function that gives up, after which neither callback is called
 */
export function openSession(
  address: UpstreamAddress,
  options: DialOptions,
  opened: (session: ClientHttp2Session, socket: Socket) => void,
  failed: (error: Error) => void,
): () => void {
  let giveUp = dial(
    address,
    options,
    (socket) => {
      if (socket instanceof TLSSocket && socket.alpnProtocol !== 'h2') {
        socket.destroy();
        failed(new Error('the service does not agree on HTTP/2 in the TLS handshake (ALPN)'));
      } else giveUp = greet(address, options, socket, opened, failed);
    },
    failed,
  );
  return () => giveUp();
}

/** Begins HTTP/2 on a connection that stands. The parameters are those of `openSession`. */
function greet(
  { kind, authority }: UpstreamAddress,
  { connectTimeoutMs }: DialOptions,
  socket: Socket,
  opened: (session: ClientHttp2Session, socket: Socket) => void,
  failed: (error: Error) => void,
): () => void {
  const session = connect(`${kind === 'https' ? 'https' : 'http'}://${authority}`, {
    createConnection: () => socket,
    settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES, maxHeaderListSize: MAX_HEAD_BYTES },
    maxHeaderListPairs: MAX_FIELDS,
    maxSessionMemory: SESSION_MEMORY_MB,
    // Attack: a client repeats `User-Agent`, and Node throws. Fields that a client repeats are repeated to the service, as over HTTP/1.1.
    // The types lack this option.
    ...{ strictSingleValueFields: false },
  });
  session.setLocalWindowSize(SESSION_WINDOW_BYTES);
  const stop = () => {
    deadline.cancel();
    session.removeListener('remoteSettings', onSettings);
    session.removeListener('close', onClose);
  };
  const fail = (error: Error) => {
    stop();
    session.destroy();
    failed(error);
  };
  let cause: Error | null = null;
  // It stays until the session is closed, because an error without any listener would end the process.
  session.on('error', (error) => {
    cause = error;
  });
  const onClose = () => fail(cause ?? new Error('the service closed the connection instead of beginning HTTP/2'));
  const onSettings = () => {
    stop();
    opened(session, socket);
  };
  const deadline = DEADLINES.set(() => fail(new DeadlineError('connect', connectTimeoutMs)), connectTimeoutMs);
  session.once('close', onClose);
  session.once('remoteSettings', onSettings);
  return () => {
    stop();
    session.destroy();
  };
}

/** One connection of HTTP/2 to a target. */
class UpstreamSession implements Timed {
  /** When it is too old, while it carries nothing. */
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  readonly node: ClientHttp2Session;
  readonly address: UpstreamAddress;
  readonly deadlines: Deadlines;
  /** Whether a response has been received on it. */
  hasServed = false;
  readonly #socket: Socket;
  readonly #raw: SharedBufferSocket | null;
  readonly #oldAtMs: number;
  #streams = 0;
  #isLeaving = false;
  /** Streams above it were not processed (RFC 9113 section 6.8). */
  #lastStreamId = Number.POSITIVE_INFINITY;

  constructor(
    node: ClientHttp2Session,
    socket: Socket,
    address: UpstreamAddress,
    deadlines: Deadlines,
    onClosed: () => void,
  ) {
    this.node = node;
    this.address = address;
    this.deadlines = deadlines;
    this.#socket = socket;
    const raw = rawOf(socket);
    this.#raw = raw instanceof SharedBufferSocket ? raw : null;
    const nowMs = deadlines.nowMs();
    this.#oldAtMs = nowMs + MAX_AGE_MS;
    deadlines.watch(this);
    node.on('goaway', (_code, lastStreamId) => {
      this.#lastStreamId = lastStreamId;
      this.retire();
    });
    node.once('close', () => {
      this.#isLeaving = true;
      deadlines.forget(this);
      onClosed();
    });
    this.#boundControl(nowMs);
  }

  /** Attack: a service sends PING or SETTINGS without end, each of which the gateway has to answer. */
  #boundControl(nowMs: number): void {
    const { node, deadlines } = this;
    const frames = new TokenBucket(MAX_CONTROL_FRAMES, MAX_CONTROL_FRAMES, nowMs);
    const onControl = () => {
      if (this.#isLeaving || frames.spend(1, deadlines.nowMs())) return;
      this.#end(new Error('the service sends too many PING or SETTINGS frames'), NGHTTP2_ENHANCE_YOUR_CALM);
    };
    node.on('ping', onControl);
    node.on('remoteSettings', onControl);
  }

  /** Everything received so far. */
  get bytesRead(): number {
    return this.#socket.bytesRead;
  }

  /** Whether bytes that the service has sent wait for their turn. */
  get hasWaiting(): boolean {
    return this.#raw?.hasWaiting === true;
  }

  /** Whether it may carry one more request. */
  hasRoom(nowMs: number): boolean {
    const { node } = this;
    if (this.#isLeaving || node.closed || node.destroyed || nowMs >= this.#oldAtMs) return false;
    return this.#streams < Math.min(MAX_STREAMS, node.remoteSettings.maxConcurrentStreams ?? MAX_STREAMS);
  }

  open(): UpstreamStream {
    this.#streams++;
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    return new UpstreamStream(this);
  }

  /** A stream has ended. */
  left(): void {
    this.#streams--;
    if (this.#streams > 0) return;
    if (this.#isLeaving) this.destroy();
    else this.deadlineAtMs = this.#oldAtMs;
  }

  /** Whether the service has said that it did not process a stream. @param id undefined if its request was never sent */
  leftOut(id: number | undefined): boolean {
    return id === undefined || id > this.#lastStreamId;
  }

  /** Takes no more requests, and ends with the last one that it carries. */
  retire(): void {
    this.#isLeaving = true;
    this.closeIfIdle();
  }

  /** @returns whether it carried nothing */
  closeIfIdle(): boolean {
    if (this.#streams > 0) return false;
    this.destroy();
    return true;
  }

  onDeadline(): void {
    this.closeIfIdle();
  }

  /** Ends it with all streams. */
  destroy(): void {
    if (this.#streams === 0) this.#end(null, NGHTTP2_NO_ERROR);
    // Without an error, a response that breaks off would be taken for complete.
    else this.#end(new Error('the gateway has closed the connection'), NGHTTP2_CANCEL);
  }

  /** Ends it in a later phase of the event loop: what is left of the frames that are being read may be of its streams. */
  #end(error: Error | null, code: number): void {
    this.#isLeaving = true;
    setImmediate(() => this.node.destroy(error ?? undefined, code));
  }
}

/** One stream, which carries one request. */
class UpstreamStream implements RequestCarrier {
  isBodyUnsent = false;
  readonly #session: UpstreamSession;
  /** Null before the request is sent, and if it cannot be sent. */
  #stream: ClientHttp2Stream | null = null;
  #request: ForwardRequest | null = null;
  #carried: InFlightRequest | null = null;
  #body: BodySender | null = null;
  #head: ResponseHead | null = null;
  #trailers: readonly string[] = [];
  /** Whether the service has sent all of its response. */
  #isWhole = false;
  #error: Error | null = null;
  #sentAtMs = 0;
  /** What the session had received when the request was sent. */
  #readBefore = 0;
  /** Whether something was received that is to be passed on in this turn of the event loop. */
  #isPauseDue = false;

  constructor(session: UpstreamSession) {
    this.#session = session;
  }

  /**
   * Whether the service has certainly not processed the request (REFUSED_STREAM, or a GOAWAY with an earlier stream: RFC 9113
   * section 8.7), or may have closed the connection as idle just as the request was sent.
   */
  get mayHaveClosedIdle(): boolean {
    const stream = this.#stream;
    if (stream === null || stream.rstCode === NGHTTP2_REFUSED_STREAM || this.#session.leftOut(stream.id)) return true;
    return this.#session.hasServed && this.#isSilent;
  }

  get waitsForClient(): boolean {
    return this.#body !== null && !this.#body.done && !this.#body.isHeldUp;
  }

  get hasWaiting(): boolean {
    return this.#session.hasWaiting;
  }

  /** Whether nothing has been received on the connection since the request was sent. */
  get #isSilent(): boolean {
    return this.#session.bytesRead === this.#readBefore;
  }

  carry(request: ForwardRequest, carried: InFlightRequest): void {
    const { body } = request;
    this.#request = request;
    this.#carried = carried;
    this.#sentAtMs = this.#session.deadlines.nowMs();
    this.#readBefore = this.#session.bytesRead;
    try {
      const stream = this.#session.node.request(headersOf(request, this.#session.address), {
        endStream: body === null,
        waitForTrailers: body !== null && body.framing !== 'whole' && !!request.trailers,
      });
      this.#stream = stream;
      this.#listen(stream);
      if (body?.framing === 'whole') stream.end(body.text, 'latin1');
      else if (body !== null) this.#body = this.#send(body, stream);
    } catch (error) {
      // The connection has ended since it was chosen.
      setImmediate(() => {
        this.#break(error as Error);
        this.#session.left();
      });
    }
  }

  #listen(stream: ClientHttp2Stream): void {
    stream.on('headers', (_headers, _flags, raw: string[]) => this.#orBreakOff(() => this.#onInformation(raw)));
    stream.once('response', (_headers, flags: number, raw: string[]) => {
      this.#orBreakOff(() => this.#onResponse(stream, raw, (flags & NGHTTP2_FLAG_END_STREAM) !== 0));
    });
    stream.once('trailers', (_headers, _flags, raw: string[]) => this.#orBreakOff(() => this.#onTrailers(raw)));
    stream.once('wantTrailers', () =>
      this.#orBreakOff(() => stream.sendTrailers(valuesByName(this.#request?.trailers?.ofRequest() ?? []))),
    );
    onEndStream(stream, () => {
      this.#isWhole = true;
    });
    stream.once('end', () => this.#onEnd(stream));
    stream.on('error', (error) => {
      this.#error ??= error;
    });
    stream.once('close', () => {
      this.#break(this.#error ?? new Error(`the service reset the stream (code ${stream.rstCode})`));
      this.#session.left();
    });
  }

  /** A response that is malformed breaks off, and so does a request whose trailers cannot be sent. Neither ends the process. */
  #orBreakOff(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#break(error as Error);
      if (this.#stream !== null) cancelStream(this.#stream);
    }
  }

  #onInformation(raw: readonly string[]): void {
    const { status, fields } = readFields(raw);
    this.#carried?.onInformation(status, fields);
  }

  #onResponse(stream: ClientHttp2Stream, raw: readonly string[], isWhole: boolean): void {
    this.#session.hasServed = true;
    if (this.#carried === null) return;
    this.#head = headOf(raw, this.#request!.method, isWhole);
    if (!isWhole) this.#request!.trailers?.await();
    this.#carried.onHead(this.#head);
    this.#passOn();
    stream.on('data', (chunk: Buffer) => this.#orBreakOff(() => this.#onData(chunk)));
  }

  #onData(chunk: Buffer): void {
    const carried = this.#carried;
    if (carried === null || chunk.length === 0) return;
    if (this.#head!.framing === 'none') throw new BadResponseError('a body where a response has none');
    const fromMs = chunk.length < MEASURED_BYTES ? null : this.#session.deadlines.nowMs();
    carried.onData(chunk);
    this.#passOn();
    if (fromMs !== null) carried.worked(fromMs, this.#session.deadlines.nowMs());
  }

  #passOn(): void {
    if (this.#isPauseDue) return;
    this.#isPauseDue = true;
    afterReading(this.#pauseNow);
  }

  readonly #pauseNow = (): void => {
    if (!this.#isPauseDue) return;
    this.#isPauseDue = false;
    this.#carried?.onPause();
  };

  #onTrailers(raw: readonly string[]): void {
    this.#trailers = readFields(raw).fields;
  }

  #onEnd(stream: ClientHttp2Stream): void {
    const carried = this.#carried;
    // A stream that was reset ends too, also with NO_ERROR; `close` reports it. A reset behind a whole response takes nothing from it
    // (RFC 9113 section 8.1).
    if (carried === null || this.#head === null || stream.rstCode !== 0 || !this.#isWhole) return;
    this.#isPauseDue = false;
    const isWholeRequestSent = this.#body === null || this.#body.done;
    this.#release();
    // A service that responds before it has the whole request is not sent the rest.
    if (!isWholeRequestSent) cancelStream(stream);
    carried.onWhole();
    afterReading(() => {
      if (this.#trailers.length > 0) carried.onTrailers?.(this.#trailers);
      carried.onEnd();
      carried.onFree();
    });
  }

  #send(body: StreamedBody, stream: ClientHttp2Stream): BodySender {
    return new BodySender(body, stream, 'stream', {
      onBodySent: () => this.#carried?.onBodySent(),
      onBodyFault: (error) => this.#carried?.onBodyFault(error),
    });
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  dropped(carried: InFlightRequest): void {
    if (this.#carried !== carried) return;
    const isLate = this.#session.deadlines.nowMs() - this.#sentAtMs >= SILENT_MS;
    // The connection may be dead without a word.
    if (this.#head === null && isLate && this.#isSilent) this.#session.retire();
    this.#release();
    if (this.#stream !== null) cancelStream(this.#stream);
  }

  #break(error: Error): void {
    const carried = this.#carried;
    this.isBodyUnsent = this.#body !== null && !this.#body.done;
    this.#release();
    carried?.onBroken(error);
  }

  #release(): void {
    this.#carried = null;
    this.#body?.stop();
    this.#body = null;
    // The rest is read and dropped, so that the stream can end.
    this.#stream?.resume();
  }
}

/** The head of a request. Its fields have been checked, so that a line is a name, a colon, a blank and a value. */
function headersOf({ method, target, host, lines, trailers }: ForwardRequest, address: UpstreamAddress): string[] {
  const { kind, authority, base } = address;
  const scheme = kind === 'https' ? 'https' : 'http';
  const headers = [':method', method, ':scheme', scheme, ':authority', host ?? authority, ':path', base + target];
  for (let at = 0; at < lines.length; ) {
    const colon = lines.indexOf(':', at);
    const end = lines.indexOf('\r\n', colon);
    headers.push(lines.slice(at, colon).toLowerCase(), lines.slice(colon + 2, end));
    at = end + 2;
  }
  // The client of this hop takes trailers (RFC 9110 section 10.1.4). Servers of gRPC ask for it.
  if (trailers) headers.push('te', 'trailers');
  return headers;
}

/** Fields of an HTTP/1.1 connection, which make a message of HTTP/2 malformed (RFC 9113 section 8.2.2). */
const OF_CONNECTION = /^(?:connection|keep-alive|proxy-connection|transfer-encoding|upgrade)$/;
const LENGTH_VALUE = /^[0-9]{1,15}$/;

/**
 * Attack: what is no field in HTTP/1.1 (a line break in a value, a transfer coding) would end the head that an HTTP/1.1 client gets, or its
 * body. So every byte is checked here, even if nghttp2 has checked it before.
 * @throws BadResponseError
 */
function readFields(raw: readonly string[]): { readonly status: number; readonly fields: readonly string[] } {
  const fields: string[] = [];
  let status = 0;
  let bytes = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const [name, value] = [raw[i]!, raw[i + 1]!];
    bytes += name.length + value.length;
    if (bytes > MAX_HEAD_BYTES) throw new BadResponseError('a head that is too large');
    if (name === ':status') status = Number(value);
    else if (!TOKEN.test(name) || !VALUE.test(value)) throw new BadResponseError('a malformed field');
    else if (OF_CONNECTION.test(name)) throw new BadResponseError('a field of an HTTP/1.1 connection');
    else fields.push(name, value);
  }
  if (status === 101) throw new BadResponseError('101 Switching Protocols, which HTTP/2 does not have');
  return { status, fields };
}

/** @param isWhole whether the stream ends with the head @throws BadResponseError */
function headOf(raw: readonly string[], method: string, isWhole: boolean): ResponseHead {
  const { status, fields } = readFields(raw);
  const { values } = fieldValues(fields);
  const [length, another] = values('content-length');
  if (another !== undefined || (length !== undefined && !LENGTH_VALUE.test(length))) {
    throw new BadResponseError('a Content-Length that is not one');
  }
  const isEmpty = isWhole || method === 'HEAD' || status === 204 || status === 304 || Number(length) === 0;
  const framing = isEmpty ? 'none' : length === undefined ? 'chunked' : 'length';
  return {
    ...{ status, fields, values, lines: null, framing, length: framing === 'length' ? Number(length) : 0 },
    ...{ keepsAlive: true, keepAlive: [] },
  };
}
