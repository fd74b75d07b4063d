import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { UNWATCHED, type Waiting } from './deadlines.ts';
import { dial } from './dial.ts';
import { BadAnswerError, ClientGoneError, DeadlineError, faultOf } from './faults.ts';
import type { ForwardResult } from './forwarding.ts';
import { OtherAnswer } from './other-answer.ts';
import { Tunnel, type TunnelRecord } from './tunnel.ts';
import { checkSwitch, readOtherHead } from './upgrade-answer.ts';
import type { UpgradeClient } from './upgrade-client.ts';
import { type Asked, askForUpgrade } from './upgrade-proxy.ts';
import type { Loan, LoanOutcome, Upstream } from './upstream.ts';

export interface UpgradeRequest {
  /** Path and query, byte for byte as they were routed. */
  readonly target: string;
  /** All fields but Host, Connection and Upgrade. */
  readonly fields: readonly string[];
  /** As the client wrote it in Upgrade. */
  readonly protocol: string;
  /** Sec-WebSocket-Key; null for another protocol than WebSocket. */
  readonly key: string | null;
}

/** How asking for an upgrade ended. */
export type UpgradeResult = ForwardResult | { readonly kind: 'upgraded'; readonly tunnel: Tunnel };

export interface UpgradeHooks {
  /** A target was taken for the request: again for each further one, where no connection to it came about. */
  readonly taken: (target: string) => void;
  /** The fields of the answer as the client is to get them, without those that only make a 101; called once. */
  readonly head: (status: number, fields: readonly string[]) => string[];
  /** Bytes of an answer that is no 101. */
  readonly chunk: (bytes: number) => void;
  readonly writeTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly finTimeoutMs: number;
  /** After an upgrade, once: both connections have ended. */
  readonly closed: (record: TunnelRecord) => void;
}

/**
 * Asks an upstream for what a client asks for, and joins their connections where it agrees. Any other answer is passed
 * on, and the client's connection ends with it. `connectTimeoutMs` bounds each connection, `responseTimeoutMs` the whole
 * wait for a head. A client that leaves takes the upstream's connection with it at once. `done` is called exactly once.
 * @param response assigned to the client's connection, nothing sent
 */
export function upgrade(
  upstream: Upstream,
  request: UpgradeRequest,
  client: UpgradeClient,
  response: ServerResponse,
  hooks: UpgradeHooks,
  done: (result: UpgradeResult) => void,
): { readonly breakOff: (reason: Error) => void } {
  const upgrading = new Upgrading(upstream, request, client, response, hooks, done);
  upgrading.start();
  return upgrading;
}

class Upgrading implements Waiting {
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  readonly #upstream: Upstream;
  readonly #request: UpgradeRequest;
  readonly #client: UpgradeClient;
  readonly #response: ServerResponse;
  readonly #hooks: UpgradeHooks;
  readonly #done: (result: UpgradeResult) => void;
  #loan: Loan | null = null;
  #giveUp: (() => void) | null = null;
  #socket: Socket | null = null;
  #settled = false;

  constructor(
    upstream: Upstream,
    request: UpgradeRequest,
    client: UpgradeClient,
    response: ServerResponse,
    hooks: UpgradeHooks,
    done: (result: UpgradeResult) => void,
  ) {
    this.#upstream = upstream;
    this.#request = request;
    this.#client = client;
    this.#response = response;
    this.#hooks = hooks;
    this.#done = done;
  }

  start(): void {
    const { deadlines, options, targets } = this.#upstream;
    this.#response.once('close', this.#onClientClose);
    this.deadlineAtMs = deadlines.nowMs() + options.responseTimeoutMs;
    deadlines.watch(this);
    this.#connect(targets.length);
  }

  onDeadline(): void {
    this.#fail(new DeadlineError('head', this.#upstream.options.responseTimeoutMs));
  }

  breakOff(reason: Error): void {
    this.#fail(reason);
  }

  readonly #onClientClose = (): void => this.#fail(new ClientGoneError('the client left'));

