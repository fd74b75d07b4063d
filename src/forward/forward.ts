import type { ResponseBody } from '../http1/client.ts';
import { IDEMPOTENT } from '../http1/request-line.ts';
import type { ResponseHead } from '../http1/response-head.ts';
import { type Timed, UNWATCHED } from '../io/deadlines.ts';
import { reset } from '../io/graceful-close.ts';
import type { ConsumerTime } from '../io/thread-time.ts';
import { Pieces } from '../io/writes.ts';
import {
  ClientBodyError,
  ClientGoneError,
  DeadlineError,
  type ForwardResult,
  faultOf,
  NoUpstreamError,
  QueueFullError,
} from './faults.ts';
import { type ForwardRequest, whenBegun } from './request-body.ts';
import { Retries, type RetryRules } from './retries.ts';
import type { ConnectionWaiter, ConsumerShare, PoolSlot, Upstream } from './upstream/upstream.ts';
import type { InFlightRequest, RequestCarrier } from './upstream/upstream-connection.ts';

/**
 * Forwards one request to the upstream and the response to the client. Both are streamed, and each side is read no
 * faster than the other reads. Every wait has a deadline: `responseTimeoutMs` each for a connection and for the head,
 * `bodyTimeoutMs` between two pieces of the body, `writeTimeoutMs` for a client that does not read. A request with a
 * body takes a connection when the first byte of the body has arrived, and no deadline of these runs before that. A
 * request that may be retried (`retries`) has one deadline for the head, and for connecting, in all attempts.
 * @param share of its consumer, with a place for the request
 * @returns a function to break it off from outside; `reason` (a ClientBodyError) decides how it ends
 */
export function forward(
  upstream: Upstream,
  share: ConsumerShare,
  request: ForwardRequest,
  response: ResponseBody,
  hooks: ForwardHooks,
): { readonly breakOff: (reason: Error) => void } {
  const forwarding = new Forwarding(upstream, share, request, response, hooks);
  forwarding.begin();
  return forwarding;
}

/** What forwarding notes of a request, for the report of the caller. */
interface ForwardRecord {
  /** The last target that was chosen for it; null if none was. */
  target: string | null;
  attempts: number;
  /** An attempt has failed and no other one began, because the retry budget of the upstream is used up. */
  isOverRetryBudget: boolean;
  /** The bytes of the response's body so far. */
  bytesOut: number;
}

/** Called as forwarding proceeds. */
export interface ForwardHooks {
  readonly record: ForwardRecord;
  /** Charged with the work of the thread on the response. */
  readonly time: Pick<ConsumerTime, 'worked'>;
  /**
   * Writes the head of the client's response, made from the head of the upstream's final response. Called once.
   * @returns the body that the client gets in place of the response's own, which must be empty; null if it gets that
   */
  head(head: ResponseHead): Buffer | null;
  /** An interim response other than 100 and 101. @returns whether the client gets it */
  information(status: number, fields: readonly string[]): boolean;
  /** Called exactly once, after all others. */
  done(result: ForwardResult): void;
  /** Called when the request is about to be written to a connection, and again for each further attempt; null if that does not matter. */
  readonly sent: (() => void) | null;
  /** How long a client may read nothing before it is disconnected. */
  readonly writeTimeoutMs: number;
  /** Deadlines that replace those of the upstream; null for those of the upstream. */
  readonly timeouts: ResponseTimeouts | null;
  /** Null if no attempt is retried. */
  readonly retries: RetryRules | null;
  /** Null if the gateway does not read the body. */
  readonly reader: AnswerBodyReader | null;
}

/** Reads the body as it is passed on, in as few pieces as it arrived in. */
export interface AnswerBodyReader {
  /** The memory of the piece may be used again after the call. */
  chunk(bytes: Buffer): void;
  /** Whether the body arrives faster than it is read, so that the service should not be read on. */
  readonly isBehind: boolean;
  /** Calls `next` once it is no longer behind. */
  whenCaughtUp(next: () => void): void;
}

/** How long the service may take to send the head of its response, and pause within the body. */
export interface ResponseTimeouts {
  readonly responseTimeoutMs: number;
  readonly bodyTimeoutMs: number;
}

/**
 * Attack: an upstream sends endless interim responses to a client that does not read, until memory is full. So further
 * ones are dropped.
 */
const MAX_INTERIM = 8;

