import { Agent, type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ProxyServer } from 'http-proxy-3';
import { BadResponseError } from '../../http1/response-head.ts';
import { type Timed, UNWATCHED } from '../../io/deadlines.ts';
import { interceptDestroySoon, leaveConnection, requestOn, setTarget } from '../../io/node-internals.ts';
import { SharedBufferSocket } from '../../io/read-buffers.ts';
import { hasWaiting, rawOf } from '../../io/tls-carrier.ts';
import { ClientGoneError, DeadlineError, type ForwardResult, faultOf } from '../faults.ts';
import type { AnswerBodyReader, ResponseTimeouts } from '../forward.ts';
import { dial } from '../upstream/dial.ts';
import type { LeaseOutcome, TargetLease, Upstream } from '../upstream/upstream.ts';
import type { RequestAddress } from '../upstream/upstream-connection.ts';
import { Tunnel, type TunnelRecord } from './tunnel.ts';
import { checkSwitch, NonUpgradeResponse, readOtherHead } from './upgrade-response.ts';

interface UpgradeRequest {
  /** Path and query, exactly as they were routed, or as the route rewrites them. */
  readonly target: string;
  /** As of a `ConnectionWaiter`. */
  readonly affinity: string | null;
  /** Null for the authority of the target. */
  readonly host: string | null;
  /** All fields except Host, Connection and Upgrade. */
  readonly fields: readonly string[];
  /** The client's value of Upgrade. */
  readonly protocol: string;
  /** Sec-WebSocket-Key; null for a protocol other than WebSocket. */
  readonly key: string | null;
}

/** How the request for an upgrade ended. */
export type UpgradeResult = ForwardResult | { readonly kind: 'upgraded'; readonly tunnel: Tunnel };

