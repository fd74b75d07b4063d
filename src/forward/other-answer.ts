import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Deadlines, UNWATCHED, type Waiting } from './deadlines.ts';
import { ClientGoneError, DeadlineError, faultOf } from './faults.ts';
import type { ForwardResult } from './forwarding.ts';

export interface OtherAnswerOptions {
  readonly deadlines: Deadlines;
  /** Longest silence of the upstream. */
  readonly bodyTimeoutMs: number;
  /** A client that does not read is given up after this long. */
  readonly writeTimeoutMs: number;
  readonly chunk: (bytes: number) => void;
  /** Called once. */
  readonly done: (result: ForwardResult) => void;
}

/** The body of an answer that is no 101 to a request for an upgrade, on its way to a client whose head has been written. */
export class OtherAnswer implements Waiting {
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  readonly #answer: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #options: OtherAnswerOptions;
  #waitsForClient = false;
  #settled = false;

  constructor(answer: IncomingMessage, response: ServerResponse, options: OtherAnswerOptions) {
    this.#answer = answer;
    this.#response = response;
    this.#options = options;
  }

  pass(): void {
    const answer = this.#answer;
    this.#response.flushHeaders();
    this.#response.once('close', this.#onClientClose);
    this.#options.deadlines.watch(this);
    this.#waitFor(false);
    answer.on('data', this.#onData);
    answer.once('end', this.#onEnd);
    answer.on('error', (error) => this.#break(error));
    answer.once('close', () => this.#break(new Error('the upstream closed the connection')));
  }

  onDeadline(): void {
    if (this.#waitsForClient) this.#break(new ClientGoneError('the client does not read'));
    else this.#break(new DeadlineError('body', this.#options.bodyTimeoutMs));
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#options.chunk(chunk.length);
    this.#waitFor(false);
    if (this.#response.write(chunk)) return;
    this.#answer.pause();
    this.#waitFor(true);
    // Of a response that the server has let go of, only its connection says when it has room again.
    this.#response.socket?.once('drain', () => {
      if (this.#settled) return;
      this.#waitFor(false);
      this.#answer.resume();
    });
  };

  readonly #onEnd = (): void => {
    if (this.#settled) return;
    if (!this.#answer.complete) {
      this.#break(new Error('the upstream closed the connection'));
      return;
    }
    this.#settle({ kind: 'answered' });
    const response = this.#response;
    const timer = setTimeout(() => response.destroy(), this.#options.writeTimeoutMs);
    // An answer that node:http has not begun itself never closes: its connection does.
    for (const ending of [response, response.socket]) ending?.once('close', () => clearTimeout(timer));
    response.end();
  };

  readonly #onClientClose = (): void => this.#break(new ClientGoneError('the client left'));

  #break(error: Error): void {
    if (this.#settled) return;
    const isGone = error instanceof ClientGoneError;
    const { socket } = this.#response;
    this.#settle(isGone ? { kind: 'client_gone', cause: error.message } : { kind: 'broken', fault: faultOf(error) });
    // A clean end would pass for a whole answer.
    socket?.resetAndDestroy();
    this.#response.destroy();
  }

  #waitFor(client: boolean): void {
    const { deadlines, bodyTimeoutMs, writeTimeoutMs } = this.#options;
    this.#waitsForClient = client;
    this.deadlineAtMs = deadlines.nowMs() + (client ? writeTimeoutMs : bodyTimeoutMs);
  }

  #settle(result: ForwardResult): void {
    this.#settled = true;
    this.#options.deadlines.forget(this);
    this.#response.removeListener('close', this.#onClientClose);
    this.#options.done(result);
  }
}
