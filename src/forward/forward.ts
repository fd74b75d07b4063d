import type { AnswerHead } from './answer-reader.ts';
import { whenBegun } from './body.ts';
import type { Carried } from './carrying.ts';
import type { ClientResponse } from './client.ts';
import { ClientAnswer } from './client-answer.ts';
import type { UpstreamConnection } from './connection.ts';
import { UNWATCHED, type Waiting } from './deadlines.ts';
import { ClientBodyError, ClientGoneError, DeadlineError, faultOf, QueueFullError } from './faults.ts';
import type { ForwardHooks, ForwardRequest, ForwardResult } from './forwarding.ts';
import type { ConsumerShare, Place, Turn, Upstream } from './upstream.ts';

export type { ForwardHooks, ForwardRequest, ForwardResult } from './forwarding.ts';

/**
 * Sends one request to the upstream and its answer to the client, both streaming, each side no faster than the other.
 * Every wait has a deadline: for a connection and for the head `responseTimeoutMs` each, between two pieces of the body
 * `bodyTimeoutMs`, for a client that does not read `writeTimeoutMs`. A request with a body takes a connection when the
 * first byte of the body has come, and none of these deadlines runs before that.
 * @param share of its consumer, in which room is reserved for the request
 * @returns a way to break it off from outside; `reason` (a ClientBodyError) decides how it ends
 */
export function forward(
  upstream: Upstream,
  share: ConsumerShare,
  request: ForwardRequest,
  response: ClientResponse,
  hooks: ForwardHooks,
): { readonly breakOff: (reason: Error) => void } {
  const forwarding = new Forwarding(upstream, share, request, response, hooks);
  forwarding.begin();
  return forwarding;
}

/** Attack: early hints without an end, for a client that does not read, fill the memory. Further ones are left out. */
const MAX_HINTS = 8;

const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

class Forwarding implements Carried, Turn, Waiting {
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  place: Place | null = null;
  readonly share: ConsumerShare;
  #wait: DeadlineError['wait'] | 'client' = 'connection';
  #waitMs = 0;
  readonly #upstream: Upstream;
  readonly #request: ForwardRequest;
  readonly #response: ClientResponse;
  readonly #hooks: ForwardHooks;
  #connection: UpstreamConnection | null = null;
  #settled = false;
  /** Whether a single byte of an answer has come. */
  #answerBegun = false;
  #retried = false;
  #hints = 0;
  #drained: (() => void) | null = null;
  /** Stops waiting for the first byte of the body. */
  #stopWaiting: (() => void) | null = null;
  readonly #answer: ClientAnswer;

  constructor(
    upstream: Upstream,
    share: ConsumerShare,
    request: ForwardRequest,
    response: ClientResponse,
    hooks: ForwardHooks,
  ) {
    this.#upstream = upstream;
    this.share = share;
    this.#request = request;
    this.#response = response;
    this.#answer = new ClientAnswer(response);
    this.#hooks = hooks;
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
    // In the queue. A free connection has been had by now.
    else if (!this.#settled && this.deadlineAtMs === Number.POSITIVE_INFINITY) {
      this.#waitFor('connection', this.#upstream.options.responseTimeoutMs);
    }
  }

  onTarget(target: string): void {
    this.#hooks.taken(target);
  }

  onConnecting(): void {
    // A connection has a shorter deadline of its own, kept where it is made; this one bounds all the tries together.
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
    this.#answerBegun = true;
    if (status === 103 && this.#hints++ < MAX_HINTS) this.#hooks.earlyHints(fields);
  }

  onHead(head: AnswerHead): void {
    this.#answerBegun = true;
    this.#upstream.answered(this);
    this.#hooks.head(head);
    this.#answer.begun();
    // Its time begins when all that has come is told (`onPause`), where that is not the whole of it.
    this.#wait = 'body';
  }

  onData(chunk: Buffer): void {
    this.#hooks.chunk(chunk.length);
    this.#answer.add(chunk);
  }

  onPause(): void {
    if (this.#settled || !this.#response.headersSent) return;
    this.#flush();
    if (this.#wait === 'body') this.#waitFor('body', this.#upstream.options.bodyTimeoutMs);
  }

  onWhole(): void {
    if (!this.#settled && this.#answer.isLarge) this.#answer.flush();
  }

  get hasLetGo(): boolean {
    return !this.#settled && this.#answer.hasLetGo;
  }

  onEnd(): void {
    if (this.#settled) return;
    this.#answer.end();
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
    // While its body is still on the way a target may have closed because of the body: that is no failure of its own.
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
    // The upstream's time for its head begins when it has the whole request; until then `requestTimeout` watches the client.
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
    if (this.#answer.flush() || this.#wait === 'client') return;
    this.#connection?.pause();
    this.#waitFor('client', this.#hooks.writeTimeoutMs);
    // Once, and of nobody who does without: hardly any client has to be waited for.
    this.#drained ??= () => this.#onDrain();
    this.#response.once('drain', this.#drained);
  }

  #onDrain(): void {
    if (this.#settled) return;
    this.#waitFor('body', this.#upstream.options.bodyTimeoutMs);
    this.#connection?.resume();
  }

  /**
   * One silent retry, of a request that may be repeated (RFC 9110 section 9.2.2) and has no body, when the connection had
   * been used before and died before any byte of an answer. Nobody is charged for it twice: admission is over.
   */
  #mayRetry(): boolean {
    const { method, body } = this.#request;
    if (this.#retried || this.#settled || this.#answerBegun) return false;
    return body === null && IDEMPOTENT.has(method) && this.#connection?.diedOfAge === true;
  }

  readonly #onClientClose = (): void => this.breakOff(new ClientGoneError('the client left'));

  #waitForHead(): void {
    this.#waitFor('head', this.#upstream.options.responseTimeoutMs);
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
      // A clean end would pass for a whole answer. A reset shows even where the client reads until the connection closes.
      this.#flush();
      this.#settle({ kind: 'broken', fault: faultOf(error) });
      const { socket } = this.#response;
      // What was written leaves first.
      if (socket !== null) setImmediate(() => socket.resetAndDestroy());
    } else this.#settle({ kind: 'failed', fault: faultOf(error) });
  }

  /** Gives the connection back; one whose answer is not whole is of no more use. */
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