interface UpgradeHooks {
  /**
   * A target was chosen for the request. Called again for each further target, if the one before could not be connected
   * to.
   */
  readonly taken: (target: string) => void;
  /** Makes the fields of the client's response, without those that only a 101 has. Called once. */
  readonly head: (status: number, fields: readonly string[]) => string[];
  /** Called with the size of each piece of a response other than 101. */
  readonly chunk: (bytes: number) => void;
  /** Reads the body of such a response; null if the gateway does not read it. */
  readonly reader: AnswerBodyReader | null;
  /** Called when the request is about to be written to a connection. */
  readonly sent: () => void;
  readonly writeTimeoutMs: number;
  /** Deadlines that replace those of the upstream; null for those of the upstream. */
  readonly timeouts: ResponseTimeouts | null;
  readonly idleTimeoutMs: number;
  readonly finTimeoutMs: number;
  /** The thread has worked for the upgraded connection since `fromMs` (monotonic). */
  readonly worked: (fromMs: number, toMs: number) => void;
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
  readonly #timeouts: ResponseTimeouts;
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
    this.#timeouts = hooks.timeouts ?? upstream.options;
    this.#done = done;
  }

  start(): void {
    const { deadlines, targets } = this.#upstream;
    this.#response.once('close', this.#onClientClose);
    this.deadlineAtMs = deadlines.nowMs() + this.#timeouts.responseTimeoutMs;
    deadlines.watch(this);
    this.#connect(targets.length);
  }

  onDeadline(): void {
    // The service is not late: the gateway has yet to process what it has sent. So this looks at it again later.
    if (this.#socket !== null && hasWaiting(this.#socket)) this.deadlineAtMs = this.#upstream.deadlines.nowMs();
    else this.#fail(new DeadlineError('head', this.#timeouts.responseTimeoutMs));
  }

  breakOff(reason: Error): void {
    this.#fail(reason);
  }

  readonly #onClientClose = (): void => this.#fail(new ClientGoneError('the client left'));

  /** @param tries how many targets may be tried, including this one; nothing has been sent to those tried before */
  #connect(tries: number): void {
    try {
      this.#lease = this.#upstream.lease(this.#request.affinity);
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
        this.#ask(socket, address);
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

  #ask(socket: Socket, { authority, base }: RequestAddress): void {
    this.#socket = socket;
    // Either side may close its half and continue to read. This must be set before that happens.
    socket.allowHalfOpen = true;
    // Bytes of the service are read in the turns of the client to which they go.
    const [client, service] = [rawOf(this.#client.socket), rawOf(socket)];
    if (client instanceof SharedBufferSocket && service instanceof SharedBufferSocket) service.owner = client.owner;
    const { target, host, fields, protocol } = this.#request;
    this.#hooks.sent();
    try {
      const asked = askForUpgrade(this.#client.socket, socket, {
        target: base + target,
        authority: host ?? authority,
        fields: [...fields, 'Connection', 'Upgrade', 'Upgrade', protocol],
      });
      this.#listen(asked, asked.request);
    } catch (error) {
      this.#fail(error);
    }
  }

  #listen(asked: SentUpgrade, request: ClientRequest): void {
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

  #agreed(asked: SentUpgrade, answer: IncomingMessage, upstream: Socket, early: Buffer): void {
    const { protocol, key } = this.#request;
    checkSwitch(answer, protocol, key);
    const fields = this.#hooks.head(101, answer.rawHeaders);
    const { deadlines } = this.#upstream;
    this.#release('answered');
    this.#socket = null;
    const client = this.#client.release();
    this.#response.removeListener('close', this.#onClientClose);
    leaveConnection(this.#response, client);
    const { idleTimeoutMs: idleMs, finTimeoutMs: finMs, closed: onEnd, worked } = this.#hooks;
    const tunnel = new Tunnel(client, upstream, { idleMs, finMs, deadlines, worked, onEnd });
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
      bodyTimeoutMs: this.#timeouts.bodyTimeoutMs,
      writeTimeoutMs: this.#hooks.writeTimeoutMs,
      chunk: this.#hooks.chunk,
      reader: this.#hooks.reader,
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

/** How many bytes a client may send ahead of the response before its connection is paused. */
const HELD_BYTES = 64 * 1024;

/**
 * The connection of a client that asks for a protocol other than HTTP, until the upstream has agreed or refused.
 *
 * Attack: the bytes after the request belong to the other protocol only once the upstream has agreed to it. If they
 * were forwarded before, the upstream could read them as a request that the gateway has not checked (CVE-2026-2833). So
 * they are held here. Reading them also shows early that the client has disconnected.
 */
export class UpgradeClient {
  readonly socket: Socket;
  readonly #held: Buffer[] = [];
  #bytes = 0;

  /** @param early bytes that arrived in the same packet as the request */
  constructor(socket: Socket, early: Buffer) {
    this.socket = socket;
    // The deadlines of HTTP no longer apply to this connection.
    socket.setTimeout(0);
    socket.on('error', this.#leave);
    socket.once('end', this.#leave);
    socket.on('data', this.#hold);
    if (early.length > 0) this.#hold(early);
  }

  /** Stops reading the connection. The bytes that were held are the first that its next reader gets. */
  release(): Socket {
    const { socket } = this;
    socket.removeListener('data', this.#hold);
    socket.removeListener('end', this.#leave);
    socket.pause();
    if (this.#bytes > 0) socket.unshift(Buffer.concat(this.#held));
    this.#held.length = 0;
    return socket;
  }

  readonly #hold = (chunk: Buffer): void => {
    this.#held.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes >= HELD_BYTES) this.socket.pause();
  };

  readonly #leave = (): void => {
    this.socket.destroy();
  };
}

/** The request that is sent to the upstream. */
interface UpgradeAsk {
  /** Path and query, exactly as they were routed. */
  readonly target: string;
  /** The value of Host. */
  readonly authority: string;
  /** All other fields, including Connection and Upgrade: names and values alternating. */
  readonly fields: readonly string[];
}

/** A request for an upgrade that has been sent. The caller listens for `upgrade`, `response` and `error` on it. */
interface SentUpgrade {
  readonly request: ClientRequest;
  /**
   * Joins both connections after the upstream has agreed: writes the head of the 101 to the client, then lets bytes
   * flow.
   * @param fields of the 101 that the client gets, names and values alternating
   */
  join(answer: IncomingMessage, upstream: Socket, early: Buffer, fields: readonly string[]): void;
}

type Join = (answer: IncomingMessage, upstream: Socket, early: Buffer) => void;

/**
 * Sends the request through http-proxy-3, which in the end also joins both sides. Version 2.0.1 has faults that are
 * worked around here:
 * - it closes the client's connection when the upstream fails, relays any other response without backpressure or a
 *   check that it is complete, and joins on any response that claims to be a 101. So its listeners for these events are
 *   removed before a response can arrive, and its listener that joins is called once the 101 has been checked;
 * - it throws synchronously (`ERR_INVALID_CHAR`), and emits `error` even without a listener, so there is a listener;
 * - it rewrites paths (`toProxy` keeps all but a final `?`) and copies every field of the request. So it gets a request
 *   without fields, and the fields as `headers`;
 * - it accepts only `Upgrade: websocket`, so its request has that. Whether the request may be upgraded has already been
 *   decided;
 * - it writes the 101 as UTF-8, which would change bytes above 127.
 *
 * @param client the client's socket, which `UpgradeClient` is still reading
 * @param upstream connected
 * @throws Error if the request cannot be written as HTTP
 */
function askForUpgrade(client: Socket, upstream: Socket, { target, authority, fields }: UpgradeAsk): SentUpgrade {
  const proxy = new ProxyServer();
  proxy.on('error', () => {});
  let sent: ClientRequest | null = null;
  proxy.once('proxyReqWs', (request) => {
    sent = request;
    // Restores the path that http-proxy-3 rewrote. Node checks a path only when a request is created.
    if (!/^[!-~]+$/.test(target)) throw new Error('a target that cannot be written');
    setTarget(request, target);
  });
  const headers = grouped(['Host', authority, ...fields]);
  const options = {
    target: { protocol: 'http:', host: authority, port: 80 },
    agent: new OneConnection(upstream),
    toProxy: true,
    changeOrigin: false,
    xfwd: false,
    headers,
  };
  proxy.ws(bareRequest(client, target), client, Buffer.alloc(0), options, () => {});
  const request = sent as ClientRequest | null;
  const joins = (request?.listeners('upgrade') ?? []) as Join[];
  if (request === null || joins.length !== 1) throw new Error('http-proxy-3 has not asked');
  for (const event of ['upgrade', 'response', 'error']) request.removeAllListeners(event);
  return {
    request,
    join: (answer, socket, early, responseFields) => {
      answer.headers = grouped(responseFields);
      client.setDefaultEncoding('latin1');
      // http-proxy-3 would end the client's connection when the upstream's breaks. The tunnel decides that instead.
      interceptDestroySoon(client, () => {});
      joins[0]!(answer, socket, early);
    },
  };
}

/** An agent that gives its only request a connection that is already open. */
class OneConnection extends Agent {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ keepAlive: false });
    this.#socket = socket;
  }

  override createConnection(): Socket {
    return this.#socket;
  }
}

function bareRequest(client: Socket, target: string): IncomingMessage {
  const request = requestOn(client);
  request.method = 'GET';
  request.url = target;
  request.httpVersion = '1.1';
  request.httpVersionMajor = 1;
  request.httpVersionMinor = 1;
  request.headers = { upgrade: 'websocket' };
  return request;
}

/** Fields by name; the values of a repeated field become a list, in their order. */
function grouped(fields: readonly string[]): Record<string, string | string[]> {
  const byName = new Map<string, { readonly name: string; readonly values: string[] }>();
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i]!;
    const known = byName.get(name.toLowerCase());
    if (known === undefined) byName.set(name.toLowerCase(), { name, values: [fields[i + 1]!] });
    else known.values.push(fields[i + 1]!);
  }
  return Object.fromEntries(
    [...byName.values()].map(({ name, values }) => [name, values.length === 1 ? values[0]! : values]),
  );
}