class Forwarding implements InFlightRequest, ConnectionWaiter, Timed {
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  place: PoolSlot | null = null;
  readonly share: ConsumerShare;
  readonly affinity: string | null;
  #wait: DeadlineError['wait'] | 'client' = 'connection';
  #waitMs = 0;
  readonly #upstream: Upstream;
  readonly #request: ForwardRequest;
  readonly #response: ResponseBody;
  readonly #hooks: ForwardHooks;
  readonly #timeouts: ResponseTimeouts;
  #connection: RequestCarrier | null = null;
  #settled = false;
  /** Whether any byte of a response has been received. */
  #responseBegun = false;
  /** Whether the request was sent once more because a reused connection had died. */
  #isResent = false;
  /** Null if the route has no `retries`, or if they are not for this request. */
  readonly #retries: Retries | null;
  /** The response that is being received is not passed on, because another attempt follows. */
  #isDropping = false;
  /** How many interim responses the client has got. */
  #interim = 0;
  #drained: (() => void) | null = null;
  /** Stops waiting for the first byte of the body. */
  #stopWaiting: (() => void) | null = null;
  readonly #relay: ResponseToClient;

  constructor(
    upstream: Upstream,
    share: ConsumerShare,
    request: ForwardRequest,
    response: ResponseBody,
    hooks: ForwardHooks,
  ) {
    this.#upstream = upstream;
    this.share = share;
    this.affinity = request.affinity ?? null;
    this.#request = request;
    this.#response = response;
    this.#relay = new ResponseToClient(response, hooks.reader);
    this.#hooks = hooks;
    this.#timeouts = hooks.timeouts ?? upstream.options;
    this.#retries = hooks.retries === null ? null : retriesOf(hooks.retries, request, share, upstream);
  }