  /** @param tries targets that may be tried, this one included: nothing has been sent to those before */
  #connect(tries: number): void {
    try {
      this.#loan = this.#upstream.borrow();
    } catch (error) {
      this.#fail(error);
      return;
    }
    const { address, target } = this.#loan;
    this.#hooks.taken(target);
    this.#giveUp = dial(
      address,
      this.#upstream.options,
      (socket) => {
        this.#giveUp = null;
        this.#ask(socket, address.authority);
      },
      (error) => {
        this.#giveUp = null;
        if (tries <= 1) this.#fail(error);
        else {
          this.#giveBack('unreachable');
          this.#connect(tries - 1);
        }
      },
    );
  }

  #ask(socket: Socket, authority: string): void {
    this.#socket = socket;
    // Either side may close its half and go on reading; has to be said before it happens.
    socket.allowHalfOpen = true;
    const { target, fields, protocol } = this.#request;
    try {
      const asked = askForUpgrade(this.#client.socket, socket, {
        target,
        authority,
        fields: [...fields, 'Connection', 'Upgrade', 'Upgrade', protocol],
      });
      this.#listen(asked, asked.request);
    } catch (error) {
      this.#fail(error);
    }
  }

  #listen(asked: Asked, request: ClientRequest): void {
    request.once('upgrade', (answer, socket, early) => {
      if (this.#settled) return;
      try {
        this.#agreed(asked, answer, socket as Socket, early);
      } catch (error) {
        this.#fail(error);
      }
    });
    request.once('response', (answer) => {
      if (this.#settled) return;
      try {
        this.#refused(answer);
      } catch (error) {
        this.#fail(error);
      }
    });
    request.on('information', ({ statusCode }) => {
      if (statusCode === 101) this.#fail(new BadAnswerError('101 without the fields of an upgrade'));
    });
    request.on('error', (error) => this.#fail(error));
    request.once('close', () => this.#fail(new Error('the upstream closed the connection')));
  }

  #agreed(asked: Asked, answer: IncomingMessage, upstream: Socket, early: Buffer): void {
    const { protocol, key } = this.#request;
    checkSwitch(answer, protocol, key);
    const fields = this.#hooks.head(101, answer.rawHeaders);
    const { deadlines } = this.#upstream;
    this.#giveBack('answered');
    this.#socket = null;
    const client = this.#client.release();
    this.#response.removeListener('close', this.#onClientClose);
    this.#response.detachSocket(client);
    const { idleTimeoutMs: idleMs, finTimeoutMs: finMs, closed: onEnd } = this.#hooks;
    const tunnel = new Tunnel(client, upstream, { idleMs, finMs, deadlines, onEnd });
    this.#settle({ kind: 'upgraded', tunnel });
    asked.join(answer, upstream, early, ['Connection', 'Upgrade', 'Upgrade', protocol, ...fields]);
    tunnel.count();
  }

  /** An ordinary answer: the connection stays with HTTP, and ends with it. */
  #refused(answer: IncomingMessage): void {
    const { status, fields } = readOtherHead(answer);
    this.#response.writeHead(status, this.#hooks.head(status, fields));
    this.#giveBack('answered');
    const socket = this.#socket;
    this.#upstream.deadlines.forget(this);
    this.#response.removeListener('close', this.#onClientClose);
    this.#settled = true;
    new OtherAnswer(answer, this.#response, {
      deadlines: this.#upstream.deadlines,
      bodyTimeoutMs: this.#upstream.options.bodyTimeoutMs,
      writeTimeoutMs: this.#hooks.writeTimeoutMs,
      chunk: this.#hooks.chunk,
      done: (result) => {
        socket?.destroy();
        this.#done(result);
      },
    }).pass();
  }

  #fail(error: unknown): void {
    if (this.#settled) return;
    const isGone = error instanceof ClientGoneError;
    this.#giveBack(isGone ? 'abandoned' : this.#socket === null ? 'unreachable' : 'failed');
    this.#giveUp?.();
    // Attack: http-proxy-3 leaves this connection open, so that clients that leave use up the upstream's.
    this.#socket?.destroy();
    this.#response.removeListener('close', this.#onClientClose);
    this.#settle(isGone ? { kind: 'client_gone', cause: error.message } : { kind: 'failed', fault: faultOf(error) });
  }

  #giveBack(outcome: LoanOutcome): void {
    this.#loan?.done(outcome);
    this.#loan = null;
  }

  #settle(result: UpgradeResult): void {
    this.#settled = true;
    this.#upstream.deadlines.forget(this);
    this.#done(result);
  }
}
