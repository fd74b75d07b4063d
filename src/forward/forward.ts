import type { ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import { BadAnswerError, ClientBodyError, ClientGoneError, DeadlineError, faultOf, QueueFullError } from './faults.ts';
import type { ForwardHooks, ForwardRequest, ForwardResult } from './forwarding.ts';
import type { Turn, Upstream } from './upstream.ts';

export type { ForwardHooks, ForwardRequest, ForwardResult } from './forwarding.ts';

/**
 * Sends one request to the upstream and its answer to the client, both streaming, each side no faster than the other.
 * Every wait has a deadline: for a connection and for the head `responseTimeoutMs` each, between two pieces of the body
 * `bodyTimeoutMs`, for a client that does not read `writeTimeoutMs`. `done` is called exactly once.
 * @returns a way to break it off from outside; `reason` (a ClientBodyError) decides how it ends
 */
export function forward(
  upstream: Upstream,
  request: ForwardRequest,
  response: ServerResponse,
  hooks: ForwardHooks,
  done: (result: ForwardResult) => void,
): { readonly breakOff: (reason: Error) => void } {
  const forwarding = new Forwarding(upstream, request, response, hooks, done);
  forwarding.enter();
  return forwarding;
}

const IDEMPOTENT: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

class Forwarding implements Dispatcher.DispatchHandler, Turn {
  readonly #upstream: Upstream;
  readonly #request: ForwardRequest;
  readonly #response: ServerResponse;
  readonly #hooks: ForwardHooks;
  readonly #done: (result: ForwardResult) => void;
  #controller: Dispatcher.DispatchController | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** What broke, where the gateway itself broke it off: undici reports only that it was aborted. */
  #reason: Error | null = null;
  #started = false;
  #settled = false;
  #left = false;
  /** Whether a single byte of an answer has come. */
  #answerBegun = false;
  #retried = false;
  #bodyBegun = false;

  constructor(
    upstream: Upstream,
    request: ForwardRequest,
    response: ServerResponse,
    hooks: ForwardHooks,
    done: (result: ForwardResult) => void,
  ) {
    this.#upstream = upstream;
    this.#request = request;
    this.#response = response;
    this.#hooks = hooks;
    this.#done = done;
  }

  enter(): void {
    this.#response.once('close', this.#onClientClose);
    this.#wait('connection', this.#upstream.options.responseTimeoutMs);
    if (this.#upstream.enter(this)) return;
    this.#left = true;
    this.#fail(new QueueFullError());
  }

  start(): void {
    this.#started = true;
    // From here on it is the upstream that is waited for, and no longer a place at it.
    this.#waitForHead();
    this.#request.body?.once('end', this.#onBodySent);
    this.#upstream.dispatch(this.#dispatched(), this);
  }

  #dispatched(): Dispatcher.DispatchOptions {
    const { method, target, fields, body } = this.#request;
    return { path: target, method: method as Dispatcher.HttpMethod, headers: [...fields], body };
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#reason !== null) controller.abort(this.#reason);
    else this.#waitForHead();
  }

  onResponseStarted(): void {
    this.#answerBegun = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const raw = (controller.rawHeaders ?? []) as Buffer[];
    if (status < 200) {
      if (status === 103) this.#hooks.earlyHints(raw);
      return;
    }
    if (status > 599) throw new BadAnswerError(`status ${status}`);
    const { fields, closes } = this.#hooks.head(status, raw);
    if (closes) this.#response.shouldKeepAlive = false;
    this.#response.writeHead(status, fields);
    this.#wait('body', this.#upstream.options.bodyTimeoutMs);
    queueMicrotask(this.#flushHead);
  }

  /** Node holds a head back until there is some body. What has come with it has been written by now; more may be long in coming. */
  readonly #flushHead = (): void => {
    if (!this.#settled && !this.#bodyBegun) this.#response.flushHeaders();
  };

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#hooks.chunk(chunk.length);
    this.#bodyBegun = true;
    if (this.#response.write(chunk)) {
      this.#timer?.refresh();
      return;
    }
    controller.pause();
    this.#startTimer(this.#hooks.writeTimeoutMs, () => this.breakOff(new ClientGoneError('the client does not read')));
    this.#response.once('drain', () => {
      if (this.#settled) return;
      this.#wait('body', this.#upstream.options.bodyTimeoutMs);
      controller.resume();
    });
  }

  onResponseEnd(): void {
    const { breaking } = this.#upstream;
    if (breaking !== null) {
      this.onResponseError(null, breaking);
      return;
    }
    this.#leave();
    if (this.#settled) return;
    this.#response.end();
    this.#settle({ kind: 'answered' });
    this.#untilRead();
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#mayRetry(error)) {
      this.#retried = true;
      this.#upstream.dispatchFresh(this.#dispatched(), this);
      return;
    }
    this.#leave();
    this.#fail(this.#reason ?? error);
  }

  /**
   * One silent retry, of a request that may be repeated (RFC 9110 section 9.2.2) and has no body, when the connection had
   * been used before and died before any byte of an answer. Nobody is charged for it twice: admission is over.
   */
  #mayRetry(error: Error): boolean {
    const { method, body } = this.#request;
    if (this.#retried || this.#settled || this.#reason !== null || this.#answerBegun) return false;
    return body === null && IDEMPOTENT.has(method) && this.#upstream.wasUsed(error);
  }

  readonly #onClientClose = (): void => this.breakOff(new ClientGoneError('the client left'));

  readonly #onBodySent = (): void => {
    if (!this.#settled && !this.#response.headersSent) this.#waitForHead();
  };

  /**
   * The upstream's time for its head begins when it has the whole request. While the client has still to send some of
   * it, and nothing of what it sent waits here, the client is the slow one, and `requestTimeout` watches it.
   */
  #waitForHead(): void {
    const { body } = this.#request;
    const ms = this.#upstream.options.responseTimeoutMs;
    this.#startTimer(ms, () => {
      if (body !== null && !body.readableEnded && body.readableLength === 0) this.#waitForHead();
      else this.breakOff(new DeadlineError('head', ms));
    });
  }

  #wait(wait: DeadlineError['wait'], ms: number): void {
    this.#startTimer(ms, () => this.breakOff(new DeadlineError(wait, ms)));
  }

  #startTimer(ms: number, late: () => void): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(late, ms);
  }

  /** Breaks off at once; undici reports the end of what it had started in its own time. */
  breakOff(reason: Error): void {
    if (this.#settled) return;
    this.#reason = reason;
    if (!this.#started) this.#leave();
    this.#controller?.abort(reason);
    this.#fail(reason);
  }

  #fail(error: Error): void {
    if (this.#settled) return;
    const { req } = this.#response;
    if (error instanceof ClientGoneError || (req.destroyed && !req.complete && !(error instanceof ClientBodyError))) {
      this.#settle({ kind: 'client_gone' });
      this.#response.destroy();
    } else if (this.#response.headersSent) {
      // A clean end would pass for a whole answer. A reset shows even where the client reads until the connection closes.
      this.#settle({ kind: 'broken', fault: faultOf(error) });
      this.#response.socket?.resetAndDestroy();
    } else this.#settle({ kind: 'failed', fault: faultOf(error) });
  }

  #leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#upstream.leave(this);
  }

  #settle(result: ForwardResult): void {
    this.#settled = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#response.removeListener('close', this.#onClientClose);
    this.#done(result);
  }

  /** What is left of the answer in our buffers when the upstream has sent it all waits for the client no longer than the rest. */
  #untilRead(): void {
    const response = this.#response;
    if (response.writableFinished) return;
    const timer = setTimeout(() => response.destroy(), this.#hooks.writeTimeoutMs);
    response.once('close', () => clearTimeout(timer));
  }
}