  begin(): void {
    this.#response.once('close', this.#onClientClose);
    this.#upstream.deadlines.watch(this);
    const { body } = this.#request;
    if (body === null || body.framing === 'whole' || body.source.readableLength > 0) this.#enter();
    // A service may speak first, on a stream in both directions.
    else if (this.#upstream.isHttp2) this.#enter();
    else this.#stopWaiting = whenBegun(body, () => this.#enter());
  }

  #enter(): void {
    if (!this.#upstream.enter(this)) this.#fail(new QueueFullError());
    // The request is in the queue. A free connection would have been given to it by now.
    else if (!this.#settled && this.deadlineAtMs === Number.POSITIVE_INFINITY) {
      this.#waitFor('connection', this.#timeouts.responseTimeoutMs);
    }
  }

  onTarget(target: string): void {
    this.#hooks.record.target = target;
  }

  onConnecting(): void {
    // `dial` enforces a shorter deadline for each connection attempt; this one bounds all attempts together.
    if (this.#wait === 'connection') this.#waitForHead();
  }

  onConnected(connection: RequestCarrier): void {
    this.#connection = connection;
    // A retry has the deadline of its attempt already, and a request that is sent once more keeps its own.
    if (this.#wait === 'connection' || (this.#retries === null && !this.#isResent)) this.#waitForHead();
    this.#hooks.sent?.();
    connection.carry(this.#request, this);
  }

  onNotConnected(error: Error): void {
    const isRetryable = this.#retries?.onConnection === true && !(error instanceof NoUpstreamError);
    if (isRetryable && this.#takeRetry()) this.#retry();
    else this.#fail(error);
  }

  onInformation(status: number, fields: readonly string[]): void {
    this.#responseBegun = true;
    // The gateway has answered `Expect` itself.
    if (status === 100 || this.#interim === MAX_INTERIM) return;
    if (this.#hooks.information(status, fields)) this.#interim++;
  }

  onHead(head: ResponseHead): void {
    this.#responseBegun = true;
    if (this.#retries === null) this.#upstream.answered(this);
    else if (!this.#isFinal(this.#retries, head.status)) return;
    const body = this.#hooks.head(head);
    this.#relay.begun();
    if (body !== null) this.onData(body);
    // Its deadline starts once everything received so far has been passed on (`onPause`), unless that completes the
    // response.
    this.#wait = 'body';
  }

  onData(chunk: Buffer): void {
    if (this.#isDropping) return;
    this.#hooks.record.bytesOut += chunk.length;
    this.#relay.add(chunk);
  }

  onPause(): void {
    // The rest of the dropped response has not arrived with its head. Waiting for it could take for ever.
    if (this.#isDropping) this.#retry();
    if (this.#settled || !this.#response.headersSent) return;
    this.#flush();
    if (this.#wait === 'body') this.#waitFor('body', this.#timeouts.bodyTimeoutMs);
  }

  onWhole(): void {
    if (!this.#settled && this.#relay.isLarge) this.#relay.flush();
  }

  onTrailers(fields: readonly string[]): void {
    if (!this.#settled && !this.#isDropping) this.#request.trailers?.ofResponse(fields);
  }

  get isBufferReleased(): boolean {
    return !this.#settled && this.#relay.isBufferReleased;
  }

  onEnd(): void {
    if (this.#settled || this.#isDropping) return;
    const { deadlines } = this.#upstream;
    const fromMs = deadlines.nowMs();
    this.#relay.end();
    this.#settle({ kind: 'answered' });
    this.worked(fromMs, deadlines.nowMs());
  }

  worked(fromMs: number, toMs: number): void {
    this.#hooks.time.worked(fromMs, toMs);
  }

  onFree(): void {
    if (this.#isDropping) this.#retry();
    else this.#leave();
  }

  onBodySent(): void {
    if (!this.#settled && !this.#response.headersSent) this.#waitForHead();
  }

  onBroken(error: Error): void {
    if (this.#isDropping) {
      this.#retry();
      return;
    }
    if (this.#mayResend()) {
      this.#isResent = true;
      this.#connection = null;
      this.#upstream.reconnect(this);
      return;
    }
    // While the body is still being sent, the target may have closed the connection because of the body. That does not
    // count as a failure of the target.
    const isBodyOnTheWay = this.#connection?.isBodyUnsent === true;
    this.#connection = null;
    if (!isBodyOnTheWay) this.#upstream.failed(this, error.message);
    if (this.#retries?.onConnection === true && this.#takeRetry()) this.#retry();
    else this.#fail(error);
  }

  onBodyFault(error: Error): void {
    this.breakOff(error);
  }

  onDeadline(): void {
    if (this.#wait === 'client') this.breakOff(new ClientGoneError('the client does not read'));
    // The service is not late: the gateway has yet to process what it has sent. So this looks at it again later.
    else if (this.#connection?.hasWaiting === true) this.deadlineAtMs = this.#upstream.deadlines.nowMs();
    // The upstream's deadline for the head starts when it has the whole request. Until then `requestTimeout` bounds the
    // client.
    else if (this.#wait === 'head' && this.#connection?.waitsForClient) this.#waitForHead();
    else {
      const late = new DeadlineError(this.#wait, this.#waitMs);
      if (this.#wait !== 'connection') this.#upstream.failed(this, late.message);
      if (this.#retries !== null && this.#takeRetry()) this.#retry();
      else this.breakOff(late);
    }
  }

  /** Breaks off at once, on both sides. */
  breakOff(reason: Error): void {
    if (!this.#settled) this.#fail(reason);
  }

  #flush(): void {
    const isTaken = this.#relay.flush();
    const isBehind = this.#hooks.reader?.isBehind === true;
    if ((isTaken && !isBehind) || this.#wait === 'client') return;
    this.#connection?.pause();
    this.#waitFor('client', this.#hooks.writeTimeoutMs);
    // Created only when needed, because the gateway has to wait for hardly any client.
    this.#drained ??= () => this.#onDrain();
    if (isTaken) this.#drained();
    else this.#response.once('drain', this.#drained);
  }

  #onDrain(): void {
    if (this.#settled) return;
    const { reader } = this.#hooks;
    if (reader?.isBehind === true) {
      // Forwarding waits for the reader of the answer, and not for the client.
      this.deadlineAtMs = Number.POSITIVE_INFINITY;
      reader.whenCaughtUp(this.#drained!);
      return;
    }
    this.#waitFor('body', this.#timeouts.bodyTimeoutMs);
    this.#connection?.resume();
  }

  /**
   * Whether to send the request once more, silently and on any route. That needs an idempotent request whose body, if it
   * has one, is held whole, on a connection that was used before and closed before any byte of a response arrived. It is
   * not counted against the quota again, because it happens after admission.
   */
  #mayResend(): boolean {
    const { method, body } = this.#request;
    if (this.#isResent || this.#settled || this.#responseBegun) return false;
    const isHeld = body === null || body.framing === 'whole';
    return isHeld && IDEMPOTENT.has(method) && this.#connection?.mayHaveClosedIdle === true;
  }

  /** @returns false if the response with this status is dropped, because another attempt follows */
  #isFinal(retries: Retries, status: number): boolean {
    if (!retries.isFailure(status)) {
      this.#upstream.answered(this);
      retries.answered();
      return true;
    }
    this.#upstream.failed(this, `answered ${status}`);
    this.#isDropping = this.#takeRetry();
    return !this.#isDropping;
  }

  /** Takes another attempt, if the client has received nothing yet and everything else allows one. */
  #takeRetry(): boolean {
    if (this.#settled || this.#isDropping || this.#wait !== 'head' || this.#interim > 0) return false;
    if (!this.#upstream.canRetry) return false;
    const retries = this.#retries!;
    const isTaken = retries.take(this.#upstream.deadlines.nowMs());
    if (retries.isOverBudget) this.#hooks.record.isOverRetryBudget = true;
    return isTaken;
  }

  /**
   * Begins the attempt that was taken. A dropped response that arrived whole leaves its connection free for other requests,
   * any other is closed, so that no byte of it can be taken for the next response.
   */
  #retry(): void {
    this.#isDropping = false;
    this.#responseBegun = false;
    this.#isResent = false;
    this.#connection?.dropped(this);
    this.#connection = null;
    this.#hooks.record.attempts = this.#retries!.attempts;
    this.#waitForHead();
    this.#upstream.retry(this);
  }

  readonly #onClientClose = (): void => this.breakOff(new ClientGoneError('the client left'));

  #waitForHead(): void {
    const { responseTimeoutMs } = this.#timeouts;
    const ms = this.#retries?.begin(this.#upstream.deadlines.nowMs(), responseTimeoutMs) ?? responseTimeoutMs;
    this.#waitFor('head', ms);
  }

  #waitFor(wait: DeadlineError['wait'] | 'client', ms: number): void {
    this.#wait = wait;
    this.#waitMs = ms;
    this.deadlineAtMs = this.#upstream.deadlines.nowMs() + ms;
  }

  #fail(error: Error): void {
    if (this.#settled) return;
    this.#leave();
    const { req } = this.#response;
    const isGone = error instanceof ClientGoneError;
    if (isGone || (req.destroyed && !req.complete && !(error instanceof ClientBodyError))) {
      this.#settle({ kind: 'client_gone', cause: isGone ? error.message : 'the client left' });
      this.#response.destroy();
    } else if (this.#response.headersSent) {
      // If the connection ended cleanly, the client would take the response for complete. A reset is noticed even by a
      // client that reads until the connection closes.
      this.#flush();
      this.#settle({ kind: 'broken', fault: faultOf(error) });
      const { socket } = this.#response;
      // One turn later, so that the bytes already written leave first.
      if (socket !== null) setImmediate(() => reset(socket));
    } else this.#settle({ kind: 'failed', fault: faultOf(error) });
  }

  /** Gives the connection back. If its response is incomplete, it is closed. */
  #leave(): void {
    this.#connection?.dropped(this);
    this.#connection = null;
    this.#upstream.leave(this);
  }

  #settle(result: ForwardResult): void {
    this.#settled = true;
    this.#isDropping = false;
    this.#upstream.deadlines.forget(this);
    this.#response.removeListener('close', this.#onClientClose);
    if (this.#drained !== null) this.#response.removeListener('drain', this.#drained);
    this.#stopWaiting?.();
    this.#retries?.ended(result.kind === 'client_gone');
    this.#hooks.done(result);
  }
}

/** The attempts of a request; null if it must not be sent twice. */
function retriesOf(
  rules: RetryRules,
  request: ForwardRequest,
  share: ConsumerShare,
  { retryBudget, deadlines, options }: Upstream,
) {
  return Retries.of(rules, request, retryBudget, share, deadlines.nowMs(), options.onRetry ?? (() => {}));
}

/** A body up to this size is written together with its head, in one piece. */
const JOINED_BYTES = 16 * 1024;

/** Relays an upstream's response to the client. Head, body and end leave in as few writes as they arrived in. */
class ResponseToClient {
  readonly #response: ResponseBody;
  readonly #held = new Pieces();
  readonly #reader: ForwardHooks['reader'];
  #isHeadHeld = false;

  constructor(response: ResponseBody, reader: ForwardHooks['reader']) {
    this.#response = response;
    this.#reader = reader;
  }

  /** Notes that the head has been set, but not written yet. */
  begun(): void {
    this.#isHeadHeld = true;
  }

  add(chunk: Buffer): void {
    this.#held.add(chunk);
  }

  /**
   * Writes the bytes that are held. Node would hold back a head until the first byte of the body, which may take long
   * to arrive.
   * @returns false if the client must read before more is written (`drain`)
   */
  flush(): boolean {
    const chunk = this.#take();
    if (chunk === null && this.#isHeadHeld) this.#response.flushHeaders();
    this.#isHeadHeld = false;
    return chunk === null || this.#response.write(chunk);
  }

  /** Whether too much is held to be written together with the head. */
  get isLarge(): boolean {
    return this.#held.bytes > JOINED_BYTES;
  }

  /** Whether the operating system is known to have accepted all bytes that were added. */
  get isBufferReleased(): boolean {
    return this.#held.bytes === 0 && this.#response.isTaken === true;
  }

  /** Writes the rest. The listener closes the connection if its client does not read the rest in time. */
  end(): void {
    const response = this.#response;
    const last = this.#take();
    if (last === null) response.end();
    // Node joins a head and a text into a single write. With bytes it would make two writes.
    else if (this.#isHeadHeld && last.length <= JOINED_BYTES) response.end(last.toString('latin1'), 'latin1');
    else response.end(last);
  }

  #take(): Buffer | null {
    const bytes = this.#held.take();
    if (bytes !== null && this.#reader !== null) this.#reader.chunk(bytes);
    return bytes;
  }
}
