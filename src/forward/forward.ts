import type { ResponseBody } from '../http1/client.ts';
import type { ResponseHead } from '../http1/response-head.ts';
import { type Timed, UNWATCHED } from '../io/deadlines.ts';
import {
  ClientBodyError,
  ClientGoneError,
  DeadlineError,
  type ForwardResult,
  faultOf,
  QueueFullError,
} from './faults.ts';
import { type ForwardRequest, whenBegun } from './request-body.ts';
import { ResponseToClient } from './response-to-client.ts';
import type { InFlightRequest, UpstreamConnection } from './upstream/connection.ts';
import type { ConnectionWaiter, ConsumerShare, PoolSlot, Upstream } from './upstream/upstream.ts';

/**
 * Forwards one request to the upstream and the response to the client. Both are streamed, and each side is read no
 * faster than the other reads. Every wait has a deadline: `responseTimeoutMs` each for a connection and for the head,
 * `bodyTimeoutMs` between two pieces of the body, `writeTimeoutMs` for a client that does not read. A request with a
 * body takes a connection when the first byte of the body has arrived, and none of these deadlines runs before that.
 * @param share of its consumer, with a reservation for the request
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

/** Called as forwarding proceeds. */
export interface ForwardHooks {
  /**
   * A target was chosen for the request. Called again for each further target, if the one before could not be connected
   * to.
   */
  taken(target: string): void;
  /** Writes the head of the client's response, made from the head of the upstream's final response. Called once. */
  head(head: ResponseHead): void;
  /** A 103 (Early Hints) to forward. */
  earlyHints(fields: readonly string[]): void;
  chunk(bytes: number): void;
  /** Called exactly once, after all others. */
  done(result: ForwardResult): void;
  /** How long a client may read nothing before it is disconnected. */
  readonly writeTimeoutMs: number;
  /** Deadlines that replace those of the upstream; null for those of the upstream. */
  readonly timeouts: ResponseTimeouts | null;
}

/** How long the service may take to send the head of its response, and pause within the body. */
export interface ResponseTimeouts {
  readonly responseTimeoutMs: number;
  readonly bodyTimeoutMs: number;
}

/**
 * Attack: an upstream sends endless early hints to a client that does not read, until memory is full. So further ones
 * are dropped.
 */
const MAX_HINTS = 8;

const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

