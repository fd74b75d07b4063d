import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { BadResponseError } from '../../http1/response-head.ts';
import { type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { leaveConnection } from '../../io/node-internals.ts';
import { ClientGoneError, DeadlineError, faultOf } from '../faults.ts';
import type { ForwardResult } from '../forwarding.ts';
import { dial } from '../upstream/dial.ts';
import type { LeaseOutcome, TargetLease, Upstream } from '../upstream/upstream.ts';
import { type Asked, askForUpgrade } from './ask-upgrade.ts';
import { Tunnel, type TunnelRecord } from './tunnel.ts';
import type { UpgradeClient } from './upgrade-client.ts';
import { checkSwitch, NonUpgradeResponse, readOtherHead } from './upgrade-response.ts';

export interface UpgradeRequest {
  /** Path and query, exactly as they were routed. */
  readonly target: string;
  /** All fields except Host, Connection and Upgrade. */
  readonly fields: readonly string[];
  /** The client's value of Upgrade. */
  readonly protocol: string;
  /** Sec-WebSocket-Key; null for a protocol other than WebSocket. */
  readonly key: string | null;
}

/** How the request for an upgrade ended. */
export type UpgradeResult = ForwardResult | { readonly kind: 'upgraded'; readonly tunnel: Tunnel };

export interface UpgradeHooks {
  /**
   * A target was chosen for the request. Called again for each further target, if the one before could not be connected
   * to.
   */
  readonly taken: (target: string) => void;
  /** Makes the fields of the client's response, without those that only a 101 has. Called once. */
  readonly head: (status: number, fields: readonly string[]) => string[];
  /** Called with the size of each piece of a response other than 101. */
  readonly chunk: (bytes: number) => void;
  readonly writeTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly finTimeoutMs: number;
  /** Called once after an upgrade, when both connections have ended. */
  readonly closed: (record: TunnelRecord) => void;
}

/**
 * Asks an upstream for the upgrade that a client asks for, and joins their connections if the upstream agrees. Any
 * other response is forwarded, and the client's connection ends with it. `connectTimeoutMs` bounds each connection
 * attempt, `responseTimeoutMs` the whole wait for a head. If the client disconnects, the upstream's connection is
 * closed at once. `done` is called exactly once.
 * @param response assigned to the client's connection, with nothing sent yet
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

class Upgrading implements Timed {
  deadlineAtMs = Number.POSITIVE_INFINITY;
  slot = UNWATCHED;
  readonly #upstream: Upstream;
  readonly #request: UpgradeRequest;
  readonly #client: UpgradeClient;
  readonly #response: ServerResponse;
  readonly #hooks: UpgradeHooks;
  readonly #done: (result: UpgradeResult) => void;
  #lease: TargetLease | null = null;
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

  /** @param tries how many targets may be tried, including this one; nothing has been sent to those tried before */
  #connect(tries: number): void {
    try {
      this.#lease = this.#upstream.lease();
    } catch (error) {
      this.#fail(error);
      return;
    }
    const { address, target } = this.#lease;
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
          this.#release('unreachable');
          this.#connect(tries - 1);
        }
      },
    );
  }

  #ask(socket: Socket, authority: string): void {
    this.#socket = socket;
    // Either side may close its half and go on reading. This must be set before that happens.
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
      if (statusCode === 101) this.#fail(new BadResponseError('101 without the fields of an upgrade'));
    });
    request.on('error', (error) => this.#fail(error));
    request.once('close', () => this.#fail(new Error('the upstream closed the connection')));
  }

  #agreed(asked: Asked, answer: IncomingMessage, upstream: Socket, early: Buffer): void {
    const { protocol, key } = this.#request;
    checkSwitch(answer, protocol, key);
    const fields = this.#hooks.head(101, answer.rawHeaders);
    const { deadlines } = this.#upstream;
    this.#release('answered');
    this.#socket = null;
    const client = this.#client.release();
    this.#response.removeListener('close', this.#onClientClose);
    leaveConnection(this.#response, client);
    const { idleTimeoutMs: idleMs, finTimeoutMs: finMs, closed: onEnd } = this.#hooks;
    const tunnel = new Tunnel(client, upstream, { idleMs, finMs, deadlines, onEnd });
    this.#settle({ kind: 'upgraded', tunnel });
    asked.join(answer, upstream, early, ['Connection', 'Upgrade', 'Upgrade', protocol, ...fields]);
    tunnel.count();
  }

  /** Forwards a response other than 101. The connection remains an HTTP connection and ends with that response. */
  #refused(answer: IncomingMessage): void {
    const { status, fields } = readOtherHead(answer);
    this.#response.writeHead(status, this.#hooks.head(status, fields));
    this.#release('answered');
    const socket = this.#socket;
    this.#upstream.deadlines.forget(this);
    this.#response.removeListener('close', this.#onClientClose);
    this.#settled = true;
    new NonUpgradeResponse(answer, this.#response, {
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
    this.#release(isGone ? 'abandoned' : this.#socket === null ? 'unreachable' : 'failed');
    this.#giveUp?.();
    // Attack: http-proxy-3 leaves this connection open, so clients that disconnect would use up the upstream's
    // connections.
    this.#socket?.destroy();
    this.#response.removeListener('close', this.#onClientClose);
    this.#settle(isGone ? { kind: 'client_gone', cause: error.message } : { kind: 'failed', fault: faultOf(error) });
  }

  #release(outcome: LeaseOutcome): void {
    this.#lease?.done(outcome);
    this.#lease = null;
  }

  #settle(result: UpgradeResult): void {
    this.#settled = true;
    this.#upstream.deadlines.forget(this);
    this.#done(result);
  }
}