class Forwarding implements InFlightRequest, ConnectionWaiter, Timed {
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  place: PoolSlot | null = null;
  readonly share: ConsumerShare;
  #wait: DeadlineError['wait'] | 'client' = 'connection';
  #waitMs = 0;
  readonly #upstream: Upstream;
  readonly #request: ForwardRequest;
  readonly #response: ResponseBody;
  readonly #hooks: ForwardHooks;
  readonly #timeouts: ResponseTimeouts;
  #connection: UpstreamConnection | null = null;
  #settled = false;
  /** Whether any byte of a response has been received. */
  #responseBegun = false;
  #retried = false;
  #hints = 0;
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
    this.#request = request;
    this.#response = response;
    this.#relay = new ResponseToClient(response);
    this.#hooks = hooks;
    this.#timeouts = hooks.timeouts ?? upstream.options;
  }

  begin(): void {
    this.#response.once('close', this.#onClientClose);
    this.#upstream.deadlines.watch(this);
    const { body } = this.#request;
    if (body === null || body.framing === 'whole' || body.source.readableLength > 0) this.#enter();
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
    this.#hooks.taken(target);
  }

  onConnecting(): void {
    // `dial` enforces a shorter deadline for each connection attempt; this one bounds all attempts together.
    if (this.#wait === 'connection') this.#waitForHead();
  }

  onConnected(connection: UpstreamConnection): void {
    this.#connection = connection;
    this.#waitForHead();
    connection.carry(this.#request, this);
  }

  onNotConnected(error: Error): void {
    this.#fail(error);
  }

  onInformation(status: number, fields: readonly string[]): void {
    this.#responseBegun = true;
    if (status === 103 && this.#hints++ < MAX_HINTS) this.#hooks.earlyHints(fields);
  }

  onHead(head: ResponseHead): void {
    this.#responseBegun = true;
    this.#upstream.answered(this);
    this.#hooks.head(head);
    this.#relay.begun();
    // Its deadline starts once everything received so far has been passed on (`onPause`), unless that completes the
    // response.
    this.#wait = 'body';
  }

  onData(chunk: Buffer): void {
    this.#hooks.chunk(chunk.length);
    this.#relay.add(chunk);
  }

  onPause(): void {
    if (this.#settled || !this.#response.headersSent) return;
    this.#flush();
    if (this.#wait === 'body') this.#waitFor('body', this.#timeouts.bodyTimeoutMs);
  }

  onWhole(): void {
    if (!this.#settled && this.#relay.isLarge) this.#relay.flush();
  }

  get isBufferReleased(): boolean {
    return !this.#settled && this.#relay.isBufferReleased;
  }

  onEnd(): void {
    if (this.#settled) return;
    this.#relay.end();
    this.#settle({ kind: 'answered' });
  }

  onFree(): void {
    this.#leave();
  }

  onBodySent(): void {
    if (!this.#settled && !this.#response.headersSent) this.#waitForHead();
  }

  onBroken(error: Error): void {
    if (this.#mayRetry()) {
      this.#retried = true;
      this.#connection = null;
      this.#upstream.reconnect(this);
      return;
    }
    // While the body is still being sent, the target may have closed the connection because of the body. That does not
    // count as a failure of the target.
    const isBodyOnTheWay = this.#connection?.isBodyUnsent === true;
    this.#connection = null;
    if (!isBodyOnTheWay) this.#upstream.failed(this, error.message);
    this.#fail(error);
  }

  onBodyFault(error: Error): void {
    this.breakOff(error);
  }

  onDeadline(): void {
    if (this.#wait === 'client') this.breakOff(new ClientGoneError('the client does not read'));
    // The upstream's deadline for the head starts when it has the whole request. Until then `requestTimeout` bounds the
    // client.
    else if (this.#wait === 'head' && this.#connection?.waitsForClient) this.#waitForHead();
    else {
      const late = new DeadlineError(this.#wait, this.#waitMs);
      if (this.#wait !== 'connection') this.#upstream.failed(this, late.message);
      this.breakOff(late);
    }
  }

  /** Breaks off at once, on both sides. */
  breakOff(reason: Error): void {
    if (!this.#settled) this.#fail(reason);
  }

  #flush(): void {
    if (this.#relay.flush() || this.#wait === 'client') return;
    this.#connection?.pause();
    this.#waitFor('client', this.#hooks.writeTimeoutMs);
    // Created only when needed, because the gateway has to wait for hardly any client.
    this.#drained ??= () => this.#onDrain();
    this.#response.once('drain', this.#drained);
  }

  #onDrain(): void {
    if (this.#settled) return;
    this.#waitFor('body', this.#timeouts.bodyTimeoutMs);
    this.#connection?.resume();
  }

  /**
   * Whether to retry once, silently. That needs an idempotent request (RFC 9110 section 9.2.2) without a body, on a
   * connection that was used before and closed before any byte of a response arrived. The retry is not counted against
   * the quota again, because it happens after admission.
   */
  #mayRetry(): boolean {
    const { method, body } = this.#request;
    if (this.#retried || this.#settled || this.#responseBegun) return false;
    return body === null && IDEMPOTENT.has(method) && this.#connection?.mayHaveClosedIdle === true;
  }

  readonly #onClientClose = (): void => this.breakOff(new ClientGoneError('the client left'));

  #waitForHead(): void {
    this.#waitFor('head', this.#timeouts.responseTimeoutMs);
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
      if (socket !== null) setImmediate(() => socket.resetAndDestroy());
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
    this.#upstream.deadlines.forget(this);
    this.#response.removeListener('close', this.#onClientClose);
    if (this.#drained !== null) this.#response.removeListener('drain', this.#drained);
    this.#stopWaiting?.();
    this.#hooks.done(result);
  }
}
